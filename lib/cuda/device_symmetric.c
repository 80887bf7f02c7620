/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Operations on memory that all members have mapped for which there are dedicated
 * kernels: the kernels of the collectives, applied to the elements in place.
 */
#include "cuda/device_launch.h"
#include "cuda/joined.h"

#define PIECES_AT 256 /* byte of a plan; the words before it hold errors */
_Static_assert(sizeof(struct symc_plan_piece) == 32,
    "symc_launch_plan_nbytes() has as much for each");

static symmcoll_status_t start(struct symc_cuda_group *group,
    enum symc_kernel kernel, enum symmcoll_dtype type, uint64_t nbytes,
    CUstream stream, const void *args)
{
    return symc_kernel_launch(&group->kernels, kernel, type,
        symc_cuda_grid(&group->limits, kernel, group->size, nbytes), stream,
        args);
}

/* Limits the blocks: few of them saturate a switch. */
static symmcoll_status_t start_by_switch(struct symc_cuda_group *group,
    enum symc_kernel kernel, enum symmcoll_dtype type, uint64_t nbytes,
    CUstream stream, const void *args)
{
    struct symc_grid grid =
        symc_cuda_grid(&group->limits, kernel, group->size, nbytes);

    if (grid.blocks > group->limits.multicast_blocks)
        grid.blocks = group->limits.multicast_blocks;
    return symc_kernel_launch(
        &group->kernels, kernel, type, grid, stream, args);
}

/* ---- reductions ---- */

/* Returns whether a switch reduces.  All members get the same result: they have the same
 * limits, and either all or none have a multicast address. */
static bool is_by_switch(const struct symc_cuda_group *group,
    const struct symc_op *op, enum symmcoll_dtype type)
{
    const struct symc_mover *mover = op->out;

    return group->limits.multimem != 0 && mover->joined->multicast != NULL &&
           op->op == SYMMCOLL_SUM &&
           symc_kernel_has_type(SYMC_KERNEL_MULTIMEM_ONE_SHOT, type);
}

/* Chooses between one and two shots for a switch.  For
 * symmcoll_symm_intra_node_all_reduce() the limit differs from that without a switch. */
static enum symc_kernel choose_of_switch(const struct symc_cuda_group *group,
    const struct symc_op *op, const struct symc_launch *launch)
{
    bool one_shot = launch->kind == SYMC_LAUNCH_ONE_SHOT;

    if (op->kind == SYMC_SYMM_INTRA_NODE)
        one_shot = op->count * op->elem <= group->limits.multimem_one_shot_max;
    return one_shot ? SYMC_KERNEL_MULTIMEM_ONE_SHOT
                    : SYMC_KERNEL_MULTIMEM_TWO_SHOT;
}

/* Reduces in place, then copies the result to the caller's out if there is one. */
static symmcoll_status_t two_shot(struct symc_cuda_group *group,
    const struct symc_op *op, const struct symc_launch *launch,
    enum symmcoll_dtype type, const struct symc_reduce_args *args,
    CUstream stream)
{
    const struct symc_mover *mover = op->out;
    uint64_t nbytes = op->count * op->elem;
    symmcoll_status_t status =
        start(group, SYMC_KERNEL_TWO_SHOT, type, nbytes, stream, args);

    if (status == SYMMCOLL_OK && launch->out != NULL)
        status = symc_cuda_enqueue_copy(group,
            (CUdeviceptr)(uintptr_t)launch->out,
            (CUdeviceptr)(uintptr_t)mover->joined->at[group->rank] + launch->at,
            nbytes, stream);
    return status;
}

