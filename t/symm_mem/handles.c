/* SPDX-License-Identifier: BSD-3-Clause */
/* Tests the rendezvous, handles, and access to every member's memory. */
#include "t/symm_mem/symm.h"

#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>

#define SIZE_MOST 8

/* Each rank writes to all others, and reads what all have written. */
static int all_see_the_same(struct symmcoll_group *group, int rank)
{
    int size = symmcoll_group_size(group);
    struct symmcoll_symm_info info = SYMMCOLL_SYMM_INFO_INIT;
    struct symmcoll_symm *handle, *same = NULL, *got;
    int *data, *theirs;
    uint32_t *pad;
    bool right = join(
        group, sizeof(int) * SIZE_MOST * SIZE_MOST, (void **)&data, &handle);

    right = right && OK(symmcoll_symm_get_info(handle, &info)) &&
            HOLDS(info.group == group && info.rank == rank) &&
            HOLDS(info.nranks == size && info.offset == 0) &&
            HOLDS(info.nbytes == sizeof(int) * SIZE_MOST * SIZE_MOST) &&
            HOLDS(info.pad == 2048 && info.channels == 2048 / 4 / size) &&
            HOLDS(info.multicast == NULL && info.device_starts == NULL) &&
            HOLDS(info.device_pads == NULL && info.buffers[rank] == data);
    for (int r = 0; right && r < size; r++) {
        right = OK(symmcoll_symm_buffer(handle, r, 0,
                    sizeof(int) * SIZE_MOST * SIZE_MOST, (void **)&theirs)) &&
                HOLDS(theirs == info.buffers[r]) &&
                OK(symmcoll_symm_pad(handle, r, 2, 1, &pad)) &&
                HOLDS(pad == info.pads[r] + 2 && pad[0] == 0);
        if (right)
            theirs[rank * SIZE_MOST + r] = 100 * rank + r + 1;
    }
    right = right && OK(symmcoll_symm_barrier(handle, 0, -1));
    for (int r = 0; right && r < size; r++) {
        theirs = info.buffers[r];
        for (int q = 0; right && q < size; q++)
            right = HOLDS(theirs[q * SIZE_MOST + r] == 100 * q + r + 1) &&
                    HOLDS(data[q * SIZE_MOST + rank] == 100 * q + rank + 1);
    }
    right = right && OK(symmcoll_symm_rendezvous(group, data, NULL, &same)) &&
            OK(symmcoll_symm_get(group, data, &got)) &&
            HOLDS(same == handle && got == handle);
    symmcoll_symm_release(same);
    return right && OK(symmcoll_symm_barrier(handle, 0, -1)) &&
           part(group, data, handle);
}

static int a_handle_keeps_the_memory(struct symmcoll_group *group, int rank)
{
    int size = symmcoll_group_size(group), peer = (rank + 1) % size;
    struct symmcoll_world *world = symmcoll_group_world(group);
    struct symmcoll_symm *handle, *none;
    int *data, *others[20], *theirs;
    bool right = join(group, 4096, (void **)&data, &handle);

    if (!right)
        return false;
    data[5] = rank + 50;
    right = OK(symmcoll_symm_barrier(handle, 0, -1)) &&
            OK(symmcoll_symm_free(world, data));
    for (size_t i = 0; right && i < LENGTH(others); i++) {
        right = OK(symmcoll_symm_alloc(world, 4096, NULL, (void **)&others[i]));
        if (right)
            memset(others[i], 0xff, 4096);
    }
    right = right && HOLDS(data[5] == rank + 50) &&
            OK(symmcoll_symm_buffer(handle, peer, 0, 64, (void **)&theirs)) &&
            HOLDS(theirs[5] == peer + 50) &&
            groups_said(rank, symmcoll_symm_get(group, data, &none),
                SYMMCOLL_ERR_NOT_SYMMETRIC, "expected an address");
    for (size_t i = 0; right && i < LENGTH(others); i++)
        right = OK(symmcoll_symm_free(world, others[i]));
    right = right && OK(symmcoll_symm_barrier(handle, 0, -1));
    symmcoll_symm_release(handle);
    return right;
}

/* One rank releases the memory, and another still reads it while the first
 * allocates and writes. */
static int a_peer_reads_on(struct symmcoll_group *group, int rank)
{
    struct symmcoll_world *world = symmcoll_group_world(group);
    struct symmcoll_symm *handle;
    int *data, *theirs, *other;
    bool right = join(group, 65536, (void **)&data, &handle);

    if (!right)
        return false;
    for (int i = 0; i < 65536 / 4; i++)
        data[i] = rank + 1;
    right = OK(symmcoll_symm_barrier(handle, 0, -1));
    if (rank == 0) {
        right = part(group, data, handle) && right;
        for (int i = 0; right && i < 50; i++) {
            right =
                OK(symmcoll_symm_alloc(world, 65536, NULL, (void **)&other));
            if (right)
                memset(other, 0xee, 65536);
        }
    }
    right = right && OK(symmcoll_barrier(group, NULL, NULL));
    if (rank == 0)
        return right;
    right = right &&
            OK(symmcoll_symm_buffer(handle, 0, 0, 65536, (void **)&theirs));
    for (int i = 0; right && i < 65536 / 4; i++)
        right = HOLDS(theirs[i] == 1);
    return part(group, data, handle) && right;
}

