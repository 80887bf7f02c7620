/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Streams of the fake driver: each is a queue of work and a thread that runs
 * one piece after the other.
 */
#include "t/cuda/fake/order.h"
#include "t/cuda/fake/state.h"

#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define POLL_NS 50000 /* between two looks at a word that others write */

static char ended; /* an address for ThreadSanitizer: all streams that have */

static void pause_ns(long ns)
{
    const struct timespec wait = {.tv_nsec = ns};

    (void)nanosleep(&wait, NULL);
}

/* ---- pieces of work ---- */

struct fake_work *fake_copy_work(const struct fake_work *work)
{
    struct fake_work *copy = fake_alloc(sizeof(*copy));

    *copy = *work;
    copy->next = NULL;
    if (work->args != NULL) {
        copy->args = fake_alloc(work->function->args_nbytes);
        memcpy(copy->args, work->args, work->function->args_nbytes);
    }
    if (copy->event != NULL)
        copy->event->uses++;
    return copy;
}

void fake_free_work(struct fake_work *work)
{
    if (work->event != NULL)
        fake_drop_event(work->event);
    free(work->args);
    free(work);
}

static bool is_dropped(const struct CUstream_st *stream)
{
    return stream->context->broken != CUDA_SUCCESS;
}

/* Returns whether a word satisfies the condition of a wait for a value. */
static bool has_value(const struct fake_work *work)
{
    const uint32_t found =
        __atomic_load_n((const uint32_t *)work->from, __ATOMIC_ACQUIRE);

    switch (work->flags & 3U) {
    case CU_STREAM_WAIT_VALUE_GEQ:
        return (int32_t)(found - work->value) >= 0;
    case CU_STREAM_WAIT_VALUE_EQ:
        return found == work->value;
    case CU_STREAM_WAIT_VALUE_AND:
        return (found & work->value) != 0;
    default:
        return ~(found | work->value) != 0;
    }
}

/* The first piece of work of a stream. */
struct beginning {
    const struct CUstream_st *stream;
    const struct fake_work *work;
    const uint64_t *started; /* of its connection; NULL: it has none */
};

/* Returns whether a piece of work may begin: all earlier work of its
 * connection has begun, and the event it waits for has happened. */
static bool may_begin(const void *arg)
{
    const struct beginning *it = arg;
    const struct fake_work *work = it->work;

    if (it->started != NULL && *it->started + 1 != work->ticket)
        return false;
    if (is_dropped(it->stream))
        return true;
    switch (work->kind) {
    case FAKE_WAIT_EVENT:
        return work->event->completed >= work->number;
    case FAKE_STALL:
        return it->stream->resumed > 0;
    default:
        return true;
    }
}

/* Polls a word until a wait for its value is satisfied; changes of the word
 * are not announced. */
static void wait_for_word(
    const struct CUstream_st *stream, const struct fake_work *work)
{
    while (!has_value(work) && !is_dropped(stream)) {
        fake_unlock();
        pause_ns(POLL_NS);
        fake_lock();
    }
}

/* Wait until a piece of work may begin. */
static void wait_to_begin(CUstream stream, const struct fake_work *work)
{
    struct fake_device *device = &fake.devices[stream->context->device];
    uint64_t *started =
        stream->connection >= 0 ? &device->started[stream->connection] : NULL;
    const struct beginning it = {stream, work, started};

    fake_wait_until(may_begin, &it);
    if (work->kind == FAKE_WAIT_VALUE)
        wait_for_word(stream, work);
    if (work->kind == FAKE_STALL && stream->resumed > 0)
        stream->resumed--;
    if (started != NULL) {
        ++*started;
        fake_changed();
    }
}

static int64_t now_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

/* Marks a piece of work as done or dropped. */
static void complete(CUstream stream, const struct fake_work *work)
{
    if (work->kind == FAKE_RECORD && work->event->completed < work->number) {
        work->event->completed = work->number;
        work->event->completed_ns = now_ns();
    }
    stream->completed++;
    fake_note_done(stream);
    fake_changed();
}

static void delay(CUstream stream)
{
    unsigned int drawn;

    stream->random = stream->random * UINT64_C(6364136223846793005) +
                     UINT64_C(1442695040888963407);
    drawn = (unsigned int)(stream->random >> 33);
    if (fake.settings.delay != 0)
        pause_ns((long)(drawn % (fake.settings.delay + 1)) * 1000);
    else if (drawn % 4 == 0)
        (void)sched_yield();
}

/* Runs a piece of work. Called with the lock, which is released during the
 * run. */
static void perform(CUstream stream, struct fake_work *work)
{
    wait_to_begin(stream, work);
    if (work->kind < FAKE_RECORD)
        fake_await_quiet(stream);
    if (!is_dropped(stream)) {
        fake_unlock();
        delay(stream);
        fake_run(stream, work);
        fake_lock();
    }
    complete(stream, work);
}

