/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Names and descriptions of the kernels that serve operations.
 */
#include "cuda/device_choice.h"
#include "cuda/nccl/nccl_run.h"

static const struct symc_algorithm_name names[SYMC_KERNEL_COUNT] = {
    [SYMC_KERNEL_PACKETS] = {"packets", "each packet is its own signal"},
    [SYMC_KERNEL_ONE_SHOT] = {"one_shot",
        "each rank reads the elements of all others"},
    [SYMC_KERNEL_TWO_SHOT] = {"two_shot",
        "each rank reduces its part, then reads the others'"},
    [SYMC_KERNEL_REDUCE_SCATTER] = {"reduce_scatter",
        "each rank reads what it reduces"},
    [SYMC_KERNEL_PULL] = {"pull", "each rank reads what it receives"},
    [SYMC_KERNEL_BARRIER] = {"barrier",
        "a kernel that waits for those of all ranks"},
};

static const struct symc_algorithm_name copies = {
    "copies", "the driver copies from and to staging, between two barriers"};

static const struct symc_algorithm_name nccl = {"nccl",
    "NCCL, where all have it, in primary contexts; else as for fewer bytes"};

static const struct symc_algorithm_name exchange = {"nccl",
    "NCCL sends and receives each part, where all have it, in primary contexts; "
    "else a kernel does"};

struct symc_algorithm_name symc_cuda_name_algorithm(
    const struct symc_settings *settings, int size,
    const struct symc_kind_info *info, const struct symc_op *op)
{
    struct symc_cuda_limits limits = symc_cuda_limits_get(settings);
    struct symc_cuda_elements elements;
    struct symc_cuda_choice choice;

    if (symc_cuda_nccl_need(&limits, size, info, op, &elements))
        return symc_cuda_is_exchange(info) ? exchange : nccl;
    symc_cuda_limit_packets(&limits);
    choice = symc_cuda_choose(&limits, size, info, op);
    return choice.copies ? copies : names[choice.kernel];
}