static int sizes_that_differ_are_named(struct symmcoll_group *group, int rank)
{
    struct symmcoll_world *world = symmcoll_group_world(group);
    struct symmcoll_symm_args args = SYMMCOLL_SYMM_ARGS_INIT;
    struct symmcoll_symm *handle = NULL;
    char *data;
    bool right;

    right =
        OK(symmcoll_symm_alloc(
            world, rank == 1 ? 2000 : 1000, NULL, (void **)&data)) &&
        groups_said(rank, symmcoll_symm_rendezvous(group, data, NULL, &handle),
            SYMMCOLL_ERR_MISMATCH,
            "sizes differ: ranks 0 and 2 passed 1000 bytes, rank 1 passed "
            "2000 bytes") &&
        HOLDS(handle == NULL) && OK(symmcoll_symm_free(world, data));
    args.pad = rank == 2 ? 4096 : 1024;
    right =
        right && OK(symmcoll_symm_alloc(world, 1000, &args, (void **)&data)) &&
        groups_said(rank, symmcoll_symm_rendezvous(group, data, NULL, &handle),
            SYMMCOLL_ERR_MISMATCH, "rank 2 passed 4096 bytes") &&
        OK(symmcoll_symm_free(world, data));
    right = right &&
            OK(symmcoll_symm_alloc(world, 1000, NULL, (void **)&data)) &&
            groups_said(rank,
                symmcoll_symm_rendezvous(
                    group, data + (rank == 0 ? 16 : 0), NULL, &handle),
                SYMMCOLL_ERR_MISMATCH, "rank 0 passed 16 bytes from") &&
            OK(symmcoll_symm_rendezvous(group, data, NULL, &handle));
    return right && part(group, data, handle);
}

static int foreign_memory_is_refused(struct symmcoll_group *group, int rank)
{
    struct symmcoll_world *world = symmcoll_group_world(group);
    static int foreign[4];
    struct symmcoll_symm *handle = NULL;
    void *data;
    bool right = OK(symmcoll_symm_alloc(world, 16, NULL, &data)) &&
                 groups_said(rank, symmcoll_symm_get(group, data, &handle),
                     SYMMCOLL_ERR_INVALID, "after its symm_rendezvous") &&
                 groups_said(rank,
                     symmcoll_symm_rendezvous(
                         group, rank == 1 ? foreign : data, NULL, &handle),
                     SYMMCOLL_ERR_NOT_SYMMETRIC, "rank 1: expected an address");

    return right && HOLDS(handle == NULL) &&
           OK(symmcoll_symm_rendezvous(group, data, NULL, &handle)) &&
           part(group, data, handle);
}

/* Joins the memory in the group of all, in one of some ranks, and with
 * views. */
static int one_memory_joins_groups(struct symmcoll_group *group, int rank)
{
    struct symmcoll_world *world = symmcoll_group_world(group);
    struct symmcoll_symm_info info = SYMMCOLL_SYMM_INFO_INIT;
    struct symmcoll_group *half;
    struct symmcoll_symm *all, *some, *view, *again;
    int *data, *theirs;
    int partner = rank ^ 1, in_half = rank % 2;
    bool right;

    right = OK(symmcoll_group_split(group, rank / 2, rank, NULL, &half)) &&
            OK(symmcoll_symm_alloc(world, 4096, NULL, (void **)&data)) &&
            OK(symmcoll_symm_rendezvous(half, data + 8, NULL, &some)) &&
            OK(symmcoll_symm_rendezvous(group, data, NULL, &all)) &&
            OK(symmcoll_symm_rendezvous(group, data + 100, NULL, &view)) &&
            OK(symmcoll_symm_get(group, data + 100, &again)) &&
            HOLDS(view == again && view != all && all != some) &&
            OK(symmcoll_symm_get_info(view, &info)) &&
            HOLDS(info.offset == 400 && info.nbytes == 4096 - 400) &&
            OK(symmcoll_symm_get_info(some, &info)) &&
            HOLDS(info.nranks == 2 && info.rank == in_half) &&
            HOLDS(info.offset == 32 && info.group == half);
    if (!right)
        return false;
    data[8] = rank + 10;
    data[100] = rank + 20;
    right =
        OK(symmcoll_symm_barrier(all, 0, -1)) &&
        OK(symmcoll_symm_buffer(some, 1 - in_half, 0, 4, (void **)&theirs)) &&
        HOLDS(theirs[0] == partner + 10) &&
        OK(symmcoll_symm_buffer(view, partner, 0, 4, (void **)&theirs)) &&
        HOLDS(theirs[0] == partner + 20) &&
        groups_said(rank,
            symmcoll_symm_buffer(view, partner, 0, 4096, (void **)&theirs),
            SYMMCOLL_ERR_INVALID, "within 3696 bytes, found 4096");
    right = right && OK(symmcoll_symm_barrier(all, 0, -1));
    symmcoll_symm_release(view);
    symmcoll_symm_release(all);
    right = OK(symmcoll_group_free(half)) && right &&
            OK(symmcoll_symm_get_info(some, &info)) &&
            HOLDS(info.group == NULL) &&
            groups_said(rank, symmcoll_symm_barrier(some, 0, -1),
                SYMMCOLL_ERR_INVALID, "it has been released") &&
            OK(symmcoll_symm_buffer(some, in_half, 0, 4, (void **)&theirs)) &&
            HOLDS(theirs[0] == rank + 10);
    return part(group, data, some) && right;
}

