/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A stream that is blocked until another thread releases it, which shows
 * whether a call waits for the work enqueued on the stream.
 */
#ifndef T_CUDA_LATER_H
#define T_CUDA_LATER_H

#include "t/cuda/fake/fake.h"
#include "t/tap.h"

#include <pthread.h>
#include <stdatomic.h>
#include <unistd.h>

struct later {
    CUstream stream;
    pthread_t thread;
    atomic_bool resumed;
};

static inline void *later_run(void *arg)
{
    struct later *later = arg;

    usleep(100000);
    atomic_store(&later->resumed, true);
    fake_resume(later->stream);
    return NULL;
}

/* Starts a thread that soon resumes a stream blocked by fake_stall(). Called
 * before the call to test. */
static inline void later_resume(struct later *later, CUstream stream)
{
    later->stream = stream;
    atomic_init(&later->resumed, false);
    pthread_create(&later->thread, NULL, later_run, later);
}

/* Ends the test of a blocked stream. Returns whether the stream was released
 * before the call returned. */
static inline bool later_end(struct later *later)
{
    bool resumed = atomic_load(&later->resumed);

    if (!resumed)
        diag("the call did not wait for the stream");
    pthread_join(later->thread, NULL);
    return resumed;
}

#endif
