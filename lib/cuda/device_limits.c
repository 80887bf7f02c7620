/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The limits of a group's operations, from the settings.
 */
#include "cuda/device_group.h"

/* Bytes of packets of the threads of a block. */
#define PACKETS_OF_BLOCK (UINT64_C(8) * SYMC_PACKET_THREADS)

struct symc_cuda_limits symc_cuda_limits_get(
    const struct symc_settings *settings)
{
    const struct symc_config *config = settings->config;

    return (struct symc_cuda_limits){
        .staging = settings->get_size(config, "cuda.staging"),
        .packets_max = settings->get_size(config, "cuda.packets_max"),
        .one_shot_max = settings->get_size(config, "cuda.one_shot_max"),
        .one_shot_max_two = settings->get_size(config, "cuda.one_shot_max_two"),
        .blocks = (uint32_t)settings->get_int(config, "cuda.blocks"),
        .groups = (uint32_t)settings->get_int(config, "cuda.groups"),
        .multimem = settings->get_bool(config, "cuda.multimem"),
        .multicast_blocks =
            (uint32_t)settings->get_int(config, "cuda.multicast_blocks"),
        .multimem_one_shot_max =
            settings->get_size(config, "cuda.multimem_one_shot_max"),
        .copy_engine = settings->get_bool(config, "cuda.copy_engine"),
        .nccl_min = settings->get_size(config, "cuda.nccl_min"),
        .nccl_sums = settings->get_bool(config, "cuda.nccl_sums"),
        .nccl_shared = settings->get_bool(config, "cuda.nccl_shared"),
        .nccl_windows = settings->get_bool(config, "cuda.nccl_windows"),
        .nccl_split = settings->get_bool(config, "cuda.nccl_split"),
        .nccl_shrink = settings->get_bool(config, "cuda.nccl_shrink")};
}

void symc_cuda_limit_packets(struct symc_cuda_limits *limits)
{
    uint64_t most = limits->blocks * PACKETS_OF_BLOCK;

    if (most > SYMC_PACKET_NBYTES)
        most = SYMC_PACKET_NBYTES;
    if (limits->packets_max > most)
        limits->packets_max = most;
}
