/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Operations that are issued and end later: their contribution is in or beside the
 * header line.  Issuing publishes and never waits, so that a rank that computes in the
 * meantime delays no peer; a later check finds that all lines are there and computes the
 * result.  They end in the order of issue.
 */
#include "host/host.h"

#include <stddef.h>

/* The group tracks at least one operation more than there are lines: an operation that
 * another backend still runs has already ended here. */
_Static_assert(SYMC_LINES < SYMC_FLIGHTS, "the group keeps track of all");

static struct symc_issued *issued_of(
    struct symc_host *host, const struct symc_op *op)
{
    return &host->issued[op->wire % SYMC_LINES];
}

bool symc_host_issue(void *state, const struct symc_op *op)
{
    struct symc_host *host = state;
    struct symc_issued *issued = issued_of(host, op);
    const struct symc_algorithm *algorithm =
        symc_host_select(&host->settings, host->threads, false, host->size, op);

    const struct symc_resumable *parts =
        algorithm != NULL ? algorithm->resumable : NULL;
    uint64_t depth = parts != NULL ? parts->depth(host, op) : 0;

    /* This rank reads its own line and area as well when it ends an operation. */
    if (parts == NULL || op->wire > host->finished + depth ||
        !symc_host_has_room(host, op, depth))
        return false;
    /* Then later ones would be published under numbers that are not theirs. */
    if (symc_host_has_missed(host, op))
        return false;
    issued->parts = parts;
    atomic_store_explicit(
        &issued->suspect, parts->publish(host, op), memory_order_relaxed);
    return true;
}

void symc_host_defer(struct symc_host *host, const struct symc_op *op)
{
    struct symc_issued *issued = issued_of(host, op);

    issued->parts = host->resumable;
    atomic_store_explicit(&issued->suspect, false, memory_order_relaxed);
}

/* Returns a rank that has not published its line yet, or -1. */
static int find_missing(const struct symc_host *host, const struct symc_op *op)
{
    for (int i = 1; i < host->size; i++) {
        int peer = (host->rank + i) % host->size;

        if (atomic_load_explicit(
                &symc_header_at(host->channels[peer], op->wire)->seq,
                memory_order_acquire) < op->wire)
            return peer;
    }
    return -1;
}

static bool is_stopped(
    const struct symc_host *host, int missing, enum symc_advance how)
{
    const struct symc_core *core = host->core;

    return atomic_load_explicit(core->stopped, memory_order_acquire) != 0 ||
           (how != SYMC_ADVANCE_PEEK && core->failed(core->group, missing));
}

/*
 * Returns the status of an operation for which a peer is missing; OK if all lines are
 * there now.  A peer may have published its line and left between the check of its line
 * and the check for failures: its line counts.
 */
static symmcoll_status_t consider(struct symc_host *host,
    const struct symc_op *op, int missing, enum symc_advance how)
{
    const struct symc_core *core = host->core;

    while (is_stopped(host, missing, how)) {
        int peer = missing;

        missing = find_missing(host, op);
        if (missing < 0)
            return SYMMCOLL_OK;
        if (missing == peer)
            return core->failure(core->group, op, missing);
    }
    if (how != SYMC_ADVANCE_EXPIRED)
        return SYMMCOLL_IN_PROGRESS;
    symc_host_list_missing(host, op, missing);
    if (find_missing(host, op) < 0) /* arrived at the last moment */
        return SYMMCOLL_OK;
    return core->expire(core->group, op, host->missing, NULL);
}

symmcoll_status_t symc_host_advance(
    void *state, const struct symc_op *op, enum symc_advance how)
{
    struct symc_host *host = state;
    const struct symc_core *core = host->core;
    struct symc_issued *issued = issued_of(host, op);
    int missing = find_missing(host, op);
    symmcoll_status_t status = SYMMCOLL_OK;

    if (atomic_load_explicit(&issued->suspect, memory_order_relaxed) &&
        core->failed(core->group, -1))
        status = core->failure(core->group, op, -1);
    else if (missing >= 0)
        status = consider(host, op, missing, how);
    if (status == SYMMCOLL_OK)
        status = issued->parts->end(host, op);
    /* Later ones may have been issued: it cannot have another number. */
    if (status == SYMC_MISSED)
        status = symc_host_disagree(host, op);
    if (status == SYMMCOLL_IN_PROGRESS)
        return status;
    symc_host_finish(host, op);
    /* A peer may wait for space in its ring. */
    symc_host_wake_peers(host);
    return status;
}

void symc_host_give_up(void *state, const struct symc_op *op)
{
    atomic_store(&issued_of(state, op)->suspect, true);
}

void symc_host_await_progress(
    void *state, const struct symc_op *op, struct symc_wait_budget *budget)
{
    const struct symc_host *host = state;
    const struct symc_core *core = host->core;
    int peer = find_missing(host, op);

    if (peer >= 0)
        core->wait(core->group,
            &symc_header_at(host->channels[peer], op->wire)->seq, op->wire,
            peer, budget);
}
