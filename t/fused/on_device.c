/* SPDX-License-Identifier: BSD-3-Clause */
#include "t/fused/on_device.h"

#include "base/tensor.h"

#include <stdlib.h>
#include <string.h>

/* Returns the bytes from the first element to the end of the last, or 1. */
static size_t span_of(const struct symmcoll_tensor *tensor)
{
    struct symc_tensor_span span = symc_tensor_span(tensor);

    return span.end > span.first ? span.end - span.first : 1;
}

struct symmcoll_tensor on_device(const struct symmcoll_tensor *host, int device)
{
    struct symmcoll_tensor made = *host;

    made.device = SYMMCOLL_CUDA;
    made.device_index = device;
    made.data = device_alloc(span_of(host));
    device_write(made.data, host->data, span_of(host));
    return made;
}

struct symmcoll_tensor on_host(const struct symmcoll_tensor *device)
{
    struct symmcoll_tensor made = *device;

    made.device = SYMMCOLL_HOST;
    made.device_index = 0;
    made.data = malloc(span_of(device));
    device_read(made.data, device->data, span_of(device));
    return made;
}

void on_device_free(struct symmcoll_tensor *tensor)
{
    device_free(tensor->data);
    tensor->data = NULL;
}

/* ---- results in memory of the caller ---- */

/* The results of a repeated operation. */
struct results {
    struct symmcoll_tensor *at[GATHERED_MATRICES + 1];
    char *first[GATHERED_MATRICES + 1]; /* the first results */
    int n;
};

/* Places a result with the strides of an operation's result. */
static void place(struct results *it, struct symmcoll_tensor *tensor,
    enum symmcoll_dtype dtype, int ndim, const int64_t *shape, int first,
    int device)
{
    struct symmcoll_tensor made =
        made_tensor(dtype, ndim, shape, MADE_FIRST, first, 0, 0);

    *tensor = on_device(&made, device);
    free(made.data);
    it->first[it->n] = NULL;
    it->at[it->n++] = tensor;
}

/* Sets all bits, which is NaN in every type. */
static void poison(const struct results *it, CUstream stream)
{
    for (int i = 0; i < it->n; i++)
        if (cuMemsetD32Async((CUdeviceptr)(uintptr_t)it->at[i]->data,
                UINT32_MAX, span_of(it->at[i]) / sizeof(uint32_t) + 1,
                stream) != CUDA_SUCCESS)
            abort();
}

static int are_the_same(struct results *it)
{
    int right = 1;

    for (int i = 0; i < it->n; i++) {
        size_t nbytes = span_of(it->at[i]);
        char *read = malloc(nbytes);

        device_read(read, it->at[i]->data, nbytes);
        right &=
            it->first[i] == NULL || memcmp(read, it->first[i], nbytes) == 0;
        free(it->first[i]);
        it->first[i] = read;
    }
    return right || (diag("other bits than before"), 0);
}

static void drop(struct results *it)
{
    for (int i = 0; i < it->n; i++) {
        free(it->first[i]);
        on_device_free(it->at[i]);
    }
}

/* ---- operations ---- */

/* Copies the results to host memory and checks them. */
static int are_right(const struct gathered *test, int size,
    const struct symmcoll_tensor *bs, const struct symmcoll_tensor *a,
    const struct symmcoll_tensor *outs)
{
    struct symmcoll_tensor read[GATHERED_MATRICES], whole = *a;
    int right;

    if (!test->no_a)
        whole = on_host(a);
    for (int i = 0; i < test->n; i++)
        read[i] = on_host(&outs[i]);
    right = gathered_are_right(test, size, bs, &whole, read);
    for (int i = 0; i < test->n; i++)
        free(read[i].data);
    if (!test->no_a)
        free(whole.data);
    return right;
}

static void place_gathered(struct results *it, const struct gathered *test,
    int size, int device, const struct symmcoll_tensor *bs,
    struct symmcoll_tensor *a, struct symmcoll_tensor *outs)
{
    int first = test->dim == test->ndim - 1 ? 0 : test->dim;
    int64_t shape[4];

    memcpy(shape, test->shape, sizeof(shape));
    shape[test->dim] *= size;
    if (!test->no_a)
        place(it, a, test->dtype, test->ndim, shape, first, device);
    for (int i = 0; i < test->n; i++) {
        shape[test->ndim - 1] = bs[i].shape[1];
        place(it, &outs[i], test->dtype, test->ndim, shape, first, device);
    }
}

