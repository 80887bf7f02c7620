/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A reducer of one parameter on a rank's device, and its gradient, which
 * simulates the work that backward enqueues.
 */
#ifndef T_DDP_ALONE_H
#define T_DDP_ALONE_H

#include "t/cuda/members.h"

#include <string.h>

#define ALONE_COUNT 300

struct alone {
    struct symmcoll_group *group;
    struct symmcoll_reducer *reducer;
    struct symmcoll_tensor param;
    CUstream stream;
    uint32_t *grad;
};

/* Creates a reducer on the device of a number, such as the rank. args may be
 * NULL. */
static inline int alone_begin(struct alone *alone, struct symmcoll_group *group,
    int number, const struct symmcoll_reducer_args *args)
{
    int device = device_use(number);
    struct symmcoll_tensor param = SYMMCOLL_TENSOR_FLAT(NULL, ALONE_COUNT, F32);

    *alone = (struct alone){.group = group, .param = param};
    alone->stream = device_stream();
    alone->param.data = device_alloc(ALONE_COUNT * sizeof(float));
    alone->param.device = SYMMCOLL_CUDA;
    alone->param.device_index = device;
    alone->grad = device_alloc(ALONE_COUNT * sizeof(float));
    return symmcoll_group_set_stream(group, alone->stream) == SYMMCOLL_OK &&
           say(symmcoll_reducer_create(group, &alone->param, 1, args,
                   &alone->reducer) == SYMMCOLL_OK,
               "a reducer");
}

/* Frees everything; nothing if the struct is zero. */
static inline int alone_end(struct alone *alone, int right)
{
    if (alone->stream == NULL)
        return right;
    symmcoll_reducer_free(alone->reducer);
    device_wait(alone->stream);
    device_free(alone->param.data);
    device_free(alone->grad);
    device_end_stream(alone->stream);
    return right;
}

static inline uint32_t alone_bits(float value)
{
    uint32_t bits;

    memcpy(&bits, &value, sizeof(bits));
    return bits;
}

/* Enqueues a backward: the gradient is `value` everywhere. */
static inline void alone_enqueue(const struct alone *alone, float value)
{
    cuMemsetD32Async((CUdeviceptr)(uintptr_t)alone->grad, alone_bits(value),
        ALONE_COUNT, alone->stream);
}

/* Runs one backward. */
static inline int alone_run(struct alone *alone)
{
    return say(symmcoll_reducer_begin(alone->reducer, 1) == SYMMCOLL_OK &&
                   symmcoll_reducer_ready(alone->reducer, 0, alone->grad) ==
                       SYMMCOLL_OK &&
                   symmcoll_reducer_finish(alone->reducer) == SYMMCOLL_OK,
        "a backward");
}

#endif
