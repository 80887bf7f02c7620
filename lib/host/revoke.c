/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Leaving an operation early in which ranks use each other's buffers.
 *
 * An owner that leaves early (a timeout, a dead peer, an abort) revokes its
 * buffers: it stores up to which operation they are revoked, and waits until no
 * peer is inside a chunk of them.  Whoever uses a buffer stores whose it uses,
 * checks whether that rank has revoked, and moves one chunk; both in
 * sequentially consistent order, so that one of the two sees the other.  A chunk
 * loop never blocks, so the owner's wait is short.  It is limited where ranks are
 * processes, since one may be stopped inside a chunk: that one finishes its
 * chunk when it goes on, and finds then that it has read and written what the
 * owner may have used anew.  So it looks once more before it says that it is
 * done, and what it has written is of memory that stays mapped as long as
 * anybody uses it.
 */
#include "host/host.h"

#include <sched.h>

#define REVOKE_NS (INT64_C(100) * SYMC_NS_PER_S / 1000)

static bool is_revoked(
    const struct symc_host *host, const struct symc_op *op, int rank)
{
    return atomic_load(&host->channels[rank]->revoked) >= op->wire;
}

bool symc_host_any_revoked(
    const struct symc_host *host, const struct symc_op *op)
{
    for (int r = 0; r < host->size; r++) {
        if (r != host->rank && is_revoked(host, op, r))
            return true;
    }
    return false;
}

bool symc_host_enter(
    const struct symc_host *host, const struct symc_op *op, int peer)
{
    atomic_store(&host->channels[host->rank]->inside, (uint32_t)peer + 1);
    return peer < host->size ? !is_revoked(host, op, peer)
                             : !symc_host_any_revoked(host, op);
}

void symc_host_leave(const struct symc_host *host)
{
    atomic_store_explicit(
        &host->channels[host->rank]->inside, 0, memory_order_release);
}

/* Whether a peer is inside a chunk of this rank's buffers. */
static bool is_inside(const struct symc_host *host, int peer)
{
    uint32_t found = atomic_load(&host->channels[peer]->inside);

    return found == (uint32_t)host->rank + 1 ||
           found == (uint32_t)host->size + 1;
}

void symc_host_revoke(const struct symc_host *host, const struct symc_op *op)
{
    const struct symc_core *core = host->core;
    int64_t until = core->now() + REVOKE_NS;

    atomic_store(&host->channels[host->rank]->revoked, op->wire);
    for (int r = 0; r < host->size; r++) {
        while (r != host->rank && is_inside(host, r)) {
            if (!host->threads &&
                (core->gone(core->group, r) || core->now() > until))
                break;
            sched_yield();
        }
    }
}

symmcoll_status_t symc_host_fail_revoked(
    const struct symc_host *host, const struct symc_op *op)
{
    const struct symc_core *core = host->core;

    symc_host_leave(host);
    if (core->failed(core->group, -1))
        return core->failure(core->group, op, -1);
    return core->fail(SYMMCOLL_ERR_INTERNAL, "%s: a peer left without a reason",
        symc_kind_name(op->kind));
}
