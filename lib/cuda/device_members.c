/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The exchange of device properties and limits between the members of a group.
 */
#include "cuda/device_group.h"
#include "cuda/multicast.h"

#include <string.h>

/* The data that each member contributes to the gather. */
struct description {
    unsigned char uuid[16];        /* of its device */
    char name[SYMC_CUDA_NAME_MAX]; /* of the device, numbered by its process */
    uint32_t share;                /* it may share the device */
    uint32_t multicast;            /* its device and settings allow it */
    uint32_t primary;              /* its context is the device's primary one */
    uint32_t processors;           /* of the device */
    struct symc_cuda_limits limits;
};

static symmcoll_status_t describe_device(
    const struct symc_cuda_group *group, struct description *mine)
{
    CUuuid uuid = {{0}};
    int processors = 0;
    CUresult result =
        group->cuda->device_get_uuid(&uuid, group->context.device);

    if (result != CUDA_SUCCESS)
        return symc_cuda_group_fail(group, result, "cuDeviceGetUuid");
    result = group->cuda->device_get_attribute(&processors,
        CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, group->context.device);
    if (result != CUDA_SUCCESS)
        return symc_cuda_group_fail(
            group, result, "cuDeviceGetAttribute of its multiprocessors");
    memcpy(mine->uuid, uuid.bytes, sizeof(mine->uuid));
    symc_cuda_format_device(group->cuda, group->device, mine->name);
    mine->processors = (uint32_t)processors;
    mine->multicast = symc_cuda_multicast_is_possible(group);
    mine->primary = group->context.retained;
    mine->limits = group->limits;
    return SYMMCOLL_OK;
}

static bool on_one_device(
    const struct description *a, const struct description *b)
{
    return memcmp(a->uuid, b->uuid, sizeof(a->uuid)) == 0;
}

/* Fails if two members are on one device and not both of them allow it. */
static symmcoll_status_t check_sharing(
    const struct symc_cuda_group *group, const struct description *all)
{
    for (int a = 0; a < group->size; a++) {
        for (int b = a + 1; b < group->size; b++) {
            if (!on_one_device(&all[a], &all[b]) ||
                (all[a].share && all[b].share))
                continue;
            return group->core->fail(SYMMCOLL_ERR_UNSUPPORTED,
                "expected a device of its own for each rank, or "
                "cuda.share_device; found rank %d and rank %d both on %.*s",
                symc_cuda_world_rank(group, a), symc_cuda_world_rank(group, b),
                (int)sizeof(all[a].name), all[a].name);
        }
    }
    return SYMMCOLL_OK;
}

static bool have_multicast(
    const struct symc_cuda_group *group, const struct description *all)
{
    for (int a = 0; a < group->size; a++) {
        if (!all[a].multicast)
            return false;
        for (int b = a + 1; b < group->size; b++) {
            if (on_one_device(&all[a], &all[b]))
                return false;
        }
    }
    return group->size > 1;
}

static int find_foreign(
    const struct symc_cuda_group *group, const struct description *all)
{
    for (int r = 0; r < group->size; r++) {
        if (!all[r].primary)
            return r;
    }
    return -1;
}

