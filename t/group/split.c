/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Tests groups that are created together from a group: by colors, by lists, by
 * runs.
 */
#include "t/group/groups.h"

#define WORLD 4

static int count_splits(const struct symmcoll_group *group)
{
    struct symmcoll_group_info info = SYMMCOLL_GROUP_INFO_INIT;

    return symmcoll_group_get_info(group, &info) == SYMMCOLL_OK
               ? (int)info.splits
               : -1;
}

static bool has_name(
    struct symmcoll_group *all, struct symmcoll_group *group, const char *name)
{
    bool right =
        strcmp(symmcoll_group_name(group), groups_named(all, name)) == 0;

    if (!right)
        diag("expected a group %s, found %s", groups_named(all, name),
            symmcoll_group_name(group));
    return right;
}

/* ---- colors ---- */

/* Orders ranks 3 and 1 by their keys, ranks 0 and 2 by their numbers. */
static int colors_and_keys_order(struct symmcoll_group *all, int rank)
{
    struct symmcoll_group *group;
    int good;

    if (!made(rank, symmcoll_group_split(all, rank % 2 == 1 ? 3 : 7,
                        rank % 2 == 1 ? -rank : 5, NULL, &group)))
        return 0;
    good = symmcoll_group_size(group) == 2 &&
           symmcoll_group_rank(group) == (rank % 2 == 1 ? rank == 1 : rank / 2);
    good = good && has_name(all, group, rank % 2 == 1 ? "1" : "2") &&
           groups_sum(group, rank) == (rank % 2 == 1 ? 4 : 2);
    return good && count_splits(all) == 1 &&
           symmcoll_group_free(group) == SYMMCOLL_OK;
}

static int no_color_is_no_group(struct symmcoll_group *all, int rank)
{
    struct symmcoll_group *group = all;
    int good = made(rank, symmcoll_group_split(
                              all, rank == 2 ? -1 : 0, 0, NULL, &group)) &&
               (group == NULL) == (rank == 2) && count_splits(all) == 1;

    if (rank != 2)
        good = good && groups_sum(group, rank) == 4;
    return good && symmcoll_group_free(group) == SYMMCOLL_OK &&
           made(rank, symmcoll_group_split(all, -1, 0, NULL, &group)) &&
           group == NULL;
}

/* Splits a group with calls of its members only. */
static int groups_are_split_again(struct symmcoll_group *all, int rank)
{
    struct symmcoll_group_args args = SYMMCOLL_GROUP_ARGS_INIT;
    struct symmcoll_group_info info = SYMMCOLL_GROUP_INFO_INIT;
    struct symmcoll_group *half, *own = NULL;
    int good = 1;

    args.name = "half";
    args.description = "a half";
    args.timeout = 77;
    if (!made(rank, symmcoll_group_split(all, rank / 2, 0, &args, &half)))
        return 0;
    good = has_name(all, half, rank / 2 == 0 ? "half.0" : "half.1") &&
           count_splits(half) == 0;
    for (int i = 0; i < 2 && rank < 2; i++) {
        good = good &&
               made(rank, symmcoll_group_split(half, rank, 0, NULL, &own)) &&
               groups_sum(own, rank) == rank && count_splits(half) == i + 1 &&
               symmcoll_group_get_info(own, &info) == SYMMCOLL_OK &&
               info.timeout == 77 &&
               strcmp(info.description,
                   i == 0 ? "a half:split:0" : "a half:split:1") == 0;
        good = good && (i > 0 || has_name(all, own,
                                     rank == 0 ? "half.0.1" : "half.0.2"));
        good = symmcoll_group_free(own) == SYMMCOLL_OK && good;
    }
    return good && symmcoll_group_free(half) == SYMMCOLL_OK;
}

/* ---- lists and runs ---- */

