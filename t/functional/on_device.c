/* SPDX-License-Identifier: BSD-3-Clause */
#include "t/functional/on_device.h"
#include "t/cuda/members.h"
#include "t/sanitized.h"

#include "base/tensor.h"
#include "group/group.h"

#include <stdlib.h>
#include <string.h>

#define ROWS 4 /* times the ranks */
#define COLUMNS 12

/* ---- every call, on both memories ---- */

enum form {
    ALL_REDUCE,
    AVERAGE,
    BROADCAST,
    ALL_GATHER,
    REDUCE_SCATTER,
    SCATTER_AVERAGE,
    GATHER,
    SCATTER,
    ALL_TO_ALL,
    FORMS
};

static const char *const names[] = {"all_reduce", "all_reduce of an average",
    "broadcast", "all_gather", "reduce_scatter", "reduce_scatter of an average",
    "gather", "scatter", "all_to_all"};

struct one {
    struct symmcoll_group *group;
    enum form form;
    int dim;
    bool turned; /* gradients are in the other order of dimensions */
    const struct symmcoll_call *call;
};

static symmcoll_status_t call_form(const struct one *one,
    const struct symmcoll_tensor *in, struct symmcoll_tensor *out,
    struct symmcoll_adjoint **adjoint)
{
    struct symmcoll_group *group = one->group;
    const struct symmcoll_call *call = one->call;

    switch (one->form) {
    case ALL_REDUCE:
        return symmcoll_f_all_reduce(group, in, SUM, call, out, adjoint);
    case AVERAGE:
        return symmcoll_f_all_reduce(
            group, in, SYMMCOLL_AVG, call, out, adjoint);
    case BROADCAST:
        return symmcoll_f_broadcast(group, in, 1, call, out, adjoint);
    case ALL_GATHER:
        return symmcoll_f_all_gather(group, in, one->dim, call, out, adjoint);
    case REDUCE_SCATTER:
        return symmcoll_f_reduce_scatter(
            group, in, SUM, one->dim, call, out, adjoint);
    case SCATTER_AVERAGE:
        return symmcoll_f_reduce_scatter(
            group, in, SYMMCOLL_AVG, one->dim, call, out, adjoint);
    case GATHER:
        return symmcoll_f_gather(group, in, one->dim, 1, call, out, adjoint);
    case SCATTER:
        return symmcoll_f_scatter(group, in, one->dim, 1, call, out, adjoint);
    default:
        return symmcoll_f_all_to_all(group, in, NULL, NULL, call, out, adjoint);
    }
}

/* Returns the bytes from the first element to the end of the last. */
static size_t span_of(const struct symmcoll_tensor *tensor)
{
    struct symc_tensor_span span = symc_tensor_span(tensor);

    return span.end - span.first;
}

static void *make_room(const struct symmcoll_tensor *tensor)
{
    size_t span = span_of(tensor);

    return malloc(span > 0 ? span : 1);
}

/* Copies a tensor to device memory. */
static struct symmcoll_tensor to_device(
    const struct symmcoll_tensor *host, int device)
{
    struct symmcoll_tensor made = *host;

    made.device = SYMMCOLL_CUDA;
    made.device_index = device;
    made.data = device_alloc(span_of(host));
    device_write(made.data, host->data, span_of(host));
    return made;
}

/* Checks that a tensor on a device has the shape and the bits of one in host
 * memory. */
static int is_same(const struct symmcoll_tensor *device,
    const struct symmcoll_tensor *host, int index)
{
    size_t nbytes = span_of(host);
    void *found = malloc(nbytes + 1);
    int right = device->device == SYMMCOLL_CUDA &&
                device->device_index == index && device->ndim == host->ndim &&
                memcmp(device->shape, host->shape, sizeof(host->shape)) == 0 &&
                memcmp(device->strides, host->strides,
                    (size_t)host->ndim * sizeof(*host->strides)) == 0;

    if (right) {
        device_read(found, device->data, nbytes);
        right = memcmp(found, host->data, nbytes) == 0;
    }
    free(found);
    return right;
}

/* Returns the gradient of a result: the result itself, or the same memory in
 * reverse order. */
static struct symmcoll_tensor gradient_of(
    const struct one *one, const struct symmcoll_tensor *out)
{
    struct symmcoll_tensor made = *out;
    int64_t stride = 1;

    for (int d = 0; one->turned && d < made.ndim; d++) {
        made.strides[d] = stride;
        stride *= made.shape[d];
    }
    return made;
}

