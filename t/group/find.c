/* SPDX-License-Identifier: BSD-3-Clause */
/* Tests finding groups by tag and members, and designators of groups. */
#include "t/group/groups.h"

#include <pthread.h>

#define WORLD 4

static const int even[] = {0, 2}, odd[] = {3, 1}, everybody[] = {3, 2, 1, 0};

static const char *tag_of(const struct symmcoll_group *group)
{
    static _Thread_local struct symmcoll_group_info info;

    info = (struct symmcoll_group_info)SYMMCOLL_GROUP_INFO_INIT;
    return symmcoll_group_get_info(group, &info) == SYMMCOLL_OK ? info.tag : "";
}

/* Creates a group with a tag; NULL: failed. */
static struct symmcoll_group *tagged(struct symmcoll_group *all, int rank,
    const char *tag, const int *ranks, int nranks)
{
    struct symmcoll_group_args args = SYMMCOLL_GROUP_ARGS_INIT;
    struct symmcoll_group *group;

    args.tag = tag;
    args.ranks = ranks;
    args.nranks = nranks;
    return made(rank,
               symmcoll_group_create(symmcoll_group_world(all), &args, &group))
               ? group
               : NULL;
}

/* ---- tags ---- */

static int a_tag_and_ranks_are_one_group(struct symmcoll_group *all, int rank)
{
    struct symmcoll_group *first = tagged(all, rank, "blue", even, 2);
    struct symmcoll_group *again = tagged(all, rank, "blue", even, 2);
    struct symmcoll_group *other = tagged(all, rank, "red", even, 2);
    struct symmcoll_group *odds = tagged(all, rank, "blue", odd, 2);
    struct symmcoll_group *plain = tagged(all, rank, NULL, even, 2);
    struct symmcoll_group *another = tagged(all, rank, NULL, even, 2);
    int good = first != NULL && first == again && other != first &&
               odds != first && plain != first && another != plain &&
               strcmp(tag_of(first), "user:blue") == 0 &&
               symmcoll_group_free(again) == SYMMCOLL_OK &&
               (rank % 2 == 1 || groups_sum(first, rank) == 2);

    symmcoll_group_free(first);
    symmcoll_group_free(other);
    symmcoll_group_free(odds);
    symmcoll_group_free(plain);
    symmcoll_group_free(another);
    return good;
}

/* Rank 1 has released the group: it is created again, on all ranks. */
static int a_tag_that_one_lacks_is_made_again(
    struct symmcoll_group *all, int rank)
{
    struct symmcoll_group *first = tagged(all, rank, "blue", NULL, 0), *again;
    int good;

    if (rank == 1)
        symmcoll_group_free(first);
    again = tagged(all, rank, "blue", NULL, 0);
    good = again != NULL && (rank == 1 || again != first) &&
           groups_sum(again, rank) == 6;
    if (rank != 1)
        symmcoll_group_free(first);
    return good && symmcoll_group_free(again) == SYMMCOLL_OK;
}

static int groups_are_found_by_their_tags(struct symmcoll_group *all, int rank)
{
    struct symmcoll_world *world = symmcoll_group_world(all);
    struct symmcoll_group *plain = tagged(all, rank, NULL, odd, 2);
    struct symmcoll_group *blue = tagged(all, rank, "blue", odd, 2);
    struct symmcoll_group *later = tagged(all, rank, NULL, odd, 2);
    int good = plain != NULL && blue != NULL && later != NULL;

    good = good && symmcoll_group_find(world, tag_of(plain), odd, 2) == plain &&
           symmcoll_group_find(world, tag_of(later), odd, 2) == later &&
           symmcoll_group_find(world, tag_of(blue), odd, 2) == blue;
    good = good && symmcoll_group_find(world, "blue", odd, 2) == blue &&
           symmcoll_group_find(world, "", odd, 2) == plain &&
           symmcoll_group_find(world, NULL, odd, 2) == plain &&
           symmcoll_group_find(world, "red", odd, 2) == NULL &&
           symmcoll_group_find(world, "blue", even, 2) == NULL &&
           symmcoll_group_find(world, "blue", everybody, 4) == NULL &&
           symmcoll_group_find(NULL, "blue", odd, 2) == NULL;
    symmcoll_group_free(plain);
    good = good && symmcoll_group_find(world, "", odd, 2) == later;
    symmcoll_group_free(blue);
    symmcoll_group_free(later);
    return good && symmcoll_group_find(world, "blue", odd, 2) == NULL;
}

