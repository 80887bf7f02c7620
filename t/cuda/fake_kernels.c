/* SPDX-License-Identifier: BSD-3-Clause */
/* Tests kernels in streams of the fake driver, run by the engine. */
#include "t/cuda/device.h"
#include "t/kernels/engine.h"

#define BLOCKS 4
#define THREADS 16
#define LAUNCHES 20

struct args {
    uint32_t *words; /* one for each thread */
    uint32_t added;
};

/* Each thread adds to the word of its successor in the block, with barriers in
 * between. */
static void add(const void *args)
{
    const struct args *of = args;
    const uint32_t n = engine_thread_count();
    uint32_t *words = of->words + (size_t)engine_block_index() * n;
    const uint32_t own = engine_thread_index();

    words[own] += of->added;
    (void)engine_block_any(false);
    words[(own + 1) % n] += of->added;
}

static void run(fake_kernel_fn kernel, const void *args, uint32_t blocks,
    uint32_t threads, uint64_t seed)
{
    const struct engine_launch launch = {kernel, args, blocks, threads};
    const struct engine_stream stream = {&launch, 1};

    engine_run(&stream, 1, seed);
}

static CUfunction find_kernel(const char *name)
{
    CUlibrary library = NULL;
    CUkernel kernel = NULL;
    CUfunction function = NULL;

    if (!good(cuLibraryLoadData(
            &library, "image", NULL, NULL, 0, NULL, NULL, 0)) ||
        !good(cuLibraryGetKernel(&kernel, library, name)) ||
        !good(cuKernelGetFunction(&function, kernel)) ||
        !good(cuLibraryUnload(library)))
        return NULL;
    return function;
}

static int launch(CUfunction function, CUstream stream, CUdeviceptr words)
{
    struct args args = {(uint32_t *)(uintptr_t)words, 1};
    void *parameters[] = {&args};

    return good(cuLaunchKernel(
        function, BLOCKS, 1, 1, THREADS, 1, 1, 0, stream, parameters, NULL));
}

/* Launches into two streams alternately; all work is queued before the first
 * may begin. */
static int launches_are_in_order(void *unused)
{
    CUstream streams[2] = {NULL, NULL};
    CUevent event = NULL;
    CUdeviceptr words = 0;
    CUfunction function = NULL;
    int right = open_device("delay=20", 0) &&
                (words = make_words(BLOCKS * THREADS)) != 0 &&
                good(cuStreamCreate(&streams[0], CU_STREAM_NON_BLOCKING)) &&
                good(cuStreamCreate(&streams[1], CU_STREAM_NON_BLOCKING)) &&
                good(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));

    (void)unused;
    fake_set_engine(run);
    fake_register_kernel("add", add, sizeof(struct args));
    right = right && (function = find_kernel("add")) != NULL &&
            good(cuFuncLoad(function));
    if (!right)
        return 0;
    fake_stall(streams[0]);
    for (int i = 0; i < LAUNCHES && right; i++)
        right = launch(function, streams[i % 2], words) &&
                good(cuEventRecord(event, streams[i % 2])) &&
                good(cuStreamWaitEvent(streams[(i + 1) % 2], event, 0));
    fake_resume(streams[0]);
    right = right && good(cuStreamSynchronize(streams[1])) &&
            good(cuStreamSynchronize(streams[0]));
    for (size_t i = 0; i < (size_t)BLOCKS * THREADS && right; i++)
        right = word_at(words, i) == 2 * LAUNCHES;
    right = right && fake_blocks_max(0) == BLOCKS &&
            good(cuStreamDestroy(streams[0])) &&
            good(cuStreamDestroy(streams[1])) && good(cuEventDestroy(event)) &&
            good(cuMemFree(words));
    return right && close_device(0);
}

/* Launches a loaded kernel while a stream is blocked. The first launch of an
 * unloaded kernel would wait for the blocked stream forever. */
static int a_loaded_kernel_waits_for_nobody(void *unused)
{
    CUstream stream = NULL;
    CUdeviceptr words = 0;
    CUfunction function = NULL;
    int value = 0;
    int right = open_device("", 0) &&
                (words = make_words(BLOCKS * THREADS)) != 0 &&
                good(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));

    (void)unused;
    fake_register_kernel("add", add, sizeof(struct args));
    right = right && (function = find_kernel("add")) != NULL;
    if (!right)
        return 0;
    right = good(cuFuncGetAttribute(
        &value, CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK, function));
    fake_set_engine(run);
    fake_stall(stream);
    right = right && launch(function, stream, words) &&
            returned(cuStreamQuery(stream), CUDA_ERROR_NOT_READY);
    fake_resume(stream);
    right = right && good(cuStreamSynchronize(stream)) &&
            word_at(words, 0) == 2 && good(cuStreamDestroy(stream)) &&
            good(cuMemFree(words));
    return right && close_device(0);
}

