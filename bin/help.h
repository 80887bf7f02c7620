/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Choice of the process of a job that prints --help and --version.
 */
#ifndef SYMC_BIN_HELP_H
#define SYMC_BIN_HELP_H

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

/* Returns whether this process prints them: of the ranks of symmcoll-run only
 * rank 0 does. */
static inline bool prints_help(void)
{
    const char *job = getenv("SYMMCOLL_JOB");
    const char *rank = getenv("RANK");

    return job == NULL || rank == NULL || strcmp(rank, "0") == 0;
}

#endif
