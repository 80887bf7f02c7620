/* SPDX-License-Identifier: BSD-3-Clause */
/* Tests streams and events of the fake driver: which work is ordered, and
 * which is not. */
#include "t/cuda/device.h"

#include <sched.h>
#include <stdatomic.h>

#define STREAMS 4
#define ASKED 1000 /* attempts, in which all permitted work begins */

/* Streams that are not ordered with the default one, and words with value 0. */
struct streams {
    CUstream of[STREAMS];
    CUevent event;
    CUdeviceptr words;
};

static int open_streams(struct streams *streams, const char *settings)
{
    if (!open_device(settings, 0))
        return 0;
    for (int i = 0; i < STREAMS; i++)
        if (!good(cuStreamCreateWithPriority(
                &streams->of[i], CU_STREAM_NON_BLOCKING, 0)))
            return 0;
    streams->words = make_words(64);
    return streams->words != 0 &&
           good(cuEventCreate(&streams->event, CU_EVENT_DISABLE_TIMING));
}

static int close_streams(struct streams *streams)
{
    int right = 1;

    for (int i = 0; i < STREAMS; i++)
        right &= good(cuStreamSynchronize(streams->of[i])) &&
                 good(cuStreamDestroy(streams->of[i]));
    right &=
        good(cuEventDestroy(streams->event)) && good(cuMemFree(streams->words));
    return right && close_device(0);
}

/* Set a word. */
static int put(
    const struct streams *streams, int stream, size_t index, uint32_t value)
{
    return good(cuMemsetD32Async(streams->words + index * sizeof(uint32_t),
        value, 1, streams->of[stream]));
}

static int copy(
    const struct streams *streams, int stream, size_t to, size_t from)
{
    return good(cuMemcpyAsync(streams->words + to * sizeof(uint32_t),
        streams->words + from * sizeof(uint32_t), sizeof(uint32_t),
        streams->of[stream]));
}

static int is_busy(const struct streams *streams, int stream)
{
    return returned(cuStreamQuery(streams->of[stream]), CUDA_ERROR_NOT_READY);
}

static int finished(const struct streams *streams, int stream)
{
    return good(cuStreamSynchronize(streams->of[stream])) &&
           good(cuStreamQuery(streams->of[stream]));
}

/* ---- a stream ---- */

static int work_is_done_in_order(void *unused)
{
    struct streams streams = {.event = NULL};
    int right = open_streams(&streams, "delay=50 seed=3");

    (void)unused;
    for (uint32_t i = 1; i < 60 && right; i++)
        right = put(&streams, 0, 0, i) && copy(&streams, 0, i, 0);
    right = right && finished(&streams, 0);
    for (uint32_t i = 1; i < 60 && right; i++)
        right = word_at(streams.words, i) == i;
    return right && close_streams(&streams);
}

static int a_stalled_stream_keeps_nobody(void *unused)
{
    struct streams streams = {.event = NULL};
    int right = open_streams(&streams, "");

    (void)unused;
    fake_stall(streams.of[0]);
    right = right && put(&streams, 0, 0, 1) && put(&streams, 1, 1, 2) &&
            finished(&streams, 1) && is_busy(&streams, 0) &&
            word_at(streams.words, 1) == 2;
    fake_resume(streams.of[0]);
    right = right && finished(&streams, 0) && word_at(streams.words, 0) == 1;
    return right && close_streams(&streams);
}

static int a_destroyed_stream_does_its_work(void *unused)
{
    struct streams streams = {.event = NULL};
    CUstream extra = NULL;
    int right =
        open_streams(&streams, "reuse=1") && good(cuStreamCreate(&extra, 1));

    (void)unused;
    right = right && good(cuMemsetD32Async(streams.words, 5, 1, extra)) &&
            good(cuStreamDestroy(extra)) &&
            returned(cuStreamQuery(extra), CUDA_ERROR_INVALID_HANDLE);
    fake_finish();
    return right && word_at(streams.words, 0) == 5 && close_streams(&streams);
}

/* ---- events ---- */

static int an_event_orders_two_streams(void *unused)
{
    struct streams streams = {.event = NULL};
    int right = open_streams(&streams, "");

    (void)unused;
    fake_stall(streams.of[0]);
    right = right && put(&streams, 0, 0, 7) &&
            good(cuEventRecord(streams.event, streams.of[0])) &&
            good(cuStreamWaitEvent(streams.of[1], streams.event, 0)) &&
            copy(&streams, 1, 1, 0) &&
            returned(cuEventQuery(streams.event), CUDA_ERROR_NOT_READY) &&
            is_busy(&streams, 1);
    fake_resume(streams.of[0]);
    right = right && finished(&streams, 1) && word_at(streams.words, 1) == 7 &&
            good(cuEventQuery(streams.event));
    return right && close_streams(&streams);
}

