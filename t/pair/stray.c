/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Tests messages with a slot that a stray store changed after they were sent:
 * the claimed place of the data is impossible.
 */
#include "../coll/data.h"
#include "pair.h"

#include "group/group.h"
#include "message/message_state.h"
#include "t/world/faults.h"

#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define SMALL 3    /* numbers: in the slot itself */
#define MIDDLE 500 /* in a block */

struct stray {
    size_t count;
    uint8_t form; /* what is stored */
    bool later;   /* another message is received before this one */
};

/* The progress of the ranks, in memory shared by processes. 1: the receiver is
 * outside any call, so it cannot take a message before it is changed; 2: it is
 * in a call. */
static _Atomic int *made;
static const struct stray *given;

/* Overwrites the form of the latest message to a rank. */
static void store_form(struct symmcoll_group *group, int rank, uint8_t form)
{
    struct symc_pairs *pairs = group->world->pairs;
    struct symc_pair_peer *peer;

    symc_pairs_enter(pairs);
    peer = &pairs->peers[rank];
    peer->ring->slots[peer->sent % SYMC_PAIR_SLOTS].form = form;
    symc_pairs_leave(pairs);
}

static void await_made(int wanted)
{
    double until = faults_now() + FAULTS_WAIT_MAX;

    while (atomic_load(made) < wanted && faults_now() < until)
        sched_yield();
}

static bool send_it(struct symmcoll_group *group)
{
    bool right;

    await_made(1);
    right = put(group, 1, 5, given->count, 0, 0);
    store_form(group, 1, given->form);
    right = put(group, 1, 6, 2, 0, 1) && right;
    atomic_store(made, 2);
    return get(group, 1, 7, 1, 1, 2) && right;
}

static bool receive_it(struct symmcoll_group *group)
{
    int out[MIDDLE];
    bool right;

    atomic_store(made, 1);
    await_made(2);
    memset(out, 0x55, sizeof(out));
    right = (!given->later || get(group, 0, 6, 2, 0, 1)) &&
            is_status(symmcoll_recv(group, out, given->count, SYMMCOLL_INT32, 0,
                          5, NULL, NULL, NULL),
                SYMMCOLL_ERR_INTERNAL, "the memory of messages from rank 0") &&
            out[0] == 0x55555555 && (given->later || get(group, 0, 6, 2, 0, 1));
    return put(group, 0, 7, 1, 1, 2) && right;
}

static int is_not_received(struct symmcoll_group *group, int rank)
{
    /* An earlier message creates the rings. */
    bool right =
        rank == 0 ? put(group, 1, 4, 1, 0, 0) : get(group, 0, 4, 1, 0, 0);

    return right && (rank == 0 ? send_it(group) : receive_it(group));
}

/* ---- a failed send ---- */

#define LARGE 100000 /* numbers: more than fit into a block */

/* Sends a message that must fail. Returns the number of the message. */
static uint64_t fail_to_send(struct symmcoll_group *part)
{
    struct symc_pairs *pairs = part->world->pairs;
    int *in = make(LARGE, 0, 0);
    struct symmcoll_work *work;
    uint64_t number = 0;

    if (say(symmcoll_send(part, in, LARGE, SYMMCOLL_INT32, 1, 0, NULL, &work) ==
                SYMMCOLL_OK,
            "send")) {
        symc_pairs_enter(pairs);
        number = pairs->peers[1].sent;
        symc_pairs_leave(pairs);
        symmcoll_group_abort(part, "enough");
        if (!ends_with(work, SYMMCOLL_ERR_CANCELED, "enough"))
            number = 0;
    }
    free(in);
    return number;
}

/* Requests the message, as a receive does that has not seen the abort. */
static void ask_for(struct symmcoll_group *all, uint64_t number)
{
    struct symc_pairs *pairs = all->world->pairs;
    struct symc_pair_peer *peer;

    symc_pairs_enter(pairs);
    peer = &pairs->peers[0];
    atomic_store(&peer->mine->message, number);
    atomic_store(&peer->mine->answers, ++peer->answered);
    symc_pairs_leave(pairs);
}

/* Checks that the receiver reports the group's reason and not a stray
 * message. */
static bool is_no_stray(struct symmcoll_group *all)
{
    struct symc_pairs *pairs = all->world->pairs;
    const struct symc_pair_ring *ring;
    bool right;

    symc_pairs_enter(pairs);
    symc_pairs_advance(pairs);
    ring = pairs->peers[1].ring;
    right = say(atomic_load(&ring->seen) == 1, "no answer is seen") &&
            say(atomic_load(&ring->vain) == 0, "it is said to be a stray");
    symc_pairs_leave(pairs);
    return right;
}

static int a_failed_send_is_none(struct symmcoll_group *all, int rank)
{
    struct symmcoll_group *part = NULL;
    bool right = symmcoll_group_create(
                     symmcoll_group_world(all), NULL, &part) == SYMMCOLL_OK;

    if (rank == 0 && right) {
        uint64_t number = fail_to_send(part);

        atomic_store(made, (int)number);
        right = number > 0 && put(all, 1, 4, 1, 0, 0) &&
                get(all, 1, 5, 1, 1, 0) && is_no_stray(all);
    } else if (right) {
        right = get(all, 0, 4, 1, 0, 0);
        ask_for(all, (uint64_t)atomic_load(made));
        right = right && put(all, 0, 5, 1, 1, 0);
    }
    return symmcoll_group_free(part) == SYMMCOLL_OK && right;
}

int main(void)
{
    static const struct {
        struct stray stray;
        const char *sentence;
    } strays[] = {
        {{SMALL, 77, false}, "a form that is none: the receive fails, the next "
                             "does not"},
        {{SMALL, 77, true}, "so does a receive whose message came before it"},
        {{MIDDLE, SYMC_PAIR_IN_SLOT, false},
            "so does one of more than a slot has room for"},
        {{SMALL, SYMC_PAIR_WITH_SENDER, false},
            "data that its sender is said to have: the receive fails when that "
            "says no"},
        {{MIDDLE, SYMC_PAIR_WITH_SENDER, true},
            "so does one of a message that has been kept"},
    };

    made = mmap(
        NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (made == MAP_FAILED)
        skip_all("no shared memory");
    plan(2 * (int)LENGTH(strays) + 2);
    for (size_t i = 0; i < LENGTH(strays); i++) {
        given = &strays[i].stray;
        atomic_store(made, 0);
        ok(ranks_run(2, is_not_received), "processes: %s", strays[i].sentence);
        atomic_store(made, 0);
        ok(threads_run(2, is_not_received), "threads: %s", strays[i].sentence);
    }
    both_run(2, a_failed_send_is_none,
        "a send that has failed is not taken for one that has never been");
    return done_testing();
}
