/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Tests a rank without memory to join symmetric memory, at each of its
 * allocations: the others get the error at once, and all may continue. The
 * linker makes all allocations of the library call the wrapper here.
 */
#include "t/symm_mem/symm.h"

#include "segment/left.h"
#include "world/world.h"

#include <pthread.h>
#include <stdlib.h>

#define SIZE 3
#define POOR 1
#define LARGE ((size_t)8192)
#define MOST 64 /* allocations of one call */

void *__real_symc_alloc(size_t count, size_t size);
void *__wrap_symc_alloc(size_t count, size_t size);

/* The number of this thread's next allocations that succeed; -1: all. */
static _Thread_local int left = -1;

void *__wrap_symc_alloc(size_t count, size_t size)
{
    if (left == 0)
        return __real_symc_alloc(SIZE_MAX, 2);
    if (left > 0)
        left--;
    return __real_symc_alloc(count, size);
}

/* Makes one call more than the poor rank has allocations. Reaching the last
 * one shows that no other rank blocked. */
static bool outlive(
    struct symmcoll_group *group, int rank, void *data, size_t nbytes)
{
    for (int succeed = 0; succeed < MOST; succeed++) {
        struct symmcoll_symm *handle = NULL;
        symmcoll_status_t status;

        left = rank == POOR ? succeed : -1;
        status = data != NULL
                     ? symmcoll_symm_rendezvous(group, data, NULL, &handle)
                     : symmcoll_symm_workspace(group, nbytes, NULL, &handle);
        left = -1;
        if (status == SYMMCOLL_OK) {
            bool right = OK(symmcoll_symm_barrier(handle, 0, -1));

            symmcoll_symm_release(handle);
            return right && HOLDS(succeed > 0);
        }
        if (!groups_said(rank, status, SYMMCOLL_ERR_NO_MEMORY, "rank 1") ||
            !HOLDS(handle == NULL) || !OK(symmcoll_barrier(group, NULL, NULL)))
            return false;
    }
    diag("rank %d: more than %d allocations", rank, MOST);
    return false;
}

/* Returns the number of used ranges in this rank's arena; all ranks have left
 * the others. */
static int count_buffers(struct symmcoll_world *world)
{
    int count = 0;

    pthread_mutex_lock(&world->segments.lock);
    (void)symc_left_reap(&world->segments);
    for (struct symc_buffer *at = world->segments.buffers; at != NULL;
         at = at->next)
        count++;
    pthread_mutex_unlock(&world->segments.lock);
    return count;
}

static int it_takes_part_in_a_rendezvous(struct symmcoll_group *group, int rank)
{
    struct symmcoll_world *world = symmcoll_group_world(group);
    int before = count_buffers(world);
    void *data;

    return OK(symmcoll_symm_alloc(world, 100, NULL, &data)) &&
           outlive(group, rank, data, 0) &&
           OK(symmcoll_symm_free(world, data)) &&
           OK(symmcoll_barrier(group, NULL, NULL)) &&
           HOLDS(count_buffers(world) == before);
}

/* Fails even the allocation of the world's state for symmetric memory. */
static int it_takes_part_without_any(struct symmcoll_group *group, int rank)
{
    struct symmcoll_world *world = symmcoll_group_world(group);
    struct symmcoll_symm *handle = NULL;
    static char foreign;
    void *data = &foreign;
    bool right =
        rank == POOR || OK(symmcoll_symm_alloc(world, 100, NULL, &data));

    left = rank == POOR ? 0 : -1;
    right = right && groups_said(rank,
                         symmcoll_symm_rendezvous(group, data, NULL, &handle),
                         SYMMCOLL_ERR_NO_MEMORY, "rank 1: memory");
    left = -1;
    return right && HOLDS(handle == NULL) &&
           OK(symmcoll_barrier(group, NULL, NULL)) &&
           groups_said(rank,
               symmcoll_symm_rendezvous(group, data, NULL, &handle),
               SYMMCOLL_ERR_NOT_SYMMETRIC, "rank 1");
}

