/* SPDX-License-Identifier: BSD-3-Clause */
/* Tests the context of a device, and calls in it from any thread. */
#include "cuda/context.h"
#include "t/cuda/device.h"

#include <pthread.h>

static const struct symc_cuda *load(const char *settings)
{
    const struct symc_cuda *cuda = NULL;

    return fake_configure(settings) &&
                   symc_cuda_load(symc_fail, &cuda) == SYMMCOLL_OK
               ? cuda
               : NULL;
}

static int is_current(CUcontext expected)
{
    CUcontext current = NULL;

    return good(cuCtxGetCurrent(&current)) && current == expected;
}

static int has_primary(int device, int expected)
{
    unsigned int flags = 0;
    int active = -1;

    return good(cuDevicePrimaryCtxGetState(device, &flags, &active)) &&
           active == expected;
}

/* ---- which one ---- */

static int without_a_current_one_it_is_primary(void *unused)
{
    const struct symc_cuda *cuda = load("devices=2");
    struct symc_cuda_context context;
    CUcontext primary = NULL;
    int right =
        cuda != NULL &&
        symc_cuda_context_open(cuda, symc_fail, 1, NULL, &context) ==
            SYMMCOLL_OK &&
        context.retained && is_current(NULL) && has_primary(1, 1) &&
        has_primary(0, 0) && good(cuDevicePrimaryCtxRetain(&primary, 1)) &&
        context.context == primary && good(cuDevicePrimaryCtxRelease(1));

    (void)unused;
    if (!right)
        return 0;
    symc_cuda_context_close(&context);
    symc_cuda_context_close(&context);
    return has_primary(1, 0) && fake_live(FAKE_CONTEXTS) == 0;
}

static int a_current_primary_one_is_kept_alive(void *unused)
{
    const struct symc_cuda *cuda = load("");
    struct symc_cuda_context context;
    CUcontext primary = NULL;
    int right = cuda != NULL && good(cuDevicePrimaryCtxRetain(&primary, 0)) &&
                good(cuCtxPushCurrent(primary)) &&
                symc_cuda_context_open(cuda, symc_fail, 0, NULL, &context) ==
                    SYMMCOLL_OK &&
                context.context == primary && context.retained &&
                good(cuDevicePrimaryCtxRelease(0)) && has_primary(0, 1);

    (void)unused;
    if (!right)
        return 0;
    symc_cuda_context_close(&context);
    return has_primary(0, 0) && is_current(primary);
}

static int an_own_one_is_used(void *unused)
{
    const struct symc_cuda *cuda = load("devices=2");
    struct symc_cuda_context context, other;
    CUcontext own = NULL, primary = NULL;
    int right = cuda != NULL && good(cuCtxCreate(&own, NULL, 0, 0)) &&
                symc_cuda_context_open(cuda, symc_fail, 0, NULL, &context) ==
                    SYMMCOLL_OK &&
                context.context == own && !context.retained &&
                has_primary(0, 0) &&
                fake_calls("cuDevicePrimaryCtxRetain") == 0;

    (void)unused;
    if (!right)
        return 0;
    symc_cuda_context_close(&context);
    /* The program's context is used even if a primary one exists, but not for
     * another device. */
    right = good(cuDevicePrimaryCtxRetain(&primary, 0)) &&
            symc_cuda_context_open(cuda, symc_fail, 0, NULL, &context) ==
                SYMMCOLL_OK &&
            context.context == own && !context.retained &&
            fake_live(FAKE_CONTEXTS) == 2 &&
            symc_cuda_context_open(cuda, symc_fail, 1, NULL, &other) ==
                SYMMCOLL_OK &&
            other.context != own && other.retained;
    if (!right)
        return 0;
    symc_cuda_context_close(&context);
    symc_cuda_context_close(&other);
    return fake_live(FAKE_CONTEXTS) == 2 && is_current(own) &&
           good(cuDevicePrimaryCtxRelease(0)) && good(cuCtxDestroy(own));
}

