/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Tests send and recv: the received data equals the data sent, for every type
 * and size, in both forms and in both directions at once; and the sequence
 * numbers used.
 */
#include "../coll/data.h"
#include "../tap.h"
#include "pair.h"

#include <stdlib.h>
#include <string.h>

/* Sends from rank 0 to rank 1: the data arrives, and the guards are
 * unchanged. */
static bool is_sent(struct symmcoll_group *group, int rank,
    enum symmcoll_dtype dtype, size_t count)
{
    size_t nbytes = count * symmcoll_dtype_size(dtype);
    struct guarded buf = guarded_open(nbytes, 3);
    struct guarded all = guarded_open(nbytes, 0);
    symmcoll_status_t status;
    int source = -7;
    bool right;

    data_fill(all.at, dtype, 0, count, 0, (unsigned)count);
    if (rank == 0)
        memcpy(buf.at, all.at, nbytes);
    status = rank == 0 ? symmcoll_send(group, buf.at, count, dtype, 1,
                             (int64_t)nbytes, NULL, NULL)
                       : symmcoll_recv(group, buf.at, count, dtype, 0,
                             (int64_t)nbytes, &source, NULL, NULL);
    right = say(status == SYMMCOLL_OK, "status") &&
            say(rank == 0 || source == 0, "source") &&
            data_is_same("buf", buf.at, all.at, nbytes) &&
            guarded_is_intact(&buf);
    guarded_close(&buf);
    guarded_close(&all);
    return right;
}

static int every_type_is_sent(struct symmcoll_group *group, int rank)
{
    bool right = true;

    for (int d = 0; right && d < SYMMCOLL_DTYPE_COUNT; d++) {
        enum symmcoll_dtype dtype = (enum symmcoll_dtype)d;
        size_t elem = symmcoll_dtype_size(dtype);

        for (size_t nbytes = 0; right && nbytes <= 65536;
             nbytes = nbytes == 0 ? 1 : nbytes * 4)
            right = is_sent(group, rank, dtype, (nbytes + elem - 1) / elem);
    }
    return right;
}

static int every_size_is_sent(struct symmcoll_group *group, int rank)
{
    static const size_t edges[] = {24, 88, 8192, 32768, 131072, 262144};
    bool right = true;

    for (size_t i = 0; right && i < LENGTH(edges); i++) {
        for (size_t n = edges[i] - 1; right && n <= edges[i] + 1; n++)
            right = is_sent(group, rank, SYMMCOLL_UINT8, n);
    }
    for (size_t nbytes = 8; right && nbytes <= (size_t)8 << 20; nbytes *= 8)
        right = is_sent(group, rank, SYMMCOLL_FLOAT64, nbytes / 8);
    return right;
}

/* Sends and receives count elements at the same time on both ranks. */
static bool cross(
    struct symmcoll_group *group, int rank, size_t count, bool sends_first)
{
    int *in = make(count, rank, 5), *out = make(count, -1, 0);
    struct symmcoll_work *works[2];
    int peer = 1 - rank;
    symmcoll_status_t first, second;
    bool right;

    if (sends_first) {
        first = symmcoll_send(
            group, in, count, SYMMCOLL_INT32, peer, 1, NULL, &works[0]);
        second = symmcoll_recv(
            group, out, count, SYMMCOLL_INT32, peer, 1, NULL, NULL, &works[1]);
    } else {
        first = symmcoll_recv(
            group, out, count, SYMMCOLL_INT32, peer, 1, NULL, NULL, &works[0]);
        second = symmcoll_send(
            group, in, count, SYMMCOLL_INT32, peer, 1, NULL, &works[1]);
    }
    right = say(first == SYMMCOLL_OK && second == SYMMCOLL_OK, "started") &&
            ends(works[0]) && ends(works[1]) && is_made(out, count, peer, 5);
    free(in);
    free(out);
    return right;
}

