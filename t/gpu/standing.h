/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Sums on device memory with kernels that wait for one rank, the victim: its
 * stream is blocked, so its kernel does not begin.
 */
#ifndef T_GPU_STANDING_H
#define T_GPU_STANDING_H

#include "t/cuda/members.h"
#include "t/gpu/gpu.h"

#define STANDING_COUNT 3000

/* The stream and the memory of one rank. */
struct standing {
    CUstream stream;
    void *at; /* STANDING_COUNT floats of the device */
    struct gpu_stall stall;
};

/* Returns the timeout of an operation the kernels of which time out first: a
 * second before the call, or, with the faster clock of a rehearsal, long
 * before it. */
static inline double standing_deadline(void)
{
    return gpu_is_rehearsal() ? 8 : 5;
}

static inline symmcoll_status_t standing_sum(struct symmcoll_group *group,
    const struct standing *standing, double timeout,
    struct symmcoll_work **work)
{
    struct symmcoll_call call = SYMMCOLL_CALL_INIT;

    call.timeout = timeout;
    call.stream = standing->stream;
    call.label = "the sum";
    return symmcoll_all_reduce(group, standing->at, standing->at,
        STANDING_COUNT, F32, SUM, &call, work);
}

/* Creates them, and runs a sum that ends. Returns whether it did. */
static inline bool standing_begin(
    struct standing *standing, struct symmcoll_group *group, int rank)
{
    device_use(rank);
    *standing = (struct standing){.stream = device_stream(),
        .at = device_alloc(STANDING_COUNT * sizeof(float))};
    if (!say(standing_sum(group, standing, -1, NULL) == SYMMCOLL_OK,
            "the first sum"))
        return false;
    device_wait(standing->stream);
    return true;
}

static inline void standing_stall(struct standing *standing)
{
    gpu_stall(&standing->stall, standing->stream);
}

static inline void standing_resume(struct standing *standing)
{
    gpu_resume(&standing->stall);
}

/* Waits until all work on the device has ended: an operation with a work is on
 * a stream of the library, and an abandoned one may still use its buffers. */
static inline void standing_await(void)
{
    GPU_CHECK(cuCtxSynchronize());
}

/* Frees everything, when a blocked stream was resumed: it ends. */
static inline void standing_end(struct standing *standing)
{
    standing_await();
    device_end_stream(standing->stream);
    device_free(standing->at);
    if (standing->stall.word != NULL)
        gpu_stall_free(&standing->stall);
}

#endif
