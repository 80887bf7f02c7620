/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A product with a left operand that arrives in chunks of rows. Each chunk is
 * multiplied when its signal, a word in symmetric memory, arrives. In device
 * memory the waits and products are enqueued (async_device.c).
 */
#include "fused/async_input.h"

#include "base/tensor.h"

#include <symmcoll/symm_ops.h>

static const char name[] = "async_input_matmul";

/* ---- arguments ---- */

/* Checks that a is in the memory of the signals. */
static symmcoll_status_t check_place(
    const struct symmcoll_symm_info *info, const struct symmcoll_tensor *a)
{
    char found[SYMC_MEMORY_TEXT], expected[SYMC_MEMORY_TEXT];
    const struct symmcoll_tensor signals = {
        .device = info->device, .device_index = info->device_index};

    if (a->device == SYMMCOLL_META ||
        (a->device == info->device && a->device_index == info->device_index))
        return SYMMCOLL_OK;
    return symc_fail(SYMMCOLL_ERR_INVALID,
        "%s: expected a in %s, as the handle's signals are, found %s", name,
        symc_site_format(&signals, expected), symc_site_format(a, found));
}

static symmcoll_status_t read_args(const struct symmcoll_symm_info *info,
    const struct symmcoll_tensor *a, const struct symmcoll_tensor *b,
    struct async_input *it)
{
    symmcoll_status_t status = symc_fused_read_a(name, a, false, &it->a);

    if (status != SYMMCOLL_OK)
        return status;
    status = check_place(info, &it->a);
    if (status != SYMMCOLL_OK)
        return status;
    if (it->a.ndim != 2)
        return symc_fail(SYMMCOLL_ERR_INVALID,
            "%s: expected a of 2 dimensions, found %d", name, it->a.ndim);
    status = symc_fused_read_b(name, b, 0, 0, &it->a, it->a.shape[1], &it->b);
    if (status != SYMMCOLL_OK)
        return status;
    if (it->chunks == 0 || (size_t)it->a.shape[0] % it->chunks != 0)
        return symc_fail(SYMMCOLL_ERR_INVALID,
            "%s: expected chunks that divide the %lld rows of a, found %zu",
            name, (long long)it->a.shape[0], it->chunks);
    if (it->pivot >= it->chunks)
        return symc_fail(SYMMCOLL_ERR_INVALID,
            "%s: expected a pivot of 0 to %zu, found %zu", name, it->chunks - 1,
            it->pivot);
    return SYMMCOLL_OK;
}

static symmcoll_status_t shape_result(
    const struct symmcoll_tensor *out, struct async_input *it)
{
    struct symmcoll_tensor place, *made = &it->out.tensor;
    symmcoll_status_t status;

    if (out == NULL)
        return symc_fail(SYMMCOLL_ERR_INVALID,
            "%s: expected a place for the result, found NULL", name);
    status = symc_tensor_read(name, out, 0, &place);
    *made = it->a;
    made->data = NULL;
    made->shape[1] = it->b.shape[1];
    if (status == SYMMCOLL_OK)
        status = symc_fused_check_lengths(name, "a @ b", made);
    if (status != SYMMCOLL_OK)
        return status;
    symc_fused_stride_first(made, 0);
    return symc_fused_result_make(name, "out", &place, &it->out);
}

/* Checks that a and b lie where they say; on a device, a was checked when the
 * call began. */
static symmcoll_status_t check_memory(const struct async_input *it)
{
    const struct symc_fused_named b = {"b", -1, &it->b}, a = {"a", -1, &it->a};
    symmcoll_status_t status = SYMMCOLL_OK;

    if (it->a.device == SYMMCOLL_HOST)
        status = symc_fused_check_tensor(name, it->out.fused, &a);
    if (status == SYMMCOLL_OK && it->a.device != SYMMCOLL_META)
        status = symc_fused_check_tensor(name, it->out.fused, &b);
    return status;
}

/* Checks that the result overlaps neither operand nor the signals (words). */
static symmcoll_status_t check_apart(const struct async_input *it, void *words)
{
    const struct symmcoll_tensor signals =
        SYMMCOLL_TENSOR_FLAT(words, (int64_t)it->chunks, SYMMCOLL_INT32);
    const struct symc_fused_named out = {"out", -1, &it->out.tensor};
    const struct symc_fused_named others[] = {
        {"a", -1, &it->a}, {"b", -1, &it->b}, {"the signals", -1, &signals}};
    symmcoll_status_t status = SYMMCOLL_OK;

    for (int i = 0; i < 3 && status == SYMMCOLL_OK; i++)
        status = symc_fused_check_apart(name, &out, &others[i]);
    return status;
}

