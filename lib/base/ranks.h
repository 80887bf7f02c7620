/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The text for ranks in messages: the number in the world, followed by the
 * number in the group in brackets if they differ.  All messages use these
 * functions.
 */
#ifndef SYMC_BASE_RANKS_H
#define SYMC_BASE_RANKS_H

#include "base/base.h"

/* The members of a group. */
struct symc_ranks {
    const char *group; /* its name */
    const int *global; /* the world rank of each; NULL: equal */
    int size;
};

#define SYMC_RANK_TEXT 160 /* bytes of one rank as text */
#define SYMC_NO_PID (-1)

/*
 * Formats "rank 5", "rank 5 (2 in group dp)", "rank 5 (pid 123)" or "rank 5 (2
 * in group dp, pid 123)" into a buffer of SYMC_RANK_TEXT.  rank is within the
 * group; pid is as for symc_format_pid(), or SYMC_NO_PID to omit it.
 */
const char *symc_format_rank(
    const struct symc_ranks *ranks, int rank, pid_t pid, char *buffer);

/* Formats the listed members: "rank 2", "ranks 4, 6-8 (1, 3-5 in group dp)". */
const char *symc_format_members(const struct symc_ranks *ranks,
    const bool *listed, char *buffer, size_t nbytes);

#endif
