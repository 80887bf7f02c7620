/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A rank with a gradient reducer of many small parameters, most of them odd, in memory of
 * its device, and one of the same in host memory, both of which write averages back.
 */
#ifndef T_DDP_MANY_H
#define T_DDP_MANY_H

#include "t/cuda/members.h"

#define MANY 300 /* parameters: of more than two launches */

/* One memory. */
struct many_side {
    struct symmcoll_reducer *reducer;
    struct symmcoll_tensor params[MANY];
    float *values,
        *grads; /* each parameter's and its gradient are at[i] in them */
};

struct many {
    struct symmcoll_group *group;
    int rank;
    CUstream stream;
    struct many_side host, device;
    size_t at[MANY], count[MANY]; /* elements; there are some between two */
    size_t room;                  /* elements of all */
    float *scratch;
};

/* Both, of this rank's own values at first; all of the device is on a stream.  Zeroed
 * memory, so that many_end() may be called whatever it returns.  device_hook: NULL, or
 * of the reducer on the device alone. */
int many_begin(struct many *many, struct symmcoll_group *group, int rank,
    symmcoll_bucket_fn device_hook);
int many_end(struct many *many, int right);

/* What backward has written: the same in both memories, another one for each step. */
void many_write(struct many *many, int step);
/* One backward of the reducer of one side: finish() is not called. */
int many_ready(struct many *many, struct many_side *side);
/* A whole one. */
int many_run(struct many *many, struct many_side *side);
/* Values and gradients are the same, and what is between them has not changed. */
int many_agree(struct many *many);

/* Ranks whose averages are written back, before and after buckets are rebuilt. */
int many_written_back(struct symmcoll_group *group, int rank);

#endif
