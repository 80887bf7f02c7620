/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What a rank is told that calls an operation of a group that it is not in: one
 * line for each operation, whatever the debug level of torch.distributed says.
 */
#include "t/group/groups.h"

#include <stdlib.h>
#include <unistd.h>

#define WORLD 2

/* How often a text is in what was written to a file. */
static int count_text(FILE *file, const char *text)
{
    char line[512];
    int count = 0;

    rewind(file);
    while (fgets(line, sizeof(line), file) != NULL)
        count += strstr(line, text) != NULL;
    return count;
}

/* Standard error goes to a file meanwhile: of the process's one rank. */
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

int main(void)
{
    static const char *const levels[] = {"DETAIL", "INFO", "OFF"};

    plan(3);
    for (int i = 0; i < 3; i++) {
        setenv("TORCH_DISTRIBUTED_DEBUG", levels[i], 1);
        ok(ranks_run(WORLD, outsiders_are_warned),
            "who is not in a group is warned once for each operation, members "
            "are not (G31, %s)",
            levels[i]);
    }
    return done_testing();
}
