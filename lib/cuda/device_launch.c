/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Launches of an operation's kernels: their arguments, for the group and for a piece of
 * the operation.
 */
#include "cuda/device_launch.h"
#include "cuda/calls.h"
#include "cuda/device_parts.h"

#define SOONER_NS SYMC_NS_PER_S

/* ---- arguments of kernels ---- */

/* Returns how long a kernel waits for a peer, from its first check.  It is less than the
 * operation's timeout, which counts from the start on the host: a kernel that begins soon
 * then gives up first and names the peer.  For a kernel that begins late the host obtains
 * the peer with symc_cuda_expire().  A captured call, or an access, has only the kernel's
 * timeout, so the kernel gets all of it. */
static uint64_t find_timeout(
    const struct symc_cuda_group *group, const struct symc_op *op)
{
    int64_t sooner = op->timeout_ns / 4;

    if (op->timeout_ns == SYMC_NEVER)
        return UINT64_MAX;
    if (sooner > SOONER_NS)
        sooner = SOONER_NS;
    if (group->launching.alone || group->launching.number >= SYMC_CUDA_CAPTURED)
        sooner = 0;
    return (uint64_t)(op->timeout_ns - sooner);
}

struct symc_device_group symc_cuda_make_group(
    const struct symc_cuda_group *group, const struct symc_op *op)
{
    return (struct symc_device_group){
        .base = (unsigned char *)(uintptr_t)group->segment.base,
        .stride = group->segment.stride,
        .packets = group->packets,
        .aborted = &group->device_words->aborted,
        .failure = &group->device_words->failure,
        .timeout_ns = find_timeout(group, op),
        .rank = (uint32_t)group->rank,
        .size = (uint32_t)group->size,
        .number = group->launching.number};
}

static struct symc_device_data make_staging(const struct symc_cuda_group *group)
{
    return (struct symc_device_data){
        .base = (unsigned char *)(uintptr_t)group->segment.base,
        .stride = group->segment.stride,
        .offset = group->staging};
}

struct symc_reduce_args symc_cuda_reduce_args(
    const struct symc_cuda_group *group, const struct symc_op *op,
    struct symc_device_data data)
{
    const struct symc_kind_info *info = &group->core->kinds[op->kind];
    struct symc_reduce_args args = {.group = symc_cuda_make_group(group, op),
        .data = data,
        .rows = 1,
        .root = (info->traits & SYMC_TO_ROOT) != 0 ? (uint32_t)op->root
                                                   : SYMC_KERNEL_ALL,
        .op = (uint32_t)op->op};

    for (int r = 0; r < group->size && op->op == SYMMCOLL_PREMUL_SUM; r++)
        args.factors[r] = group->agreed->factors[r];
    return args;
}

static struct symc_move_args make_move(const struct symc_cuda_group *group,
    const struct symc_op *op, const struct symc_cuda_choice *choice)
{
    const struct symc_kind_info *info = &group->core->kinds[op->kind];
    bool is_root = op->root == group->rank;
    bool sends = is_root || (info->traits & SYMC_FROM_ROOT) == 0;
    bool receives = is_root || (info->traits & SYMC_TO_ROOT) == 0;
    uint32_t slices = info->in_parts == SYMC_ALL_PARTS ? group->size : 1;
    uint32_t sources = info->out_parts == SYMC_ALL_PARTS ? group->size : 1;

    return (struct symc_move_args){.group = symc_cuda_make_group(group, op),
        .data = make_staging(group),
        .in_pitch = choice->count,
        .data_pitch = choice->pitch,
        .out_pitch = choice->count,
        .begin = slices > 1 ? (uint64_t)group->rank * choice->pitch : 0,
        .slices = sends ? slices : 0,
        .first = sources > 1 ? 0 : (uint32_t)op->root,
        .sources = receives ? sources : 0};
}

/* Returns how many units of a piece a part of `units` units has. */
static uint64_t units_in(struct symc_cuda_piece piece, uint64_t units)
{
    uint64_t left = units > piece.from ? units - piece.from : 0;

    return left < piece.count ? left : piece.count;
}

/* Returns the lower of two addresses; one may be NULL. */
static const unsigned char *lower(const void *a, const void *b)
{
    return a == NULL || (b != NULL && (uintptr_t)b < (uintptr_t)a) ? b : a;
}

