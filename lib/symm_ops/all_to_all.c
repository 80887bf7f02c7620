/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * All-to-all of pieces with sizes in symmetric memory, at once or by a plan
 * that is made once; and rows that each rank writes directly to their places.
 */
#include "base/cancel.h"
#include "symm_ops/device_plan.h"
#include "symm_ops/pieces.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- without a plan ---- */

/* Verifies the splits of all ranks for host memory; does nothing for memory of
 * a device. */
static symmcoll_status_t verify(const struct symc_symm_call *call,
    const struct symc_moving *moving, const uint64_t *const *passed)
{
    (void)passed;
    /* On a device the kernel reads the splits. */
    return moving->op->memory == SYMC_MEMORY_HOST
               ? symc_exchange_verify(call, call->more, moving)
               : SYMMCOLL_OK;
}

static void describe(const struct symc_symm_call *call,
    const struct symc_op *op, struct symc_launch *launch)
{
    (void)op;
    launch->kind = SYMC_LAUNCH_EXCHANGE;
    symc_device_plan_describe(call, call->more, NULL, launch);
}

/* Receives all pieces of this rank, and stores their sizes and places. */
static void exchange_all(
    const struct symc_symm_call *call, const struct symc_moving *moving)
{
    const struct symc_exchange *exchange = call->more;
    struct symc_pieces pieces =
        symc_pieces_of(call, exchange, moving->size, moving->rank);
    struct symc_piece piece;

    while (symc_pieces_next(&pieces, &piece)) {
        symc_exchange_store(call, exchange, &piece, pieces.next - 1);
        symc_exchange_copy(call, moving, exchange, &piece);
    }
}

#define WORDS                                                     \
    {                                                             \
        "offset of in", "offset of out", "digest of the exchange" \
    }

static const struct symc_symm_does all_to_all_v = {
    .kind = SYMC_SYMM_ALL_TO_ALL_V,
    .words = WORDS,
    .verify = verify,
    .move = exchange_all,
    .describe = describe};
static const struct symc_symm_does all_to_all_v_back = {
    .kind = SYMC_SYMM_ALL_TO_ALL_V_BACK,
    .words = WORDS,
    .verify = verify,
    .move = exchange_all,
    .describe = describe};

static symmcoll_status_t run(const struct symc_symm_does *does, bool back,
    struct symmcoll_symm *handle, const struct symmcoll_symm_exchange *args,
    const struct symmcoll_call *call)
{
    struct symc_exchange exchange = {.back = back};
    struct symc_symm_call made = {
        .does = does, .handle = handle, .more = &exchange};
    symmcoll_status_t status = symc_exchange_read(
        handle, symc_kind_name(does->kind), args, &exchange, &made.words[2]);

    if (status != SYMMCOLL_OK)
        return status;
    made.words[0] = exchange.args.in_offset;
    made.words[1] = exchange.args.out_offset;
    return symc_symm_run(
        &made, exchange.args.dtype, SYMMCOLL_SUM, exchange.args.row, 0, call);
}

symmcoll_status_t symmcoll_symm_all_to_all_v(struct symmcoll_symm *handle,
    const struct symmcoll_symm_exchange *exchange,
    const struct symmcoll_call *call)
{
    return run(&all_to_all_v, false, handle, exchange, call);
}

symmcoll_status_t symmcoll_symm_all_to_all_v_back(struct symmcoll_symm *handle,
    const struct symmcoll_symm_exchange *exchange,
    const struct symmcoll_call *call)
{
    return run(&all_to_all_v_back, true, handle, exchange, call);
}

/* ---- with a plan ---- */

struct symmcoll_symm_plan {
    struct symmcoll_symm *handle; /* referenced; NULL: not yet */
    struct symc_exchange exchange;
    uint64_t number; /* sequence number of the operation that has made it */
    size_t count;
    struct symc_piece *pieces; /* received by this rank */
    /* For each piece of this rank: its row in the receiver's result. */
    size_t *places;
    /* replaces both arrays on a device; else NULL */
    struct symc_device_plan *device;
};

/* Stores the sequence number of the operation, and verifies. */
static symmcoll_status_t verify_plan(const struct symc_symm_call *call,
    const struct symc_moving *moving, const uint64_t *const *passed)
{
    struct symmcoll_symm_plan *plan = call->out;

    plan->number = moving->op->seq;
    return verify(call, moving, passed);
}

/* Lists the pieces that this rank receives, and the places of those that it
 * sends. */