/* Creates views of tensors at an offset in elements. */
static int views_have_bounds(struct symmcoll_group *group, int rank)
{
    int size = symmcoll_group_size(group), peer = (rank + 1) % size;
    struct symmcoll_tensor view = SYMMCOLL_TENSOR_INIT;
    struct symmcoll_symm *handle;
    double *data;
    void *at;
    uint32_t *pad;
    bool right = join(group, 100 * sizeof(double), (void **)&data, &handle);

    view.dtype = SYMMCOLL_FLOAT64;
    view.ndim = 2;
    view.shape[0] = 5;
    view.shape[1] = 10;
    right = right && OK(symmcoll_symm_tensor(handle, peer, 50, &view)) &&
            HOLDS(view.strides[0] == 10 && view.strides[1] == 1) &&
            OK(symmcoll_symm_buffer(handle, peer, 400, 400, &at)) &&
            HOLDS(view.data == at) &&
            groups_said(rank, symmcoll_symm_tensor(handle, peer, 51, &view),
                SYMMCOLL_ERR_INVALID,
                "within 800 bytes, found 400 bytes from byte 408") &&
            groups_said(rank, symmcoll_symm_tensor(handle, peer, -1, &view),
                SYMMCOLL_ERR_INVALID, "found -1") &&
            HOLDS(view.data == at) &&
            groups_said(rank, symmcoll_symm_buffer(handle, 0, 1, SIZE_MAX, &at),
                SYMMCOLL_ERR_INVALID, "within 800 bytes") &&
            groups_said(rank, symmcoll_symm_buffer(handle, size, 0, 1, &at),
                SYMMCOLL_ERR_INVALID, "expected a rank") &&
            groups_said(rank, symmcoll_symm_buffer(handle, -1, 0, 1, &at),
                SYMMCOLL_ERR_INVALID, "found -1") &&
            OK(symmcoll_symm_pad(handle, peer, 511, 1, &pad)) &&
            groups_said(rank, symmcoll_symm_pad(handle, peer, 511, 2, &pad),
                SYMMCOLL_ERR_INVALID, "2048 bytes") &&
            groups_said(rank, symmcoll_symm_pad(NULL, 0, 0, 1, &pad),
                SYMMCOLL_ERR_INVALID, "found NULL");
    return right && part(group, data, handle);
}

struct joiner {
    struct symmcoll_group *group;
    void *data;
    struct symmcoll_symm *handle;
    bool right;
};

static void *join_it(void *arg)
{
    struct joiner *joiner = arg;

    joiner->right = OK(symmcoll_symm_rendezvous(
        joiner->group, joiner->data, NULL, &joiner->handle));
    return NULL;
}

static int threads_join_once(struct symmcoll_group *group, int rank)
{
    struct symmcoll_world *world = symmcoll_group_world(group);
    struct joiner joiners[3];
    pthread_t threads[LENGTH(joiners)];
    void *data;
    bool right = OK(symmcoll_symm_alloc(world, 100, NULL, &data));

    (void)rank;
    for (size_t i = 0; i < LENGTH(joiners); i++) {
        joiners[i] = (struct joiner){group, data, NULL, false};
        pthread_create(&threads[i], NULL, join_it, &joiners[i]);
    }
    for (size_t i = 0; i < LENGTH(joiners); i++) {
        pthread_join(threads[i], NULL);
        right = right && HOLDS(joiners[i].right) &&
                HOLDS(joiners[i].handle == joiners[0].handle);
        symmcoll_symm_release(joiners[i].handle);
    }
    return OK(symmcoll_symm_free(world, data)) && right;
}

int main(void)
{
    plan(18);
    groups_both(2, all_see_the_same,
        "every rank reads and writes the memory of every other (S2, S8, S20)");
    groups_both(5, all_see_the_same, "and so do five");
    groups_both(3, a_handle_keeps_the_memory,
        "a handle keeps the memory after it has been freed");
    groups_both(3, a_peer_reads_on,
        "who has let go of it leaves its bytes to peers that have not");
    groups_both(3, sizes_that_differ_are_named,
        "sizes, pads and addresses that differ are named on all ranks (S3, "
        "S12)");
    groups_both(3, foreign_memory_is_refused,
        "memory from elsewhere is refused on all ranks (S1 O2)");
    groups_both(4, one_memory_joins_groups,
        "one memory joins several groups, from several addresses on (S6, S11)");
    groups_both(
        3, views_have_bounds, "views past the end are refused (S20, S21)");
    groups_both(3, threads_join_once,
        "several threads that join the same memory have one handle");
    return done_testing();
}
