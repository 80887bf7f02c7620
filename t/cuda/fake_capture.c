/* SPDX-License-Identifier: BSD-3-Clause */
/* Tests captures of the fake driver: the work that is captured, and the calls
 * that end a capture. */
#include "t/cuda/device.h"

#include <pthread.h>

struct capture {
    CUstream origin, other; /* neither is ordered with the default stream */
    CUevent event, back;
    CUdeviceptr words;
    CUgraph graph;
    CUgraphExec exec;
};

static int open_capture(struct capture *capture, CUstreamCaptureMode mode)
{
    *capture = (struct capture){0};
    return open_device("", 0) &&
           good(cuStreamCreate(&capture->origin, CU_STREAM_NON_BLOCKING)) &&
           good(cuStreamCreate(&capture->other, CU_STREAM_NON_BLOCKING)) &&
           good(cuEventCreate(&capture->event, 0)) &&
           good(cuEventCreate(&capture->back, 0)) &&
           (capture->words = make_words(16)) != 0 &&
           good(cuStreamBeginCapture(capture->origin, mode));
}

/* Checks the result of the end of a capture. */
static int ended(struct capture *capture, CUresult expected)
{
    return returned(cuStreamEndCapture(capture->origin, &capture->graph),
               expected) &&
           (capture->graph == NULL) == (expected != CUDA_SUCCESS);
}

static int close_capture(struct capture *capture)
{
    int right = 1;

    if (capture->exec != NULL)
        right &= good(cuGraphExecDestroy(capture->exec));
    if (capture->graph != NULL)
        right &= good(cuGraphDestroy(capture->graph));
    right &= good(cuStreamSynchronize(capture->origin)) &&
             good(cuStreamDestroy(capture->origin)) &&
             good(cuStreamDestroy(capture->other)) &&
             good(cuEventDestroy(capture->event)) &&
             good(cuEventDestroy(capture->back)) &&
             good(cuMemFree(capture->words));
    return right && close_device(0);
}

static int has_status(CUstream stream, CUstreamCaptureStatus expected)
{
    CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;

    return good(cuStreamIsCapturing(stream, &status)) && status == expected;
}

/* ---- kernels ---- */

struct add_args {
    uint32_t *word;
    uint32_t value;
};

static void add(const void *args)
{
    const struct add_args *add = args;

    *add->word += add->value;
}

static int launch_add(CUstream stream, CUdeviceptr word, uint32_t value)
{
    struct add_args args = {(uint32_t *)(uintptr_t)word, value};
    void *parameters[] = {&args};
    CUlibrary library = NULL;
    CUkernel kernel = NULL;
    CUfunction function = NULL;
    const CUlaunchConfig config = {.gridDimX = 3,
        .gridDimY = 1,
        .gridDimZ = 1,
        .blockDimX = 32,
        .blockDimY = 1,
        .blockDimZ = 1,
        .hStream = stream};

    return good(cuLibraryLoadData(
               &library, "image", NULL, NULL, 0, NULL, NULL, 0)) &&
           good(cuLibraryGetKernel(&kernel, library, "add")) &&
           returned(cuLibraryGetKernel(&kernel, library, "subtract"),
               CUDA_ERROR_NOT_FOUND) &&
           good(cuKernelGetFunction(&function, kernel)) &&
           good(cuFuncLoad(function)) &&
           good(cuLaunchKernelEx(&config, function, parameters, NULL)) &&
           good(cuLibraryUnload(library));
}

static int a_kernel_is_launched(void *unused)
{
    struct capture capture;
    int right = open_capture(&capture, CU_STREAM_CAPTURE_MODE_RELAXED);

    (void)unused;
    fake_register_kernel("add", add, sizeof(struct add_args));
    right = right && ended(&capture, CUDA_SUCCESS) &&
            launch_add(capture.origin, capture.words, 2) &&
            good(cuStreamSynchronize(capture.origin)) &&
            word_at(capture.words, 0) == 3 * 2 && fake_blocks_max(0) == 3;
    return right && close_capture(&capture);
}

/* ---- captured work ---- */

