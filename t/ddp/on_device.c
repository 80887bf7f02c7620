/* SPDX-License-Identifier: BSD-3-Clause */
#include "t/ddp/on_device.h"
#include "t/ddp/twins.h"

#include <stdlib.h>
#include <string.h>

/* ---- the bits of host memory ---- */

static struct symmcoll_reducer_args make_args(void)
{
    struct symmcoll_reducer_args args = SYMMCOLL_REDUCER_ARGS_INIT;

    args.bucket_cap = 300;
    return args;
}

/* Whether the device has measured passes, the first of them at least. */
static int have_stats(struct twins *twins)
{
    struct symmcoll_reducer_stats stats = SYMMCOLL_REDUCER_STATS_INIT;

    return symmcoll_reducer_get_stats(twins->device.reducer, &stats) ==
               SYMMCOLL_OK &&
           stats.measured > 0 && stats.measured <= stats.passes &&
           stats.overlap >= 0 && stats.overlap <= stats.comm &&
           stats.exposed >= 0 && stats.exposed <= stats.comm;
}

/* Runs passes with and without synchronisation, with zero between some. */
static int run_passes(struct twins *twins, void (*between)(struct twins *))
{
    static const char passes[] = "sslzsllszlsz"; /* synchronised, local, zero */
    int right = twins_agree(twins);

    for (size_t i = 0; right && i < sizeof(passes) - 1; i++) {
        if (passes[i] == 'z')
            twins_zero(twins);
        else
            right = twins_run(twins, passes[i] == 's', between);
        right = right && twins_agree(twins);
        if (!right)
            diag("pass %zu of %s", i, passes);
    }
    right = right && say(have_stats(twins), "statistics");
    return right &&
           say(symmcoll_reducer_bucket_count(twins->host.reducer) > 3 &&
                   symmcoll_reducer_bucket_count(twins->device.reducer) ==
                       symmcoll_reducer_bucket_count(twins->host.reducer),
               "buckets are rebuilt");
}

static int run_twins(struct symmcoll_group *group, int rank,
    const struct symmcoll_reducer_args *args, symmcoll_bucket_fn device_hook)
{
    struct twins twins;
    CUstream stream;
    int right;

    device_use(rank);
    stream = device_stream();
    right = symmcoll_group_set_stream(group, stream) == SYMMCOLL_OK &&
            twins_begin(&twins, group, rank, args, device_hook);
    twins.device.stream = stream;
    right = right && run_passes(&twins, NULL);
    twins_end(&twins);
    device_wait(stream);
    device_end_stream(stream);
    return right;
}

int reducer_averages(struct symmcoll_group *group, int rank)
{
    struct symmcoll_reducer_args args = make_args();

    return run_twins(group, rank, &args, NULL);
}

int reducer_views(struct symmcoll_group *group, int rank)
{
    struct symmcoll_reducer_args args = make_args();

    args.gradient_as_bucket_view = 1;
    return run_twins(group, rank, &args, NULL);
}

int reducer_written_back(struct symmcoll_group *group, int rank)
{
    struct symmcoll_reducer_args args = make_args();

    args.write_back = 1;
    return run_twins(group, rank, &args, NULL);
}

int reducer_written_back_by_name(struct symmcoll_group *group, int rank)
{
    struct symmcoll_reducer_args args = make_args();
    void *named[TWINS_PARAMS] = {NULL};

    args.write_back = 1;
    args.grads = named;
    return run_twins(group, rank, &args, NULL);
}

/* Runs the passes in each mode. */
static int run_modes(struct symmcoll_group *group, int rank,
    const struct symmcoll_reducer_args *given)
{
    struct symmcoll_reducer_args args = *given;
    void *named[TWINS_PARAMS] = {NULL};
    int right = run_twins(group, rank, &args, NULL);

    args.gradient_as_bucket_view = 1;
    right = right && run_twins(group, rank, &args, NULL);
    args.gradient_as_bucket_view = 0;
    args.write_back = 1;
    args.grads = named;
    return right && run_twins(group, rank, &args, NULL);
}

int reducer_unused(struct symmcoll_group *group, int rank)
{
    struct symmcoll_reducer_args args = make_args();

    args.find_unused = 1;
    return run_modes(group, rank, &args);
}

int reducer_static_graph(struct symmcoll_group *group, int rank)
{
    struct symmcoll_reducer_args args = make_args();

    args.static_graph = 1;
    return run_modes(group, rank, &args);
}

int reducer_wide(struct symmcoll_group *group, int rank)
{
    struct symmcoll_reducer_args args = make_args();
    int right;

    args.reduce_dtype = SYMMCOLL_FLOAT32;
    right = run_modes(group, rank, &args);
    args.find_unused = 1;
    return right && run_modes(group, rank, &args);
}

