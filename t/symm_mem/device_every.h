/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Every operation on symmetric memory, each on a side that is the host's or a
 * device's.
 */
#ifndef T_SYMM_MEM_DEVICE_EVERY_H
#define T_SYMM_MEM_DEVICE_EVERY_H

#include "t/cuda/members.h"
#include "t/symm_mem/ops.h"

#define SIDES_RANKS 8       /* at most */
#define OUT_AT sides_region /* in the buffer: what the library writes there */
#define SPLITS_AT (2 * sides_region)
#define OUT_SPLITS_AT (2 * sides_region + 4096)
#define SIDES_NBYTES (2 * sides_region + 8192)
#define SHIFT ((size_t)128) /* of the handle in its allocation */
#define EXPERTS 3
#define ROWS 192 /* of an exchange */

/* Bytes of what is passed, and of what is received: for 4 ranks that have 1003
 * elements each.  A test may set it before all ranks. */
extern size_t sides_region;

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

/* ---- both sides ---- */

/* Join memory of the host and of the rank's device; the opposite, whatever is
 * right, and whether all is. */
bool sides_begin(struct test *it, struct symmcoll_group *group, int rank);
bool sides_end(struct test *it, bool right);

/* The same elements on both, other ones in each round; elem is that of dtype. */
void sides_fill(struct test *it, int round);
/* Whether both have the same bytes, when the device's stream has ended: in the
 * buffers, in `in` and in `out`; and none before the buffer has changed. */
bool sides_compare(struct test *it, const char *name);

/* An operation on both sides, of count elements of dtype. */
bool sides_run(struct test *it, const struct operation *operation, int round);
/* The same, captured in a graph: for so many rounds of other elements, in each of
 * which it is started so many times in a row. */
bool sides_replay(
    struct test *it, const struct operation *operation, int rounds, int starts);

/* Whose memory that of a device is: of the program, registered, and freed when no
 * rank has it any more; NULL: the library's. */
extern void *(*sides_make)(const struct test *it, size_t nbytes);
extern void (*sides_free)(const struct test *it, void *data);

/* ---- the rest, each a rank_fn ---- */

/* Each rank has a factor of its own; complex numbers are twice as many floats. */
int sides_factors(struct symmcoll_group *group, int rank);
/* In one shot and in two. */
int sides_intra_node(struct symmcoll_group *group, int rank);

#endif