/* Runs forward and backward, on both memories. */
static int agrees(const struct one *one, const struct symmcoll_tensor *host,
    const struct symmcoll_tensor *device)
{
    struct symmcoll_world *world = one->group->world;
    struct symmcoll_tensor out = SYMMCOLL_TENSOR_INIT, back = out;
    struct symmcoll_tensor device_out = out, device_back = out, grads[2];
    struct symmcoll_adjoint *adjoints[2] = {NULL, NULL};
    struct one on_host = *one;
    int right;

    on_host.call = NULL;
    right = call_form(&on_host, host, &out, &adjoints[0]) == SYMMCOLL_OK &&
            call_form(one, device, &device_out, &adjoints[1]) == SYMMCOLL_OK;
    grads[0] = gradient_of(one, &out);
    grads[1] = gradient_of(one, &device_out);
    right = right &&
            symmcoll_adjoint_run(adjoints[0], &grads[0], NULL, &back) ==
                SYMMCOLL_OK &&
            symmcoll_adjoint_run(adjoints[1], &grads[1], one->call,
                &device_back) == SYMMCOLL_OK &&
            symmcoll_f_wait(world, &back, -1) == SYMMCOLL_OK &&
            symmcoll_f_wait(world, &device_back, 60) == SYMMCOLL_OK;
    right = say(right, names[one->form]);
    right = right &&
            say(is_same(&device_out, &out, device->device_index), "forward") &&
            say(is_same(&device_back, &back, device->device_index), "back");
    if (!right)
        diag("%s along %d", names[one->form], one->dim);
    symmcoll_f_free(world, &device_back);
    symmcoll_f_free(world, &device_out);
    symmcoll_f_free(world, &back);
    symmcoll_f_free(world, &out);
    symmcoll_adjoint_free(adjoints[0]);
    symmcoll_adjoint_free(adjoints[1]);
    return right;
}

static struct symmcoll_tensor make_host(
    enum symmcoll_dtype dtype, int size, int rank)
{
    struct symmcoll_tensor made =
        SYMMCOLL_TENSOR_SHAPE(NULL, dtype, ROWS * size, COLUMNS, 3);

    made.data = make_room(&made);
    fill(dtype, made.data, (size_t)(ROWS * size * COLUMNS * 3),
        (uint64_t)rank + 1);
    return made;
}

/* Runs each form along a supported dimension, with a length divisible by the
 * ranks. */
static int runs_each(struct one *one, int rank, enum symmcoll_dtype dtype)
{
    struct symmcoll_tensor host =
        make_host(dtype, symmcoll_group_size(one->group), rank);
    struct symmcoll_tensor device = to_device(&host, device_use(rank));
    int right = 1;

    for (int form = 0; form < FORMS && right; form++) {
        for (int i = 0; i < 4 && right; i += THREADS_CHECKED ? 3 : 1) {
            one->form = (enum form)form;
            one->dim = i % 2;
            one->turned = i / 2 != 0;
            right = agrees(one, &host, &device);
        }
    }
    device_free(device.data);
    free(host.data);
    return right;
}

int functional_every_form(struct symmcoll_group *group, int rank)
{
    struct symmcoll_call call = SYMMCOLL_CALL_INIT;
    struct one one = {.group = group};
    int right;

    device_use(rank);
    call.stream = device_stream();
    right = runs_each(&one, rank, F32);
    one.call = &call;
    right = right && runs_each(&one, rank, SYMMCOLL_COMPLEX64) &&
            (THREADS_CHECKED || runs_each(&one, rank, SYMMCOLL_BFLOAT16));
    device_wait(call.stream);
    device_end_stream(call.stream);
    return right;
}

/* ---- lists ---- */

#define LISTED 4

static symmcoll_status_t call_list(struct symmcoll_group *group, enum form form,
    const struct symmcoll_tensor *in, const struct symmcoll_call *call,
    struct symmcoll_tensor *out)
{
    static const int dims[LISTED] = {0, 1, 0, 1};

    if (form == ALL_REDUCE)
        return symmcoll_f_all_reduce_coalesced(
            group, in, LISTED, SUM, call, out, NULL);
    if (form == ALL_GATHER)
        return symmcoll_f_all_gather_coalesced(
            group, in, LISTED, dims, call, out, NULL);
    return symmcoll_f_reduce_scatter_coalesced(
        group, in, LISTED, SUM, dims, call, out, NULL);
}

/* Checks that as many operations run as in host memory, with the same
 * results. */
