/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Messages in device memory with guards, and the rank bodies that send and
 * receive them.
 */
#include "t/cuda/message.h"

#include <stdlib.h>
#include <string.h>

#define GUARD 64
#define GUARDED 0xa5

int message_fine(symmcoll_status_t status)
{
    if (status != SYMMCOLL_OK)
        diag("%s: %s", symmcoll_status_name(status), symmcoll_last_error());
    return status == SYMMCOLL_OK;
}

void message_begin(struct message *message, int rank, size_t capacity)
{
    const size_t nbytes = capacity + 2 * GUARD;
    unsigned char *host = malloc(nbytes);

    device_use(rank);
    message->stream = device_stream();
    message->whole = device_alloc(nbytes);
    message->at = message->whole + GUARD;
    message->capacity = capacity;
    memset(host, GUARDED, nbytes);
    device_write(message->whole, host, nbytes);
    free(host);
}

void message_end(struct message *message)
{
    device_end_stream(message->stream);
    device_free(message->whole);
}

static unsigned char byte_at(size_t index, int seed)
{
    return (
        unsigned char)((index * 7 + index / 251 + (size_t)seed * 31) & 0xff);
}

void message_fill(const struct message *message, size_t nbytes, int seed)
{
    unsigned char *host = malloc(nbytes + 1);

    for (size_t i = 0; i < nbytes; i++)
        host[i] = byte_at(i, seed);
    if (nbytes > 0)
        device_write(message->at, host, nbytes);
    free(host);
}

/* Checks that the message holds those bytes and that no guard has changed. */
int message_is(const struct message *message, size_t nbytes, int seed)
{
    const size_t all = message->capacity + 2 * GUARD;
    unsigned char *host = malloc(all);
    int right = 1;

    device_read(host, message->whole, all);
    for (size_t i = 0; i < GUARD && right; i++)
        right = host[i] == GUARDED && host[all - 1 - i] == GUARDED;
    right = say(right, "guards as they were");
    for (size_t i = 0; i < nbytes && right; i++) {
        if (host[GUARD + i] == byte_at(i, seed))
            continue;
        diag("byte %zu of %zu: expected %d, found %d", i, nbytes,
            byte_at(i, seed), host[GUARD + i]);
        right = 0;
    }
    free(host);
    return right;
}

symmcoll_status_t message_start_send(struct symmcoll_group *group,
    const struct message *message, size_t nbytes, int peer, int64_t tag,
    struct symmcoll_work **work)
{
    struct symmcoll_call call = SYMMCOLL_CALL_INIT;

    call.stream = message->stream;
    return symmcoll_send(
        group, message->at, nbytes, SYMMCOLL_UINT8, peer, tag, &call, work);
}

symmcoll_status_t message_start_recv(struct symmcoll_group *group,
    const struct message *message, size_t nbytes, int peer, int64_t tag,
    struct symmcoll_work **work)
{
    struct symmcoll_call call = SYMMCOLL_CALL_INIT;

    call.stream = message->stream;
    return symmcoll_recv(group, message->at, nbytes, SYMMCOLL_UINT8, peer, tag,
        NULL, &call, work);
}

symmcoll_status_t message_send(struct symmcoll_group *group,
    const struct message *message, size_t nbytes, int peer, int64_t tag)
{
    return message_start_send(group, message, nbytes, peer, tag, NULL);
}

symmcoll_status_t message_recv(struct symmcoll_group *group,
    const struct message *message, size_t nbytes, int peer, int64_t tag)
{
    return message_start_recv(group, message, nbytes, peer, tag, NULL);
}

/* Few bytes, parts of a chunk, and more chunks than are in flight at once. */
static const size_t sizes[] = {0, 1, 3, 4096, MESSAGE_CHUNK - 1, MESSAGE_CHUNK,
    MESSAGE_CHUNK + 1, 3 * MESSAGE_CHUNK, 9 * MESSAGE_CHUNK + 5};
#define SIZES (sizeof(sizes) / sizeof(sizes[0]))

/* ---- bytes ---- */

/* Rank 0 sends to all others in turn, which send back the message. */
int message_has_its_bytes(struct symmcoll_group *group, int rank)
{
    const int size = symmcoll_group_size(group);
    struct message message;
    int right = 1;

    message_begin(&message, rank, sizes[SIZES - 1]);
    for (size_t i = 0; i < SIZES && right; i++) {
        for (int peer = 1; peer < size && right; peer++) {
            if (rank == 0) {
                message_fill(&message, sizes[i], peer);
                right = message_fine(
                    message_send(group, &message, sizes[i], peer, 5));
                message_fill(&message, sizes[i], 99);
                right = right &&
                        message_fine(
                            message_recv(group, &message, sizes[i], peer, 6)) &&
                        message_is(&message, sizes[i], peer);
            } else if (rank == peer) {
                right =
                    message_fine(
                        message_recv(group, &message, sizes[i], 0, 5)) &&
                    message_is(&message, sizes[i], peer) &&
                    message_fine(message_send(group, &message, sizes[i], 0, 6));
            }
        }
    }
    message_end(&message);
    return right;
}

