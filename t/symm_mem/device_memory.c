/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Tests symmetric memory on devices: allocating, joining and freeing it, the
 * attributes of handles, and refused arguments.
 */
#include "t/cuda/later.h"
#include "t/symm_mem/device.h"

#define NBYTES 5000

/* ---- allocating and joining ---- */

/* Checks the tables of addresses that kernels read. */
static bool has_tables(const struct symmcoll_symm_info *info)
{
    const size_t nbytes = (size_t)info->nranks * sizeof(void *);
    void *starts[8], *pads[8];
    bool right = HOLDS(info->device_starts != NULL) &&
                 HOLDS(info->device_pads != NULL) && HOLDS(info->nranks <= 8);

    if (!right)
        return false;
    device_read(starts, info->device_starts, nbytes);
    device_read(pads, info->device_pads, nbytes);
    for (int r = 0; r < info->nranks; r++)
        right = HOLDS((char *)starts[r] + info->offset == info->buffers[r]) &&
                HOLDS(pads[r] == info->pads[r]) && right;
    return right;
}

/* Checks the tables for an address inside an allocation, and after the
 * allocation has been freed. */
static int tabulates(struct symmcoll_group *group, int rank)
{
    struct symmcoll_symm_info info = SYMMCOLL_SYMM_INFO_INIT;
    struct symmcoll_symm *inside = NULL;
    struct joined it;
    bool right =
        begin_joined(&it, group, rank, NBYTES) &&
        OK(symmcoll_symm_rendezvous(group, it.data + 256, NULL, &inside)) &&
        OK(symmcoll_symm_get_info(it.handle, &info)) && has_tables(&info) &&
        OK(symmcoll_symm_get_info(inside, &info)) &&
        HOLDS(info.offset == 256) && has_tables(&info) &&
        OK(symmcoll_symm_put_signal(it.handle, it.next, 0, -1)) &&
        OK(symmcoll_symm_wait_signal(it.handle, it.before, 0, -1)) &&
        OK(symmcoll_symm_barrier(it.handle, 0, -1));

    right = end_joined(&it, right);
    right = right && has_tables(&info);
    symmcoll_symm_release(inside);
    return right;
}

static bool shows_all(const struct joined *it)
{
    struct symmcoll_symm_info info = SYMMCOLL_SYMM_INFO_INIT;
    bool right = OK(symmcoll_symm_get_info(it->handle, &info)) &&
                 HOLDS(info.device == SYMMCOLL_CUDA) &&
                 HOLDS(info.device_index == it->rank) &&
                 HOLDS(info.nbytes == it->nbytes) && HOLDS(info.channels > 0) &&
                 HOLDS(info.multicast == NULL) &&
                 HOLDS(info.buffers[it->rank] == it->data) &&
                 HOLDS(symmcoll_symm_is_symmetric(it->world, it->data) == 1);

    for (int r = 0; r < it->size && right; r++) {
        void *at = NULL;
        uint32_t *pad = NULL;

        right = OK(symmcoll_symm_buffer(it->handle, r, 16, 100, &at)) &&
                HOLDS(at == (char *)info.buffers[r] + 16) &&
                OK(symmcoll_symm_pad(it->handle, r, 0, 8, &pad)) &&
                HOLDS(pad == info.pads[r]) &&
                HOLDS(is_zero(pad, 8 * sizeof(*pad))) &&
                HOLDS(is_zero(info.buffers[r], it->nbytes));
    }
    return right;
}

static int is_joined(struct symmcoll_group *group, int rank)
{
    struct symmcoll_symm_info info = SYMMCOLL_SYMM_INFO_INIT;
    struct symmcoll_symm *again = NULL;
    struct joined it;
    bool right = begin_joined(&it, group, rank, NBYTES) && shows_all(&it) &&
                 OK(symmcoll_barrier(group, NULL, NULL));

    if (right)
        write_pattern(it.data, NBYTES, rank);
    right = right && OK(symmcoll_barrier(group, NULL, NULL)) &&
            OK(symmcoll_symm_get_info(it.handle, &info));
    for (int r = 0; r < it.size && right; r++)
        right = is_pattern(info.buffers[r], NBYTES, r);
    right = right &&
            OK(symmcoll_symm_rendezvous(group, it.data, NULL, &again)) &&
            HOLDS(again == it.handle);
    symmcoll_symm_release(again);
    right = OK(symmcoll_barrier(group, NULL, NULL)) && right;
    return end_joined(&it, right);
}

