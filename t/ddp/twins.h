/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A reducer in host memory and one on a device with the same arguments: values
 * and gradients of all types, with and without gaps, some of which ranks leave
 * out.
 */
#ifndef T_DDP_TWINS_H
#define T_DDP_TWINS_H

#include "t/cuda/members.h"

#define TWINS_PARAMS 10
#define TWINS_TIED \
    9 /* the same parameter as 0, unless ready passes the place of gradients */

/* The reducer in one memory. */
struct twin {
    struct symmcoll_group *group;
    struct symmcoll_tensor params[TWINS_PARAMS];
    char *grads[TWINS_PARAMS]; /* of the program */
    bool passed
        [TWINS_PARAMS]; /* since the last pass that synchronised, or zero */
    struct symmcoll_reducer *reducer;
    bool on_device;
    CUstream stream; /* of the program's own work */
};

struct twins {
    struct twin host, device;
    int rank, size;
    bool views; /* gradients are in the buckets */
    bool write_back;
    bool named; /* write_back, with each gradient at one fixed place */
    bool tied;
    bool repeats; /* each pass passes the same gradients */
    uint64_t drawn;
};

/* twins_begin() creates both reducers with these arguments; false: one failed.
 * If there is a hook the device may have another one; NULL: the same. A
 * non-NULL args->grads stands for the gradients of each twin. */
int twins_begin(struct twins *twins, struct symmcoll_group *group, int rank,
    const struct symmcoll_reducer_args *args, symmcoll_bucket_fn device_hook);
void twins_end(struct twins *twins);

/* Sets the stream of the program and of the group. */
void twins_use(struct twins *twins, CUstream stream);

/* Return the bytes from a tensor's first element to the end of its last, and
 * those of its elements. */
size_t twins_span(const struct symmcoll_tensor *tensor);
size_t twins_nbytes(const struct symmcoll_tensor *tensor);

/* Runs one backward of both. Returns whether all calls were OK, except for a
 * finish that cannot write an average back. between is called before each
 * gradient and before finish; may be NULL. */
int twins_run(struct twins *twins, int sync, void (*between)(struct twins *));

/* Checks that both have the same parameters, averages, and gradients of the
 * program. */
int twins_agree(struct twins *twins);

void twins_zero(struct twins *twins);

#endif
