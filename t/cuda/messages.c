/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Tests sends and receives of device memory, with one device for each rank and
 * with ranks that share one: bytes, order with streams, matching, several at
 * once, and refused calls.
 */
#include "t/cuda/later.h"
#include "t/cuda/message.h"
#include "t/logged.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- streams ---- */

/* Checks that a send follows earlier work of its stream, and that earlier work
 * of a receive's stream still reads the old contents. */
static int is_after_its_stream(struct symmcoll_group *group, int rank)
{
    struct message message, before;
    struct later later;
    int right;

    message_begin(&message, rank, 3 * MESSAGE_CHUNK);
    message_begin(&before, rank, 3 * MESSAGE_CHUNK);
    message_fill(&message, 3 * MESSAGE_CHUNK, 40 + rank);
    message_fill(&before, 3 * MESSAGE_CHUNK, 50);
    fake_stall(message.stream);
    if (rank == 0) /* the bytes to be sent are written late */
        cuMemcpyAsync((CUdeviceptr)(uintptr_t)message.at,
            (CUdeviceptr)(uintptr_t)before.at, 3 * MESSAGE_CHUNK,
            message.stream);
    else /* the previous bytes are read late */
        cuMemcpyAsync((CUdeviceptr)(uintptr_t)before.at,
            (CUdeviceptr)(uintptr_t)message.at, 3 * MESSAGE_CHUNK,
            message.stream);
    later_resume(&later, message.stream);
    right = rank == 0
                ? message_fine(
                      message_send(group, &message, 3 * MESSAGE_CHUNK, 1, 2))
                : message_fine(
                      message_recv(group, &message, 3 * MESSAGE_CHUNK, 0, 2));
    right = later_end(&later) && right;
    device_wait(message.stream);
    right = message_is(&message, 3 * MESSAGE_CHUNK, 50) && right;
    right =
        message_is(&before, 3 * MESSAGE_CHUNK, rank == 0 ? 50 : 41) && right;
    message_end(&message);
    message_end(&before);
    return right;
}

/* Checks that the group's stream is used by a call without a stream. */
static int takes_the_groups_stream(struct symmcoll_group *group, int rank)
{
    struct message message;
    struct later later;
    int right;

    message_begin(&message, rank, MESSAGE_CHUNK);
    message_fill(&message, MESSAGE_CHUNK, 60 + rank);
    right = message_fine(symmcoll_group_set_stream(group, message.stream));
    fake_stall(message.stream);
    later_resume(&later, message.stream);
    right =
        message_fine(rank == 0 ? symmcoll_send(group, message.at, MESSAGE_CHUNK,
                                     SYMMCOLL_UINT8, 1, 3, NULL, NULL)
                               : symmcoll_recv(group, message.at, MESSAGE_CHUNK,
                                     SYMMCOLL_UINT8, 0, 3, NULL, NULL, NULL)) &&
        right;
    right = later_end(&later) && right;
    right = message_is(&message, MESSAGE_CHUNK, 60) && right;
    right = message_fine(symmcoll_group_set_stream(group, NULL)) && right;
    message_end(&message);
    return right;
}

/* ---- concurrent messages ---- */

/* Checks that a message which waits for one side's stream does not delay
 * others between the same ranks: a large one of host memory, and one on
 * another stream. */
static int lets_others_pass(struct symmcoll_group *group, int rank, int stalled)
{
    const size_t nbytes = 3 * MESSAGE_CHUNK;
    unsigned char *host = calloc(1, nbytes);
    struct symmcoll_work *work = NULL;
    struct message late, other;
    int right;

    message_begin(&late, rank, nbytes);
    message_begin(&other, rank, nbytes);
    message_fill(&late, nbytes, 110 + rank);
    message_fill(&other, nbytes, 120 + rank);
    if (rank == stalled)
        fake_stall(late.stream);
    if (rank == 0) {
        memset(host, 9, nbytes);
        right = message_fine(
                    message_start_send(group, &late, nbytes, 1, 31, &work)) &&
                message_fine(symmcoll_send(
                    group, host, nbytes, SYMMCOLL_UINT8, 1, 32, NULL, NULL)) &&
                message_fine(message_send(group, &other, nbytes, 1, 33));
    } else {
        right =
            message_fine(
                message_start_recv(group, &late, nbytes, 0, 31, &work)) &&
            message_fine(symmcoll_recv(group, host, nbytes, SYMMCOLL_UINT8, 0,
                32, NULL, NULL, NULL)) &&
            say(host[0] == 9 && host[nbytes - 1] == 9, "the host's bytes") &&
            message_fine(message_recv(group, &other, nbytes, 0, 33)) &&
            message_is(&other, nbytes, 120);
    }
    right = say(symmcoll_work_test(work) == SYMMCOLL_IN_PROGRESS,
                "one that waits for its stream") &&
            right;
    /* A barrier: both ranks have checked. */
    right = message_fine(symmcoll_barrier(group, NULL, NULL)) && right;
    if (rank == stalled)
        fake_resume(late.stream);
    right = message_fine(symmcoll_work_wait(work, -1)) &&
            message_is(&late, nbytes, 110) && right;
    symmcoll_work_free(work);
    message_end(&late);
    message_end(&other);
    free(host);
    return right;
}

