/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * All-reduce on symmetric buffers. One shot: each rank reads all buffers. Two
 * shots: each rank reduces its part and writes the result into all buffers.
 */
#include "symm_ops/operate.h"

#include <symmcoll/symm_ops.h>

#define INTRA_NODE_MOST ((size_t)10 * 1024 * 1024)
#define INTRA_NODE_ONE_SHOT ((size_t)256 * 1024)
#define INTRA_NODE_RANKS 8

/* ---- one shot ---- */

/* Reduces all buffers into call->out. */
static void reduce_all(
    const struct symc_symm_call *call, const struct symc_moving *moving)
{
    const struct symc_rows all = {
        .at = call->words[0], .count = moving->op->count, .rows = 1};

    symc_symm_reduce(call, moving, &all, call->out);
}

static void describe_shots(const struct symc_symm_call *call,
    struct symc_launch *launch, enum symc_launch_kind kind)
{
    launch->kind = kind;
    launch->at = call->handle->offset + call->words[0];
    launch->in = call->in;
    launch->out = call->out;
}

static void describe_one_shot(const struct symc_symm_call *call,
    const struct symc_op *op, struct symc_launch *launch)
{
    (void)op;
    describe_shots(call, launch, SYMC_LAUNCH_ONE_SHOT);
}

static void reduce_at_root(
    const struct symc_symm_call *call, const struct symc_moving *moving)
{
    if (moving->rank == moving->op->root)
        reduce_all(call, moving);
}

static const struct symc_symm_does one_shot = {.kind = SYMC_SYMM_ONE_SHOT,
    .words = {"offset"},
    .move = reduce_all,
    .describe = describe_one_shot};
static const struct symc_symm_does one_shot_copy = {
    .kind = SYMC_SYMM_ONE_SHOT_COPY,
    .words = {"offset"},
    .move = reduce_all,
    .describe = describe_one_shot};
static const struct symc_symm_does intra_node_one_shot = {
    .kind = SYMC_SYMM_INTRA_NODE,
    .words = {"offset"},
    .move = reduce_all,
    .describe = describe_one_shot};
static const struct symc_symm_does one_shot_reduce = {.kind = SYMC_SYMM_REDUCE,
    .words = {"offset"},
    .move = reduce_at_root,
    .describe = describe_one_shot};

/* Checks the buffers. made->in NULL: the input is already in the symmetric
 * buffer. */
static symmcoll_status_t check(struct symc_symm_call *made, size_t count,
    enum symmcoll_dtype dtype, size_t *nbytes)
{
    const struct symmcoll_symm *handle = made->handle;
    const char *where = symc_kind_name(made->does->kind);
    const size_t offset = made->words[0];
    symmcoll_status_t status = symc_symm_begin(made, dtype);

    if (status != SYMMCOLL_OK)
        return status;
    status = symc_symm_check_elements(
        handle, where, "the input", offset, count, made->elem, nbytes);
    if (status != SYMMCOLL_OK)
        return status;
    status = symc_symm_check_reduced(handle, where, offset, made->out, dtype);
    if (status != SYMMCOLL_OK)
        return status;
    status = symc_symm_check_aligned(handle, where, "in", made->in, dtype);
    if (status == SYMMCOLL_OK && made->out != NULL)
        status = symc_symm_check_apart(
            handle, where, "out", made->out, *nbytes, offset, *nbytes);
    if (status != SYMMCOLL_OK || made->in == NULL)
        return status;
    return symc_symm_check_apart(
        handle, where, "in", made->in, *nbytes, offset, *nbytes);
}

/* Checks that in and out are the same or do not overlap: on a device, blocks
 * read and write in no defined order. */
static symmcoll_status_t check_same_or_apart(
    const struct symc_symm_call *made, size_t nbytes)
{
    if (made->out == made->in ||
        !symc_overlap(made->out, nbytes, made->in, nbytes))
        return SYMMCOLL_OK;
    return symc_fail(SYMMCOLL_ERR_INVALID,
        "%s: expected in and out in memory of a device that are the same or do "
        "not overlap, found %zu bytes at %p and at %p",
        symc_kind_name(made->does->kind), nbytes, made->in, made->out);
}

