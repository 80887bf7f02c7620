/* SPDX-License-Identifier: BSD-3-Clause */
#include "t/cuda/unlike.h"
#include "t/cuda/every.h"

#include <stdlib.h>
#include <string.h>

#define GUARD 64 /* bytes beside an output */
#define POISON 0xa5

/* ---- sizes ---- */

static size_t find_count(const struct unlike *one, int from, int to, int size)
{
    const bool largest = from == 0 && to == size - 1;

    switch (one->shape) {
    case UNLIKE_ONE:
        return largest ? one->most : one->most > 0;
    case UNLIKE_LONELY:
        return largest ? one->most : 0;
    case UNLIKE_IDLE:
        if (from == size - 1 || to == size - 1)
            return 0;
        break;
    default:
        break;
    }
    return one->most * (size_t)((from * 3 + to * 5 + 6) % 7) / 6;
}

void unlike_plan(struct unlike *one, int rank, int size)
{
    one->nsent = one->nreceived = 0;
    for (int r = 0; r < size; r++) {
        one->sent[r] = find_count(one, rank, r, size);
        one->received[r] = find_count(one, r, rank, size);
        one->nsent += one->sent[r];
        one->nreceived += one->received[r];
    }
}

/* ---- calls ---- */

/* Lists the parts with that of the last rank first, so that no list is
 * contiguous. */
static void list_parts(
    void **list, const void *at, const size_t *counts, size_t elem, int size)
{
    char *next = (char *)(uintptr_t)at;

    for (int r = size - 1; r >= 0; r--) {
        list[r] = next;
        next += counts[r] * elem;
    }
}

symmcoll_status_t unlike_call(struct symmcoll_group *group,
    const struct unlike *one, void *out, const void *in,
    const struct symmcoll_call *call, struct symmcoll_work **work)
{
    const size_t elem = symmcoll_dtype_size(one->dtype);
    const int size = symmcoll_group_size(group);
    void *outs[UNLIKE_RANKS], *ins[UNLIKE_RANKS];

    if (one->form != UNLIKE_LISTS)
        return symmcoll_all_to_all_v(group, out, one->nreceived, one->received,
            in, one->nsent, one->sent, one->dtype, call, work);
    list_parts(outs, out, one->received, elem, size);
    list_parts(ins, in, one->sent, elem, size);
    return symmcoll_all_to_all_list(group, outs, one->received,
        (const void *const *)ins, one->sent, one->dtype, call, work);
}

static symmcoll_status_t call_and_wait(struct symmcoll_group *group,
    const struct unlike *one, void *out, const void *in, CUstream stream)
{
    struct symmcoll_call call = SYMMCOLL_CALL_INIT;
    struct symmcoll_work *work = NULL;
    symmcoll_status_t status;

    call.stream = stream;
    status = unlike_call(
        group, one, out, in, &call, one->form == UNLIKE_WORK ? &work : NULL);
    if (status == SYMMCOLL_OK && work != NULL)
        status = symmcoll_work_wait(work, 60);
    symmcoll_work_free(work);
    if (status != SYMMCOLL_OK)
        diag("on the device: %s", symmcoll_last_error());
    else if (stream != NULL)
        device_wait(stream);
    return status;
}

/* ---- the same bits as in host memory ---- */

/* A rank's input and output between guards: on the host, on the device, and as
 * read back from there. */
struct buffers {
    size_t in_at, nbytes;
    char *host, *read, *device;
};

static void begin(struct buffers *buffers, const struct unlike *one)
{
    const size_t elem = symmcoll_dtype_size(one->dtype);

    buffers->in_at = GUARD + one->nreceived * elem + GUARD;
    buffers->nbytes = buffers->in_at + one->nsent * elem + GUARD;
    buffers->host = malloc(buffers->nbytes);
    buffers->read = malloc(buffers->nbytes);
    buffers->device = device_alloc(buffers->nbytes);
}

/* Writes different elements for each number. */
static void write(
    const struct buffers *buffers, const struct unlike *one, int number)
{
    memset(buffers->host, POISON, buffers->nbytes);
    fill(one->dtype, buffers->host + buffers->in_at, one->nsent,
        (uint64_t)number);
    device_write(buffers->device, buffers->host, buffers->nbytes);
}

