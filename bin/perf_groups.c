/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The groups of a rank's operations, if they are not the world's.
 */
#include "perf.h"

#include <stdio.h>
#include <stdlib.h>

static void free_group(
    const struct perf_rank *rank, struct symmcoll_group *group)
{
    if (group != NULL && symmcoll_group_free(group) != SYMMCOLL_OK)
        perf_report(rank, "releasing a group", SYMMCOLL_ERR_TIMEOUT);
}

void perf_groups_free(struct perf_rank *rank)
{
    symmcoll_symm_release(rank->symm);
    for (int i = 0; i < rank->ngroups; i++)
        free_group(rank, rank->groups[i]);
    free_group(rank, rank->first);
    free(rank->groups);
}

/* Makes a group of all ranks, or of the first ones. */
static int make_group(struct perf_rank *rank, struct symmcoll_group **group)
{
    struct symmcoll_group_args args = SYMMCOLL_GROUP_ARGS_INIT;
    static const int first[] = {0, 1};
    bool some = rank->options->members > 0;
    symmcoll_status_t status;

    args.ranks = first;
    args.nranks = rank->options->members;
    *group = NULL;
    status = symmcoll_group_create(rank->world, some ? &args : NULL, group);
    return status >= SYMMCOLL_OK ? PERF_PASSED
                                 : perf_report(rank, "making a group", status);
}

int perf_groups_make(struct perf_rank *rank)
{
    int count = rank->options->groups, result = PERF_PASSED;

    if (rank->options->members > rank->size) {
        if (rank->rank == 0)
            fprintf(stderr, "symmcoll-perf: expected %d ranks, found %d\n",
                rank->options->members, rank->size);
        return PERF_FAILED;
    }
    /* Operations of the host have their own group. */
    if (rank->options->members > 0) {
        result = make_group(rank, &rank->first);
        rank->all = rank->group = rank->first;
        rank->idle = rank->rank >= rank->options->members;
        rank->size = rank->options->members;
    }
    if (count == 0 || result != PERF_PASSED)
        return result;
    rank->groups = calloc((size_t)count, sizeof(struct symmcoll_group *));
    if (rank->groups == NULL)
        return perf_report(rank, "--groups", SYMMCOLL_ERR_NO_MEMORY);
    for (; rank->ngroups < count && result == PERF_PASSED; rank->ngroups++)
        result = make_group(rank, &rank->groups[rank->ngroups]);
    rank->group = rank->groups[0];
    return result;
}
