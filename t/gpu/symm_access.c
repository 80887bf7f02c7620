/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Tests one rank's operations on symmetric memory of one device that 2, 4 and
 * 8 threads or 2 processes share: signals, barriers, copies, words and views,
 * many consecutive ones without waits of the host; graphs of them that are
 * launched a hundred times; and a wait that times out and names its peer.
 */
#include "t/gpu/gpu.h"
#include "t/gpu/ranks.h"
#include "t/symm_mem/device.h"

#include <time.h>

#define NBYTES 5000
#define POISON 0xa5
#define MESSAGE 147 /* bytes, odd */
#define PLACE 5     /* of a message in the buffer: misaligned */
#define CHANNELS 4

static bool begin(struct joined *it, struct symmcoll_group *group, int rank)
{
    bool right = begin_joined(it, group, rank, NBYTES);
    unsigned char *poison = malloc(NBYTES);

    memset(poison, POISON, NBYTES);
    if (right)
        device_write(it->data, poison, NBYTES);
    free(poison);
    return OK(symmcoll_barrier(group, NULL, NULL)) && right;
}

/* Ends the test. No stream waits for another rank any more, so freeing may
 * wait for the device. */
static bool end(struct joined *it, bool right)
{
    device_wait(it->stream);
    right = OK(symmcoll_barrier(it->group, NULL, NULL)) && right;
    return end_joined(it, right);
}

/* Checks that the buffer has these bytes at a place, and poison elsewhere. */
static bool holds_at(
    const struct joined *it, size_t place, const void *bytes, size_t nbytes)
{
    unsigned char found[NBYTES];
    const unsigned char *expected = bytes;

    device_read(found, it->data, NBYTES);
    for (size_t i = 0; i < NBYTES; i++) {
        const bool inside = i >= place && i < place + nbytes;
        const unsigned char wanted = inside ? expected[i - place] : POISON;

        if (found[i] == wanted)
            continue;
        diag("rank %d: byte %zu of the buffer is %02x, not %02x", it->rank, i,
            found[i], wanted);
        return false;
    }
    return true;
}

/* ---- messages ---- */

/* A message that the stream rewrites in each round, and the received ones. */
struct messages {
    char *source; /* MESSAGE bytes from its second one on */
    char *found;  /* of each round, MESSAGE bytes */
    int rounds;
};

static unsigned char byte_of(int rank, int round)
{
    return (unsigned char)(7 * round + 31 * rank + 1);
}

static void begin_messages(struct messages *messages, int rounds)
{
    messages->rounds = rounds;
    messages->source = device_alloc(MESSAGE + 5);
    messages->found = device_alloc((size_t)rounds * MESSAGE);
}

static void write_message(
    const struct joined *it, const struct messages *messages, int round)
{
    GPU_CHECK(cuMemsetD32Async((CUdeviceptr)(uintptr_t)messages->source,
        byte_of(it->rank, round) * 0x01010101u, MESSAGE / 4 + 1, it->stream));
}

static bool end_messages(
    const struct joined *it, struct messages *messages, bool right)
{
    const size_t nbytes = (size_t)messages->rounds * MESSAGE;
    unsigned char *found = malloc(nbytes);

    device_wait(it->stream);
    device_read(found, messages->found, nbytes);
    for (size_t i = 0; i < nbytes && right; i++) {
        const int round = (int)(i / MESSAGE);

        right = found[i] == byte_of(it->before, round);
        if (!right)
            diag("rank %d: byte %zu of message %d is %02x, not %02x", it->rank,
                i % MESSAGE, round, found[i], byte_of(it->before, round));
    }
    free(found);
    right = OK(symmcoll_barrier(it->group, NULL, NULL)) && right;
    device_free(messages->source);
    device_free(messages->found);
    return right;
}

/* Sends a message to the next rank and receives one from the previous rank,
 * which gets an acknowledgement after it was read: no other message may arrive
 * before. */
static bool pass_message(
    const struct joined *it, const char *source, char *found, int channel)
{
    const int ack = channel + CHANNELS;

    return OK(symmcoll_symm_put_with_signal(
               it->handle, it->next, PLACE, source, MESSAGE, channel, -1)) &&
           OK(symmcoll_symm_wait_signal(it->handle, it->before, channel, -1)) &&
           OK(symmcoll_symm_get_data(
               it->handle, it->rank, PLACE, found, MESSAGE)) &&
           OK(symmcoll_symm_put_signal(it->handle, it->before, ack, -1)) &&
           OK(symmcoll_symm_wait_signal(it->handle, it->next, ack, -1));
}