static void plan_all(
    const struct symc_symm_call *call, const struct symc_moving *moving)
{
    struct symmcoll_symm_plan *plan = call->out;
    struct symc_piece piece;

    for (int r = 0; r < moving->size; r++) {
        struct symc_pieces pieces =
            symc_pieces_of(call, &plan->exchange, moving->size, r);

        while (symc_pieces_next(&pieces, &piece)) {
            if (piece.source == moving->rank)
                plan->places[piece.index] = piece.to;
            if (r != moving->rank)
                continue;
            plan->pieces[pieces.next - 1] = piece;
            symc_exchange_store(call, &plan->exchange, &piece, pieces.next - 1);
        }
    }
}

static void describe_plan(const struct symc_symm_call *call,
    const struct symc_op *op, struct symc_launch *launch)
{
    const struct symmcoll_symm_plan *plan = call->out;

    (void)op;
    launch->kind = SYMC_LAUNCH_PLAN;
    symc_device_plan_describe(call, &plan->exchange, plan->device, launch);
}

static const struct symc_symm_does make_plan = {.kind = SYMC_SYMM_MAKE_PLAN,
    .words = WORDS,
    .verify = verify_plan,
    .move = plan_all,
    .describe = describe_plan};

/* Allocates the plan's memory: two arrays for host memory, or a plan of the
 * device.  An error leaves what it has allocated to the caller. */
static symmcoll_status_t allocate_plan(struct symmcoll_symm_plan *plan)
{
    if (!symc_symm_is_host(plan->handle))
        return symc_device_plan_open(plan->handle,
            symc_kind_name(make_plan.kind), plan->count, &plan->device);
    plan->pieces = symc_alloc(plan->count, sizeof(*plan->pieces));
    plan->places = symc_alloc(plan->count, sizeof(*plan->places));
    return plan->pieces != NULL && plan->places != NULL
               ? SYMMCOLL_OK
               : SYMMCOLL_ERR_NO_MEMORY;
}

static symmcoll_status_t create_plan(struct symmcoll_symm *handle,
    const struct symmcoll_symm_exchange *exchange,
    const struct symmcoll_call *call, struct symmcoll_symm_plan *made)
{
    struct symc_symm_call run = {.does = &make_plan, .handle = handle};
    symmcoll_status_t status =
        symc_exchange_read(handle, symc_kind_name(make_plan.kind), exchange,
            &made->exchange, &run.words[2]);

    if (status != SYMMCOLL_OK)
        return status;
    symc_plan_hold(handle);
    made->handle = handle;
    made->count = symc_exchange_count(&made->exchange, handle->size);
    status = allocate_plan(made);
    if (status != SYMMCOLL_OK)
        return status;
    run.words[0] = made->exchange.args.in_offset;
    run.words[1] = made->exchange.args.out_offset;
    run.more = &made->exchange;
    run.out = made;
    return symc_symm_run(&run, made->exchange.args.dtype, SYMMCOLL_SUM,
        made->exchange.args.row, 0, call);
}

static void free_plan(struct symmcoll_symm_plan *plan)
{
    symc_device_plan_close(plan->handle, plan->device);
    symmcoll_symm_release(plan->handle);
    free(plan->pieces);
    free(plan->places);
    free(plan);
}

symmcoll_status_t symmcoll_symm_plan_create(struct symmcoll_symm *handle,
    const struct symmcoll_symm_exchange *exchange,
    const struct symmcoll_call *call, struct symmcoll_symm_plan **plan)
{
    int cancel = symc_cancel_disable();
    struct symmcoll_symm_plan *made = NULL;
    struct symc_error error;
    symmcoll_status_t status = SYMMCOLL_ERR_NO_MEMORY;

    if (plan == NULL)
        status = symc_fail(SYMMCOLL_ERR_INVALID,
            "%s: expected a place for the plan, found NULL",
            symc_kind_name(make_plan.kind));
    else if ((made = symc_alloc(1, sizeof(*made))) != NULL)
        status = create_plan(handle, exchange, call, made);
    if (status == SYMMCOLL_OK) {
        *plan = made;
    } else if (made != NULL) {
        symc_error_keep(&error, status);
        free_plan(made);
        (void)symc_error_return(&error);
    }
    symc_cancel_restore(cancel);
    return status;
}

void symmcoll_symm_plan_free(struct symmcoll_symm_plan *plan)
{
    int cancel;

    if (plan == NULL)
        return;
    cancel = symc_cancel_disable();
    free_plan(plan);
    symc_cancel_restore(cancel);
}

