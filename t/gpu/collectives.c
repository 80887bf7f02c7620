/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Tests the collectives on memory of one device that 2, 4 and 8 threads share,
 * against the same in host memory; works, streams, barriers, and graphs.
 */
#include "t/cuda/every.h"
#include "t/cuda/unlike.h"
#include "t/gpu/gpu.h"
#include "t/gpu/ranks.h"

#include <stdlib.h>
#include <string.h>

#define COUNT 1025
#define MANY 40
#define ROUNDS 50

/* ---- works and streams ---- */

struct run {
    struct symmcoll_group *group;
    int size;
    CUstream stream;
    float *in, *out; /* of the device */
    struct symmcoll_call call;
};

static void fill_in(const struct run *run, int rank)
{
    float host[COUNT];

    for (int i = 0; i < COUNT; i++)
        host[i] = (float)(rank + i);
    device_write(run->in, host, sizeof(host));
}

static void begin(struct run *run, struct symmcoll_group *group, int rank)
{
    device_use(rank);
    *run = (struct run){.group = group,
        .size = symmcoll_group_size(group),
        .stream = device_stream(),
        .in = device_alloc(COUNT * sizeof(float)),
        .out = device_alloc(MANY * COUNT * sizeof(float)),
        .call = SYMMCOLL_CALL_INIT};
    run->call.stream = run->stream;
    fill_in(run, rank);
}

static int finish(const struct run *run, int right)
{
    device_wait(run->stream);
    device_end_stream(run->stream);
    device_free(run->in);
    device_free(run->out);
    return right;
}

/* Checks that the n-th part of out has the sum. */
static int has_sum(const struct run *run, int n)
{
    float found[COUNT];

    device_read(found, run->out + (ptrdiff_t)n * COUNT, sizeof(found));
    for (int i = 0; i < COUNT; i++) {
        const float expected =
            (float)(run->size * i + run->size * (run->size - 1) / 2);

        if (found[i] == expected)
            continue;
        diag("part %d, element %d is %g, not %g", n, i, (double)found[i],
            (double)expected);
        return 0;
    }
    return 1;
}

static symmcoll_status_t sum(
    struct run *run, int n, struct symmcoll_work **work)
{
    return symmcoll_all_reduce(run->group, run->out + (ptrdiff_t)n * COUNT,
        run->in, COUNT, F32, SUM, &run->call, work);
}

/* Runs operations on two streams alternately, some with works, which are
 * waited for in reverse. */
static int many_works(struct symmcoll_group *group, int rank)
{
    struct symmcoll_work *works[MANY] = {NULL};
    struct run run;
    CUstream other;
    int right = 1;

    begin(&run, group, rank);
    other = device_stream();
    for (int i = 0; i < MANY; i++) {
        run.call.stream = i % 2 == 0 ? run.stream : other;
        right = say(sum(&run, i, i % 3 == 0 ? NULL : &works[i]) == SYMMCOLL_OK,
                    "a call") &&
                right;
    }
    for (int i = MANY - 1; i >= 0; i--) {
        if (works[i] != NULL)
            right = say(symmcoll_work_wait(works[i], 60) == SYMMCOLL_OK,
                        "a wait") &&
                    right;
        symmcoll_work_free(works[i]);
    }
    device_wait(run.stream);
    device_wait(other);
    for (int i = 0; i < MANY; i++)
        right = right && has_sum(&run, i);
    device_end_stream(other);
    return finish(&run, right);
}

/* Checks that a wait without a timeout makes the stream wait, not the host. */
static int stream_waits(struct symmcoll_group *group, int rank)
{
    struct symmcoll_work *work = NULL;
    struct run run;
    float found = -1;
    int right;

    begin(&run, group, rank);
    run.call.stream = NULL;
    right = say(symmcoll_group_set_stream(group, run.stream) == SYMMCOLL_OK,
                "set_stream") &&
            say(sum(&run, 0, &work) == SYMMCOLL_OK, "a call") &&
            say(symmcoll_work_wait(work, -1) == SYMMCOLL_OK, "a wait");
    cuMemcpyAsync((CUdeviceptr)(uintptr_t)&found,
        (CUdeviceptr)(uintptr_t)(run.out + 1), sizeof(found), run.stream);
    device_wait(run.stream);
    symmcoll_work_free(work);
    right = say(found == (float)(run.size + run.size * (run.size - 1) / 2),
                "what the stream copied after the wait") &&
            right && has_sum(&run, 0);
    right = symmcoll_group_set_stream(group, NULL) == SYMMCOLL_OK && right;
    return finish(&run, right);
}