static int gather_on(struct symmcoll_group *group, int rank,
    const struct gathered *test, const struct symmcoll_call *call)
{
    int size = symmcoll_group_size(group), device = device_use(rank);
    struct symmcoll_world *world = symmcoll_group_world(group);
    struct symmcoll_tensor bs[GATHERED_MATRICES], on[GATHERED_MATRICES];
    struct symmcoll_tensor outs[GATHERED_MATRICES], init = SYMMCOLL_TENSOR_INIT;
    struct symmcoll_tensor a = init, shard = gathered_shard(test, rank);
    struct symmcoll_tensor moved = on_device(&shard, device);
    struct results results = {.n = 0};
    int right = 1;

    gathered_matrices(test, rank, size, bs);
    for (int i = 0; i < test->n; i++) {
        on[i] = on_device(&bs[i], device);
        outs[i] = init;
    }
    if (test->repeated > 0)
        place_gathered(&results, test, size, device, bs, &a, outs);
    for (int i = 0; right && (i == 0 || i < test->repeated); i++) {
        poison(&results, call->stream);
        right = OK(symmcoll_fused_all_gather_matmul(group, &moved, on, test->n,
            test->dim, call, test->no_a ? NULL : &a, outs));
        device_wait(call->stream);
        right = right && (i > 0 || are_right(test, size, bs, &a, outs)) &&
                are_the_same(&results);
    }
    for (int i = 0; i < test->n; i++) {
        if (test->repeated == 0)
            symmcoll_f_free(world, &outs[i]);
        on_device_free(&on[i]);
        free(bs[i].data);
    }
    if (test->repeated == 0)
        symmcoll_f_free(world, &a);
    device_wait(call->stream);
    drop(&results);
    on_device_free(&moved);
    free(shard.data);
    if (!right)
        diag("rank %d: %d dimensions of %s, gather_dim %d, order %d, %d%s",
            rank, test->ndim, symmcoll_dtype_name(test->dtype), test->dim,
            (int)test->order, (int)test->b_order, test->no_a ? ", no A" : "");
    return right;
}

int gathered_on_device(
    struct symmcoll_group *group, int rank, const struct gathered *test)
{
    struct symmcoll_call call = SYMMCOLL_CALL_INIT;
    CUstream stream;
    int right;

    device_use(rank);
    call.stream = stream = device_stream();
    right = gather_on(group, rank, test, &call);
    device_end_stream(stream);
    return right;
}

static int scatter_on(struct symmcoll_group *group, int rank,
    const struct scattered *asked, const struct symmcoll_call *call)
{
    int size = symmcoll_group_size(group), device = device_use(rank);
    struct scattered test = *asked;
    struct symmcoll_tensor a, b, moved_a, moved_b, read;
    struct symmcoll_tensor out = SYMMCOLL_TENSOR_INIT;
    struct results results = {.n = 0};
    int64_t shape[4];
    int right = 1;

    scattered_operands(&test, rank, size, &a, &b);
    moved_a = on_device(&a, device);
    moved_b = on_device(&b, device);
    memcpy(shape, test.shape, sizeof(shape));
    shape[test.ndim - 1] = b.shape[1];
    shape[test.dim] /= size;
    if (test.repeated > 0)
        place(&results, &out, test.dtype, test.ndim, shape, 0, device);
    for (int i = 0; right && (i == 0 || i < test.repeated); i++) {
        poison(&results, call->stream);
        right = OK(symmcoll_fused_matmul_reduce_scatter(
            group, &moved_a, &moved_b, test.op, test.dim, call, &out));
        device_wait(call->stream);
        if (right && i == 0) {
            read = on_host(&out);
            right = scattered_is_right(&test, size, rank, &a, &b, &read);
            free(read.data);
        }
        right = right && are_the_same(&results);
    }
    if (test.repeated == 0)
        symmcoll_f_free(symmcoll_group_world(group), &out);
    device_wait(call->stream);
    drop(&results);
    on_device_free(&moved_a);
    on_device_free(&moved_b);
    free(a.data);
    free(b.data);
    if (!right)
        diag("rank %d: %d dimensions of %s, scatter_dim %d, order %d, %d", rank,
            test.ndim, symmcoll_dtype_name(test.dtype), test.dim,
            (int)test.order, (int)test.b_order);
    return right;
}

int scattered_on_device(
    struct symmcoll_group *group, int rank, const struct scattered *test)
{
    struct symmcoll_call call = SYMMCOLL_CALL_INIT;
    CUstream stream;
    int right;

    device_use(rank);
    call.stream = stream = device_stream();
    right = scatter_on(group, rank, test, &call);
    device_end_stream(stream);
    return right;
}
