/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * all_gather and matmul. The rows of all ranks' shards are multiplied shard by
 * shard, as they arrive. Small shards are gathered first, since each product
 * reads the whole of b. Along the last dimension the products of the shards are
 * added, in the order of ranks.
 */
#include "base/tensor.h"
#include "fused/device_gather.h"

#include <stdlib.h>
#include <string.h>

/* rows of a shard from which on it is multiplied alone */
#define ROWS_APART 512

/* ---- products ---- */

static symmcoll_status_t multiply_rows(struct gather_matmul *it, int index,
    int64_t first, int64_t rows, const void *from)
{
    struct product *product = &it->products[index];
    const struct symmcoll_tensor *out = &product->out.tensor;
    struct symc_scaling scaling = product->scaled.scaling;
    struct symc_matrix b = symc_fused_matrix(&product->b);
    struct symc_matrix a = {
        (void *)from, it->a.dtype, rows, it->depth, it->depth, 1};
    struct symc_matrix c = {
        (char *)out->data +
            (size_t)(first * b.cols) * symmcoll_dtype_size(out->dtype),
        out->dtype, rows, b.cols, b.cols, 1};

    if (!it->scaled)
        return symc_matmul(&it->fused->matmul, &a, &b, &c, false);
    if (it->blocks_of_all != NULL) { /* first is the first row of a tile */
        scaling.a_blocks =
            it->blocks_of_all + symc_panel_blocks_nbytes(first, it->depth);
    } else {
        scaling.row_step = it->scale.mode != SYMC_FUSED_SCALE_ONE;
        scaling.rows = it->rows_of_all + first * scaling.row_step;
    }
    return symc_matmul_scaled(&it->fused->matmul, &a, &b, &scaling, &c);
}

/* Multiplies all rows of a rank's shard. */
static symmcoll_status_t consume_rows(
    void *context, int rank, const void *shard)
{
    struct gather_matmul *it = context;
    symmcoll_status_t status = SYMMCOLL_OK;

    for (int i = 0; i < it->n && status == SYMMCOLL_OK; i++)
        status = multiply_rows(it, i, rank * it->rows, it->rows, shard);
    return status;
}

/* Multiplies all columns of a rank's shard by the rows of b that belong to
 * them. */
static symmcoll_status_t consume_columns(
    void *context, int rank, const void *shard)
{
    struct gather_matmul *it = context;
    size_t part = (size_t)it->depth * it->elem;
    size_t line = part * (size_t)symc_group_size(it->fused->group);
    enum symmcoll_dtype dtype = symc_matmul_sum_dtype(it->a.dtype);
    char *sums = it->sums;
    symmcoll_status_t status = SYMMCOLL_OK;

    for (int64_t row = 0; it->wanted && part > 0 && row < it->rows; row++)
        memcpy((char *)it->gathered.tensor.data + (size_t)row * line +
                   (size_t)rank * part,
            (const char *)shard + (size_t)row * part, part);
    for (int i = 0; i < it->n && status == SYMMCOLL_OK; i++) {
        struct symc_matrix b = symc_fused_matrix(&it->products[i].b);
        struct symc_matrix a = {
            (void *)shard, it->a.dtype, it->rows, it->depth, it->depth, 1};
        struct symc_matrix c = {it->products[i].out.tensor.data, dtype,
            it->rows, b.cols, b.cols, 1};

        if (it->sums != NULL) {
            c.data = sums;
            sums += (size_t)(it->rows * b.cols) * sizeof(float);
        }
        b.rows = it->depth;
        b.data = (char *)b.data +
                 rank * it->depth * b.row_stride * (int64_t)it->elem;
        status = symc_matmul(&it->fused->matmul, &a, &b, &c, rank > 0);
    }
    return status;
}

/* ---- the operation ---- */

/* Allocates the sums of narrow types. round_sums() writes the results. */
static symmcoll_status_t take_sums(struct gather_matmul *it)
{
    size_t count = 0;
    bool fits = true;

    if (!it->last || symc_matmul_sum_dtype(it->a.dtype) == it->a.dtype)
        return SYMMCOLL_OK;
    for (int i = 0; i < it->n; i++)
        fits = fits &&
               symc_add(count, (size_t)(it->rows * it->products[i].b.shape[1]),
                   &count);
    if (!fits || !symc_multiply(count, sizeof(float), &count))
        return symc_fail(SYMMCOLL_ERR_NO_MEMORY,
            "%s: expected results that memory has room for, found more",
            it->name);
    it->sums = symc_fused_take(it->fused, SYMC_FUSED_SUMS, count);
    return it->sums != NULL ? SYMMCOLL_OK : SYMMCOLL_ERR_NO_MEMORY;
}