static int lists_agree(struct symmcoll_group *group, enum form form,
    const struct symmcoll_tensor *host, const struct symmcoll_tensor *device,
    const struct symmcoll_call *call)
{
    struct symmcoll_tensor outs[2][LISTED];
    uint64_t numbers[3];
    int right;

    for (int t = 0; t < LISTED; t++)
        outs[0][t] = outs[1][t] = (struct symmcoll_tensor)SYMMCOLL_TENSOR_INIT;
    numbers[0] = symmcoll_group_sequence(group);
    right = call_list(group, form, host, NULL, outs[0]) == SYMMCOLL_OK;
    for (int t = 0; t < LISTED && right; t++)
        right = symmcoll_f_wait(group->world, &outs[0][t], 60) == SYMMCOLL_OK;
    numbers[1] = symmcoll_group_sequence(group);
    right =
        right && call_list(group, form, device, call, outs[1]) == SYMMCOLL_OK;
    for (int t = LISTED - 1; t >= 0 && right; t--)
        right = symmcoll_f_wait(group->world, &outs[1][t], 60) == SYMMCOLL_OK &&
                is_same(&outs[1][t], &outs[0][t], device[t].device_index);
    numbers[2] = symmcoll_group_sequence(group);
    for (int t = 0; t < LISTED; t++) {
        symmcoll_f_free(group->world, &outs[0][t]);
        symmcoll_f_free(group->world, &outs[1][t]);
    }
    return say(right, names[form]) &&
           say(numbers[1] == numbers[0] + 2 && numbers[2] == numbers[1] + 2,
               "an operation for each type");
}

int functional_lists(struct symmcoll_group *group, int rank)
{
    static const enum symmcoll_dtype types[LISTED] = {
        SYMMCOLL_FLOAT32, SYMMCOLL_INT16, SYMMCOLL_FLOAT32, SYMMCOLL_INT16};
    static const enum form forms[] = {ALL_REDUCE, ALL_GATHER, REDUCE_SCATTER};
    struct symmcoll_call call = SYMMCOLL_CALL_INIT;
    struct symmcoll_tensor host[LISTED], device[LISTED];
    int index = device_use(rank), right = 1;

    call.stream = device_stream();
    for (int t = 0; t < LISTED; t++) {
        host[t] = make_host(types[t], symmcoll_group_size(group), rank + t);
        device[t] = to_device(&host[t], index);
    }
    for (size_t i = 0; i < sizeof(forms) / sizeof(*forms) && right; i++)
        right = lists_agree(group, forms[i], host, device, &call);
    device_wait(call.stream);
    device_end_stream(call.stream);
    for (int t = 0; t < LISTED; t++) {
        device_free(device[t].data);
        free(host[t].data);
    }
    return right;
}

/* ---- elements in another order ---- */

/* Returns a tensor of batch, channels, height, width, with the channels
 * last. */
static struct symmcoll_tensor channels_last(
    enum symmcoll_dtype dtype, int size, int rank)
{
    struct symmcoll_tensor made =
        SYMMCOLL_TENSOR_SHAPE(NULL, dtype, size, 2 * size, 5, 7);

    made.strides[3] = made.shape[1];
    made.strides[2] = 7 * made.strides[3];
    made.strides[1] = 1;
    made.data = make_room(&made);
    fill(dtype, made.data, span_of(&made) / symmcoll_dtype_size(dtype),
        (uint64_t)rank + 9);
    return made;
}

/* Returns a tensor with separate rows, with reversed dimensions, and with one
 * row for all indices. */
static struct symmcoll_tensor transposed(
    enum symmcoll_dtype dtype, int size, int rank)
{
    struct symmcoll_tensor made =
        SYMMCOLL_TENSOR_SHAPE(NULL, dtype, 2 * size, 4 * size, 3, 2);

    made.strides[0] = 2;
    made.strides[1] = 5 * size;
    made.strides[2] = 0;
    made.strides[3] = 1;
    made.data = make_room(&made);
    fill(dtype, made.data, span_of(&made) / symmcoll_dtype_size(dtype),
        (uint64_t)rank + 9);
    return made;
}

static int restrides(
    struct symmcoll_group *group, int rank, const struct symmcoll_tensor *host)
{
    static const enum form takes[] = {
        ALL_REDUCE, BROADCAST, REDUCE_SCATTER, SCATTER};
    struct symmcoll_tensor device = to_device(host, device_use(rank));
    struct one one = {.group = group};
    int right = 1;

    for (size_t i = 0; i < sizeof(takes) / sizeof(*takes) && right; i++) {
        for (one.dim = 0; one.dim < 2 && right; one.dim++) {
            one.form = takes[i];
            right = agrees(&one, host, &device);
        }
    }
    device_free(device.data);
    free(host->data);
    return right;
}

int functional_other_orders(struct symmcoll_group *group, int rank)
{
    static const enum symmcoll_dtype types[] = {
        SYMMCOLL_FLOAT32, SYMMCOLL_COMPLEX64, SYMMCOLL_INT8};
    int size = symmcoll_group_size(group), right = 1;

    for (size_t i = 0; i < sizeof(types) / sizeof(*types) && right; i++) {
        struct symmcoll_tensor last = channels_last(types[i], size, rank);
        struct symmcoll_tensor turned = transposed(types[i], size, rank);

        right = restrides(group, rank, &last);
        right = restrides(group, rank, &turned) && right;
    }
    return right;
}
