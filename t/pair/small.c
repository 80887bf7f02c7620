/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Tests small blocking sends and receives, which bypass the lists while no
 * other operation is in flight: operations in flight come first, as with all
 * others. Each body first sends in both directions to create the rings.
 */
#include "../coll/data.h"
#include "pair.h"

#include "group/group.h"
#include "message/message_state.h"

#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>

static const size_t sizes[] = {0, 1, 2, 3, 4, 5, 6, 7, 22, 23, 128, 1000, 2048};

static bool warm(struct symmcoll_group *group, int rank)
{
    return rank == 0
               ? put(group, 1, 1000, 1, 0, 0) && get(group, 1, 1000, 1, 1, 0)
               : get(group, 0, 1000, 1, 0, 0) && put(group, 0, 1000, 1, 1, 0);
}

/* ---- received data ---- */

static int all_sizes(struct symmcoll_group *group, int rank)
{
    bool right = warm(group, rank);

    for (int i = 0; right && i < 500; i++) {
        size_t count = sizes[(size_t)i % LENGTH(sizes)];

        right = rank == 0 ? put(group, 1, i, count, 0, i) &&
                                get(group, 1, i, count, 1, i)
                          : get(group, 0, i, count, 0, i) &&
                                put(group, 0, i, count, 1, i);
    }
    return right;
}

/* Sends bytes, so that every length of a line occurs. */
static int all_lengths(struct symmcoll_group *group, int rank)
{
    bool right = warm(group, rank);

    for (size_t n = 0; right && n <= SYMC_PAIR_INLINE + 1; n++) {
        struct guarded buf = guarded_open(n, 1);
        struct guarded all = guarded_open(n, 1);

        data_fill(all.at, SYMMCOLL_UINT8, 0, n, 0, (unsigned)n);
        if (rank == 0)
            memcpy(buf.at, all.at, n);
        right = say((rank == 0 ? symmcoll_send(group, buf.at, n, SYMMCOLL_UINT8,
                                     1, 0, NULL, NULL)
                               : symmcoll_recv(group, buf.at, n, SYMMCOLL_UINT8,
                                     0, 0, NULL, NULL, NULL)) == SYMMCOLL_OK,
                    "status") &&
                data_is_same("buf", buf.at, all.at, n) &&
                guarded_is_intact(&buf);
        guarded_close(&buf);
        guarded_close(&all);
    }
    return right;
}

/* The next message has another tag, or belongs to another group. */
static int others_are_left(struct symmcoll_group *all, int rank)
{
    struct symmcoll_group *other;
    bool right = symmcoll_group_create(
                     symmcoll_group_world(all), NULL, &other) == SYMMCOLL_OK &&
                 warm(all, rank) && warm(other, rank);

    if (rank == 0)
        right = right && put(all, 1, 1, 3, 0, 1) && put(all, 1, 2, 3, 0, 2) &&
                get(all, 1, 9, 1, 1, 0) && put(other, 1, 3, 3, 0, 3) &&
                put(all, 1, 3, 3, 0, 4) && get(all, 1, 9, 1, 1, 0);
    else
        right = right && await_arrival(all, 0) && get(all, 0, 2, 3, 0, 2) &&
                get(all, 0, 1, 3, 0, 1) && put(all, 0, 9, 1, 1, 0) &&
                await_arrival(all, 0) && get(all, 0, 3, 3, 0, 4) &&
                get(other, 0, 3, 3, 0, 3) && put(all, 0, 9, 1, 1, 0);
    return symmcoll_group_free(other) == SYMMCOLL_OK && right;
}

/* A kept message comes before one of the same tag in the ring. */
static int kept_ones_come_first(struct symmcoll_group *group, int rank)
{
    bool right = warm(group, rank);

    if (rank == 0)
        return right && put(group, 1, 1, 3, 0, 1) &&
               put(group, 1, 2, 3, 0, 2) && get(group, 1, 9, 1, 1, 0) &&
               put(group, 1, 1, 3, 0, 3) && get(group, 1, 9, 1, 1, 0);
    return right && get(group, 0, 2, 3, 0, 2) && put(group, 0, 9, 1, 1, 0) &&
           await_arrival(group, 0) && get(group, 0, 1, 3, 0, 1) &&
           get(group, 0, 1, 3, 0, 3) && put(group, 0, 9, 1, 1, 0);
}

