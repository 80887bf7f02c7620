/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * --thresholds: the ways to do an all_reduce, what was measured of them, and what
 * follows.
 */
#ifndef SYMC_BIN_PERF_THRESHOLDS_H
#define SYMC_BIN_PERF_THRESHOLDS_H

#include "perf_device.h"

#define KIB ((size_t)1 << 10)
#define MIB ((size_t)1 << 20)
#define PACKETS_MOST (16 * KIB) /* that cuda.packets_max may be */
#define SWITCH_MOST (8 * MIB)   /* of what a switch adds up */
#define SWITCH_RANKS 8          /* at most */

enum way_number {
    PACKETS,
    ONE_SHOT,
    TWO_SHOT,
    BY_NCCL,
    BLOCKS, /* from here on: in two shots, on so many */
    SWITCH_ONE_SHOT = BLOCKS + 4,
    SWITCH_TWO_SHOT,
    SWITCH_BLOCKS, /* from here on: the same in two shots, on so many */
    WAYS = SWITCH_BLOCKS + 4
};

struct perf_way {
    const char *name;
    const char *packets_max; /* settings */
    const char *one_shot_max;
    const char *blocks;    /* NULL: as they are */
    size_t least, most;    /* bytes */
    const char *by_switch; /* its limit of one shot; NULL: not by one */
    bool by_nccl;
};

extern const struct perf_way perf_ways[WAYS];

/* Groups of two ranks have a limit of their own. */
enum number {
    OF_TWO,
    OF_MORE,
    NUMBERS
};

struct perf_table {
    const struct perf_options *options;
    char *blocks; /* as the caller has set them; NULL: not at all */
    char *multicast_blocks;
    /* Why nothing is done by NCCL or by a switch; NULL: it is. */
    const char *no_nccl, *no_switch;
    struct perf_results results[NUMBERS][WAYS];
};

/* ---- perf_limits.c ---- */

/* NULL: that size was not measured. */
const struct perf_figures *perf_find_figures(
    const struct perf_results *results, size_t nbytes);

/* Up to which size a way is faster than the next one; the limit that costs least
 * for these numbers of ranks; false: none was measured. */
bool perf_find_limit(const struct perf_table *table, int way, int first,
    int last, size_t *limit);

/* The least size above a limit at which a way and the next one were measured; 0:
 * there is none. */
size_t perf_find_above(const struct perf_table *table, int way, size_t limit);

/* Of ways first to end - 1, the one with the fewest blocks that is as good as any;
 * NULL: not measured. */
const char *perf_find_blocks(
    const struct perf_table *table, int first, int end);

/* ---- perf_nccl.c ---- */

/* Why these all-reductions cannot be NCCL's; NULL: they can. */
const char *perf_nccl_missing(const struct perf_options *options);

#endif
