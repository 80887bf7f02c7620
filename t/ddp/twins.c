/* SPDX-License-Identifier: BSD-3-Clause */
#include "t/ddp/twins.h"

#include "base/tensor.h"

#include <stdlib.h>
#include <string.h>

#define ROOM 4096 /* largest parameter in bytes */
#define PLACES 3  /* places where a gradient may begin, an element apart */

size_t twins_span(const struct symmcoll_tensor *tensor)
{
    struct symc_tensor_span span = symc_tensor_span(tensor);

    return span.end - span.first;
}

size_t twins_nbytes(const struct symmcoll_tensor *tensor)
{
    size_t nbytes = symmcoll_dtype_size(tensor->dtype);

    for (int d = 0; d < tensor->ndim; d++)
        nbytes *= (size_t)tensor->shape[d];
    return nbytes;
}

/* ---- parameters ---- */

static void describe(struct symmcoll_tensor *params)
{
    const struct symmcoll_tensor made[TWINS_PARAMS] = {
        SYMMCOLL_TENSOR_SHAPE(NULL, SYMMCOLL_FLOAT32, 17, 7),
        SYMMCOLL_TENSOR_FLAT(NULL, 13, SYMMCOLL_FLOAT32),
        SYMMCOLL_TENSOR_FLAT(NULL, 1, SYMMCOLL_BFLOAT16),
        SYMMCOLL_TENSOR_SHAPE(NULL, SYMMCOLL_FLOAT16, 5, 9),
        SYMMCOLL_TENSOR_SHAPE(NULL, SYMMCOLL_FLOAT64, 6, 4),
        SYMMCOLL_TENSOR_SHAPE(NULL, SYMMCOLL_FLOAT32, 2, 3, 5),
        SYMMCOLL_TENSOR_FLAT(NULL, 0, SYMMCOLL_FLOAT32),
        SYMMCOLL_TENSOR_FLAT(NULL, 11, SYMMCOLL_COMPLEX64),
        SYMMCOLL_TENSOR_SHAPE(NULL, SYMMCOLL_COMPLEX128, 3, 2),
        SYMMCOLL_TENSOR_SHAPE(NULL, SYMMCOLL_FLOAT32, 17, 7)};

    memcpy(params, made, sizeof(made));
    params[4].strides[0] = 10; /* gaps between rows */
    params[5].strides[0] = 15; /* channels last */
    params[5].strides[1] = 1;
    params[5].strides[2] = 3;
    params[8].strides[0] = 1; /* columns apart */
    params[8].strides[1] = 5;
}

/* Returns the bytes for a gradient, which has no gaps, at any of its places. */
static size_t grad_room(const struct symmcoll_tensor *tensor)
{
    return twins_nbytes(tensor) +
           (PLACES - 1) * symmcoll_dtype_size(tensor->dtype);
}

static void tie(struct twin *twin)
{
    twin->params[TWINS_TIED].data = twin->params[0].data;
    twin->grads[TWINS_TIED] = twin->grads[0];
}

static void make_params(struct twins *twins)
{
    int made = twins->tied ? TWINS_TIED : TWINS_PARAMS;
    char *bytes = malloc(ROOM);
    int device = device_use(twins->rank);

    describe(twins->host.params);
    describe(twins->device.params);
    for (int p = 0; p < TWINS_PARAMS; p++) {
        struct symmcoll_tensor *host = &twins->host.params[p];
        struct symmcoll_tensor *there = &twins->device.params[p];

        there->device = SYMMCOLL_CUDA;
        there->device_index = device;
        if (p >= made)
            break;
        fill(host->dtype, bytes,
            twins_span(host) / 16 * 16 / symmcoll_dtype_size(host->dtype),
            100 * (uint64_t)twins->rank + (uint64_t)p + 1);
        host->data = calloc(1, ROOM);
        memcpy(host->data, bytes, twins_span(host) / 16 * 16);
        there->data = device_alloc(ROOM);
        device_write(there->data, host->data, ROOM);
        twins->host.grads[p] = calloc(1, grad_room(host));
        twins->device.grads[p] = device_alloc(grad_room(host));
    }
    free(bytes);
    if (twins->tied) {
        tie(&twins->host);
        tie(&twins->device);
    }
}