/* ---- gradients as tensors ---- */

/* Averages a gradient of 4 x 6 elements, column by column in memory, of a parameter
 * whose rows are contiguous. */
int reducer_tensors(struct symmcoll_group *group, int rank)
{
    struct symmcoll_tensor param = {.size = sizeof(param),
        .dtype = F32,
        .device = SYMMCOLL_CUDA,
        .ndim = 2,
        .shape = {4, 6},
        .strides = {6, 1}};
    struct symmcoll_tensor grad, view = SYMMCOLL_TENSOR_INIT;
    struct symmcoll_reducer *reducer = NULL;
    float own[24], found[24];
    int device = device_use(rank), size = symmcoll_group_size(group), right;
    CUstream stream = device_stream();

    param.data = device_alloc(sizeof(own));
    param.device_index = device;
    grad = param;
    grad.data = device_alloc(sizeof(own));
    grad.strides[0] = 1;
    grad.strides[1] = 4;
    for (int i = 0; i < 24; i++)
        own[i] = (float)(size * (rank + i));
    device_write(grad.data, own, sizeof(own));
    right = symmcoll_group_set_stream(group, stream) == SYMMCOLL_OK &&
            symmcoll_reducer_create(group, &param, 1, NULL, &reducer) ==
                SYMMCOLL_OK &&
            symmcoll_reducer_begin(reducer, 1) == SYMMCOLL_OK &&
            symmcoll_reducer_ready_tensor(reducer, 0, &grad) == SYMMCOLL_OK &&
            symmcoll_reducer_finish(reducer) == SYMMCOLL_OK &&
            symmcoll_reducer_grad(reducer, 0, &view) == SYMMCOLL_OK;
    device_wait(stream);
    if (right)
        device_read(found, view.data, sizeof(found));
    for (int i = 0; right && i < 24; i++)
        right = found[i % 4 * 6 + i / 4] ==
                (float)(size * (size - 1) / 2 + size * i);
    say(right, symmcoll_last_error());
    symmcoll_reducer_free(reducer);
    device_wait(stream);
    device_free(param.data);
    device_free(grad.data);
    device_end_stream(stream);
    return right;
}

/* ---- hooks ---- */

int reducer_all_reduce_hook(struct symmcoll_group *group, int rank)
{
    struct symmcoll_reducer_args args = make_args();

    args.hook = symmcoll_hook_all_reduce;
    return run_twins(group, rank, &args, NULL);
}

/* Accepts an average. */
static symmcoll_status_t accept_step(
    void *arg, int param, const struct symmcoll_tensor *grad)
{
    (void)arg;
    (void)param;
    return grad->data != NULL ? SYMMCOLL_OK : SYMMCOLL_ERR_INVALID;
}

/* Runs twins with a built-in hook that averages in the end. */
static int run_named(struct symmcoll_group *group, int rank,
    const struct symmcoll_hook_args *named)
{
    struct symmcoll_reducer_args args = make_args();
    struct symmcoll_hook *hook = NULL;
    int right = symmcoll_hook_create(group, named, &hook) == SYMMCOLL_OK;

    args.hook = symmcoll_hook_run;
    args.hook_end = symmcoll_hook_end;
    args.hook_arg = hook;
    right = right && run_twins(group, rank, &args, NULL);
    symmcoll_hook_free(hook);
    return right;
}

int reducer_named_hooks(struct symmcoll_group *group, int rank)
{
    struct symmcoll_hook_args args = SYMMCOLL_HOOK_ARGS_INIT;

    args.name = "post_local_sgd";
    args.start = 1;
    if (!run_named(group, rank, &args))
        return 0;
    args.name = "step";
    args.start = 0;
    args.step = accept_step;
    return run_named(group, rank, &args);
}

/* Compresses the twins' buckets of float32 with one hook or the other, and
 * reduces those of float16 as they are. */
static symmcoll_status_t compress_floats(struct symmcoll_group *group,
    const struct symmcoll_bucket *bucket, void *arg,
    struct symmcoll_work **work)
{
    symmcoll_bucket_fn hook = symmcoll_hook_all_reduce;

    if (bucket->dtype == SYMMCOLL_FLOAT32)
        hook = bucket->index % 2 == 0 ? symmcoll_hook_fp16_compress
                                      : symmcoll_hook_bf16_compress;
    else if (bucket->dtype == SYMMCOLL_FLOAT16)
        hook = symmcoll_hook_fp16_compress;
    return hook(group, bucket, arg, work);
}