/* Checks that a waiting receive, from that peer or from any source, comes
 * before a later one, whenever the messages arrive. */
static int waiting_ones_come_first(struct symmcoll_group *group, int rank)
{
    bool right = warm(group, rank);

    for (int round = 0; right && round < 200; round++) {
        int first[3] = {0}, source = round % 2 ? SYMMCOLL_ANY_SOURCE : 0;
        struct symmcoll_work *work;

        if (rank == 0) {
            right = get(group, 1, 9, 1, 1, 0) && put(group, 1, 1, 3, 0, 1) &&
                    put(group, 1, 1, 3, 0, 2) && get(group, 1, 9, 1, 1, 0);
            continue;
        }
        right = say(symmcoll_recv(group, first, 3, SYMMCOLL_INT32, source, 1,
                        NULL, NULL, &work) == SYMMCOLL_OK,
                    "recv") &&
                put(group, 0, 9, 1, 1, 0) && get(group, 0, 1, 3, 0, 2) &&
                ends(work) && is_made(first, 3, 0, 1) &&
                put(group, 0, 9, 1, 1, 0);
    }
    return right;
}

/* Sends a permute's message and one with the same number as its tag. */
static int spaces_are_apart(struct symmcoll_group *group, int rank)
{
    static const int swapped[2] = {1, 0};
    int in[3], out[3] = {0};
    struct symmcoll_work *work = NULL;
    bool right = warm(group, rank);

    for (int i = 0; i < 3; i++)
        in[i] = rank;
    /* Rank 0's permute is in flight when its message is sent. */
    if (rank == 0)
        return right &&
               say(symmcoll_permute(group, out, in, 3, SYMMCOLL_INT32, swapped,
                       NULL, &work) == SYMMCOLL_OK,
                   "permute") &&
               put(group, 1, 0, 3, 0, 1) && ends(work) && out[2] == 1;
    return right && await_arrival(group, 0) && get(group, 0, 0, 3, 0, 1) &&
           say(symmcoll_permute(group, out, in, 3, SYMMCOLL_INT32, swapped,
                   NULL, NULL) == SYMMCOLL_OK,
               "permute") &&
           out[2] == 0;
}

/* ---- room ---- */

/* Sends more messages than there are slots before any is received: none is
 * lost, and none overtakes another. */
static int order_is_kept_without_room(struct symmcoll_group *group, int rank)
{
    enum {
        MANY = 3 * SYMC_PAIR_SLOTS
    };
    bool right = warm(group, rank);

    for (int round = 0; right && round < 20; round++) {
        for (int i = 0; right && rank == 0 && i < MANY; i++)
            right = put(group, 1, 5, sizes[(size_t)i % LENGTH(sizes)], 0, i);
        for (int i = 0; right && rank == 1 && i < MANY; i++)
            right = get(group, 0, 5, sizes[(size_t)i % LENGTH(sizes)], 0, i);
        if (rank == 0)
            right = right && get(group, 1, 9, 1, 1, 0);
        else
            right = right && put(group, 0, 9, 1, 1, 0);
    }
    return right;
}

/* ---- threads ---- */

struct talker {
    struct symmcoll_group *group;
    int rank, tag;
    bool right;
};

static void *talk(void *arg)
{
    struct talker *self = arg;
    int peer = 1 - self->rank;

    self->right = true;
    for (int i = 0; self->right && i < 300; i++) {
        size_t count = sizes[(size_t)(i + self->tag) % LENGTH(sizes)];

        self->right = self->rank == 0
                          ? put(self->group, peer, self->tag, count, 0, i) &&
                                get(self->group, peer, self->tag, count, 1, i)
                          : get(self->group, peer, self->tag, count, 0, i) &&
                                put(self->group, peer, self->tag, count, 1, i);
    }
    return NULL;
}