static int make_reducer(
    struct twin *twin, const struct symmcoll_reducer_args *args)
{
    return say(symmcoll_reducer_create(twin->group, twin->params, TWINS_PARAMS,
                   args, &twin->reducer) == SYMMCOLL_OK,
        twin->on_device ? "a reducer on a device" : "a reducer");
}

int twins_begin(struct twins *twins, struct symmcoll_group *group, int rank,
    const struct symmcoll_reducer_args *args, symmcoll_bucket_fn device_hook)
{
    struct symmcoll_reducer_args here = *args, there = *args;

    *twins = (struct twins){.rank = rank,
        .size = symmcoll_group_size(group),
        .views = args->gradient_as_bucket_view != 0,
        .write_back = args->write_back != 0,
        .named = args->grads != NULL,
        .repeats = args->static_graph != 0,
        .tied = args->write_back == 0 || args->grads != NULL,
        .drawn = (uint64_t)rank * 1000 + 17};
    twins->host.group = twins->device.group = group;
    twins->device.on_device = true;
    make_params(twins);
    if (device_hook != NULL)
        there.hook = device_hook;
    if (twins->named) {
        here.grads = (void **)twins->host.grads;
        there.grads = (void **)twins->device.grads;
    }
    return make_reducer(&twins->host, &here) &&
           make_reducer(&twins->device, &there);
}

void twins_end(struct twins *twins)
{
    symmcoll_reducer_free(twins->host.reducer);
    symmcoll_reducer_free(twins->device.reducer);
    device_wait(twins->device.stream);
    for (int p = 0; p < (twins->tied ? TWINS_TIED : TWINS_PARAMS); p++) {
        free(twins->host.params[p].data);
        free(twins->host.grads[p]);
        device_free(twins->device.params[p].data);
        device_free(twins->device.grads[p]);
    }
}

void twins_use(struct twins *twins, CUstream stream)
{
    twins->device.stream = stream;
    if (symmcoll_group_set_stream(twins->device.group, stream) != SYMMCOLL_OK)
        diag("%s", symmcoll_last_error());
}

/* ---- a backward ---- */

static uint64_t draw(struct twins *twins, uint64_t below)
{
    twins->drawn = twins->drawn * 6364136223846793005u + 1442695040888963407u;
    return (twins->drawn >> 33) % below;
}

/* Writes a twin's gradient, as backward would enqueue it. Returns its
 * address. */
static const void *write_gradient(
    struct twin *twin, int p, const void *value, bool views, size_t shift)
{
    size_t nbytes = twins_nbytes(&twin->params[p]);
    char *to = twin->grads[p] + shift;
    struct symmcoll_tensor view = SYMMCOLL_TENSOR_INIT;

    if (views &&
        symmcoll_reducer_grad(twin->reducer, p, &view) == SYMMCOLL_OK) {
        to = view.data;
        nbytes = twins_nbytes(&view);
    }
    if (!twin->on_device)
        memcpy(to, value, nbytes);
    else if (nbytes > 0)
        cuMemcpyAsync((CUdeviceptr)(uintptr_t)to, (CUdeviceptr)(uintptr_t)value,
            nbytes, twin->stream);
    return to;
}

