/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Arguments of all_gather and matmul: their checks and comparison, and the
 * shapes and memory of results.
 */
#include "base/tensor.h"
#include "fused/gather_matmul.h"

#include <stdio.h>

/* Sets the shapes of all results, and allocates their memory. */
static symmcoll_status_t shape_results(struct symmcoll_group *group,
    struct gather_matmul *it, const struct symmcoll_tensor *a_place,
    const struct symmcoll_tensor *places)
{
    struct symmcoll_tensor whole = it->a, place;
    symmcoll_status_t status = SYMMCOLL_OK;

    if (__builtin_mul_overflow(whole.shape[it->dim],
            (int64_t)symc_group_size(group), &whole.shape[it->dim]))
        return symc_fail(SYMMCOLL_ERR_INVALID,
            "%s: dimension %d times %d ranks is too long", it->name, it->dim,
            symc_group_size(group));
    whole.data = NULL;
    status = symc_fused_check_lengths(it->name, "a", &whole);
    if (status == SYMMCOLL_OK && it->scaled)
        status = symc_fused_read_a_scale(
            it->name, it->a_scale, &it->a, &whole, it->dim, &it->scale);
    if (status != SYMMCOLL_OK)
        return status;
    symc_fused_stride_first(&whole, it->last ? 0 : it->dim);
    it->gathered.tensor = whole;
    it->gathered.fused = it->fused;
    it->gathered.site = it->on.site;
    it->wanted = a_place != NULL;
    if (it->wanted) {
        status = symc_tensor_read(it->name, a_place, 0, &place);
        if (status != SYMMCOLL_OK)
            return status;
        status = symc_fused_result_make(it->name, "a", &place, &it->gathered);
    }
    for (int i = 0; i < it->n && status == SYMMCOLL_OK; i++) {
        struct symc_fused_result *result = &it->products[i].out;
        struct symmcoll_tensor *out = &result->tensor;
        char name[16] = "out";

        if (it->n > 1)
            (void)snprintf(name, sizeof(name), "out %d", i);
        *out = whole;
        out->shape[out->ndim - 1] = it->products[i].b.shape[1];
        if (it->scaled)
            out->dtype = it->products[i].scaled.out_dtype;
        status = symc_tensor_read(it->name, places, (size_t)i, &place);
        if (status == SYMMCOLL_OK)
            status = symc_fused_check_lengths(it->name, "a @ b", out);
        if (status != SYMMCOLL_OK)
            return status;
        symc_fused_stride_first(out, it->last ? 0 : it->dim);
        result->fused = it->fused;
        result->site = it->on.site;
        status = symc_fused_result_make(it->name, name, &place, result);
    }
    return status;
}

static symmcoll_status_t read_args(struct symmcoll_group *group,
    const struct symmcoll_tensor *bs, struct gather_matmul *it)
{
    bool blocks = it->scaled && symc_fused_has_blocks(it->a_scale);
    int64_t depth;
    symmcoll_status_t status = symc_fused_check_dim(it->name, &it->a, it->dim);

    if (status != SYMMCOLL_OK)
        return status;
    /* On a device a was checked before the device was opened. */
    if (it->a.device == SYMMCOLL_HOST)
        status = symc_fused_check_memory(
            it->name, group, &(struct symc_fused_named){"a_shard", -1, &it->a});
    if (status != SYMMCOLL_OK)
        return status;
    it->last = it->dim == it->a.ndim - 1;
    if (it->scaled && it->last)
        return symc_fail(SYMMCOLL_ERR_UNSUPPORTED,
            "%s: expected a dimension before the last, found %d of %d",
            it->name, it->dim, it->a.ndim);
    it->elem = symmcoll_dtype_size(it->a.dtype);
    it->depth = depth = it->a.shape[it->a.ndim - 1];
    it->rows = symc_fused_count(&it->a, it->a.ndim - 1);
    it->nbytes = (size_t)(it->rows * depth) * it->elem;
    if (it->last &&
        __builtin_mul_overflow(depth, (int64_t)symc_group_size(group), &depth))
        depth = -1;
    for (int i = 0; i < it->n && status == SYMMCOLL_OK; i++) {
        struct product *product = &it->products[i];

        status = it->scaled
                     ? symc_fused_read_scaled(it->name, it->scaled_bs, i,
                           blocks, &it->a, depth, &product->b, &product->scaled)
                     : symc_fused_read_b(
                           it->name, bs, i, i, &it->a, depth, &product->b);
        if (status == SYMMCOLL_OK)
            status = symc_fused_check_tensor(it->name, it->fused,
                &(struct symc_fused_named){"b", i, &product->b});
    }
    return status;
}