static int a_device_that_is_not_there_is_named(void *unused)
{
    const struct symc_cuda *cuda = load("devices=2");
    struct symc_cuda_context context;

    (void)unused;
    return cuda != NULL &&
           failed_with(
               symc_cuda_context_open(cuda, symc_fail, 2, NULL, &context),
               SYMMCOLL_ERR_INVALID,
               "CUDA: expected a device of 0 to 1, found 2") &&
           failed_with(
               symc_cuda_context_open(cuda, symc_fail, -1, NULL, &context),
               SYMMCOLL_ERR_INVALID, "found -1") &&
           fake_configure("fail=cuDevicePrimaryCtxRetain:1:2") &&
           failed_with(
               symc_cuda_context_open(cuda, symc_fail, 0, NULL, &context),
               SYMMCOLL_ERR_NO_MEMORY,
               "cuDevicePrimaryCtxRetain on device 0 (Fake GPU 0): "
               "CUDA_ERROR_OUT_OF_MEMORY") &&
           !context.retained && context.context == NULL;
}

/* ---- entering ---- */

static int it_is_left_as_it_was(void *unused)
{
    const struct symc_cuda *cuda = load("devices=2");
    struct symc_cuda_context first, second;
    struct symc_cuda_entered outer, inner;
    CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_THREAD_LOCAL;
    int right = cuda != NULL &&
                symc_cuda_context_open(cuda, symc_fail, 0, NULL, &first) ==
                    SYMMCOLL_OK &&
                symc_cuda_context_open(cuda, symc_fail, 1, NULL, &second) ==
                    SYMMCOLL_OK &&
                good(cuThreadExchangeStreamCaptureMode(&mode));

    (void)unused;
    if (!right || !good(symc_cuda_enter(&first, &outer).result))
        return 0;
    right = is_current(first.context) &&
            good(symc_cuda_enter(&second, &inner).result) &&
            is_current(second.context) && fake_pushed() == 2;
    symc_cuda_leave(&inner);
    symc_cuda_leave(&inner);
    right = right && is_current(first.context);
    symc_cuda_leave(&outer);
    right = right && fake_pushed() == 0 &&
            good(cuThreadExchangeStreamCaptureMode(&mode)) &&
            mode == CU_STREAM_CAPTURE_MODE_THREAD_LOCAL;
    symc_cuda_context_close(&second);
    symc_cuda_context_close(&first);
    return right;
}

static int what_cannot_be_entered_is_not(void *unused)
{
    const struct symc_cuda *cuda = load("");
    struct symc_cuda_context context;
    struct symc_cuda_entered entered;
    int right =
        cuda != NULL &&
        symc_cuda_context_open(cuda, symc_fail, 0, NULL, &context) ==
            SYMMCOLL_OK &&
        fake_configure("fail=cuCtxPushCurrent:1:201 "
                       "fail=cuThreadExchangeStreamCaptureMode:1:999") &&
        returned(symc_cuda_enter(&context, &entered).result,
            CUDA_ERROR_INVALID_CONTEXT);

    (void)unused;
    symc_cuda_leave(&entered);
    right = right &&
            returned(symc_cuda_enter(&context, &entered).result,
                CUDA_ERROR_UNKNOWN) &&
            fake_pushed() == 0;
    symc_cuda_leave(&entered);
    symc_cuda_context_close(&context);
    return right && fake_pushed() == 0;
}

/* Queries an event, as a thread of the library does. */
static void *query(void *arg)
{
    const struct symc_cuda_context *context = arg;
    struct symc_cuda_entered entered;
    CUevent event = NULL;
    CUresult result = symc_cuda_enter(context, &entered).result;

    if (result == CUDA_SUCCESS)
        result = context->cuda->event_create(&event, 0);
    if (result == CUDA_SUCCESS)
        result = context->cuda->event_query(event);
    if (result == CUDA_SUCCESS)
        result = context->cuda->event_destroy(event);
    symc_cuda_leave(&entered);
    return good(result) ? arg : NULL;
}

