/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Driver calls that a test skips and streams that it holds back, to show that
 * the ordering which they provide is needed.
 */
#include "t/cuda/fake/state.h"

#include <string.h>
#include <time.h>

#define LOOK_NS 100000 /* between two looks at other streams */

/* ---- skipped calls ---- */

static _Thread_local bool skipped; /* the call that the thread is in */

FAKE_API void fake_skip(int device, const char *name, int n)
{
    fake_lock();
    fake.devices[device].skip = (struct fake_skip){.name = name, .left = n};
    fake_unlock();
}

FAKE_API bool fake_has_skipped(int device)
{
    bool has;

    fake_lock();
    has = fake.devices[device].skip.done;
    fake_unlock();
    return has;
}

void fake_count_skip(const char *name)
{
    CUcontext context = fake_current();
    struct fake_skip *skip;

    skipped = false;
    if (context == NULL)
        return;
    skip = &fake.devices[context->device].skip;
    if (skip->left == 0 || strcmp(skip->name, name) != 0 || --skip->left > 0)
        return;
    skip->done = true;
    skipped = true;
}

bool fake_is_skipped(void)
{
    bool was = skipped;

    skipped = false;
    return was;
}

/* ---- streams that are held back ---- */

FAKE_API void fake_hold_back(int device, int priority, int ms)
{
    fake_lock();
    fake.devices[device].held_priority = priority;
    fake.devices[device].held_ms = ms;
    fake_unlock();
}

static int64_t now_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

static int64_t held_ns(const struct CUstream_st *stream)
{
    const struct fake_device *device = &fake.devices[stream->context->device];

    return stream->priority == device->held_priority
               ? (int64_t)device->held_ms * 1000000
               : 0;
}

static int64_t latest_ns; /* when another stream has last done something */

void fake_note_done(const struct CUstream_st *stream)
{
    if (held_ns(stream) == 0)
        latest_ns = now_ns();
}

void fake_await_quiet(const struct CUstream_st *stream)
{
    const struct timespec pause = {.tv_nsec = LOOK_NS};
    int64_t began = now_ns();

    while (
        stream->context->broken == CUDA_SUCCESS &&
        now_ns() - (latest_ns > began ? latest_ns : began) < held_ns(stream)) {
        fake_unlock();
        (void)nanosleep(&pause, NULL);
        fake_lock();
    }
}