static int a_sender_lets_others_pass(struct symmcoll_group *group, int rank)
{
    return lets_others_pass(group, rank, 0);
}

static int a_receiver_lets_others_pass(struct symmcoll_group *group, int rank)
{
    return lets_others_pass(group, rank, 1);
}

/* Sends messages of both kinds of memory alternately, in both directions, in
 * two groups. */
static int are_mixed(struct symmcoll_group *all, int rank)
{
    const size_t nbytes = 5 * MESSAGE_CHUNK;
    unsigned char *host = calloc(1, nbytes);
    struct symmcoll_group *groups[2] = {all, NULL};
    struct message message;
    int right =
        message_fine(symmcoll_group_split(all, 0, rank, NULL, &groups[1]));

    message_begin(&message, rank, nbytes);
    for (int i = 0; i < 12 && right; i++) {
        struct symmcoll_group *group = groups[i / 2 % 2];
        const int sends = (i / 4 + rank) % 2 == 0;

        if (i % 2 == 0) {
            memset(host, sends ? i : 0, nbytes);
            right =
                message_fine(
                    sends ? symmcoll_send(group, host, nbytes, SYMMCOLL_UINT8,
                                1 - rank, i, NULL, NULL)
                          : symmcoll_recv(group, host, nbytes, SYMMCOLL_UINT8,
                                1 - rank, i, NULL, NULL, NULL)) &&
                say(host[nbytes - 1] == i, "the host's bytes");
        } else {
            message_fill(&message, nbytes, sends ? i : 99);
            right =
                message_fine(
                    sends
                        ? message_send(group, &message, nbytes, 1 - rank, i)
                        : message_recv(group, &message, nbytes, 1 - rank, i)) &&
                message_is(&message, nbytes, i);
        }
    }
    message_end(&message);
    free(host);
    return right;
}

/* A rank sends to itself after work of a blocked stream: the send times out,
 * and no byte is written then or later. */
static int waits_for_its_own_stream(struct symmcoll_group *group, int rank)
{
    static const int dst_of[] = {0, 1};
    struct symmcoll_call call = SYMMCOLL_CALL_INIT;
    struct message sent, received;
    int right;

    message_begin(&sent, rank, MESSAGE_CHUNK);
    message_begin(&received, rank, MESSAGE_CHUNK);
    message_fill(&sent, MESSAGE_CHUNK, 1);
    message_fill(&received, MESSAGE_CHUNK, 2);
    call.stream = sent.stream;
    call.timeout = 0.2;
    fake_stall(sent.stream);
    right = ended(symmcoll_permute(group, received.at, sent.at, MESSAGE_CHUNK,
                      SYMMCOLL_UINT8, dst_of, &call, NULL),
        SYMMCOLL_ERR_TIMEOUT, "permute: expected stream 0x");
    fake_resume(sent.stream);
    device_wait(sent.stream);
    right = message_is(&received, MESSAGE_CHUNK, 2) && right;
    call.timeout = -1;
    right = message_fine(symmcoll_permute(group, received.at, sent.at,
                MESSAGE_CHUNK, SYMMCOLL_UINT8, dst_of, &call, NULL)) &&
            message_is(&received, MESSAGE_CHUNK, 1) && right;
    message_end(&sent);
    message_end(&received);
    return right;
}

/* ---- mismatches ---- */

