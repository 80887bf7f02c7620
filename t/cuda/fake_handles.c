/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Tests handles of streams and events that are used after they were destroyed,
 * and memory that is freed twice: the fake driver ends the process, whereas
 * the real one only may. Each case first runs correctly and succeeds.
 */
#include "t/cuda/device.h"

#include <pthread.h>
#include <sched.h>
#include <stdio.h>

static CUcontext context;

/* Discards the driver's message. */
static int begin(const char *settings)
{
    return open_device(settings, 0) && good(cuCtxGetCurrent(&context)) &&
           freopen("/dev/null", "w", stderr) != NULL;
}

static int has_status(CUstream stream)
{
    CUstreamCaptureStatus status;

    return good(cuStreamIsCapturing(stream, &status));
}

/* Creates and destroys another stream before a call on the first one, which in
 * the wrong case is already destroyed. */
static int uses_a_stream(void *wrong)
{
    CUstream first = NULL, second = NULL;
    int right =
        begin("") && good(cuStreamCreate(&first, 1)) && has_status(first);

    if (wrong != NULL)
        right = right && good(cuStreamDestroy(first));
    fake_finish();
    right = right && good(cuStreamCreate(&second, 1)) && second != first &&
            good(cuStreamDestroy(second)) && has_status(first) &&
            good(cuStreamDestroy(first));
    return right && close_device(0);
}

static int uses_an_event(void *wrong)
{
    CUstream stream = NULL;
    CUevent event = NULL;
    int right = begin("") && good(cuStreamCreate(&stream, 1)) &&
                good(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING)) &&
                good(cuEventRecord(event, stream));

    if (wrong != NULL)
        right = right && good(cuEventDestroy(event));
    return right && good(cuEventRecord(event, stream)) &&
           good(cuEventDestroy(event)) && good(cuStreamDestroy(stream)) &&
           close_device(0);
}

static void *synchronise(void *stream)
{
    return good(cuCtxSetCurrent(context)) && good(cuStreamSynchronize(stream))
               ? stream
               : NULL;
}

/* Destroys a stream, in the wrong case while a call of another thread waits
 * for it. */
static int destroys_a_stream(void *wrong)
{
    CUstream stream = NULL;
    void *waited = NULL;
    pthread_t thread;
    int right = begin("") && good(cuStreamCreate(&stream, 1));

    fake_stall(stream);
    right = right && pthread_create(&thread, NULL, synchronise, stream) == 0;
    while (right && fake_calls("cuStreamSynchronize") == 0)
        (void)sched_yield();
    if (wrong != NULL)
        right = right && good(cuStreamDestroy(stream));
    fake_resume(stream);
    right = right && pthread_join(thread, &waited) == 0 && waited == stream;
    return right && good(cuStreamDestroy(stream)) && close_device(0);
}

static void *query(void *event)
{
    (void)cuEventQuery(event);
    return NULL;
}

/* Destroys an event, in the wrong case while a short call uses it. At least
 * one of the attempts must overlap the call. */
static int destroys_an_event(void *wrong)
{
    int right = begin("linger=300");

    for (int i = 0; i < 20 && right; i++) {
        CUevent event = NULL;
        pthread_t thread;

        right = good(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING)) &&
                pthread_create(&thread, NULL, query, event) == 0;
        if (wrong != NULL)
            right = right && good(cuEventDestroy(event));
        right = right && pthread_join(thread, NULL) == 0;
        if (wrong == NULL)
            right = right && good(cuEventDestroy(event));
    }
    return right && close_device(0);
}

static int frees_memory(void *wrong)
{
    CUdeviceptr at = 0;
    int right = begin("") && good(cuMemAlloc(&at, 64)) && good(cuMemFree(at));

    if (wrong != NULL)
        right = right && good(cuMemFree(at));
    return right && close_device(0);
}

int main(void)
{
    static const struct {
        int (*body)(void *wrong);
        const char *what;
    } all[] = {{uses_a_stream, "a call with a stream that was destroyed"},
        {uses_an_event, "a call with an event that was destroyed"},
        {destroys_a_stream, "a stream is destroyed while a call waits for it"},
        {destroys_an_event, "an event is destroyed while a call has it"},
        {frees_memory, "memory is freed twice"}};
    int wrong = 1;

    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
        ok(run_child(all[i].body, NULL) && !run_child(all[i].body, &wrong),
            "%s: the process ends", all[i].what);
    return done_testing();
}
