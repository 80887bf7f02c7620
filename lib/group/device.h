/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Operations on device memory.
 */
#ifndef SYMC_GROUP_DEVICE_H
#define SYMC_GROUP_DEVICE_H

#include "group/group.h"

/* Call an operation on device memory that has been checked: with a work, or until
 * it has been enqueued on the stream of the call. */
symmcoll_status_t symc_group_call_device(struct symmcoll_group *group,
    struct symc_op *op, struct symmcoll_work **work);

/* Add what the queue may ask of them. */
void symc_device_add_ops(struct symc_queue_ops *ops);

#endif