/* Checks that both sides get the error, and that the group remains usable. */
static int is_refused_alike(struct symmcoll_group *group, int rank)
{
    struct message message;
    char host[64] = {0};
    int right;

    message_begin(&message, rank, 64);
    message_fill(&message, 64, 28 + rank);
    /* A message of device memory into host memory. */
    right = ended(rank == 0 ? message_send(group, &message, 64, 1, 7)
                            : symmcoll_recv(group, host, 64, SYMMCOLL_UINT8, 0,
                                  7, NULL, NULL, NULL),
        SYMMCOLL_ERR_MISMATCH,
        rank == 0
            ? "memory differs: rank 1 receives 64 of uint8 in host memory, "
              "this rank sent 64 of uint8 in device memory"
            : "memory differs: rank 0 sent 64 of uint8 in device memory, "
              "this rank receives 64 of uint8 in host memory");
    /* A message of host memory into device memory; its sender has continued. */
    right = (rank == 0 ? message_fine(symmcoll_send(
                             group, host, 64, SYMMCOLL_UINT8, 1, 8, NULL, NULL))
                       : ended(message_recv(group, &message, 64, 0, 8),
                             SYMMCOLL_ERR_MISMATCH,
                             "memory differs: rank 0 sent 64 of uint8 in host "
                             "memory")) &&
            right;
    /* Differing counts. */
    right = ended(rank == 0 ? message_send(group, &message, 64, 1, 9)
                            : message_recv(group, &message, 63, 0, 9),
                SYMMCOLL_ERR_MISMATCH,
                rank == 0 ? "count differs: rank 1 receives 63"
                          : "count differs: rank 0 sent 64") &&
            message_is(&message, 64, 28 + rank) && right;
    message_fill(&message, 64, 30 + rank);
    right =
        message_fine(rank == 0 ? message_send(group, &message, 64, 1, 10)
                               : message_recv(group, &message, 64, 0, 10)) &&
        message_is(&message, 64, 30) && right;
    message_end(&message);
    return right;
}

/* Checks this rank's own errors, which the other rank does not see. */
static int is_refused_here(struct symmcoll_group *group, int rank)
{
    static const int itself[] = {0, 1};
    struct message message;
    char host[64] = {0};
    CUgraph graph = NULL;
    void *other;
    int right;

    message_begin(&message, rank, 64);
    cuStreamBeginCapture(message.stream, CU_STREAM_CAPTURE_MODE_RELAXED);
    right = ended(message_send(group, &message, 64, 1 - rank, 11),
        SYMMCOLL_ERR_UNSUPPORTED,
        "send: expected a stream that is not captured");
    cuStreamEndCapture(message.stream, &graph);
    cuGraphDestroy(graph);
    message_fill(&message, 64, 70 + rank);
    right =
        message_fine(rank == 0 ? message_send(group, &message, 64, 1, 12)
                               : message_recv(group, &message, 64, 0, 12)) &&
        message_is(&message, 64, 70) && right;
    right =
        ended(symmcoll_permute(group, host, message.at, 64, SYMMCOLL_UINT8,
                  itself, NULL, NULL),
            SYMMCOLL_ERR_INVALID,
            "permute: expected out and in of a rank that sends to itself in "
            "one memory") &&
        ended(symmcoll_permute(group, message.at, host, 64, SYMMCOLL_UINT8,
                  itself, NULL, NULL),
            SYMMCOLL_ERR_INVALID, "in host memory and out at") &&
        ended(message_send(group, &message, 100000, 1 - rank, 16),
            SYMMCOLL_ERR_INVALID,
            "send: expected 100000 bytes of one allocation of device") &&
        right;
    device_use(rank + 2);
    other = device_alloc(64);
    right = ended(symmcoll_send(group, other, 64, SYMMCOLL_UINT8, 1 - rank, 13,
                      NULL, NULL),
                SYMMCOLL_ERR_INVALID, "send: expected memory of device") &&
            right;
    device_free(other);
    device_use(rank);
    message_end(&message);
    return right;
}

/* ---- settings ---- */

