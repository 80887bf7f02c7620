/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Calls both fused operations on a rank's device so that they fail on one
 * rank; holds their arguments.
 */
#ifndef T_FUSED_DEVICE_CALLS_H
#define T_FUSED_DEVICE_CALLS_H

#include "t/fused/made.h"
#include "t/fused/on_device.h"

#define VICTIM 1 /* the rank with invalid calls */

/* The shape of each rank's part, and of b. */
#define FUSED_CALL_ROWS 4
#define FUSED_CALL_DEPTH 3
#define FUSED_CALL_COLUMNS 5

struct fused_call {
    struct symmcoll_group *group;
    int device;
    struct symmcoll_call call; /* on a separate stream */
    struct symmcoll_tensor host, a, b, out;
};

void fused_call_begin(
    struct fused_call *it, struct symmcoll_group *group, int rank);
/* Creates the arguments as fused_call_begin() does, in the current context,
 * which belongs to that device. */
void fused_call_begin_there(
    struct fused_call *it, struct symmcoll_group *group, int rank, int device);

symmcoll_status_t fused_call_gather(struct fused_call *it);
symmcoll_status_t fused_call_scatter(struct fused_call *it);

/* Releases the result. */
void fused_call_drop(struct fused_call *it);

/* Releases everything, without a call. */
void fused_call_free(struct fused_call *it);

/* Releases everything. If right, first checks that both operations work. */
int fused_call_end(struct fused_call *it, int right);

/* Checks that both calls end with the status, and with these texts on the
 * victim and on the other ranks. */
int fused_calls_fail(struct fused_call *it, int rank, symmcoll_status_t status,
    const char *of_victim, const char *of_others);

#endif