static symmcoll_status_t prepare(
    const struct symmcoll_tensor *out, struct async_input *it)
{
    void *words;
    /* Checks the range of all signals. */
    symmcoll_status_t status = symmcoll_symm_buffer(it->handle, it->rank,
        it->signals, it->chunks * sizeof(uint32_t), &words);

    if (status == SYMMCOLL_OK)
        status = shape_result(out, it);
    if (status != SYMMCOLL_OK || it->a.device == SYMMCOLL_META)
        return status;
    return check_apart(it, words);
}

/* ---- host memory ---- */

static symmcoll_status_t multiply_chunk(struct symc_fused *fused,
    const struct async_input *it, const struct async_chunk *chunk)
{
    struct symc_matrix a = symc_fused_matrix(&it->a);
    struct symc_matrix b = symc_fused_matrix(&it->b);
    struct symc_matrix c = symc_fused_matrix(&it->out.tensor);
    int64_t elem = (int64_t)symmcoll_dtype_size(it->a.dtype);

    a.rows = c.rows = chunk->rows;
    a.data = (char *)a.data + chunk->first * a.row_stride * elem;
    c.data = (char *)c.data + chunk->first * c.row_stride * elem;
    return symc_matmul(&fused->matmul, &a, &b, &c, false);
}

static symmcoll_status_t run(
    struct symc_fused *fused, const struct async_input *it)
{
    symmcoll_status_t status = symc_fused_load(fused);

    for (size_t i = 0; i < it->chunks && status == SYMMCOLL_OK; i++) {
        const struct async_chunk chunk = symc_async_chunk(it, i);

        status = symmcoll_symm_wait_value32(it->handle, chunk.source,
            chunk.signal, SYMC_ASYNC_HERE, it->timeout);
        if (status == SYMMCOLL_OK)
            status = multiply_chunk(fused, it, &chunk);
    }
    return status;
}

/* ---- the call ---- */

static symmcoll_status_t perform(const struct symc_fused_call *begun,
    const struct async_input *it, const struct symc_fused_on *on)
{
    switch (it->a.device) {
    case SYMMCOLL_HOST:
        return run(begun->fused, it);
    case SYMMCOLL_CUDA:
        return symc_async_enqueue(begun, it, on);
    default: /* shapes alone */
        return SYMMCOLL_OK;
    }
}

/* Reads the arguments, multiplies, and writes the result's tensor. */
static symmcoll_status_t multiply(const struct symc_fused_call *begun,
    const struct symmcoll_symm_info *info, const struct symmcoll_tensor *a,
    const struct symmcoll_tensor *b, struct async_input *it,
    struct symc_fused_on *on, struct symmcoll_tensor *out)
{
    symmcoll_status_t status = read_args(info, a, b, it);

    if (status == SYMMCOLL_OK && it->a.device == SYMMCOLL_CUDA)
        status = symc_async_begin(begun, it, on);
    if (status != SYMMCOLL_OK)
        return status;
    status = check_memory(it);
    if (status != SYMMCOLL_OK)
        return status;
    status = prepare(out, it);
    if (status != SYMMCOLL_OK)
        return status;
    status = perform(begun, it, on);
    if (status != SYMMCOLL_OK)
        return status;
    return symc_sized_write(&symc_tensor_kind, name, &it->out.tensor, out);
}

symmcoll_status_t symmcoll_async_input_matmul(struct symmcoll_symm *handle,
    size_t signals, size_t chunks, size_t pivot,
    const struct symmcoll_tensor *a, const struct symmcoll_tensor *b,
    const struct symmcoll_call *call, struct symmcoll_tensor *out)
{
    struct async_input it = {.name = name,
        .handle = handle,
        .signals = signals,
        .chunks = chunks,
        .pivot = pivot};
    struct symmcoll_symm_info info = SYMMCOLL_SYMM_INFO_INIT;
    struct symc_fused_on on = {.site = NULL};
    struct symc_fused_call begun;
    symmcoll_status_t status = symc_symm_check(handle, name);

    if (status != SYMMCOLL_OK)
        return status;
    status = symmcoll_symm_get_info(handle, &info);
    if (status != SYMMCOLL_OK)
        return status;
    status =
        symc_fused_begin(&begun, info.group, SYMC_SYMM_WAIT_VALUE, name, call);
    if (status != SYMMCOLL_OK)
        return status;
    it.rank = info.rank;
    it.ranks = info.nranks;
    it.timeout = begun.options.timeout;
    it.out.fused = begun.fused;
    status = multiply(&begun, &info, a, b, &it, &on, out);
    if (status != SYMMCOLL_OK)
        symc_fused_result_release(&it.out);
    symc_fused_on_end(&on);
    return symc_fused_end(&begun, status);
}
