/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Tests the warning on a rank that calls an operation of a group without being
 * a member: one line for each operation, independent of the debug level of
 * torch.distributed.
 */
#include "t/group/groups.h"

#include <stdlib.h>
#include <unistd.h>

#define WORLD 2

/* Returns how often a text occurs in a file, at most once for each line. */
static int count_text(FILE *file, const char *text)
{
    char line[512];
    int count = 0;

    rewind(file);
    while (fgets(line, sizeof(line), file) != NULL)
        count += strstr(line, text) != NULL;
    return count;
}

/* Redirects standard error to a file; the process has one rank. */
static int outsiders_are_warned(struct symmcoll_group *all, int rank)
{
    static const int first[] = {0};
    struct symmcoll_group *group;
    FILE *file = tmpfile();
    int saved = dup(STDERR_FILENO), x = 1, good;

    if (file == NULL || !made(rank, groups_create(all, first, 1, &group)))
        return 0;
    dup2(fileno(file), STDERR_FILENO);
    good = symmcoll_all_reduce(group, &x, &x, 1, SYMMCOLL_INT32, SYMMCOLL_SUM,
               NULL, NULL) == (rank == 0 ? SYMMCOLL_OK : SYMMCOLL_NOT_MEMBER);
    for (int i = 0; i < 3; i++)
        good = good && symmcoll_barrier(group, NULL, NULL) ==
                           (rank == 0 ? SYMMCOLL_OK : SYMMCOLL_NOT_MEMBER);
    dup2(saved, STDERR_FILENO);
    good = good &&
           count_text(file, "warning: all_reduce of group 1, which rank 1 is "
                            "not in: nothing is done") == rank &&
           count_text(file, "warning: barrier of group 1, ") == rank &&
           count_text(file, "is not in") == 2 * rank;
    fclose(file);
    close(saved);
    return good && symmcoll_group_free(group) == SYMMCOLL_OK;
}

/* Mismatches that torch.distributed detects only with DETAIL are always
 * detected. */
static int mismatches_are_found(struct symmcoll_group *all, int rank)
{
    int x[2] = {1, 1};
    symmcoll_status_t status = symmcoll_all_reduce(
        all, x, x, rank == 0 ? 1 : 2, SYMMCOLL_INT32, SYMMCOLL_SUM, NULL, NULL);

    return groups_said(rank, status, SYMMCOLL_ERR_MISMATCH,
               "rank 0 passed 1, rank 1 passed 2") &&
           groups_sum(all, rank) == 1;
}

int main(void)
{
    /* The last one is no level, and an error in torch. */
    static const char *const levels[] = {"DETAIL", "INFO", "OFF", "0"};

    plan(8);
    for (int i = 0; i < 4; i++) {
        setenv("TORCH_DISTRIBUTED_DEBUG", levels[i], 1);
        ok(ranks_run(WORLD, outsiders_are_warned),
            "who is not in a group is warned once for each operation, members "
            "are not (G31 O8, %s)",
            levels[i]);
        ok(ranks_run(WORLD, mismatches_are_found),
            "what differs is found without it (G11, %s)", levels[i]);
    }
    return done_testing();
}
