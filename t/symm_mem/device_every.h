/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Every operation on symmetric memory, each on a side that is the host's or a
 * device's.
 */
#ifndef T_SYMM_MEM_DEVICE_EVERY_H
#define T_SYMM_MEM_DEVICE_EVERY_H

#include "t/cuda/members.h"
#include "t/symm_mem/ops.h"

#define RANKS 4
#define REGION ((size_t)40 * 1024)
#define OUT_AT REGION /* in the buffer: what the library writes there */
#define SPLITS_AT (2 * REGION)
#define OUT_SPLITS_AT (2 * REGION + 4096)
#define NBYTES (2 * REGION + 8192)
#define SHIFT ((size_t)128) /* of the handle in its allocation */
#define EXPERTS 3
#define ROWS 96 /* of an exchange */

/* The same on the host and on a device. */
struct side {
    struct symmcoll_symm *handle;
    char *data; /* from the handle's address on */
    char *in, *out;
    struct symmcoll_call call;
    struct symmcoll_symm_plan *plan;
};

struct test {
    struct symmcoll_group *group;
    int rank, size;
    size_t count;
    enum symmcoll_dtype dtype;
    size_t elem;
    struct side host, device;
    void *allocated[2];
};

typedef symmcoll_status_t (*op_fn)(struct test *it, struct side *side);

struct operation {
    const char *name;
    op_fn run;
};

/* All of them; ends with a name that is NULL. */
extern const struct operation every[];

#endif