static int a_capture_is_not_disturbed(void *unused)
{
    const struct symc_cuda *cuda = load("");
    struct symc_cuda_context context;
    CUstream stream = NULL;
    CUgraph graph = NULL;
    pthread_t thread;
    void *answer = NULL;
    int right =
        cuda != NULL &&
        symc_cuda_context_open(cuda, symc_fail, 0, NULL, &context) ==
            SYMMCOLL_OK &&
        good(cuCtxPushCurrent(context.context)) &&
        good(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING)) &&
        good(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));

    (void)unused;
    if (!right || pthread_create(&thread, NULL, query, &context) != 0)
        return 0;
    pthread_join(thread, &answer);
    right = answer != NULL && query(&context) != NULL &&
            good(cuStreamEndCapture(stream, &graph)) &&
            good(cuGraphDestroy(graph)) && good(cuStreamDestroy(stream));
    fake_finish();
    symc_cuda_context_close(&context);
    return right;
}

/* ---- streams ---- */

static int streams_of_others_are_named(void *unused)
{
    const struct symc_cuda *cuda = load("devices=2 reuse=1");
    struct symc_cuda_context context, second;
    struct symc_cuda_entered entered;
    CUstream mine = NULL, seconds = NULL, owns = NULL;
    CUcontext own = NULL;
    int right = cuda != NULL &&
                symc_cuda_context_open(cuda, symc_fail, 0, NULL, &context) ==
                    SYMMCOLL_OK &&
                symc_cuda_context_open(cuda, symc_fail, 1, NULL, &second) ==
                    SYMMCOLL_OK &&
                good(symc_cuda_enter(&context, &entered).result) &&
                good(cuStreamCreate(&mine, 0));

    (void)unused;
    symc_cuda_leave(&entered);
    right = right && good(symc_cuda_enter(&second, &entered).result) &&
            good(cuStreamCreate(&seconds, 0));
    symc_cuda_leave(&entered);
    right = right && good(cuCtxCreate(&own, NULL, 0, 0)) &&
            good(cuStreamCreate(&owns, 0));
    right =
        right &&
        symc_cuda_check_stream(&context, symc_fail, mine, "x") == SYMMCOLL_OK &&
        symc_cuda_check_stream(&context, symc_fail, NULL, "x") == SYMMCOLL_OK &&
        symc_cuda_check_stream(
            &context, symc_fail, CU_STREAM_PER_THREAD, "x") == SYMMCOLL_OK &&
        failed_with(
            symc_cuda_check_stream(&context, symc_fail, seconds, "all_reduce"),
            SYMMCOLL_ERR_INVALID,
            "all_reduce: expected a stream of device 0 (Fake GPU 0), "
            "found 0x") &&
        strstr(symmcoll_last_error(), "of device 1 (Fake GPU 1)") != NULL &&
        failed_with(
            symc_cuda_check_stream(&context, symc_fail, owns, "barrier"),
            SYMMCOLL_ERR_INVALID, "of another context") &&
        good(cuStreamDestroy(owns)) && good(cuStreamDestroy(seconds)) &&
        failed_with(
            symc_cuda_check_stream(&context, symc_fail, seconds, "all_reduce"),
            SYMMCOLL_ERR_DEVICE, "CUDA_ERROR_INVALID_HANDLE") &&
        good(cuStreamDestroy(mine)) && is_current(own);
    fake_finish();
    right = right && good(cuCtxDestroy(own));
    symc_cuda_context_close(&second);
    symc_cuda_context_close(&context);
    return right && fake_live(FAKE_CONTEXTS) == 0 && fake_pushed() == 0;
}

int main(void)
{
    plan(8);
    ok(run_child(without_a_current_one_it_is_primary, NULL),
        "a device's primary context is used, and released");
    ok(run_child(a_current_primary_one_is_kept_alive, NULL),
        "one that is the caller's current one lives on");
    ok(run_child(an_own_one_is_used, NULL),
        "a context that the caller has made is used where it is of the device");
    ok(run_child(a_device_that_is_not_there_is_named, NULL),
        "a device that is not there, or has no memory, is named");
    ok(run_child(it_is_left_as_it_was, NULL),
        "a thread has its own context and capture mode afterwards");
    ok(run_child(what_cannot_be_entered_is_not, NULL),
        "a context that cannot be entered leaves nothing pushed");
    ok(run_child(a_capture_is_not_disturbed, NULL),
        "questions in a context do not end captures of others");
    ok(run_child(streams_of_others_are_named, NULL),
        "a stream of another device or context is named");
    return done_testing();
}
