/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What ranks are called in messages: by their number in the world, and by that
 * in the group, in brackets, where the two differ.  The one place for that.
 */
#ifndef SYMC_BASE_RANKS_H
#define SYMC_BASE_RANKS_H

#include "base/base.h"

/* The members of a group. */
struct symc_ranks {
    const char *group; /* its name */
    const int *global; /* the number of each in the world; NULL: the same */
    int size;
};

#define SYMC_RANK_TEXT 160 /* bytes of one rank as text */
#define SYMC_NO_PID (-1)

/*
 * "rank 5", "rank 5 (2 in group dp)", "rank 5 (pid 123)", "rank 5 (2 in group
 * dp, pid 123)"; into a buffer of SYMC_RANK_TEXT.  rank is within the group; pid
 * as for symc_format_pid(), SYMC_NO_PID: not said.
 */
const char *symc_format_rank(
    const struct symc_ranks *ranks, int rank, pid_t pid, char *buffer);

/* Listed members: "rank 2", "ranks 4, 6-8 (1, 3-5 in group dp)". */
const char *symc_format_members(const struct symc_ranks *ranks,
    const bool *listed, char *buffer, size_t nbytes);

#endif
