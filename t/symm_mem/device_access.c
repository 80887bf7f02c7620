/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Tests one rank's operations on symmetric device memory: signals, barriers,
 * copies and words, each on the group's current stream, and refused arguments.
 */
#include "group/group.h"
#include "t/symm_mem/device.h"

#include <math.h>

#define NBYTES 5000
#define HALF 2400
#define TIMES 4

/* ---- one stream ---- */

/* Sends a message to the next rank and receives one from the previous rank,
 * several times, on each rank's channel: a put waits until the previous signal
 * has been taken. */
static int sends_messages(struct symmcoll_group *group, int rank)
{
    struct joined it;
    bool right = begin_joined(&it, group, rank, NBYTES);
    unsigned char *source = device_alloc(TIMES * HALF);
    unsigned char *found = device_alloc(TIMES * HALF);

    for (int i = 0; i < TIMES; i++)
        write_pattern(source + i * HALF, HALF, 10 * rank + i);
    for (int i = 0; i < TIMES && right; i++) {
        right =
            OK(symmcoll_symm_put_with_signal(
                it.handle, it.next, 8, source + i * HALF, HALF, i % 2, -1)) &&
            OK(symmcoll_symm_wait_signal(it.handle, it.before, i % 2, -1)) &&
            OK(symmcoll_symm_get_data(
                it.handle, rank, 8, found + i * HALF, HALF)) &&
            /* the contents have been read */
            OK(symmcoll_symm_barrier(it.handle, 2, -1));
    }
    device_wait(it.stream);
    for (int i = 0; i < TIMES && right; i++)
        right = is_pattern(found + i * HALF, HALF, 10 * it.before + i);
    device_free(source);
    device_free(found);
    return end_joined(&it, right);
}

static int reads_what_others_wrote(struct symmcoll_group *group, int rank)
{
    struct joined it;
    bool right = begin_joined(&it, group, rank, NBYTES);
    unsigned char *source = device_alloc(HALF), *found = device_alloc(HALF);

    for (int i = 0; i < TIMES && right; i++) {
        write_pattern(source, HALF, 10 * rank + i);
        right =
            OK(symmcoll_symm_put_data(it.handle, rank, HALF, source, HALF)) &&
            OK(symmcoll_symm_barrier(it.handle, 1, 30)) &&
            OK(symmcoll_symm_get_data(it.handle, it.next, HALF, found, HALF)) &&
            OK(symmcoll_symm_barrier(it.handle, 1, 30));
        device_wait(it.stream);
        right = right && is_pattern(found, HALF, 10 * it.next + i);
    }
    device_free(source);
    device_free(found);
    return end_joined(&it, right);
}

/* Waits for words that a peer stores. */
static int waits_for_words(struct symmcoll_group *group, int rank)
{
    struct joined it;
    uint32_t words[16];
    bool right = begin_joined(&it, group, rank, NBYTES);
    unsigned char *source = device_alloc(HALF);

    write_pattern(source, HALF, rank);
    right =
        right &&
        OK(symmcoll_symm_put_data(it.handle, it.next, 1024, source, HALF)) &&
        OK(symmcoll_symm_write_value32(it.handle, it.next, 64, 4711)) &&
        OK(symmcoll_symm_wait_value32(it.handle, it.before, 64, 4711, -1)) &&
        OK(symmcoll_symm_get_data(it.handle, rank, 1024, source, HALF)) &&
        OK(symmcoll_symm_memset32(it.handle, it.next, 128, 99, 5)) &&
        OK(symmcoll_symm_wait_value32(it.handle, it.before, 144, 99, 20)) &&
        /* any of several words may be the first */
        OK(symmcoll_symm_barrier(it.handle, 4, -1));
    device_wait(it.stream);
    right = right && is_pattern(source, HALF, it.before);
    device_read(words, it.data + 120, sizeof(words));
    for (int i = 0; i < 16 && right; i++)
        right = HOLDS(words[i] == (i >= 2 && i < 7 ? 99u : 0u));
    right = OK(symmcoll_barrier(group, NULL, NULL)) && right;
    device_free(source);
    return end_joined(&it, right);
}

/* ---- writing a word by the driver or by a kernel ---- */

/* Blocks until all ranks have called, independent of streams. */
static bool meet(struct symmcoll_group *group)
{
    int one = 1;

    return OK(symmcoll_all_reduce(
        group, &one, &one, 1, SYMMCOLL_INT32, SUM, NULL, NULL));
}

