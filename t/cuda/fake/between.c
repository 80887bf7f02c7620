/* SPDX-License-Identifier: BSD-3-Clause */
/* Copies between devices in default streams of the fake driver. */
#include "t/cuda/fake/state.h"

bool fake_is_between(CUstream stream, const struct fake_work *work, int *device)
{
    const struct fake_range *to, *from;

    if (!stream->legacy || work->kind != FAKE_COPY)
        return false;
    to = fake_find_range((uintptr_t)work->to);
    from = fake_find_range((uintptr_t)work->from);
    if (to == NULL || from == NULL || to->type != CU_MEMORYTYPE_DEVICE ||
        from->type != CU_MEMORYTYPE_DEVICE)
        return false;
    *device = to->device == stream->context->device ? from->device : to->device;
    return *device != stream->context->device;
}

void fake_order_between(CUstream stream, int device, bool before)
{
    for (CUstream at = fake.streams; at != NULL; at = at->next) {
        const int of = at->context->device;

        if (at == stream || at->destroyed || at->capture != NULL ||
            (of != device && of != stream->context->device))
            continue;
        if (!before)
            fake_append_wait(at, stream);
        else if (at->completed < at->enqueued)
            fake_append_wait(stream, at);
    }
}
