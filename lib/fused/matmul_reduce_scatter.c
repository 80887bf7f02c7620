/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * matmul and reduce_scatter. Each rank makes a chunk for every rank, the
 * product of that rank's rows, and its own chunk last. Then it adds the chunks
 * that all ranks have made for it, as float32 or float64, in the order of
 * ranks. Small products are made at once. Large ones are exchanged in blocks,
 * one after the other, so that sums are read from the cache and only two blocks
 * of chunks need memory.
 */
#include "base/reduce.h"
#include "base/tensor.h"
#include "config/config.h"
#include "fused/device_scatter.h"

#include <stdio.h>
#include <stdlib.h>

#define ROWS_APART 512 /* rows of a chunk from which on it is made alone */
#define ROUNDED 2048   /* floats rounded at a time, which stay in the cache */
/* bytes of a chunk from which on it is made in blocks */
#define BLOCKS_FROM ((size_t)4 << 20)
#define BLOCK_NBYTES ((size_t)512 << 10) /* bytes of a block */

/* ---- products ---- */

/* Allocates factors as floats: those of rows, with the ranks' parts one after
 * the other if a dimension of rows is divided, and those of columns. */
static symmcoll_status_t take_factors(struct matmul_scatter *it)
{
    bool one = it->scale.mode == SYMC_FUSED_SCALE_ONE;
    struct symc_f_view view = symc_f_view_of(&it->scale.tensor);
    size_t rows = one ? 1 : (size_t)symc_fused_count(&it->a, it->a.ndim - 1);
    size_t count = rows;
    float *at;

    if (!symc_fused_count_factors(&it->scaled, it->b.shape[1], &count) ||
        !symc_multiply(count, sizeof(*at), &count))
        return symc_fail(SYMMCOLL_ERR_NO_MEMORY,
            "%s: expected scales that memory has room for, found more",
            it->name);
    at = symc_fused_take(it->fused, SYMC_FUSED_FACTORS, count);
    if (at == NULL)
        return SYMMCOLL_ERR_NO_MEMORY;
    if (!one && !it->last)
        view =
            symc_f_view_cut(&view, it->dim, symc_group_size(it->fused->group));
    symc_f_view_copy(&view, it->scale.tensor.data, at, sizeof(*at));
    (void)symc_fused_place_factors(&it->scaled, it->b.shape[1], at + rows);
    it->scaled.scaling.rows = at;
    it->scaled.scaling.row_step = !one;
    return SYMMCOLL_OK;
}

/* Scales the sums of a rank's chunk, or of all chunks. */
static void scale_chunks(
    const struct matmul_scatter *it, int rank, int ranks, void *chunks)
{
    const struct symmcoll_tensor *out = &it->out.tensor;
    int64_t all = symc_fused_count(out, out->ndim - 1), rows = all;
    int64_t cols = out->shape[out->ndim - 1], row = rank * all;
    struct symc_matrix c = {chunks, SYMMCOLL_FLOAT32, 0, cols, cols, 1};

    if (!it->is_scaled || it->count == 0)
        return;
    if (!it->last) {
        rows = all / out->shape[it->dim] * it->part;
        row += all / out->shape[it->dim] * it->first;
    }
    c.rows = rows * ranks;
    symc_panel_scale(&it->scaled.scaling, it->last ? 0 : row,
        it->last ? rank * cols : 0, &c);
}

/* Checks the products that are sent to other ranks for NaN. In the plain
 * sequence all are checked unless errors.nan_check is `warn`: reduce_scatter
 * warns itself, but cannot return an error, since it is too late to publish
 * it. */
static symmcoll_status_t inspect(
    const struct matmul_scatter *it, int rank, const void *chunk)
{
    const struct symc_config *config = symc_group_config(it->fused->group);
    char what[64];

    if (config->errors_nan_check == SYMC_NAN_CHECK_OFF ||
        (it->in_plain ? config->errors_nan_check == SYMC_NAN_CHECK_WARN
                      : rank == symc_group_rank(it->fused->group)))
        return SYMMCOLL_OK;
    snprintf(what, sizeof(what), "the product for rank %d", rank);
    return symc_fused_inspect(
        it->fused, it->name, what, it->sum, chunk, it->count);
}