/* Writes a word to the next rank, and checks that the one of the previous rank
 * arrives. */
static bool writes_word(struct joined *it, uint32_t value)
{
    return OK(symmcoll_symm_write_value32(it->handle, it->next, 64, value)) &&
           OK(symmcoll_symm_wait_value32(
               it->handle, it->before, 64, value, 20));
}

/* Returns the number of driver calls while no member makes others. */
static uint64_t calls_of(struct joined *it, const char *name)
{
    device_wait(it->stream);
    return meet(it->group) ? fake_calls(name) : 0;
}

/* Checks that the driver writes the word, without a kernel, after earlier work
 * of the stream. */
static int writes_by_the_driver(struct symmcoll_group *group, int rank)
{
    static const char write[] = "cuStreamWriteValue32";
    static const char start[] = "cuLaunchKernelEx";
    struct joined it;
    bool right = begin_joined(&it, group, rank, NBYTES);
    uint64_t started = calls_of(&it, start), written = fake_calls(write);
    uint32_t word = 0;

    fake_stall(it.stream);
    right = OK(symmcoll_symm_write_value32(it.handle, it.next, 64, 9)) && right;
    right = meet(group) && right;
    device_read(&word, it.data + 64, sizeof(word));
    right = HOLDS(word == 0) && right;
    right = HOLDS(fake_calls(start) == started) && right;
    right = HOLDS(fake_calls(write) > written) && right;
    right = meet(group) && right;
    fake_resume(it.stream);
    (void)calls_of(&it, write);
    device_read(&word, it.data + 64, sizeof(word));
    right = HOLDS(word == 9) && right;
    return end_joined(&it, right);
}

/* Checks that a kernel writes the word if the driver refuses. */
static int writes_what_the_driver_refuses(
    struct symmcoll_group *group, int rank)
{
    static const int refusals[] = {CUDA_ERROR_NOT_SUPPORTED,
        CUDA_ERROR_NOT_PERMITTED, CUDA_ERROR_INVALID_VALUE};
    struct joined it;
    bool right = begin_joined(&it, group, rank, NBYTES);
    char setting[64];

    for (uint32_t i = 0; i < 3 && right; i++) {
        snprintf(setting, sizeof(setting), "fail=cuStreamWriteValue32:1:%d",
            refusals[i]);
        (void)calls_of(&it, "");
        right = HOLDS(fake_configure(setting));
        (void)calls_of(&it, "");
        right = right && writes_word(&it, 10 + i);
    }
    return end_joined(&it, right);
}

/* Uses a driver without the function; the setting is per process. */
static int writes_without_a_function(struct symmcoll_group *group, int rank)
{
    struct joined it;
    bool right = HOLDS(fake_configure("missing=cuStreamWriteValue32"));

    right = begin_joined(&it, group, rank, NBYTES) && right;
    right = right && writes_word(&it, 5) &&
            HOLDS(fake_calls("cuStreamWriteValue32") == 0);
    return end_joined(&it, right);
}

/* Checks that other errors of the driver are returned, and fail the group. */
static int tells_errors_of_a_write(struct symmcoll_group *all, int rank)
{
    struct symmcoll_group *group = NULL;
    struct joined it;
    bool right =
        OK(symmcoll_group_create(symmcoll_group_world(all), NULL, &group)) &&
        begin_joined(&it, group, rank, NBYTES);

    /* All ranks have left the rendezvous when the group fails. */
    if (!right || !OK(symmcoll_barrier(all, NULL, NULL)))
        return false;
    if (rank == 0)
        right = HOLDS(fake_configure("fail=cuStreamWriteValue32:1:400")) &&
                refused(symmcoll_symm_write_value32(it.handle, 1, 64, 1),
                    SYMMCOLL_ERR_DEVICE, "cuStreamWriteValue32 of 1 at 0x",
                    "CUDA_ERROR_INVALID_HANDLE: ") &&
                HOLDS(symmcoll_group_error(group) == SYMMCOLL_ERR_DEVICE);
    right = OK(symmcoll_barrier(all, NULL, NULL)) && right;
    right = end_joined(&it, right);
    return OK(symmcoll_group_free(group)) && right;
}

/* ---- pads ---- */

/* Checks that a put and a wait leave the words of the pad at 0, and that
 * barriers use none. */
