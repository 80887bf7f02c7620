/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * symmcoll_group_notify(): a function of the program that is told of every
 * operation of a group that has ended, on the callback thread.
 */
#include "group/group.h"

#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Whom a group tells; it does not change. */
struct symc_listener {
    symmcoll_operation_fn fn;
    void *arg;
    struct symc_tick_rate rate;
};

/* One operation that has ended.  It refers to nothing of the group, which may
 * be released before its turn comes. */
struct notice {
    struct symc_callback callback;
    symmcoll_operation_fn fn;
    void *arg;
    struct symmcoll_operation operation;
    char label[SYMC_LABEL_MAX];
    char detail[]; /* where it has failed */
};

/* On the callback thread. */
static void run(struct symc_callback *callback)
{
    struct notice *notice =
        (void *)((char *)callback - offsetof(struct notice, callback));

    if (notice->operation.status < 0)
        symc_fail(notice->operation.status, "%s", notice->detail);
    notice->fn(&notice->operation, notice->arg);
    free(notice);
}

/* From when to when, by the wall clock; and how long, never 0. */
static void put_times(struct symmcoll_operation *operation,
    const struct symc_tick_rate *rate, const struct symc_trace_entry *entry)
{
    uint64_t now = symc_ticks(), created = now, started = now;
    double ns;

    if (entry != NULL) {
        uint64_t completed =
            atomic_load_explicit(&entry->completed, memory_order_relaxed);

        if (completed != 0) /* with its duration */
            now = completed;
        created = __atomic_load_n(&entry->created, __ATOMIC_RELAXED);
        started = __atomic_load_n(&entry->started, __ATOMIC_RELAXED);
    }
    ns = (double)(int64_t)(now - started) * rate->ns_per_tick;
    operation->created = (double)symc_tick_wall_ns(rate, created) / 1e9;
    operation->started = (double)symc_tick_wall_ns(rate, started) / 1e9;
    operation->ended = (double)symc_tick_wall_ns(rate, now) / 1e9;
    operation->duration = (ns > 1 ? ns : 1) / 1e9;
}

void symc_group_tell(struct symmcoll_group *group, const struct symc_op *op,
    const struct symc_trace_entry *entry, symmcoll_status_t status)
{
    const struct symc_listener *listener =
        atomic_load_explicit(&group->listener, memory_order_acquire);
    size_t nbytes = status < 0 ? SYMC_DETAIL_MAX : 0; /* of the detail */
    struct notice *notice;

    if (listener == NULL || symc_kinds[op->kind].counter == SYMC_COUNT_NONE)
        return;
    notice = malloc(sizeof(*notice) + nbytes);
    if (notice == NULL) {
        symc_logf(&group->world->log, SYMC_LOG_WARN,
            "group %s: no memory to tell the program of %s seq %llu",
            group->name, symc_kind_name(op->kind), (unsigned long long)op->seq);
        return;
    }
    notice->callback =
        (struct symc_callback){.run = run, .queue = group->queue};
    notice->fn = listener->fn;
    notice->arg = listener->arg;
    memcpy(notice->label, op->label, sizeof(notice->label));
    notice->operation = (struct symmcoll_operation){
        .name = symc_kind_name(op->kind),
        .label = notice->label,
        .sequence = op->seq,
        .status = status,
    };
    put_times(&notice->operation, &listener->rate, entry);
    if (status < 0)
        snprintf(notice->detail, nbytes, "%s", symmcoll_last_error());
    if (!symc_callbacks_push(
            &group->world->origin->callbacks, &notice->callback))
        free(notice);
}

void symc_group_free_listener(struct symmcoll_group *group)
{
    free(atomic_load(&group->listener));
}

static symmcoll_status_t check(
    struct symmcoll_group *group, symmcoll_operation_fn fn)
{
    if (group == NULL || fn == NULL)
        return symc_fail(SYMMCOLL_ERR_INVALID,
            "group_notify: expected a group and a function, found NULL");
    if (!symc_group_is_member(group)) {
        symc_fail(SYMMCOLL_NOT_MEMBER,
            "group_notify: rank %d is not in group %s", group->world->rank,
            group->name);
        return SYMMCOLL_NOT_MEMBER;
    }
    if (*group->alive != 1)
        return symc_fail(SYMMCOLL_ERR_INVALID,
            "group_notify: expected the process that called init, found a fork "
            "of it");
    if (group->world->config->trace_buffer_size == 0)
        return symc_fail(SYMMCOLL_ERR_INVALID,
            "group_notify: expected trace.buffer_size of 1 or more, whose "
            "entries have the times of operations, found 0");
    return symc_callbacks_start(
        &group->world->origin->callbacks, "group_notify");
}

symmcoll_status_t symmcoll_group_notify(
    struct symmcoll_group *group, symmcoll_operation_fn fn, void *arg)
{
    symmcoll_status_t status = check(group, fn);
    struct symc_listener *made, *none = NULL;

    if (status != SYMMCOLL_OK)
        return status;
    made = symc_alloc(1, sizeof(*made));
    if (made == NULL)
        return SYMMCOLL_ERR_NO_MEMORY;
    made->fn = fn;
    made->arg = arg;
    symc_tick_rate_measure(&made->rate);
    if (!atomic_compare_exchange_strong(&group->listener, &none, made)) {
        free(made);
        return symc_fail(SYMMCOLL_ERR_INVALID,
            "group_notify: expected a group that tells nobody yet, found group "
            "%s, which does",
            group->name);
    }
    atomic_fetch_or(&group->at_end, SYMC_AT_END_TELL);
    return SYMMCOLL_OK;
}
