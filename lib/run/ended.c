/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Functions of the program that the callback thread calls for each operation of
 * a group that has ended.
 */
#include "run/queue.h"

#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* One function and its argument. */
struct listener {
    struct listener *next;
    symmcoll_operation_fn fn;
    void *arg;
    struct symc_tick_rate rate;
    _Atomic uint32_t holders; /* the group's list and notices */
    pthread_mutex_t
        /* held during a call; recursive, as a function may remove itself */
        calling;
    bool removed; /* needs `calling` */
};

/* The functions of a group.  The group keeps the list from the first one on. */
struct symc_listeners {
    pthread_mutex_t lock;
    struct listener *head; /* in the order of addition */
};

/* A call of one function for an ended operation.  It has no reference to the
 * group, which may be released before. */
struct notice {
    struct symc_callback callback;
    struct listener *listener; /* holds a reference */
    struct symmcoll_operation operation;
    char label[SYMC_LABEL_MAX];
    struct symc_error error[]; /* one for a failed operation, else none */
};

static void release(struct listener *listener)
{
    if (atomic_fetch_sub(&listener->holders, 1) != 1)
        return;
    pthread_mutex_destroy(&listener->calling);
    free(listener);
}

static void drop(struct notice *notice)
{
    release(notice->listener);
    free(notice);
}

/* Calls the function, on the callback thread. */
static void run(struct symc_callback *callback)
{
    struct notice *notice =
        (void *)((char *)callback - offsetof(struct notice, callback));
    struct listener *listener = notice->listener;

    if (notice->operation.status < 0)
        (void)symc_error_return(notice->error);
    pthread_mutex_lock(&listener->calling);
    if (!listener->removed)
        listener->fn(&notice->operation, listener->arg);
    pthread_mutex_unlock(&listener->calling);
    drop(notice);
}

/* Converts ticks to wall-clock and monotonic time. */
static void put_moment(const struct symc_tick_rate *rate, uint64_t ticks,
    uint64_t now_ticks, int64_t now_ns, double *wall, double *monotonic)
{
    double ago = (double)(int64_t)(now_ticks - ticks) * rate->ns_per_tick;

    *wall = (double)symc_tick_wall_ns(rate, ticks) / 1e9;
    *monotonic = ((double)now_ns - ago) / 1e9;
}

/* Sets the times of an operation by both clocks, and its duration, never 0. */
static void put_times(struct symmcoll_operation *operation,
    const struct symc_tick_rate *rate, const struct symc_trace_entry *entry)
{
    uint64_t now = symc_ticks(), created = now, started = now, ended = now;
    int64_t now_ns = symc_now_ns();
    double ns;

    if (entry != NULL) {
        uint64_t completed =
            atomic_load_explicit(&entry->completed, memory_order_relaxed);

        if (completed != 0) /* set with a measured duration */
            ended = completed;
        created = __atomic_load_n(&entry->created, __ATOMIC_RELAXED);
        started = __atomic_load_n(&entry->started, __ATOMIC_RELAXED);
    }
    ns = (double)(int64_t)(ended - started) * rate->ns_per_tick;
    put_moment(rate, created, now, now_ns, &operation->created,
        &operation->created_monotonic);
    put_moment(rate, started, now, now_ns, &operation->started,
        &operation->started_monotonic);
    put_moment(rate, ended, now, now_ns, &operation->ended,
        &operation->ended_monotonic);
    operation->duration = (ns > 1 ? ns : 1) / 1e9;
}

/* Queues a call of one function; the error is the thread's current one. */
static void notify(struct symc_runner *runner, struct listener *listener,
    const struct symc_op *op, const struct symc_trace_entry *entry,
    symmcoll_status_t status)
{
    struct notice *notice =
        malloc(sizeof(*notice) + (status < 0 ? sizeof(notice->error[0]) : 0));

    if (notice == NULL) {
        symc_logf(&runner->world->log, SYMC_LOG_WARN,
            "group %s: no memory to report %s seq %llu to the program",
            runner->name, symc_kind_name(op->kind),
            (unsigned long long)op->seq);
        return;
    }
    notice->callback =
        (struct symc_callback){.run = run, .queue = runner->queue};
    notice->listener = listener;
    atomic_fetch_add(&listener->holders, 1);
    memcpy(notice->label, op->label, sizeof(notice->label));
    notice->operation = (struct symmcoll_operation){
        .name = symc_kind_name(op->kind),
        .label = notice->label,
        .sequence = op->seq,
        .status = status,
        .kind = (enum symmcoll_kind)op->kind,
    };
    put_times(&notice->operation, &listener->rate, entry);
    if (status < 0)
        symc_error_keep(notice->error, status);
    if (!symc_callbacks_push(
            &runner->queue->engine->callbacks, &notice->callback))
        drop(notice);
}

