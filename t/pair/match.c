/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Tests the matching of receives with messages: tags, order, any source,
 * messages that arrive before their receives, and arguments that differ or are
 * invalid.
 */
#include "../coll/data.h"
#include "pair.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define KEPT 4096 /* messages of a sender that are kept without a receive */
#define SLOTS 64  /* and those that wait in slots */

static const size_t counts[] = {1, 20, 300, 2000, 5000, 100000};

static int tags_out_of_order(struct symmcoll_group *group, int rank)
{
    struct symmcoll_work *works[LENGTH(counts)];
    int *in[LENGTH(counts)];
    bool right = true;

    if (rank == 1) {
        for (int i = (int)LENGTH(counts) - 1; right && i >= 0; i--)
            right = get(group, 0, i - 3, counts[i], 0, i);
        return right;
    }
    for (int i = 0; i < (int)LENGTH(counts); i++) {
        in[i] = make(counts[i], 0, i);
        right =
            right && say(symmcoll_send(group, in[i], counts[i], SYMMCOLL_INT32,
                             1, i - 3, NULL, &works[i]) == SYMMCOLL_OK,
                         "send");
    }
    for (size_t i = 0; i < LENGTH(counts); i++) {
        right = right && ends(works[i]);
        free(in[i]);
    }
    return right;
}

/* Checks that messages of one tag are received in order, whatever their
 * sizes. */
static int one_tag_keeps_order(struct symmcoll_group *group, int rank)
{
    struct symmcoll_work *works[60];
    int *bufs[60];
    bool right = true;

    for (int i = 0; i < (int)LENGTH(works); i++) {
        size_t count = counts[i * 5 % (int)LENGTH(counts)];
        symmcoll_status_t status;

        bufs[i] = make(count, rank == 0 ? 0 : -1, i);
        status = rank == 0 ? symmcoll_send(group, bufs[i], count,
                                 SYMMCOLL_INT32, 1, 9, NULL, &works[i])
                           : symmcoll_recv(group, bufs[i], count,
                                 SYMMCOLL_INT32, 0, 9, NULL, NULL, &works[i]);
        right = say(status == SYMMCOLL_OK, "started") && right;
    }
    for (int i = 0; i < (int)LENGTH(works); i++) {
        right = ends(works[i]) && right;
        right = right &&
                is_made(bufs[i], counts[i * 5 % (int)LENGTH(counts)], 0, i);
        free(bufs[i]);
    }
    return right;
}

/* Sends as many messages as may wait, and receives them last to first. */
static int many_are_kept(struct symmcoll_group *group, int rank)
{
    bool right = true;

    for (int i = 0; right && rank == 0 && i < KEPT; i++)
        right = put(group, 1, i, (size_t)(i % 23), 0, i);
    right = right && symmcoll_barrier(group, NULL, NULL) == SYMMCOLL_OK;
    for (int i = KEPT - 1; right && rank == 1 && i >= 0; i--)
        right = get(group, 0, i, (size_t)(i % 23), 0, i);
    return right;
}

/* Sends one message more than fits: it waits, and the others are unaffected. */
static int more_wait_at_the_sender(struct symmcoll_group *group, int rank)
{
    int last = KEPT + SLOTS, value = 5;
    struct symmcoll_work *work = NULL;
    bool right = true;

    for (int i = 0; right && rank == 0 && i < last; i++)
        right = put(group, 1, i, 1, 0, i);
    if (rank == 0) {
        right = right && say(symmcoll_send(group, &value, 1, SYMMCOLL_INT32, 1,
                                 last, NULL, &work) == SYMMCOLL_OK,
                             "send");
        right = right && is_status(symmcoll_work_wait(work, 0.05),
                             SYMMCOLL_ERR_TIMEOUT, "goes on");
    }
    right = right && symmcoll_barrier(group, NULL, NULL) == SYMMCOLL_OK;
    for (int i = 0; right && rank == 1 && i < last; i++)
        right = get(group, 0, i, 1, 0, i);
    if (rank == 0)
        return right && ends(work);
    return right &&
           say(symmcoll_recv(group, &value, 1, SYMMCOLL_INT32, 0, last, NULL,
                   NULL, NULL) == SYMMCOLL_OK,
               "recv") &&
           value == 5;
}

