/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Calls of both fused operations on a rank's device that are to fail on one rank,
 * and what they are made with.
 */
#ifndef T_FUSED_DEVICE_CALLS_H
#define T_FUSED_DEVICE_CALLS_H

#include "t/fused/made.h"
#include "t/fused/on_device.h"

#define VICTIM 1 /* the rank whose calls are wrong */

/* Of each rank's part, and of b. */
#define FUSED_CALL_ROWS 4
#define FUSED_CALL_DEPTH 3
#define FUSED_CALL_COLUMNS 5

struct fused_call {
    struct symmcoll_group *group;
    int device;
    struct symmcoll_call call; /* on a stream of its own */
    struct symmcoll_tensor host, a, b, out;
};

void fused_call_begin(
    struct fused_call *it, struct symmcoll_group *group, int rank);
/* The same in the current context, which is that device's. */
void fused_call_begin_there(
    struct fused_call *it, struct symmcoll_group *group, int rank, int device);

symmcoll_status_t fused_call_gather(struct fused_call *it);
symmcoll_status_t fused_call_scatter(struct fused_call *it);

/* Release the result. */
void fused_call_drop(struct fused_call *it);

/* Release all, without a call. */
void fused_call_free(struct fused_call *it);

/* Release all; whether both operations work before that, if right. */
int fused_call_end(struct fused_call *it, int right);

/* Whether both have ended so on one rank, and on the others so. */
int fused_calls_fail(struct fused_call *it, int rank, symmcoll_status_t status,
    const char *of_victim, const char *of_others);

#endif