static int a_wait_is_for_the_record_before_it(void *unused)
{
    struct streams streams = {.event = NULL};
    int right = open_streams(&streams, "");

    (void)unused;
    /* An event that was never recorded counts as complete. */
    right = right && good(cuEventQuery(streams.event)) &&
            good(cuEventSynchronize(streams.event)) &&
            good(cuStreamWaitEvent(streams.of[1], streams.event, 0)) &&
            finished(&streams, 1);
    right = right && good(cuEventRecord(streams.event, streams.of[2])) &&
            good(cuStreamWaitEvent(streams.of[1], streams.event, 0));
    fake_stall(streams.of[0]);
    right = right && good(cuEventRecord(streams.event, streams.of[0])) &&
            put(&streams, 1, 0, 1) && finished(&streams, 1) &&
            returned(cuEventQuery(streams.event), CUDA_ERROR_NOT_READY);
    fake_resume(streams.of[0]);
    return right && good(cuEventSynchronize(streams.event)) &&
           close_streams(&streams);
}

static int an_event_can_be_destroyed_while_it_is_waited_for(void *unused)
{
    struct streams streams = {.event = NULL};
    CUevent event = NULL;
    int right =
        open_streams(&streams, "reuse=1") && good(cuEventCreate(&event, 0));

    (void)unused;
    fake_stall(streams.of[0]);
    right = right && good(cuEventRecord(event, streams.of[0])) &&
            good(cuStreamWaitEvent(streams.of[1], event, 0)) &&
            good(cuEventDestroy(event)) &&
            returned(cuEventQuery(event), CUDA_ERROR_INVALID_HANDLE) &&
            is_busy(&streams, 1);
    fake_resume(streams.of[0]);
    return right && finished(&streams, 1) && close_streams(&streams);
}

static int events_measure_time(void *unused)
{
    struct streams streams = {.event = NULL};
    CUevent begin = NULL, end = NULL;
    float ms = -1;
    int right = open_streams(&streams, "") && good(cuEventCreate(&begin, 0)) &&
                good(cuEventCreate(&end, 0));

    (void)unused;
    fake_stall(streams.of[0]);
    right =
        right && good(cuEventRecord(begin, streams.of[0])) &&
        good(cuEventRecord(end, streams.of[0])) &&
        returned(cuEventElapsedTime(&ms, begin, end), CUDA_ERROR_NOT_READY) &&
        returned(cuEventElapsedTime(&ms, begin, streams.event),
            CUDA_ERROR_INVALID_HANDLE);
    fake_resume(streams.of[0]);
    right = right && finished(&streams, 0) &&
            good(cuEventElapsedTime(&ms, begin, end)) && ms >= 0 &&
            good(cuEventDestroy(begin)) && good(cuEventDestroy(end));
    return right && close_streams(&streams);
}

/* ---- words ---- */

static int a_stream_waits_for_a_word(void *unused)
{
    struct streams streams = {.event = NULL};
    int right = open_streams(&streams, "");
    /* The values are compared cyclically: 2 follows 0xfffffffe. */
    const uint32_t old = 0xfffffffe;

    (void)unused;
    right = right && put(&streams, 0, 0, old) && finished(&streams, 0) &&
            good(cuStreamWaitValue32(
                streams.of[1], streams.words, 2, CU_STREAM_WAIT_VALUE_GEQ)) &&
            copy(&streams, 1, 1, 2) && is_busy(&streams, 1) &&
            put(&streams, 2, 2, 9) &&
            good(cuStreamWriteValue32(streams.of[2], streams.words, 3, 0)) &&
            returned(cuStreamWriteValue32(streams.of[2], 64, 3, 0),
                CUDA_ERROR_INVALID_VALUE) &&
            returned(cuStreamWriteValue32(streams.of[2], streams.words, 3,
                         CU_STREAM_WRITE_VALUE_NO_MEMORY_BARRIER),
                CUDA_ERROR_INVALID_VALUE) &&
            finished(&streams, 1) && word_at(streams.words, 1) == 9;
    return right && close_streams(&streams);
}

/* ---- the default stream ---- */

