/* SPDX-License-Identifier: BSD-3-Clause */
#include "t/fused/eighths_on_device.h"
#include "t/fused/on_device.h"

#include <stdlib.h>
#include <string.h>

/* ---- operands ---- */

/* A tensor on a device, at an offset in its memory. */
struct moved {
    struct symmcoll_tensor tensor;
    char *memory;
};

static struct moved move(
    const struct symmcoll_tensor *host, int device, int shift)
{
    struct moved made = {.tensor = *host};
    int64_t count = made_count(host);
    size_t elem = symmcoll_dtype_size(host->dtype);
    size_t span = elem;

    for (int64_t i = 0; i < count; i++)
        if ((size_t)(made_offset(host, i) + 1) * elem > span)
            span = (size_t)(made_offset(host, i) + 1) * elem;
    made.memory = device_alloc(span + (size_t)shift);
    made.tensor.device = SYMMCOLL_CUDA;
    made.tensor.device_index = device;
    made.tensor.data = made.memory + shift;
    device_write(made.tensor.data, host->data, span);
    return made;
}

/* A matrix and its scales; the latter have 4 bytes each. */
struct moved_matrix {
    struct moved b, columns;
    struct symmcoll_scaled_matrix scaled;
};

static void move_matrix(struct moved_matrix *made,
    const struct eighths_matrix *matrix, int device, int shift)
{
    made->b = move(&matrix->b, device, shift);
    made->columns = move(&matrix->columns, device, shift * 4);
    made->scaled = matrix->scaled;
    made->scaled.b = &made->b.tensor;
    made->scaled.b_scale = &made->columns.tensor;
}

static void drop_matrix(struct moved_matrix *made)
{
    device_free(made->b.memory);
    device_free(made->columns.memory);
}

/* ---- results ---- */

static size_t nbytes_of(const struct symmcoll_tensor *tensor)
{
    return (size_t)made_count(tensor) * symmcoll_dtype_size(tensor->dtype);
}

/* Fills memory of the caller with ones, which are NaN in every type. */
static void fill_with_nan(const struct symmcoll_tensor *tensor, CUstream stream)
{
    size_t words = (nbytes_of(tensor) + 3) / 4; /* allocations are multiples of
                                                 * that */

    if (words > 0 && cuMemsetD32Async((CUdeviceptr)(uintptr_t)tensor->data,
                         UINT32_MAX, words, stream) != CUDA_SUCCESS)
        abort();
}

static void place(struct symmcoll_tensor *tensor, enum symmcoll_dtype dtype,
    int ndim, const int64_t *shape, int first, int device)
{
    struct symmcoll_tensor made =
        made_tensor(dtype, ndim, shape, MADE_FIRST, first, 0, 0);

    *tensor = on_device(&made, device);
    free(made.data);
}

/* Compares with the first result, which is kept. */
static int is_the_same(
    const struct symmcoll_tensor *found, struct symmcoll_tensor *first)
{
    struct symmcoll_tensor read = on_host(found);
    int right;

    if (first->data == NULL) {
        *first = read;
        return 1;
    }
    right = memcmp(read.data, first->data, nbytes_of(found)) == 0;
    free(read.data);
    return right || (diag("other bits than before"), 0);
}

/* ---- gathering ---- */

struct gathering {
    struct symmcoll_group *group;
    const struct eighths *test;
    int rank, size, device;
    struct symmcoll_call call;
    struct moved shard, scale;
    struct eighths_matrix matrices[EIGHTHS_MATRICES];
    struct moved_matrix moved[EIGHTHS_MATRICES];
    struct symmcoll_scaled_matrix bs[EIGHTHS_MATRICES];
    struct symmcoll_tensor outs[EIGHTHS_MATRICES + 1]; /* A is the last one */
    struct symmcoll_tensor first[EIGHTHS_MATRICES + 1];
};

static void begin_gathering(struct gathering *it)
{
    static const struct symmcoll_tensor init = SYMMCOLL_TENSOR_INIT;
    const struct eighths *test = it->test;
    struct symmcoll_tensor shard, scale;
    int64_t shape[4];

    eighths_gathered(test, it->size, it->rank, &shard, &scale, it->matrices);
    it->shard = move(&shard, it->device, test->shift);
    it->scale = move(&scale, it->device, test->shift * 4);
    memcpy(shape, test->shape, sizeof(shape));
    shape[test->dim] *= it->size;
    for (int i = 0; i <= EIGHTHS_MATRICES; i++)
        it->outs[i] = it->first[i] = init;
    if (test->repeated > 0 && !test->no_a)
        place(&it->outs[EIGHTHS_MATRICES], test->a_dtype, test->ndim, shape,
            test->dim, it->device);
    for (int i = 0; i < test->n; i++) {
        move_matrix(&it->moved[i], &it->matrices[i], it->device, test->shift);
        it->bs[i] = it->moved[i].scaled;
        shape[test->ndim - 1] = it->matrices[i].width;
        if (test->repeated > 0)
            place(&it->outs[i], it->bs[i].out_dtype, test->ndim, shape,
                test->dim, it->device);
    }
    free(shard.data);
    free(scale.data);
}

