/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The functions that move elements for an operation whose caller moves the data.
 */
#include "cuda/device_moves.h"
#include "cuda/joined.h"
#include "cuda/local.h"

#define VECTOR 16 /* bytes; the alignment of slots */

void symc_cuda_move_copy(void *state, void *out, const void *in, size_t nbytes)
{
    struct symc_cuda_moves *moves = state;

    if (moves->status == SYMMCOLL_OK && out != in)
        moves->status =
            symc_cuda_enqueue_copy(moves->group, (CUdeviceptr)(uintptr_t)out,
                (CUdeviceptr)(uintptr_t)in, nbytes, moves->stream);
}

void symc_cuda_move_strided(void *state, const struct symc_strided *copy)
{
    struct symc_cuda_moves *moves = state;
    struct symc_cuda_called called;

    if (moves->status != SYMMCOLL_OK)
        return;
    called = symc_cuda_copy_strided(moves->group->cuda, moves->stream, copy);
    if (called.result != CUDA_SUCCESS)
        moves->status = symc_cuda_group_fail(
            moves->group, called.result, "%s", called.name);
}

/* Launches a kernel for as many rows as its arguments have entries for. */
void symc_cuda_move_push(void *state, const struct symc_pushed *rows)
{
    struct symc_cuda_moves *moves = state;
    struct symc_cuda_group *group = moves->group;
    struct symc_push_args args = {
        .data = symc_cuda_joined_data(moves->mover->joined, rows->at),
        .row_nbytes = rows->nbytes};

    for (size_t first = 0; first < rows->count && rows->nbytes > 0 &&
                           moves->status == SYMMCOLL_OK;
         first += args.count) {
        args.in = (const unsigned char *)rows->in + first * rows->nbytes;
        args.count = rows->count - first;
        if (args.count > SYMC_KERNEL_PUSHED)
            args.count = SYMC_KERNEL_PUSHED;
        for (size_t i = 0; i < args.count; i++)
            args.to[i] =
                SYMC_PUSH_TO(rows->ranks[first + i], rows->to[first + i]);
        moves->status = symc_kernel_launch(&group->kernels,
            SYMC_KERNEL_PUSH_ROWS, moves->op->dtype,
            symc_cuda_grid(&group->limits, SYMC_KERNEL_PUSH_ROWS, group->size,
                args.count * rows->nbytes),
            moves->stream, &args);
    }
}

/* ---- sums ---- */

/* Reduces rows; a complex number counts as two elements. */
static void launch_rows(struct symc_cuda_moves *moves,
    struct symc_device_data data, const struct symc_rows *rows, void *out)
{
    struct symc_cuda_group *group = moves->group;
    uint64_t elements;
    enum symmcoll_dtype type =
        symc_cuda_reduced_type(moves->op->dtype, &elements);
    struct symc_reduce_args args =
        symc_cuda_reduce_args(group, moves->op, data);

    args.out = out;
    args.count = rows->count * elements;
    args.rows = rows->rows;
    args.row_pitch = rows->pitch;
    args.out_pitch = rows->out_pitch;
    moves->status =
        symc_kernel_launch(&group->kernels, SYMC_KERNEL_REDUCE_ROWS, type,
            symc_cuda_grid(&group->limits, SYMC_KERNEL_REDUCE_ROWS, group->size,
                rows->rows * rows->count * moves->op->elem),
            moves->stream, &args);
}

void symc_cuda_move_reduce(void *state, const struct symc_rows *rows, void *out)
{
    struct symc_cuda_moves *moves = state;

    if (moves->status == SYMMCOLL_OK && rows->count > 0 && rows->rows > 0)
        launch_rows(moves,
            symc_cuda_joined_data(moves->mover->joined, rows->at), rows, out);
}

/* Copies bytes of all members into the slots of this member's staging, in the order of
 * ranks; starts with this member's own, so that not all read from the same one. */
static void fill_slots(struct symc_cuda_moves *moves, uint64_t at,
    uint64_t nbytes, struct symc_device_data slots)
{
    const struct symc_cuda_group *group = moves->group;
    const struct symc_joined *joined = moves->mover->joined;

    for (int i = 0; i < group->size; i++) {
        int r = (group->rank + i) % group->size;

        symc_cuda_move_copy(moves, slots.base + (uint64_t)r * slots.stride,
            (const char *)joined->at[r] + at, nbytes);
    }
}

/* Copies the elements of all members into this member's staging, and reduces them there.
 * No other member uses the staging at that time: an earlier kernel ended only when no
 * member read it any more. */
void symc_cuda_move_reduce_copies(
    void *state, size_t at, size_t count, void *out)
{
    struct symc_cuda_moves *moves = state;
    struct symc_cuda_group *group = moves->group;
    const uint64_t elem = moves->op->elem;
    struct symc_device_data slots = {
        .base = (unsigned char *)(uintptr_t)(symc_cuda_row_at(
                                                 &group->segment, group->rank) +
                                             group->staging),
        .stride =
            group->limits.staging / (uint64_t)group->size / VECTOR * VECTOR};
    struct symc_rows rows = {.rows = 1};

    for (uint64_t from = 0; from < count && moves->status == SYMMCOLL_OK;
         from += rows.count) {
        rows.count = slots.stride / elem;
        if (rows.count > count - from)
            rows.count = count - from;
        fill_slots(moves, at + from * elem, rows.count * elem, slots);
        if (moves->status == SYMMCOLL_OK)
            launch_rows(moves, slots, &rows, (char *)out + from * elem);
    }
}
