/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Tests symmetric memory in a child of a rank, which must not use it; in a
 * fake world, in which the other ranks do not exist; and with a rank on
 * another machine.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "t/symm_mem/symm.h"

#include "group/group.h"
#include "t/sanitized.h"

#include <symmcoll/symm_ops.h>

#include <errno.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define NBYTES 4096

/* ---- a child ---- */

/* The handles of a rank when it forks. */
struct inherited {
    struct symmcoll_group *group;
    struct symmcoll_world *world;
    struct symmcoll_symm_pool *pool;
    struct symmcoll_symm *handle;
    void *data;
};

#define REFUSED(call) \
    groups_said(-1, (call), SYMMCOLL_ERR_INVALID, "a fork of it")

static bool allocations_are_refused(const struct inherited *inherited)
{
    struct symmcoll_world *world = inherited->world;
    struct symmcoll_tensor tensor = SYMMCOLL_TENSOR_INIT;
    struct symmcoll_symm_pool *pool;
    void *data = NULL;

    return REFUSED(symmcoll_symm_alloc(world, 16, NULL, &data)) &&
           REFUSED(symmcoll_symm_alloc_tensor(world, NULL, &tensor)) &&
           REFUSED(symmcoll_symm_import(world, 0, 0, 16, NULL, &data)) &&
           REFUSED(symmcoll_symm_free(world, inherited->data)) &&
           REFUSED(symmcoll_symm_pool_create(world, NULL, &pool)) &&
           REFUSED(symmcoll_symm_default_pool(world, &pool)) &&
           REFUSED(symmcoll_symm_pool_alloc(inherited->pool, 16, &data)) &&
           REFUSED(symmcoll_symm_pool_trim(inherited->pool)) &&
           REFUSED(symmcoll_symm_pool_free(inherited->pool)) &&
           HOLDS(symmcoll_symm_is_symmetric(world, inherited->data) == 0) &&
           HOLDS(data == NULL && tensor.data == NULL);
}

static bool handles_are_refused(const struct inherited *inherited)
{
    struct symmcoll_group *group = inherited->group;
    struct symmcoll_symm *handle = inherited->handle, *made = NULL;
    void *buffer;
    char bytes[4] = "";

    return REFUSED(
               symmcoll_symm_rendezvous(group, inherited->data, NULL, &made)) &&
           REFUSED(symmcoll_symm_get(group, inherited->data, &made)) &&
           HOLDS(strncmp(symmcoll_last_error(), "symm_get: ", 10) == 0) &&
           REFUSED(symmcoll_symm_workspace(group, 16, NULL, &made)) &&
           HOLDS(strncmp(symmcoll_last_error(), "symm_workspace: ", 16) == 0) &&
           REFUSED(symmcoll_symm_put_signal(handle, 0, 0, 0)) &&
           REFUSED(symmcoll_symm_wait_signal(handle, 0, 0, 0)) &&
           REFUSED(symmcoll_symm_barrier(handle, 0, 0)) &&
           REFUSED(symmcoll_symm_put_data(handle, 0, 0, bytes, 4)) &&
           REFUSED(symmcoll_symm_get_data(handle, 0, 0, bytes, 4)) &&
           REFUSED(symmcoll_symm_buffer(handle, 0, 0, 4, &buffer)) &&
           HOLDS(made == NULL);
}

/* Checks that the child has no mapping of the memory, and so cannot write data
 * that peers read. */
static bool memory_is_not_there(const struct inherited *inherited)
{
    unsigned char page = 0;
    bool there = mincore(inherited->data, NBYTES, &page) == 0;

    return HOLDS(!there && errno == ENOMEM);
}

static int a_child_has_none(struct symmcoll_group *group, int rank)
{
    int size = symmcoll_group_size(group), peer = (rank + 1) % size;
    struct inherited inherited = {
        .group = group, .world = symmcoll_group_world(group)};
    int status = -1, *theirs;
    pid_t child;
    bool right =
        OK(symmcoll_symm_default_pool(inherited.world, &inherited.pool)) &&
        join(group, NBYTES, &inherited.data, &inherited.handle);

    if (!right)
        return false;
    child = fork();
    if (child == 0) {
        right = allocations_are_refused(&inherited) &&
                handles_are_refused(&inherited) &&
                memory_is_not_there(&inherited);
        symmcoll_symm_release(inherited.handle);
        _exit(right ? 0 : 1);
    }
    right = HOLDS(child > 0 && waitpid(child, &status, 0) == child) &&
            HOLDS(WIFEXITED(status) && WEXITSTATUS(status) == 0) &&
            OK(symmcoll_symm_buffer(
                inherited.handle, peer, 0, 4, (void **)&theirs));
    if (!right)
        return false;
    theirs[0] = rank + 1;
    right = OK(symmcoll_symm_barrier(inherited.handle, 0, -1)) &&
            HOLDS(*(int *)inherited.data == (rank + size - 1) % size + 1);
    return right && part(group, inherited.data, inherited.handle);
}

