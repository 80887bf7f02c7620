/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Shared by the drawn collectives of t/host/stress: memory with known
 * contents, and the table of collectives to draw.
 */
#ifndef T_HOST_STRESS_H
#define T_HOST_STRESS_H

#include "../coll/data.h"
#include "symmetric.h"

#include <stdint.h>

#define STRESS_PRIVATE 3 /* regions before are allocations of all ranks */
#define STRESS_REGION ((size_t)2 * 1024 * 1024)
#define STRESS_ELEMENTS ((size_t)20000) /* of all parts, at most */
#define STRESS_RANKS 8                  /* at most */

struct stress_random {
    uint64_t state;
};

/* Returns a random number below n. */
uint32_t stress_draw(struct stress_random *random, uint32_t n);

/* The memory of one rank in one group. */
struct stress_memory {
    struct symmcoll_group *group;
    int rank;
    int size;
    struct symmetric made[STRESS_PRIVATE];
    unsigned char *at[STRESS_PRIVATE + 1]; /* the last is its own */
    unsigned char *expected[STRESS_PRIVATE + 1];
    size_t used[STRESS_PRIVATE + 1]; /* bytes, used by the current case */
};

/* A collective; all ranks draw the same one, except for the places of
 * buffers. */
struct stress_case {
    unsigned seed;
    struct stress_random *mine;
    enum symmcoll_dtype dtype;
    size_t elem;
    int kind;
    symmcoll_op_t op;
    size_t count;
    int root;
    int in_region, out_region;
    bool in_place;
    bool shifted; /* at offsets that differ between ranks */
    bool spread;  /* several buffers in all regions */
    bool async;
};

/* ---- stress.c ---- */

/* Reserves space for count elements in a region. */
void *stress_place(struct stress_memory *memory, struct stress_case *it,
    int region, size_t count);

/* stress_fill() writes this rank's data, which must stay; stress_expect()
 * declares the data expected there instead: that of a rank, or a sum. */
void stress_fill(const struct stress_memory *memory,
    const struct stress_case *it, void *at, size_t first, size_t count);
void stress_expect(const struct stress_memory *memory,
    const struct stress_case *it, void *at, size_t first, size_t count,
    int rank);
void stress_expect_sum(const struct stress_memory *memory,
    const struct stress_case *it, void *at, size_t first, size_t count);

/* ---- stress_kinds.c ---- */

struct stress_kind {
    const char *name;
    symmcoll_status_t (*run)(struct stress_memory *memory,
        struct stress_case *it, struct symmcoll_work **work);
};

extern const struct stress_kind stress_table[];
extern const size_t stress_kinds;

#endif
