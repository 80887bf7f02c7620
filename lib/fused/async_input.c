/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A product whose left operand arrives in chunks of rows: each is multiplied
 * when its signal is there, a word in symmetric memory.
 */
#include "base/tensor.h"
#include "fused/fused.h"
#include "symm_mem/symm_mem.h"

#include <symmcoll/symm_mem.h>
#include <symmcoll/symm_ops.h>

#include <stdlib.h>

#define HERE 1 /* the value of a signal */

static const char name[] = "async_input_matmul";

struct product {
    struct symmcoll_symm *handle;
    size_t signals; /* byte of the first */
    size_t chunks;
    size_t pivot;
    int ranks;
    double timeout;
    struct symmcoll_tensor a, b;
    struct symc_fused_result out;
};

static symmcoll_status_t read_args(const struct symmcoll_tensor *a,
    const struct symmcoll_tensor *b, struct product *it)
{
    symmcoll_status_t status = symc_fused_read_a(name, a, false, &it->a);

    if (status == SYMMCOLL_OK && it->a.device == SYMMCOLL_CUDA)
        return symc_fail(SYMMCOLL_ERR_UNSUPPORTED,
            "%s: expected a tensor in host memory, found device %d", name,
            (int)it->a.device);
    if (status == SYMMCOLL_OK && it->a.ndim != 2)
        return symc_fail(SYMMCOLL_ERR_INVALID,
            "%s: expected a of 2 dimensions, found %d", name, it->a.ndim);
    if (status == SYMMCOLL_OK)
        status =
            symc_fused_read_b(name, b, 0, 0, &it->a, it->a.shape[1], &it->b);
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
    const struct symmcoll_tensor *out, struct product *it)
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

static symmcoll_status_t multiply_chunk(
    struct symc_fused *fused, const struct product *it, size_t chunk)
{
    struct symc_matrix a = symc_fused_matrix(&it->a);
    struct symc_matrix b = symc_fused_matrix(&it->b);
    struct symc_matrix c = symc_fused_matrix(&it->out.tensor);
    int64_t first, elem = (int64_t)symmcoll_dtype_size(it->a.dtype);

    a.rows = c.rows = it->a.shape[0] / (int64_t)it->chunks;
    first = (int64_t)chunk * a.rows;
    a.data = (char *)a.data + first * a.row_stride * elem;
    c.data = (char *)c.data + first * c.row_stride * elem;
    return symc_matmul(&fused->matmul, &a, &b, &c, false);
}

static symmcoll_status_t run(struct symc_fused *fused, const struct product *it)
{
    symmcoll_status_t status = SYMMCOLL_OK;

    for (size_t i = 0; i < it->chunks && status == SYMMCOLL_OK; i++) {
        size_t chunk = (it->pivot + i) % it->chunks;
        int source = (int)(chunk * (size_t)it->ranks / it->chunks);

        status = symmcoll_symm_wait_value32(it->handle, source,
            it->signals + chunk * sizeof(uint32_t), HERE, it->timeout);
        if (status == SYMMCOLL_OK)
            status = multiply_chunk(fused, it, chunk);
    }
    return status;
}

/* words: the signals. */
static symmcoll_status_t check_apart(const struct product *it, void *words)
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

static symmcoll_status_t prepare(const struct symmcoll_tensor *a,
    const struct symmcoll_tensor *b, const struct symmcoll_tensor *out,
    int rank, struct product *it)
{
    void *words;
    symmcoll_status_t status = read_args(a, b, it);

    if (status == SYMMCOLL_OK) /* all of them are there */
        status = symmcoll_symm_buffer(it->handle, rank, it->signals,
            it->chunks * sizeof(uint32_t), &words);
    if (status == SYMMCOLL_OK)
        status = shape_result(out, it);
    if (status != SYMMCOLL_OK || it->a.device == SYMMCOLL_META)
        return status;
    return check_apart(it, words);
}

symmcoll_status_t symmcoll_async_input_matmul(struct symmcoll_symm *handle,
    size_t signals, size_t chunks, size_t pivot,
    const struct symmcoll_tensor *a, const struct symmcoll_tensor *b,
    const struct symmcoll_call *call, struct symmcoll_tensor *out)
{
    struct product it = {
        .handle = handle, .signals = signals, .chunks = chunks, .pivot = pivot};
    struct symmcoll_symm_info info = SYMMCOLL_SYMM_INFO_INIT;
    struct symc_fused_call begun;
    symmcoll_status_t status = symc_symm_check(handle, name);

    if (status == SYMMCOLL_OK)
        status = symmcoll_symm_get_info(handle, &info);
    if (status == SYMMCOLL_OK && info.device != SYMMCOLL_HOST)
        status = symc_fail(SYMMCOLL_ERR_UNSUPPORTED,
            "%s: expected a handle on host memory, found %p in memory of CUDA "
            "device %d",
            name, info.buffers[info.rank], info.device_index);
    if (status == SYMMCOLL_OK)
        status = symc_fused_begin(
            &begun, info.group, SYMC_SYMM_WAIT_VALUE, name, call);
    if (status != SYMMCOLL_OK)
        return status;
    it.ranks = info.nranks;
    it.timeout = begun.options.timeout;
    status = prepare(a, b, out, info.rank, &it);
    if (status == SYMMCOLL_OK && it.a.device == SYMMCOLL_HOST)
        status = symc_fused_load(begun.fused);
    if (status == SYMMCOLL_OK && it.a.device == SYMMCOLL_HOST)
        status = run(begun.fused, &it);
    if (status == SYMMCOLL_OK)
        status = symc_sized_write(&symc_tensor_kind, name, &it.out.tensor, out);
    if (status != SYMMCOLL_OK && it.out.made)
        free(it.out.tensor.data);
    return symc_fused_end(&begun, status);
}