static int lends_tensors(struct symmcoll_group *group, int rank)
{
    struct symmcoll_tensor mine = SYMMCOLL_TENSOR_INIT, view = mine, *views;
    struct symmcoll_world *world = symmcoll_group_world(group);
    struct symmcoll_symm_args args = device_args(rank);
    struct symmcoll_symm *handle = NULL;
    int size = symmcoll_group_size(group), next = (rank + 1) % size;
    bool right;

    device_use(rank);
    mine.dtype = SYMMCOLL_FLOAT32;
    mine.device = SYMMCOLL_CUDA;
    mine.device_index = rank;
    mine.ndim = 2;
    mine.shape[0] = 6;
    mine.shape[1] = 10;
    right = OK(symmcoll_symm_alloc_tensor(world, &args, &mine)) &&
            OK(symmcoll_symm_rendezvous(group, mine.data, NULL, &handle));
    view.dtype = SYMMCOLL_FLOAT32;
    view.ndim = 1;
    view.shape[0] = 30;
    right = right && OK(symmcoll_symm_tensor(handle, next, 7, &view)) &&
            HOLDS(view.device == SYMMCOLL_CUDA) &&
            HOLDS(view.device_index == rank);
    views = calloc((size_t)size, sizeof(*views));
    for (int r = 0; r < size; r++)
        views[r] = (struct symmcoll_tensor)SYMMCOLL_TENSOR_INIT;
    right = right &&
            OK(symmcoll_symm_get_remote_tensors(handle, &mine, views)) &&
            HOLDS((float *)views[next].data + 7 == view.data) &&
            HOLDS(views[next].device == SYMMCOLL_CUDA);
    free(views);
    symmcoll_symm_release(handle);
    return OK(symmcoll_symm_free(world, mine.data)) && right;
}

static int keeps_what_is_freed(struct symmcoll_group *group, int rank)
{
    struct symmcoll_world *world = symmcoll_group_world(group);
    struct symmcoll_symm_args args = device_args(rank);
    struct symmcoll_symm_pool *pool = NULL;
    struct symmcoll_symm *first = NULL, *second = NULL;
    struct symmcoll_tensor host = SYMMCOLL_TENSOR_FLAT(NULL, 4, SYMMCOLL_INT32);
    void *data = NULL, *again = NULL;
    bool right;

    device_use(rank);
    right = OK(symmcoll_symm_pool_create(world, &args, &pool)) &&
            OK(symmcoll_symm_pool_alloc(pool, 300, &data)) &&
            OK(symmcoll_symm_rendezvous(group, data, NULL, &first));
    symmcoll_symm_release(first);
    right = right && OK(symmcoll_symm_free(world, data)) &&
            OK(symmcoll_symm_pool_alloc(pool, 300, &again)) &&
            HOLDS(again == data) &&
            OK(symmcoll_symm_rendezvous(group, data, NULL, &second)) &&
            HOLDS(second == first);
    symmcoll_symm_release(second);
    right =
        right &&
        refused(symmcoll_symm_pool_alloc_tensor(pool, &host),
            SYMMCOLL_ERR_INVALID, "symm_pool_alloc_tensor: expected a tensor",
            "found one in host memory") &&
        OK(symmcoll_symm_free(world, data));
    args.id = 7;
    right = right && OK(symmcoll_symm_alloc(world, 64, &args, &data)) &&
            OK(symmcoll_symm_free(world, data)) &&
            OK(symmcoll_symm_alloc(world, 64, &args, &again)) &&
            HOLDS(again == data) && OK(symmcoll_symm_free(world, data));
    args.device = SYMMCOLL_HOST;
    args.device_index = 0;
    return right &&
           refused(symmcoll_symm_alloc(world, 64, &args, &data),
               SYMMCOLL_ERR_INVALID, "for id 7, as before",
               "found host memory") &&
           OK(symmcoll_symm_pool_free(pool));
}

