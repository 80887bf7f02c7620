/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Joining memory.  A rank's own part is mapped twice: at the address where it was
 * allocated, which the rank uses, and in the row with the others, which kernels use.
 * Either mapping keeps the memory alive.
 *
 * Memory that a program has allocated may begin at different offsets on different
 * members, or may be impossible to map in a row: kernels then use a table.
 */
#include "cuda/joined.h"
#include "cuda/device_group.h"
#include "cuda/memory.h"
#include "cuda/multicast.h"
#include "cuda/nccl/nccl_window.h"
#include "cuda/places.h"

#include <stdlib.h>
#include <string.h>

/* INVARIANT: begins with struct symc_cuda_joined. */
struct joined {
    struct symc_cuda_joined whole;
    struct symc_cuda_log log;
    struct symc_cuda_memory *memory; /* holds one use */
    struct symc_cuda_row row;
    struct symc_cuda_multicast multicast;
    struct symc_cuda_places places;
    void *at[SYMC_KERNEL_RANKS]; /* of each member, for kernels */
    struct symc_extent mapped[SYMC_KERNEL_RANKS];
};

/* The data that each member contributes to the gather. */
struct offer {
    uint64_t nbytes;
    uint64_t legacy;
    struct symc_cuda_allocation allocation;
};

/* ---- checks ---- */

static const char *format_kind(const struct offer *offer)
{
    return offer->legacy ? "cuMemAlloc()" : "cuMemCreate()";
}

static symmcoll_status_t check_offers(
    const struct symc_cuda_group *group, const struct offer *all)
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
        if (all[r].legacy != all[0].legacy)
            return group->core->fail(SYMMCOLL_ERR_UNSUPPORTED,
                "expected memory that was allocated by the same calls on all "
                "ranks, found that of %s on rank %d and of %s on rank %d",
                format_kind(&all[0]), symc_cuda_world_rank(group, 0),
                format_kind(&all[r]), symc_cuda_world_rank(group, r));
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
        group->device, group->core->name, (void *)(uintptr_t)memory->data,
        memory->context.device);
}

/* Checks the context of memory of cuMemAlloc(), which belongs to the context it was
 * allocated in.  For other memory the driver may name no context. */
static symmcoll_status_t check_context(
    const struct symc_cuda_group *group, const struct symc_cuda_memory *memory)
{
    const void *data = (const void *)(uintptr_t)memory->data;

    if (!memory->legacy || memory->pool != NULL ||
        symc_cuda_context_has(&group->context, data))
        return SYMMCOLL_OK;
    return group->core->fail(SYMMCOLL_ERR_INVALID,
        "expected memory of the context in which group %s has begun on device %d, "
        "found %p of another context",
        group->core->name, group->device, data);
}

/* Gathers all members' descriptions and compares them.  A member that fails alone, before
 * the gather, is reported to the others by the gather, or by their next collective. */
static symmcoll_status_t compare(const struct symc_cuda_group *group,
    const struct symc_cuda_memory *memory, struct offer *all)
{
    const struct symc_core *core = group->core;
    struct offer mine = {.nbytes = memory->nbytes,
        .legacy = memory->legacy,
        .allocation = {.ipc = memory->ipc,
            .context = memory->context.context,
            .pool = memory->pool,
            .data = memory->data,
            .offset = memory->offset}};
    symmcoll_status_t status = check_device(group, memory);

    if (status == SYMMCOLL_OK)
        status = check_context(group, memory);
    if (status == SYMMCOLL_OK)
        status = core->gather(core->group, &mine, all, sizeof(mine));
    return status == SYMMCOLL_OK ? check_offers(group, all) : status;
}

/* ---- mapping; the context must be current ---- */

static symmcoll_status_t map_row(const struct symc_cuda_group *group,
    struct joined *made, const struct offer *all, bool *is_row)
{
    const struct symc_cuda_physical *own = &made->memory->physical;
    const struct symc_cuda_row *row = &made->row;
    symmcoll_status_t status =
        symc_cuda_row_open(group, own, "symmetric memory", &made->row);

    if (status != SYMMCOLL_OK)
        return status;
    *is_row = true;
    for (int r = 0; r < group->size; r++) {
        uint64_t offset = all[r].allocation.offset;

        made->mapped[r] = (struct symc_extent){
            .begin = (void *)(uintptr_t)symc_cuda_row_at(row, r),
            .nbytes = row->mapped[r]};
        made->at[r] = (void *)(uintptr_t)(symc_cuda_row_at(row, r) + offset);
        *is_row = *is_row && offset == all[0].allocation.offset;
    }
    return SYMMCOLL_OK;
}

static symmcoll_status_t map_places(const struct symc_cuda_group *group,
    struct joined *made, const struct offer *all)
{
    const struct symc_cuda_allocation *allocations[SYMC_KERNEL_RANKS];

    for (int r = 0; r < group->size; r++)
        allocations[r] = &all[r].allocation;
    return symc_cuda_places_open(group, allocations, made->at, &made->places);
}