static int threads_send_small(struct symmcoll_group *group, int rank)
{
    struct talker all[3];
    pthread_t threads[LENGTH(all)];
    bool right = warm(group, rank);

    for (int t = 0; t < (int)LENGTH(all); t++) {
        all[t] = (struct talker){group, rank, t, false};
        if (pthread_create(&threads[t], NULL, talk, &all[t]) != 0)
            return false;
    }
    for (int t = 0; t < (int)LENGTH(all); t++) {
        pthread_join(threads[t], NULL);
        right = all[t].right && right;
    }
    return right;
}

/* ---- numbers and errors ---- */

static uint64_t next_number(struct symmcoll_group *group, int rank)
{
    struct symmcoll_work *work = NULL;
    int value = 0;
    uint64_t number = 0;

    if ((rank == 0 ? symmcoll_send(
                         group, &value, 1, SYMMCOLL_INT32, 1, 77, NULL, &work)
                   : symmcoll_recv(group, &value, 1, SYMMCOLL_INT32, 0, 77,
                         NULL, NULL, &work)) == SYMMCOLL_OK &&
        symmcoll_work_wait(work, 100) == SYMMCOLL_OK)
        number = symmcoll_work_sequence(work);
    symmcoll_work_free(work);
    return number;
}

static int bad_calls_take_no_number(struct symmcoll_group *group, int rank)
{
    bool right = warm(group, rank) && warm(group, rank);
    int value = 0;

    right =
        right &&
        is_status(symmcoll_send(
                      group, &value, 1, SYMMCOLL_INT32, rank, 0, NULL, NULL),
            SYMMCOLL_ERR_INVALID, "send: expected another rank") &&
        is_status(
            symmcoll_send(group, &value, 1, SYMMCOLL_INT32, 2, 0, NULL, NULL),
            SYMMCOLL_ERR_INVALID, "send: expected a peer of 0 to 1, found 2") &&
        is_status(
            symmcoll_send(group, &value, 1, SYMMCOLL_INT32, -1, 0, NULL, NULL),
            SYMMCOLL_ERR_INVALID, "found -1") &&
        is_status(symmcoll_send(
                      group, NULL, 1, SYMMCOLL_INT32, 1 - rank, 0, NULL, NULL),
            SYMMCOLL_ERR_INVALID, "send: expected in of 4 bytes") &&
        is_status(symmcoll_send(group, &value, 1, (enum symmcoll_dtype)77,
                      1 - rank, 0, NULL, NULL),
            SYMMCOLL_ERR_INVALID, "element type") &&
        is_status(symmcoll_send(group, &value, SIZE_MAX, SYMMCOLL_INT32,
                      1 - rank, 0, NULL, NULL),
            SYMMCOLL_ERR_INVALID, "more bytes than memory has") &&
        is_status(symmcoll_recv(group, NULL, 1, SYMMCOLL_INT32, 1 - rank, 0,
                      NULL, NULL, NULL),
            SYMMCOLL_ERR_INVALID, "recv: expected out of 4 bytes");
    return right && say(next_number(group, rank) == 5, "its number");
}

/* Sends two messages, the second of which differs; the first one is
 * unaffected. */