/*
 * Makes the chunk for a rank, contiguous in the order of the result.
 *
 * INVARIANT: making this rank's own chunk does not fail, since it happens after
 * the rank has published that it goes on; a failure would leave the others
 * waiting in the next block. The chunk has the shapes and strides of those made
 * before, so their scratch memory exists, and inspect() skips it.
 */
static symmcoll_status_t produce(void *context, int rank, void *chunk)
{
    struct matmul_scatter *it = context;
    struct symmcoll_tensor a = it->a;
    struct symc_matrix b = symc_fused_matrix(&it->b);
    int64_t elem = (int64_t)symmcoll_dtype_size(a.dtype);
    int64_t part = it->out.tensor.shape[it->dim];
    int64_t first = rank * part + it->first;
    symmcoll_status_t status;

    if (it->last) {
        b.cols = part;
        b.data = (char *)b.data + first * b.col_stride * elem;
    } else {
        a.shape[it->dim] = it->part;
        a.data = (char *)a.data + first * a.strides[it->dim] * elem;
    }
    status = symc_fused_multiply(it->fused, &a, &b, chunk, it->sum);
    if (status != SYMMCOLL_OK)
        return status;
    scale_chunks(it, rank, 1, chunk);
    return inspect(it, rank, chunk);
}

/* Makes all chunks in one product: the divided dimension is split in two, and
 * its first half comes first. */
static symmcoll_status_t produce_all(void *context, void *chunks)
{
    struct matmul_scatter *it = context;
    int size = symc_group_size(it->fused->group);
    struct symmcoll_tensor a = it->a;
    struct symc_matrix b = symc_fused_matrix(&it->b);
    symmcoll_status_t status = SYMMCOLL_OK;

    if (it->a.ndim == SYMMCOLL_MAX_DIMS) {
        char *chunk = chunks;

        for (int r = 0; r < size && status == SYMMCOLL_OK; r++) {
            status = produce(it, r, chunk);
            chunk += it->count * symmcoll_dtype_size(it->sum);
        }
        return status;
    }
    a.ndim++;
    for (int d = a.ndim - 1; d > 0; d--) {
        a.shape[d] = it->a.shape[d - 1];
        a.strides[d] = it->a.strides[d - 1];
    }
    a.shape[it->dim + 1] /= size;
    a.shape[0] = size;
    a.strides[0] = a.shape[it->dim + 1] * it->a.strides[it->dim];
    status = symc_fused_multiply(it->fused, &a, &b, chunks, it->sum);
    if (status == SYMMCOLL_OK)
        scale_chunks(it, 0, size, chunks);
    for (int r = 0; r < size && status == SYMMCOLL_OK; r++)
        status = inspect(it, r,
            (const char *)chunks +
                (size_t)r * it->count * symmcoll_dtype_size(it->sum));
    return status;
}

/* ---- sums ---- */

/* Adds the chunks for this rank into the result, in rank order. */
static symmcoll_status_t add_up(void *context, const void *const *chunks)
{
    struct matmul_scatter *it = context;
    int size = symc_group_size(it->fused->group);
    struct symc_reduction reduction = {.dtype = it->sum,
        .op = it->op,
        .block = (int)symc_group_config(it->fused->group)->host_reduce_run};
    const void **at = it->fused->sources;
    enum symmcoll_dtype dtype = it->out.tensor.dtype;
    char *out = it->out.tensor.data;
    float sums[ROUNDED];

    if (it->count > 0)
        out += it->total / (size_t)it->out.tensor.shape[it->dim] *
               (size_t)it->first * symmcoll_dtype_size(dtype);

    if (it->count > 0 && it->sum == dtype)
        symc_reduce(&reduction, out, NULL, chunks, size, it->count, false);
    for (size_t done = 0; it->sum != dtype && done < it->count;
         done += ROUNDED) {
        size_t count = it->count - done < ROUNDED ? it->count - done : ROUNDED;

        symc_reduce(&reduction, sums, NULL, at, size, count, false);
        symc_panel_round(
            dtype, sums, out + done * symmcoll_dtype_size(dtype), count);
        for (int r = 0; r < size; r++)
            at[r] = (const float *)at[r] + count;
    }
    return SYMMCOLL_OK;
}

