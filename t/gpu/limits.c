/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Measures the limits of a device: launches, plain and in a graph, and the
 * bandwidth of a copy. Medians, on random data. Only that all could be
 * measured is checked; ratios.c compares the library with these.
 */
#include "t/gpu/measure.h"
#include "t/gpu/ranks.h"

#include <stdio.h>
#include <stdlib.h>

static const struct symc_cuda *cuda;

/* ---- launches ---- */

static CUgraphExec capture_empty(CUfunction function, CUstream stream)
{
    CUgraph graph = NULL;
    CUgraphExec exec = NULL;

    GPU_CHECK(
        cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
    for (int i = 0; i < LAUNCHES; i++)
        launch_empty(cuda, function, stream);
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

    launch_empty(cuda, function, span->stream);
    GPU_CHECK(cuda->stream_synchronize(span->stream));
    alone[i] = (now() - began) * 1e6;
    began = now();
    begin_span(span);
    for (int k = 0; k < LAUNCHES; k++)
        launch_empty(cuda, function, span->stream);
    plain_host[i] = (now() - began) * 1e6 / LAUNCHES;
    end_span(span);
    plain_device[i] = measure_span(span) / LAUNCHES;
    began = now();
    begin_span(span);
    GPU_CHECK(cuGraphLaunch(exec, span->stream));
    graph_host[i] = (now() - began) * 1e6;
    end_span(span);
    graph_device[i] = measure_span(span) / LAUNCHES;
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

    cuda = gpu_open();
    function = load_empty(cuda);
    open_span(&span, cuda);
    exec = capture_empty(function, span.stream);
    for (int i = 0; i < SAMPLES; i++)
        sample_launches(i, function, exec, &span);
    tell_launches();
    GPU_CHECK(cuGraphExecDestroy(exec));
    close_span(&span);
    return 1;
}

/* ---- copies ---- */

static int measure_copies(void)
{
    char what[80];

    cuda = gpu_open();
    for (size_t n = medium() / 64; n <= 16 * medium(); n *= 8) {
        (void)snprintf(what, sizeof(what), "copy of %zu bytes", n);
        tell(what, bandwidth(cuda, n), "GB/s");
    }
    return 1;
}

int main(void)
{
    gpu_begin(300);
    ok(process_run(measure_launches), "launches are measured");
    ok(process_run(measure_copies), "copies are measured");
    return done_testing();
}