int reducer_compress_hooks(struct symmcoll_group *group, int rank)
{
    struct symmcoll_reducer_args args = make_args();

    args.hook = compress_floats;
    return run_twins(group, rank, &args, NULL);
}

static symmcoll_status_t wrap_floats(struct symmcoll_group *group,
    const struct symmcoll_bucket *bucket, void *arg,
    struct symmcoll_work **work)
{
    struct symmcoll_hook_wrapped wrapped = SYMMCOLL_HOOK_WRAPPED_INIT;

    (void)arg;
    wrapped.hook = symmcoll_hook_all_reduce;
    if (bucket->dtype != SYMMCOLL_FLOAT32)
        return symmcoll_hook_all_reduce(group, bucket, NULL, work);
    return bucket->index % 2 == 0
               ? symmcoll_hook_fp16_wrapper(group, bucket, &wrapped, work)
               : symmcoll_hook_bf16_wrapper(group, bucket, &wrapped, work);
}

int reducer_wrapped_hooks(struct symmcoll_group *group, int rank)
{
    struct symmcoll_reducer_args args = make_args();

    args.write_back = 1;
    args.hook = wrap_floats;
    return run_twins(group, rank, &args, NULL);
}

/* Averages what are averages already. */
static symmcoll_status_t average_again(struct symmcoll_group *group,
    const struct symmcoll_bucket *bucket, void *arg,
    struct symmcoll_work **work)
{
    *work = NULL;
    return bucket->round < 2
               ? symmcoll_hook_all_reduce(group, bucket, arg, work)
               : SYMMCOLL_OK;
}

int reducer_hook_end(struct symmcoll_group *group, int rank)
{
    struct symmcoll_reducer_args args = make_args();

    args.hook = symmcoll_hook_all_reduce;
    args.hook_end = average_again;
    return run_modes(group, rank, &args);
}

/* Sets all elements of a bucket to 1, without communication. */
static symmcoll_status_t put_ones(struct symmcoll_group *group,
    const struct symmcoll_bucket *bucket, void *arg,
    struct symmcoll_work **work)
{
    (void)arg;
    (void)group;
    memset(bucket->buffer, 0x11,
        bucket->count * symmcoll_dtype_size(bucket->dtype));
    *work = NULL;
    return SYMMCOLL_OK;
}

static symmcoll_status_t put_ones_there(struct symmcoll_group *group,
    const struct symmcoll_bucket *bucket, void *arg,
    struct symmcoll_work **work)
{
    (void)arg;
    *work = NULL;
    if (bucket->device != SYMMCOLL_CUDA ||
        bucket->device_index != device_use(symmcoll_group_rank(group)) ||
        bucket->stream != symmcoll_group_stream(group))
        return SYMMCOLL_ERR_INVALID;
    if (bucket->count > 0)
        cuMemsetD8Async((CUdeviceptr)(uintptr_t)bucket->buffer, 0x11,
            bucket->count * symmcoll_dtype_size(bucket->dtype), bucket->stream);
    return SYMMCOLL_OK;
}

int reducer_own_hook(struct symmcoll_group *group, int rank)
{
    struct symmcoll_reducer_args args = make_args();

    args.hook = put_ones;
    return run_twins(group, rank, &args, put_ones_there);
}

/* ---- streams ---- */

#define STREAMS 3
static _Thread_local CUstream streams[STREAMS];

/* Selects another stream for the next call, and for the program's own work. */
static void next_stream(struct twins *twins)
{
    CUstream used = twins->device.stream;
    int i = 0;

    while (i < STREAMS && streams[i] != used)
        i++;
    twins_use(twins, streams[(i + 1) % STREAMS]);
}

static int run_on_many_streams(
    struct symmcoll_group *group, int rank, symmcoll_bucket_fn hook)
{
    struct symmcoll_reducer_args args = make_args();
    struct twins twins;
    int right;

    args.hook = hook;
    device_use(rank);
    streams[0] = NULL; /* the default one */
    for (int i = 1; i < STREAMS; i++)
        streams[i] = device_stream();
    right = twins_begin(&twins, group, rank, &args, NULL) &&
            run_passes(&twins, next_stream);
    twins_end(&twins);
    for (int i = 1; i < STREAMS; i++) {
        device_wait(streams[i]);
        device_end_stream(streams[i]);
    }
    return right;
}

int reducer_many_streams(struct symmcoll_group *group, int rank)
{
    return run_on_many_streams(group, rank, NULL);
}

int reducer_compressed_on_many_streams(struct symmcoll_group *group, int rank)
{
    return run_on_many_streams(group, rank, compress_floats);
}
