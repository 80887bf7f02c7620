/* SPDX-License-Identifier: BSD-3-Clause */
/* Tests the workspace of a group. */
#include "t/symm_mem/symm.h"

#include <pthread.h>

static size_t size_of(struct symmcoll_symm *handle)
{
    struct symmcoll_symm_info info = SYMMCOLL_SYMM_INFO_INIT;

    return OK(symmcoll_symm_get_info(handle, &info)) ? info.nbytes : 0;
}

static int it_grows_and_never_shrinks(struct symmcoll_group *group, int rank)
{
    int size = symmcoll_group_size(group), peer = (rank + 1) % size;
    struct symmcoll_symm *first = NULL, *same = NULL, *larger = NULL;
    int *data, *theirs;
    bool right = OK(symmcoll_symm_workspace(group, 1000, NULL, &first)) &&
                 OK(symmcoll_symm_workspace(group, 200, NULL, &same)) &&
                 HOLDS(first == same && size_of(first) == 1000) &&
                 OK(symmcoll_symm_buffer(first, rank, 0, 4, (void **)&data));

    if (!right)
        return false;
    data[0] = rank + 5;
    right = OK(symmcoll_symm_barrier(first, 0, -1)) &&
            OK(symmcoll_symm_workspace(group, 100000, NULL, &larger)) &&
            HOLDS(larger != first && size_of(larger) == 100000) &&
            OK(symmcoll_symm_workspace(group, 1000, NULL, &same)) &&
            HOLDS(same == larger);
    symmcoll_symm_release(same);
    /* A rank with a handle on the previous workspace keeps it. */
    right = right && HOLDS(size_of(first) == 1000) &&
            OK(symmcoll_symm_buffer(first, peer, 0, 4, (void **)&theirs)) &&
            HOLDS(theirs[0] == peer + 5) &&
            OK(symmcoll_symm_buffer(larger, rank, 0, 4, (void **)&data)) &&
            HOLDS(data[0] == 0) && OK(symmcoll_symm_barrier(larger, 0, -1));
    symmcoll_symm_release(first);
    symmcoll_symm_release(first);
    symmcoll_symm_release(larger);
    return right;
}

/* Checks that the workspace counts as symmetric memory while it is the
 * workspace: operations use it in place. */
static int it_is_allocated(struct symmcoll_group *group, int rank)
{
    struct symmcoll_world *world = symmcoll_group_world(group);
    struct symmcoll_symm *first = NULL, *larger = NULL, *found = NULL;
    struct symmcoll_group *both;
    void *data, *more;
    bool right = OK(symmcoll_group_split(group, 0, rank, NULL, &both)) &&
                 OK(symmcoll_symm_workspace(both, 1000, NULL, &first)) &&
                 OK(symmcoll_symm_buffer(first, rank, 0, 4, &data)) &&
                 HOLDS(symmcoll_symm_is_symmetric(world, data)) &&
                 OK(symmcoll_symm_get(both, data, &found)) &&
                 HOLDS(found == first) &&
                 OK(symmcoll_symm_workspace(both, 5000, NULL, &larger)) &&
                 OK(symmcoll_symm_buffer(larger, rank, 0, 4, &more)) &&
                 HOLDS(!symmcoll_symm_is_symmetric(world, data)) &&
                 HOLDS(symmcoll_symm_is_symmetric(world, more)) &&
                 OK(symmcoll_group_free(both)) &&
                 HOLDS(!symmcoll_symm_is_symmetric(world, more));

    symmcoll_symm_release(first);
    symmcoll_symm_release(larger);
    return right;
}

static int a_free_of_it_is_refused(struct symmcoll_group *group, int rank)
{
    struct symmcoll_symm *first = NULL, *larger = NULL;
    void *data;
    bool right =
        OK(symmcoll_symm_workspace(group, 1000, NULL, &first)) &&
        OK(symmcoll_symm_buffer(first, rank, 0, 4, &data)) &&
        groups_said(rank, symmcoll_symm_free(symmcoll_group_world(group), data),
            SYMMCOLL_ERR_INVALID,
            "a group's workspace, which the group frees") &&
        OK(symmcoll_symm_barrier(first, 0, -1)) &&
        OK(symmcoll_symm_workspace(group, 5000, NULL, &larger)) &&
        OK(symmcoll_symm_barrier(larger, 0, -1));

    symmcoll_symm_release(first);
    symmcoll_symm_release(larger);
    return right;
}

static int each_group_has_its_own(struct symmcoll_group *group, int rank)
{
    struct symmcoll_group *half;
    struct symmcoll_symm *all = NULL, *some = NULL;
    bool right = OK(symmcoll_group_split(group, rank / 2, rank, NULL, &half)) &&
                 OK(symmcoll_symm_workspace(group, 64, NULL, &all)) &&
                 OK(symmcoll_symm_workspace(half, 64, NULL, &some)) &&
                 HOLDS(all != some) && OK(symmcoll_symm_barrier(some, 0, -1)) &&
                 OK(symmcoll_group_free(half)) &&
                 groups_said(rank, symmcoll_symm_barrier(some, 0, -1),
                     SYMMCOLL_ERR_INVALID, "it has been released") &&
                 OK(symmcoll_symm_barrier(all, 0, -1));

    symmcoll_symm_release(all);
    symmcoll_symm_release(some);
    return right;
}