static int lists_choose_ranks(struct symmcoll_group *all, int rank)
{
    static const int ranks[] = {3, 0, 2}, sizes[] = {2, 1};
    static const struct symmcoll_lists lists = {ranks, sizes, 2};
    struct symmcoll_group *own, *groups[2];
    int good;

    if (!made(rank, symmcoll_group_split_lists(all, &lists, NULL, &own, NULL)))
        return 0;
    good = (own == NULL) == (rank == 1);
    if (rank != 1)
        good = good && groups_sum(own, rank) == (rank == 2 ? 2 : 3) &&
               symmcoll_group_rank(own) == (rank == 3);
    good = symmcoll_group_free(own) == SYMMCOLL_OK && good;
    if (!made(
            rank, symmcoll_group_split_lists(all, &lists, NULL, &own, groups)))
        return 0;
    good = good && symmcoll_group_size(groups[0]) == 2 &&
           symmcoll_group_global_rank(groups[0], 0) == 0 &&
           symmcoll_group_rank(groups[1]) == (rank == 2 ? 0 : -1) &&
           (own == groups[0]) == (rank == 0 || rank == 3) &&
           count_splits(all) == 2;
    for (int i = 0; i < 2; i++)
        good = symmcoll_group_free(groups[i]) == SYMMCOLL_OK && good;
    return good;
}

static int runs_follow_one_another(struct symmcoll_group *all, int rank)
{
    struct symmcoll_group *own, *groups[2];
    int good;

    if (!made(rank, symmcoll_group_split_runs(all, 2, NULL, &own, groups)))
        return 0;
    good = own == groups[rank / 2] && symmcoll_group_rank(own) == rank % 2 &&
           groups_sum(own, rank) == (rank < 2 ? 1 : 5);
    for (int i = 0; i < 2; i++)
        good = symmcoll_group_free(groups[i]) == SYMMCOLL_OK && good;
    return good;
}

/* ---- mistakes ---- */

static bool refuses_lists(struct symmcoll_group *all, const int *ranks,
    const int *sizes, int count, const char *text)
{
    const struct symmcoll_lists lists = {ranks, sizes, count};
    struct symmcoll_group *own;

    return groups_said(0,
        symmcoll_group_split_lists(all, &lists, NULL, &own, NULL),
        SYMMCOLL_ERR_INVALID, text);
}

static bool refuses_runs(
    struct symmcoll_group *all, int nranks, const char *text)
{
    struct symmcoll_group *own;

    return groups_said(0,
        symmcoll_group_split_runs(all, nranks, NULL, &own, NULL),
        SYMMCOLL_ERR_INVALID, text);
}

static int mistakes_wait_for_nobody(struct symmcoll_group *all, int rank)
{
    static const int twice[] = {0, 1, 1, 2}, outside[] = {0, 4},
                     same[] = {3, 3}, two[] = {2, 2}, none[] = {0},
                     many[] = {5};
    struct symmcoll_group_args args = SYMMCOLL_GROUP_ARGS_INIT;
    struct symmcoll_group *own;
    bool good = true;

    args.ranks = twice;
    args.nranks = 1;
    if (rank == 0)
        good = refuses_lists(
                   all, twice, two, 2, "found rank 1 in lists 0 and 1") &&
               refuses_lists(
                   all, outside, two, 1, "expected ranks of 0 to 3, found 4") &&
               refuses_lists(all, same, two, 1, "found 3 twice") &&
               refuses_lists(all, twice, none, 1, "in list 0, found 0") &&
               refuses_lists(
                   all, twice, many, 1, "which is 4, found 5 up to list 0") &&
               refuses_lists(all, twice, two, 0, "found none") &&
               refuses_lists(all, NULL, two, 1, "found NULL") &&
               refuses_runs(all, 0, "runs of 1 to 4 ranks, found 0") &&
               refuses_runs(all, 5, "runs of 1 to 4 ranks, found 5") &&
               refuses_runs(all, 3, "a divisor of 4 ranks, found 3") &&
               refuses_runs(NULL, 3, "found NULL") &&
               groups_said(0, symmcoll_group_split(all, 0, 0, &args, &own),
                   SYMMCOLL_ERR_INVALID, "no ranks in args") &&
               groups_said(0, symmcoll_group_split(all, 0, 0, NULL, NULL),
                   SYMMCOLL_ERR_INVALID, "found NULL");
    return good && groups_sum(all, rank) == 6;
}

