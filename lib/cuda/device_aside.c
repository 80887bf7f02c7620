/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A copy between two devices of one process on a legacy default stream begins after all
 * earlier work of either device, on any stream, and later work of both begins after it.
 * If ranks are threads, a kernel of another rank that waits for this rank may be among
 * that work: a deadlock.  Such a copy is therefore made on another stream, and the
 * caller's stream waits for it.
 */
#include "cuda/device_group.h"

bool symc_cuda_is_aside(const struct symc_cuda_group *group, CUstream stream)
{
    return group->across && (stream == NULL || stream == CU_STREAM_LEGACY);
}

struct symc_cuda_called symc_cuda_aside_open(
    struct symc_cuda_group *group, int priority)
{
    struct symc_cuda_order *order = &group->order;
    struct symc_cuda_called called =
        symc_cuda_called("cuStreamCreateWithPriority",
            group->cuda->stream_create_with_priority(
                &order->aside, CU_STREAM_NON_BLOCKING, priority));

    if (called.result != CUDA_SUCCESS) {
        order->aside = NULL;
        return called;
    }
    called = symc_cuda_called("cuEventCreate",
        group->cuda->event_create(&order->passing, CU_EVENT_DISABLE_TIMING));
    if (called.result != CUDA_SUCCESS)
        order->passing = NULL;
    return called;
}

void symc_cuda_aside_close(struct symc_cuda_group *group)
{
    struct symc_cuda_order *order = &group->order;

    if (order->aside != NULL)
        group->cuda->stream_destroy(order->aside);
    if (order->passing != NULL)
        group->cuda->event_destroy(order->passing);
    order->aside = NULL;
    order->passing = NULL;
}

/* Lets a stream wait for the work enqueued on another.  One event is enough: a wait
 * covers the event's record at the time when it is enqueued, and operations are enqueued
 * one at a time. */
symmcoll_status_t symc_cuda_order_after(
    const struct symc_cuda_group *group, CUstream later, CUstream earlier)
{
    const struct symc_cuda *cuda = group->cuda;
    const CUevent event = group->order.passing;
    struct symc_cuda_called called =
        symc_cuda_called("cuEventRecord", cuda->event_record(event, earlier));

    if (called.result == CUDA_SUCCESS)
        called = symc_cuda_called(
            "cuStreamWaitEvent", cuda->stream_wait_event(later, event, 0));
    return called.result == CUDA_SUCCESS
               ? SYMMCOLL_OK
               : symc_cuda_group_fail(group, called.result,
                     "%s to have stream %p wait for stream %p", called.name,
                     (void *)later, (void *)earlier);
}
