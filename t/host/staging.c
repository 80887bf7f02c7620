/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Tests the budget of staging memory: how much a rank uses, that all ranks use
 * as much as the one with the smallest budget, and that results are the same
 * with a small budget.
 */
#include "../ranks.h"
#include "../tap.h"

#include "group/group.h"

#include <symmcoll.h>

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/stat.h>

#define SIZE 3
#define COUNT 300000

/* The budgets of the ranks, NULL: not set; and the resulting staging size. */
struct budget {
    const char *of[SIZE];
    size_t nbytes;
};

static size_t memory_of(const struct symmcoll_world *world)
{
    struct stat info;

    return fstat(world->fd, &info) == 0 ? (size_t)info.st_blocks * 512 : 0;
}

static bool sums(struct symmcoll_group *group, int64_t *x)
{
    int rank = symmcoll_group_rank(group);
    bool good;

    for (int64_t i = 0; i < COUNT; i++)
        x[i] = i * (rank + 1);
    good = symmcoll_all_reduce(group, x, x, COUNT, SYMMCOLL_INT64, SYMMCOLL_SUM,
               NULL, NULL) == SYMMCOLL_OK;
    for (int64_t i = 0; good && i < COUNT; i++)
        good = x[i] == 6 * i;
    if (!good)
        diag("rank %d: %s", rank, symmcoll_last_error());
    return good;
}

static bool scatters(struct symmcoll_group *group, int64_t *out)
{
    int rank = symmcoll_group_rank(group);
    int64_t *in = malloc(SIZE * COUNT * sizeof(*in));
    bool good = in != NULL;

    for (int64_t i = 0; good && i < SIZE * COUNT; i++)
        in[i] = i + rank;
    good = good && symmcoll_reduce_scatter(group, out, in, COUNT,
                       SYMMCOLL_INT64, SYMMCOLL_SUM, NULL, NULL) == SYMMCOLL_OK;
    for (int64_t i = 0; good && i < COUNT; i++)
        good = out[i] == SIZE * (rank * (int64_t)COUNT + i) + 3;
    free(in);
    return good;
}

static int spend(int rank, int size, void *arg)
{
    const struct budget *budget = arg;
    int64_t *x = malloc(COUNT * sizeof(*x));
    struct symmcoll_world *world;
    size_t before, spent;
    bool good;

    (void)size;
    if (budget->of[rank] != NULL)
        setenv("SYMMCOLL_HOST_STAGING_BUDGET", budget->of[rank], 1);
    if (x == NULL || symmcoll_init(NULL, &world) != SYMMCOLL_OK) {
        diag("%s", symmcoll_last_error());
        return 1;
    }
    before = memory_of(world);
    good = sums(symmcoll_world_group(world), x) &&
           scatters(symmcoll_world_group(world), x);
    spent = memory_of(world) - before;
    if (spent != budget->nbytes)
        diag("rank %d: expected %zu bytes of staging, found %zu", rank,
            budget->nbytes, spent);
    good = spent == budget->nbytes && good;
    free(x);
    return symmcoll_finalize(world) == SYMMCOLL_OK && good ? 0 : 1;
}

static bool spends(
    const char *first, const char *second, const char *third, size_t nbytes)
{
    struct budget budget = {{first, second, third}, nbytes};
    int statuses[SIZE] = {0};

    return ranks_spawn(SIZE, spend, &budget, statuses) && statuses[0] == 0 &&
           statuses[1] == 0 && statuses[2] == 0;
}

int main(void)
{
    plan(5);
    ok(spends(NULL, NULL, NULL, (size_t)2 << 20),
        "within the budget a group has the staging that it wants");
    ok(spends("512KiB", "512KiB", "512KiB", (size_t)512 << 10),
        "with less of a budget it has that, and the same results");
    ok(spends("1MiB", "128KiB", NULL, (size_t)128 << 10),
        "all ranks use as much as the one with the least");
    ok(spends("100000", "100000", "100000", 24 * 4096),
        "of a budget that is no whole pages the whole ones are used");
    ok(spends("0", NULL, NULL, (size_t)32 << 10),
        "without a budget it has what it cannot do without");
    return done_testing();
}
