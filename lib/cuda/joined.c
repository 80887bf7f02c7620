/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Joining memory.  A rank's own part is mapped twice: where it was allocated, which
 * is what the rank knows, and in the row with the others, where kernels find it.
 * Both are the same bytes, and each keeps them.
 */
#include "cuda/joined.h"
#include "cuda/device_group.h"
#include "cuda/memory.h"

#include <stdlib.h>

/* INVARIANT: begins with struct symc_cuda_joined. */
struct joined {
    struct symc_cuda_joined whole;
    const struct symc_cuda *cuda;
    struct symc_cuda_memory *memory; /* one use of it is ours */
    struct symc_cuda_row row;
    void *at[SYMC_KERNEL_RANKS];
};

/* What each member tells. */
struct told {
    uint64_t nbytes;
};

static symmcoll_status_t check_nbytes(
    const struct symc_cuda_group *group, const struct told *all)
{
    for (int r = 1; r < group->size; r++) {
        if (all[r].nbytes != all[0].nbytes)
            return group->core->fail(SYMMCOLL_ERR_MISMATCH,
                "expected memory of the same size on all ranks, found %llu "
                "bytes on rank %d and %llu on rank %d",
                (unsigned long long)all[0].nbytes,
                symc_cuda_world_rank(group, 0),
                (unsigned long long)all[r].nbytes,
                symc_cuda_world_rank(group, r));
    }
    return SYMMCOLL_OK;
}

static symmcoll_status_t check_device(
    const struct symc_cuda_group *group, const struct symc_cuda_memory *memory)
{
    if (memory->context.device == group->context.device)
        return SYMMCOLL_OK;
    return group->core->fail(SYMMCOLL_ERR_INVALID,
        "expected memory of device %d, on which group %s has begun, found %p "
        "of device %d",
        group->device, group->core->name,
        (void *)(uintptr_t)memory->physical.at, memory->context.device);
}

/* What this member alone finds wrong the others learn when they tell, or in their
 * next call. */
static symmcoll_status_t compare(
    const struct symc_cuda_group *group, const struct symc_cuda_memory *memory)
{
    const struct symc_core *core = group->core;
    struct told mine = {.nbytes = memory->nbytes}, all[SYMC_KERNEL_RANKS];
    symmcoll_status_t status = check_device(group, memory);

    if (status == SYMMCOLL_OK)
        status = core->gather(core->group, &mine, all, sizeof(mine));
    return status == SYMMCOLL_OK ? check_nbytes(group, all) : status;
}

/* For the caller, and for kernels. */
static void fill_in(struct joined *made, int rank)
{
    struct symc_cuda_row *row = &made->row;

    for (int r = 0; r < row->size; r++)
        made->at[r] = (void *)(uintptr_t)symc_cuda_row_at(row, r);
    made->at[rank] = (void *)(uintptr_t)made->memory->physical.at;
    made->whole.joined = (struct symc_joined){
        .size = row->size, .nbytes = made->memory->nbytes, .at = made->at};
    made->whole.data = (struct symc_device_data){
        .base = (unsigned char *)(uintptr_t)row->base, .stride = row->stride};
}

/* In the context. */
static symmcoll_status_t map_all(
    const struct symc_cuda_group *group, struct joined *made)
{
    const struct symc_cuda_physical *own = &made->memory->physical;
    symmcoll_status_t status = compare(group, made->memory);

    if (status == SYMMCOLL_OK)
        status = symc_cuda_row_open(
            group, own->handle, own->nbytes, "symmetric memory", &made->row);
    if (status == SYMMCOLL_OK)
        fill_in(made, group->rank);
    return status;
}

symmcoll_status_t symc_cuda_join(
    void *state, void *memory, struct symc_joined **joined)
{
    struct symc_cuda_group *group = state;
    struct joined *made = calloc(1, sizeof(*made));
    struct symc_cuda_entered entered;
    symmcoll_status_t status;
    CUresult result;

    if (made == NULL)
        return group->core->fail(
            SYMMCOLL_ERR_NO_MEMORY, "no memory to join memory of a device");
    made->cuda = group->cuda;
    made->memory = memory;
    atomic_fetch_add(&made->memory->uses, 1);
    result = symc_cuda_enter(&group->context, &entered);
    if (result == CUDA_SUCCESS) {
        status = map_all(group, made);
        symc_cuda_leave(&entered);
    } else {
        status = symc_cuda_group_fail(group, result, "cuCtxPushCurrent");
    }
    if (status != SYMMCOLL_OK) {
        symc_cuda_leave_joined(&made->whole.joined);
        return status;
    }
    *joined = &made->whole.joined;
    return SYMMCOLL_OK;
}

void symc_cuda_leave_joined(struct symc_joined *joined)
{
    struct joined *left = (struct joined *)(void *)joined;

    symc_cuda_row_close(left->cuda, &left->row);
    symc_cuda_memory_free(left->memory);
    free(left);
}
