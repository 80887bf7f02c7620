/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Ranks that make functional calls on tensors of a device and on the same in
 * host memory, forward and backward: both must have the same bits.
 */
#ifndef T_FUNCTIONAL_ON_DEVICE_H
#define T_FUNCTIONAL_ON_DEVICE_H

#include <symmcoll.h>

/* Every call: of float32 on the group's stream, of others on one of the call's. */
int functional_every_form(struct symmcoll_group *group, int rank);
/* Lists of tensors of two types, on a stream of the call's. */
int functional_lists(struct symmcoll_group *group, int rank);
/* On the group's stream: channels last, dimensions in the other order. */
int functional_other_orders(struct symmcoll_group *group, int rank);

#endif