static int leaves_pads_idle(struct symmcoll_group *group, int rank)
{
    struct joined it;
    struct symmcoll_symm_info info = SYMMCOLL_SYMM_INFO_INIT;
    uint32_t word = 7;
    bool right = begin_joined(&it, group, rank, NBYTES) &&
                 OK(symmcoll_symm_get_info(it.handle, &info));
    int last = info.channels - 1;

    right = right && OK(symmcoll_symm_barrier(it.handle, 0, -1)) &&
            OK(symmcoll_symm_put_signal(it.handle, it.next, last, -1)) &&
            OK(symmcoll_barrier(group, NULL, NULL));
    device_wait(it.stream);
    right = OK(symmcoll_barrier(group, NULL, NULL)) && right;
    device_read(
        &word, &info.pads[rank][it.size * last + it.before], sizeof(word));
    right = HOLDS(word == 1) &&
            OK(symmcoll_symm_wait_signal(it.handle, it.before, last, -1)) &&
            right;
    device_wait(it.stream);
    right = HOLDS(is_zero(info.pads[rank], info.pad)) && right;
    return end_joined(&it, right);
}

/* ---- streams ---- */

/* Checks that the calls return, and that nothing happens before the stream
 * continues. */
static int returns_at_once(struct symmcoll_group *group, int rank)
{
    struct joined it;
    bool right = begin_joined(&it, group, rank, NBYTES);
    unsigned char *source = device_alloc(HALF);

    write_pattern(source, HALF, rank);
    fake_stall(it.stream);
    right = right &&
            OK(symmcoll_symm_put_with_signal(
                it.handle, it.next, 0, source, HALF, 0, -1)) &&
            OK(symmcoll_symm_wait_signal(it.handle, it.before, 0, -1)) &&
            OK(symmcoll_symm_barrier(it.handle, 3, -1)) && meet(group) &&
            HOLDS(is_zero(it.data, HALF)) && meet(group);
    fake_resume(it.stream);
    device_wait(it.stream);
    right = right && is_pattern(it.data, HALF, it.before);
    device_free(source);
    return end_joined(&it, right);
}

/* Checks that an operation does not wait for a signal that its peer puts after
 * it, on other streams of both. */
static int is_beside_operations(struct symmcoll_group *group, int rank)
{
    struct symmcoll_call call = SYMMCOLL_CALL_INIT;
    struct symmcoll_work *work = NULL;
    struct joined it;
    bool right = begin_joined(&it, group, rank, NBYTES);
    CUstream other = device_stream();
    float *sums = device_alloc(64 * sizeof(float));

    call.stream = other;
    for (int i = 0; i < TIMES && right; i++) {
        right = OK(symmcoll_all_reduce(
                    group, sums, sums, 64, F32, SUM, &call, &work)) &&
                OK(symmcoll_work_wait(work, 20));
        symmcoll_work_free(work);
        if (right && rank == 0)
            right = OK(symmcoll_symm_wait_signal(it.handle, it.before, 0, -1));
        right = right &&
                OK(symmcoll_all_reduce(
                    group, sums, sums, 64, F32, SUM, &call, &work)) &&
                OK(symmcoll_work_wait(work, 20));
        symmcoll_work_free(work);
        if (right && rank == it.size - 1)
            right = OK(symmcoll_symm_put_signal(it.handle, it.next, 0, -1));
    }
    device_wait(it.stream);
    device_end_stream(other);
    device_free(sums);
    return end_joined(&it, right);
}

/* ---- monitoring of running work ---- */

#define COPIES 200

/* Checks that a stream is queried once for many copies. The group's attendant
 * may query it, too, and no more often. */
static int asks_once_for_a_stream(struct symmcoll_group *group, int rank)
{
    struct joined it;
    bool right = begin_joined(&it, group, rank, NBYTES);
    unsigned char *source = device_alloc(64);
    uint64_t asked = 0;

    fake_stall(it.stream);
    for (int i = 0; i < COPIES && right; i++)
        right = OK(symmcoll_symm_put_data(it.handle, rank, 0, source, 64));
    if (right) {
        asked = fake_calls("cuEventQuery");
        (void)symc_queue_look(group->runner.queue, SYMC_ADVANCE_LOOK);
        asked = fake_calls("cuEventQuery") - asked;
        right = HOLDS(asked > 0 && asked < COPIES / 2);
    }
    fake_resume(it.stream);
    device_wait(it.stream);
    right =
        HOLDS(symc_queue_has_ended(group->runner.queue, UINT64_MAX)) && right;
    device_free(source);
    return end_joined(&it, right);
}