/* ---- works ---- */

#define WORKS 6

/* Each rank has several sends and receives in flight with its peer, with the
 * receives in reverse order of tags. */
int message_goes_both_ways(struct symmcoll_group *group, int rank)
{
    const int peer = 1 - rank;
    struct message sent[WORKS], received[WORKS];
    struct symmcoll_work *works[2 * WORKS] = {NULL};
    int right = 1;

    for (int i = 0; i < WORKS; i++) {
        message_begin(&sent[i], rank, sizes[SIZES - 1]);
        message_begin(&received[i], rank, sizes[SIZES - 1]);
        message_fill(&sent[i], sizes[SIZES - 1 - (size_t)i], 10 * rank + i);
    }
    for (int i = 0; i < WORKS; i++) {
        const int back = WORKS - 1 - i;

        right = message_fine(message_start_recv(group, &received[back],
                    sizes[SIZES - 1 - (size_t)back], peer, back,
                    &works[WORKS + back])) &&
                right;
        right = message_fine(message_start_send(group, &sent[i],
                    sizes[SIZES - 1 - (size_t)i], peer, i, &works[i])) &&
                right;
    }
    for (int i = 0; i < 2 * WORKS; i++) {
        right = message_fine(symmcoll_work_wait(works[i], -1)) && right;
        symmcoll_work_free(works[i]);
    }
    for (int i = 0; i < WORKS; i++) {
        right = message_is(&received[i], sizes[SIZES - 1 - (size_t)i],
                    10 * peer + i) &&
                right;
        message_end(&sent[i]);
        message_end(&received[i]);
    }
    return right;
}

/* Rank 0 sends to all others at once, each message through its own staging
 * memory. */
int message_goes_to_all(struct symmcoll_group *group, int rank)
{
    const int size = symmcoll_group_size(group);
    const size_t nbytes = 9 * MESSAGE_CHUNK + 1;
    struct message messages[8];
    struct symmcoll_work *works[8] = {NULL};
    int right = 1;

    for (int r = 1; r < (rank == 0 ? size : 2); r++)
        message_begin(&messages[r], rank, nbytes);
    for (int r = 1; rank == 0 && r < size; r++) {
        message_fill(&messages[r], nbytes, 130 + r);
        right = message_fine(message_start_send(
                    group, &messages[r], nbytes, r, 8, &works[r])) &&
                right;
    }
    for (int r = 1; rank == 0 && r < size && right; r++) {
        right = message_fine(symmcoll_work_wait(works[r], -1));
        symmcoll_work_free(works[r]);
    }
    if (rank != 0)
        right = message_fine(message_recv(group, &messages[1], nbytes, 0, 8)) &&
                message_is(&messages[1], nbytes, 130 + rank);
    for (int r = 1; r < (rank == 0 ? size : 2); r++)
        message_end(&messages[r]);
    return right;
}

/* Checks that a receive from any source returns the sender's rank. */
int message_comes_from_any(struct symmcoll_group *group, int rank)
{
    const int size = symmcoll_group_size(group);
    struct message message;
    bool seen[8] = {false};
    int right = 1;

    message_begin(&message, rank, 2 * MESSAGE_CHUNK);
    if (rank != 0) {
        message_fill(&message, 2 * MESSAGE_CHUNK, rank);
        right = message_fine(
            message_send(group, &message, 2 * MESSAGE_CHUNK, 0, 1));
    }
    for (int i = 1; rank == 0 && i < size && right; i++) {
        struct symmcoll_call call = SYMMCOLL_CALL_INIT;
        int source = -1;

        call.stream = message.stream;
        right = message_fine(symmcoll_recv(group, message.at, 2 * MESSAGE_CHUNK,
                    SYMMCOLL_UINT8, SYMMCOLL_ANY_SOURCE, 1, &source, &call,
                    NULL)) &&
                say(source > 0 && source < size && !seen[source],
                    "a source that was not there before") &&
                message_is(&message, 2 * MESSAGE_CHUNK, source);
        if (right)
            seen[source] = true;
    }
    message_end(&message);
    return right;
}

/* ---- streams ---- */

#define SETS 40
#define SET_NBYTES \
    ((size_t)16 * 1024 * 1024) /* of a set that keeps a device
                                               * busy */

/* Checks that a send sees the latest contents, which its stream sets after
 * much other work. */