/* ---- a fake world ---- */

static int nobody_is_there(void)
{
    struct symmcoll_fake_args args = SYMMCOLL_FAKE_ARGS_INIT;
    struct symmcoll_world *world;
    struct symmcoll_group *all;
    struct symmcoll_symm *handle = NULL;
    void *data = NULL;
    bool right;

    args.rank = 1;
    args.world_size = 4;
    if (!OK(symmcoll_fake_world(&args, &world)))
        return false;
    all = symmcoll_world_group(world);
    right = OK(symmcoll_symm_alloc(world, NBYTES, NULL, &data)) &&
            HOLDS(symmcoll_symm_is_symmetric(world, data) == 1) &&
            groups_said(1, symmcoll_symm_rendezvous(all, data, NULL, &handle),
                SYMMCOLL_ERR_UNSUPPORTED, "a fake world") &&
            groups_said(1, symmcoll_symm_workspace(all, 16, NULL, &handle),
                SYMMCOLL_ERR_UNSUPPORTED, "a fake world") &&
            groups_said(1, symmcoll_symm_get(all, data, &handle),
                SYMMCOLL_ERR_UNSUPPORTED, "a fake world") &&
            HOLDS(handle == NULL) && OK(symmcoll_symm_free(world, data));
    return OK(symmcoll_finalize(world)) && right;
}

static int one_rank_is_enough(void)
{
    struct symmcoll_fake_args args = SYMMCOLL_FAKE_ARGS_INIT;
    struct symmcoll_world *world;
    struct symmcoll_group *all;
    struct symmcoll_symm *handle;
    float *data;
    bool right;

    args.world_size = 1;
    if (!OK(symmcoll_fake_world(&args, &world)))
        return false;
    all = symmcoll_world_group(world);
    right = join(all, NBYTES, (void **)&data, &handle);
    if (right)
        data[0] = 3;
    right = right && OK(symmcoll_symm_barrier(handle, 0, -1)) &&
            OK(symmcoll_all_reduce(all, data, data, 1, SYMMCOLL_FLOAT32,
                SYMMCOLL_SUM, NULL, NULL)) &&
            HOLDS(data[0] == 3) && part(all, data, handle);
    return OK(symmcoll_finalize(world)) && right;
}

/* ---- another machine ---- */

/* Rank 0 pretends that the block of rank 1 is absent. */
static int a_member_elsewhere_is_named(struct symmcoll_group *group, int rank)
{
    struct symc_block_view *view = &group->world->peers[1].view, kept = *view;
    struct symmcoll_symm *handle = NULL;
    void *data;
    bool right = OK(
        symmcoll_symm_alloc(symmcoll_group_world(group), NBYTES, NULL, &data));

    if (rank == 0)
        memset(view, 0, sizeof(*view));
    right =
        right &&
        groups_said(rank, symmcoll_symm_rendezvous(group, data, NULL, &handle),
            SYMMCOLL_ERR_UNSUPPORTED,
            "rank 0: expected all members on one machine, found rank 1") &&
        HOLDS(handle == NULL);
    *view = kept;
    right = right && OK(symmcoll_symm_rendezvous(group, data, NULL, &handle)) &&
            OK(symmcoll_symm_barrier(handle, 0, -1));
    return right && part(group, data, handle);
}

int main(void)
{
    plan(4);
    ok(ranks_run(2, a_child_has_none),
        "a forked child has no symmetric memory, and its rank goes on");
    ok(process_run(nobody_is_there),
        "in a fake world memory is allocated, and cannot be joined");
    ok(process_run(one_rank_is_enough), "in one of a single rank it can");
    if (SANITIZED)
        skip(1, "a rank that plays another machine is a data race");
    else
        ok(ranks_run(2, a_member_elsewhere_is_named),
            "a member on another machine is named to all (S4, S5)");
    return done_testing();
}