static int launches_are_checked(void *unused)
{
    struct args args = {NULL, 0};
    void *parameters[] = {&args};
    CUfunction function = NULL;
    int blocks = 0;
    int right = open_device("", 0);

    (void)unused;
    fake_register_kernel("add", add, sizeof(struct args));
    right = right && (function = find_kernel("add")) != NULL &&
            find_kernel("subtract") == NULL &&
            good(cuOccupancyMaxActiveBlocksPerMultiprocessor(
                &blocks, function, 512, 0)) &&
            blocks == 4 &&
            returned(cuLaunchKernel(function, 0, 1, 1, 32, 1, 1, 0, NULL,
                         parameters, NULL),
                CUDA_ERROR_INVALID_VALUE) &&
            returned(cuLaunchKernel(function, 1, 1, 1, 2048, 1, 1, 0, NULL,
                         parameters, NULL),
                CUDA_ERROR_INVALID_VALUE);
    return right;
}

/* Checks that a launch is refused while another context than the stream's is
 * current. */
static int is_refused(CUfunction function, CUstream stream, CUdeviceptr words)
{
    struct args args = {(uint32_t *)(uintptr_t)words, 1};
    void *parameters[] = {&args};

    return returned(cuLaunchKernel(function, 1, 1, 1, THREADS, 1, 1, 0, stream,
                        parameters, NULL),
        CUDA_ERROR_INVALID_HANDLE);
}

static int other_contexts_are_refused(void *unused)
{
    CUcontext other = NULL;
    CUstream stream = NULL;
    CUevent begin = NULL, end = NULL;
    CUdeviceptr words = 0, spare; /* two words besides those of kernels */
    CUfunction function = NULL, others = NULL;
    float ms = 0;
    int right =
        open_device("", 0) && (words = make_words(BLOCKS * THREADS + 2)) != 0 &&
        good(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING)) &&
        good(cuEventCreate(&begin, 0)) && good(cuEventRecord(begin, stream));

    (void)unused;
    spare = words + BLOCKS * THREADS * sizeof(uint32_t);
    fake_register_kernel("add", add, sizeof(struct args));
    fake_set_engine(run);
    function = find_kernel("add");
    right = right && function != NULL && good(cuCtxCreate(&other, NULL, 0, 0));
    others = find_kernel("add");
    right = right && others != function &&
            is_refused(function, stream, words) &&
            is_refused(others, stream, words) &&
            is_refused(function, NULL, words) && launch(others, NULL, words) &&
            returned(cuMemsetD8Async(words, 0, 4, stream),
                CUDA_ERROR_INVALID_HANDLE) &&
            returned(cuMemsetD32Async(words, 0, 1, stream),
                CUDA_ERROR_INVALID_HANDLE) &&
            returned(cuStreamWriteValue32(stream, words, 1, 0),
                CUDA_ERROR_INVALID_HANDLE) &&
            good(cuMemcpyAsync(spare, spare + 4, 4, stream)) &&
            good(cuEventCreate(&end, 0)) && good(cuEventRecord(end, NULL)) &&
            returned(cuEventRecord(end, stream), CUDA_ERROR_INVALID_HANDLE) &&
            good(cuEventSynchronize(begin)) && good(cuEventSynchronize(end)) &&
            returned(cuEventElapsedTime(&ms, begin, end),
                CUDA_ERROR_INVALID_HANDLE) &&
            good(cuEventDestroy(end)) && good(cuCtxDestroy(other)) &&
            launch(function, stream, words) && good(cuEventDestroy(begin)) &&
            good(cuStreamSynchronize(stream)) && good(cuStreamDestroy(stream));
    return right && good(cuMemFree(words)) && close_device(0);
}

int main(void)
{
    plan(4);
    ok(run_child(launches_are_in_order, NULL),
        "kernels of two streams are run in the order of their events");
    ok(run_child(a_loaded_kernel_waits_for_nobody, NULL),
        "a kernel that has been loaded is launched beside others");
    ok(run_child(launches_are_checked, NULL),
        "a launch that no device can do is refused");
    ok(run_child(other_contexts_are_refused, NULL),
        "streams, functions and events of another context are refused");
    return done_testing();
}