void symc_run_notify(struct symc_runner *runner, const struct symc_op *op,
    const struct symc_trace_entry *entry, symmcoll_status_t status)
{
    struct symc_listeners *listeners =
        atomic_load_explicit(&runner->listeners, memory_order_acquire);

    if (listeners == NULL || symc_kinds[op->kind].counter == SYMC_COUNT_NONE)
        return;
    pthread_mutex_lock(&listeners->lock);
    for (struct listener *at = listeners->head; at != NULL; at = at->next)
        notify(runner, at, op, entry, status);
    pthread_mutex_unlock(&listeners->lock);
}

void symc_run_free_listeners(struct symc_runner *runner)
{
    struct symc_listeners *listeners = atomic_load(&runner->listeners);

    while (listeners != NULL && listeners->head != NULL) {
        struct listener *first = listeners->head;

        listeners->head = first->next;
        release(first);
    }
    if (listeners != NULL)
        pthread_mutex_destroy(&listeners->lock);
    free(listeners);
}

/* Returns the group's list and creates it if there is none; NULL: no memory. */
static struct symc_listeners *open_list(struct symc_runner *runner)
{
    struct symc_listeners *made, *found = atomic_load(&runner->listeners);

    if (found != NULL)
        return found;
    made = symc_alloc(1, sizeof(*made));
    if (made == NULL)
        return NULL;
    pthread_mutex_init(&made->lock, NULL);
    if (atomic_compare_exchange_strong(&runner->listeners, &found, made))
        return made;
    pthread_mutex_destroy(&made->lock);
    free(made);
    return found;
}

static struct listener *make_listener(symmcoll_operation_fn fn, void *arg)
{
    struct listener *made = symc_alloc(1, sizeof(*made));
    pthread_mutexattr_t recursive;

    if (made == NULL)
        return NULL;
    made->fn = fn;
    made->arg = arg;
    atomic_init(&made->holders, 1);
    pthread_mutexattr_init(&recursive);
    pthread_mutexattr_settype(&recursive, PTHREAD_MUTEX_RECURSIVE);
    pthread_mutex_init(&made->calling, &recursive);
    pthread_mutexattr_destroy(&recursive);
    symc_tick_rate_measure(&made->rate);
    return made;
}

/* Returns the position of a function in the list, or its end.  Needs the list's
 * lock. */
static struct listener **find(
    struct symc_listeners *listeners, symmcoll_operation_fn fn, const void *arg)
{
    struct listener **at = &listeners->head;

    while (*at != NULL && ((*at)->fn != fn || (*at)->arg != arg))
        at = &(*at)->next;
    return at;
}

symmcoll_status_t symc_run_listen(
    struct symc_runner *runner, symmcoll_operation_fn fn, void *arg)
{
    static const char where[] = "group_notify";
    struct symc_listeners *listeners;
    struct listener *made, **at;
    symmcoll_status_t status;
    bool added;

    if (runner->world->config->trace_buffer_size == 0)
        return symc_fail(SYMMCOLL_ERR_INVALID,
            "%s: expected trace.buffer_size of 1 or more, whose entries have "
            "the times of operations, found 0",
            where);
    status = symc_callbacks_start(&runner->queue->engine->callbacks, where);
    if (status != SYMMCOLL_OK)
        return status;
    listeners = open_list(runner);
    made = listeners != NULL ? make_listener(fn, arg) : NULL;
    if (made == NULL)
        return SYMMCOLL_ERR_NO_MEMORY;
    pthread_mutex_lock(&listeners->lock);
    at = find(listeners, fn, arg);
    added = *at == NULL;
    if (added) {
        *at = made;
        atomic_fetch_or(&runner->at_end, SYMC_AT_END_TELL);
    }
    pthread_mutex_unlock(&listeners->lock);
    if (added)
        return SYMMCOLL_OK;
    release(made);
    return symc_fail(SYMMCOLL_ERR_INVALID,
        "group_notify: expected a function and an arg that group %s does not "
        "have yet, found the same again",
        runner->name);
}

symmcoll_status_t symc_run_unlisten(
    struct symc_runner *runner, symmcoll_operation_fn fn, void *arg)
{
    struct symc_listeners *listeners = atomic_load(&runner->listeners);
    struct listener *found = NULL, **at;

    if (listeners != NULL) {
        pthread_mutex_lock(&listeners->lock);
        at = find(listeners, fn, arg);
        found = *at;
        if (found != NULL)
            *at = found->next;
        if (listeners->head == NULL)
            atomic_fetch_and(&runner->at_end, ~(uint32_t)SYMC_AT_END_TELL);
        pthread_mutex_unlock(&listeners->lock);
    }
    if (found == NULL)
        return symc_fail(SYMMCOLL_ERR_INVALID,
            "group_unnotify: expected a function and an arg that "
            "symmcoll_group_notify() has added to group %s, found others",
            runner->name);
    pthread_mutex_lock(&found->calling);
    found->removed = true;
    pthread_mutex_unlock(&found->calling);
    release(found);
    return SYMMCOLL_OK;
}