int message_follows_its_stream(struct symmcoll_group *group, int rank)
{
    const size_t nbytes = 3 * MESSAGE_CHUNK;
    struct message message, busy;
    unsigned char *host = malloc(nbytes);
    int right;

    message_begin(&message, rank, nbytes);
    message_begin(&busy, rank, SET_NBYTES);
    for (int i = 0; rank == 0 && i < SETS; i++)
        cuMemsetD8Async((CUdeviceptr)(uintptr_t)busy.at, (unsigned char)i,
            SET_NBYTES, message.stream);
    if (rank == 0)
        cuMemsetD8Async(
            (CUdeviceptr)(uintptr_t)message.at, 149, nbytes, message.stream);
    right =
        message_fine(rank == 0 ? message_send(group, &message, nbytes, 1, 20)
                               : message_recv(group, &message, nbytes, 0, 20));
    device_read(host, message.at, nbytes);
    for (size_t i = 0; i < nbytes && right; i++)
        right = say(host[i] == 149, "what the stream had last");
    free(host);
    message_end(&busy);
    message_end(&message);
    return right;
}

/* ---- several ---- */

int message_goes_round(struct symmcoll_group *group, int rank)
{
    const int size = symmcoll_group_size(group);
    const int next = (rank + 1) % size, last = (rank + size - 1) % size;
    struct symmcoll_pair_op ops[2] = {
        SYMMCOLL_PAIR_OP_INIT, SYMMCOLL_PAIR_OP_INIT};
    struct symmcoll_call call = SYMMCOLL_CALL_INIT;
    struct symmcoll_work *work = NULL;
    struct message sent, received;
    int right = 1;

    message_begin(&sent, rank, 5 * MESSAGE_CHUNK + 3);
    message_begin(&received, rank, 5 * MESSAGE_CHUNK + 3);
    message_fill(&sent, 5 * MESSAGE_CHUNK + 3, rank);
    call.stream = sent.stream;
    ops[0].kind = SYMMCOLL_PAIR_SEND;
    ops[0].buf = sent.at;
    ops[0].peer = next;
    ops[1].kind = SYMMCOLL_PAIR_RECV;
    ops[1].buf = received.at;
    ops[1].peer = last;
    for (int i = 0; i < 2; i++) {
        ops[i].count = 5 * MESSAGE_CHUNK + 3;
        ops[i].dtype = SYMMCOLL_UINT8;
        ops[i].tag = 4;
    }
    for (int with_work = 0; with_work < 2; with_work++) {
        message_fill(&received, 5 * MESSAGE_CHUNK + 3, 77);
        right = message_fine(symmcoll_batch(
                    group, ops, 2, &call, with_work ? &work : NULL)) &&
                right;
        if (with_work && work != NULL)
            right = message_fine(symmcoll_work_wait(work, -1)) && right;
        right = message_is(&received, 5 * MESSAGE_CHUNK + 3, last) && right;
    }
    symmcoll_work_free(work);
    message_end(&sent);
    message_end(&received);
    return right;
}

/* All ranks except the last pass a message on; the last one sends to itself. */
int message_is_permuted(struct symmcoll_group *group, int rank)
{
    const int size = symmcoll_group_size(group);
    struct symmcoll_call call = SYMMCOLL_CALL_INIT;
    struct symmcoll_work *work = NULL;
    struct message sent, received;
    int dst_of[8], source = rank, right;

    for (int r = 0; r < size; r++)
        dst_of[r] = r == size - 1 ? r : (r + 1) % (size - 1);
    for (int r = 0; r < size; r++)
        source = dst_of[r] == rank ? r : source;
    message_begin(&sent, rank, 2 * MESSAGE_CHUNK);
    message_begin(&received, rank, 2 * MESSAGE_CHUNK);
    message_fill(&sent, 2 * MESSAGE_CHUNK, 20 + rank);
    call.stream = sent.stream;
    right = message_fine(symmcoll_permute(group, received.at, sent.at,
                2 * MESSAGE_CHUNK, SYMMCOLL_UINT8, dst_of, &call, NULL)) &&
            message_is(&received, 2 * MESSAGE_CHUNK, 20 + source);
    message_fill(&received, 2 * MESSAGE_CHUNK, 77);
    right = message_fine(symmcoll_permute(group, received.at, sent.at,
                2 * MESSAGE_CHUNK, SYMMCOLL_UINT8, dst_of, &call, &work)) &&
            message_fine(symmcoll_work_wait(work, -1)) &&
            message_is(&received, 2 * MESSAGE_CHUNK, 20 + source) && right;
    symmcoll_work_free(work);
    message_end(&sent);
    message_end(&received);
    return right;
}