static uint64_t lower(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

static uint32_t count_sharing(const struct symc_cuda_group *group,
    const struct description *all, int rank)
{
    uint32_t sharing = 0;

    for (int r = 0; r < group->size; r++)
        sharing += on_one_device(&all[r], &all[rank]);
    return sharing;
}

/* Returns a rank's limit of blocks.  Blocks that wait for each other must all be resident
 * on the device at once: those of all ranks on it, in up to cuda.groups groups. */
static uint32_t find_blocks(const struct symc_cuda_group *group,
    const struct description *all, int rank, uint32_t groups)
{
    uint32_t sharing = count_sharing(group, all, rank);

    return (uint32_t)lower(
        all[rank].limits.blocks, all[rank].processors / (sharing * groups));
}

static uint32_t find_groups(
    const struct symc_cuda_group *group, const struct description *all)
{
    uint32_t groups = 1;

    for (int r = 0; r < group->size; r++) {
        if (all[r].limits.groups > groups)
            groups = all[r].limits.groups;
    }
    return groups;
}

static symmcoll_status_t fail_to_fit(const struct symc_cuda_group *group,
    const struct description *all, int rank)
{
    uint32_t sharing = count_sharing(group, all, rank),
             groups = find_groups(group, all);

    return group->core->fail(SYMMCOLL_ERR_UNSUPPORTED,
        "expected %u multiprocessors or more, one for each of %u ranks on a "
        "device in each of %u groups (cuda.groups), found %u for rank %d",
        sharing * groups, sharing, groups, all[rank].processors,
        symc_cuda_world_rank(group, rank));
}

symmcoll_status_t symc_cuda_members_agree(struct symc_cuda_group *group)
{
    const struct symc_core *core = group->core;
    const struct symc_settings *settings = core->settings;
    struct symc_cuda_limits *limits = &group->limits;
    struct description all[SYMC_KERNEL_RANKS];
    struct description mine = {
        .share = settings->get_bool(settings->config, "cuda.share_device")};
    symmcoll_status_t status = describe_device(group, &mine);

    if (status == SYMMCOLL_OK)
        status = core->gather(core->group, &mine, all, sizeof(mine));
    if (status == SYMMCOLL_OK)
        status = check_sharing(group, all);
    if (status != SYMMCOLL_OK)
        return status;
    group->multicast = have_multicast(group, all);
    group->foreign = find_foreign(group, all);
    group->blocks = SYMC_CUDA_BLOCKS_OF_PROCESSOR * mine.processors;
    for (int r = 0; r < group->size; r++)
        group->shared |= count_sharing(group, all, r) > 1;
    group->one_default =
        group->threads && count_sharing(group, all, group->rank) > 1;
    group->across = group->threads && count_sharing(group, all, group->rank) <
                                          (uint32_t)group->size;
    for (int r = 0; r < group->size; r++) {
        const struct symc_cuda_limits *other = &all[r].limits;
        uint32_t blocks = find_blocks(group, all, r, find_groups(group, all));

        limits->staging = lower(limits->staging, other->staging);
        limits->packets_max = lower(limits->packets_max, other->packets_max);
        limits->one_shot_max = lower(limits->one_shot_max, other->one_shot_max);
        limits->one_shot_max_two =
            lower(limits->one_shot_max_two, other->one_shot_max_two);
        limits->blocks = (uint32_t)lower(limits->blocks, blocks);
        limits->multimem = (uint32_t)lower(limits->multimem, other->multimem);
        limits->multicast_blocks =
            (uint32_t)lower(limits->multicast_blocks, other->multicast_blocks);
        limits->multimem_one_shot_max =
            lower(limits->multimem_one_shot_max, other->multimem_one_shot_max);
        limits->copy_engine =
            (uint32_t)lower(limits->copy_engine, other->copy_engine);
        if (other->nccl_min > limits->nccl_min)
            limits->nccl_min = other->nccl_min;
        limits->nccl_sums =
            (uint32_t)lower(limits->nccl_sums, other->nccl_sums);
        limits->nccl_shared =
            (uint32_t)lower(limits->nccl_shared, other->nccl_shared);
        limits->nccl_windows =
            (uint32_t)lower(limits->nccl_windows, other->nccl_windows);
        limits->nccl_split =
            (uint32_t)lower(limits->nccl_split, other->nccl_split);
        limits->nccl_shrink =
            (uint32_t)lower(limits->nccl_shrink, other->nccl_shrink);
        if (blocks == 0)
            return fail_to_fit(group, all, r);
    }
    symc_cuda_limit_packets(limits);
    return SYMMCOLL_OK;
}