static int ways_that_differ_are_named(struct symmcoll_group *all, int rank)
{
    static const int ranks[] = {0, 1, 2, 3}, sizes[] = {2, 2};
    static const struct symmcoll_lists lists = {ranks, sizes, 2};
    struct symmcoll_group *own;
    symmcoll_status_t status =
        rank == 3 ? symmcoll_group_split(all, 0, 0, NULL, &own)
                  : symmcoll_group_split_lists(all, &lists, NULL, &own, NULL);

    return groups_said(rank, status, SYMMCOLL_ERR_MISMATCH,
               "operation differs: rank 3 called group_split, the other 3 "
               "called group_split_lists") &&
           groups_sum(all, rank) == 6 && count_splits(all) == 0;
}

/* ---- group attributes ---- */

static int groups_tell_what_they_are(struct symmcoll_group *all, int rank)
{
    static const int ranks[] = {0, 1};
    struct symmcoll_group_args args = SYMMCOLL_GROUP_ARGS_INIT;
    struct symmcoll_group_info info = SYMMCOLL_GROUP_INFO_INIT;
    struct symmcoll_group *group;
    int good = symmcoll_group_get_info(all, &info) == SYMMCOLL_OK &&
               info.uid == 0 && info.rank == rank && info.nranks == WORLD &&
               strcmp(info.description, groups_named(all, "default_pg")) == 0 &&
               strcmp(info.backend, "host") == 0;
    size_t staging = info.staging;

    args.ranks = ranks;
    args.nranks = 2;
    args.staging = 64 << 10;
    args.timeout = 12.5;
    if (!made(rank,
            symmcoll_group_create(symmcoll_group_world(all), &args, &group)))
        return 0;
    good = good && symmcoll_group_get_info(group, &info) == SYMMCOLL_OK &&
           info.uid == 1 && info.nranks == 2 &&
           info.rank == (rank < 2 ? rank : -1) && info.timeout == 12.5 &&
           strcmp(info.name, groups_named(all, "1")) == 0 &&
           strcmp(info.description, "undefined") == 0 &&
           (info.backend != NULL) == (rank < 2) && staging > 64 << 10 &&
           info.staging == (rank < 2 ? 64 << 10 : 0);
    good = good &&
           symmcoll_group_next(symmcoll_group_world(all), NULL) == all &&
           symmcoll_group_next(symmcoll_group_world(all), all) == group &&
           symmcoll_group_next(symmcoll_group_world(all), group) == NULL;
    return good && symmcoll_group_free(group) == SYMMCOLL_OK &&
           symmcoll_group_next(symmcoll_group_world(all), all) == NULL &&
           groups_said(rank, symmcoll_group_get_info(NULL, &info),
               SYMMCOLL_ERR_INVALID, "found NULL");
}

int main(void)
{
    plan(16);
    groups_both(WORLD, colors_and_keys_order,
        "ranks of one color are a group, in the order of their keys (G45)");
    groups_both(WORLD, no_color_is_no_group,
        "a rank without a color gets no group, and counts the split (G28)");
    groups_both(WORLD, groups_are_split_again,
        "a group is split by its members, with its options (G27, G28, G45)");
    groups_both(WORLD, lists_choose_ranks,
        "lists choose the ranks of several groups at once (G45, G46)");
    groups_both(WORLD, runs_follow_one_another,
        "a group is cut into runs of ranks (G46)");
    groups_both(WORLD, mistakes_wait_for_nobody,
        "lists and runs that cannot be are refused at once (G46)");
    groups_both(WORLD, ways_that_differ_are_named,
        "ranks that split in other ways are named");
    groups_both(WORLD, groups_tell_what_they_are,
        "a group tells name, description, number and options (G7-G10, G50)");
    return done_testing();
}