static symmcoll_status_t reduce(struct symc_cuda_group *group,
    const struct symc_op *op, const struct symc_launch *launch, CUstream stream)
{
    const struct symc_mover *mover = op->out;
    uint64_t elements;
    enum symmcoll_dtype type = symc_cuda_reduced_type(op->dtype, &elements);
    uint64_t nbytes = op->count * op->elem;
    struct symc_reduce_args args = symc_cuda_reduce_args(
        group, op, symc_cuda_joined_data(mover->joined, launch->at));

    args.in = launch->in;
    args.count = op->count * elements;
    if (is_by_switch(group, op, type)) {
        args.out = launch->out;
        return start_by_switch(group, choose_of_switch(group, op, launch), type,
            nbytes, stream, &args);
    }
    if (launch->kind != SYMC_LAUNCH_ONE_SHOT)
        return two_shot(group, op, launch, type, &args, stream);
    args.out = launch->out;
    return start(group, SYMC_KERNEL_ONE_SHOT, type, nbytes, stream, &args);
}

static symmcoll_status_t reduce_scatter(struct symc_cuda_group *group,
    const struct symc_op *op, const struct symc_launch *launch, CUstream stream)
{
    const struct symc_mover *mover = op->out;
    const struct symc_rows *rows = &launch->rows;
    uint64_t elements;
    enum symmcoll_dtype type = symc_cuda_reduced_type(op->dtype, &elements);
    struct symc_reduce_args args = symc_cuda_reduce_args(
        group, op, symc_cuda_joined_data(mover->joined, rows->at));

    args.out = launch->out;
    args.count = rows->count * elements;
    args.rows = rows->rows;
    args.row_pitch = rows->pitch;
    args.data_pitch = launch->slice;
    return start(group, SYMC_KERNEL_REDUCE_SCATTER, type,
        rows->rows * rows->count * op->elem, stream, &args);
}

/* ---- moves ---- */

static symmcoll_status_t move(struct symc_cuda_group *group,
    const struct symc_op *op, const struct symc_launch *launch, CUstream stream)
{
    const struct symc_mover *mover = op->out;
    bool pulls = launch->kind == SYMC_LAUNCH_PULL;
    struct symc_move_args args = {.group = symc_cuda_make_group(group, op),
        .data = symc_cuda_joined_data(mover->joined, launch->at),
        .in = launch->in,
        .out = launch->out,
        .nbytes = launch->slice,
        .data_pitch = launch->slice,
        .out_pitch = launch->slice,
        .slices = 1,
        .first = (uint32_t)launch->first,
        .sources = (uint32_t)launch->sources};

    if (!pulls && mover->joined->multicast != NULL)
        return start_by_switch(group, SYMC_KERNEL_MULTIMEM_ALL_GATHER,
            op->dtype, launch->slice, stream, &args);
    return start(group,
        pulls ? SYMC_KERNEL_PULL : SYMC_KERNEL_MULTIMEM_ALL_GATHER, op->dtype,
        launch->slice, stream, &args);
}

/* ---- pieces ---- */

static uint64_t count_pieces(
    const struct symc_cuda_group *group, const struct symc_launch *launch)
{
    return (uint64_t)group->size * (uint64_t)launch->pieces.experts;
}

/* Returns the bytes of the plan of an exchange at the beginning of this rank's
 * staging. */
static uint64_t plan_nbytes(
    const struct symc_cuda_group *group, const struct symc_launch *launch)
{
    return launch->kind == SYMC_LAUNCH_EXCHANGE
               ? symc_launch_plan_nbytes(count_pieces(group, launch))
               : 0;
}

/* Returns the bytes of all ranks' splits, which follow in the staging. */
static uint64_t splits_nbytes(
    const struct symc_cuda_group *group, const struct symc_launch *launch)
{
    return (uint64_t)group->size * count_pieces(group, launch) *
           (launch->pieces.back ? 2 : 1) * sizeof(int64_t);
}

symmcoll_status_t symc_cuda_check_moves(
    const struct symc_cuda_group *group, const struct symc_op *op)
{
    const struct symc_kind_info *info = &group->core->kinds[op->kind];
    const struct symc_mover *mover = op->out;
    uint64_t needed;

    if ((info->traits & SYMC_MOVES) == 0 || mover->launch == NULL ||
        (mover->launch->kind != SYMC_LAUNCH_PLAN &&
            mover->launch->kind != SYMC_LAUNCH_EXCHANGE))
        return SYMMCOLL_OK;
    needed =
        plan_nbytes(group, mover->launch) + splits_nbytes(group, mover->launch);
    if (needed <= group->limits.staging)
        return SYMMCOLL_OK;
    return group->core->fail(SYMMCOLL_ERR_UNSUPPORTED,
        "%s: expected a staging (cuda.staging) of %llu bytes for %llu pieces "
        "of each rank, found %llu",
        info->name, (unsigned long long)needed,
        (unsigned long long)count_pieces(group, mover->launch),
        (unsigned long long)group->limits.staging);
}

