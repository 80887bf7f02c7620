/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A barrier that names the ranks that do not arrive, without failing the group: every
 * rank has used the same sequence number, and knows that the barrier failed.
 *
 * A rank whose timeout expires lists the missing ranks in its channel, then stores the
 * number of the barrier there.  The other ranks end with it and take over its list, so
 * that all name the same ranks; so does a rank that arrives later, and finds itself on
 * the list.  If the last rank arrives at the very moment at which another gives up, some
 * ranks may have passed and others not.
 *
 * A death fails the group, but separate counters, which do not depend on the lines, hold
 * which ranks have arrived.  With them a rank that is to name all missing ranks
 * continues to wait, and a rank that arrives later is counted.
 */
#include "base/cancel.h"
#include "host/host.h"

#include <stddef.h>
#include <string.h>
#include <unistd.h>

#define SLICE_NS (INT64_C(10) * 1000 * 1000) /* between checks of all ranks */
#define NAP_US 1000

struct monitor {
    struct symc_host *host;
    const struct symc_op *op;
    const struct symc_monitored *request;
    uint64_t number; /* of this rank's monitored barriers */
    int64_t deadline_ns;
};

/* Returns whether a rank has begun the operation of this line. */
static bool has_line(const struct monitor *monitor, int rank)
{
    const struct symc_host *host = monitor->host;

    return atomic_load_explicit(
               &symc_header_at(host->channels[rank], monitor->op->wire)->seq,
               memory_order_acquire) >= monitor->op->wire;
}

/* Returns whether a rank has entered this many monitored barriers. */
static bool has_entered(const struct monitor *monitor, int rank)
{
    return atomic_load_explicit(&monitor->host->channels[rank]->entered,
               memory_order_acquire) >= monitor->number;
}

static int find_missing(const struct monitor *monitor)
{
    const struct symc_host *host = monitor->host;

    for (int i = 1; i < host->size; i++) {
        int peer = (host->rank + i) % host->size;

        if (!has_line(monitor, peer))
            return peer;
    }
    return -1;
}

/* Copies the missing ranks to the caller; returns their number. */
static int answer(const struct monitor *monitor)
{
    const struct symc_host *host = monitor->host;
    int count = 0;

    for (int r = 0; r < host->size; r++) {
        if (!host->missing[r])
            continue;
        if (monitor->request->missing != NULL)
            monitor->request->missing[count] = r;
        count++;
    }
    if (monitor->request->count != NULL)
        *monitor->request->count = count;
    return count;
}

/* Publishes the missing ranks to the others, and returns them to the caller.  A late rank
 * may read the list while this rank writes that of a later barrier: it is made of whole
 * words, each stored once. */
static symmcoll_status_t publish_missing(const struct monitor *monitor)
{
    struct symc_host *host = monitor->host;
    struct symc_channel *mine = host->channels[host->rank];
    uint64_t absent[SYMC_ABSENT_MAX / 64] = {0};

    for (int r = 0; r < host->size && r < SYMC_ABSENT_MAX; r++) {
        if (host->missing[r])
            absent[r / 64] |= UINT64_C(1) << r % 64;
    }
    for (int i = 0; i < SYMC_ABSENT_MAX / 64; i++)
        atomic_store(&mine->absent[i], absent[i]);
    atomic_store(&mine->given_up, monitor->op->wire);
    symc_host_wake_peers(host);
    answer(monitor);
    return host->core->absent(host->core->group, monitor->op, host->missing);
}

/* Gives up, as this rank's timeout has expired, with the ranks that have no line. */
static symmcoll_status_t give_up(const struct monitor *monitor)
{
    struct symc_host *host = monitor->host;

    for (int r = 0; r < host->size; r++)
        host->missing[r] = r != host->rank && !has_line(monitor, r);
    return publish_missing(monitor);
}

/* Returns the lowest rank that has given up, or -1. */
static int find_given_up(const struct monitor *monitor)
{
    const struct symc_host *host = monitor->host;

    for (int r = 0; r < host->size; r++) {
        if (atomic_load(&host->channels[r]->given_up) >= monitor->op->wire)
            return r;
    }
    return -1;
}

/* Gives up with another rank's list.  That rank may already be in a later barrier, in
 * which this rank is missing, too. */