/* Receives the pieces of a plan. */
static void follow_plan(
    const struct symc_symm_call *call, const struct symc_moving *moving)
{
    const struct symmcoll_symm_plan *plan = call->more;

    for (size_t i = 0; i < plan->count; i++)
        symc_exchange_copy(call, moving, &plan->exchange, &plan->pieces[i]);
}

static void describe_run(const struct symc_symm_call *call,
    const struct symc_op *op, struct symc_launch *launch)
{
    const struct symmcoll_symm_plan *plan = call->more;

    (void)op;
    launch->kind = SYMC_LAUNCH_PLAN_RUN;
    symc_device_plan_describe(call, &plan->exchange, plan->device, launch);
}

static const struct symc_symm_does run_plan = {.kind = SYMC_SYMM_RUN_PLAN,
    .words = {"offset of in", "offset of out", "number of the plan"},
    .move = follow_plan,
    .describe = describe_run};

symmcoll_status_t symmcoll_symm_plan_run(
    struct symmcoll_symm_plan *plan, const struct symmcoll_call *call)
{
    const char *where = symc_kind_name(run_plan.kind);
    struct symc_symm_call made = {.does = &run_plan, .more = plan};
    symmcoll_status_t status;

    if (plan == NULL)
        return symc_fail(
            SYMMCOLL_ERR_INVALID, "%s: expected a plan, found NULL", where);
    status = symc_symm_check(plan->handle, where);
    if (status != SYMMCOLL_OK)
        return status;
    made.handle = plan->handle;
    made.words[0] = plan->exchange.args.in_offset;
    made.words[1] = plan->exchange.args.out_offset;
    made.words[2] = plan->number;
    return symc_symm_run(&made, plan->exchange.args.dtype, SYMMCOLL_SUM,
        plan->exchange.args.row, 0, call);
}

/* Returns the rank that receives a piece of this rank. */
static int find_receiver(const struct symmcoll_symm_plan *plan, size_t piece)
{
    return (int)(plan->exchange.back
                     ? piece % (size_t)plan->handle->size
                     : piece / (size_t)plan->exchange.args.experts);
}

/* Returns UNSUPPORTED, with the place where the row number is stored on the
 * device: in the splits of out of the receiving rank, after the sizes, at the
 * number of the piece there. */
static symmcoll_status_t refuse_place(
    const struct symmcoll_symm_plan *plan, size_t piece)
{
    const struct symmcoll_symm_exchange *args = &plan->exchange.args;
    const struct symmcoll_symm *handle = plan->handle;
    size_t size = (size_t)handle->size, experts = (size_t)args->experts;
    size_t mine = (size_t)handle->rank;
    size_t number = plan->exchange.back ? mine * experts + piece / size
                                        : piece % experts * size + mine;

    return symc_fail(SYMMCOLL_ERR_UNSUPPORTED,
        "symm_plan_place: expected a plan in host memory, found one of device "
        "%d, whose splits the host does not read: the row of piece %zu is the "
        "int64_t at byte %zu of rank %d's buffer, for symm_get_data() or a kernel "
        "after symm_plan_create",
        handle->share->device_index, piece,
        args->out_splits_offset + (plan->count + number) * sizeof(int64_t),
        find_receiver(plan, piece));
}

symmcoll_status_t symmcoll_symm_plan_place(
    const struct symmcoll_symm_plan *plan, size_t piece, int *rank, size_t *row)
{
    if (plan == NULL || piece >= plan->count || rank == NULL || row == NULL)
        return symc_fail(SYMMCOLL_ERR_INVALID,
            "symm_plan_place: expected a plan, a piece of 0 to %zu and places "
            "for the answers, found piece %zu%s",
            plan == NULL ? 0 : plan->count - 1, piece,
            plan == NULL ? " and no plan" : "");
    if (plan->places == NULL)
        return refuse_place(plan, piece);
    *rank = find_receiver(plan, piece);
    *row = plan->places[piece];
    return SYMMCOLL_OK;
}

/* ---- rows pushed to their places ---- */

static void push_rows(
    const struct symc_symm_call *call, const struct symc_moving *moving)
{
    struct symc_pushed rows = *(const struct symc_pushed *)call->more;
    const char *from = rows.in;

    if (moving->enqueue != NULL) {
        rows.at += call->handle->offset;
        moving->enqueue->push(moving->state, &rows);
        return;
    }
    /* Rows are short: one stay in the buffers covers all of them. */
    for (size_t i = 0; i < rows.count; i++)
        symc_symm_push(moving, moving->size,
            symc_symm_at(
                call, rows.ranks[i], rows.at + rows.to[i] * rows.nbytes),
            from + i * rows.nbytes, rows.nbytes);
}