static bool is_idle(const struct joined *it)
{
    struct symmcoll_symm_info info = SYMMCOLL_SYMM_INFO_INIT;

    return OK(symmcoll_symm_get_info(it->handle, &info)) &&
           HOLDS(is_zero(info.pads[it->rank], info.pad));
}

static int messages_in_a_row(struct symmcoll_group *group, int rank)
{
    struct messages messages;
    unsigned char last[MESSAGE];
    struct joined it;
    bool right = begin(&it, group, rank);

    begin_messages(&messages, gpu_choose(1000, 40, 12));
    for (int i = 0; i < messages.rounds && right; i++) {
        write_message(&it, &messages, i);
        right = pass_message(&it, messages.source + 1,
            messages.found + (size_t)i * MESSAGE, i % CHANNELS);
    }
    right = end_messages(&it, &messages, right);
    memset(last, byte_of(it.before, messages.rounds - 1), MESSAGE);
    right = right && holds_at(&it, PLACE, last, MESSAGE) && is_idle(&it);
    return end(&it, right);
}

/* ---- barriers ---- */

/* Each rank writes its own buffer, and reads those of all between barriers. */
static int barriers_in_a_row(struct symmcoll_group *group, int rank)
{
    const int rounds = gpu_choose(300, 20, 6);
    struct joined it;
    bool right = begin(&it, group, rank);
    const size_t count = (size_t)rounds * (size_t)it.size;
    uint32_t *found = device_alloc(count * 4), *read;

    read = calloc(count, 4);
    for (int i = 0; i < rounds && right; i++) {
        GPU_CHECK(cuMemsetD32Async((CUdeviceptr)(uintptr_t)it.data,
            (unsigned int)(i * 100 + rank), 1, it.stream));
        right = OK(symmcoll_symm_barrier(it.handle, i % CHANNELS, -1));
        for (int r = 0; r < it.size && right; r++)
            right = OK(symmcoll_symm_get_data(
                it.handle, r, 0, found + i * it.size + r, 4));
        right = right && OK(symmcoll_symm_barrier(it.handle, 7, -1));
    }
    device_wait(it.stream);
    device_read(read, found, (size_t)(rounds * it.size) * 4);
    for (int i = 0; i < rounds * it.size && right; i++)
        right = HOLDS(read[i] == (uint32_t)(i / it.size * 100 + i % it.size));
    right = OK(symmcoll_barrier(group, NULL, NULL)) && right;
    device_free(found);
    free(read);
    return end(&it, right);
}

/* ---- words ---- */

#define WORDS_AT 1204 /* bytes, no multiple of 8 */

/* Writes a word that announces others, and an odd number of these. */
static int words(struct symmcoll_group *group, int rank)
{
    uint32_t expected[8] = {99, 99, 99, 99, 99, 99, 99, 4711};
    struct joined it;
    bool right = begin(&it, group, rank);

    right = right &&
            OK(symmcoll_symm_memset32(it.handle, it.next, WORDS_AT, 99, 7)) &&
            OK(symmcoll_symm_write_value32(
                it.handle, it.next, WORDS_AT + 28, 4711)) &&
            OK(symmcoll_symm_wait_value32(
                it.handle, it.before, WORDS_AT + 28, 4711, -1));
    device_wait(it.stream);
    right = right && holds_at(&it, WORDS_AT, expected, sizeof(expected));
    return end(&it, right);
}

/* ---- views ---- */

/* Checks views of a tensor in the buffers of the other ranks. */
static int views(struct symmcoll_group *group, int rank)
{
    struct symmcoll_tensor mine = SYMMCOLL_TENSOR_INIT, view = mine, all[8];
    struct symmcoll_symm_info info = SYMMCOLL_SYMM_INFO_INIT;
    struct joined it;
    bool right = begin(&it, group, rank);

    write_pattern(it.data + 64, 240, rank);
    mine.dtype = view.dtype = F32;
    mine.ndim = 2;
    mine.shape[0] = 6;
    mine.shape[1] = 10;
    mine.strides[0] = 10;
    mine.strides[1] = 1;
    mine.device = SYMMCOLL_CUDA;
    mine.data = it.data + 64;
    for (int r = 0; r < it.size; r++)
        all[r] = (struct symmcoll_tensor)SYMMCOLL_TENSOR_INIT;
    right = right && OK(symmcoll_barrier(group, NULL, NULL)) &&
            OK(symmcoll_symm_get_info(it.handle, &info)) &&
            OK(symmcoll_symm_get_remote_tensors(it.handle, &mine, all));
    view.ndim = 1;
    view.shape[0] = 30;
    for (int r = 0; r < it.size && right; r++)
        right = HOLDS(all[r].data == (char *)info.buffers[r] + 64) &&
                is_pattern(all[r].data, 240, r) &&
                OK(symmcoll_symm_tensor(it.handle, r, 16, &view)) &&
                HOLDS(view.data == all[r].data);
    return end(&it, right);
}

