/* SPDX-License-Identifier: BSD-3-Clause */
/* Helpers for tests of sends and receives, see pair.h. */
#include "pair.h"

#include "group/group.h"
#include "message/message_state.h"
#include "t/world/faults.h"

#include <sched.h>
#include <stdlib.h>
#include <string.h>

bool say(bool right, const char *what)
{
    if (!right)
        diag("%s: %s", what, symmcoll_last_error());
    return right;
}

static int number(size_t at, int rank, int round)
{
    return rank < 0 ? -1
                    : (int)(at * 31 + (size_t)rank * 7919) + round * 104729;
}

int *make(size_t count, int rank, int round)
{
    int *made = malloc(count * sizeof(int) + 1);

    if (made == NULL)
        abort();
    for (size_t i = 0; i < count; i++)
        made[i] = number(i, rank, round);
    return made;
}

bool is_made(const int *found, size_t count, int rank, int round)
{
    for (size_t i = 0; i < count; i++) {
        if (found[i] == number(i, rank, round))
            continue;
        diag("number %zu of %zu from rank %d: %d, expected %d", i, count, rank,
            found[i], number(i, rank, round));
        return false;
    }
    return true;
}

bool is_status(
    symmcoll_status_t found, symmcoll_status_t expected, const char *text)
{
    if (found == expected && strstr(symmcoll_last_error(), text) != NULL)
        return true;
    diag("expected %s with '%s', found %s: %s", symmcoll_status_name(expected),
        text, symmcoll_status_name(found), symmcoll_last_error());
    return false;
}

bool ends(struct symmcoll_work *work)
{
    bool right = say(symmcoll_work_wait(work, 100) == SYMMCOLL_OK, "a work");

    symmcoll_work_free(work);
    return right;
}

bool ends_with(
    struct symmcoll_work *work, symmcoll_status_t status, const char *text)
{
    bool right = is_status(symmcoll_work_wait(work, 100), status, text);

    symmcoll_work_free(work);
    return right;
}

bool put(struct symmcoll_group *group, int peer, int64_t tag, size_t count,
    int rank, int round)
{
    int *in = make(count, rank, round);
    bool right = say(symmcoll_send(group, in, count, SYMMCOLL_INT32, peer, tag,
                         NULL, NULL) == SYMMCOLL_OK,
        "send");

    free(in);
    return right;
}

bool get(struct symmcoll_group *group, int peer, int64_t tag, size_t count,
    int rank, int round)
{
    int *out = make(count, -1, 0);
    bool right = say(symmcoll_recv(group, out, count, SYMMCOLL_INT32, peer, tag,
                         NULL, NULL, NULL) == SYMMCOLL_OK,
                     "recv") &&
                 is_made(out, count, rank, round);

    free(out);
    return right;
}

bool await_arrival(struct symmcoll_group *group, int rank)
{
    struct symc_pairs *pairs = group->world->pairs;
    double until = faults_now() + FAULTS_WAIT_MAX;
    const struct symc_pair_peer *peer;
    const struct symc_pair_slot *slot;
    uint64_t number;

    symc_pairs_enter(pairs);
    peer = &pairs->peers[rank];
    number = peer->received + 1;
    slot = &peer->inbound->slots[number % SYMC_PAIR_SLOTS];
    symc_pairs_leave(pairs);
    while (atomic_load_explicit(&slot->number, memory_order_acquire) < number) {
        if (faults_now() > until)
            return say(false, "nothing has come");
        sched_yield();
    }
    return true;
}
