/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Arguments of matmul and reduce_scatter: their checks and comparison, and the
 * shape and memory of the result.
 */
#include "base/tensor.h"
#include "config/config.h"
#include "fused/matmul_scatter.h"

static symmcoll_status_t check_op(const char *name, symmcoll_op_t op)
{
    const char *found = symmcoll_op_name(op);

    if (op == SYMMCOLL_SUM || op == SYMMCOLL_AVG)
        return SYMMCOLL_OK;
    return symc_fail(SYMMCOLL_ERR_INVALID, "%s: expected sum or avg, found %s",
        name, found != NULL ? found : "another operation");
}

/* Returns the type of the sums sent between devices: narrow types halve the
 * bytes, but each rank rounds. */
static enum symmcoll_dtype find_sent(const struct matmul_scatter *it)
{
    enum symmcoll_dtype out = it->out.tensor.dtype;
    bool is_half = out == SYMMCOLL_FLOAT16 || out == SYMMCOLL_BFLOAT16;

    return is_half && symc_group_config(it->fused->group)->fused_round_parts
               ? out
               : it->sum;
}

/* Sets the shape of the result, and the types of sums. */
static symmcoll_status_t shape_result(
    struct symmcoll_group *group, struct matmul_scatter *it)
{
    struct symmcoll_tensor *out = &it->out.tensor;
    symmcoll_status_t status;

    it->out.fused = it->fused;
    it->out.site = it->on.site;
    *out = it->a;
    out->data = NULL;
    out->shape[out->ndim - 1] = it->b.shape[1];
    if (it->is_scaled)
        out->dtype = it->scaled.out_dtype;
    status = symc_fused_check_lengths(it->name, "a @ b", out);
    if (status != SYMMCOLL_OK)
        return status;
    if (out->shape[it->dim] % symc_group_size(group) != 0)
        return symc_fail(SYMMCOLL_ERR_INVALID,
            "%s: expected %s to be a multiple of %d ranks, found %lld",
            it->name,
            it->last ? "the columns of b" : "the length of scatter_dim",
            symc_group_size(group), (long long)out->shape[it->dim]);
    out->shape[it->dim] /= symc_group_size(group);
    symc_f_make_contiguous(out);
    it->total = it->count = (size_t)symc_fused_count(out, out->ndim);
    it->part = out->shape[it->dim];
    it->sum = symc_matmul_sum_dtype(it->a.dtype);
    it->sent = find_sent(it);
    return SYMMCOLL_OK;
}

/* Reads the matrix: b, or scaled_b in a scaled product. */
static symmcoll_status_t read_matrix(struct matmul_scatter *it,
    const struct symmcoll_tensor *b,
    const struct symmcoll_scaled_matrix *scaled_b)
{
    int64_t depth = it->a.shape[it->a.ndim - 1];
    symmcoll_status_t status;

    if (!it->is_scaled)
        return symc_fused_read_b(it->name, b, 0, 0, &it->a, depth, &it->b);
    status = symc_fused_read_scaled(
        it->name, scaled_b, 0, false, &it->a, depth, &it->b, &it->scaled);
    if (status == SYMMCOLL_OK)
        status = symc_fused_read_a_scale(
            it->name, it->a_scale, &it->a, NULL, it->dim, &it->scale);
    return status;
}

static symmcoll_status_t read_args(struct symmcoll_group *group,
    const struct symmcoll_tensor *b,
    const struct symmcoll_scaled_matrix *scaled_b, struct matmul_scatter *it,
    const struct symmcoll_tensor *place)
{
    const char *name = it->name;
    struct symmcoll_tensor out;
    symmcoll_status_t status = symc_fused_check_dim(name, &it->a, it->dim);

    it->last = it->dim == it->a.ndim - 1;
    /* On a device a was checked before the device was opened. */
    if (status == SYMMCOLL_OK && it->a.device == SYMMCOLL_HOST)
        status = symc_fused_check_memory(
            name, group, &(struct symc_fused_named){"a", -1, &it->a});
    if (status != SYMMCOLL_OK)
        return status;
    status = check_op(name, it->op);
    if (status != SYMMCOLL_OK)
        return status;
    status = read_matrix(it, b, scaled_b);
    if (status != SYMMCOLL_OK)
        return status;
    status = symc_fused_check_tensor(
        name, it->fused, &(struct symc_fused_named){"b", -1, &it->b});
    if (status != SYMMCOLL_OK)
        return status;
    if (place == NULL)
        return symc_fail(SYMMCOLL_ERR_INVALID,
            "%s: expected a place for the result, found NULL", name);
    status = symc_tensor_read(name, place, 0, &out);
    if (status != SYMMCOLL_OK)
        return status;
    status = shape_result(group, it);
    if (status != SYMMCOLL_OK)
        return status;
    return symc_fused_result_make(name, "out", &out, &it->out);
}

static symmcoll_status_t check_apart(const struct matmul_scatter *it)
{
    const struct symc_fused_named out = {"out", -1, &it->out.tensor},
                                  a = {"a", -1, &it->a}, b = {"b", -1, &it->b};
    symmcoll_status_t status = symc_fused_check_apart(it->name, &out, &a);

    return status == SYMMCOLL_OK ? symc_fused_check_apart(it->name, &out, &b)
                                 : status;
}

static void describe(const void *context, struct symc_fused_args *args)
{
    const struct matmul_scatter *it = context;

    symc_fused_describe(args, "a ");
    symc_fused_describe_shape(args, &it->a);
    symc_fused_describe(args, "%s, %lld columns of b, %s, scatter_dim %d",
        it->a.device == SYMMCOLL_CUDA ? " in device memory" : "",
        (long long)it->b.shape[1], symmcoll_op_name(it->op), it->dim);
    if (it->a.device == SYMMCOLL_CUDA)
        symc_fused_describe(args, ", sums of %s (fused.round_parts)",
            symmcoll_dtype_name(it->sent));
}

symmcoll_status_t symc_fused_scatter_read(struct matmul_scatter *it,
    const struct symmcoll_tensor *b,
    const struct symmcoll_scaled_matrix *scaled_b,
    const struct symmcoll_tensor *out)
{
    symmcoll_status_t status =
        read_args(it->fused->group, b, scaled_b, it, out);

    if (status != SYMMCOLL_OK || it->a.device == SYMMCOLL_META)
        return status;
    it->begun.args.describe = describe;
    it->begun.args.context = it;
    symc_fused_compare_shape(&it->begun.args, &it->a);
    symc_fused_compare(&it->begun.args, it->a.device);
    symc_fused_compare(&it->begun.args, it->b.shape[1]);
    symc_fused_compare(&it->begun.args, it->op);
    symc_fused_compare(&it->begun.args, it->dim);
    if (it->a.device == SYMMCOLL_CUDA)
        symc_fused_compare(&it->begun.args, (int64_t)it->sent);
    return check_apart(it);
}