static int differences_are_named(struct symmcoll_group *group, int rank)
{
    bool right = warm(group, rank);
    int value[4] = {6, 6, 6, 6};

    if (rank == 0)
        return right && put(group, 1, 0, 3, 0, 0) &&
               get(group, 1, 9, 1, 1, 0) && put(group, 1, 0, 3, 0, 1) &&
               get(group, 1, 9, 1, 1, 0) && put(group, 1, 0, 3, 0, 2) &&
               get(group, 1, 9, 1, 1, 0);
    /* Each is the next one in the ring when its receive is called. */
    right = right && await_arrival(group, 0) &&
            is_status(symmcoll_recv(group, value, 4, SYMMCOLL_INT32, 0, 0, NULL,
                          NULL, NULL),
                SYMMCOLL_ERR_MISMATCH, "count differs: rank 0 sent 3") &&
            put(group, 0, 9, 1, 1, 0) && await_arrival(group, 0) &&
            is_status(symmcoll_recv(group, value, 3, SYMMCOLL_FLOAT32, 0, 0,
                          NULL, NULL, NULL),
                SYMMCOLL_ERR_MISMATCH, "type differs: rank 0 sent 3 of int32");
    return right && value[0] == 6 && put(group, 0, 9, 1, 1, 0) &&
           get(group, 0, 0, 3, 0, 2) && put(group, 0, 9, 1, 1, 0);
}

/* Sends and receives in this rank's recorder that have ended in order. */
static int count_ended(struct symmcoll_group *group)
{
    const struct symc_trace_writer *trace = &group->world->trace;
    int count = 0;

    for (uint32_t i = 0; i < trace->capacity; i++) {
        struct symc_trace_entry *entry = &trace->ring->entries[i];
        uint64_t completed = atomic_load(&entry->completed);

        if (atomic_load(&entry->lock) != 0 &&
            (entry->kind == SYMC_SEND || entry->kind == SYMC_RECV))
            count += atomic_load(&entry->state) == SYMC_TRACE_COMPLETED &&
                     completed >= entry->started;
    }
    return count;
}

static int entries_end(struct symmcoll_group *group, int rank)
{
    bool right = warm(group, rank);

    if (rank == 0)
        right = right && put(group, 1, 0, 3, 0, 0) && get(group, 1, 9, 1, 1, 0);
    else
        right = right && await_arrival(group, 0) && get(group, 0, 0, 3, 0, 0) &&
                put(group, 0, 9, 1, 1, 0);
    return right && say(count_ended(group) == 4, "entries that have ended");
}

/* Checks that a group aborted by both members refuses to send and receive. */
static int failed_groups_refuse(struct symmcoll_group *all, int rank)
{
    struct symmcoll_group *group;
    int value = 0;
    bool right = symmcoll_group_create(
                     symmcoll_group_world(all), NULL, &group) == SYMMCOLL_OK &&
                 warm(group, rank) &&
                 symmcoll_barrier(all, NULL, NULL) == SYMMCOLL_OK;

    symmcoll_group_abort(group, "no more disk");
    right = right &&
            is_status(symmcoll_send(group, &value, 1, SYMMCOLL_INT32, 1 - rank,
                          0, NULL, NULL),
                SYMMCOLL_ERR_ABORTED, "no more disk") &&
            is_status(symmcoll_recv(group, &value, 1, SYMMCOLL_INT32, 1 - rank,
                          0, NULL, NULL, NULL),
                SYMMCOLL_ERR_ABORTED, "no more disk");
    symmcoll_group_free(group);
    return right && warm(all, rank);
}

/* ---- which hooks run ---- */

struct told {
    _Atomic int count;
    _Atomic uint64_t last;
};

static void note(const struct symmcoll_operation *operation, void *arg)
{
    struct told *told = arg;

    atomic_store(&told->last, operation->sequence);
    if (operation->status == SYMMCOLL_OK && operation->duration > 0)
        atomic_fetch_add(&told->count, 1);
}

static int programs_are_told(struct symmcoll_group *all, int rank)
{
    struct told told = {0};
    struct symmcoll_group *group;
    bool right = symmcoll_group_create(
                     symmcoll_group_world(all), NULL, &group) == SYMMCOLL_OK &&
                 warm(group, rank) &&
                 symmcoll_group_notify(group, note, &told) == SYMMCOLL_OK &&
                 warm(group, rank) && warm(group, rank);

    right = symmcoll_group_free(group) == SYMMCOLL_OK && right;
    return right && say(told.count == 4 && told.last == 6, "told");
}

struct inside {
    struct symmcoll_group *group, *other;
    int rank;
    _Atomic int right; /* 0: not yet; 1: as expected; 2: not */
};