/* Each growth fails on one rank, until it succeeds and the previous workspace
 * is released. */
static int what_cannot_grow_leaves_nothing(
    struct symmcoll_group *group, int rank)
{
    struct symmcoll_world *world = symmcoll_group_world(group);
    bool right = outlive(group, rank, NULL, 3000) &&
                 OK(symmcoll_barrier(group, NULL, NULL));
    int before = count_buffers(world);

    return right && outlive(group, rank, NULL, 6000) &&
           OK(symmcoll_barrier(group, NULL, NULL)) &&
           HOLDS(count_buffers(world) == before);
}

/* Checks that a view of joined memory fails only locally. */
static int a_view_is_refused_locally(struct symmcoll_group *group, int rank)
{
    struct symmcoll_symm *handle, *view = NULL;
    char *data;
    bool right = join(group, 100, (void **)&data, &handle);

    if (!right)
        return false;
    left = rank == POOR ? 0 : -1;
    right =
        rank == POOR
            ? groups_said(rank,
                  symmcoll_symm_rendezvous(group, data + 16, NULL, &view),
                  SYMMCOLL_ERR_NO_MEMORY, "memory") &&
                  groups_said(rank, symmcoll_symm_get(group, data + 16, &view),
                      SYMMCOLL_ERR_NO_MEMORY, "memory") &&
                  HOLDS(view == NULL)
            : OK(symmcoll_symm_rendezvous(group, data + 16, NULL, &view));
    left = -1;
    symmcoll_symm_release(view);
    right = right && OK(symmcoll_symm_barrier(handle, 0, -1)) &&
            OK(symmcoll_symm_rendezvous(group, data + 16, NULL, &view)) &&
            OK(symmcoll_symm_barrier(view, 0, -1));
    symmcoll_symm_release(view);
    return right && part(group, data, handle);
}

/* Allocates a size that has its own memfd. */
static int a_failed_allocation_leaves_nothing(
    struct symmcoll_group *group, int rank)
{
    struct symmcoll_world *world = symmcoll_group_world(group);
    int before;
    void *first = NULL;
    bool right = OK(symmcoll_symm_alloc(world, 1, NULL, &first)) &&
                 OK(symmcoll_barrier(group, NULL, NULL));

    before = count_memfds();
    for (int succeed = 0; rank == POOR && right && succeed < MOST; succeed++) {
        void *data = NULL;
        symmcoll_status_t status;

        left = succeed;
        status = symmcoll_symm_alloc(world, LARGE, NULL, &data);
        left = -1;
        if (status == SYMMCOLL_OK) {
            right = HOLDS(succeed > 1) && OK(symmcoll_symm_free(world, data));
            break;
        }
        right = groups_said(rank, status, SYMMCOLL_ERR_NO_MEMORY, "memory") &&
                HOLDS(count_memfds() == before);
    }
    return OK(symmcoll_barrier(group, NULL, NULL)) &&
           OK(symmcoll_symm_free(world, first)) && right;
}

int main(void)
{
    setenv("SYMMCOLL_SYMM_MEM_MEMFD_MIN", "8KiB", 1);
    setenv("SYMMCOLL_TRACE_DUMP_ON_ERROR", "off", 1);
    plan(10);
    groups_both(SIZE, it_takes_part_in_a_rendezvous,
        "who has no memory to join some is named to all, at once");
    groups_both(SIZE, it_takes_part_without_any,
        "and so is who has none for what a world has of it");
    groups_both(SIZE, what_cannot_grow_leaves_nothing,
        "and who has none for a workspace, of which nothing is left");
    groups_both(SIZE, a_view_is_refused_locally,
        "a view of what has been joined is refused to this rank alone");
    groups_both(SIZE, a_failed_allocation_leaves_nothing,
        "an allocation that fails leaves no descriptor and no mapping");
    return done_testing();
}