/* Collective: maps multicast memory of a row in which all parts begin at the same offset
 * of their allocation.  Does nothing if the group has no multicast or the memory is for
 * words; made->whole.data.multicast stays NULL if it is not mapped. */
static symmcoll_status_t open_multicast(
    const struct symc_cuda_group *group, struct joined *made)
{
    const struct symc_cuda_memory *memory = made->memory;
    struct symc_cuda_multicast *multicast = &made->multicast;
    symmcoll_status_t status;

    if (!group->multicast || memory->words)
        return SYMMCOLL_OK;
    status = symc_cuda_multicast_open(
        group, &made->log, &memory->physical, multicast);
    if (multicast->at != 0)
        made->whole.data.multicast =
            (unsigned char *)(uintptr_t)(multicast->at + memory->offset);
    return status;
}

static symmcoll_status_t map_all(
    const struct symc_cuda_group *group, struct joined *made)
{
    struct symc_device_data *data = &made->whole.data;
    struct offer all[SYMC_KERNEL_RANKS];
    bool is_row = false;
    symmcoll_status_t status = compare(group, made->memory, all);

    if (status == SYMMCOLL_OK)
        status = made->memory->legacy ? map_places(group, made, all)
                                      : map_row(group, made, all, &is_row);
    if (status != SYMMCOLL_OK)
        return status;
    status = is_row ? open_multicast(group, made)
                    : symc_cuda_places_write(group, made->at, &made->places);
    data->base = made->at[0];
    data->stride = made->row.stride;
    data->table = (void *)(uintptr_t)made->places.table.at;
    made->at[group->rank] = (void *)(uintptr_t)made->memory->data;
    made->whole.joined = (struct symc_joined){.size = group->size,
        .nbytes = made->memory->nbytes,
        .at = made->at,
        .mapped = made->mapped,
        .multicast = data->multicast};
    return status;
}

/* ---- joining and leaving ---- */

symmcoll_status_t symc_cuda_join(
    void *state, void *memory, struct symc_joined **joined)
{
    struct symc_cuda_group *group = state;
    struct joined *made = calloc(1, sizeof(*made));
    struct symc_cuda_entered entered;
    symmcoll_status_t status;

    if (made == NULL)
        return group->core->fail(
            SYMMCOLL_ERR_NO_MEMORY, "no memory to join memory of a device");
    made->memory = memory;
    made->log = made->memory->log;
    made->log.warned = false;
    /* NCCL calls the driver in its own context, for windows of this memory as well. */
    made->whole.foreign =
        made->memory->context.context != group->context.context;
    if (!made->whole.foreign)
        made->whole.own = symc_cuda_memory_extent(memory);
    atomic_fetch_add(&made->memory->uses, 1);
    status = symc_cuda_group_enter(group, &entered);
    if (status == SYMMCOLL_OK) {
        status = map_all(group, made);
        symc_cuda_leave(&entered);
    }
    if (status != SYMMCOLL_OK) {
        symc_cuda_leave_joined(&made->whole.joined);
        return status;
    }
    *joined = &made->whole.joined;
    return SYMMCOLL_OK;
}

symmcoll_status_t symc_cuda_tabulate(void *state,
    const struct symc_joined *joined, const struct symc_joined *into, size_t at)
{
    struct symc_cuda_group *group = state;
    const size_t row = sizeof(void *) * (size_t)group->size;
    void *table[2 * SYMC_KERNEL_RANKS];
    struct symc_cuda_entered entered;
    struct symc_cuda_called called;
    symmcoll_status_t status = symc_cuda_group_enter(group, &entered);

    if (status != SYMMCOLL_OK)
        return status;
    memcpy(table, joined->at, row);
    memcpy(table + group->size, into->at, row);
    called = symc_cuda_write(group->cuda,
        (CUdeviceptr)(uintptr_t)into->at[group->rank] + at, table, 2 * row);
    if (called.result != CUDA_SUCCESS)
        status = symc_cuda_group_fail(group, called.result,
            "%s to write the addresses of symmetric memory", called.name);
    symc_cuda_leave(&entered);
    return status;
}

/* Leaves the window of NCCL, which calls the driver in the current context. */
static void leave_window(struct joined *left)
{
    struct symc_cuda_entered entered;
    bool in = symc_cuda_enter(&left->memory->context, &entered).result ==
              CUDA_SUCCESS;

    symc_cuda_windows_leave(&left->whole);
    if (in)
        symc_cuda_leave(&entered);
}

void symc_cuda_leave_joined(struct symc_joined *joined)
{
    struct joined *left = (struct joined *)(void *)joined;
    CUstreamCaptureMode mode =
        symc_cuda_relax(left->log.cuda, CU_STREAM_CAPTURE_MODE_RELAXED);

    leave_window(left);
    symc_cuda_multicast_close(&left->log, &left->multicast);
    symc_cuda_places_close(&left->log, &left->places);
    symc_cuda_row_close(&left->log, &left->row);
    (void)symc_cuda_relax(left->log.cuda, mode);
    symc_cuda_memory_free(left->memory);
    free(left);
}