/* Destroyed streams: the next one reuses the handle of the latest, as it may
 * with the real driver. */
static CUstream spares;

static void remove_stream(CUstream stream)
{
    CUstream *at = &fake.streams;

    while (*at != stream)
        at = &(*at)->next;
    *at = stream->next;
    stream->next = spares;
    spares = stream;
    fake.threads--;
    fake_changed();
}

static bool has_work_or_ends(const void *arg)
{
    const struct CUstream_st *stream = arg;

    return stream->first != NULL || stream->destroyed;
}

static void *run_stream(void *arg)
{
    CUstream stream = arg;
    struct fake_order *const order = stream->order;

    fake_lock();
    for (;;) {
        struct fake_work *work = stream->first;

        if (work != NULL) {
            perform(stream, work);
            stream->first = work->next;
            if (stream->first == NULL)
                stream->last = &stream->first;
            fake_free_work(work);
        } else if (stream->destroyed) {
            break;
        } else {
            fake_wait_until(has_work_or_ends, stream);
        }
    }
    fake_call_ordered(order, fake_release, &ended);
    remove_stream(stream);
    fake_unlock();
    fake_free_order(order);
    return NULL;
}

/* ---- streams, with the lock ---- */

static unsigned long long ids; /* of streams, no two the same */

static CUstream take_spare(void)
{
    CUstream stream = spares;

    if (stream == NULL || !fake.settings.reuse)
        return fake_alloc(sizeof(*stream));
    spares = stream->next;
    memset(stream, 0, sizeof(*stream));
    return stream;
}

CUstream fake_make_stream(CUcontext context, bool nonblocking, int priority)
{
    struct fake_device *device = &fake.devices[context->device];
    CUstream stream = take_spare();
    const int connections = fake.settings.connections;
    pthread_attr_t attributes;
    pthread_t thread;

    stream->id = ++ids;
    stream->context = context;
    stream->nonblocking = nonblocking;
    stream->priority = priority;
    stream->connection = connections > 0 ? device->streams % connections : -1;
    stream->random = fake.settings.seed + (uint64_t)device->streams * 977;
    device->streams++;
    stream->last = &stream->first;
    stream->order = fake_make_order();
    stream->next = fake.streams;
    fake.streams = stream;
    fake.threads++;
    if (pthread_attr_init(&attributes) != 0 ||
        pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED) !=
            0 ||
        pthread_create(&thread, &attributes, run_stream, stream) != 0)
        fake_die("no thread");
    (void)pthread_attr_destroy(&attributes);
    return stream;
}

/* Ends a stream. Its thread frees it when all its work is done. */
void fake_end_stream(CUstream stream)
{
    stream->destroyed = true;
    fake_changed();
}

void fake_append(CUstream stream, const struct fake_work *work)
{
    struct fake_work *copy = fake_copy_work(work);

    if (stream->connection >= 0)
        copy->ticket =
            ++fake.devices[stream->context->device].queued[stream->connection];
    fake_release(&copy->enqueued);
    *stream->last = copy;
    stream->last = &copy->next;
    stream->enqueued++;
    fake_changed();
}

void fake_append_wait(CUstream stream, CUstream other)
{
    CUevent event = fake_alloc(sizeof(*event));
    struct fake_work work = {.kind = FAKE_RECORD, .event = event, .number = 1};

    event->destroyed = true; /* by the last of its two uses */
    fake_append(other, &work);
    work.kind = FAKE_WAIT_EVENT;
    fake_append(stream, &work);
}

/* Orders work between the legacy stream and the blocking streams of its
 * context. */
static void order_legacy(CUstream stream)
{
    const CUcontext context = stream->context;

    if (stream->legacy) {
        for (CUstream at = fake.streams; at != NULL; at = at->next)
            if (at != stream && at->context == context && !at->nonblocking &&
                at->completed < at->enqueued)
                fake_append_wait(stream, at);
    } else if (!stream->nonblocking && context->legacy != NULL &&
               context->legacy->completed < context->legacy->enqueued) {
        fake_append_wait(stream, context->legacy);
    }
}

/* Checks the limit of the setting `queue`. */
static bool has_room(const void *arg)
{
    const struct CUstream_st *stream = arg;

    return fake.settings.queue <= 0 ||
           stream->enqueued - stream->completed < (uint64_t)fake.settings.queue;
}

static void await_room(CUstream stream)
{
    stream->users++;
    fake_wait_until(has_room, stream);
    stream->users--;
}