/* ---- graphs ---- */

static CUgraphExec capture(
    struct joined *it, const void *source, void *found, bool *right)
{
    CUgraph graph = NULL;
    CUgraphExec exec = NULL;

    *right =
        cuStreamBeginCapture(it->stream, CU_STREAM_CAPTURE_MODE_RELAXED) ==
            CUDA_SUCCESS &&
        OK(symmcoll_symm_put_with_signal(
            it->handle, it->next, 0, source, HALF, 0, -1)) &&
        OK(symmcoll_symm_wait_signal(it->handle, it->before, 0, -1)) &&
        OK(symmcoll_symm_get_data(it->handle, it->rank, 0, found, HALF)) &&
        OK(symmcoll_symm_barrier(it->handle, 1, -1)) &&
        OK(symmcoll_symm_write_value32(it->handle, it->next, HALF, 5)) &&
        OK(symmcoll_symm_wait_value32(it->handle, it->before, HALF, 5, -1));
    *right = cuStreamEndCapture(it->stream, &graph) == CUDA_SUCCESS && *right;
    *right = *right && cuGraphInstantiate(&exec, graph, 0) == CUDA_SUCCESS;
    if (graph != NULL)
        cuGraphDestroy(graph);
    return exec;
}

static int can_be_captured(struct symmcoll_group *group, int rank)
{
    struct joined it;
    bool right = begin_joined(&it, group, rank, NBYTES), captured;
    unsigned char *source = device_alloc(HALF), *found = device_alloc(HALF);
    CUgraphExec exec;
    uint64_t written = calls_of(&it, "cuStreamWriteValue32");

    exec = capture(&it, source, found, &captured);
    right = right && captured;
    /* A graph has kernels: the driver may not support word writes in one. */
    right = HOLDS(fake_calls("cuStreamWriteValue32") == written) && right;
    for (int i = 0; i < 3 && right; i++) {
        write_pattern(source, HALF, 10 * rank + i);
        right = HOLDS(cuGraphLaunch(exec, it.stream) == CUDA_SUCCESS);
        device_wait(it.stream);
        right = right && is_pattern(found, HALF, 10 * it.before + i);
        right = OK(symmcoll_barrier(group, NULL, NULL)) && right;
    }
    if (exec != NULL)
        cuGraphExecDestroy(exec);
    device_free(source);
    device_free(found);
    return end_joined(&it, right);
}

/* ---- refused arguments ---- */

static int refuses_timeouts(struct symmcoll_group *group, int rank)
{
    struct joined it;
    bool right = begin_joined(&it, group, rank, NBYTES);

    right = right &&
            refused(symmcoll_symm_put_signal(it.handle, it.next, 0, 0),
                SYMMCOLL_ERR_INVALID,
                "symm_put_signal: expected a timeout of more than 0 s",
                "found 0") &&
            refused(symmcoll_symm_wait_signal(it.handle, it.before, 0, 0),
                SYMMCOLL_ERR_INVALID, "symm_wait_signal:", "CUDA device") &&
            refused(symmcoll_symm_barrier(it.handle, 0, 0),
                SYMMCOLL_ERR_INVALID, "symm_barrier:", "more than 0 s") &&
            refused(symmcoll_symm_wait_value32(it.handle, it.next, 0, 1, 0),
                SYMMCOLL_ERR_INVALID, "symm_wait_value32:", "more than 0 s") &&
            refused(symmcoll_symm_barrier(it.handle, 0, (double)NAN),
                SYMMCOLL_ERR_INVALID, "symm_barrier:", "found NaN") &&
            refused(symmcoll_symm_put_signal(it.handle, it.next, 100000, -1),
                SYMMCOLL_ERR_INVALID, "symm_put_signal: expected a channel",
                "found 100000") &&
            refused(symmcoll_symm_wait_signal(it.handle, it.size, 0, -1),
                SYMMCOLL_ERR_INVALID, "symm_wait_signal: expected a rank of 0",
                "found");
    return end_joined(&it, right);
}