static int the_default_stream_is_ordered(void *unused)
{
    struct streams streams = {.event = NULL};
    CUstream blocking = NULL;
    int right = open_streams(&streams, "") &&
                good(cuStreamCreate(&blocking, CU_STREAM_DEFAULT));

    (void)unused;
    fake_stall(streams.of[3]);
    fake_stall(blocking);
    right = right && good(cuMemsetD32Async(streams.words, 1, 1, blocking)) &&
            good(cuMemcpyAsync(streams.words + 4, streams.words, 4, NULL)) &&
            returned(cuStreamQuery(NULL), CUDA_ERROR_NOT_READY) &&
            put(&streams, 0, 5, 5) && finished(&streams, 0);
    fake_resume(blocking);
    right = right && good(cuStreamSynchronize(NULL)) &&
            word_at(streams.words, 1) == 1;
    fake_stall(NULL);
    right =
        right && good(cuMemsetD32Async(streams.words, 2, 1, NULL)) &&
        good(cuMemcpyAsync(streams.words + 8, streams.words, 4, blocking)) &&
        returned(cuStreamQuery(blocking), CUDA_ERROR_NOT_READY);
    fake_resume(NULL);
    right = right && good(cuStreamSynchronize(blocking)) &&
            word_at(streams.words, 2) == 2 && good(cuStreamDestroy(blocking));
    fake_resume(streams.of[3]);
    return right && close_streams(&streams);
}

/* ---- connections ---- */

static _Atomic int order[2], nordered;

static void CUDA_CB note(void *number)
{
    order[atomic_fetch_add(&nordered, 1) % 2] = *(int *)number;
}

/* Checks whether the work of a stream begins while earlier work of another
 * stream waits. */
static int is_kept_waiting(const char *settings, bool expected)
{
    static int one = 1, two = 2;
    struct streams streams = {.event = NULL};
    int right = open_streams(&streams, settings);

    nordered = 0;
    fake_stall(streams.of[0]);
    right = right && good(cuLaunchHostFunc(streams.of[1], note, &one));
    if (!expected) /* independent of the other stream */
        right = right && finished(&streams, 1);
    for (int i = 0; i < ASKED && expected && right; i++) {
        right = is_busy(&streams, 1);
        (void)sched_yield();
    }
    note(&two);
    fake_resume(streams.of[0]);
    right = right && finished(&streams, 1) && nordered == 2 &&
            order[0] == (expected ? 2 : 1);
    return right && close_streams(&streams);
}

static int streams_share_connections(void *unused)
{
    (void)unused;
    return is_kept_waiting("connections=0", false) &&
           is_kept_waiting("connections=2", false) &&
           is_kept_waiting("connections=1", true);
}

/* ---- skipped calls ---- */

static int a_call_is_left_out(void *unused)
{
    struct streams streams = {.event = NULL};
    int right = open_streams(&streams, "");

    (void)unused;
    fake_skip(0, "cuMemsetD32Async", 2);
    right = right && put(&streams, 0, 0, 1) && !fake_has_skipped(0) &&
            put(&streams, 0, 0, 2) && fake_has_skipped(0) &&
            finished(&streams, 0) && word_at(streams.words, 0) == 1 &&
            put(&streams, 0, 0, 3) && finished(&streams, 0) &&
            word_at(streams.words, 0) == 3;
    /* Neither an event without a record nor one without a wait orders
     * anything. */
    for (int i = 0; i < 2 && right; i++) {
        fake_stall(streams.of[0]);
        fake_skip(0, i == 0 ? "cuEventRecord" : "cuStreamWaitEvent", 1);
        right = good(cuEventRecord(streams.event, streams.of[0])) &&
                good(cuStreamWaitEvent(streams.of[1], streams.event, 0)) &&
                finished(&streams, 1);
        fake_resume(streams.of[0]);
    }
    return right && close_streams(&streams);
}

static _Atomic int done, done_before; /* calls, and those before the last one */

static void add_one(void *unused)
{
    (void)unused;
    done++;
}

static void look(void *unused)
{
    (void)unused;
    done_before = done;
}

static int a_stream_is_held_back(void *unused)
{
    struct streams streams = {.event = NULL};
    int right = open_streams(&streams, "delay=500");
    CUstream greater = NULL;

    (void)unused;
    right = right && good(cuStreamCreateWithPriority(
                         &greater, CU_STREAM_NON_BLOCKING, -1));
    fake_hold_back(0, -1, 100);
    right = right && good(cuLaunchHostFunc(greater, look, NULL));
    for (int i = 0; i < 20 && right; i++)
        right = good(cuLaunchHostFunc(streams.of[0], add_one, NULL));
    right = right && good(cuStreamSynchronize(greater)) && done_before == 20;
    fake_hold_back(0, 0, 0);
    right = right && good(cuStreamDestroy(greater));
    return right && close_streams(&streams);
}

/* ---- faults ---- */