static int sizes_that_differ_are_named(struct symmcoll_group *group, int rank)
{
    struct symmcoll_symm *handle = NULL;

    return groups_said(rank,
               symmcoll_symm_workspace(
                   group, rank == 0 ? 100 : 200, NULL, &handle),
               SYMMCOLL_ERR_MISMATCH, "rank 0 passed 100 bytes") &&
           HOLDS(handle == NULL) &&
           groups_said(rank,
               symmcoll_symm_workspace(group, SIZE_MAX, NULL, &handle),
               SYMMCOLL_ERR_NO_MEMORY, "rank 0") &&
           HOLDS(handle == NULL) &&
           OK(symmcoll_symm_workspace(group, 100, NULL, &handle)) &&
           (symmcoll_symm_release(handle), true);
}

/* Checks that different sizes are an error even if no rank has to grow the
 * workspace. */
static int a_size_that_is_there_is_compared(
    struct symmcoll_group *group, int rank)
{
    struct symmcoll_symm *first = NULL, *handle = NULL;
    bool right =
        OK(symmcoll_symm_workspace(group, 1000, NULL, &first)) &&
        groups_said(rank,
            symmcoll_symm_workspace(
                group, rank == 2 ? 2000 : 500, NULL, &handle),
            SYMMCOLL_ERR_MISMATCH,
            "sizes differ: ranks 0 and 1 passed 500 bytes, rank 2 passed 2000 "
            "bytes") &&
        groups_said(rank,
            symmcoll_symm_workspace(group, rank == 0 ? 10 : 20, NULL, &handle),
            SYMMCOLL_ERR_MISMATCH, "rank 0 passed 10 bytes") &&
        HOLDS(handle == NULL) &&
        OK(symmcoll_symm_workspace(group, 20, NULL, &handle)) &&
        HOLDS(handle == first);

    symmcoll_symm_release(first);
    symmcoll_symm_release(handle);
    return right;
}

/* Checks that after a failed growth the previous workspace is kept, and is
 * still the workspace. */
static int what_cannot_grow_remains(struct symmcoll_group *group, int rank)
{
    const size_t huge = SIZE_MAX / 4;
    struct symmcoll_symm *first = NULL, *same = NULL, *larger = NULL;
    bool right = OK(symmcoll_symm_workspace(group, 1000, NULL, &first));
    int *data = NULL, *theirs = NULL;

    right =
        right && OK(symmcoll_symm_buffer(first, rank, 0, 4, (void **)&data));
    if (!right)
        return 0;
    data[0] = rank + 3;
    for (int i = 0; i < 3; i++)
        right = groups_said(rank,
                    symmcoll_symm_workspace(group, huge, NULL, &larger),
                    SYMMCOLL_ERR_NO_MEMORY, "symm_workspace") &&
                HOLDS(larger == NULL) && right;
    right =
        OK(symmcoll_symm_barrier(first, 0, -1)) &&
        OK(symmcoll_symm_buffer(first, 1 - rank, 0, 4, (void **)&theirs)) &&
        HOLDS(theirs[0] == 4 - rank) &&
        HOLDS(symmcoll_symm_is_symmetric(symmcoll_group_world(group), data)) &&
        OK(symmcoll_symm_workspace(group, 500, NULL, &same)) &&
        HOLDS(same == first) &&
        OK(symmcoll_symm_workspace(group, 5000, NULL, &larger)) &&
        HOLDS(larger != first) && HOLDS(data[0] == rank + 3) &&
        OK(symmcoll_symm_barrier(larger, 0, -1)) && right;
    symmcoll_symm_release(first);
    symmcoll_symm_release(same);
    symmcoll_symm_release(larger);
    return right;
}

struct grower {
    struct symmcoll_group *group;
    struct symmcoll_symm *handle;
    bool right;
};

static void *grow(void *arg)
{
    struct grower *grower = arg;

    grower->right =
        OK(symmcoll_symm_workspace(grower->group, 5000, NULL, &grower->handle));
    return NULL;
}

static int two_threads_grow_it_once(struct symmcoll_group *group, int rank)
{
    struct grower growers[2];
    pthread_t threads[2];
    bool right = true;

    (void)rank;
    for (int i = 0; i < 2; i++) {
        growers[i] = (struct grower){group, NULL, false};
        pthread_create(&threads[i], NULL, grow, &growers[i]);
    }
    for (int i = 0; i < 2; i++) {
        pthread_join(threads[i], NULL);
        right = right && HOLDS(growers[i].right) &&
                HOLDS(growers[i].handle == growers[0].handle);
        symmcoll_symm_release(growers[i].handle);
    }
    return right;
}

int main(void)
{
    plan(16);
    groups_both(3, it_grows_and_never_shrinks,
        "a workspace grows and never shrinks (S9)");
    groups_both(2, it_is_allocated,
        "it is symmetric memory until it is replaced or its group released");
    groups_both(2, a_free_of_it_is_refused,
        "the program cannot free it, with the reason");
    groups_both(4, each_group_has_its_own, "each group has one of its own");
    groups_both(3, sizes_that_differ_are_named,
        "sizes that differ, and a rank without memory, are named on all");
    groups_both(3, a_size_that_is_there_is_compared,
        "and so are sizes that differ where there is room for one of them");
    groups_both(2, what_cannot_grow_remains,
        "a workspace that cannot grow remains what it is");
    groups_both(2, two_threads_grow_it_once,
        "two threads that grow it at once have the same one");
    return done_testing();
}
