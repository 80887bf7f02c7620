/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Tests invalid requests for groups, by one rank or by ranks that disagree: an
 * error on every rank concerned, and the world's group remains usable.
 */
#include "t/group/groups.h"

#include <math.h>

#define WORLD 3

/* ---- invalid arguments of one rank ---- */

static bool refused(struct symmcoll_world *world,
    const struct symmcoll_group_args *args, symmcoll_status_t expected,
    const char *text)
{
    struct symmcoll_group *group;

    return groups_said(
        0, symmcoll_group_create(world, args, &group), expected, text);
}

static bool refuses_ranks(struct symmcoll_world *world, const int *ranks,
    int nranks, const char *text)
{
    struct symmcoll_group_args args = SYMMCOLL_GROUP_ARGS_INIT;

    args.ranks = ranks;
    args.nranks = nranks;
    return refused(world, &args, SYMMCOLL_ERR_INVALID, text);
}

static bool refuses_name(struct symmcoll_world *world, const char *name)
{
    struct symmcoll_group_args args = SYMMCOLL_GROUP_ARGS_INIT;

    args.name = name;
    return refused(world, &args, SYMMCOLL_ERR_INVALID, "expected a name of 1");
}

/* Checks that control characters are refused, because messages and records are
 * lines. */
static bool refuses_control(struct symmcoll_world *world)
{
    struct symmcoll_group_args args = SYMMCOLL_GROUP_ARGS_INIT;
    bool good;

    args.name = "a\nb";
    good = refused(world, &args, SYMMCOLL_ERR_INVALID,
        "expected a name without control characters, found 'a?b'");
    args.name = "\x7f";
    good = good && refused(world, &args, SYMMCOLL_ERR_INVALID, "found '?'");
    args.name = NULL;
    args.tag = "\033[1m";
    return good && refused(world, &args, SYMMCOLL_ERR_INVALID,
                       "without control characters that begins with neither "
                       "user: nor ptd:, found '?[1m'");
}

/* Fails on one rank only: its next call still matches that of the others. */
static int wrong_arguments_wait_for_nobody(struct symmcoll_group *all, int rank)
{
    static const int outside[] = {0, WORLD}, negative[] = {-1},
                     twice[] = {0, 1, 0}, many[] = {0, 1, 2, 0};
    struct symmcoll_world *world = symmcoll_group_world(all);
    struct symmcoll_group_args args = SYMMCOLL_GROUP_ARGS_INIT;
    char desc[65];
    bool good = true;

    memset(desc, 'x', sizeof(desc) - 1);
    desc[sizeof(desc) - 1] = '\0';
    if (rank == 0) {
        good = groups_said(0, symmcoll_group_create(world, NULL, NULL),
                   SYMMCOLL_ERR_INVALID, "found NULL") &&
               refused(NULL, NULL, SYMMCOLL_ERR_INVALID, "found NULL") &&
               refuses_ranks(
                   world, outside, 2, "expected ranks of 0 to 2, found 3") &&
               refuses_ranks(
                   world, negative, 1, "expected ranks of 0 to 2, found -1") &&
               refuses_ranks(
                   world, twice, 3, "expected each rank once, found 0 twice") &&
               refuses_ranks(
                   world, many, 4, "than the world has, which is 3, found 4") &&
               refuses_ranks(
                   world, many, 0, "expected one rank or more, found 0") &&
               refuses_name(world, "") &&
               refuses_name(world, "a name of 64 bytes, one too many for any "
                                   "group that there can be") &&
               refuses_control(world);
        args.description = desc;
        good = good && refused(world, &args, SYMMCOLL_ERR_INVALID,
                           "at most 63 bytes, found 64");
        args.description = NULL;
        args.timeout = NAN;
        good = good && refused(world, &args, SYMMCOLL_ERR_INVALID, "NaN");
        args.timeout = -1;
        args.flags = 64;
        good =
            good && refused(world, &args, SYMMCOLL_ERR_INVALID, "found 0x40");
    }
    return good && groups_sum(all, rank) == 3;
}