static void round_sums(const struct gather_matmul *it)
{
    const float *sums = (const float *)(const void *)it->sums;

    for (int i = 0; it->sums != NULL && i < it->n; i++) {
        size_t count = (size_t)(it->rows * it->products[i].b.shape[1]);

        symc_panel_round(
            it->a.dtype, sums, it->products[i].out.tensor.data, count);
        sums += count;
    }
}

/* Allocates factors as floats: those of the rows, then those of each matrix. */
static symmcoll_status_t take_factors(struct gather_matmul *it)
{
    bool blocks = it->scale.mode == SYMC_FUSED_SCALE_BLOCKS;
    size_t rows = blocks ? (size_t)it->scale.tensor.shape[0] / sizeof(float)
                         : (size_t)it->rows;
    size_t nbytes,
        count = it->scale.mode == SYMC_FUSED_SCALE_ONE
                    ? 1
                    : rows * (size_t)symc_group_size(it->fused->group);
    size_t own = blocks || it->scale.mode == SYMC_FUSED_SCALE_ROWS ? rows : 0;
    bool fits = symc_add(count, own, &nbytes);
    float *at;

    for (int i = 0; i < it->n; i++)
        fits = fits && symc_fused_count_factors(&it->products[i].scaled,
                           it->products[i].b.shape[1], &nbytes);
    if (!fits || !symc_multiply(nbytes, sizeof(*at), &nbytes))
        return symc_fail(SYMMCOLL_ERR_NO_MEMORY,
            "%s: expected scales that memory has room for, found more",
            it->name);
    at = symc_fused_take(it->fused, SYMC_FUSED_FACTORS, nbytes);
    if (at == NULL)
        return SYMMCOLL_ERR_NO_MEMORY;
    it->rows_of_all = at;
    if (blocks)
        it->blocks_of_all = (uint8_t *)at;
    symc_fused_place_rows(&it->scale, it->dim, own > 0 ? at + count : at);
    at += count;
    if (own > 0)
        it->gathers = at;
    it->gathers_nbytes = own * sizeof(*at);
    at += own;
    for (int i = 0; i < it->n; i++)
        at = symc_fused_place_factors(
            &it->products[i].scaled, it->products[i].b.shape[1], at);
    return SYMMCOLL_OK;
}

/* Returns whether to gather everything before multiplying: if shards are small,
 * or if there is no shared memory, and so no wait to overlap with products. A
 * single rank has nothing to gather. */
static bool is_gathered_first(const struct gather_matmul *it)
{
    return !it->last && symc_group_size(it->fused->group) > 1 &&
           (it->rows < ROWS_APART || symc_fused_is_alone(it->fused));
}

/* Allocates the scratch memory beside the results. */
static symmcoll_status_t take_memory(struct gather_matmul *it)
{
    symmcoll_status_t status = it->scaled ? take_factors(it) : take_sums(it);

    it->first = is_gathered_first(it);
    it->whole = it->wanted && !it->last ? it->gathered.tensor.data : NULL;
    if (status == SYMMCOLL_OK && symc_fused_is_in_blocks(it))
        return symc_fused_take_blocks(it);
    if (status != SYMMCOLL_OK || !it->first || it->whole != NULL)
        return status;
    it->whole = symc_fused_take(it->fused, SYMC_FUSED_GATHERED,
        (size_t)symc_group_size(it->fused->group) * it->nbytes);
    return it->whole != NULL ? SYMMCOLL_OK : SYMMCOLL_ERR_NO_MEMORY;
}

/* Gathers and multiplies in host memory. */
static symmcoll_status_t run(
    struct gather_matmul *it, const struct symc_fused_call *begun)
{
    struct symc_f_view view =
        symc_fused_view_first(&it->a, it->last ? 0 : it->dim);
    struct symc_fused_gather gather = {.args = &begun->args,
        .call = &begun->options,
        .data = it->a.data,
        .view = &view,
        .elem = it->elem,
        .nbytes = it->nbytes,
        .out = it->whole,
        .in_order = it->last,
        .consume = it->block > 0 ? symc_fused_consume_block
                   : it->first   ? NULL
                   : it->last    ? consume_columns
                                 : consume_rows,
        .context = it};
    symmcoll_status_t status;

    if (it->gathers != NULL) {
        gather.tail = it->gathers;
        gather.tail_nbytes = it->gathers_nbytes;
        gather.tails = it->rows_of_all;
    }
    status = symc_fused_all_gather(it->fused, &gather);
    for (int i = 0; it->first && i < it->n && status == SYMMCOLL_OK; i++)
        status = multiply_rows(
            it, i, 0, it->rows * symc_group_size(it->fused->group), it->whole);
    if (status == SYMMCOLL_OK)
        round_sums(it);
    return status;
}

