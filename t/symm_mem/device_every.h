/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Every operation on symmetric memory, on a side in host memory or on a
 * device.
 */
#ifndef T_SYMM_MEM_DEVICE_EVERY_H
#define T_SYMM_MEM_DEVICE_EVERY_H

#include "t/cuda/members.h"
#include "t/symm_mem/ops.h"

#define SIDES_RANKS 8       /* at most */
#define OUT_AT sides_region /* in the buffer: outputs of the library */
#define SPLITS_AT (2 * sides_region)
#define OUT_SPLITS_AT (2 * sides_region + 4096)
#define SIDES_NBYTES (2 * sides_region + 8192)
#define SHIFT ((size_t)128) /* of the handle in its allocation */
#define EXPERTS 3
#define ROWS 192 /* of an exchange */

/* The bytes of the input and of the output: for 4 ranks with 1003 elements
 * each. A test may set it before all ranks. */
extern size_t sides_region;

/* One side: the buffers on the host, or the equal ones on a device. */
struct side {
    struct symmcoll_symm *handle;
    char *data; /* begins at the handle's address */
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

/* All operations; ends with a NULL name. */
extern const struct operation every[];

/* ---- both sides ---- */

/* sides_begin() joins host memory and memory of the rank's device; sides_end()
 * releases it in any case, and returns whether everything was right. */
bool sides_begin(struct test *it, struct symmcoll_group *group, int rank);
bool sides_end(struct test *it, bool right);

/* Fills both sides with the same elements, different in each round; elem is
 * the size of dtype. */
void sides_fill(struct test *it, int round);
/* Checks, after the device's stream has ended, that both sides have the same
 * bytes in the buffers, in `in` and in `out`, and that none before the buffer
 * has changed. */
bool sides_compare(struct test *it, const char *name);

/* Runs an operation on both sides, with count elements of dtype. */
bool sides_run(struct test *it, const struct operation *operation, int round);
/* Runs the operation captured in a graph: `rounds` rounds of different
 * elements, in each of which the graph is launched `starts` times in a row. */
bool sides_replay(
    struct test *it, const struct operation *operation, int rounds, int starts);

/* Allocate and free the device's memory if it is the program's, which is
 * registered, and freed when no rank has it any more; NULL: the library's. */
extern void *(*sides_make)(const struct test *it, size_t nbytes);
extern void (*sides_free)(const struct test *it, void *data);

/* ---- further bodies, each a rank_fn ---- */

/* Passes a different factor on each rank; complex numbers are twice as many
 * floats. */
int sides_factors(struct symmcoll_group *group, int rank);
/* Runs in one shot and in two. */
int sides_intra_node(struct symmcoll_group *group, int rank);

#endif
