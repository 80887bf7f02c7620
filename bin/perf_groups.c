/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The groups in which a rank's operations run, where that is not the world's.
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
    free(rank->groups);
}

int perf_groups_make(struct perf_rank *rank)
{
    int count = rank->options->groups;

    if (count == 0)
        return PERF_PASSED;
    rank->groups = calloc((size_t)count, sizeof(struct symmcoll_group *));
    if (rank->groups == NULL)
        return perf_report(rank, "--groups", SYMMCOLL_ERR_NO_MEMORY);
    for (; rank->ngroups < count; rank->ngroups++) {
        symmcoll_status_t status = symmcoll_group_create(
            rank->world, NULL, &rank->groups[rank->ngroups]);

        if (status != SYMMCOLL_OK)
            return perf_report(rank, "making a group", status);
    }
    rank->group = rank->groups[0];
    return PERF_PASSED;
}
