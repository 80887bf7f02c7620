/* SPDX-License-Identifier: BSD-3-Clause */
/* Tests pools of symmetric memory. */
#include "t/symm_mem/symm.h"

#include <stdint.h>

#define TENSORS 12

static struct symmcoll_symm_pool_info info_of(struct symmcoll_symm_pool *pool)
{
    struct symmcoll_symm_pool_info info = SYMMCOLL_SYMM_POOL_INFO_INIT;

    (void)OK(symmcoll_symm_pool_get_info(pool, &info));
    return info;
}

static bool has(
    struct symmcoll_symm_pool *pool, size_t used, size_t freed, size_t nbytes)
{
    struct symmcoll_symm_pool_info info = info_of(pool);
    bool right = info.used == used && info.freed == freed &&
                 info.used_nbytes + info.freed_nbytes == nbytes;

    if (!right)
        diag("%zu used and %zu freed of %zu + %zu bytes", info.used, info.freed,
            info.used_nbytes, info.freed_nbytes);
    return right;
}

/* Checks that each tensor begins on a page and shares none: allocations are
 * not split. */
static int many_tensors_are_of_a_pool(struct symmcoll_group *group, int rank)
{
    struct symmcoll_world *world = symmcoll_group_world(group);
    struct symmcoll_tensor tensors[TENSORS];
    struct symmcoll_symm_pool *pool, *same;
    bool right = OK(symmcoll_symm_default_pool(world, &pool)) &&
                 OK(symmcoll_symm_default_pool(world, &same)) &&
                 HOLDS(pool == same);

    for (int i = 0; right && i < TENSORS; i++) {
        tensors[i] = (struct symmcoll_tensor)SYMMCOLL_TENSOR_INIT;
        tensors[i].dtype = SYMMCOLL_FLOAT32;
        tensors[i].ndim = 2;
        tensors[i].shape[0] = 3;
        tensors[i].shape[1] = i + 1;
        right = OK(symmcoll_symm_pool_alloc_tensor(pool, &tensors[i])) &&
                HOLDS(tensors[i].strides[0] == i + 1) &&
                HOLDS((uintptr_t)tensors[i].data % 4096 == 0) &&
                HOLDS(*(float *)tensors[i].data == 0) &&
                HOLDS(symmcoll_symm_is_symmetric(world, tensors[i].data) == 1);
        if (right)
            *(float *)tensors[i].data = (float)(100 * rank + i);
    }
    for (int i = 0; right && i < TENSORS; i++)
        right = HOLDS(*(float *)tensors[i].data == (float)(100 * rank + i)) &&
                OK(symmcoll_symm_free(world, tensors[i].data)) &&
                HOLDS(symmcoll_symm_is_symmetric(world, tensors[i].data) == 0);
    return right && HOLDS(has(pool, 0, TENSORS, 12 * 78)) &&
           groups_said(rank, symmcoll_symm_free(world, tensors[0].data),
               SYMMCOLL_ERR_INVALID, "expected an address");
}

/* Checks that the oldest allocation of the same size is reused, in whatever
 * order they were freed. */
static int what_is_freed_is_used_again(struct symmcoll_group *group, int rank)
{
    struct symmcoll_world *world = symmcoll_group_world(group);
    struct symmcoll_symm_pool *pool, *other;
    char *data[3], *again, *small, *apart;
    int first = rank % 2, second = 1 - first;
    bool right = OK(symmcoll_symm_pool_create(world, NULL, &pool)) &&
                 OK(symmcoll_symm_pool_create(world, NULL, &other));

    for (int i = 0; right && i < 3; i++)
        right = OK(symmcoll_symm_pool_alloc(pool, 5000, (void **)&data[i]));
    if (!right)
        return false;
    data[0][7] = 'x';
    right = OK(symmcoll_symm_free(world, data[first])) &&
            OK(symmcoll_symm_free(world, data[second])) &&
            HOLDS(has(pool, 1, 2, 15000)) &&
            OK(symmcoll_symm_pool_alloc(pool, 4999, (void **)&small)) &&
            HOLDS(small != data[0] && small != data[1]) &&
            OK(symmcoll_symm_pool_alloc(other, 5000, (void **)&apart)) &&
            HOLDS(apart != data[0] && apart != data[1]) &&
            OK(symmcoll_symm_pool_alloc(pool, 5000, (void **)&again)) &&
            HOLDS(again == data[0] && again[7] == 'x') &&
            HOLDS(has(pool, 3, 1, 15000 + 4999)) &&
            OK(symmcoll_symm_pool_trim(pool)) &&
            HOLDS(has(pool, 3, 0, 10000 + 4999));
    /* Memory that is not freed outlives the pool. */
    right = right && OK(symmcoll_symm_free(world, small)) &&
            OK(symmcoll_symm_pool_free(pool)) &&
            HOLDS(symmcoll_symm_is_symmetric(world, again) == 1) &&
            HOLDS(symmcoll_symm_is_symmetric(world, small) == 0) &&
            HOLDS(again[7] == 'x') && OK(symmcoll_symm_free(world, again)) &&
            OK(symmcoll_symm_free(world, data[2])) &&
            groups_said(rank, symmcoll_symm_free(world, again),
                SYMMCOLL_ERR_INVALID, "expected an address");
    return right && OK(symmcoll_symm_free(world, apart));
}

