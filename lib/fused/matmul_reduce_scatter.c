/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * matmul and reduce_scatter.  Each rank makes a chunk for every rank, the
 * product of the rows that this one is to have, the own one last; then it adds
 * up the chunks that all have made for it, as float32 or float64, in the order
 * of ranks.  Few rows are multiplied at once.
 */
#include "base/cancel.h"
#include "base/reduce.h"
#include "base/tensor.h"
#include "config/config.h"
#include "fused/fused.h"

#include <stdlib.h>

#define ROWS_APART 512 /* of a chunk, from which on it is made alone */
#define ROUNDED 2048   /* floats at a time, which stay in cache */

static const char name[] = "fused_matmul_reduce_scatter";

struct matmul_scatter {
    struct symc_fused *fused;
    struct symmcoll_tensor a, b;
    symmcoll_op_t op;
    int dim;
    bool last; /* dim is the last dimension: of b */
    struct symc_fused_result out;
    size_t count;            /* elements of that */
    enum symmcoll_dtype sum; /* type of products and sums */
    const struct symmcoll_call *call;
};

/* ---- arguments ---- */

static symmcoll_status_t check_op(symmcoll_op_t op)
{
    const char *found = symmcoll_op_name(op);

    if (op == SYMMCOLL_SUM || op == SYMMCOLL_AVG)
        return SYMMCOLL_OK;
    return symc_fail(SYMMCOLL_ERR_INVALID, "%s: expected sum or avg, found %s",
        name, found != NULL ? found : "another operation");
}

static symmcoll_status_t shape_result(
    struct symmcoll_group *group, struct matmul_scatter *it)
{
    struct symmcoll_tensor *out = &it->out.tensor;
    symmcoll_status_t status;

    *out = it->a;
    out->data = NULL;
    out->shape[out->ndim - 1] = it->b.shape[1];
    status = symc_fused_check_lengths(name, "a @ b", out);
    if (status != SYMMCOLL_OK)
        return status;
    if (out->shape[it->dim] % group->size != 0)
        return symc_fail(SYMMCOLL_ERR_INVALID,
            "%s: expected %s to be a multiple of %d ranks, found %lld", name,
            it->last ? "the columns of b" : "the length of scatter_dim",
            group->size, (long long)out->shape[it->dim]);
    out->shape[it->dim] /= group->size;
    symc_f_make_contiguous(out);
    it->count = (size_t)symc_fused_count(out, out->ndim);
    it->sum = symc_matmul_sum_dtype(it->a.dtype);
    return SYMMCOLL_OK;
}

static symmcoll_status_t read_args(struct symmcoll_group *group,
    const struct symmcoll_tensor *b, struct matmul_scatter *it,
    const struct symmcoll_tensor *place)
{
    struct symmcoll_tensor out;
    symmcoll_status_t status = symc_fused_check_dim(name, &it->a, it->dim);

    it->last = it->dim == it->a.ndim - 1;
    if (status == SYMMCOLL_OK)
        status = check_op(it->op);
    if (status == SYMMCOLL_OK)
        status = symc_fused_read_b(
            name, b, 0, &it->a, it->a.shape[it->a.ndim - 1], &it->b);
    if (status == SYMMCOLL_OK && place == NULL)
        return symc_fail(SYMMCOLL_ERR_INVALID,
            "%s: expected a place for the result, found NULL", name);
    if (status == SYMMCOLL_OK)
        status = symc_tensor_read(name, place, 0, &out);
    if (status == SYMMCOLL_OK)
        status = shape_result(group, it);
    if (status == SYMMCOLL_OK)
        status = symc_fused_result_make(name, "out", &out, &it->out);
    return status;
}

/* ---- products ---- */

/* The chunk for a rank, contiguous in the order of the result. */
static symmcoll_status_t produce(void *context, int rank, void *chunk)
{
    struct matmul_scatter *it = context;
    struct symmcoll_tensor a = it->a;
    struct symc_matrix b = symc_fused_matrix(&it->b);
    int64_t elem = (int64_t)symmcoll_dtype_size(a.dtype);
    int64_t part = it->out.tensor.shape[it->dim];

    if (it->last) {
        b.cols = part;
        b.data = (char *)b.data + rank * part * b.col_stride * elem;
    } else {
        a.shape[it->dim] = part;
        a.data = (char *)a.data + rank * part * a.strides[it->dim] * elem;
    }
    return symc_fused_multiply(it->fused, &a, &b, chunk, it->sum);
}

