/* SPDX-License-Identifier: BSD-3-Clause */
/* What the pieces of work in the streams of the fake driver do. */
#include "t/cuda/fake/order.h"
#include "t/cuda/fake/state.h"

#include <string.h>

static void count_blocks(int device, int n)
{
    struct fake_device *of = &fake.devices[device];

    fake_lock();
    of->blocks += n;
    if (of->blocks > of->blocks_max)
        of->blocks_max = of->blocks;
    fake_unlock();
}

static void run_kernel(const struct fake_work *work, uint64_t seed)
{
    const fake_kernel_fn kernel = work->function->kernel;

    if (fake.engine != NULL) {
        fake.engine(kernel, work->args, work->blocks, work->threads, seed);
        return;
    }
    for (uint32_t i = 0; i < work->blocks; i++)
        kernel(work->args);
}

static void set_words(uint32_t *words, uint32_t value, size_t n)
{
    for (size_t i = 0; i < n; i++)
        words[i] = value;
}

/* In the order of the stream. */
static void run_ordered(CUstream stream, const struct fake_work *work)
{
    switch (work->kind) {
    case FAKE_COPY:
        memmove(work->to, work->from, work->nbytes);
        break;
    case FAKE_SET:
        set_words(work->to, work->value, work->nbytes);
        break;
    case FAKE_KERNEL:
        run_kernel(work, stream->random);
        break;
    case FAKE_CALL:
        work->call(work->to);
        break;
    case FAKE_WRITE_VALUE:
        __atomic_store_n((uint32_t *)work->to, work->value, __ATOMIC_RELEASE);
        break;
    case FAKE_WAIT_VALUE:
        (void)__atomic_load_n((const uint32_t *)work->from, __ATOMIC_ACQUIRE);
        break;
    case FAKE_RECORD:
        fake_release(&work->event->record);
        break;
    case FAKE_WAIT_EVENT:
        fake_acquire(&work->event->record);
        break;
    case FAKE_STALL:
        break;
    }
}

void fake_run(CUstream stream, const struct fake_work *work)
{
    const int device = stream->context->device;
    void *before;

    if (work->kind == FAKE_KERNEL)
        count_blocks(device, (int)work->blocks);
    before = fake_enter_order(stream->sanitizer);
    fake_acquire((void *)&work->enqueued);
    run_ordered(stream, work);
    fake_release(&stream->done);
    fake_leave_order(before);
    if (work->kind == FAKE_KERNEL)
        count_blocks(device, -(int)work->blocks);
}
