/* SPDX-License-Identifier: BSD-3-Clause */
/* An exchange of one element for each member, which NCCL does whatever its size. */
#ifndef T_NCCL_EXCHANGED_H
#define T_NCCL_EXCHANGED_H

#include "t/cuda/members.h"

#define EXCHANGED_MOST 4 /* members */

/* What each member sends is 10 times its rank, and the receiver's: the status, or
 * INTERNAL where that has not come. */
static inline symmcoll_status_t exchange(struct symmcoll_group *group)
{
    static const size_t ones[EXCHANGED_MOST] = {1, 1, 1, 1};
    struct symmcoll_call call = SYMMCOLL_CALL_INIT;
    CUstream stream = device_stream();
    int size = symmcoll_group_size(group), rank = symmcoll_group_rank(group);
    float host[2 * EXCHANGED_MOST] = {0};
    float *at = device_alloc(sizeof(host));
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
    return status;
}

#endif