/* One sender sends much before the others send anything: the first messages of
 * the others are received before its last one. */
static int any_source_is_fair(struct symmcoll_group *group, int rank)
{
    enum {
        EACH = 20
    };
    int size = symmcoll_group_size(group);
    int next[8] = {0};
    bool right = true;

    if (rank != 0) {
        if (rank > 1)
            right = get(group, 1, 1, 1, 1, 0);
        for (int i = 0; right && i < EACH; i++)
            right = put(group, 0, 4, 3, rank, i);
        for (int r = 2; right && rank == 1 && r < size; r++)
            right = put(group, r, 1, 1, 1, 0);
        return right && symmcoll_barrier(group, NULL, NULL) == SYMMCOLL_OK;
    }
    right = symmcoll_barrier(group, NULL, NULL) == SYMMCOLL_OK;
    for (int i = 0; right && i < EACH * (size - 1); i++) {
        int found[3], source = -5;

        right =
            say(symmcoll_recv(group, found, 3, SYMMCOLL_INT32,
                    SYMMCOLL_ANY_SOURCE, 4, &source, NULL, NULL) == SYMMCOLL_OK,
                "recv") &&
            say(source > 0 && source < size, "source") &&
            is_made(found, 3, source, next[source]++);
        for (int r = 1; right && r < size; r++)
            right = say(abs(next[r] - next[source]) <= 1, "whose turn it is");
    }
    return right;
}

static int source_of_a_work(struct symmcoll_group *group, int rank)
{
    int size = symmcoll_group_size(group), from = size - 1, stored = -9;
    struct symmcoll_work *work;
    int *out;
    bool right;

    if (rank != 0)
        return rank != from || put(group, 0, 2, 70000, from, 1);
    out = make(70000, -1, 0);
    right =
        say(symmcoll_recv(group, out, 70000, SYMMCOLL_INT32,
                SYMMCOLL_ANY_SOURCE, 2, &stored, NULL, &work) == SYMMCOLL_OK,
            "recv") &&
        say(symmcoll_work_wait(work, 100) == SYMMCOLL_OK, "wait") &&
        say(symmcoll_work_source(work) == from && stored == from, "source") &&
        is_made(out, 70000, from, 1);
    symmcoll_work_free(work);
    free(out);
    return right && symmcoll_work_source(NULL) == -1;
}

/* ---- what differs ---- */

/* Sends a message with another count or type than its receive, small or
 * large. */
static bool differ(struct symmcoll_group *group, int rank, size_t count,
    enum symmcoll_dtype other, size_t more, const char *what)
{
    struct guarded buf = guarded_open((count + more) * 8, 0);
    bool right;

    if (rank == 0) {
        struct symmcoll_work *work;

        right = say(symmcoll_send(group, buf.at, count, SYMMCOLL_INT32, 1, 1,
                        NULL, &work) == SYMMCOLL_OK,
            "send");
        /* A send that has left its buffer has completed. */
        right = right && (count * 4 <= 8192 ? ends(work)
                                            : ends_with(work,
                                                  SYMMCOLL_ERR_MISMATCH, what));
    } else {
        right =
            is_status(symmcoll_recv(group, buf.at, count + more, other, 0, 1,
                          NULL, NULL, NULL),
                SYMMCOLL_ERR_MISMATCH, what) &&
            say(strstr(symmcoll_last_error(), "rank 0 sent") != NULL, "whose");
    }
    right = right && guarded_is_clear(&buf) && guarded_is_intact(&buf);
    guarded_close(&buf);
    return right;
}

static int what_differs_is_named(struct symmcoll_group *group, int rank)
{
    bool right = true;

    for (size_t i = 0; right && i < LENGTH(counts); i++)
        right = differ(group, rank, counts[i], SYMMCOLL_INT32, 1,
                    "count differs") &&
                differ(group, rank, counts[i], SYMMCOLL_FLOAT32, 0,
                    "type differs") &&
                (rank == 0 ? put(group, 1, 1, counts[i], 0, 1)
                           : get(group, 0, 1, counts[i], 0, 1));
    return right && symmcoll_barrier(group, NULL, NULL) == SYMMCOLL_OK;
}

