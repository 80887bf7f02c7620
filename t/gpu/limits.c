/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What a device can do at best, and how near to it the library comes: launches,
 * plain and in a graph, the bandwidth of a copy, and all_reduce of 2, 4 and 8
 * threads that share it.  Medians, on random data; written to the file that
 * T_GPU_LIMITS names, too.  Nothing is judged, but that all could be measured.
 */
#include "t/cuda/members.h"
#include "t/gpu/gpu.h"
#include "t/gpu/ranks.h"

#include "kernels/args.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define SAMPLES 41
#define LAUNCHES 100 /* in a row, of a sample */

extern const unsigned char symc_image[] __attribute__((visibility("hidden")));

static const struct symc_cuda *cuda;

/* ---- samples ---- */

static int compare(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

static double median(double *samples, int n)
{
    qsort(samples, (size_t)n, sizeof(*samples), compare);
    return samples[n / 2];
}

static double now(void)
{
    struct timespec time;

    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + (double)time.tv_nsec / 1e9;
}

/* Microseconds on the device from begin() to end(). */
struct span {
    CUevent events[2];
    CUstream stream;
};

static void open_span(struct span *span, CUstream stream)
{
    span->stream = stream;
    for (int i = 0; i < 2; i++)
        GPU_CHECK(cuda->event_create(&span->events[i], CU_EVENT_DEFAULT));
}

static void mark(const struct span *span, int end)
{
    GPU_CHECK(cuda->event_record(span->events[end], span->stream));
}

static double measure(const struct span *span)
{
    float ms = 0;

    GPU_CHECK(cuda->stream_synchronize(span->stream));
    GPU_CHECK(cuda->event_elapsed_time(&ms, span->events[0], span->events[1]));
    return (double)ms * 1e3;
}

static void close_span(const struct span *span)
{
    for (int i = 0; i < 2; i++)
        GPU_CHECK(cuda->event_destroy(span->events[i]));
}

/* A line of the table: what, and a number with its unit. */
static void tell(const char *what, double value, const char *unit)
{
    const char *path = getenv("T_GPU_LIMITS");
    FILE *file = path != NULL ? fopen(path, "a") : NULL;

    diag("%-52s %12.2f %s", what, value, unit);
    if (file == NULL)
        return;
    fprintf(file, "%s\t%.4f\t%s\n", what, value, unit);
    fclose(file);
}

/* ---- launches ---- */

static CUfunction load_empty(void)
{
    CUlibrary library = NULL;
    CUkernel kernel = NULL;
    CUfunction function = NULL;

    GPU_CHECK(cuda->library_load_data(
        &library, symc_image, NULL, NULL, 0, NULL, NULL, 0));
    GPU_CHECK(cuda->library_get_kernel(&kernel, library, "symc_fill32"));
    GPU_CHECK(cuda->kernel_get_function(&function, kernel));
    return function;
}

/* A kernel that does nothing: it fills no words. */
static void launch_empty(CUfunction function, CUstream stream)
{
    struct symc_fill_args args = {.count = 0};
    void *parameters[] = {&args};
    CUlaunchConfig config = {.gridDimX = 1,
        .gridDimY = 1,
        .gridDimZ = 1,
        .blockDimX = 32,
        .blockDimY = 1,
        .blockDimZ = 1,
        .hStream = stream};

    GPU_CHECK(cuda->launch_kernel_ex(&config, function, parameters, NULL));
}

static CUgraphExec capture_empty(CUfunction function, CUstream stream)
{
    CUgraph graph = NULL;
    CUgraphExec exec = NULL;

    GPU_CHECK(
        cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
    for (int i = 0; i < LAUNCHES; i++)
        launch_empty(function, stream);
    GPU_CHECK(cuStreamEndCapture(stream, &graph));
    GPU_CHECK(cuGraphInstantiate(&exec, graph, 0));
    GPU_CHECK(cuGraphDestroy(graph));
    return exec;
}

static double plain_host[SAMPLES], plain_device[SAMPLES], alone[SAMPLES],
    graph_host[SAMPLES], graph_device[SAMPLES];

static void sample_launches(
    int i, CUfunction function, CUgraphExec exec, const struct span *span)
{
    double began = now();

    launch_empty(function, span->stream);
    GPU_CHECK(cuda->stream_synchronize(span->stream));
    alone[i] = (now() - began) * 1e6;
    began = now();
    mark(span, 0);
    for (int k = 0; k < LAUNCHES; k++)
        launch_empty(function, span->stream);
    plain_host[i] = (now() - began) * 1e6 / LAUNCHES;
    mark(span, 1);
    plain_device[i] = measure(span) / LAUNCHES;
    began = now();
    mark(span, 0);
    GPU_CHECK(cuGraphLaunch(exec, span->stream));
    graph_host[i] = (now() - began) * 1e6;
    mark(span, 1);
    graph_device[i] = measure(span) / LAUNCHES;
}

static void tell_launches(void)
{
    const double plain = median(plain_device, SAMPLES),
                 graph = median(graph_device, SAMPLES);

    tell("empty kernel, launched and waited for", median(alone, SAMPLES), "us");
    tell("empty kernels in a row, the host's time for one",
        median(plain_host, SAMPLES), "us");
    tell("empty kernels in a row, the device's time for one", plain, "us");
    tell("graph of 100, the host's time to start it",
        median(graph_host, SAMPLES), "us");
    tell("graph of 100, the device's time for one", graph, "us");
    tell("plain launches to those of a graph", plain / graph, "x");
}

static int measure_launches(void)
{
    struct span span;
    CUfunction function;
    CUgraphExec exec;
    CUstream stream;

    cuda = gpu_open();
    stream = device_stream();
    function = load_empty();
    open_span(&span, stream);
    exec = capture_empty(function, stream);
    for (int i = 0; i < SAMPLES; i++)
        sample_launches(i, function, exec, &span);
    tell_launches();
    GPU_CHECK(cuGraphExecDestroy(exec));
    close_span(&span);
    device_end_stream(stream);
    return 1;
}

/* ---- copies, and all_reduce beside them ---- */

static size_t largest(void)
{
    return (size_t)gpu_choose(16 << 20, 1 << 14, 1 << 12);
}

/* Random bits that are floats of no great size. */
static void fill_random(float *device, size_t count, int rank)
{
    float *host = malloc(count * sizeof(*host));

    fill(F32, host, count, (uint64_t)rank + 1);
    device_write(device, host, count * sizeof(*host));
    free(host);
}

/* Gigabytes a second that are copied, and as many read. */
static double bandwidth(size_t nbytes)
{
    double samples[SAMPLES];
    struct span span;
    CUstream stream = device_stream();
    float *from = device_alloc(nbytes), *to = device_alloc(nbytes);

    fill_random(from, nbytes / sizeof(*from), 0);
    open_span(&span, stream);
    for (int i = 0; i < SAMPLES; i++) {
        mark(&span, 0);
        GPU_CHECK(cuda->memcpy_async((CUdeviceptr)(uintptr_t)to,
            (CUdeviceptr)(uintptr_t)from, nbytes, stream));
        mark(&span, 1);
        samples[i] = (double)nbytes / (measure(&span) + 1e-9) / 1e3;
    }
    close_span(&span);
    device_free(from);
    device_free(to);
    device_end_stream(stream);
    return median(samples, SAMPLES);
}

static int measure_copies(void)
{
    char what[80];

    cuda = gpu_open();
    for (size_t n = largest() / 64; n <= 16 * largest(); n *= 8) {
        (void)snprintf(what, sizeof(what), "copy of %zu bytes", n);
        tell(what, bandwidth(n), "GB/s");
    }
    return 1;
}

/* The device's time for one, of this rank. */
static double time_sum(
    struct symmcoll_group *group, float *out, const float *in, size_t nbytes)
{
    const int samples = gpu_choose(SAMPLES, 5, 3);
    struct symmcoll_call call = SYMMCOLL_CALL_INIT;
    double times[SAMPLES] = {0};
    struct span span;

    call.stream = device_stream();
    open_span(&span, call.stream);
    for (int i = -2; i < samples; i++) {
        /* The first one opens the device for the group. */
        if (i > -2 && !say(symmcoll_barrier(group, &call, NULL) == SYMMCOLL_OK,
                          "barrier"))
            exit(1);
        mark(&span, 0);
        if (!say(symmcoll_all_reduce(group, out, in, nbytes / sizeof(*in), F32,
                     SUM, &call, NULL) == SYMMCOLL_OK,
                "all_reduce"))
            exit(1);
        mark(&span, 1);
        times[i < 0 ? 0 : i] = measure(&span);
    }
    close_span(&span);
    device_end_stream(call.stream);
    return median(times, samples);
}

/* R ranks read N bytes and write as many at least: as a copy of R N bytes does. */
static void tell_sum(int size, size_t nbytes, double us, double copied)
{
    char what[80];

    (void)snprintf(
        what, sizeof(what), "all_reduce, %d ranks, %zu bytes", size, nbytes);
    tell(what, us, "us");
    (void)snprintf(what, sizeof(what),
        "all_reduce, %d ranks, %zu bytes, of a copy's bandwidth", size, nbytes);
    tell(what, (double)size * (double)nbytes / us / 1e3 / copied, "x");
}

static int measure_sums(struct symmcoll_group *group, int rank)
{
    const int size = symmcoll_group_size(group);
    float *in, *out;
    double copied = 0;

    device_use(rank);
    if (rank == 0)
        cuda = gpu_open();
    if (rank == 0)
        copied = bandwidth(16 * largest());
    if (symmcoll_barrier(group, NULL, NULL) != SYMMCOLL_OK)
        return 0;
    in = device_alloc(largest());
    out = device_alloc(largest());
    fill_random(in, largest() / sizeof(*in), rank);
    for (size_t n = 1024; n <= largest(); n *= 4) {
        const double us = time_sum(group, out, in, n);

        if (rank == 0)
            tell_sum(size, n, us, copied);
    }
    device_free(in);
    device_free(out);
    return 1;
}

int main(void)
{
    gpu_begin(300);
    if (gpu_is_rehearsal())
        setenv("SYMMCOLL_CUDA_BLOCKS", "2", 1);
    ok(process_run(measure_launches), "launches are measured");
    ok(process_run(measure_copies), "copies are measured");
    for (int n = 2; n <= gpu_choose(8, 4, 2); n *= 2)
        on_threads(n, measure_sums, "all_reduce is measured");
    return done_testing();
}
