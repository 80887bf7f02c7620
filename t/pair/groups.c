/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Tests that a message belongs to one group, when many groups were released or
 * one had the same name.
 */
#include "../coll/data.h"
#include "pair.h"

#include "group/group.h"
#include "message/message_state.h"

#include <stdlib.h>

#define MANY 300 /* groups: more than their lists */
#define EACH 30  /* messages between two answers: less than there are slots */

static size_t count_kept(struct symmcoll_group *group, int rank)
{
    struct symc_pairs *pairs = group->world->pairs;
    size_t count;

    symc_pairs_enter(pairs);
    count = pairs->peers[rank].kept_count;
    symc_pairs_leave(pairs);
    return count;
}

/* Notifies a peer through the world's group. Everything that the sender sent
 * before has arrived when the notification does. */
static bool tell(struct symmcoll_group *all, int teller, int rank)
{
    return rank == teller ? put(all, 1 - rank, 99, 1, rank, 1)
                          : get(all, teller, 99, 1, teller, 1);
}

static bool make_all(struct symmcoll_group *all, struct symmcoll_group **groups)
{
    struct symmcoll_group_args args = SYMMCOLL_GROUP_ARGS_INIT;
    bool right = true;

    args.staging = 4096;
    for (int i = 0; right && i < MANY; i++)
        right = say(symmcoll_group_create(symmcoll_group_world(all), &args,
                        &groups[i]) == SYMMCOLL_OK,
            "group_create");
    return right;
}

static bool release(struct symmcoll_group *group)
{
    return say(symmcoll_group_free(group) == SYMMCOLL_OK, "group_free");
}

/* Rank 0 sends once in each of several groups; rank 1 takes the messages
 * without a receive for them. */
static bool send_early(struct symmcoll_group *all,
    struct symmcoll_group **groups, int begin, int rank)
{
    bool right = true;

    for (int i = begin; right && i < MANY; i++)
        right =
            (rank == 1 || put(groups[i], 1, i, i % 64 == 0 ? 1000 : 2, 0, i)) &&
            (i % EACH != 0 || (tell(all, 0, rank) && tell(all, 1, rank)));
    return right && tell(all, 0, rank);
}

static bool release_some(
    struct symmcoll_group **groups, int begin, int end, int rank)
{
    bool right = true;

    for (int i = begin; right && rank == 1 && i < end; i++)
        right = release(groups[i]);
    return right;
}

/* Rank 1 releases the groups in order, in two halves, and rank 0 in reverse.
 * The groups of the second half are used in between. */
static int many_keep_nothing(struct symmcoll_group *all, int rank)
{
    struct symmcoll_group **groups =
        calloc(MANY, sizeof(struct symmcoll_group *));
    bool right = groups != NULL && make_all(all, groups) &&
                 release_some(groups, 0, MANY / 2, rank) &&
                 tell(all, 1, rank) && send_early(all, groups, MANY / 2, rank);

    for (int i = MANY - 1; right && rank == 1 && i >= MANY / 2; i--)
        right = get(groups[i], 0, i, i % 64 == 0 ? 1000 : 2, 0, i);
    right = right && release_some(groups, MANY / 2, MANY, rank) &&
            tell(all, 1, rank) && send_early(all, groups, 0, rank) &&
            say(rank == 0 || count_kept(all, 0) == 0, "messages are kept");
    for (int i = MANY - 1; right && rank == 0 && i >= 0; i--)
        right = release(groups[i]);
    free(groups);
    return right;
}

/* Creates a group of local synchronisation, the name of which may be reused. */
static struct symmcoll_group *make_named(struct symmcoll_group *all)
{
    struct symmcoll_group_args args = SYMMCOLL_GROUP_ARGS_INIT;
    struct symmcoll_group *group = NULL;

    args.name = "again";
    args.flags = SYMMCOLL_GROUP_LOCAL;
    say(symmcoll_group_create(symmcoll_group_world(all), &args, &group) ==
            SYMMCOLL_OK,
        "group_create");
    return group;
}

/* Rank 1 takes the messages before it has a receive for them. */
static int a_name_again_keeps(struct symmcoll_group *all, int rank)
{
    struct symmcoll_group *group = make_named(all);
    bool right = group != NULL && release(group);

    group = right ? make_named(all) : NULL;
    right = group != NULL && (rank == 1 || put(group, 1, 5, 2, 0, 3)) &&
            tell(all, 0, rank) &&
            say(rank == 0 || count_kept(all, 0) == 1, "it is not kept") &&
            (rank == 0 || get(group, 0, 5, 2, 0, 3)) && tell(all, 1, rank);
    return group != NULL && release(group) && right;
}

/* Rank 1 has not taken a message when the next group with the same name is
 * created. */
static int a_name_again_is_another(struct symmcoll_group *all, int rank)
{
    struct symmcoll_group *group = make_named(all);
    bool right = group != NULL;

    if (rank == 1)
        right = right && release(group);
    right = right && tell(all, 1, rank);
    if (rank == 0)
        right = right && put(group, 1, 5, 2, 0, 7) && release(group);
    group = right ? make_named(all) : NULL;
    right = group != NULL &&
            (rank == 0 ? put(group, 1, 5, 2, 0, 8) : get(group, 0, 5, 2, 0, 8));
    return group != NULL && right && tell(all, 1, rank) && release(group);
}

int main(void)
{
    plan(6);
    both_run(2, many_keep_nothing,
        "of many groups the messages of those that have been released are dropped");
    both_run(2, a_name_again_keeps,
        "a group of a released one's name has the messages that arrive early");
    both_run(2, a_name_again_is_another,
        "and none that was sent in the released one");
    return done_testing();
}
