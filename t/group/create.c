/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Tests groups of some ranks: creation, attributes, use and release. The
 * bodies are the same for processes and threads.
 */
#include "t/group/groups.h"

#include <string.h>

#define WORLD 4

/* ---- attributes of groups ---- */

static int members_add_up(struct symmcoll_group *all, int rank)
{
    static const int ranks[] = {3, 1}; /* in any order */
    struct symmcoll_group *group;
    bool member = rank == 1 || rank == 3;
    int good;

    if (!made(rank, groups_create(all, ranks, 2, &group)))
        return 0;
    good = symmcoll_group_size(group) == 2 &&
           symmcoll_group_rank(group) == (member ? rank / 2 : -1) &&
           symmcoll_group_rank_of(group, 1) == 0 &&
           symmcoll_group_rank_of(group, 3) == 1 &&
           symmcoll_group_rank_of(group, 0) == -1 &&
           symmcoll_group_rank_of(group, -1) == -1 &&
           symmcoll_group_rank_of(group, WORLD) == -1 &&
           symmcoll_group_rank_of(NULL, 1) == -1 &&
           symmcoll_group_global_rank(group, 0) == 1 &&
           symmcoll_group_global_rank(group, 1) == 3 &&
           symmcoll_group_global_rank(group, 2) == -1 &&
           symmcoll_group_global_rank(group, -1) == -1 &&
           symmcoll_group_global_rank(NULL, 0) == -1;
    good = good && (!member || groups_sum(group, rank) == 4);
    good = good && groups_sum(all, rank) == 6;
    return good && symmcoll_group_free(group) == SYMMCOLL_OK;
}

static int sequences_begin_at_0(struct symmcoll_group *all, int rank)
{
    static const int ranks[] = {0, 2, 3};
    struct symmcoll_group *group;
    int good;

    if (groups_sum(all, rank) != 6 ||
        !made(rank, groups_create(all, ranks, 3, &group)))
        return 0;
    good = symmcoll_group_sequence(group) == 0 &&
           symmcoll_group_sequence(all) == 1;
    if (symmcoll_group_rank(group) >= 0)
        good = good && groups_sum(group, rank) == 5 &&
               groups_sum(group, rank) == 5 &&
               symmcoll_group_sequence(group) == 2;
    else
        good = good && symmcoll_group_sequence(group) == 0;
    return good && symmcoll_group_sequence(all) == 1 &&
           symmcoll_group_free(group) == SYMMCOLL_OK;
}

static int no_ranks_are_all(struct symmcoll_group *all, int rank)
{
    struct symmcoll_group *group;
    int good;

    if (!made(rank,
            symmcoll_group_create(symmcoll_group_world(all), NULL, &group)))
        return 0;
    good = group != all && symmcoll_group_size(group) == WORLD &&
           symmcoll_group_rank(group) == rank && groups_sum(group, rank) == 6;
    return good && symmcoll_group_free(group) == SYMMCOLL_OK;
}

static int one_rank_alone(struct symmcoll_group *all, int rank)
{
    static const int two[] = {2};
    struct symmcoll_group *group;
    int good;

    if (!made(rank, groups_create(all, two, 1, &group)))
        return 0;
    good = rank != 2 || groups_sum(group, rank) == 2;
    return good && symmcoll_group_free(group) == SYMMCOLL_OK;
}

/* ---- ranks outside the group ---- */