/* Joins a temporary tensor each time: the previous handle is returned, and no
 * more memory is used. */
static int it_is_joined_once_more(struct symmcoll_group *group, int rank)
{
    struct symmcoll_world *world = symmcoll_group_world(group);
    int size = symmcoll_group_size(group), peer = (rank + 1) % size;
    struct symmcoll_symm_pool *pool;
    struct symmcoll_symm *handle = NULL, *first = NULL, *none;
    struct symmcoll_symm *view = NULL;
    int *data, *theirs;
    bool right = OK(symmcoll_symm_pool_create(world, NULL, &pool));

    for (int round = 0; right && round < 20; round++) {
        right = OK(symmcoll_symm_pool_alloc(pool, 8192, (void **)&data)) &&
                groups_said(rank, symmcoll_symm_get(group, data, &none),
                    SYMMCOLL_ERR_INVALID, "after its symm_rendezvous") &&
                OK(symmcoll_symm_rendezvous(group, data, NULL, &handle)) &&
                OK(symmcoll_symm_get(group, data, &none)) &&
                HOLDS(none == handle);
        first = round == 0 ? handle : first;
        right =
            right && HOLDS(handle == first) &&
            OK(symmcoll_symm_buffer(handle, peer, 64, 4, (void **)&theirs)) &&
            (theirs[0] = 10 * round + rank, true) &&
            OK(symmcoll_symm_barrier(handle, 0, -1)) &&
            HOLDS(data[16] == 10 * round + (rank + size - 1) % size) &&
            OK(symmcoll_symm_rendezvous(group, data + 4, NULL, &view)) &&
            OK(symmcoll_symm_barrier(view, 1, -1)) && HOLDS(view != handle);
        symmcoll_symm_release(view);
        right = part(group, data, handle) && right;
    }
    return right && HOLDS(has(pool, 0, 1, 8192)) &&
           OK(symmcoll_symm_pool_free(pool));
}

/* One rank has used its pool differently: all ranks join again, and none
 * waits. */
static int histories_may_differ(struct symmcoll_group *group, int rank)
{
    struct symmcoll_world *world = symmcoll_group_world(group);
    int size = symmcoll_group_size(group), peer = (rank + 1) % size;
    struct symmcoll_symm_pool *pool;
    struct symmcoll_symm *handle, *again;
    int *data, *more, *theirs;
    bool right = OK(symmcoll_symm_pool_create(world, NULL, &pool)) &&
                 OK(symmcoll_symm_pool_alloc(pool, 400, (void **)&data)) &&
                 OK(symmcoll_symm_rendezvous(group, data, NULL, &handle));

    for (int round = 0; right && round < 3; round++) {
        /* Rank 1 has memory that was never joined, then none. */
        if (rank == 1 && round == 0)
            right = OK(symmcoll_symm_pool_alloc(pool, 400, (void **)&more));
        right = part(group, data, handle) && right;
        if (rank == 1 && round == 1)
            right = OK(symmcoll_symm_pool_trim(pool)) && right;
        if (rank == 1 && round == 0)
            right = OK(symmcoll_symm_pool_trim(pool)) &&
                    OK(symmcoll_symm_free(world, more)) && right;
        right = right &&
                OK(symmcoll_symm_pool_alloc(pool, 400, (void **)&data)) &&
                OK(symmcoll_symm_rendezvous(group, data, NULL, &handle)) &&
                OK(symmcoll_symm_buffer(handle, peer, 0, 4, (void **)&theirs));
        if (!right)
            return false;
        again = NULL;
        theirs[0] = rank + 7 * round;
        right = OK(symmcoll_symm_barrier(handle, 0, -1)) &&
                HOLDS(data[0] == (rank + size - 1) % size + 7 * round) &&
                OK(symmcoll_symm_rendezvous(group, data, NULL, &again)) &&
                HOLDS(again == handle) &&
                OK(symmcoll_symm_barrier(handle, 0, -1));
        symmcoll_symm_release(again);
    }
    return right && part(group, data, handle) &&
           OK(symmcoll_symm_pool_free(pool));
}

/* Checks that memory is not reused while this rank has a handle. */
static int a_handle_keeps_it_out_of_use(struct symmcoll_group *group, int rank)
{
    struct symmcoll_world *world = symmcoll_group_world(group);
    struct symmcoll_symm_pool *pool;
    struct symmcoll_symm *handle;
    int *data, *other, *again;
    bool right = OK(symmcoll_symm_pool_create(world, NULL, &pool)) &&
                 OK(symmcoll_symm_pool_alloc(pool, 400, (void **)&data)) &&
                 OK(symmcoll_symm_rendezvous(group, data, NULL, &handle)) &&
                 OK(symmcoll_symm_free(world, data)) &&
                 OK(symmcoll_symm_pool_alloc(pool, 400, (void **)&other)) &&
                 HOLDS(other != data) && OK(symmcoll_symm_pool_trim(pool));

    if (!right)
        return false;
    data[0] = rank; /* the handle keeps it, also after the trim */
    right = OK(symmcoll_symm_barrier(handle, 0, -1));
    symmcoll_symm_release(handle);
    return right && OK(symmcoll_symm_free(world, other)) &&
           OK(symmcoll_symm_pool_alloc(pool, 400, (void **)&again)) &&
           HOLDS(again == other) && OK(symmcoll_symm_free(world, again)) &&
           OK(symmcoll_symm_pool_free(pool));
}

