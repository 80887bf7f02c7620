/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A product with a left operand that arrives in chunks of rows, in device
 * memory: for each chunk, the call's stream waits for the signal and
 * multiplies.
 */
#include "fused/async_input.h"
#include "symm_ops/operate.h"

/* A call. */
struct enqueued {
    const struct async_input *it;
    const struct symc_fused *fused;
    struct symc_site *site;
    void *stream;
    struct symc_product product; /* product of one chunk */
    void *plan;                  /* NULL: no elements, or no depth */
    size_t elem;
    size_t line; /* bytes from one row of a to the next */
    /* Memory of this call: operands with strides that a product cannot take. */
    void *packed_a, *packed_b, *workspace;
};

symmcoll_status_t symc_async_begin(const struct symc_fused_call *begun,
    struct async_input *it, struct symc_fused_on *on)
{
    symmcoll_status_t status = symc_fused_on_begin(
        begun->fused, SYMC_SYMM_WAIT_VALUE, begun, &it->a, on);

    it->out.site = on->site;
    return status;
}

/* ---- preparation, before anything waits ---- */

static symmcoll_status_t allocate(
    const struct enqueued *call, int64_t count, void **memory)
{
    return symc_site_alloc(
        call->it->name, call->site, (size_t)count, call->elem, memory);
}

/* Packs rows of a tensor, which become contiguous. */
static symmcoll_status_t pack(const struct enqueued *call,
    const struct symmcoll_tensor *tensor, int64_t first, int64_t rows, void *to)
{
    const int64_t shape[] = {rows, tensor->shape[1]};
    const struct symc_strided copy = {
        .out = (char *)to + (size_t)(first * tensor->shape[1]) * call->elem,
        .in = (const char *)tensor->data +
              first * tensor->strides[0] * (int64_t)call->elem,
        .elem = call->elem,
        .ndim = 2,
        .shape = shape,
        .strides = tensor->strides};

    return rows > 0 && tensor->shape[1] > 0 ? symc_site_copy(call->site, &copy)
                                            : SYMMCOLL_OK;
}

static symmcoll_status_t lay_out_a(struct enqueued *call)
{
    const struct symmcoll_tensor *a = &call->it->a;
    struct symc_product_matrix *matrix = &call->product.a;
    int64_t rows = symc_async_chunk(call->it, 0).rows;
    symmcoll_status_t status = SYMMCOLL_OK;
    uint32_t alignment;

    if (!symc_fused_device_matrix(a, matrix)) {
        *matrix = symc_fused_device_rows(a->dtype, rows, a->shape[1], 0);
        status = allocate(call, a->shape[0] * a->shape[1], &call->packed_a);
    }
    matrix->rows = rows;
    call->line =
        (matrix->by_columns ? 1 : (size_t)matrix->distance) * call->elem;
    alignment =
        symc_product_alignment(NULL, (int64_t)((size_t)rows * call->line));
    if (alignment < matrix->alignment)
        matrix->alignment = alignment;
    return status;
}

static symmcoll_status_t lay_out_b(struct enqueued *call)
{
    const struct symmcoll_tensor *b = &call->it->b;
    symmcoll_status_t status;

    if (symc_fused_device_matrix(b, &call->product.b))
        return SYMMCOLL_OK;
    call->product.b =
        symc_fused_device_rows(b->dtype, b->shape[0], b->shape[1], 0);
    status = allocate(call, b->shape[0] * b->shape[1], &call->packed_b);
    return status == SYMMCOLL_OK ? pack(call, b, 0, b->shape[0], call->packed_b)
                                 : status;
}

/* Makes and loads the plan. A captured product gets no workspace, since the
 * memory of this call is gone when the graph runs; the result is the same
 * without. */
static symmcoll_status_t make_plan(
    struct enqueued *call, struct symc_fused *fused, bool captured)
{
    const struct symmcoll_tensor *out = &call->it->out.tensor;
    struct symc_product *product = &call->product;
    int64_t rows = product->a.rows, cols = out->shape[1];
    uint32_t alignment = symc_product_alignment(out->data, 0);
    size_t workspace = 0;
    symmcoll_status_t status;

    product->c = symc_fused_device_rows(
        out->dtype, rows, cols, (size_t)(rows * cols) * call->elem);
    if (alignment < product->c.alignment)
        product->c.alignment = alignment;
    product->workspace = captured ? 0 : SYMC_FUSED_WORKSPACE;
    status = symc_fused_device_plan(fused, call->it->name, SYMC_FUSED_WHOLE,
        product, &call->plan, &workspace);
    if (status == SYMMCOLL_OK && fused->device->cold[SYMC_FUSED_WHOLE])
        status = symc_fused_name_error(
            call->it->name, symc_fused_device_load(fused, SYMC_FUSED_WHOLE));
    if (status != SYMMCOLL_OK || workspace == 0)
        return status;
    return symc_site_alloc(
        call->it->name, call->site, workspace, 1, &call->workspace);
}

/* ---- chunks ---- */

static symmcoll_status_t multiply(
    const struct enqueued *call, const struct async_chunk *chunk)
{
    const struct async_input *it = call->it;
    const struct symc_fused_device *device = call->fused->device;
    const char *a = call->packed_a != NULL ? call->packed_a : it->a.data;
    size_t line = (size_t)it->out.tensor.shape[1] * call->elem;
    struct symc_product_operands operands = {
        .a = a + (size_t)chunk->first * call->line,
        .b = call->packed_b != NULL ? call->packed_b : it->b.data,
        .c = (char *)it->out.tensor.data + (size_t)chunk->first * line,
        .workspace = call->workspace};

    if (call->plan == NULL)
        return symc_site_clear(
            call->site, operands.c, (size_t)chunk->rows * line);
    return symc_fused_name_error(
        it->name, device->ops->multiply(
                      device->compute, call->plan, &operands, call->stream));
}

static symmcoll_status_t enqueue_chunks(const struct enqueued *call)
{
    const struct async_input *it = call->it;
    symmcoll_status_t status = SYMMCOLL_OK;

    for (size_t i = 0; i < it->chunks && status == SYMMCOLL_OK; i++) {
        const struct async_chunk chunk = symc_async_chunk(it, i);

        status = symc_symm_enqueue_wait(it->handle, chunk.source, chunk.signal,
            SYMC_ASYNC_HERE, it->timeout, call->stream);
        if (status == SYMMCOLL_OK && call->packed_a != NULL)
            status =
                pack(call, &it->a, chunk.first, chunk.rows, call->packed_a);
        if (status != SYMMCOLL_OK)
            return status;
        status = multiply(call, &chunk);
    }
    return status;
}

static void release(struct symc_site *site, void *memory)
{
    if (memory != NULL)
        symc_site_release(site, memory);
}

symmcoll_status_t symc_async_enqueue(const struct symc_fused_call *begun,
    const struct async_input *it, const struct symc_fused_on *on)
{
    struct enqueued call = {.it = it,
        .fused = begun->fused,
        .site = on->site,
        .stream = on->stream,
        .elem = symmcoll_dtype_size(it->a.dtype)};
    symmcoll_status_t status = lay_out_a(&call);

    if (status != SYMMCOLL_OK)
        goto release_memory;
    status = lay_out_b(&call);
    if (status != SYMMCOLL_OK)
        goto release_memory;
    status = make_plan(&call, begun->fused, on->captured);
    if (status != SYMMCOLL_OK)
        goto release_memory;
    status = enqueue_chunks(&call);

release_memory:
    release(on->site, call.workspace);
    release(on->site, call.packed_b);
    release(on->site, call.packed_a);
    return status;
}
