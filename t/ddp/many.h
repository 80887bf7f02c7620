/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A rank with a gradient reducer of many small parameters, most of them of odd
 * size, in device memory, and one with the same parameters in host memory.
 * Both write averages back.
 */
#ifndef T_DDP_MANY_H
#define T_DDP_MANY_H

#include "t/cuda/members.h"

#define MANY 300 /* parameters: more than two launches */

/* The reducer in one memory. */
struct many_side {
    struct symmcoll_reducer *reducer;
    struct symmcoll_tensor params[MANY];
    float *values, *grads; /* a parameter and its gradient are at at[i] */
};

struct many {
    struct symmcoll_group *group;
    int rank;
    CUstream stream;
    struct many_side host, device;
    size_t at[MANY], count[MANY]; /* elements, with gaps in between */
    size_t room;                  /* elements of all */
    float *scratch;
};

/* Create and free both reducers, with initial values of this rank; all device
 * work is on one stream. The struct must be zeroed, so that many_end() may be
 * called whatever many_begin() returns. device_hook: the hook of the reducer
 * on the device; may be NULL. */
int many_begin(struct many *many, struct symmcoll_group *group, int rank,
    symmcoll_bucket_fn device_hook);
int many_end(struct many *many, int right);

/* Writes the gradients of a step: the same in both memories, and different in
 * each step. */
void many_write(struct many *many, int step);
/* Runs one backward of the reducer of one side, without finish(). */
int many_ready(struct many *many, struct many_side *side);
/* Runs a whole backward. */
int many_run(struct many *many, struct many_side *side);
/* Checks that values and gradients are the same, and that gaps are
 * unchanged. */
int many_agree(struct many *many);

/* Checks averages that are written back, before and after buckets are
 * rebuilt. */
int many_written_back(struct symmcoll_group *group, int rank);

#endif
