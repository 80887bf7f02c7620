/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Tests several overlapping groups at once, from one thread and from several;
 * and every collective in a group of some ranks.
 */
#include "t/group/groups.h"

#include <pthread.h>
#include <stdlib.h>

#define WORLD 4
#define ROUNDS 100
#define LARGE 20000

static const int pairs[WORLD][2] = {{0, 1}, {1, 2}, {2, 3}, {0, 3}};

static bool create_ring(
    struct symmcoll_group *all, int rank, struct symmcoll_group **groups)
{
    for (int i = 0; i < WORLD; i++) {
        if (!made(rank, groups_create(all, pairs[i], 2, &groups[i])))
            return false;
    }
    return true;
}

static bool free_all(struct symmcoll_group **groups, int count)
{
    bool good = true;

    for (int i = 0; i < count; i++)
        good = symmcoll_group_free(groups[i]) == SYMMCOLL_OK && good;
    return good;
}

/* ---- at once ---- */

/* Waits for the works in another order than they were issued, different on
 * each rank. */
static int works_of_all_groups_run(struct symmcoll_group *all, int rank)
{
    struct symmcoll_group *groups[WORLD + 1];
    int good = create_ring(all, rank, groups);

    groups[WORLD] = all;
    for (int i = 0; good && i < ROUNDS; i++) {
        struct symmcoll_work *works[WORLD + 1] = {NULL};
        int sums[WORLD + 1];

        for (int g = 0; good && g <= WORLD; g++) {
            sums[g] = rank;
            if (symmcoll_group_rank(groups[g]) >= 0)
                good = symmcoll_all_reduce(groups[g], &sums[g], &sums[g], 1,
                           SYMMCOLL_INT32, SYMMCOLL_SUM, NULL,
                           &works[g]) == SYMMCOLL_OK;
        }
        for (int k = 0; k <= WORLD; k++) {
            int g = (k * (rank % 2 == 0 ? 2 : 3) + i) % (WORLD + 1);

            if (works[g] == NULL)
                continue;
            good = good && symmcoll_work_wait(works[g], -1) == SYMMCOLL_OK &&
                   sums[g] == (g == WORLD ? 6 : pairs[g][0] + pairs[g][1]);
            symmcoll_work_free(works[g]);
        }
    }
    return good && free_all(groups, WORLD);
}

struct user {
    pthread_t thread;
    struct symmcoll_group *group;
    int good;
};

/* Runs small and large operations, on the caller's thread. */
static void *use_group(void *arg)
{
    struct user *user = arg;
    float *x = malloc(LARGE * sizeof(*x));
    int size = symmcoll_group_size(user->group);

    user->good = x != NULL;
    for (int i = 0; user->good && i < ROUNDS; i++) {
        size_t count = i % 3 == 0 ? LARGE : 3;

        for (size_t k = 0; k < count; k++)
            x[k] = (float)i;
        user->good =
            symmcoll_all_reduce(user->group, x, x, count, SYMMCOLL_FLOAT32,
                SYMMCOLL_SUM, NULL, NULL) == SYMMCOLL_OK &&
            x[0] == (float)(i * size) && x[count - 1] == x[0];
    }
    free(x);
    return NULL;
}

static int threads_have_a_group_each(struct symmcoll_group *all, int rank)
{
    struct symmcoll_group *groups[WORLD + 1];
    struct user users[WORLD + 1];
    int good = create_ring(all, rank, groups);

    groups[WORLD] = all;
    for (int g = 0; good && g <= WORLD; g++) {
        users[g].group = groups[g];
        if (symmcoll_group_rank(groups[g]) >= 0)
            pthread_create(&users[g].thread, NULL, use_group, &users[g]);
    }
    for (int g = 0; good && g <= WORLD; g++) {
        if (symmcoll_group_rank(groups[g]) < 0)
            continue;
        pthread_join(users[g].thread, NULL);
        good = users[g].good;
    }
    return good && free_all(groups, WORLD);
}

/* Two threads split two parents at the same time. */
static void *split_often(void *arg)
{
    struct user *user = arg;

    user->good = 1;
    for (int i = 0; user->good && i < ROUNDS / 4; i++) {
        struct symmcoll_group *group;

        user->good =
            made(0, symmcoll_group_split(user->group, 0, 0, NULL, &group)) &&
            groups_sum(group, 1) == symmcoll_group_size(user->group) &&
            symmcoll_group_free(group) == SYMMCOLL_OK;
    }
    return NULL;
}