/* Selects the range of dim that is exchanged next. */
static void set_block(struct matmul_scatter *it, int64_t first, int64_t part)
{
    int64_t whole = it->out.tensor.shape[it->dim];

    it->first = first;
    it->part = part;
    it->count =
        part == whole ? it->total : it->total / (size_t)whole * (size_t)part;
}

/* The plain sequence: the whole product, then reduce_scatter. */
static symmcoll_status_t multiply_and_scatter(void *context)
{
    struct matmul_scatter *it = context;
    const struct symc_fused_call *begun = &it->begun;
    size_t elem = symmcoll_dtype_size(it->sum);
    size_t size = (size_t)symc_group_size(it->fused->group);
    char *chunks =
        symc_fused_take(it->fused, SYMC_FUSED_CHUNKS, size * it->total * elem);
    void *sums = it->out.tensor.data;
    symmcoll_status_t status = SYMMCOLL_OK;

    it->in_plain = true;
    set_block(it, 0, it->out.tensor.shape[it->dim]);

    if (it->sum != it->out.tensor.dtype)
        sums = symc_fused_take(it->fused, SYMC_FUSED_SUMS, it->count * elem);
    if (chunks == NULL || sums == NULL)
        status = SYMMCOLL_ERR_NO_MEMORY;
    for (size_t r = 0; r < size && status == SYMMCOLL_OK; r++)
        status = produce(it, (int)r, chunks + r * it->count * elem);
    status =
        symc_fused_confirm(it->fused, &begun->args, &begun->options, status);
    if (status != SYMMCOLL_OK)
        return status;
    status = symmcoll_reduce_scatter(it->fused->group, sums, chunks, it->count,
        it->sum, it->op, &begun->options, NULL);
    if (status == SYMMCOLL_OK && sums != it->out.tensor.data)
        symc_panel_round(
            it->out.tensor.dtype, sums, it->out.tensor.data, it->count);
    return status;
}

/* ---- the operation ---- */

/*
 * Returns how much of dim a block has. Without blocks the sums of all ranks'
 * rows are written to memory and read again. With blocks they stay in the
 * cache, but each block of R rows reads, and BLAS packs, the K rows of b. So
 * blocks are used if the sums exceed the cache and R is at least K.
 */
static int64_t find_block(const struct matmul_scatter *it)
{
    const struct symmcoll_tensor *out = &it->out.tensor;
    int64_t whole = out->shape[it->dim], rows, block;
    size_t nbytes = it->total * symmcoll_dtype_size(it->sum);

    /* A block has to be contiguous in the result. */
    if (it->last || nbytes < BLOCKS_FROM || symc_fused_count(out, it->dim) != 1)
        return whole;
    block = (int64_t)(BLOCK_NBYTES / (nbytes / (size_t)whole));
    rows = symc_fused_count(out, out->ndim - 1) / whole * block;
    return rows > 0 && rows >= it->b.shape[0] ? block : whole;
}

/* Multiplies and exchanges in host memory, block by block. */
static symmcoll_status_t run(struct matmul_scatter *it)
{
    int64_t whole = it->out.tensor.shape[it->dim], block = find_block(it);
    symmcoll_status_t status;

    struct symc_fused_scatter scatter = {.args = &it->begun.args,
        .call = &it->begun.options,
        .produce = produce,
        .plain = multiply_and_scatter,
        .finish = add_up,
        .context = it};
    int64_t rows = symc_fused_count(&it->out.tensor, it->a.ndim - 1);

    if (!it->last && block == whole && rows < ROWS_APART)
        scatter.produce_all = produce_all;
    do {
        int64_t left = whole - it->first;

        set_block(it, it->first, left < block ? left : block);
        scatter.nbytes = it->count * symmcoll_dtype_size(it->sum);
        status = symc_fused_all_to_all(it->fused, &scatter);
        it->first += it->part;
    } while (status == SYMMCOLL_OK && it->first < whole);
    return status;
}