/* Compares the output on the device with the same exchange in host memory. */
static int is_same(struct symmcoll_group *group, const struct buffers *buffers,
    const struct unlike *one)
{
    device_read(buffers->read, buffers->device, buffers->nbytes);
    if (unlike_call(group, one, buffers->host + GUARD,
            buffers->host + buffers->in_at, NULL, NULL) != SYMMCOLL_OK)
        return say(0, symmcoll_last_error());
    for (size_t i = 0; i < buffers->nbytes; i++) {
        if (buffers->read[i] == buffers->host[i])
            continue;
        diag(
            "shape %d, form %d, up to %zu elements of type %d: byte %td of %zu "
            "elements is %02x and not %02x",
            (int)one->shape, (int)one->form, one->most, (int)one->dtype,
            (ptrdiff_t)i - GUARD, one->nreceived,
            (unsigned char)buffers->read[i], (unsigned char)buffers->host[i]);
        return 0;
    }
    return 1;
}

static void end(const struct buffers *buffers)
{
    device_free(buffers->device);
    free(buffers->read);
    free(buffers->host);
}

int unlike_same_as_host(
    struct symmcoll_group *group, int rank, const struct unlike *one)
{
    struct unlike planned = *one;
    struct buffers buffers;
    CUstream stream = device_stream();
    int right;

    unlike_plan(&planned, rank, symmcoll_group_size(group));
    begin(&buffers, &planned);
    write(&buffers, &planned, rank + 1);
    right = call_and_wait(group, &planned, buffers.device + GUARD,
                buffers.device + buffers.in_at, stream) == SYMMCOLL_OK &&
            is_same(group, &buffers, &planned);
    device_end_stream(stream);
    end(&buffers);
    return right;
}

/* ---- all of them ---- */

/* Types of one byte and of more, for parts that begin at any address. */
static const enum symmcoll_dtype types[] = {
    SYMMCOLL_UINT8, SYMMCOLL_INT16, SYMMCOLL_FLOAT64};

int every_unlike(struct symmcoll_group *group, int rank)
{
    int right = 1, made = 0;

    device_use(rank);
    for (int shape = 0; shape < UNLIKE_SHAPES; shape++)
        for (size_t i = 0; i < EVERY_COUNTS; i++)
            for (int form = 0; form < UNLIKE_FORMS && right; form++) {
                const struct unlike one = {.shape = (enum unlike_shape)shape,
                    .form = (enum unlike_form)form,
                    .dtype = types[made++ % 3],
                    .most = every_counts[i]};

                right = unlike_same_as_host(group, rank, &one);
            }
    return right;
}

/* ---- graphs ---- */

static CUgraphExec capture(struct symmcoll_group *group,
    const struct unlike *one, const struct buffers *buffers, CUstream stream)
{
    struct symmcoll_call call = SYMMCOLL_CALL_INIT;
    CUgraph graph = NULL;
    CUgraphExec exec = NULL;
    int right;

    call.stream = stream;
    right = cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_RELAXED) ==
            CUDA_SUCCESS;
    right = right && say(unlike_call(group, one, buffers->device + GUARD,
                             buffers->device + buffers->in_at, &call,
                             NULL) == SYMMCOLL_OK,
                         "captured");
    right = cuStreamEndCapture(stream, &graph) == CUDA_SUCCESS && right;
    if (!right || cuGraphInstantiate(&exec, graph, 0) != CUDA_SUCCESS)
        diag("there is no graph");
    if (graph != NULL)
        (void)cuGraphDestroy(graph);
    return exec;
}

static int capture_one(
    struct symmcoll_group *group, int rank, struct unlike one)
{
    struct buffers buffers;
    CUstream stream = device_stream();
    CUgraphExec exec;
    int right;

    unlike_plan(&one, rank, symmcoll_group_size(group));
    begin(&buffers, &one);
    exec = capture(group, &one, &buffers, stream);
    right = exec != NULL;
    for (int i = 0; i < 3 && right; i++) {
        write(&buffers, &one, 16 * i + rank);
        right = cuGraphLaunch(exec, stream) == CUDA_SUCCESS;
        device_wait(stream);
        right = right && is_same(group, &buffers, &one) &&
                (i != 1 || unlike_same_as_host(group, rank, &one));
    }
    if (exec != NULL)
        (void)cuGraphExecDestroy(exec);
    device_end_stream(stream);
    end(&buffers);
    return right;
}

int every_unlike_graph(struct symmcoll_group *group, int rank)
{
    struct unlike one = {.dtype = F32, .most = every_counts[2]};
    int right;

    device_use(rank);
    right = unlike_same_as_host(group, rank, &one);
    for (size_t i = 1; i < EVERY_COUNTS && right; i++) {
        one.shape = (enum unlike_shape)(i % UNLIKE_SHAPES);
        one.form = i % 2 == 0 ? UNLIKE_LISTS : UNLIKE_BUFFER;
        one.most = every_counts[i];
        right = capture_one(group, rank, one);
    }
    return right;
}
