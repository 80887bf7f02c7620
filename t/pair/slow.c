/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Tests the memory order between a sender and a receiver, each of which delays
 * before and after every word that it publishes: a rank that sees a message's
 * number sees the whole message, and no answer is lost. The two source files
 * that publish are compiled into this program with such a store.
 */
#include "message/message_state.h"

#include "base/reduce.h"

#include <sched.h>
#include <stdatomic.h>

/* Delays long enough for a polling peer to see the store. */
static void dawdle(void)
{
    static _Atomic unsigned int state = 12345;
    unsigned int bits = atomic_load_explicit(&state, memory_order_relaxed);

    bits = bits * 1664525u + 1013904223u;
    atomic_store_explicit(&state, bits, memory_order_relaxed);
    for (volatile unsigned int i = bits >> 22; i > 0; i--)
        ;
    if (bits >> 26 == 0)
        sched_yield();
}

static void store_slowly(
    _Atomic uint64_t *word, uint64_t value, memory_order order)
{
    dawdle();
    if (order == memory_order_relaxed)
        atomic_store_explicit(word, value, memory_order_relaxed);
    else
        atomic_store_explicit(word, value, memory_order_release);
    dawdle();
}

#undef atomic_store_explicit
#define atomic_store_explicit store_slowly
#include "lib/message/message_recv.c" /* NOLINT(bugprone-suspicious-include) */
#include "lib/message/message_send.c" /* NOLINT(bugprone-suspicious-include) */

#include "../coll/data.h"
#include "pair.h"

/* ---- messages ---- */

#define ROUNDS 3000

/* Sends messages with different tags, counts, types and numbers, by every
 * transport; the receives are early or late. */
static int messages_are_whole(struct symmcoll_group *group, int rank)
{
    static const size_t sizes[] = {1, 5, 6, 22, 23, 700, 2048, 2049, 9000};
    bool right = true;

    for (int i = 0; right && i < ROUNDS; i++) {
        size_t count = sizes[i % (int)LENGTH(sizes)];

        right = rank == 0 ? put(group, 1, i, count, 0, i)
                          : get(group, 0, i, count, 0, i);
    }
    return right && symmcoll_barrier(group, NULL, NULL) == SYMMCOLL_OK;
}

/* ---- answers ---- */

#define LARGE 20000 /* numbers: more than fit into a block */
#define MANY 5

/* Posts receives of large messages at once, most of which are refused: each
 * answer must be seen before the next one. */
static int answers_are_seen(struct symmcoll_group *group, int rank)
{
    bool right = true;

    for (int round = 0; right && round < 20; round++) {
        struct symmcoll_work *works[MANY];
        int *buffers[MANY];

        for (int i = 0; i < MANY; i++) {
            bool fits = i == MANY - 1;
            size_t count = LARGE + (rank == 1 && !fits ? 1 : 0);
            symmcoll_status_t status;

            buffers[i] = make(count, rank == 0 ? 0 : -1, i);
            status = rank == 0
                         ? symmcoll_send(group, buffers[i], count,
                               SYMMCOLL_INT32, 1, i, NULL, &works[i])
                         : symmcoll_recv(group, buffers[i], count,
                               SYMMCOLL_INT32, 0, i, NULL, NULL, &works[i]);
            right = say(status == SYMMCOLL_OK, "started") && right;
        }
        for (int i = 0; i < MANY; i++) {
            right = (i == MANY - 1 ? ends(works[i])
                                   : ends_with(works[i], SYMMCOLL_ERR_MISMATCH,
                                         "count differs")) &&
                    right;
        }
        if (rank == 1)
            right = right && is_made(buffers[MANY - 1], LARGE, 0, MANY - 1);
        for (int i = 0; i < MANY; i++)
            free(buffers[i]);
    }
    return right && symmcoll_barrier(group, NULL, NULL) == SYMMCOLL_OK;
}

int main(void)
{
    plan(4);
    setenv("SYMMCOLL_TIMEOUTS_COLLECTIVE", "60s", 1);
    both_run(2, messages_are_whole, "who sees a message sees all of it");
    both_run(2, answers_are_seen, "every answer is seen before the next one");
    return done_testing();
}