static int the_worlds_group_is_found(struct symmcoll_group *all, int rank)
{
    struct symmcoll_world *world = symmcoll_group_world(all);
    struct symmcoll_group *further = tagged(all, rank, NULL, NULL, 0);
    int good = symmcoll_group_find(world, "", everybody, WORLD) == all &&
               symmcoll_group_find(world, "", NULL, 0) == all &&
               symmcoll_group_find(world, tag_of(all), NULL, 0) == all;
    struct symmcoll_group *found = NULL;

    /* No group can be created with such a tag, or without one. */
    good = good &&
           made(rank, symmcoll_group_find_or_create(
                          world, tag_of(all), NULL, 0, WORLD, &found)) &&
           found == all;
    return good && symmcoll_group_free(further) == SYMMCOLL_OK;
}

static int runs_are_found_or_made(struct symmcoll_group *all, int rank)
{
    struct symmcoll_world *world = symmcoll_group_world(all);
    struct symmcoll_group *own, *again, *wider;
    int good;

    if (!made(rank,
            symmcoll_group_find_or_create(world, "row", NULL, 0, 2, &own)) ||
        !made(rank,
            symmcoll_group_find_or_create(world, "row", NULL, 0, 2, &again)) ||
        !made(rank, symmcoll_group_find_or_create(
                        world, "user:row", everybody, WORLD, 4, &wider)))
        return 0;
    good = own == again && own != wider &&
           groups_sum(own, rank) == (rank < 2 ? 1 : 5) &&
           groups_sum(wider, rank) == 6 && symmcoll_group_rank(own) == rank % 2;
    good = symmcoll_group_free(again) == SYMMCOLL_OK && good &&
           groups_sum(own, rank) == (rank < 2 ? 1 : 5);
    return symmcoll_group_free(own) == SYMMCOLL_OK && good &&
           symmcoll_group_free(wider) == SYMMCOLL_OK;
}

/* Ranks 1 and 3 do not call. */
static int members_alone_find(struct symmcoll_group *all, int rank)
{
    struct symmcoll_world *world = symmcoll_group_world(all);
    struct symmcoll_group_args args = SYMMCOLL_GROUP_ARGS_INIT;
    struct symmcoll_group *own, *again;
    int good;

    if (rank % 2 == 1)
        return 1;
    args.tag = "pair";
    args.ranks = even;
    args.nranks = 2;
    args.flags = SYMMCOLL_GROUP_LOCAL;
    good =
        made(rank,
            symmcoll_group_find_or_create(world, "pair", even, 2, 2, &own)) &&
        strcmp(tag_of(own), "user:pair") == 0 && groups_sum(own, rank) == 2 &&
        made(rank, symmcoll_group_create(world, &args, &again)) &&
        again == own && symmcoll_group_free(again) == SYMMCOLL_OK;
    args.tag = "other";
    return good && made(rank, symmcoll_group_create(world, &args, &again)) &&
           again != own && groups_sum(again, rank) == 2 &&
           symmcoll_group_free(again) == SYMMCOLL_OK &&
           symmcoll_group_free(own) == SYMMCOLL_OK;
}

/* A search by one thread. */
struct search {
    struct symmcoll_world *world;
    const char *tag;
    struct symmcoll_group *found;
    symmcoll_status_t status;
};

static void *search(void *arg)
{
    struct search *mine = arg;

    mine->status = symmcoll_group_find_or_create(
        mine->world, mine->tag, NULL, 0, WORLD, &mine->found);
    return NULL;
}

/* Six threads of each rank, started in a different order on each, search for
 * three groups. */
static int threads_find_in_any_order(struct symmcoll_group *all, int rank)
{
    static const char *const tags[3] = {"a", "b", "c"};
    struct search mine[6] = {0};
    pthread_t threads[6];
    bool good = true;

    for (int i = 0; i < 6; i++) {
        mine[i].world = symmcoll_group_world(all);
        mine[i].tag = tags[(i + rank) % 3];
        if (pthread_create(&threads[i], NULL, search, &mine[i]) != 0)
            return 0;
    }
    for (int i = 0; i < 6; i++)
        pthread_join(threads[i], NULL);
    for (int i = 0; i < 6; i++)
        good = good && made(rank, mine[i].status) &&
               mine[i].found == mine[(i + 3) % 6].found;
    for (int i = 0; i < 3 && good; i++)
        good = groups_sum(symmcoll_group_find(
                              symmcoll_group_world(all), tags[i], NULL, 0),
                   rank) == 6;
    for (int i = 0; i < 6; i++)
        good = symmcoll_group_free(mine[i].found) == SYMMCOLL_OK && good;
    return good;
}