static unsigned char *plan_of(
    const struct symc_cuda_group *group, const struct symc_launch *launch)
{
    if (launch->kind != SYMC_LAUNCH_EXCHANGE)
        return launch->pieces.plan;
    return (unsigned char *)(uintptr_t)symc_cuda_row_at(
               &group->segment, group->rank) +
           group->staging;
}

static symmcoll_status_t plan(struct symc_cuda_group *group,
    const struct symc_op *op, const struct symc_launch *launch, CUstream stream)
{
    const struct symc_mover *mover = op->out;
    const struct symc_launch_pieces *pieces = &launch->pieces;
    unsigned char *at = plan_of(group, launch);
    CUdeviceptr staging =
        symc_cuda_row_at(&group->segment, group->rank) + group->staging;
    struct symc_plan_args args = {.group = symc_cuda_make_group(group, op),
        .in_splits = symc_cuda_joined_data(mover->joined, pieces->in_splits),
        .out_splits = pieces->out_splits,
        .gathered =
            (int64_t *)(uintptr_t)(staging + plan_nbytes(group, launch)),
        .pieces = (struct symc_plan_piece *)(void *)(at + PIECES_AT),
        .wrong = (uint64_t *)(void *)at,
        .in_rows = pieces->in_rows,
        .out_rows = pieces->out_rows,
        .major_align = pieces->major_align,
        .experts = (uint32_t)pieces->experts,
        .back = pieces->back};
    struct symc_grid grid = symc_cuda_grid(&group->limits, SYMC_KERNEL_PLAN,
        group->size, splits_nbytes(group, launch));

    grid.blocks = 1;
    return symc_kernel_launch(
        &group->kernels, SYMC_KERNEL_PLAN, op->dtype, grid, stream, &args);
}

static symmcoll_status_t run_plan(struct symc_cuda_group *group,
    const struct symc_op *op, const struct symc_launch *launch, CUstream stream)
{
    const struct symc_mover *mover = op->out;
    const unsigned char *at = plan_of(group, launch);
    struct symc_plan_run_args args = {.group = symc_cuda_make_group(group, op),
        .data = symc_cuda_joined_data(mover->joined, launch->at),
        .pieces =
            (const struct symc_plan_piece *)(const void *)(at + PIECES_AT),
        .wrong = (const uint64_t *)(const void *)at,
        .out = launch->out,
        .npieces = count_pieces(group, launch),
        .row_nbytes = launch->slice};

    return start(group, SYMC_KERNEL_PLAN_RUN, op->dtype,
        launch->pieces.in_rows * launch->slice, stream, &args);
}

/* ---- dispatch ---- */

symmcoll_status_t symc_cuda_enqueue_kernels(struct symc_cuda_group *group,
    const struct symc_op *op, const struct symc_launch *launch, CUstream stream)
{
    symmcoll_status_t status;

    switch (launch->kind) {
    case SYMC_LAUNCH_ONE_SHOT:
    case SYMC_LAUNCH_TWO_SHOT:
        return reduce(group, op, launch, stream);
    case SYMC_LAUNCH_REDUCE_SCATTER:
        return reduce_scatter(group, op, launch, stream);
    case SYMC_LAUNCH_ALL_GATHER:
    case SYMC_LAUNCH_PULL:
        return move(group, op, launch, stream);
    case SYMC_LAUNCH_PLAN:
        return plan(group, op, launch, stream);
    case SYMC_LAUNCH_PLAN_RUN:
        return run_plan(group, op, launch, stream);
    default:
        status = plan(group, op, launch, stream);
        return status == SYMMCOLL_OK ? run_plan(group, op, launch, stream)
                                     : status;
    }
}