static int threads_make_groups(struct symmcoll_group *all, int rank)
{
    struct symmcoll_group *half;
    struct user users[2];
    int good = made(rank, symmcoll_group_split(all, rank % 2, 0, NULL, &half));

    if (!good)
        return 0;
    users[0].group = all;
    users[1].group = half;
    for (int i = 0; i < 2; i++)
        pthread_create(&users[i].thread, NULL, split_often, &users[i]);
    for (int i = 0; i < 2; i++) {
        pthread_join(users[i].thread, NULL);
        good = good && users[i].good;
    }
    return good && symmcoll_group_free(half) == SYMMCOLL_OK;
}

/* ---- every collective ---- */

/* Returns the group of ranks 2 and 3; roots are numbers in that group. */
static struct symmcoll_group *last_two(struct symmcoll_group *all, int rank)
{
    static const int ranks[] = {2, 3};
    struct symmcoll_group *group;

    return made(rank, groups_create(all, ranks, 2, &group)) ? group : NULL;
}

static int gather_in_a_group(struct symmcoll_group *all, int rank)
{
    struct symmcoll_group *group = last_two(all, rank);
    int out[2] = {0}, good = group != NULL;

    if (rank >= 2)
        good = good &&
               symmcoll_gather(group, out, &rank, 1, SYMMCOLL_INT32, 0, NULL,
                   NULL) == SYMMCOLL_OK &&
               (rank == 3 || (out[0] == 2 && out[1] == 3));
    return good && symmcoll_group_free(group) == SYMMCOLL_OK;
}

static int reduce_in_a_group(struct symmcoll_group *all, int rank)
{
    struct symmcoll_group *group = last_two(all, rank);
    int out = 0, good = group != NULL;

    if (rank >= 2)
        good = good &&
               symmcoll_reduce(group, &out, &rank, 1, SYMMCOLL_INT32,
                   SYMMCOLL_SUM, 0, NULL, NULL) == SYMMCOLL_OK &&
               out == (rank == 2 ? 5 : 0);
    return good && symmcoll_group_free(group) == SYMMCOLL_OK;
}

static int broadcast_in_a_group(struct symmcoll_group *all, int rank)
{
    struct symmcoll_group *group = last_two(all, rank);
    int x = rank, good = group != NULL;

    if (rank >= 2)
        good =
            good &&
            symmcoll_broadcast(group, &x, 1, SYMMCOLL_INT32, 1, NULL, NULL) ==
                SYMMCOLL_OK &&
            x == 3 &&
            groups_said(rank,
                symmcoll_broadcast(group, &x, 1, SYMMCOLL_INT32, 2, NULL, NULL),
                SYMMCOLL_ERR_INVALID, "a root of 0 to 1, found 2");
    return good && symmcoll_group_free(group) == SYMMCOLL_OK;
}

static int scatter_in_a_group(struct symmcoll_group *all, int rank)
{
    struct symmcoll_group *group = last_two(all, rank);
    int in[] = {20, 30}, x = 0, good = group != NULL;

    if (rank >= 2)
        good = good &&
               symmcoll_scatter(group, &x, rank == 2 ? in : NULL, 1,
                   SYMMCOLL_INT32, 0, NULL, NULL) == SYMMCOLL_OK &&
               x == rank * 10;
    return good && symmcoll_group_free(group) == SYMMCOLL_OK;
}

int main(void)
{
    plan(14);
    groups_both(WORLD, works_of_all_groups_run,
        "works of groups that overlap run at the same time");
    groups_both(
        WORLD, threads_have_a_group_each, "threads of a rank use a group each");
    groups_both(
        WORLD, threads_make_groups, "threads make groups of several parents");
    groups_both(WORLD, gather_in_a_group, "gather in a group of two (G32)");
    groups_both(WORLD, reduce_in_a_group, "reduce in a group of two (G32)");
    groups_both(
        WORLD, broadcast_in_a_group, "broadcast in a group of two (G32)");
    groups_both(WORLD, scatter_in_a_group, "scatter in a group of two (G32)");
    return done_testing();
}
