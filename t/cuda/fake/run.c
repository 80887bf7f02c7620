/* SPDX-License-Identifier: BSD-3-Clause */
/* Executes the pieces of work in the streams of the fake driver. */
#include "t/cuda/fake/order.h"
#include "t/cuda/fake/state.h"

#include <stdlib.h>
#include <string.h>

static void count_blocks(const struct CUstream_st *stream, int n)
{
    struct fake_device *of = &fake.devices[stream->context->device];

    fake_lock();
    of->priority = stream->priority;
    of->blocks += n;
    if (of->blocks > of->blocks_max)
        of->blocks_max = of->blocks;
    fake_unlock();
}

NOT_CHECKED static void run_kernel(struct fake_work *work, uint64_t seed)
{
    const fake_kernel_fn kernel = work->function->kernel;

    if (fake.engine != NULL)
        fake.engine(kernel, work->args, work->blocks, work->threads, seed);
    else
        for (uint32_t i = 0; i < work->blocks; i++)
            kernel(work->args);
    /* The thread that reads the arguments frees them: the stream's own thread
     * is not ordered after it. */
    free(work->args);
    work->args = NULL;
}

CHECKED static void set_words(uint32_t *words, uint32_t value, size_t n)
{
    for (size_t i = 0; i < n; i++)
        words[i] = value;
}

CHECKED static void write_word(uint32_t *word, uint32_t value)
{
    __atomic_store_n(word, value, __ATOMIC_RELEASE);
}

CHECKED static void read_word(const uint32_t *word)
{
    (void)__atomic_load_n(word, __ATOMIC_ACQUIRE);
}

struct job {
    CUstream stream;
    struct fake_work *work;
};

NOT_CHECKED static void perform(CUstream stream, struct fake_work *work)
{
    switch (work->kind) {
    case FAKE_COPY:
        memmove(work->to, work->from, work->nbytes);
        break;
    case FAKE_SET:
        set_words(work->to, work->value, work->nbytes);
        break;
    case FAKE_SET_BYTES:
        memset(work->to, (int)work->value, work->nbytes);
        break;
    case FAKE_KERNEL:
        run_kernel(work, stream->random);
        break;
    case FAKE_CALL:
        work->call(work->to);
        break;
    case FAKE_WRITE_VALUE:
        write_word(work->to, work->value);
        break;
    case FAKE_WAIT_VALUE:
        read_word(work->from);
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

/* Runs work in stream order. */
NOT_CHECKED static void run_ordered(void *arg)
{
    const struct job *job = arg;

    fake_acquire(&job->work->enqueued);
    perform(job->stream, job->work);
    fake_release(&job->stream->done);
}

void fake_run(CUstream stream, struct fake_work *work)
{
    const int blocks = work->kind == FAKE_KERNEL ? (int)work->blocks : 0;
    struct job job = {stream, work};

    if (blocks > 0)
        count_blocks(stream, blocks);
    fake_call_ordered(stream->order, run_ordered, &job);
    if (blocks > 0)
        count_blocks(stream, -blocks);
}