static int outsiders_do_nothing(struct symmcoll_group *all, int rank)
{
    static const int ranks[] = {0, 1};
    struct symmcoll_work *work = (struct symmcoll_work *)(void *)&rank;
    struct symmcoll_group *group;
    float x = 7;
    int good = 1;

    if (!made(rank, groups_create(all, ranks, 2, &group)))
        return 0;
    if (rank >= 2)
        good = symmcoll_all_reduce(group, &x, &x, 1, SYMMCOLL_FLOAT32,
                   SYMMCOLL_SUM, NULL, NULL) == SYMMCOLL_NOT_MEMBER &&
               x == 7 &&
               strstr(symmcoll_last_error(), "is not in group ") != NULL &&
               symmcoll_barrier(group, NULL, &work) == SYMMCOLL_NOT_MEMBER &&
               work == NULL &&
               symmcoll_group_error(group) == SYMMCOLL_NOT_MEMBER;
    symmcoll_group_abort(rank >= 2 ? group : NULL, "from outside");
    good = good && groups_sum(all, rank) == 6;
    if (rank < 2)
        good = good && groups_sum(group, rank) == 1;
    return good && symmcoll_group_free(group) == SYMMCOLL_OK;
}

static int statuses_have_names(void)
{
    return strcmp(symmcoll_status_name(SYMMCOLL_NOT_MEMBER), "NOT_MEMBER") ==
               0 &&
           symmcoll_status_category(SYMMCOLL_NOT_MEMBER) ==
               SYMMCOLL_CATEGORY_NONE;
}

/* ---- names ---- */

static int numbers_count_on_every_rank(struct symmcoll_group *all, int rank)
{
    static const int first[] = {0, 1}, second[] = {2, 3};
    struct symmcoll_group *groups[3];
    int good = strcmp(symmcoll_group_name(all), groups_named(all, "0")) == 0;

    if (!made(rank, groups_create(all, first, 2, &groups[0])) ||
        !made(rank, groups_create(all, second, 2, &groups[1])))
        return 0;
    good =
        good && symmcoll_group_free(groups[0]) == SYMMCOLL_OK &&
        made(rank, groups_create(all, first, 2, &groups[2])) &&
        strcmp(symmcoll_group_name(groups[1]), groups_named(all, "2")) == 0 &&
        strcmp(symmcoll_group_name(groups[2]), groups_named(all, "3")) == 0;
    for (int i = 1; i < 3; i++)
        good = good && symmcoll_group_free(groups[i]) == SYMMCOLL_OK;
    return good;
}

static int a_name_is_had_once(struct symmcoll_group *all, int rank)
{
    struct symmcoll_group_args args = SYMMCOLL_GROUP_ARGS_INIT;
    struct symmcoll_world *world = symmcoll_group_world(all);
    struct symmcoll_group *group, *again;
    symmcoll_status_t status;
    int good;

    args.name = "dp";
    if (!made(rank, symmcoll_group_create(world, &args, &group)))
        return 0;
    good = strcmp(symmcoll_group_name(group), groups_named(all, "dp")) == 0;
    /* One rank that still has it is sufficient. */
    if (rank != 1)
        good = good && symmcoll_group_free(group) == SYMMCOLL_OK;
    status = symmcoll_group_create(world, &args, &again);
    good = good && groups_said(rank, status, SYMMCOLL_ERR_INVALID,
                       "rank 1: expected a new name");
    if (rank == 1)
        good = good && symmcoll_group_free(group) == SYMMCOLL_OK;
    return good && made(rank, symmcoll_group_create(world, &args, &again)) &&
           groups_sum(again, rank) == 6 &&
           symmcoll_group_free(again) == SYMMCOLL_OK;
}

int main(void)
{
    plan(15);
    groups_both(WORLD, members_add_up,
        "members use a group of their own, in the order of the world (G23, G30)");
    groups_both(WORLD, sequences_begin_at_0,
        "a new group's sequence begins at 0, only members advance it (C64)");
    groups_both(WORLD, no_ranks_are_all, "without ranks it is a group of all");
    groups_both(WORLD, one_rank_alone, "one rank may be a group");
    groups_both(WORLD, outsiders_do_nothing,
        "operations of a rank that is no member do nothing (G31, G33, G48)");
    ok(statuses_have_names(), "NOT_MEMBER has a name and is no error");
    groups_both(WORLD, numbers_count_on_every_rank,
        "groups without names have numbers that count on every rank (G14)");
    groups_both(WORLD, a_name_is_had_once,
        "a name that one rank still has is refused on all (G14)");
    return done_testing();
}