/* ---- arguments that differ between ranks ---- */

static int names_kinds_that_differ(struct symmcoll_group *group, int rank)
{
    struct symmcoll_world *world = symmcoll_group_world(group);
    struct symmcoll_symm_args args = device_args(rank);
    struct symmcoll_symm *handle = NULL;
    void *data = NULL;
    bool right;

    device_use(rank);
    right =
        OK(symmcoll_symm_alloc(world, 100, rank == 1 ? NULL : &args, &data)) &&
        refused(symmcoll_symm_rendezvous(group, data, NULL, &handle),
            SYMMCOLL_ERR_MISMATCH,
            "symm_rendezvous: kinds of memory differ: rank 0 passed memory "
            "of CUDA device 0",
            "rank 1 passed host memory") &&
        OK(symmcoll_symm_free(world, data)) && is_joined(group, rank);
    return right;
}

static int names_sizes_that_differ(struct symmcoll_group *group, int rank)
{
    struct symmcoll_world *world = symmcoll_group_world(group);
    struct symmcoll_symm_args args = device_args(rank);
    struct symmcoll_symm *handle = NULL;
    void *data = NULL;
    bool right;

    device_use(rank);
    right =
        OK(symmcoll_symm_alloc(world, rank == 1 ? 100 : 200, &args, &data)) &&
        refused(symmcoll_symm_rendezvous(group, data, NULL, &handle),
            SYMMCOLL_ERR_MISMATCH, "sizes differ", "100") &&
        OK(symmcoll_symm_free(world, data));
    return right && is_joined(group, rank);
}

/* The group is bound to the device of its first call. */
static int names_another_device(struct symmcoll_group *group, int rank)
{
    struct symmcoll_world *world = symmcoll_group_world(group);
    int size = symmcoll_group_size(group);
    struct symmcoll_symm_args args = device_args(rank == 1 ? size : rank);
    struct symmcoll_symm *handle = NULL;
    void *data = NULL;
    bool right = is_joined(group, rank);

    if (rank == 1)
        device_use(size);
    right = right && OK(symmcoll_symm_alloc(world, 100, &args, &data)) &&
            refused(symmcoll_symm_rendezvous(group, data, NULL, &handle),
                SYMMCOLL_ERR_INVALID,
                "rank 1: expected memory of device 1, as in earlier operations",
                "of device ");
    right = OK(symmcoll_symm_free(world, data)) && right;
    return right && is_joined(group, rank);
}

/* ---- refused arguments ---- */

static int refuses_what_cannot_be(struct symmcoll_group *group, int rank)
{
    struct symmcoll_world *world = symmcoll_group_world(group);
    struct symmcoll_symm_args args = device_args(99);
    struct symmcoll_symm_pool *pool = NULL;
    struct symmcoll_tensor tensor =
        SYMMCOLL_TENSOR_FLAT(NULL, 4, SYMMCOLL_INT32);
    void *data = NULL;
    bool right;

    device_use(rank);
    right = refused(symmcoll_symm_alloc(world, 100, &args, &data),
        SYMMCOLL_ERR_INVALID,
        "symm_alloc: 100 bytes in memory of CUDA device 99",
        "expected a device of 0 to 7, found 99");
    right =
        refused(symmcoll_symm_pool_create(world, &args, &pool),
            SYMMCOLL_ERR_INVALID,
            "symm_pool_create: ", "expected a device of 0 to 7, found 99") &&
        HOLDS(pool == NULL) && right;
    args.device_index = -1;
    right = refused(symmcoll_symm_alloc(world, 100, &args, &data),
                SYMMCOLL_ERR_INVALID, "symm_alloc:", "found device_index -1") &&
            right;
    args = device_args(rank);
    right =
        refused(symmcoll_symm_alloc(world, (size_t)1 << 30, &args, &data),
            SYMMCOLL_ERR_NO_MEMORY,
            "symm_alloc: 1073741824 bytes in memory of CUDA device", "free") &&
        right;
    right = refused(symmcoll_symm_alloc(world, SIZE_MAX, &args, &data),
                SYMMCOLL_ERR_NO_MEMORY, "symm_alloc:", "which no memory has") &&
            right;
    right = refused(symmcoll_symm_alloc_tensor(world, &args, &tensor),
                SYMMCOLL_ERR_INVALID,
                "symm_alloc_tensor: expected a tensor in "
                "memory of CUDA device",
                "found one in host memory") &&
            right;
    right = refused(symmcoll_symm_import(world, 0, 0, 100, &args, &data),
                SYMMCOLL_ERR_INVALID, "symm_import: expected host memory",
                "as a memfd is") &&
            right;
    return right && HOLDS(data == NULL) && is_joined(group, rank);
}