static int bad_arguments(struct symmcoll_group *group, int rank)
{
    struct symmcoll_call call = SYMMCOLL_CALL_INIT;
    int size = symmcoll_group_size(group), peer = 1 - rank, value = 0;
    struct symmcoll_work *work;
    bool right =
        is_status(
            symmcoll_send(NULL, &value, 1, SYMMCOLL_INT32, peer, 0, NULL, NULL),
            SYMMCOLL_ERR_INVALID, "send: expected a group, found NULL") &&
        is_status(symmcoll_send(
                      group, &value, 1, SYMMCOLL_INT32, rank, 0, NULL, NULL),
            SYMMCOLL_ERR_INVALID, "send: expected another rank") &&
        is_status(symmcoll_recv(group, &value, 1, SYMMCOLL_INT32, rank, 0, NULL,
                      NULL, NULL),
            SYMMCOLL_ERR_INVALID, "recv: expected another rank") &&
        is_status(symmcoll_send(
                      group, &value, 1, SYMMCOLL_INT32, size, 0, NULL, NULL),
            SYMMCOLL_ERR_INVALID, "send: expected a peer of 0 to 1, found 2") &&
        is_status(symmcoll_send(group, &value, 1, SYMMCOLL_INT32,
                      SYMMCOLL_ANY_SOURCE, 0, NULL, NULL),
            SYMMCOLL_ERR_INVALID, "found -1") &&
        is_status(symmcoll_recv(group, &value, 1, SYMMCOLL_INT32, -2, 0, NULL,
                      NULL, &work),
            SYMMCOLL_ERR_INVALID, "or SYMMCOLL_ANY_SOURCE, found -2") &&
        is_status(symmcoll_recv(group, NULL, 1, SYMMCOLL_INT32, peer, 0, NULL,
                      NULL, NULL),
            SYMMCOLL_ERR_INVALID, "recv: expected out of 4 bytes") &&
        is_status(symmcoll_send(group, &value, 1, (enum symmcoll_dtype)77, peer,
                      0, NULL, NULL),
            SYMMCOLL_ERR_INVALID, "element type") &&
        is_status(symmcoll_send(group, &value, SIZE_MAX / 2, SYMMCOLL_INT32,
                      peer, 0, NULL, NULL),
            SYMMCOLL_ERR_INVALID, "more bytes than memory has");

    call.timeout = (double)NAN;
    right = right && is_status(symmcoll_send(group, &value, 1, SYMMCOLL_INT32,
                                   peer, 0, &call, NULL),
                         SYMMCOLL_ERR_INVALID, "send");
    /* The failed calls used no sequence number. */
    right = right &&
            (rank == 0 ? put(group, 1, 0, 1, 0, 0) : get(group, 0, 0, 1, 0, 0));
    right = right && say(symmcoll_recv(group, &value, 1, SYMMCOLL_INT32, peer,
                             5, NULL, NULL, &work) == SYMMCOLL_OK,
                         "recv");
    return right && put(group, peer, 5, 1, rank, 0) &&
           say(symmcoll_work_wait(work, 100) == SYMMCOLL_OK, "wait") &&
           symmcoll_work_sequence(work) == 2 && (symmcoll_work_free(work), 1);
}

static int alone(struct symmcoll_group *group, int rank)
{
    int value = rank;

    return is_status(symmcoll_recv(group, &value, 1, SYMMCOLL_INT32,
                         SYMMCOLL_ANY_SOURCE, 0, NULL, NULL, NULL),
        SYMMCOLL_ERR_INVALID, "recv: expected a group of two ranks or more");
}

int main(void)
{
    plan(18);
    both_run(2, tags_out_of_order,
        "C41 a receive matches its tag, whatever has come before");
    both_run(2, one_tag_keeps_order,
        "messages of one tag are received in the order of their sends");
    both_run(2, many_are_kept,
        "4096 messages of a sender wait for their receives, in any order");
    both_run(
        2, more_wait_at_the_sender, "a send for which there is no room waits");
    both_run(4, any_source_is_fair,
        "C41 senders to any source take turns, each in its order");
    both_run(3, source_of_a_work, "C41 a work knows whom it has received from");
    both_run(2, what_differs_is_named,
        "a message that differs from its receive is named on both sides");
    both_run(2, bad_arguments, "C6 bad arguments are named and take no number");
    both_run(1, alone, "a rank that is alone cannot receive");
    return done_testing();
}
