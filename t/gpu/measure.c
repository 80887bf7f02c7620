/* SPDX-License-Identifier: BSD-3-Clause */
#include "t/gpu/measure.h"

#include "kernels/args.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

extern const unsigned char symc_image[] __attribute__((visibility("hidden")));

/* ---- samples ---- */

static int compare(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

double median(double *samples, int n)
{
    qsort(samples, (size_t)n, sizeof(*samples), compare);
    return samples[n / 2];
}

double now(void)
{
    struct timespec time;

    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + (double)time.tv_nsec / 1e9;
}

void open_span(struct span *span, const struct symc_cuda *cuda)
{
    span->cuda = cuda;
    span->stream = device_stream();
    for (int i = 0; i < 2; i++)
        GPU_CHECK(cuda->event_create(&span->events[i], CU_EVENT_DEFAULT));
}

void begin_span(const struct span *span)
{
    GPU_CHECK(span->cuda->event_record(span->events[0], span->stream));
}

void end_span(const struct span *span)
{
    GPU_CHECK(span->cuda->event_record(span->events[1], span->stream));
}

double measure_span(const struct span *span)
{
    float ms = 0;

    GPU_CHECK(span->cuda->stream_synchronize(span->stream));
    GPU_CHECK(
        span->cuda->event_elapsed_time(&ms, span->events[0], span->events[1]));
    return (double)ms * 1e3;
}

void close_span(const struct span *span)
{
    for (int i = 0; i < 2; i++)
        GPU_CHECK(span->cuda->event_destroy(span->events[i]));
    device_end_stream(span->stream);
}

void tell(const char *what, double value, const char *unit)
{
    const char *path = getenv("T_GPU_LIMITS");
    FILE *file = path != NULL ? fopen(path, "a") : NULL;

    diag("%-56s %12.2f %s", what, value, unit);
    if (file == NULL)
        return;
    fprintf(file, "%s\t%.4f\t%s\n", what, value, unit);
    fclose(file);
}

/* ---- launches ---- */

CUfunction load_empty(const struct symc_cuda *cuda)
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

/* Launches a kernel that fills no words. */
void launch_empty(
    const struct symc_cuda *cuda, CUfunction function, CUstream stream)
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

/* ---- copies ---- */

size_t medium(void)
{
    return (size_t)gpu_choose(16 << 20, 1 << 14, 1 << 12);
}

void fill_random(float *device, size_t count, int rank)
{
    float *host = malloc(count * sizeof(*host));

    if (host == NULL)
        abort();
    fill(F32, host, count, (uint64_t)rank + 1);
    device_write(device, host, count * sizeof(*host));
    free(host);
}

double bandwidth(const struct symc_cuda *cuda, size_t nbytes)
{
    double samples[SAMPLES];
    struct span span;
    float *from = device_alloc(nbytes), *to = device_alloc(nbytes);

    fill_random(from, nbytes / sizeof(*from), 0);
    open_span(&span, cuda);
    for (int i = 0; i < SAMPLES; i++) {
        begin_span(&span);
        GPU_CHECK(cuda->memcpy_async((CUdeviceptr)(uintptr_t)to,
            (CUdeviceptr)(uintptr_t)from, nbytes, span.stream));
        end_span(&span);
        samples[i] = (double)nbytes / (measure_span(&span) + 1e-9) / 1e3;
    }
    close_span(&span);
    device_free(from);
    device_free(to);
    return median(samples, SAMPLES);
}