static void end_gathering(struct gathering *it)
{
    struct symmcoll_world *world = symmcoll_group_world(it->group);

    for (int i = 0; i <= EIGHTHS_MATRICES; i++) {
        free(it->first[i].data);
        if (it->test->repeated > 0)
            on_device_free(&it->outs[i]);
        else
            symmcoll_f_free(world, &it->outs[i]);
    }
    for (int i = 0; i < it->test->n; i++) {
        drop_matrix(&it->moved[i]);
        eighths_free(&it->matrices[i]);
    }
    device_wait(it->call.stream);
    device_free(it->shard.memory);
    device_free(it->scale.memory);
    device_end_stream(it->call.stream);
}

/* Puts the scales where results will be written. */
static void put_scales(struct gathering *it)
{
    struct moved *const moved[] = {&it->scale, &it->moved[0].columns};
    char *to = it->outs[EIGHTHS_MATRICES].data;

    for (int i = 0; i < 2; i++) {
        size_t nbytes = nbytes_of(&moved[i]->tensor);

        moved[i]->tensor.data = to;
        if (cuMemcpyAsync((CUdeviceptr)(uintptr_t)to,
                (CUdeviceptr)(uintptr_t)moved[i]->memory, nbytes,
                it->call.stream) != CUDA_SUCCESS)
            abort();
        to += nbytes;
    }
}

static int gather(struct gathering *it, bool again)
{
    const struct eighths *test = it->test;
    struct symmcoll_tensor *a = test->no_a ? NULL : &it->outs[EIGHTHS_MATRICES];
    int right;

    for (int i = 0; i <= EIGHTHS_MATRICES; i++)
        if (it->outs[i].data != NULL)
            fill_with_nan(&it->outs[i], it->call.stream);
    if (test->over_scales)
        put_scales(it);
    right = OK(symmcoll_fused_all_gather_scaled_matmul(it->group,
        &it->shard.tensor, &it->scale.tensor, it->bs, test->n, test->dim,
        &it->call, a, it->outs));
    device_wait(it->call.stream);
    for (int i = 0; i < test->n && right; i++)
        right = is_the_same(&it->outs[i], &it->first[i]);
    if (right && a != NULL)
        right = is_the_same(a, &it->first[EIGHTHS_MATRICES]);
    return right &&
           (again ||
               eighths_are_gathered(test, it->size, it->rank, it->matrices,
                   a != NULL ? &it->first[EIGHTHS_MATRICES] : NULL, it->first));
}

int eighths_gather_on_device(
    struct symmcoll_group *group, int rank, const struct eighths *test)
{
    struct gathering it = {.group = group,
        .test = test,
        .rank = rank,
        .size = symmcoll_group_size(group),
        .device = device_use(rank),
        .call = SYMMCOLL_CALL_INIT};
    int right = 1;

    it.call.stream = device_stream();
    begin_gathering(&it);
    for (int i = 0; right && (i == 0 || i < test->repeated); i++)
        right = gather(&it, i > 0);
    end_gathering(&it);
    if (!right)
        eighths_say(test, rank);
    return right;
}

/* ---- scattering ---- */

int eighths_scatter_on_device(
    struct symmcoll_group *group, int rank, const struct eighths *test)
{
    int size = symmcoll_group_size(group), device = device_use(rank), right = 1;
    struct symmcoll_call call = SYMMCOLL_CALL_INIT;
    struct symmcoll_tensor a, scale, out = SYMMCOLL_TENSOR_INIT, first = out;
    struct eighths_matrix matrix;
    struct moved_matrix moved;
    struct moved moved_a, moved_scale;
    char *memory = NULL; /* of a result at an unaligned address */
    int64_t shape[4];

    call.stream = device_stream();
    eighths_scattered(test, size, rank, &a, &scale, &matrix);
    moved_a = move(&a, device, test->shift);
    moved_scale = move(&scale, device, test->shift * 4);
    move_matrix(&moved, &matrix, device, test->shift);
    memcpy(shape, test->shape, sizeof(shape));
    shape[test->ndim - 1] =
        matrix.width / (test->dim == test->ndim - 1 ? size : 1);
    if (test->repeated > 0)
        place(&out, matrix.scaled.out_dtype, test->ndim, shape, 0, device);
    if (test->repeated > 0 && test->shift > 0) {
        memory = device_alloc(nbytes_of(&out) + sizeof(float));
        device_free(out.data);
        out.data = memory + sizeof(float);
    }
    for (int i = 0; right && (i == 0 || i < test->repeated); i++) {
        if (out.data != NULL)
            fill_with_nan(&out, call.stream);
        right = OK(symmcoll_fused_scaled_matmul_reduce_scatter(group,
            &moved_a.tensor, &moved_scale.tensor, &moved.scaled, test->op,
            test->dim, &call, &out));
        device_wait(call.stream);
        right =
            right && is_the_same(&out, &first) &&
            (i > 0 || eighths_are_scattered(test, size, rank, &matrix, &first));
    }
    free(first.data);
    if (memory != NULL)
        device_free(memory);
    else if (test->repeated > 0)
        on_device_free(&out);
    else
        symmcoll_f_free(symmcoll_group_world(group), &out);
    device_wait(call.stream);
    drop_matrix(&moved);
    device_free(moved_a.memory);
    device_free(moved_scale.memory);
    device_end_stream(call.stream);
    eighths_free(&matrix);
    free(a.data);
    free(scale.data);
    if (!right)
        eighths_say(test, rank);
    return right;
}