CUresult fake_enqueue(CUstream handle, const struct fake_work *work)
{
    CUstream stream = fake_find_stream(handle);
    bool between;
    int device = -1;
    CUresult result;

    if (stream == NULL)
        return CUDA_ERROR_INVALID_HANDLE;
    if (fake_is_skipped())
        return CUDA_SUCCESS;
    if (stream->context->broken != CUDA_SUCCESS)
        return stream->context->broken;
    if (stream->capture != NULL)
        return fake_capture_work(stream, work);
    result = stream->legacy ? fake_use_legacy(stream->context) : CUDA_SUCCESS;
    if (result != CUDA_SUCCESS)
        return result;
    order_legacy(stream);
    between = fake_is_between(stream, work, &device);
    if (between)
        fake_order_between(stream, device, true);
    await_room(stream);
    fake_append(stream, work);
    if (between)
        fake_order_between(stream, device, false);
    return CUDA_SUCCESS;
}

CUresult fake_enqueue_here(CUstream handle, const struct fake_work *work)
{
    CUstream stream = fake_find_stream(handle);

    return stream != NULL && stream->context == fake_current()
               ? fake_enqueue(handle, work)
               : CUDA_ERROR_INVALID_HANDLE;
}

/* Returns the default stream of the calling thread's context. */
static CUstream find_legacy(void)
{
    CUcontext context = fake_current();

    if (context == NULL)
        return NULL;
    if (context->legacy == NULL) {
        context->legacy = fake_make_stream(context, false, 0);
        context->legacy->legacy = true;
    }
    return context->legacy;
}

static CUstream find_per_thread(void)
{
    CUcontext context = fake_current();
    CUstream at = fake.streams;

    while (at != NULL && (!at->per_thread || at->context != context ||
                             !pthread_equal(at->thread, pthread_self())))
        at = at->next;
    if (at == NULL && context != NULL) {
        at = fake_make_stream(context, false, 0);
        at->per_thread = true;
        at->thread = pthread_self();
    }
    return at;
}

CUstream fake_find_stream(CUstream handle)
{
    CUstream at = fake.streams;

    if (handle == NULL || handle == CU_STREAM_LEGACY)
        return find_legacy();
    if (handle == CU_STREAM_PER_THREAD)
        return find_per_thread();
    while (at != NULL && at != handle)
        at = at->next;
    return at != NULL && !at->destroyed ? at : NULL;
}

CUstream fake_find_any_stream(CUstream handle)
{
    CUstream at = fake.streams;

    if (handle == NULL || handle == CU_STREAM_LEGACY ||
        handle == CU_STREAM_PER_THREAD)
        return NULL;
    while (at != NULL && at != handle)
        at = at->next;
    if (at == NULL)
        at = spares;
    while (at != NULL && at != handle)
        at = at->next;
    return at;
}

/* ---- waiting for a context ---- */

#define AWAITED 256 /* streams of a context that have work */

struct awaited {
    CUstream stream; /* stays where it is: it may be used again */
    unsigned long long id;
    uint64_t until;
};

static bool has_completed(const void *arg)
{
    const struct awaited *awaited = arg;

    return awaited->stream->id != awaited->id ||
           awaited->stream->completed >= awaited->until;
}

void fake_await_context(CUcontext context)
{
    struct awaited all[AWAITED];
    int n = 0;

    for (CUstream at = fake.streams; at != NULL; at = at->next) {
        if (at->context != context)
            continue;
        if (n >= AWAITED)
            fake_die("more streams than can be waited for");
        else
            all[n++] = (struct awaited){at, at->id, at->enqueued};
    }
    for (int i = 0; i < n; i++) {
        fake_wait_until(has_completed, &all[i]);
        fake_acquire(&all[i].stream->done);
    }
}

void fake_await_to_free(void)
{
    if (fake.settings.waits)
        fake_await_context(fake_current());
}

/* ---- for tests ---- */

void fake_stall(CUstream handle)
{
    const struct fake_work work = {.kind = FAKE_STALL};

    fake_lock();
    if (fake_enqueue(handle, &work) != CUDA_SUCCESS)
        fake_die("a stream that cannot be stalled");
    fake_unlock();
}

void fake_resume(CUstream handle)
{
    CUstream stream;

    fake_lock();
    stream = fake_find_stream(handle);
    if (stream == NULL)
        fake_die("no such stream to resume");
    stream->resumed++;
    fake_changed();
    fake_unlock();
}

/* Returns whether the threads of all destroyed streams have ended. */
static bool have_ended(const void *unused)
{
    (void)unused;
    for (CUstream at = fake.streams; at != NULL; at = at->next)
        if (at->destroyed)
            return false;
    return true;
}

void fake_finish(void)
{
    fake_lock();
    fake_wait_until(have_ended, NULL);
    fake_acquire(&ended);
    fake_unlock();
}