static int a_graph_is_launched_again(void *unused)
{
    struct capture capture;
    int right = open_capture(&capture, CU_STREAM_CAPTURE_MODE_RELAXED);

    (void)unused;
    fake_register_kernel("add", add, sizeof(struct add_args));
    right = right && launch_add(capture.origin, capture.words, 5) &&
            good(cuMemcpyAsync(
                capture.words + 4, capture.words, 4, capture.origin)) &&
            has_status(capture.origin, CU_STREAM_CAPTURE_STATUS_ACTIVE) &&
            ended(&capture, CUDA_SUCCESS) &&
            has_status(capture.origin, CU_STREAM_CAPTURE_STATUS_NONE) &&
            good(cuStreamSynchronize(capture.origin)) &&
            word_at(capture.words, 0) == 0 &&
            good(cuGraphInstantiate(&capture.exec, capture.graph, 0));
    for (uint32_t i = 1; i <= 3 && right; i++)
        right = good(cuGraphLaunch(capture.exec, capture.origin)) &&
                good(cuStreamSynchronize(capture.origin)) &&
                word_at(capture.words, 1) == i * 15;
    return right && close_capture(&capture);
}

/* The other stream joins the capture by an event and works; joined: it also
 * returns to the origin. */
static int fork_and_join(bool joined, CUresult expected)
{
    struct capture capture;
    int right = open_capture(&capture, CU_STREAM_CAPTURE_MODE_GLOBAL);

    right = right && good(cuEventRecord(capture.event, capture.origin)) &&
            good(cuStreamWaitEvent(capture.other, capture.event, 0)) &&
            has_status(capture.other, CU_STREAM_CAPTURE_STATUS_ACTIVE) &&
            good(cuEventRecord(capture.back, capture.other));
    /* Work after the event must be joined, too. */
    if (!joined)
        right =
            right && good(cuMemsetD32Async(capture.words, 1, 1, capture.other));
    right = right && good(cuStreamWaitEvent(capture.origin, capture.back, 0)) &&
            ended(&capture, expected) &&
            has_status(capture.other, CU_STREAM_CAPTURE_STATUS_NONE);
    return right && close_capture(&capture);
}

static int streams_join_by_events(void *unused)
{
    (void)unused;
    return fork_and_join(true, CUDA_SUCCESS) &&
           fork_and_join(false, CUDA_ERROR_STREAM_CAPTURE_UNJOINED);
}

/* ---- calls that invalidate a capture ---- */

/* A call of some thread that is refused, and invalidates the capture. */
struct disturbance {
    CUstreamCaptureMode mode;
    CUresult (*call)(struct capture *capture);
    CUresult result;
};

static CUresult query_origin(struct capture *capture)
{
    return cuStreamQuery(capture->origin);
}

static CUresult synchronize_origin(struct capture *capture)
{
    return cuStreamSynchronize(capture->origin);
}

static CUresult query_captured(struct capture *capture)
{
    return good(cuEventRecord(capture->event, capture->origin))
               ? cuEventQuery(capture->event)
               : CUDA_ERROR_UNKNOWN;
}

static CUresult wait_for_outside(struct capture *capture)
{
    return good(cuEventRecord(capture->event, capture->other))
               ? cuStreamWaitEvent(capture->origin, capture->event, 0)
               : CUDA_ERROR_UNKNOWN;
}

static CUresult allocate(struct capture *capture)
{
    CUdeviceptr at = 0;

    (void)capture;
    return cuMemAlloc(&at, 64);
}

static CUresult query_other(struct capture *capture)
{
    return cuStreamQuery(capture->other);
}

static int disturbs(const struct disturbance *disturbance)
{
    struct capture capture;
    int right = open_capture(&capture, disturbance->mode);
    const bool spoilt = disturbance->result != CUDA_SUCCESS;

    right =
        right && returned(disturbance->call(&capture), disturbance->result) &&
        has_status(capture.origin, spoilt ? CU_STREAM_CAPTURE_STATUS_INVALIDATED
                                          : CU_STREAM_CAPTURE_STATUS_ACTIVE);
    if (spoilt)
        right = right &&
                returned(cuMemsetD32Async(capture.words, 1, 1, capture.origin),
                    CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
    right =
        right && ended(&capture, spoilt ? CUDA_ERROR_STREAM_CAPTURE_INVALIDATED
                                        : CUDA_SUCCESS);
    return right && close_capture(&capture);
}

static int questions_end_it(void *unused)
{
    const struct disturbance all[] = {
        {CU_STREAM_CAPTURE_MODE_RELAXED, query_origin,
            CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED},
        {CU_STREAM_CAPTURE_MODE_RELAXED, synchronize_origin,
            CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED},
        {CU_STREAM_CAPTURE_MODE_RELAXED, query_captured,
            CUDA_ERROR_CAPTURED_EVENT},
        {CU_STREAM_CAPTURE_MODE_RELAXED, wait_for_outside,
            CUDA_ERROR_STREAM_CAPTURE_ISOLATION},
        {CU_STREAM_CAPTURE_MODE_RELAXED, query_other, CUDA_SUCCESS},
        {CU_STREAM_CAPTURE_MODE_GLOBAL, query_other,
            CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED},
        {CU_STREAM_CAPTURE_MODE_THREAD_LOCAL, allocate,
            CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED},
    };
    int right = 1;

    (void)unused;
    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]) && right; i++)
        right = disturbs(&all[i]);
    return right;
}