/* Does everything that can fail, before this rank waits for the others. */
static symmcoll_status_t prepare(struct matmul_scatter *it,
    const struct symmcoll_tensor *a, const struct symmcoll_tensor *b,
    const struct symmcoll_scaled_matrix *scaled_b,
    const struct symmcoll_tensor *out)
{
    symmcoll_status_t status =
        symc_fused_read_a(it->name, a, it->is_scaled, &it->a);

    it->on.words = it->begun.options;
    it->on.words.stream = NULL;
    if (status == SYMMCOLL_OK && it->a.device == SYMMCOLL_CUDA)
        status = symc_fused_on_begin(
            it->fused, SYMC_FUSED_SCATTER, &it->begun, &it->a, &it->on);
    if (status != SYMMCOLL_OK)
        return status;
    status = symc_fused_scatter_read(it, b, scaled_b, out);
    if (status != SYMMCOLL_OK || it->a.device != SYMMCOLL_HOST)
        return status;
    status = symc_fused_load(it->fused);
    return status == SYMMCOLL_OK && it->is_scaled ? take_factors(it) : status;
}

/* Runs a call; one of b and scaled_b is NULL. */
static symmcoll_status_t call_with(struct matmul_scatter *it,
    struct symmcoll_group *group, const struct symmcoll_tensor *a,
    const struct symmcoll_tensor *b,
    const struct symmcoll_scaled_matrix *scaled_b,
    const struct symmcoll_call *call, struct symmcoll_tensor *out)
{
    struct symc_fused_call *begun = &it->begun;
    symmcoll_status_t status =
        symc_fused_begin(begun, group, SYMC_REDUCE_SCATTER, it->name, call);

    if (status != SYMMCOLL_OK)
        return status;
    it->fused = begun->fused;
    status = prepare(it, a, b, scaled_b, out);
    if (it->a.device == SYMMCOLL_CUDA)
        status = symc_fused_scatter_on_device(it, status);
    else if (it->a.device == SYMMCOLL_HOST)
        status = status == SYMMCOLL_OK
                     ? run(it)
                     : symc_fused_confirm(
                           it->fused, &begun->args, &it->on.words, status);
    if (status == SYMMCOLL_OK)
        status =
            symc_sized_write(&symc_tensor_kind, it->name, &it->out.tensor, out);
    if (status != SYMMCOLL_OK)
        symc_fused_result_release(&it->out);
    symc_fused_on_end(&it->on);
    return symc_fused_end(begun, status);
}

symmcoll_status_t symmcoll_fused_matmul_reduce_scatter(
    struct symmcoll_group *group, const struct symmcoll_tensor *a,
    const struct symmcoll_tensor *b, symmcoll_op_t op, int scatter_dim,
    const struct symmcoll_call *call, struct symmcoll_tensor *out)
{
    struct matmul_scatter it = {
        .name = "fused_matmul_reduce_scatter", .op = op, .dim = scatter_dim};

    return call_with(&it, group, a, b, NULL, call, out);
}

symmcoll_status_t symmcoll_fused_scaled_matmul_reduce_scatter(
    struct symmcoll_group *group, const struct symmcoll_tensor *a,
    const struct symmcoll_tensor *a_scale,
    const struct symmcoll_scaled_matrix *b, symmcoll_op_t op, int scatter_dim,
    const struct symmcoll_call *call, struct symmcoll_tensor *out)
{
    struct matmul_scatter it = {.name = "fused_scaled_matmul_reduce_scatter",
        .op = op,
        .dim = scatter_dim,
        .is_scaled = true,
        .a_scale = a_scale};

    return call_with(&it, group, a, NULL, b, call, out);
}
