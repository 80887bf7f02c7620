/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * --thresholds: the ways to do an all_reduce, their results, and what follows.
 */
#ifndef SYMC_BIN_PERF_THRESHOLDS_H
#define SYMC_BIN_PERF_THRESHOLDS_H

#include "perf_device.h"

#define KIB ((size_t)1 << 10)
#define MIB ((size_t)1 << 20)
#define PACKETS_MOST (16 * KIB) /* limit of cuda.packets_max */
#define SWITCH_MOST (8 * MIB)   /* largest sum of a switch */
#define SWITCH_RANKS 8          /* most ranks of a switch */

enum way_number {
    PACKETS,
    ONE_SHOT,
    TWO_SHOT,
    BY_NCCL,
    BLOCKS, /* from here on: two shots, on 8 to 32 blocks */
    SWITCH_ONE_SHOT = BLOCKS + 4,
    SWITCH_TWO_SHOT,
    SWITCH_BLOCKS, /* from here on: two shots by a switch, on 4 to 32 blocks */
    WAYS = SWITCH_BLOCKS + 4
};

struct perf_way {
    const char *name;
    const char *packets_max; /* values of settings */
    const char *one_shot_max;
    const char *blocks;    /* NULL: unchanged */
    size_t least, most;    /* bytes */
    const char *by_switch; /* its one-shot limit; NULL: without a switch */
    bool by_nccl;
};

/* Groups of two ranks have their own limit. */
enum number {
    OF_TWO,
    OF_MORE,
    NUMBERS
};

struct perf_table {
    const struct perf_options *options;
    char *blocks; /* as set by the caller; NULL: not set */
    char *multicast_blocks;
    /* Why NCCL or a switch is not measured; NULL: it is. */
    const char *no_nccl, *no_switch;
    struct perf_results results[NUMBERS][WAYS];
};

/* ---- perf_limits.c ---- */

extern const struct perf_way perf_ways[WAYS];

/* Returns the figures of a size, or NULL if it was not measured. */
const struct perf_figures *perf_find_figures(
    const struct perf_results *results, size_t nbytes);

/* Finds the size up to which a way is faster than the next one: the limit with
 * the least cost for these numbers of ranks.  Returns false if none was
 * measured. */
bool perf_find_limit(const struct perf_table *table, int way, int first,
    int last, size_t *limit);

/* Returns the least size above a limit at which a way and the next one were
 * measured; 0: none. */
size_t perf_find_above(const struct perf_table *table, int way, size_t limit);

/* Returns the blocks of the way from first to end - 1 that has the fewest
 * blocks and is as good as any; NULL: not measured. */
const char *perf_find_blocks(
    const struct perf_table *table, int first, int end);

/* ---- perf_nccl.c ---- */

/* Returns why these all_reduces cannot use NCCL; NULL: they can. */
const char *perf_nccl_missing(const struct perf_options *options);

#endif