/* ---- other threads ---- */

struct asking {
    struct capture *capture;
    CUcontext context;
    CUstreamCaptureMode mode;
    CUresult result;
};

static void *ask(void *arg)
{
    struct asking *asking = arg;
    CUcontext popped = NULL;

    asking->result = cuCtxPushCurrent(asking->context);
    if (asking->result == CUDA_SUCCESS)
        asking->result = cuThreadExchangeStreamCaptureMode(&asking->mode);
    if (asking->result == CUDA_SUCCESS)
        asking->result = cuStreamQuery(asking->capture->other);
    (void)cuCtxPopCurrent(&popped);
    return NULL;
}

/* Queries a stream from another thread, in some capture mode, during a
 * capture. */
static int asks(CUstreamCaptureMode capturing, CUstreamCaptureMode asking_mode,
    CUresult expected)
{
    struct capture capture;
    struct asking asking = {&capture, NULL, asking_mode, CUDA_ERROR_UNKNOWN};
    pthread_t thread;
    int right = open_capture(&capture, capturing) &&
                good(cuCtxGetCurrent(&asking.context));

    if (!right || pthread_create(&thread, NULL, ask, &asking) != 0)
        return 0;
    pthread_join(thread, NULL);
    right = returned(asking.result, expected) &&
            ended(&capture, expected == CUDA_SUCCESS
                                ? CUDA_SUCCESS
                                : CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
    return right && close_capture(&capture);
}

static int other_threads_end_it(void *unused)
{
    const CUstreamCaptureMode global = CU_STREAM_CAPTURE_MODE_GLOBAL,
                              local = CU_STREAM_CAPTURE_MODE_THREAD_LOCAL,
                              relaxed = CU_STREAM_CAPTURE_MODE_RELAXED;

    (void)unused;
    return asks(global, global, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED) &&
           asks(global, local, CUDA_SUCCESS) &&
           asks(global, relaxed, CUDA_SUCCESS) &&
           asks(local, global, CUDA_SUCCESS) &&
           asks(relaxed, global, CUDA_SUCCESS);
}

/* ---- the default stream ---- */

static int the_default_stream_ends_it(void *unused)
{
    struct capture capture;
    CUstream blocking = NULL;
    CUgraph graph = NULL;
    CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
    int right = open_capture(&capture, CU_STREAM_CAPTURE_MODE_RELAXED) &&
                good(cuStreamCreate(&blocking, CU_STREAM_DEFAULT));

    (void)unused;
    /* No captured stream waits for this one. */
    right = right && good(cuMemsetD32Async(capture.words, 1, 1, NULL)) &&
            good(cuStreamSynchronize(NULL)) &&
            has_status(capture.origin, CU_STREAM_CAPTURE_STATUS_ACTIVE) &&
            returned(cuStreamBeginCapture(NULL, CU_STREAM_CAPTURE_MODE_RELAXED),
                CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED) &&
            ended(&capture, CUDA_SUCCESS);
    right =
        right &&
        good(cuStreamBeginCapture(blocking, CU_STREAM_CAPTURE_MODE_RELAXED)) &&
        returned(cuStreamIsCapturing(NULL, &status),
            CUDA_ERROR_STREAM_CAPTURE_IMPLICIT) &&
        has_status(blocking, CU_STREAM_CAPTURE_STATUS_ACTIVE) &&
        returned(cuMemsetD32Async(capture.words, 1, 1, NULL),
            CUDA_ERROR_STREAM_CAPTURE_IMPLICIT) &&
        returned(cuStreamEndCapture(blocking, &graph),
            CUDA_ERROR_STREAM_CAPTURE_INVALIDATED) &&
        good(cuStreamDestroy(blocking));
    return right && close_capture(&capture);
}

int main(void)
{
    plan(6);
    ok(run_child(a_kernel_is_launched, NULL), "a kernel is launched by name");
    ok(run_child(a_graph_is_launched_again, NULL),
        "what is captured is done by each launch of the graph, not before");
    ok(run_child(streams_join_by_events, NULL),
        "streams join a capture by events, and come back before its end");
    ok(run_child(questions_end_it, NULL),
        "questions that a capture cannot answer end it");
    ok(run_child(other_threads_end_it, NULL),
        "so do calls of other threads, in the mode that allows no others");
    ok(run_child(the_default_stream_ends_it, NULL),
        "so does the default stream beside one that waits for it");
    return done_testing();
}