static int refuses_to_free(struct symmcoll_group *group, int rank)
{
    struct symmcoll_world *world = symmcoll_group_world(group);
    struct symmcoll_symm_info info = SYMMCOLL_SYMM_INFO_INIT;
    struct symmcoll_symm *workspace = NULL;
    struct joined it;
    bool right = begin_joined(&it, group, rank, NBYTES);

    right =
        right &&
        refused(symmcoll_symm_free(world, it.data + 8), SYMMCOLL_ERR_INVALID,
            "symm_free: expected an address", "inside of an allocation") &&
        OK(symmcoll_symm_workspace(group, 700, NULL, &workspace)) &&
        OK(symmcoll_symm_get_info(workspace, &info)) &&
        HOLDS(info.device == SYMMCOLL_CUDA) &&
        HOLDS(info.device_index == rank) &&
        refused(symmcoll_symm_free(world, info.buffers[rank]),
            SYMMCOLL_ERR_INVALID, "a group's workspace",
            "which the group frees");
    symmcoll_symm_release(workspace);
    right = end_joined(&it, right);
    return refused(symmcoll_symm_free(world, it.data), SYMMCOLL_ERR_INVALID,
               "symm_free: expected an address", "found") &&
           right;
}

/* One rank cannot write the table of addresses: no rank has joined. */
static int refuses_without_tables(struct symmcoll_group *group, int rank)
{
    struct symmcoll_world *world = symmcoll_group_world(group);
    struct symmcoll_symm_args args = device_args(device_use(rank));
    struct symmcoll_symm *handle = NULL;
    void *data = NULL;
    bool right = OK(symmcoll_symm_alloc(world, NBYTES, &args, &data));

    if (rank == 1)
        fake_configure("fail=cuMemcpyAsync:1:2");
    right = right &&
            refused(symmcoll_symm_rendezvous(group, data, NULL, &handle),
                SYMMCOLL_ERR_NO_MEMORY, "to write the addresses of symmetric",
                rank == 1 ? "cuMemcpyAsync" : "rank 1") &&
            HOLDS(handle == NULL);
    right = OK(symmcoll_symm_free(world, data)) && right;
    return is_joined(group, rank) && right;
}

/* ---- the end ---- */

/* Frees memory to which a copy on a blocked stream writes: it stays valid
 * until the copy has ended. */
static bool waits_at_end(struct joined *it)
{
    struct later later;
    char *source = device_alloc(NBYTES);
    bool right;

    fake_stall(it->stream);
    right = OK(symmcoll_symm_put_data(it->handle, it->rank, 0, source, NBYTES));
    later_resume(&later, it->stream);
    right = OK(symmcoll_symm_free(it->world, it->data)) && right;
    right = later_end(&later) && right;
    symmcoll_symm_release(it->handle);
    device_wait(it->stream);
    device_free(source);
    return right;
}

static int waits_for_what_runs(struct symmcoll_group *group, int rank)
{
    struct joined it;
    bool right = begin_joined(&it, group, rank, NBYTES) && waits_at_end(&it);

    right = OK(symmcoll_group_set_stream(group, NULL)) && right;
    device_end_stream(it.stream);
    return right;
}