/* Packs the first invalid row of this rank into a word that all ranks see: its
 * index from 1, its destination rank, and its destination row, each saturated.
 * 0: none. */
#define ROW_MOST UINT64_C(0xffffff)

static uint64_t pack_wrong(size_t index, int rank, size_t row)
{
    int16_t found = (int16_t)(rank < INT16_MIN   ? INT16_MIN
                              : rank > INT16_MAX ? INT16_MAX
                                                 : rank);
    uint64_t number = index < ROW_MOST ? index + 1 : ROW_MOST;

    return number << 40 | (uint64_t)(uint16_t)found << 24 |
           (row < ROW_MOST ? row : ROW_MOST);
}

/* Returns an error if a rank has an invalid row; then no rank moves any. */
static symmcoll_status_t verify_rows(const struct symc_symm_call *call,
    const struct symc_moving *moving, const uint64_t *const *passed)
{
    char who[SYMC_RANK_TEXT];

    (void)call;
    for (int r = 0; r < moving->size; r++) {
        const uint64_t wrong = passed[r][3];

        if (wrong == 0)
            continue;
        return symc_fail(SYMMCOLL_ERR_INVALID,
            "%s: %s: expected rows for ranks 0 to %d and below %llu, the rows "
            "of out, found rank %d and row %llu%s for row %llu of its input "
            "(group %s, seq %llu)",
            symc_kind_name(moving->op->kind),
            symc_format_rank(moving->ranks, r, SYMC_NO_PID, who),
            moving->size - 1, (unsigned long long)passed[r][2],
            (int16_t)(wrong >> 24), (unsigned long long)(wrong & ROW_MOST),
            (wrong & ROW_MOST) == ROW_MOST ? " or more" : "",
            (unsigned long long)(wrong >> 40) - 1, moving->group,
            (unsigned long long)moving->op->seq);
    }
    return SYMMCOLL_OK;
}

static const struct symc_symm_does push = {.kind = SYMC_SYMM_PUSH_ROWS,
    .words = {"offset of out", "number of rows of out"},
    .verify = verify_rows,
    .move = push_rows};

symmcoll_status_t symmcoll_symm_push_rows(struct symmcoll_symm *handle,
    size_t out_offset, size_t out_rows, const void *in, size_t count,
    size_t row, enum symmcoll_dtype dtype, const int *ranks, const size_t *rows,
    const struct symmcoll_call *call)
{
    const char *where = symc_kind_name(push.kind);
    struct symc_pushed list = {
        .at = out_offset, .in = in, .count = count, .ranks = ranks, .to = rows};
    struct symc_symm_call made = {.does = &push,
        .handle = handle,
        .words = {out_offset, out_rows},
        .in = in,
        .more = &list};
    size_t nbytes, in_nbytes;
    symmcoll_status_t status = symc_symm_begin(&made, dtype);

    if (status != SYMMCOLL_OK)
        return status;
    if (count > 0 && (ranks == NULL || rows == NULL))
        return symc_fail(SYMMCOLL_ERR_INVALID,
            "%s: expected the ranks and rows of %zu rows, found NULL", where,
            count);
    if (!symc_multiply(row, made.elem, &list.nbytes) ||
        (count > 0 && list.nbytes > handle->nbytes))
        return symc_fail(SYMMCOLL_ERR_INVALID,
            "%s: expected rows of at most %zu bytes, as the buffer has, found "
            "%zu elements of %zu",
            where, handle->nbytes, row, made.elem);
    status = symc_symm_check_elements(
        handle, where, "out", out_offset, out_rows, list.nbytes, &nbytes);
    if (status != SYMMCOLL_OK)
        return status;
    status = symc_symm_check_size(where, "in", count, list.nbytes, &in_nbytes);
    if (status != SYMMCOLL_OK)
        return status;
    status = symc_symm_check_apart(
        handle, where, "in", in, in_nbytes, out_offset, nbytes);
    if (status != SYMMCOLL_OK)
        return status;
    for (size_t i = 0; i < count && made.words[2] == 0; i++) {
        if (ranks[i] < 0 || ranks[i] >= handle->size || rows[i] >= out_rows)
            made.words[2] = pack_wrong(i, ranks[i], rows[i]);
    }
    return symc_symm_run(&made, dtype, SYMMCOLL_SUM, row, 0, call);
}