static int sizes_that_differ_are_named(struct symmcoll_group *group, int rank)
{
    struct symmcoll_world *world = symmcoll_group_world(group);
    struct symmcoll_symm_args args = SYMMCOLL_SYMM_ARGS_INIT;
    struct symmcoll_symm_pool *pool, *wide;
    struct symmcoll_symm_info info = SYMMCOLL_SYMM_INFO_INIT;
    struct symmcoll_symm *handle = NULL;
    void *data;
    bool right;

    args.pad = 4096;
    right =
        OK(symmcoll_symm_default_pool(world, &pool)) &&
        OK(symmcoll_symm_pool_create(world, &args, &wide)) &&
        OK(symmcoll_symm_pool_alloc(pool, rank == 0 ? 300 : 500, &data)) &&
        groups_said(rank, symmcoll_symm_rendezvous(group, data, NULL, &handle),
            SYMMCOLL_ERR_MISMATCH, "rank 0 passed 300 bytes") &&
        HOLDS(handle == NULL) && OK(symmcoll_symm_free(world, data)) &&
        OK(symmcoll_symm_pool_alloc(wide, 300, &data)) &&
        OK(symmcoll_symm_rendezvous(group, data, NULL, &handle)) &&
        OK(symmcoll_symm_get_info(handle, &info)) && HOLDS(info.pad == 4096);
    return right && part(group, data, handle) &&
           OK(symmcoll_symm_pool_free(wide));
}

static int bad_arguments_are_refused(struct symmcoll_group *group, int rank)
{
    struct symmcoll_world *world = symmcoll_group_world(group);
    struct symmcoll_symm_args args = SYMMCOLL_SYMM_ARGS_INIT;
    struct symmcoll_tensor tensor = SYMMCOLL_TENSOR_INIT;
    struct symmcoll_symm_pool *pool;
    void *data = NULL;
    bool right = OK(symmcoll_symm_default_pool(world, &pool));

    args.id = 5;
    tensor.ndim = 1;
    tensor.shape[0] = -1;
    return right &&
           groups_said(rank, symmcoll_symm_pool_create(world, &args, &pool),
               SYMMCOLL_ERR_INVALID, "expected no id") &&
           groups_said(rank, symmcoll_symm_pool_create(NULL, NULL, &pool),
               SYMMCOLL_ERR_INVALID, "expected a world") &&
           groups_said(rank, symmcoll_symm_default_pool(world, NULL),
               SYMMCOLL_ERR_INVALID, "found NULL") &&
           groups_said(rank, symmcoll_symm_pool_alloc(NULL, 1, &data),
               SYMMCOLL_ERR_INVALID, "expected a pool") &&
           groups_said(rank, symmcoll_symm_pool_alloc(pool, SIZE_MAX, &data),
               SYMMCOLL_ERR_NO_MEMORY, "requested") &&
           groups_said(rank, symmcoll_symm_pool_alloc_tensor(pool, &tensor),
               SYMMCOLL_ERR_INVALID, "found -1") &&
           groups_said(rank, symmcoll_symm_pool_get_info(pool, NULL),
               SYMMCOLL_ERR_INVALID,
               "symm_pool_get_info: expected a pool and a place") &&
           groups_said(rank, symmcoll_symm_pool_free(pool),
               SYMMCOLL_ERR_INVALID, "the default pool") &&
           groups_said(rank, symmcoll_symm_pool_trim(NULL),
               SYMMCOLL_ERR_INVALID, "expected a pool") &&
           OK(symmcoll_symm_pool_free(NULL)) && HOLDS(data == NULL);
}

int main(void)
{
    plan(14);
    groups_both(2, many_tensors_are_of_a_pool,
        "many small tensors are of the default pool, and none is split (S10)");
    groups_both(2, what_is_freed_is_used_again,
        "the oldest of the same size is used again, of the same pool (S10)");
    groups_both(3, it_is_joined_once_more,
        "what was joined before is joined again, with the same handle");
    groups_both(3, histories_may_differ,
        "ranks whose pools differ join anew, and none waits");
    groups_both(2, a_handle_keeps_it_out_of_use,
        "what this rank has a handle on is not used again");
    groups_both(3, sizes_that_differ_are_named,
        "sizes that differ are named; a pool has its own signal pad");
    groups_both(2, bad_arguments_are_refused,
        "bad arguments are named, and nothing is allocated");
    return done_testing();
}
