/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The limits of a group's operations, and the choice of a kernel by them.
 */
#include "cuda/device_choice.h"

#define WARP 32   /* threads */
#define VECTOR 16 /* bytes of a thread's load */
/* Bytes of packets of the threads of a block. */
#define PACKETS_OF_BLOCK (UINT64_C(8) * SYMC_PACKET_THREADS)

/* ---- limits ---- */

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

/* ---- the operation ---- */

enum symmcoll_dtype symc_cuda_reduced_type(
    enum symmcoll_dtype dtype, uint64_t *factor)
{
    *factor =
        dtype == SYMMCOLL_COMPLEX64 || dtype == SYMMCOLL_COMPLEX128 ? 2 : 1;
    if (dtype == SYMMCOLL_COMPLEX64)
        return SYMMCOLL_FLOAT32;
    return dtype == SYMMCOLL_COMPLEX128 ? SYMMCOLL_FLOAT64 : dtype;
}

bool symc_cuda_is_exchange(const struct symc_kind_info *info)
{
    return (info->traits & SYMC_UNEVEN) != 0 &&
           info->in_parts == SYMC_ALL_PARTS &&
           info->out_parts == SYMC_ALL_PARTS;
}

uint64_t symc_cuda_find_part(
    const struct symc_kind_info *info, const struct symc_op *op, int size)
{
    bool reduces = (info->traits & SYMC_REDUCES) != 0;
    uint64_t most = 0;

    if ((info->traits & SYMC_COALESCED) != 0)
        return op->count * op->elem;
    for (int r = 0; r < size; r++) {
        uint64_t count =
            reduces ? symc_op_in_count(op, r) : symc_op_out_count(op, r);

        most = count > most ? count : most;
    }
    return most * op->elem;
}

/* ---- the kernel ---- */

static enum symc_kernel choose_reduction(const struct symc_cuda_limits *limits,
    int size, const struct symc_kind_info *info, uint64_t nbytes)
{
    uint64_t one_shot_max =
        size == 2 ? limits->one_shot_max_two : limits->one_shot_max;

    if (info->in_parts == SYMC_ALL_PARTS)
        return SYMC_KERNEL_REDUCE_SCATTER;
    if (nbytes <= limits->packets_max)
        return SYMC_KERNEL_PACKETS;
    /* In two shots, ranks other than the root would read elements that they do not
     * need. */
    return nbytes <= one_shot_max || (info->traits & SYMC_TO_ROOT) != 0
               ? SYMC_KERNEL_ONE_SHOT
               : SYMC_KERNEL_TWO_SHOT;
}

static uint64_t round_down(uint64_t n, uint64_t step)
{
    return n / step * step;
}

/* Returns whether the driver copies: for operations that may have lists, except
 * exchanges; and, if cuda.copy_engine is set, when each member receives parts of all
 * members. */
static bool is_copied(const struct symc_cuda_limits *limits,
    const struct symc_kind_info *info, const struct symc_op *op)
{
    if (symc_cuda_is_exchange(info))
        return false;
    if (op->listed || (info->traits & SYMC_LIST) != 0)
        return true;
    return limits->copy_engine != 0 && info->out_parts == SYMC_ALL_PARTS &&
           (info->traits & (SYMC_REDUCES | SYMC_TO_ROOT)) == 0;
}

struct symc_cuda_choice symc_cuda_choose(const struct symc_cuda_limits *limits,
    int size, const struct symc_kind_info *info, const struct symc_op *op)
{
    bool reduces = (info->traits & SYMC_REDUCES) != 0;
    uint64_t slots = info->in_parts == SYMC_ALL_PARTS ? (uint64_t)size : 1;
    uint64_t elements = 1;
    struct symc_cuda_choice choice = {.copies = is_copied(limits, info, op),
        .unit = 1,
        .pitch = round_down(limits->staging / slots, VECTOR)};

    if (info->in_parts == SYMC_NO_PART) {
        choice.kernel = SYMC_KERNEL_BARRIER;
        return choice;
    }
    choice.count = op->count * op->elem;
    if (reduces) {
        choice.kernel = choose_reduction(limits, size, info, choice.count);
        symc_cuda_reduced_type(op->dtype, &elements);
        choice.unit = op->elem / elements;
        choice.count = op->count * elements;
    } else {
        choice.kernel = symc_cuda_is_exchange(info) ? SYMC_KERNEL_EXCHANGE
                                                    : SYMC_KERNEL_PULL;
    }
    choice.pieces = choice.pitch / choice.unit;
    return choice;
}

/* ---- the grid ---- */

static uint64_t divide_up(uint64_t n, uint64_t by)
{
    return (n + by - 1) / by;
}

/* Returns the grid for a size: one thread per vector, up to the limit of blocks.  A small
 * size takes few threads, but at least one per rank.  Packets differ: a packet is always
 * written by the same thread. */
struct symc_grid symc_cuda_grid(const struct symc_cuda_limits *limits,
    enum symc_kernel kernel, int size, uint64_t nbytes)
{
    struct symc_grid grid = {1, SYMC_KERNEL_THREADS};
    uint64_t vectors = divide_up(nbytes, VECTOR);
    uint64_t blocks = divide_up(vectors, SYMC_KERNEL_THREADS);

    if (kernel == SYMC_KERNEL_PACKETS) {
        grid.threads = SYMC_PACKET_THREADS;
        blocks = divide_up(nbytes, (uint64_t)VECTOR / 2 * SYMC_PACKET_THREADS);
    } else if (blocks <= 1) {
        uint64_t least = vectors > (uint64_t)size ? vectors : (uint64_t)size;

        grid.threads = (uint32_t)(divide_up(least, WARP) * WARP);
    }
    if (blocks > limits->blocks)
        blocks = limits->blocks;
    grid.blocks = blocks > 0 ? (uint32_t)blocks : 1;
    return grid;
}