static int both_directions(struct symmcoll_group *group, int rank)
{
    static const size_t counts[] = {0, 2, 22, 1000, 2049, 70000, 2097152};
    bool right = true;

    for (size_t i = 0; right && i < LENGTH(counts); i++)
        right = cross(group, rank, counts[i], false) &&
                cross(group, rank, counts[i], true) &&
                cross(group, rank, counts[i], (rank + (int)i) % 2 == 0);
    return right;
}

static int small_ones_cross_blocking(struct symmcoll_group *group, int rank)
{
    static const size_t counts[] = {1, 20, 1000, 2048};
    bool right = true;

    for (int round = 0; right && round < 200; round++) {
        size_t count = counts[round % (int)LENGTH(counts)];
        int *in = make(count, rank, round), *out = make(count, -1, 0);

        right = say(symmcoll_send(group, in, count, SYMMCOLL_INT32, 1 - rank,
                        round, NULL, NULL) == SYMMCOLL_OK,
                    "send") &&
                say(symmcoll_recv(group, out, count, SYMMCOLL_INT32, 1 - rank,
                        round, NULL, NULL, NULL) == SYMMCOLL_OK,
                    "recv") &&
                is_made(out, count, 1 - rank, round);
        free(in);
        free(out);
    }
    return right;
}

static int ring_of_ranks(struct symmcoll_group *group, int rank)
{
    int size = symmcoll_group_size(group);
    bool right = true;

    for (size_t count = 1; right && count <= 300000; count *= 17) {
        int *in = make(count, rank, 1), *out = make(count, -1, 0);
        struct symmcoll_work *work;

        right = say(symmcoll_send(group, in, count, SYMMCOLL_INT32,
                        (rank + 1) % size, 3, NULL, &work) == SYMMCOLL_OK,
                    "send") &&
                say(symmcoll_recv(group, out, count, SYMMCOLL_INT32,
                        (rank + size - 1) % size, 3, NULL, NULL,
                        NULL) == SYMMCOLL_OK,
                    "recv") &&
                ends(work) && is_made(out, count, (rank + size - 1) % size, 1);
        free(in);
        free(out);
    }
    return right;
}

static int numbers_are_their_own(struct symmcoll_group *group, int rank)
{
    struct symmcoll_work *work;
    int value = rank;
    bool right = true;

    for (unsigned int i = 1; right && i <= 3; i++) {
        symmcoll_status_t status =
            rank == 0 ? symmcoll_send(
                            group, &value, 1, SYMMCOLL_INT32, 1, 0, NULL, &work)
                      : symmcoll_recv(group, &value, 1, SYMMCOLL_INT32, 0, 0,
                            NULL, NULL, &work);

        right = say(status == SYMMCOLL_OK, "started") &&
                say(symmcoll_work_wait(work, -1) == SYMMCOLL_OK, "ended") &&
                say(symmcoll_work_sequence(work) == i, "its number") &&
                say(symmcoll_work_source(work) == (rank == 0 ? -1 : 0),
                    "its source");
        symmcoll_work_free(work);
    }
    right = right && say(symmcoll_send(group, &value, 1, SYMMCOLL_INT32, rank,
                             0, NULL, NULL) == SYMMCOLL_ERR_INVALID,
                         "to oneself");
    return right &&
           say(symmcoll_group_sequence(group) == 0, "of collectives") &&
           symmcoll_barrier(group, NULL, NULL) == SYMMCOLL_OK &&
           symmcoll_group_sequence(group) == 1;
}

int main(void)
{
    plan(14);
    both_run(2, every_type_is_sent,
        "C25 elements of every type are received as they were sent");
    both_run(2, every_size_is_sent,
        "C25 0 bytes to 8 MiB are received as they were sent");
    both_run(2, both_directions,
        "C40 immediate sends and receives of any size cross in both directions");
    both_run(2, small_ones_cross_blocking,
        "C40 blocking sends up to 8 KiB cross before they are received");
    both_run(4, ring_of_ranks, "each rank of a ring sends to the next");
    both_run(2, numbers_are_their_own,
        "C61 sends and receives have numbers of their own, from 1");
    both_run(3, ring_of_ranks, "the same where a rank has two peers");
    return done_testing();
}
