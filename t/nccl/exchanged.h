/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * An exchange of one element for each member, which uses NCCL whatever its
 * size if there is one; else a kernel.
 */
#ifndef T_NCCL_EXCHANGED_H
#define T_NCCL_EXCHANGED_H

#include "t/cuda/members.h"
#include "t/nccl/named.h"

#include "group/group.h"

#include <string.h>

#define EXCHANGED_MOST 4 /* members */

/* Exchanges 10 times the rank of the sender plus that of the receiver. Returns
 * the status, or INTERNAL if the data or the backend is wrong. */
static inline symmcoll_status_t exchange_by(
    struct symmcoll_group *group, bool nccl)
{
    static const size_t ones[EXCHANGED_MOST] = {1, 1, 1, 1};
    struct symmcoll_call call = SYMMCOLL_CALL_INIT;
    CUstream stream = device_stream();
    int size = symmcoll_group_size(group), rank = symmcoll_group_rank(group);
    float host[2 * EXCHANGED_MOST] = {0};
    float *at = device_alloc(sizeof(host));
    int before = enqueued();
    symmcoll_status_t status;

    for (int r = 0; r < size; r++)
        host[EXCHANGED_MOST + r] = (float)(rank * 10 + r);
    device_write(at, host, sizeof(host));
    call.stream = stream;
    status = symmcoll_all_to_all_v(group, at, (size_t)size, ones,
        at + EXCHANGED_MOST, (size_t)size, ones, F32, &call, NULL);
    device_wait(stream);
    device_read(host, at, sizeof(host));
    for (int r = 0; status == SYMMCOLL_OK && r < size; r++)
        if (host[r] != (float)(r * 10 + rank)) {
            diag("rank %d has %g of rank %d", rank, (double)host[r], r);
            status = SYMMCOLL_ERR_INTERNAL;
        }
    device_end_stream(stream);
    device_free(at);
    if (status != SYMMCOLL_OK || (enqueued() > before) == nccl)
        return status;
    diag(
        "rank %d: expected an exchange %s NCCL", rank, nccl ? "by" : "without");
    return SYMMCOLL_ERR_INTERNAL;
}

static inline symmcoll_status_t exchange(struct symmcoll_group *group)
{
    return exchange_by(group, true);
}

/* Checks that members do without NCCL for a reason. */
static inline int lacks_nccl(const struct symmcoll_group *group,
    symmcoll_status_t status, const char *text)
{
    const struct symc_refusal *lack =
        &group->runner.slots[SYMC_MEMORY_DEVICE].lack;

    if (lack->status == status && strstr(lack->reason, text) != NULL)
        return 1;
    diag("expected no NCCL for %d and '%s', found %d: %s", (int)status, text,
        (int)lack->status, lack->reason);
    return 0;
}

/* Checks that members exchange without NCCL for a reason. */
static inline int exchanges_without(
    struct symmcoll_group *group, symmcoll_status_t status, const char *text)
{
    return say(exchange_by(group, false) == SYMMCOLL_OK, "an exchange") &&
           lacks_nccl(group, status, text);
}

#endif