static int the_worlds_group_is_not_released(
    struct symmcoll_group *all, int rank)
{
    return groups_said(rank, symmcoll_group_free(all), SYMMCOLL_ERR_INVALID,
               "symmcoll_finalize() releases") &&
           symmcoll_group_free(NULL) == SYMMCOLL_OK &&
           groups_sum(all, rank) == 3;
}

/* ---- arguments that differ between ranks ---- */

/* Checks that the world's group works, and can create groups. */
static bool goes_on(struct symmcoll_group *all, int rank)
{
    struct symmcoll_group *group;

    return made(rank, symmcoll_group_create(
                          symmcoll_group_world(all), NULL, &group)) &&
           strcmp(symmcoll_group_name(group), groups_named(all, "1")) == 0 &&
           groups_sum(group, rank) == 3 && groups_sum(all, rank) == 3 &&
           symmcoll_group_free(group) == SYMMCOLL_OK;
}

static int other_ranks_are_named(struct symmcoll_group *all, int rank)
{
    static const int ranks[] = {0, 1, 2};
    struct symmcoll_group *group;

    return groups_said(rank,
               groups_create(all, ranks, rank == 1 ? 2 : 3, &group),
               SYMMCOLL_ERR_MISMATCH,
               "group_create: groups differ: ranks 0 and 2 passed ranks 0-2 "
               "without a name, rank 1 passed ranks 0 and 1 without a name "
               "(group ") &&
           goes_on(all, rank);
}

static int other_order_is_named(struct symmcoll_group *all, int rank)
{
    static const int first[] = {0, 1}, second[] = {1, 2};
    struct symmcoll_group *group;
    bool good = true;

    for (int i = 0; i < 2; i++)
        good = groups_said(rank,
                   groups_create(all, (rank == 2) == (i == 0) ? second : first,
                       2, &group),
                   SYMMCOLL_ERR_MISMATCH, "rank 2 passed ranks ") &&
               good;
    return good && goes_on(all, rank);
}

static int other_names_are_named(struct symmcoll_group *all, int rank)
{
    static const char *const names[] = {"tp", "dp", NULL};
    struct symmcoll_group_args args = SYMMCOLL_GROUP_ARGS_INIT;
    struct symmcoll_group *group;

    args.name = names[rank];
    return groups_said(rank,
               symmcoll_group_create(symmcoll_group_world(all), &args, &group),
               SYMMCOLL_ERR_MISMATCH,
               "rank 0 passed ranks 0-2 with name tp, rank 1 passed ranks 0-2 "
               "with name dp, rank 2 passed ranks 0-2 without a name (group ") &&
           goes_on(all, rank);
}

static int another_operation_is_named(struct symmcoll_group *all, int rank)
{
    struct symmcoll_group *group;
    symmcoll_status_t status =
        rank == 1
            ? symmcoll_barrier(all, NULL, NULL)
            : symmcoll_group_create(symmcoll_group_world(all), NULL, &group);

    return groups_said(rank, status, SYMMCOLL_ERR_MISMATCH,
               "rank 1 called barrier, the other 2 called group_create (group ") &&
           goes_on(all, rank);
}

int main(void)
{
    plan(12);
    groups_both(WORLD, wrong_arguments_wait_for_nobody,
        "what is wrong by itself is refused at once, with what was found");
    groups_both(WORLD, the_worlds_group_is_not_released,
        "the world's group is not to be released, and NULL is");
    groups_both(WORLD, other_ranks_are_named,
        "ranks that pass other ranks are named, with what each passed");
    groups_both(WORLD, other_order_is_named,
        "so are ranks that make groups in another order");
    groups_both(
        WORLD, other_names_are_named, "and ranks that pass other names");
    groups_both(WORLD, another_operation_is_named,
        "and a rank that calls another operation");
    return done_testing();
}