/* Sets the parts' offsets, from the lowest address of all parts. */
static void place_parts(struct symc_exchange_args *args,
    const struct symc_cuda_part *parts, struct symc_cuda_piece piece)
{
    const int size = (int)args->group.size;
    const unsigned char *in = NULL, *out = NULL;

    for (int r = 0; r < size; r++) {
        args->send_nbytes[r] = units_in(piece, parts[r].in_nbytes);
        args->receive_nbytes[r] = units_in(piece, parts[r].out_nbytes);
        if (args->send_nbytes[r] > 0)
            in = lower(in, parts[r].in);
        if (args->receive_nbytes[r] > 0)
            out = lower(out, parts[r].out);
    }
    args->in = in;
    args->out = (unsigned char *)(uintptr_t)out;
    for (int r = 0; r < size; r++) {
        if (args->send_nbytes[r] > 0)
            args->send_at[r] =
                (uintptr_t)parts[r].in - (uintptr_t)in + piece.from;
        if (args->receive_nbytes[r] > 0)
            args->receive_at[r] =
                (uintptr_t)parts[r].out - (uintptr_t)out + piece.from;
    }
}

/* ---- launches ---- */

static const void *in_at(const struct symc_op *op, uint64_t nbytes)
{
    return op->in == NULL ? NULL : (const char *)op->in + nbytes;
}

static void *out_at(const struct symc_op *op, uint64_t nbytes)
{
    return op->out == NULL ? NULL : (char *)op->out + nbytes;
}

symmcoll_status_t symc_cuda_launch_reduction(struct symc_cuda_group *group,
    const struct symc_op *op, const struct symc_cuda_choice *choice,
    struct symc_cuda_piece piece, CUstream stream)
{
    uint64_t at = piece.from * choice->unit, elements;
    enum symmcoll_dtype type = symc_cuda_reduced_type(op->dtype, &elements);
    uint64_t own = symc_op_in_count(op, group->rank) * op->elem / choice->unit;
    struct symc_reduce_args args =
        symc_cuda_reduce_args(group, op, make_staging(group));

    args.data_pitch = choice->pitch;
    args.in_pitch = choice->count * choice->unit;
    args.in = choice->copies ? NULL : in_at(op, at);
    args.out = out_at(op, at);
    args.count = units_in(piece, own);
    return symc_kernel_launch(&group->kernels, choice->kernel, type,
        symc_cuda_grid(&group->limits, choice->kernel, group->size,
            piece.count * choice->unit),
        stream, &args);
}

symmcoll_status_t symc_cuda_launch_move(struct symc_cuda_group *group,
    const struct symc_op *op, const struct symc_cuda_choice *choice,
    struct symc_cuda_piece piece, CUstream stream)
{
    struct symc_move_args args = make_move(group, op, choice);

    args.in = in_at(op, piece.from);
    args.out = out_at(op, piece.from);
    args.nbytes = piece.count;
    return symc_kernel_launch(&group->kernels, choice->kernel, op->dtype,
        symc_cuda_grid(
            &group->limits, choice->kernel, group->size, piece.count),
        stream, &args);
}

symmcoll_status_t symc_cuda_launch_exchange(struct symc_cuda_group *group,
    const struct symc_op *op, const struct symc_cuda_choice *choice,
    struct symc_cuda_piece piece, CUstream stream)
{
    struct symc_exchange_args args = {.group = symc_cuda_make_group(group, op),
        .data = make_staging(group),
        .pitch = choice->pitch};
    struct symc_cuda_part parts[SYMC_KERNEL_RANKS];

    symc_cuda_find_parts(group, op, parts);
    place_parts(&args, parts, piece);
    return symc_kernel_launch(&group->kernels, choice->kernel, op->dtype,
        symc_cuda_grid(
            &group->limits, choice->kernel, group->size, piece.count),
        stream, &args);
}

symmcoll_status_t symc_cuda_launch_barrier(
    struct symc_cuda_group *group, const struct symc_op *op, CUstream stream)
{
    struct symc_device_group args = symc_cuda_make_group(group, op);

    return symc_kernel_launch(&group->kernels, SYMC_KERNEL_BARRIER, op->dtype,
        symc_cuda_grid(&group->limits, SYMC_KERNEL_BARRIER, group->size, 0),
        stream, &args);
}