/* Does everything that can fail, before this rank waits for the others. */
static symmcoll_status_t prepare(struct gather_matmul *it,
    struct symc_fused_call *begun, const struct symmcoll_tensor *a_shard,
    const struct symmcoll_tensor *bs, const struct symmcoll_tensor *a,
    const struct symmcoll_tensor *outs)
{
    symmcoll_status_t status =
        symc_fused_read_a(it->name, a_shard, it->scaled, &it->a);

    it->on.words = begun->options;
    it->on.words.stream = NULL;
    if (status == SYMMCOLL_OK && it->a.device == SYMMCOLL_CUDA)
        status = symc_fused_on_begin(
            it->fused, SYMC_FUSED_GATHER, begun, &it->a, &it->on);
    if (status != SYMMCOLL_OK)
        return status;
    status = symc_fused_gather_read(it, begun, bs, a, outs);
    if (status != SYMMCOLL_OK || it->a.device != SYMMCOLL_HOST)
        return status;
    status = symc_fused_inspect_tensor(it->fused, it->name, "a_shard", &it->a);
    if (status != SYMMCOLL_OK)
        return status;
    status = symc_fused_load(it->fused);
    return status == SYMMCOLL_OK ? take_memory(it) : status;
}

static void release(struct gather_matmul *it)
{
    symc_fused_result_release(&it->gathered);
    for (int i = 0; it->products != NULL && i < it->n; i++)
        symc_fused_result_release(&it->products[i].out);
}

static symmcoll_status_t write_results(const struct gather_matmul *it,
    struct symmcoll_tensor *a, struct symmcoll_tensor *outs)
{
    symmcoll_status_t status = SYMMCOLL_OK;

    if (a != NULL)
        status = symc_sized_write(
            &symc_tensor_kind, it->name, &it->gathered.tensor, a);
    for (int i = 0; i < it->n && status == SYMMCOLL_OK; i++)
        status = symc_sized_write(&symc_tensor_kind, it->name,
            &it->products[i].out.tensor, (char *)outs + (size_t)i * outs->size);
    return status;
}

/* Runs a call. bs is NULL in a scaled product. */
static symmcoll_status_t call_with(struct gather_matmul *it,
    struct symmcoll_group *group, const struct symmcoll_tensor *a_shard,
    const struct symmcoll_tensor *bs, const struct symmcoll_call *call,
    struct symmcoll_tensor *a, struct symmcoll_tensor *outs)
{
    struct symc_fused_call begun;
    symmcoll_status_t status =
        symc_fused_begin(&begun, group, SYMC_ALL_GATHER, it->name, call);

    if (status != SYMMCOLL_OK)
        return status;
    it->fused = begun.fused;
    status = prepare(it, &begun, a_shard, bs, a, outs);
    if (it->a.device == SYMMCOLL_CUDA)
        status = symc_fused_gather_on_device(it, &begun, status);
    else if (it->a.device == SYMMCOLL_HOST)
        status = status == SYMMCOLL_OK
                     ? run(it, &begun)
                     : symc_fused_confirm(
                           it->fused, &begun.args, &it->on.words, status);
    if (status == SYMMCOLL_OK)
        status = write_results(it, a, outs);
    if (status != SYMMCOLL_OK)
        release(it);
    free(it->products);
    symc_fused_on_end(&it->on);
    return symc_fused_end(&begun, status);
}

symmcoll_status_t symmcoll_fused_all_gather_matmul(struct symmcoll_group *group,
    const struct symmcoll_tensor *a_shard, const struct symmcoll_tensor *bs,
    int n, int gather_dim, const struct symmcoll_call *call,
    struct symmcoll_tensor *a, struct symmcoll_tensor *outs)
{
    struct gather_matmul it = {
        .name = "fused_all_gather_matmul", .dim = gather_dim, .n = n};

    return call_with(&it, group, a_shard, bs, call, a, outs);
}

symmcoll_status_t symmcoll_fused_all_gather_scaled_matmul(
    struct symmcoll_group *group, const struct symmcoll_tensor *a_shard,
    const struct symmcoll_tensor *a_scale,
    const struct symmcoll_scaled_matrix *bs, int n, int gather_dim,
    const struct symmcoll_call *call, struct symmcoll_tensor *a,
    struct symmcoll_tensor *outs)
{
    struct gather_matmul it = {.name = "fused_all_gather_scaled_matmul",
        .dim = gather_dim,
        .n = n,
        .scaled = true,
        .a_scale = a_scale,
        .scaled_bs = bs};

    return call_with(&it, group, a_shard, NULL, call, a, outs);
}
