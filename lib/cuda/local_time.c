/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Times between marks in streams of one rank, measured with events of the device.
 */
#include "cuda/local.h"

#define NS_PER_MS 1e6

symmcoll_status_t symc_cuda_local_mark(void *state, void *stream, void **mark)
{
    const struct symc_cuda_local *local = state;
    const struct symc_cuda *cuda = local->context.cuda;
    CUstreamCaptureStatus captured = CU_STREAM_CAPTURE_STATUS_NONE;
    struct symc_cuda_entered entered;
    CUevent event = NULL;
    struct symc_cuda_called called;
    symmcoll_status_t status = symc_cuda_local_enter(local, &entered);

    *mark = NULL;
    if (status != SYMMCOLL_OK)
        return status;
    called = symc_cuda_called(
        "cuStreamIsCapturing", cuda->stream_is_capturing(stream, &captured));
    if (called.result != CUDA_SUCCESS ||
        captured != CU_STREAM_CAPTURE_STATUS_NONE)
        goto leave;
    called = symc_cuda_called(
        "cuEventCreate", cuda->event_create(&event, CU_EVENT_DEFAULT));
    if (called.result == CUDA_SUCCESS)
        called = symc_cuda_called(
            "cuEventRecord", cuda->event_record(event, stream));
    if (called.result != CUDA_SUCCESS && event != NULL) {
        (void)cuda->event_destroy(event);
        event = NULL;
    }
    *mark = event;
leave:
    if (called.result != CUDA_SUCCESS)
        status = symc_cuda_local_fail(local, called.result,
            "%s to note how far stream %p is", called.name, stream);
    symc_cuda_leave(&entered);
    return status;
}

symmcoll_status_t symc_cuda_local_elapsed(
    void *state, void *from, void *to, int64_t *ns)
{
    const struct symc_cuda_local *local = state;
    struct symc_cuda_entered entered;
    float ms = 0;
    CUresult result;
    symmcoll_status_t status = symc_cuda_local_enter(local, &entered);

    if (status != SYMMCOLL_OK)
        return status;
    result = local->context.cuda->event_elapsed_time(&ms, from, to);
    if (result == CUDA_ERROR_NOT_READY)
        status = SYMMCOLL_IN_PROGRESS;
    else if (result != CUDA_SUCCESS)
        status = symc_cuda_local_fail(local, result, "cuEventElapsedTime");
    *ns = (int64_t)((double)ms * NS_PER_MS);
    symc_cuda_leave(&entered);
    return status;
}

void symc_cuda_local_unmark(void *state, void *mark)
{
    const struct symc_cuda_local *local = state;
    struct symc_cuda_entered entered;

    if (mark == NULL || symc_cuda_local_enter(local, &entered) != SYMMCOLL_OK)
        return;
    (void)local->context.cuda->event_destroy(mark);
    symc_cuda_leave(&entered);
}
