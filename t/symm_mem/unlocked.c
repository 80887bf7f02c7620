/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Tests that a thread which allocates much does not block other threads of its
 * rank. The linker makes the library allocate through the wrapper here, which
 * waits for the calls of the other thread.
 */
#include "symm_mem/backing.h"
#include "t/symm_mem/symm.h"
#include "t/world/faults.h"

#include <pthread.h>
#include <stdatomic.h>

#define MUCH ((size_t)1 << 20)
#define ID 7

symmcoll_status_t __real_symc_backing_open(struct symmcoll_world *world,
    const char *where, const struct symc_backing_source *source,
    struct symc_allocation *allocation);
symmcoll_status_t __wrap_symc_backing_open(struct symmcoll_world *world,
    const char *where, const struct symc_backing_source *source,
    struct symc_allocation *allocation);

/* Indexed by rank, since all ranks may be threads of this process. */
static _Atomic int inside[2], done[2];

static bool await(const _Atomic int *flag)
{
    double until = faults_now() + FAULTS_WAIT_MAX;

    while (atomic_load(flag) == 0 && faults_now() < until)
        faults_rest();
    return atomic_load(flag) != 0;
}

symmcoll_status_t __wrap_symc_backing_open(struct symmcoll_world *world,
    const char *where, const struct symc_backing_source *source,
    struct symc_allocation *allocation)
{
    int rank = symmcoll_world_rank(world);

    if (source->nbytes == MUCH)
        atomic_store(&inside[rank], 1);
    if (source->nbytes == MUCH && !await(&done[rank]))
        return symc_fail(SYMMCOLL_ERR_TIMEOUT, "the others were held up");
    return __real_symc_backing_open(world, where, source, allocation);
}

struct much {
    struct symmcoll_world *world;
    void *data;
    bool right;
};

static void *allocate_much(void *arg)
{
    struct symmcoll_symm_args args = SYMMCOLL_SYMM_ARGS_INIT;
    struct much *much = arg;

    args.id = ID;
    much->right =
        OK(symmcoll_symm_alloc(much->world, MUCH, &args, &much->data));
    return NULL;
}

static int others_go_on(struct symmcoll_group *group, int rank)
{
    struct symmcoll_world *world = symmcoll_group_world(group);
    struct symmcoll_symm_args args = SYMMCOLL_SYMM_ARGS_INIT;
    struct much much = {world, NULL, false};
    struct symmcoll_symm *handle;
    pthread_t thread;
    void *data, *other = NULL;
    bool right;

    args.id = ID;
    pthread_create(&thread, NULL, allocate_much, &much);
    right = HOLDS(await(&inside[rank])) &&
            groups_said(rank, symmcoll_symm_alloc(world, MUCH, &args, &other),
                SYMMCOLL_ERR_INVALID, "found 7") &&
            HOLDS(symmcoll_symm_is_symmetric(world, &data) == 0) &&
            /* The memory has no address yet, as if it was at 0. */
            HOLDS(symmcoll_symm_is_symmetric(world, (void *)8) == 0) &&
            OK(symmcoll_symm_alloc(world, 100, NULL, &data)) &&
            OK(symmcoll_symm_rendezvous(group, data, NULL, &handle)) &&
            OK(symmcoll_symm_barrier(handle, 0, -1));
    atomic_store(&done[rank], 1);
    pthread_join(thread, NULL);
    right = right && HOLDS(much.right) &&
            groups_said(rank, symmcoll_symm_alloc(world, MUCH, &args, &other),
                SYMMCOLL_ERR_INVALID, "found 7") &&
            HOLDS(symmcoll_symm_is_symmetric(world, much.data) == 1) &&
            OK(symmcoll_symm_free(world, much.data));
    return right && part(group, data, handle);
}

int main(void)
{
    plan(2);
    groups_both(2, others_go_on,
        "a thread that allocates much does not hold up those of its rank");
    return done_testing();
}
