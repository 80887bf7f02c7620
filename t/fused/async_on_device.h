/* SPDX-License-Identifier: BSD-3-Clause */
/* Products in device memory with rows that other ranks write while the product
 * runs. */
#ifndef T_FUSED_ASYNC_ON_DEVICE_H
#define T_FUSED_ASYNC_ON_DEVICE_H

#include <symmcoll.h>

/* Each rank sends chunks to all, in a different order each time, after all
 * have enqueued their products. */
int async_rows_arrive(struct symmcoll_group *group, int rank);

/* Runs operands with all orders of strides, of several types; without depth
 * and without rows. */
int async_orders(struct symmcoll_group *group, int rank);

/* Runs in a graph, which is launched twice. */
int async_captured(struct symmcoll_group *group, int rank);

#endif