/* Checks how many chunks both sides copy. */
static int takes_pieces(struct symmcoll_group *group, int rank)
{
    struct message message;
    uint64_t before, copies;
    int right;

    message_begin(&message, rank, 5 * MESSAGE_CHUNK + 3);
    message_fill(&message, 5 * MESSAGE_CHUNK + 3, 90 + rank);
    before = fake_calls("cuMemcpyAsync");
    right = message_fine(
        rank == 0
            ? message_send(group, &message, 5 * MESSAGE_CHUNK + 3, 1, 14)
            : message_recv(group, &message, 5 * MESSAGE_CHUNK + 3, 0, 14));
    copies = fake_calls("cuMemcpyAsync") - before;
    if (copies != 6)
        diag("expected 6 copies, found %d", (int)copies);
    right =
        copies == 6 && message_is(&message, 5 * MESSAGE_CHUNK + 3, 90) && right;
    message_end(&message);
    return right;
}

/* Sends a NaN and captures the log. */
static int send_nan(struct symmcoll_group *group, const struct message *message,
    char *text, size_t nbytes)
{
    struct symmcoll_call call = SYMMCOLL_CALL_INIT;
    struct logged logged;
    int right;

    call.stream = message->stream;
    logged_begin(&logged);
    right = message_fine(
        symmcoll_send(group, message->at, 1, F32, 1, 15, &call, NULL));
    logged_end(&logged, text, nbytes);
    return right;
}

/* Checks that the message is sent unsearched, and that the rank logs it. */
static int is_not_searched(struct symmcoll_group *group, int rank)
{
    const char *said = "errors.nan_check: expected host memory, found device "
                       "memory, in which nothing is searched";
    const float nan = (float)NAN;
    struct symmcoll_call call = SYMMCOLL_CALL_INIT;
    struct message message;
    char text[2000] = "";
    float found = 0;
    int right;

    message_begin(&message, rank, sizeof(nan));
    if (rank == 0) {
        device_write(message.at, &nan, sizeof(nan));
        right = send_nan(group, &message, text, sizeof(text)) &&
                say(strstr(text, said) != NULL, said);
    } else {
        call.stream = message.stream;
        right = message_fine(
            symmcoll_recv(group, message.at, 1, F32, 0, 15, NULL, &call, NULL));
        device_read(&found, message.at, sizeof(found));
        right = say(isnan(found), "what was sent") && right;
    }
    message_end(&message);
    return right;
}

int main(void)
{
    device_begin();
    setenv("SYMMCOLL_CUDA_MESSAGE_CHUNK", "64KiB", 1);
    on_both(
        3, message_has_its_bytes, "a message of device memory has its bytes");
    on_both(2, message_goes_both_ways,
        "sends and receives with works go both ways, in any order of tags");
    on_both(4, message_goes_to_all,
        "messages to several ranks at once have their bytes");
    on_both(4, message_comes_from_any,
        "a receive from any source takes one of each and says whose it is");
    on_both(2, message_follows_its_stream,
        "what a stream has last before a send is sent");
    on_both(2, is_after_its_stream,
        "both sides of a message are after what their streams have");
    on_both(2, takes_the_groups_stream,
        "a call without a stream is on that of the group");
    on_both(3, message_goes_round, "a batch of device memory goes round");
    on_both(4, message_is_permuted,
        "permute moves device memory, also of one rank");
    on_both(2, a_sender_lets_others_pass,
        "a send whose stream stands still lets other messages pass");
    on_both(2, a_receiver_lets_others_pass, "so does a receive");
    on_both(2, are_mixed,
        "messages of host and of device memory go by turns, in two groups");
    on_both(2, waits_for_its_own_stream,
        "permute to oneself waits for its stream, for as long as its time");
    on_both(2, is_refused_alike,
        "kinds of memory and counts that differ are named to both sides");
    on_both(2, is_refused_here,
        "a stream that is captured and another device are refused");
    ok(ranks_run(2, takes_pieces),
        "cuda.message_chunk: a message goes in as many pieces (2 processes)");
    setenv("SYMMCOLL_ERRORS_NAN_CHECK", "error", 1);
    ok(ranks_run(2, is_not_searched),
        "errors.nan_check does not search messages of devices, and says so");
    unsetenv("SYMMCOLL_ERRORS_NAN_CHECK");
    /* Ranks share a device. */
    setenv("SYMMCOLL_CUDA_SHARE_DEVICE", "on", 1);
    fake_configure("devices=1");
    on_both(3, message_has_its_bytes, "the same of ranks that share a device");
    return done_testing();
}