static int refuses_buffers(struct symmcoll_group *group, int rank)
{
    static char host[16];
    struct joined it;
    bool right = begin_joined(&it, group, rank, NBYTES);
    char *mine = device_alloc(256), *other, *freed = device_alloc(64);
    int device = rank + symmcoll_group_size(group);

    device_use(device);
    other = device_alloc(64);
    device_use(rank);
    device_free(freed);
    right =
        right &&
        refused(symmcoll_symm_put_data(it.handle, it.next, 0, host, 16),
            SYMMCOLL_ERR_INVALID,
            "symm_put_data: expected a buffer to be in memory",
            "in host memory") &&
        refused(symmcoll_symm_get_data(it.handle, it.next, 0, other, 16),
            SYMMCOLL_ERR_INVALID,
            "symm_get_data: expected a buffer to be in memory",
            "in memory of CUDA device") &&
        refused(symmcoll_symm_put_with_signal(
                    it.handle, it.next, 0, freed, 64, 0, -1),
            SYMMCOLL_ERR_INVALID, "symm_put_with_signal: expected a buffer",
            "in memory that has been freed") &&
        refused(symmcoll_symm_put_data(it.handle, rank, 0, it.data + 100, 200),
            SYMMCOLL_ERR_INVALID, "symm_put_data:", "do not overlap") &&
        refused(
            symmcoll_symm_put_data(it.handle, it.next, NBYTES - 100, mine, 200),
            SYMMCOLL_ERR_INVALID, "symm_put_data:", "found 200") &&
        refused(symmcoll_symm_put_data(it.handle, it.next, 0, mine + 200, 64),
            SYMMCOLL_ERR_INVALID,
            "symm_put_data: expected a buffer to be 64 bytes in memory of CUDA",
            "there, whose last byte is in ") &&
        refused(symmcoll_symm_wait_value32(it.handle, it.next, 2, 1, -1),
            SYMMCOLL_ERR_INVALID, "symm_wait_value32:", "a multiple of 4") &&
        OK(symmcoll_symm_put_data(it.handle, it.next, 0, mine, 0));
    device_use(device);
    device_free(other);
    device_use(rank);
    device_free(mine);
    return end_joined(&it, right);
}

static int refuses_streams(struct symmcoll_group *group, int rank)
{
    struct joined it;
    CUstream other;
    bool right = begin_joined(&it, group, rank, NBYTES);

    device_use(rank + it.size);
    other = device_stream();
    device_use(rank);
    right = right && OK(symmcoll_group_set_stream(group, other)) &&
            refused(symmcoll_symm_put_signal(it.handle, it.next, 0, -1),
                SYMMCOLL_ERR_INVALID,
                "symm_put_signal: expected a stream of device", "of device ") &&
            OK(symmcoll_group_set_stream(group, it.stream)) &&
            OK(symmcoll_symm_put_signal(it.handle, it.next, 0, -1)) &&
            OK(symmcoll_symm_wait_signal(it.handle, it.before, 0, -1));
    right = end_joined(&it, right);
    device_end_stream(other);
    return right;
}

int main(void)
{
    device_begin();
    for (int n = 1; n <= 3; n++)
        on_both(n, sends_messages,
            "messages with signals, in a ring (S24, S25, S32)");
    on_both(2, reads_what_others_wrote, "copies between barriers (S26)");
    on_both(
        3, waits_for_words, "words that are stored, and waits for them (S30)");
    on_both(2, writes_by_the_driver,
        "a word is written by the driver, in the order of the stream (S30)");
    on_both(2, writes_what_the_driver_refuses,
        "a word that the driver does not write is written by a kernel");
    on_both(2, writes_without_a_function,
        "a driver that lacks the function has words written by kernels");
    on_both(2, tells_errors_of_a_write,
        "an error of the driver that writes a word fails the group");
    on_both(2, leaves_pads_idle,
        "signals are words of the pads, barriers not (S22, S29)");
    on_both(2, returns_at_once, "calls return when they have been enqueued");
    on_both(2, is_beside_operations,
        "operations do not wait for signals on other streams");
    on_both(2, asks_once_for_a_stream,
        "who looks after copies of one stream asks for the oldest of them");
    on_both(2, can_be_captured, "a graph of them can be started again");
    on_both(
        2, refuses_timeouts, "no time, no number, no channel, no rank (S23)");
    on_both(2, refuses_buffers, "buffers elsewhere, and those that overlap");
    on_both(2, refuses_streams, "a stream of another device");
    return done_testing();
}