/* ---- consecutive operations ---- */

/* The stream writes an input and sums it, many times, without waits of the
 * host; with barriers in between. Never on the default stream: threads that
 * share a device share that, too, and a rank's kernel would wait for one that
 * cannot begin before it has ended. */
static int in_a_row(struct symmcoll_group *group, int rank)
{
    const int rounds = gpu_choose(20 * ROUNDS, ROUNDS, ROUNDS / 2),
              size = symmcoll_group_size(group);
    struct symmcoll_call call = SYMMCOLL_CALL_INIT;
    uint32_t *in, *out, *found = calloc((size_t)rounds, sizeof(*found));
    int right = found != NULL;

    device_use(rank);
    in = device_alloc(sizeof(*in));
    out = device_alloc((size_t)rounds * sizeof(*out));
    call.stream = device_stream();
    for (int i = 0; i < rounds && right; i++) {
        cuMemsetD32Async((CUdeviceptr)(uintptr_t)in,
            (unsigned int)(7 * i + rank), 1, call.stream);
        right = say(symmcoll_all_reduce(group, out + i, in, 1, SYMMCOLL_UINT32,
                        SUM, &call, NULL) == SYMMCOLL_OK,
            "a call");
        if (i % 16 == 0)
            right = right &&
                    say(symmcoll_barrier(group, &call, NULL) == SYMMCOLL_OK,
                        "a barrier");
    }
    device_wait(call.stream);
    device_read(found, out, (size_t)rounds * sizeof(*out));
    for (int i = 0; i < rounds && right; i++)
        right =
            say(found[i] == (uint32_t)(size * 7 * i + size * (size - 1) / 2),
                "a sum in the row");
    device_end_stream(call.stream);
    device_free(in);
    device_free(out);
    free(found);
    return right;
}

/* ---- all ---- */

/* Selects sizes for each kernel, and for chunks; smaller ones in the
 * rehearsal. */
static void set_sizes(void)
{
    static const size_t counts[EVERY_COUNTS] = {0, 1, 601, 5003, 40009, 300007};
    const char *const real[] = {"256KiB", "4KiB", "32KiB", "64KiB", "8"};
    const char *const small[] = {"4KiB", "64", "256", "256", "2"};
    const char *const *value = gpu_is_rehearsal() ? small : real;

    setenv("SYMMCOLL_CUDA_STAGING", value[0], 1);
    setenv("SYMMCOLL_CUDA_PACKETS_MAX", value[1], 1);
    setenv("SYMMCOLL_CUDA_ONE_SHOT_MAX", value[2], 1);
    setenv("SYMMCOLL_CUDA_ONE_SHOT_MAX_TWO", value[3], 1);
    setenv("SYMMCOLL_CUDA_BLOCKS", value[4], 1);
    if (!gpu_is_rehearsal())
        memcpy(every_counts, counts, sizeof(counts));
}

static void run_on(int n)
{
    on_threads(n, every_all_reduce, "all_reduce has the host's bits");
    on_threads(n, every_reduce, "reduce has the host's bits");
    on_threads(n, every_reduce_scatter, "reduce_scatter has the host's bits");
    on_threads(n, every_all_gather, "all_gather has the host's bits");
    on_threads(n, every_gather, "gather has the host's bits");
    on_threads(n, every_scatter, "scatter has the host's bits");
    on_threads(n, every_all_to_all, "all_to_all has the host's bits");
    on_threads(n, every_broadcast, "broadcast has the host's bits");
    on_threads(n, every_lists, "parts in buffers of their own");
    on_threads(n, every_several, "several buffers in one operation");
    on_threads(n, every_unlike, "exchanges of parts of unlike sizes");
    on_threads(n, every_types_and_reductions, "all types, all reductions");
    on_threads(n, every_factors, "factors of each rank");
    on_threads(n, many_works, "many works on two streams");
    on_threads(n, stream_waits, "the group's stream waits for a work");
    on_threads(n, in_a_row, "each in a row has what the one before it left");
    on_threads(n, every_graph, "graphs that are started three times");
    on_threads(n, every_unlike_graph, "graphs of exchanges of unlike parts");
}

int main(void)
{
    gpu_begin(300);
    set_sizes();
    for (int n = 2; n <= gpu_choose(8, 8, 2); n *= 2)
        run_on(n);
    return done_testing();
}