static void send_inside(symmcoll_status_t status, void *arg)
{
    struct inside *inside = arg;
    int value = 0;
    bool right =
        status == SYMMCOLL_OK &&
        is_status(symmcoll_send(inside->group, &value, 1, SYMMCOLL_INT32,
                      1 - inside->rank, 0, NULL, NULL),
            SYMMCOLL_ERR_INVALID,
            "in a callback of the same group or in one that such a callback");

    atomic_store(&inside->right, right ? 1 : 2);
}

static int callbacks_do_not_block(struct symmcoll_group *group, int rank)
{
    struct inside inside = {.group = group, .rank = rank};
    struct symmcoll_work *work = NULL;
    bool right = warm(group, rank) &&
                 symmcoll_barrier(group, NULL, &work) == SYMMCOLL_OK &&
                 symmcoll_work_then(work, send_inside, &inside) == SYMMCOLL_OK;

    while (right && atomic_load(&inside.right) == 0)
        sched_yield();
    symmcoll_work_free(work);
    return right && inside.right == 1 && warm(group, rank);
}

/* Releases, in a callback, a work of another group. */
static void release_inside(symmcoll_status_t status, void *arg)
{
    struct inside *inside = arg;
    struct inside nested = {.group = inside->group, .rank = inside->rank};
    struct symmcoll_work *work = NULL;
    bool right = status == SYMMCOLL_OK && warm(inside->other, inside->rank) &&
                 symmcoll_barrier(inside->other, NULL, &work) == SYMMCOLL_OK &&
                 symmcoll_work_then(work, send_inside, &nested) == SYMMCOLL_OK;

    symmcoll_work_free(work);
    right = symmcoll_group_free(inside->other) == SYMMCOLL_OK && right;
    atomic_store(&inside->right, right && nested.right == 1 ? 1 : 2);
}

static int nor_do_those_that_they_run(struct symmcoll_group *group, int rank)
{
    struct inside inside = {.group = group, .rank = rank};
    struct symmcoll_work *work = NULL;
    bool right =
        symmcoll_group_create(
            symmcoll_group_world(group), NULL, &inside.other) == SYMMCOLL_OK &&
        warm(group, rank) &&
        symmcoll_barrier(group, NULL, &work) == SYMMCOLL_OK &&
        symmcoll_work_then(work, release_inside, &inside) == SYMMCOLL_OK;

    while (right && atomic_load(&inside.right) == 0)
        sched_yield();
    symmcoll_work_free(work);
    return right && inside.right == 1 && warm(group, rank);
}

int main(void)
{
    plan(30);
    setenv("SYMMCOLL_TRACE_DUMP_ON_ERROR", "off", 1);
    both_run(2, all_sizes, "C25 small messages of all sizes cross one by one");
    both_run(2, all_lengths, "messages of 0 to 89 bytes, and nothing beside");
    both_run(2, others_are_left,
        "C41 a message with another tag or of another group is left");
    both_run(2, kept_ones_come_first,
        "C41 a message that is kept comes before a later one");
    both_run(2, waiting_ones_come_first,
        "C41 a receive that waits comes before a later one");
    both_run(2, spaces_are_apart, "a permute's message is no other's");
    both_run(2, order_is_kept_without_room,
        "messages keep their order where there is no room");
    both_run(2, threads_send_small,
        "several threads of a rank send and receive small messages");
    both_run(2, bad_calls_take_no_number,
        "C6 bad calls are named and take no number between small messages");
    both_run(2, differences_are_named, "small messages that differ are named");
    both_run(2, entries_end, "X11 the recorder has the end of small messages");
    both_run(2, failed_groups_refuse,
        "a group that has failed sends and receives no small messages");
    both_run(2, programs_are_told,
        "the program is told of small messages where it asked for that");
    both_run(2, callbacks_do_not_block,
        "a callback sends no small message that blocks");
    both_run(2, nor_do_those_that_they_run,
        "nor does one of another group that such a callback runs");
    return done_testing();
}