/* ---- graphs ---- */

static bool capture(const struct joined *it, const struct messages *messages,
    char *found, CUgraphExec *exec)
{
    CUgraph graph = NULL;
    bool right;

    GPU_CHECK(
        cuStreamBeginCapture(it->stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
    right =
        pass_message(it, messages->source + 1, found, 0) &&
        OK(symmcoll_symm_write_value32(it->handle, it->next, WORDS_AT, 5)) &&
        OK(symmcoll_symm_wait_value32(
            it->handle, it->before, WORDS_AT, 5, -1)) &&
        OK(symmcoll_symm_memset32(it->handle, it->rank, WORDS_AT, 0, 1)) &&
        OK(symmcoll_symm_barrier(it->handle, 2, -1));
    GPU_CHECK(cuStreamEndCapture(it->stream, &graph));
    GPU_CHECK(cuGraphInstantiate(exec, graph, 0));
    GPU_CHECK(cuGraphDestroy(graph));
    return right;
}

/* Launches graphs many times, each time with another message; the host waits
 * only at the end. */
static int graphs(struct symmcoll_group *group, int rank)
{
    struct messages messages;
    struct joined it;
    CUgraphExec exec = NULL;
    bool right = begin(&it, group, rank);
    char *found = device_alloc(MESSAGE);

    begin_messages(&messages, gpu_choose(100, 20, 5));
    right = right && capture(&it, &messages, found, &exec);
    for (int i = 0; i < messages.rounds && right; i++) {
        write_message(&it, &messages, i);
        GPU_CHECK(cuGraphLaunch(exec, it.stream));
        GPU_CHECK(cuMemcpyAsync(
            (CUdeviceptr)(uintptr_t)(messages.found + (size_t)i * MESSAGE),
            (CUdeviceptr)(uintptr_t)found, MESSAGE, it.stream));
    }
    right = end_messages(&it, &messages, right);
    if (exec != NULL)
        GPU_CHECK(cuGraphExecDestroy(exec));
    right = OK(symmcoll_barrier(group, NULL, NULL)) && right;
    device_free(found);
    return end(&it, right);
}

/* ---- a wait that times out ---- */

static symmcoll_status_t await_failure(struct symmcoll_group *group)
{
    const struct timespec pause = {.tv_nsec = 1000000};
    symmcoll_status_t status = SYMMCOLL_OK;

    for (int i = 0; i < 60000 && status == SYMMCOLL_OK; i++) {
        nanosleep(&pause, NULL);
        status = symmcoll_group_error(group);
    }
    return status;
}

/* Only rank 0 waits, in a new group. */
static int waits_in_vain(struct symmcoll_group *all, int rank)
{
    struct symmcoll_group *group = NULL;
    struct joined it;
    bool right =
        OK(symmcoll_group_create(symmcoll_group_world(all), NULL, &group)) &&
        begin_joined(&it, group, rank, NBYTES);

    if (!right)
        return false;
    if (rank == 0)
        right = OK(symmcoll_symm_wait_signal(it.handle, 1, 3, 2));
    right = ended(await_failure(group), SYMMCOLL_ERR_TIMEOUT,
                "rank 0 timed out waiting for rank 1 on channel 3") &&
            right;
    device_wait(it.stream);
    right = OK(symmcoll_barrier(all, NULL, NULL)) && right;
    symmcoll_symm_release(it.handle);
    right = OK(symmcoll_symm_free(it.world, it.data)) && right;
    right = OK(symmcoll_group_free(group)) && right;
    device_end_stream(it.stream);
    return right;
}

int main(void)
{
    gpu_begin(300);
    for (int n = 2; n <= gpu_choose(8, 8, 2); n *= 2) {
        on_threads(n, messages_in_a_row,
            "messages with signals in a ring, again and again");
        on_threads(n, barriers_in_a_row, "what all read between two barriers");
        on_threads(n, words, "words that are stored, and waits for them");
        on_threads(n, views, "views of a tensor in the buffers of all");
        on_threads(n, graphs, "graphs of these, started again and again");
    }
    on_threads(2, waits_in_vain, "a wait in vain ends, and says for whom");
    on_processes(2, messages_in_a_row, "messages with signals in a ring");
    on_processes(2, barriers_in_a_row, "what all read between two barriers");
    on_processes(2, words, "words that are stored, and waits for them");
    on_processes(2, views, "views of a tensor in the buffers of all");
    return done_testing();
}