/* Checks that a result overlaps no operand and no earlier result. */
static symmcoll_status_t check_result(
    const struct gather_matmul *it, const struct symc_fused_named *result)
{
    struct symc_fused_named other = {"a_shard", -1, &it->a};
    symmcoll_status_t status = symc_fused_check_apart(it->name, result, &other);

    for (int i = 0; i < it->n && status == SYMMCOLL_OK; i++) {
        other = (struct symc_fused_named){"b", i, &it->products[i].b};
        status = symc_fused_check_apart(it->name, result, &other);
    }
    for (int i = 0; i < result->index && status == SYMMCOLL_OK; i++) {
        other =
            (struct symc_fused_named){"out", i, &it->products[i].out.tensor};
        status = symc_fused_check_apart(it->name, result, &other);
    }
    if (status != SYMMCOLL_OK || !it->wanted || result->index < 0)
        return status;
    other = (struct symc_fused_named){"a", -1, &it->gathered.tensor};
    return symc_fused_check_apart(it->name, result, &other);
}

/* Checks that no result overlaps an operand or another result. */
static symmcoll_status_t check_apart(const struct gather_matmul *it)
{
    struct symc_fused_named result = {"a", -1, &it->gathered.tensor};
    symmcoll_status_t status =
        it->wanted ? check_result(it, &result) : SYMMCOLL_OK;

    for (int i = 0; i < it->n && status == SYMMCOLL_OK; i++) {
        result =
            (struct symc_fused_named){"out", i, &it->products[i].out.tensor};
        status = check_result(it, &result);
    }
    return status;
}

static void describe(const void *context, struct symc_fused_args *args)
{
    const struct gather_matmul *it = context;
    static const char *const modes[] = {"one scale", "scales of its rows",
        "scales of all rows",
        "scales of blocks"}; /* enum symc_fused_scale_mode */

    symc_fused_describe(args, "a shard ");
    symc_fused_describe_shape(args, &it->a);
    if (it->scaled)
        symc_fused_describe(args, " with %s", modes[it->scale.mode]);
    symc_fused_describe(args, "%s, gather_dim %d",
        it->a.device == SYMMCOLL_CUDA ? " in device memory" : "", it->dim);
}

/* Checks that the results are stored in different structs of the caller. */
static symmcoll_status_t check_places(const struct gather_matmul *it,
    const struct symmcoll_tensor *a, const struct symmcoll_tensor *outs)
{
    for (int i = 0; outs != NULL && a != NULL && i < it->n; i++) {
        if ((const char *)outs + (size_t)i * outs->size == (const char *)a)
            return symc_fail(SYMMCOLL_ERR_INVALID,
                "%s: expected a and out %d in different structs, found the "
                "same one",
                it->name, i);
    }
    return SYMMCOLL_OK;
}

static symmcoll_status_t read_all(struct gather_matmul *it,
    const struct symmcoll_tensor *bs, const struct symmcoll_tensor *a,
    const struct symmcoll_tensor *outs)
{
    struct symmcoll_group *group = it->fused->group;
    bool given =
        outs != NULL && (it->scaled ? it->scaled_bs != NULL : bs != NULL);
    symmcoll_status_t status;

    if (it->n < 0 || (it->n > 0 && !given))
        return symc_fail(SYMMCOLL_ERR_INVALID,
            "%s: expected matrices and places for as many results, found %s",
            it->name, it->n < 0 ? "a negative number" : "NULL");
    it->products = symc_alloc((size_t)it->n, sizeof(*it->products));
    if (it->products == NULL)
        return SYMMCOLL_ERR_NO_MEMORY;
    status = read_args(group, bs, it);
    if (status == SYMMCOLL_OK)
        status = shape_results(group, it, a, outs);
    return status == SYMMCOLL_OK ? check_places(it, a, outs) : status;
}

symmcoll_status_t symc_fused_gather_read(struct gather_matmul *it,
    struct symc_fused_call *begun, const struct symmcoll_tensor *bs,
    const struct symmcoll_tensor *a, const struct symmcoll_tensor *outs)
{
    symmcoll_status_t status = read_all(it, bs, a, outs);

    if (status != SYMMCOLL_OK || it->a.device == SYMMCOLL_META)
        return status;
    begun->args.describe = describe;
    begun->args.context = it;
    symc_fused_compare_shape(&begun->args, &it->a);
    symc_fused_compare(&begun->args, it->a.device);
    symc_fused_compare(&begun->args, it->scaled ? (int)it->scale.mode : -1);
    symc_fused_compare(&begun->args, it->dim);
    return check_apart(it);
}