/* The handle is the last user of the memory. */
static int waits_with_the_last_handle(struct symmcoll_group *group, int rank)
{
    struct later later;
    struct joined it;
    bool right = begin_joined(&it, group, rank, NBYTES);
    char *source = device_alloc(NBYTES);

    right = right && OK(symmcoll_symm_free(it.world, it.data));
    fake_stall(it.stream);
    right = right &&
            OK(symmcoll_symm_put_data(it.handle, it.rank, 0, source, NBYTES));
    later_resume(&later, it.stream);
    symmcoll_symm_release(it.handle);
    right = later_end(&later) && right;
    device_wait(it.stream);
    device_free(source);
    right = OK(symmcoll_group_set_stream(group, NULL)) && right;
    device_end_stream(it.stream);
    return right;
}

/* A handle outlives its memory and its group. */
static int outlives(struct symmcoll_group *all, int rank)
{
    struct symmcoll_group *group = NULL;
    struct joined it = {0};
    bool right =
        OK(symmcoll_group_create(symmcoll_group_world(all), NULL, &group)) &&
        begin_joined(&it, group, rank, NBYTES);

    write_pattern(it.data, NBYTES, rank);
    right = right && OK(symmcoll_barrier(group, NULL, NULL)) &&
            OK(symmcoll_symm_free(it.world, it.data)) &&
            OK(symmcoll_symm_put_signal(it.handle, it.next, 0, -1)) &&
            OK(symmcoll_symm_wait_signal(it.handle, it.before, 0, -1));
    device_wait(it.stream);
    right =
        right && OK(symmcoll_group_free(group)) &&
        refused(symmcoll_symm_put_signal(it.handle, it.next, 0, -1),
            SYMMCOLL_ERR_INVALID,
            "symm_put_signal:", "it has been released or its world finalized");
    right = OK(symmcoll_barrier(all, NULL, NULL)) && right;
    symmcoll_symm_release(it.handle);
    device_end_stream(it.stream);
    return right;
}

/* Checks the error when the driver has never been loaded. */
static int says_what_lacks(struct symmcoll_group *group, int rank)
{
    struct symmcoll_symm_args args = device_args(rank);
    void *data = NULL;

    return refused(
        symmcoll_symm_alloc(symmcoll_group_world(group), 100, &args, &data),
        SYMMCOLL_ERR_UNSUPPORTED,
        "symm_alloc: expected a backend with memory of CUDA device",
        "module cuda is not installed, or the setting backends");
}

int main(void)
{
    device_begin();
    for (int n = 1; n <= 4; n++)
        on_both(n, is_joined,
            "memory of devices is zero, and all ranks find what each has "
            "written (S2, S12)");
    on_both(3, tabulates,
        "kernels find the addresses of all members on the device (S21)");
    on_both(3, lends_tensors,
        "tensors in memory of devices, and views of them (S20)");
    on_both(
        2, keeps_what_is_freed, "pools and ids in memory of devices (S7, S10)");
    on_both(3, names_kinds_that_differ,
        "host memory on one rank: all are told of both kinds");
    on_both(3, names_sizes_that_differ, "sizes that differ are named");
    on_both(2, names_another_device,
        "memory of another device than the group's is named");
    on_both(2, refuses_what_cannot_be,
        "no such device, a device that is full, tensors elsewhere");
    on_both(2, refuses_to_free, "what is no allocation is not freed");
    ok(ranks_run(2, refuses_without_tables),
        "memory whose addresses a rank cannot write is joined on none");
    on_both(2, waits_for_what_runs, "memory is freed when no copy uses it");
    on_both(2, waits_with_the_last_handle,
        "and so it is with the last handle on it");
    on_both(3, outlives, "a handle that outlives its memory and its group");
    setenv("SYMMCOLL_BACKENDS", "host", 1);
    on_both(2, says_what_lacks, "without the module the reason is told");
    return done_testing();
}