static bool cannot_be_found(struct symmcoll_group *all, const char *tag,
    const int *ranks, int nranks, int nrun, const char *text)
{
    struct symmcoll_group *group;

    return groups_said(0,
        symmcoll_group_find_or_create(
            symmcoll_group_world(all), tag, ranks, nranks, nrun, &group),
        SYMMCOLL_ERR_INVALID, text);
}

static int what_cannot_be_found_is_said(struct symmcoll_group *all, int rank)
{
    static const int others[] = {1, 2};
    struct symmcoll_group_args args = SYMMCOLL_GROUP_ARGS_INIT;
    struct symmcoll_group *group;
    int good = 1;

    if (rank == 0)
        good =
            cannot_be_found(
                all, "x", NULL, 0, 3, "a divisor of 4 ranks, found 3") &&
            cannot_be_found(all, "x", NULL, 0, 0, "found 0") &&
            cannot_be_found(all, "x", others, 2, 2, "this rank, 0, among") &&
            cannot_be_found(all, "", NULL, 0, 2, "a tag to make one with") &&
            cannot_be_found(all, "ptd:7", NULL, 0, 2, "a tag to make one with");
    args.tag = "ptd:7";
    if (rank == 0)
        good = good && groups_said(0,
                           symmcoll_group_create(
                               symmcoll_group_world(all), &args, &group),
                           SYMMCOLL_ERR_INVALID, "neither user: nor ptd:");
    args.tag = rank == 1 ? "blue" : "red";
    good = good &&
           groups_said(rank,
               symmcoll_group_create(symmcoll_group_world(all), &args, &group),
               SYMMCOLL_ERR_MISMATCH,
               "rank 1 passed ranks 0-3 without a name, "
               "tag blue");
    return good && groups_sum(all, rank) == 6;
}

/* ---- designators ---- */

/* Checks that a designator expands to a tag and ranks. */
static bool expands(struct symmcoll_group *all,
    const struct symmcoll_designator *designator, const char *wanted_tag,
    const int *wanted, int wanted_nranks, int wanted_nrun)
{
    const char *tag;
    int ranks[WORLD], nranks, nrun;

    return made(0, symmcoll_designator_expand(symmcoll_group_world(all),
                       designator, &tag, ranks, &nranks, &nrun)) &&
           strcmp(tag, wanted_tag) == 0 && nranks == wanted_nranks &&
           nrun == wanted_nrun &&
           memcmp(ranks, wanted, (size_t)nranks * sizeof(*ranks)) == 0;
}

static bool does_not_expand(struct symmcoll_group *all,
    const struct symmcoll_designator *designator, const char *text)
{
    const char *tag;
    int ranks[WORLD], nranks, nrun;

    return groups_said(0,
        symmcoll_designator_expand(
            symmcoll_group_world(all), designator, &tag, ranks, &nranks, &nrun),
        SYMMCOLL_ERR_INVALID, text);
}

static int lists_stand_for_groups(struct symmcoll_group *all, int rank)
{
    static const int ranks[] = {0, 1, 2, 3}, whole[] = {4}, halves[] = {2, 2},
                     uneven[] = {1, 3}, outside[] = {9}, single[] = {1};
    struct symmcoll_lists lists = {ranks, whole, 1};
    struct symmcoll_designator designator = SYMMCOLL_DESIGNATOR_INIT;
    int good;

    (void)rank;
    designator.lists = &lists;
    good = expands(all, &designator, "", ranks, 4, 4);
    lists = (struct symmcoll_lists){ranks, halves, 2};
    good = good && expands(all, &designator, "", ranks, 4, 2);
    designator.tag = "blue";
    good = good && expands(all, &designator, "blue", ranks, 4, 2);
    lists.sizes = uneven;
    good = good && does_not_expand(all, &designator,
                       "lists of one length, found 1 ranks in list 0 and 3 in "
                       "list 1");
    lists = (struct symmcoll_lists){outside, single, 1};
    return good &&
           does_not_expand(all, &designator, "ranks of 0 to 3, found 9");
}