static symmcoll_status_t refuse_null(
    const struct symc_symm_does *does, const char *what)
{
    return symc_fail(SYMMCOLL_ERR_INVALID, "%s: expected %s, found NULL",
        symc_kind_name(does->kind), what);
}

/* Runs a one-shot operation. On a device the kernel copies made->in, after the
 * operations before have ended. */
static symmcoll_status_t run_one_shot(struct symc_symm_call *made, size_t count,
    enum symmcoll_dtype dtype, symmcoll_op_t op,
    const struct symmcoll_call *call)
{
    size_t nbytes;
    symmcoll_status_t status = check(made, count, dtype, &nbytes);

    if (status != SYMMCOLL_OK)
        return status;
    if (made->out == NULL && nbytes > 0)
        return refuse_null(made->does, "out");
    return symc_symm_run(made, dtype, op, count, 0, call);
}

static symmcoll_status_t run_one_shot_copy(struct symc_symm_call *made,
    size_t count, enum symmcoll_dtype dtype, symmcoll_op_t op,
    const struct symmcoll_call *call)
{
    struct symmcoll_symm *handle = made->handle;
    size_t nbytes;
    symmcoll_status_t status = check(made, count, dtype, &nbytes);

    if (status != SYMMCOLL_OK)
        return status;
    if (made->in == NULL && nbytes > 0)
        return refuse_null(made->does, "in");
    if (!symc_symm_is_host(handle)) {
        status = check_same_or_apart(made, nbytes);
        if (status != SYMMCOLL_OK)
            return status;
    } else {
        /* No rank reads the buffer: the operation before has ended on all
         * ranks. */
        symc_copy(
            handle->at[handle->rank] + made->words[0], made->in, nbytes, false);
        made->in = NULL;
    }
    return run_one_shot(made, count, dtype, op, call);
}

symmcoll_status_t symmcoll_symm_one_shot_all_reduce(
    struct symmcoll_symm *handle, size_t offset, void *out, size_t count,
    enum symmcoll_dtype dtype, symmcoll_op_t op,
    const struct symmcoll_call *call)
{
    struct symc_symm_call made = {
        .does = &one_shot, .handle = handle, .words = {offset}, .out = out};

    return run_one_shot(&made, count, dtype, op, call);
}

symmcoll_status_t symmcoll_symm_one_shot_all_reduce_copy(
    struct symmcoll_symm *handle, size_t offset, void *out, const void *in,
    size_t count, enum symmcoll_dtype dtype, symmcoll_op_t op,
    const struct symmcoll_call *call)
{
    struct symc_symm_call made = {.does = &one_shot_copy,
        .handle = handle,
        .words = {offset},
        .out = out,
        .in = in};

    return run_one_shot_copy(&made, count, dtype, op, call);
}

symmcoll_status_t symmcoll_symm_one_shot_reduce(struct symmcoll_symm *handle,
    size_t offset, void *out, size_t count, enum symmcoll_dtype dtype,
    symmcoll_op_t op, int root, const struct symmcoll_call *call)
{
    struct symc_symm_call made = {.does = &one_shot_reduce,
        .handle = handle,
        .words = {offset},
        .out = out};
    size_t nbytes;
    symmcoll_status_t status = check(&made, count, dtype, &nbytes);

    if (status != SYMMCOLL_OK)
        return status;
    if (out == NULL && nbytes > 0 && handle->rank == root)
        return refuse_null(&one_shot_reduce, "out");
    return symc_symm_run(&made, dtype, op, count, root, call);
}

/* ---- two shots ---- */

/* Reduces this rank's part into all buffers. No other rank accesses that part
 * of any buffer. */