/* All chunks: the dimension that is cut in two comes first. */
static symmcoll_status_t produce_all(void *context, void *chunks)
{
    struct matmul_scatter *it = context;
    int size = it->fused->group->size;
    struct symmcoll_tensor a = it->a;
    struct symc_matrix b = symc_fused_matrix(&it->b);

    if (it->a.ndim == SYMMCOLL_MAX_DIMS) {
        char *chunk = chunks;
        symmcoll_status_t status = SYMMCOLL_OK;

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
    return symc_fused_multiply(it->fused, &a, &b, chunks, it->sum);
}

/* ---- sums ---- */

static symmcoll_status_t add_up(void *context, const void *const *chunks)
{
    struct matmul_scatter *it = context;
    int size = it->fused->group->size;
    struct symc_reduction reduction = {.dtype = it->sum,
        .op = it->op,
        .block = (int)it->fused->group->world->config->host_reduce_run};
    const void **at = it->fused->sources;
    char *out = it->out.tensor.data;
    float sums[ROUNDED];

    if (it->count > 0 && it->sum == it->a.dtype)
        symc_reduce(&reduction, out, NULL, chunks, size, it->count, false);
    for (size_t done = 0; it->sum != it->a.dtype && done < it->count;
         done += ROUNDED) {
        size_t count = it->count - done < ROUNDED ? it->count - done : ROUNDED;

        symc_reduce(&reduction, sums, NULL, at, size, count, false);
        symc_panel_round(it->a.dtype, sums,
            out + done * symmcoll_dtype_size(it->a.dtype), count);
        for (int r = 0; r < size; r++)
            at[r] = (const float *)at[r] + count;
    }
    return SYMMCOLL_OK;
}

/* The product, then reduce_scatter. */
static symmcoll_status_t multiply_and_scatter(void *context)
{
    struct matmul_scatter *it = context;
    size_t elem = symmcoll_dtype_size(it->sum);
    size_t size = (size_t)it->fused->group->size;
    char *chunks =
        symc_fused_take(it->fused, SYMC_FUSED_CHUNKS, size * it->count * elem);
    void *sums = it->out.tensor.data;
    symmcoll_status_t status = SYMMCOLL_OK;

    if (it->sum != it->a.dtype)
        sums = symc_fused_take(it->fused, SYMC_FUSED_SUMS, it->count * elem);
    if (chunks == NULL || sums == NULL)
        return SYMMCOLL_ERR_NO_MEMORY;
    for (size_t r = 0; r < size && status == SYMMCOLL_OK; r++)
        status = produce(it, (int)r, chunks + r * it->count * elem);
    if (status == SYMMCOLL_OK)
        status = symmcoll_reduce_scatter(it->fused->group, sums, chunks,
            it->count, it->sum, it->op, it->call, NULL);
    if (status == SYMMCOLL_OK && sums != it->out.tensor.data)
        symc_panel_round(it->a.dtype, sums, it->out.tensor.data, it->count);
    return status;
}

/* ---- the operation ---- */

static symmcoll_status_t perform(
    struct symmcoll_group *group, struct matmul_scatter *it)
{
    struct symc_fused_args args = {.name = name};
    struct symc_fused_scatter scatter = {.args = &args,
        .call = it->call,
        .nbytes = it->count * symmcoll_dtype_size(it->sum),
        .produce = produce,
        .plain = multiply_and_scatter,
        .finish = add_up,
        .context = it};
    int64_t rows = symc_fused_count(&it->out.tensor, it->a.ndim - 1);
    symmcoll_status_t status;

    symc_fused_describe(&args, "a ");
    symc_fused_describe_shape(&args, &it->a);
    symc_fused_describe(&args, ", %lld columns of b, %s, scatter_dim %d",
        (long long)it->b.shape[1], symmcoll_op_name(it->op), it->dim);
    if (!it->last && rows < ROWS_APART)
        scatter.produce_all = produce_all;
    status = symc_fused_find(group, &it->fused);
    if (status == SYMMCOLL_OK)
        status = symc_fused_enter(it->fused, name, true);
    if (status != SYMMCOLL_OK)
        return status;
    status = symc_fused_all_to_all(it->fused, &scatter);
    symc_fused_leave(it->fused);
    return status;
}

symmcoll_status_t symmcoll_fused_matmul_reduce_scatter(
    struct symmcoll_group *group, const struct symmcoll_tensor *a,
    const struct symmcoll_tensor *b, symmcoll_op_t op, int scatter_dim,
    const struct symmcoll_call *call, struct symmcoll_tensor *out)
{
    struct symmcoll_call options;
    struct matmul_scatter it = {.op = op, .dim = scatter_dim, .call = &options};
    symmcoll_status_t status = symc_fused_read_call(name, call, &options);
    int cancel;

    if (status == SYMMCOLL_OK)
        status = symc_fused_read_a(name, group, a, &it.a);
    if (status != SYMMCOLL_OK)
        return status;
    if (*group->alive != 1)
        return symc_group_refuse(group, SYMC_REDUCE_SCATTER);
    cancel = symc_cancel_disable();
    status = read_args(group, b, &it, out);
    if (status == SYMMCOLL_OK && it.a.device == SYMMCOLL_HOST)
        status = perform(group, &it);
    if (status == SYMMCOLL_OK)
        status = symc_sized_write(&symc_tensor_kind, name, &it.out.tensor, out);
    if (status != SYMMCOLL_OK && it.out.made)
        free(it.out.tensor.data);
    symc_cancel_restore(cancel);
    return status;
}