static int groups_stand_for_themselves(struct symmcoll_group *all, int rank)
{
    static const int sorted[] = {1, 3};
    struct symmcoll_designator designator = SYMMCOLL_DESIGNATOR_INIT;
    struct symmcoll_group *blue = tagged(all, rank, "blue", odd, 2);
    int good;

    designator.group = blue;
    good = expands(all, &designator, "user:blue", sorted, 2, 2);
    designator.tag = "";
    good = good && expands(all, &designator, "user:blue", sorted, 2, 2);
    designator.tag = "red"; /* a tag cannot be removed, only replaced */
    good = good && expands(all, &designator, "red", sorted, 2, 2);
    return good && symmcoll_group_free(blue) == SYMMCOLL_OK;
}

static int meshes_stand_for_lines(struct symmcoll_group *all, int rank)
{
    static const int ranks[] = {0, 1, 2, 3}, line[] = {4}, grid[] = {2, 2},
                     three[] = {3};
    struct symmcoll_mesh mesh = SYMMCOLL_MESH_INIT;
    struct symmcoll_designator designator = SYMMCOLL_DESIGNATOR_INIT;
    int row[] = {rank / 2 * 2, rank / 2 * 2 + 1};
    int column[] = {rank % 2, rank % 2 + 2};
    int good;

    mesh.ranks = ranks;
    mesh.shape = line;
    mesh.ndim = 1;
    designator.mesh = &mesh;
    good = expands(all, &designator, "", ranks, 4, 4);
    mesh.shape = grid;
    mesh.ndim = 2;
    good = good && does_not_expand(all, &designator,
                       "a mesh of one dimension or a dim, found a mesh of 2");
    designator.dim = 0;
    good = good && expands(all, &designator, "", column, 2, 2);
    designator.dim = 1;
    good = good && expands(all, &designator, "", row, 2, 2);
    designator.dim = 2;
    good = good && does_not_expand(all, &designator, "0 to 1, found 2");
    mesh.shape = three;
    mesh.ndim = 1;
    designator.dim = -1;
    good = good && (rank < 3 || does_not_expand(all, &designator,
                                    "this rank, 3, in the mesh"));
    designator.group = all;
    return good && does_not_expand(all, &designator, "found 2 of them");
}

/* Checks the functions on a rank without a group, as after a split or a search
 * that found none. */
static int no_group_is_not_followed(struct symmcoll_group *all, int rank)
{
    struct symmcoll_group *none =
        symmcoll_group_find(symmcoll_group_world(all), "not there", NULL, 0);

    (void)rank;
    return none == NULL && symmcoll_group_rank(none) == -1 &&
           symmcoll_group_size(none) == 0 &&
           symmcoll_group_name(none) == NULL &&
           symmcoll_group_world(none) == NULL &&
           symmcoll_group_rank_of(none, 0) == -1 &&
           symmcoll_group_global_rank(none, 0) == -1 &&
           symmcoll_group_sequence(none) == 0;
}

int main(void)
{
    plan(24);
    groups_both(WORLD, a_tag_and_ranks_are_one_group,
        "the same tag and ranks are the same group (G15)");
    groups_both(WORLD, a_tag_that_one_lacks_is_made_again,
        "unless a rank has released it: then all make a new one (G15)");
    groups_both(WORLD, groups_are_found_by_their_tags,
        "a group is found by its tag and members, the oldest first (G16, G17)");
    groups_both(WORLD, the_worlds_group_is_found,
        "no tag and all ranks are the world's group (G20)");
    groups_both(WORLD, runs_are_found_or_made,
        "a rank's run is found by its tag, or made (G19)");
    groups_both(WORLD, members_alone_find,
        "its ranks alone find or make a run (G19, G24)");
    groups_both(WORLD, threads_find_in_any_order,
        "threads look for the same and for different groups at once (G19)");
    groups_both(WORLD, what_cannot_be_found_is_said,
        "what cannot be found or made is said, and tags that differ (G19)");
    groups_both(WORLD, lists_stand_for_groups,
        "a list or lists of one length stand for groups (G21)");
    groups_both(WORLD, groups_stand_for_themselves,
        "a group stands for itself, with its tag or another (G18, G21)");
    groups_both(WORLD, meshes_stand_for_lines,
        "a mesh stands for this rank's line in a dimension (G22)");
    groups_both(WORLD, no_group_is_not_followed,
        "NULL, as of a group that was not found, has no rank, size or name");
    return done_testing();
}