static void reduce_part(
    const struct symc_symm_call *call, const struct symc_moving *moving)
{
    struct symc_targets all = {moving->rank, moving->size};
    size_t lo, hi;

    symc_symm_part(
        moving->op->count, call->elem, moving->size, moving->rank, &lo, &hi);
    for (int r = 0; r < moving->size; r++) {
        char *at = symc_symm_at(call, r, call->words[0]);

        moving->exposed[r] = (struct symc_exposed){at, at};
    }
    (void)symc_moving_reduce(moving, all, lo, hi, false);
}

static void describe_two_shot(const struct symc_symm_call *call,
    const struct symc_op *op, struct symc_launch *launch)
{
    (void)op;
    describe_shots(call, launch, SYMC_LAUNCH_TWO_SHOT);
}

static const struct symc_symm_does two_shot = {.kind = SYMC_SYMM_TWO_SHOT,
    .words = {"offset"},
    .move = reduce_part,
    .describe = describe_two_shot};
static const struct symc_symm_does intra_node_two_shot = {
    .kind = SYMC_SYMM_INTRA_NODE,
    .words = {"offset"},
    .move = reduce_part,
    .describe = describe_two_shot};

/* Runs a two-shot operation. made->in is copied to this rank's buffer first,
 * unless it is NULL. */
static symmcoll_status_t run_two_shot(struct symc_symm_call *made, size_t count,
    enum symmcoll_dtype dtype, symmcoll_op_t op,
    const struct symmcoll_call *call)
{
    struct symmcoll_symm *handle = made->handle;
    void *own;
    bool on_device;
    size_t nbytes;
    symmcoll_status_t status = check(made, count, dtype, &nbytes);

    if (status != SYMMCOLL_OK)
        return status;
    own = handle->at[handle->rank] + made->words[0];
    on_device = !symc_symm_is_host(handle);
    if (!on_device && made->in != NULL)
        symc_copy(own, made->in, nbytes, false);
    status = symc_symm_run(made, dtype, op, count, 0, call);
    if (status == SYMMCOLL_OK && !on_device && made->out != NULL)
        symc_copy(made->out, own, nbytes, false);
    return status;
}

symmcoll_status_t symmcoll_symm_two_shot_all_reduce(
    struct symmcoll_symm *handle, size_t offset, void *out, size_t count,
    enum symmcoll_dtype dtype, symmcoll_op_t op,
    const struct symmcoll_call *call)
{
    struct symc_symm_call made = {
        .does = &two_shot, .handle = handle, .words = {offset}, .out = out};

    return run_two_shot(&made, count, dtype, op, call);
}

/* ---- intra-node all-reduce, an operation with limits ---- */

symmcoll_status_t symmcoll_symm_intra_node_all_reduce(
    struct symmcoll_symm *handle, void *buf, size_t count,
    enum symmcoll_dtype dtype, symmcoll_op_t op,
    const struct symmcoll_call *call)
{
    const size_t elem = sizeof(uint16_t);
    struct symc_symm_call made = {
        .does = &intra_node_two_shot, .handle = handle, .out = buf, .in = buf};
    symmcoll_status_t status =
        symc_symm_check(handle, symc_kind_name(SYMC_SYMM_INTRA_NODE));

    if (status != SYMMCOLL_OK)
        return status;
    if (dtype != SYMMCOLL_BFLOAT16 || op != SYMMCOLL_SUM ||
        count > INTRA_NODE_MOST / elem || handle->size > INTRA_NODE_RANKS)
        return SYMMCOLL_SKIPPED;
    if (buf == NULL && count > 0)
        return refuse_null(made.does, "buf");
    if (count * elem <= INTRA_NODE_ONE_SHOT) {
        made.does = &intra_node_one_shot;
        status = run_one_shot_copy(&made, count, dtype, op, call);
    } else {
        status = run_two_shot(&made, count, dtype, op, call);
    }
    if (status == SYMMCOLL_OK)
        atomic_fetch_add_explicit(&handle->intra_node, 1, memory_order_relaxed);
    return status;
}

uint64_t symmcoll_symm_intra_node_count(const struct symmcoll_symm *handle)
{
    return handle == NULL ? 0
                          : atomic_load_explicit(
                                &handle->intra_node, memory_order_relaxed);
}
