/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Handles of streams and events of the fake driver, including handles used
 * after they were destroyed, which the real driver dereferences.
 */
#include "t/cuda/fake/state.h"

#include <time.h>

/* Sleeps for a drawn time. Called with the lock, which is released during the
 * sleep. */
static void linger(void)
{
    static uint64_t random;
    struct timespec pause = {.tv_sec = 0};

    random =
        random * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    pause.tv_nsec = (long)((random >> 33) % (fake.settings.linger + 1)) * 1000;
    fake_unlock();
    (void)nanosleep(&pause, NULL);
    fake_lock();
}

static void check(const void *handle, bool destroyed)
{
    if (destroyed && !fake.settings.reuse)
        fake_die_of(handle, "it has been destroyed");
}

CUresult fake_refuse_free(const void *at, CUresult error)
{
    if (!fake.settings.reuse)
        fake_die_of(at, "there is no such thing to free");
    return error;
}

void fake_check_unused(const void *handle, int users)
{
    if (users > 0)
        fake_die_of(handle, "another call is in it");
}

void fake_lock_handles(CUstream handle, CUevent event)
{
    CUstream stream;
    CUevent found;

    fake_lock();
    stream = fake_find_any_stream(handle);
    found = fake_find_any_event(event);
    check(stream, stream != NULL && stream->destroyed);
    check(found, found != NULL && found->destroyed);
    if (fake.settings.linger == 0)
        return;
    if (stream != NULL)
        stream->users++;
    if (found != NULL)
        found->users++;
    linger();
    if (stream != NULL)
        stream->users--;
    if (found != NULL)
        found->users--;
}