static int pass_gradient(struct twins *twins, struct twin *twin, int p)
{
    struct symmcoll_tensor tensor = twin->params[p], view = tensor;
    size_t elem = symmcoll_dtype_size(tensor.dtype);
    size_t shift = twins->named ? 0 : elem * draw(twins, PLACES);
    char *value = malloc(ROOM);
    int right = 1;

    if (twins->views)
        right = symmcoll_reducer_grad(twin->reducer, p, &view) == SYMMCOLL_OK;
    elem = symmcoll_dtype_size(view.dtype);
    fill(view.dtype, value, twins_nbytes(&view) / elem, draw(twins, 1000));
    right = right && say(symmcoll_reducer_ready(twin->reducer, p,
                             write_gradient(twin, p, value, twins->views,
                                 shift)) == SYMMCOLL_OK,
                         "ready");
    twin->passed[p] = true;
    if (twin->on_device)
        device_wait(twin->stream); /* value goes */
    free(value);
    return right;
}

static int finish(struct twins *twins, struct twin *twin, int sync)
{
    symmcoll_status_t wanted = SYMMCOLL_OK;

    for (int p = 0; sync && p < TWINS_PARAMS; p++) {
        if (twins->write_back && !twins->named && !twin->passed[p] &&
            twins_nbytes(&twin->params[p]) > 0)
            wanted = SYMMCOLL_ERR_INVALID;
        twin->passed[p] = false;
    }
    return say(symmcoll_reducer_finish(twin->reducer) == wanted, "finish");
}

static int run_twin(struct twins *twins, struct twin *twin, int sync,
    void (*between)(struct twins *))
{
    int first = (int)draw(twins, TWINS_PARAMS), right;

    right = say(
        symmcoll_reducer_begin(twin->reducer, sync) == SYMMCOLL_OK, "begin");
    for (int i = 0; right && i < TWINS_PARAMS; i++) {
        if (between != NULL)
            between(twins);
        if (draw(twins, 5) > 0)
            right = pass_gradient(twins, twin, (first + 3 * i) % TWINS_PARAMS);
    }
    if (between != NULL)
        between(twins);
    return right && finish(twins, twin, sync);
}

int twins_run(struct twins *twins, int sync, void (*between)(struct twins *))
{
    uint64_t drawn = twins->repeats ? (uint64_t)twins->rank + 5 : twins->drawn;
    int right;

    twins->drawn = drawn;
    right = run_twin(twins, &twins->host, sync, between);

    twins->drawn = drawn; /* the same again */
    return right && run_twin(twins, &twins->device, sync, between);
}

void twins_zero(struct twins *twins)
{
    symmcoll_reducer_zero(twins->host.reducer);
    symmcoll_reducer_zero(twins->device.reducer);
    memset(twins->host.passed, 0, sizeof(twins->host.passed));
    memset(twins->device.passed, 0, sizeof(twins->device.passed));
}

/* ---- both ---- */

static int same(const void *host, const void *device, size_t nbytes,
    const char *what, int p)
{
    char *found = malloc(nbytes + 1);
    int right;

    device_read(found, device, nbytes);
    right = nbytes == 0 || memcmp(found, host, nbytes) == 0;
    if (!right)
        diag("parameter %d: %s differ", p, what);
    free(found);
    return right;
}

int twins_agree(struct twins *twins)
{
    int right = 1;

    device_wait(twins->device.stream);
    for (int p = 0; right && p < TWINS_PARAMS; p++) {
        struct symmcoll_tensor host = SYMMCOLL_TENSOR_INIT, there = host;

        right =
            say(symmcoll_reducer_grad(twins->host.reducer, p, &host) ==
                        SYMMCOLL_OK &&
                    symmcoll_reducer_grad(twins->device.reducer, p, &there) ==
                        SYMMCOLL_OK &&
                    there.device == SYMMCOLL_CUDA &&
                    there.device_index ==
                        twins->device.params[p].device_index &&
                    memcmp(host.strides, there.strides, sizeof(host.strides)) ==
                        0,
                "gradients") &&
            same(host.data, there.data, twins_nbytes(&host), "averages", p) &&
            same(twins->host.params[p].data, twins->device.params[p].data, ROOM,
                "values", p) &&
            same(twins->host.grads[p], twins->device.grads[p],
                grad_room(&twins->host.params[p]), "gradients", p);
    }
    return right;
}