static symmcoll_status_t follow(const struct monitor *monitor, int peer)
{
    struct symc_host *host = monitor->host;
    struct symc_channel *theirs = host->channels[peer];

    for (int r = 0; r < host->size; r++)
        host->missing[r] =
            r < SYMC_ABSENT_MAX &&
            (atomic_load(&theirs->absent[r / 64]) >> r % 64 & 1) != 0;
    return publish_missing(monitor);
}

/* After the death of a member, waits on for those that live, to name all missing
 * ranks. */
static symmcoll_status_t call_roll(const struct monitor *monitor)
{
    struct symc_host *host = monitor->host;
    const struct symc_core *core = host->core;
    bool awaited = true;

    while (awaited && core->now() < monitor->deadline_ns) {
        int cancel = symc_cancel_disable();

        awaited = false;
        for (int r = 0; r < host->size; r++)
            awaited = awaited || (r != host->rank && !has_entered(monitor, r) &&
                                     !core->gone(core->group, r));
        if (awaited)
            usleep(NAP_US);
        symc_cancel_restore(cancel);
    }
    for (int r = 0; r < host->size; r++)
        host->missing[r] = r != host->rank && !has_entered(monitor, r);
    if (answer(monitor) == 0)
        return core->failure(core->group, monitor->op, -1);
    return core->absent(core->group, monitor->op, host->missing);
}

/* Ends the barrier because the group has failed while this rank waited. */
static symmcoll_status_t end_failed(const struct monitor *monitor, int peer)
{
    struct symc_host *host = monitor->host;
    const struct symc_core *core = host->core;
    bool any = false;

    for (int r = 0; r < host->size; r++) {
        host->missing[r] = r != host->rank && !has_entered(monitor, r) &&
                           core->gone(core->group, r);
        any = any || host->missing[r];
    }
    if (any && monitor->request->wait_all)
        return call_roll(monitor);
    answer(monitor);
    return core->failure(core->group, monitor->op, peer);
}

/* Waits until all ranks have published their lines. */
static symmcoll_status_t await_all(const struct monitor *monitor)
{
    struct symc_host *host = monitor->host;
    const struct symc_core *core = host->core;
    struct symc_wait_budget slice = {.polled = false};
    int peer, other;

    while ((peer = find_missing(monitor)) >= 0) {
        int64_t now = core->now();

        other = find_given_up(monitor);
        if (other >= 0)
            return follow(monitor, other);
        /* The line counts if it was published before the failure. */
        if (core->failed(core->group, peer) && find_missing(monitor) == peer)
            return end_failed(monitor, peer);
        if (now >= monitor->deadline_ns)
            return give_up(monitor);
        slice.deadline_ns = monitor->deadline_ns - now < SLICE_NS
                                ? monitor->deadline_ns
                                : now + SLICE_NS;
        core->wait(core->group,
            &symc_header_at(host->channels[peer], monitor->op->wire)->seq,
            monitor->op->wire, peer, &slice);
        slice.polled = true;
    }
    other = find_given_up(monitor);
    return other >= 0 ? follow(monitor, other) : SYMMCOLL_OK;
}

/* Stores the number of monitored barriers that this rank has entered. */
static void enter(struct symc_host *host, uint64_t number)
{
    host->monitored = number;
    atomic_store_explicit(
        &host->channels[host->rank]->entered, number, memory_order_release);
}

void symc_host_pass_missed(struct symc_host *host)
{
    enter(host, host->monitored + 1);
}

symmcoll_status_t symc_host_monitored(
    struct symc_host *host, const struct symc_op *op)
{
    const struct symc_core *core = host->core;
    int64_t now = core->now();
    struct monitor monitor = {.host = host,
        .op = op,
        .request = op->out,
        .number = host->monitored + 1,
        .deadline_ns = op->timeout_ns > SYMC_NEVER - now
                           ? SYMC_NEVER
                           : now + op->timeout_ns};
    symmcoll_status_t status;

    enter(host, monitor.number);
    if (core->failed(core->group, -1)) {
        core->record(core->group, op);
        return end_failed(&monitor, -1);
    }
    status = symc_host_await_room(host, op, SYMC_LINES);
    if (status != SYMMCOLL_OK)
        return status;
    symc_host_publish(host, op, NULL, 0);
    status = await_all(&monitor);
    if (status == SYMMCOLL_OK)
        status = symc_host_collect(host, op);
    if (status == SYMMCOLL_ERR_MISMATCH)
        enter(host, monitor.number - 1); /* others called another operation */
    return status;
}
