/* SPDX-License-Identifier: BSD-3-Clause */
/* Groups that are kept, with their resources, after they have been closed. */
#ifndef T_NCCL_LOST_H
#define T_NCCL_LOST_H

#include "t/cuda/members.h"

#include "group/group.h"

#define LOST_MOST 4 /* members */

/* Closes a group after an exchange of which the driver does not report to rank
 * 0 whether it has ended; from then on it reports nothing. */
static inline bool close_lost(struct symmcoll_group *group)
{
    static const size_t ones[LOST_MOST] = {1, 1, 1, 1};
    struct symmcoll_call call = SYMMCOLL_CALL_INIT;
    const size_t size = (size_t)symmcoll_group_size(group);
    const bool loses = symmcoll_group_rank(group) == 0;
    struct symmcoll_work *work = NULL;
    float *at = device_alloc(2 * LOST_MOST * sizeof(*at));
    symmcoll_status_t status;
    bool right = symc_queue_await_running(group->runner.queue,
        symc_deadline_ns(symc_now_ns(), 60 * SYMC_NS_PER_S));

    if (loses)
        right = fake_configure("fail=cuEventQuery:0:400") && right;
    call.stream = device_stream();
    status = symmcoll_all_to_all_v(
        group, at, size, ones, at + LOST_MOST, size, ones, F32, &call, &work);
    if (status == SYMMCOLL_OK)
        status = symmcoll_work_wait(work, 60); /* until the host has the
                                                * result */
    symmcoll_work_free(work);
    if (loses && status != SYMMCOLL_ERR_DEVICE) {
        diag("expected an exchange that is lost, found %s: %s",
            symmcoll_status_name(status), symmcoll_last_error());
        right = false;
    }
    device_wait(call.stream);
    (void)symmcoll_group_free(group);
    return right;
}

#endif
