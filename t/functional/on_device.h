/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Ranks that make functional calls on tensors of a device and on the same in
 * host memory, forward and backward: both must have the same bits.
 */
#ifndef T_FUNCTIONAL_ON_DEVICE_H
#define T_FUNCTIONAL_ON_DEVICE_H

#include <symmcoll.h>

/* Runs every call: of float32 on the group's stream, of other types on a
 * stream of the call. */
int functional_every_form(struct symmcoll_group *group, int rank);
/* Runs lists of tensors of two types, on a stream of the call. */
int functional_lists(struct symmcoll_group *group, int rank);
/* Runs on the group's stream: channels last, dimensions reversed. */
int functional_other_orders(struct symmcoll_group *group, int rank);

#endif
