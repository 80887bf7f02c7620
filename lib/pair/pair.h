/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Sends and receives of a group: the functions that start them, and definitions
 * shared by their files.
 */
#ifndef SYMC_PAIR_PAIR_H
#define SYMC_PAIR_PAIR_H

#include "group/group.h"

/* ---- pair.c ---- */

/*
 * Starts a send or receive, and waits for it if work is NULL. Its arguments
 * have been checked, and an operation on device memory has been placed.
 *
 * source  out: sender of a received message, set when the receive ends; may be
 *         NULL
 */
symmcoll_status_t symc_group_pair(struct symmcoll_group *group,
    struct symc_op *op, int *source, struct symmcoll_work **work);

/* Sends a small message at once, for a blocking call without options. False:
 * not possible, and nothing has changed; the caller checks the arguments and
 * uses symc_group_pair(). */
bool symc_group_send_small(struct symmcoll_group *group, const void *buf,
    size_t count, enum symmcoll_dtype dtype, int peer, int64_t tag);

/* A batch: several operations with one work and one number. symc_batch_create()
 * returns one for `count` operations, which the caller fills in; NULL: no
 * memory. symc_batch_start() takes it. */
struct symc_batch;
struct symc_batch *symc_batch_create(
    struct symmcoll_group *group, size_t count, enum symc_pair_space space);
struct symc_op *symc_batch_op(struct symc_batch *batch, size_t index);
void symc_batch_free(struct symc_batch *batch);
symmcoll_status_t symc_batch_start(struct symc_batch *batch,
    const struct symmcoll_call *call, struct symmcoll_work **work);

/* ---- pair_device.c ---- */

/* Places a send or receive of device memory: sets its stream, which is the
 * group's if the call has none. Errors: INVALID (the group is on another
 * device), UNSUPPORTED (the stream is being captured). */
symmcoll_status_t symc_group_place_pair(
    struct symmcoll_group *group, struct symc_op *op);

/* Creates the copy (out) of an operation's message on a device, ordered on the
 * stream of the call; NULL: host memory or no bytes. Not under the lock.
 * Errors: this rank's own. */
symmcoll_status_t symc_group_begin_copying(struct symmcoll_group *group,
    struct symc_op *op, struct symc_copying **copying);

#endif