static int a_broken_context_drops_its_work(void *unused)
{
    struct streams streams = {.event = NULL};
    CUcontext other = NULL;
    CUdeviceptr memory = 0;
    int right = open_streams(&streams, "devices=2") &&
                good(cuDevicePrimaryCtxRetain(&other, 1));

    (void)unused;
    fake_stall(streams.of[0]);
    right = right && put(&streams, 0, 0, 1) &&
            good(cuEventRecord(streams.event, streams.of[0]));
    fake_break(0, CUDA_ERROR_ILLEGAL_ADDRESS);
    right = right &&
            returned(cuStreamSynchronize(streams.of[0]),
                CUDA_ERROR_ILLEGAL_ADDRESS) &&
            returned(cuEventQuery(streams.event), CUDA_ERROR_ILLEGAL_ADDRESS) &&
            returned(cuMemAlloc(&memory, 64), CUDA_ERROR_ILLEGAL_ADDRESS);
    for (int i = 0; i < STREAMS; i++)
        right &= good(cuStreamDestroy(streams.of[i]));
    fake_finish();
    right = right && word_at(streams.words, 0) == 0;
    right = right && good(cuCtxPushCurrent(other)) &&
            good(cuMemAlloc(&memory, 64)) && good(cuMemFree(memory)) &&
            good(cuCtxPopCurrent(&other));
    return right;
}

static int a_call_fails_as_often_as_a_test_wants(void *unused)
{
    struct streams streams = {.event = NULL};
    int right = open_streams(&streams, "fail=cuStreamQuery:2:999");

    (void)unused;
    right = right && good(cuStreamQuery(streams.of[0])) &&
            returned(cuStreamQuery(streams.of[0]), CUDA_ERROR_UNKNOWN) &&
            good(cuStreamQuery(streams.of[0])) &&
            fake_calls("cuStreamQuery") == 3 &&
            fake_configure("fail=cuStreamQuery:0:2") &&
            returned(cuStreamQuery(streams.of[0]), CUDA_ERROR_OUT_OF_MEMORY) &&
            returned(cuStreamQuery(streams.of[0]), CUDA_ERROR_OUT_OF_MEMORY);
    return right && close_streams(&streams);
}

/* ---- races that ThreadSanitizer detects ---- */

#if defined(__SANITIZE_THREAD__)

/* One stream writes a word and another one reads it, with an event between
 * them or without. */
static int use_a_word(void *ordered)
{
    struct streams streams = {.event = NULL};
    int right = open_streams(&streams, "");

    if (ordered == NULL && freopen("/dev/null", "w", stderr) == NULL)
        return 1;
    right = right && put(&streams, 0, 0, 1) &&
            good(cuEventRecord(streams.event, streams.of[0]));
    if (ordered != NULL)
        right =
            right && good(cuStreamWaitEvent(streams.of[1], streams.event, 0));
    right = right && copy(&streams, 1, 1, 0) && finished(&streams, 1);
    return right && close_streams(&streams);
}

static void judge_races(void)
{
    int ordered = 1;

    ok(!run_child(use_a_word, NULL),
        "two streams without an event between them are a data race");
    ok(run_child(use_a_word, &ordered), "with one they are none");
}

#else

static void judge_races(void)
{
    skip(2, "only ThreadSanitizer knows");
}

#endif

int main(void)
{
    plan(16);
    ok(run_child(work_is_done_in_order, NULL),
        "a stream does its work in order");
    ok(run_child(a_stalled_stream_keeps_nobody, NULL),
        "a stream that does not complete keeps no other one waiting");
    ok(run_child(a_destroyed_stream_does_its_work, NULL),
        "a stream that is destroyed does what it has");
    ok(run_child(an_event_orders_two_streams, NULL),
        "an event orders two streams");
    ok(run_child(a_wait_is_for_the_record_before_it, NULL),
        "a wait is for the latest record before it");
    ok(run_child(an_event_can_be_destroyed_while_it_is_waited_for, NULL),
        "an event can be destroyed while it is waited for");
    ok(run_child(events_measure_time, NULL),
        "two events have a time between them");
    ok(run_child(a_stream_waits_for_a_word, NULL), "a stream waits for a word");
    ok(run_child(the_default_stream_is_ordered, NULL),
        "the default stream is ordered with those that do not opt out");
    ok(run_child(streams_share_connections, NULL),
        "streams of one connection begin their work in the order of calls");
    ok(run_child(a_broken_context_drops_its_work, NULL),
        "a broken context drops its work, and no other one does");
    ok(run_child(a_call_fails_as_often_as_a_test_wants, NULL),
        "a call fails as often as a test wants");
    ok(run_child(a_call_is_left_out, NULL),
        "a call that a test leaves out succeeds and does nothing");
    ok(run_child(a_stream_is_held_back, NULL),
        "a stream that is held back begins when others have done what they have");
    judge_races();
    return done_testing();
}
