/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Litmus tests of two ranks for the memory order that signals and barriers
 * guarantee: message passing (data written before a put is read after the
 * wait), the opposite direction (data read before a wait is not overwritten
 * after the next put), and store buffering (two ranks write, pass a barrier,
 * and each reads what the other wrote). The words are accessed in relaxed
 * order, one cache line each, so only the tested operations order them.
 *
 *   LITMUS_ROUNDS  rounds of each test, however long they take; default: a
 *                  million, or fewer if they take more than some seconds
 */
#include "t/sanitized.h"
#include "t/symm_mem/symm.h"

#include <symmcoll/symm_ops.h>

#include <stdatomic.h>
#include <stdlib.h>
#include <time.h>

#define ROUNDS (SANITIZED ? 20000u : 1000000u)
#define BATCH 10000u /* rounds between two checks of the clock */
#define SECONDS 3    /* for each test, if other processes use the processors */
#define WORDS 4
#define LINE 16 /* words of 4 bytes */

typedef _Atomic uint32_t word;

static void write_all(word *words, uint32_t value)
{
    for (int i = 0; i < WORDS; i++)
        atomic_store_explicit(&words[i * LINE], value, memory_order_relaxed);
}

static bool all_are(word *words, uint32_t value)
{
    bool right = true;

    for (int i = WORDS - 1; i >= 0; i--)
        right = right && atomic_load_explicit(
                             &words[i * LINE], memory_order_relaxed) == value;
    return right;
}

/* Returns whether all ranks continue after this round. */
static bool goes_on(struct symmcoll_group *group, uint32_t round, time_t began)
{
    const char *text = getenv("LITMUS_ROUNDS");
    uint32_t rounds = text != NULL ? (uint32_t)strtoul(text, NULL, 10) : ROUNDS;
    int over = text == NULL && time(NULL) - began >= SECONDS, any = 1;

    if (round > rounds)
        return false;
    return round % BATCH != 0 ||
           (OK(symmcoll_all_reduce(group, &any, &over, 1, SYMMCOLL_INT32,
                SYMMCOLL_MAX, NULL, NULL)) &&
               any == 0);
}

/* Rank 0 writes to rank 1, which reads and acknowledges, in every round. */
static int messages_pass(struct symmcoll_group *group, int rank)
{
    struct symmcoll_symm *handle;
    time_t began = time(NULL);
    void *data;
    word *words;
    bool right = join(group, WORDS * LINE * sizeof(word), &data, &handle) &&
                 OK(symmcoll_symm_buffer(handle, 1, 0, 4, (void **)&words));

    for (uint32_t round = 1; right && goes_on(group, round, began); round++) {
        if (rank == 0) {
            write_all(words, round);
            right = OK(symmcoll_symm_put_signal(handle, 1, 0, -1)) &&
                    OK(symmcoll_symm_wait_signal(handle, 1, 0, -1));
        } else {
            right = OK(symmcoll_symm_wait_signal(handle, 0, 0, -1)) &&
                    HOLDS(all_are(words, round)) &&
                    OK(symmcoll_symm_put_signal(handle, 0, 0, -1));
        }
    }
    return right && part(group, data, handle);
}

/* Uses two buffers alternately. The only acknowledgement is that a signal can
 * be put only after the previous one has been taken. */
static int a_put_follows_the_wait_before(struct symmcoll_group *group, int rank)
{
    struct symmcoll_symm *handle;
    time_t began = time(NULL);
    void *data;
    word *words;
    bool right = join(group, 3 * WORDS * LINE * sizeof(word), &data, &handle) &&
                 OK(symmcoll_symm_buffer(handle, 1, 0, 4, (void **)&words));

    for (uint32_t round = 1; right && goes_on(group, round, began); round++) {
        word *part_of_round = words + round % 3 * WORDS * LINE;

        if (rank == 0) {
            /* The signal of round - 2 has been taken, so round - 3 was read. */
            write_all(part_of_round, round);
            right = OK(symmcoll_symm_put_signal(handle, 1, 0, -1));
        } else {
            right = OK(symmcoll_symm_wait_signal(handle, 0, 0, -1)) &&
                    HOLDS(all_are(part_of_round, round));
        }
    }
    return right && part(group, data, handle);
}

static int stores_are_seen_after_a_barrier(
    struct symmcoll_group *group, int rank)
{
    struct symmcoll_symm *handle;
    time_t began = time(NULL);
    void *data;
    word *mine, *theirs;
    bool right =
        join(group, 2 * LINE * sizeof(word), &data, &handle) &&
        OK(symmcoll_symm_buffer(handle, rank, 0, 4, (void **)&mine)) &&
        OK(symmcoll_symm_buffer(handle, 1 - rank, 0, 4, (void **)&theirs));

    /* The next round uses another word: no rank is more than one round
     * ahead. */
    for (uint32_t round = 1; right && goes_on(group, round, began); round++) {
        size_t at = round % 2 * LINE;

        atomic_store_explicit(&mine[at], round, memory_order_relaxed);
        right = OK(symmcoll_symm_barrier(handle, 0, -1)) &&
                HOLDS(atomic_load_explicit(&theirs[at], memory_order_relaxed) ==
                      round);
    }
    return right && part(group, data, handle);
}

/* Uses words in place of signals, for messages and acknowledgements. */
static int words_pass_messages(struct symmcoll_group *group, int rank)
{
    enum {
        FLAG = WORDS * LINE * sizeof(word),
        NBYTES = 2 * FLAG
    };
    struct symmcoll_symm *handle;
    time_t began = time(NULL);
    void *data;
    word *words;
    bool right = join(group, NBYTES, &data, &handle) &&
                 OK(symmcoll_symm_buffer(handle, 1, 0, 4, (void **)&words));

    for (uint32_t round = 1; right && goes_on(group, round, began); round++) {
        if (rank == 0) {
            write_all(words, round);
            right = OK(symmcoll_symm_write_value32(handle, 1, FLAG, round)) &&
                    OK(symmcoll_symm_wait_value32(handle, 1, FLAG, round, -1));
        } else {
            right =
                OK(symmcoll_symm_wait_value32(handle, 0, FLAG, round, -1)) &&
                HOLDS(all_are(words, round)) &&
                OK(symmcoll_symm_write_value32(handle, 0, FLAG, round));
        }
    }
    return right && part(group, data, handle);
}

int main(void)
{
    plan(8);
    groups_both(2, messages_pass,
        "message passing: what was written before a put is read after its wait "
        "(S24, S25)");
    groups_both(2, a_put_follows_the_wait_before,
        "the way back: a put follows what was done before the wait before it");
    groups_both(2, words_pass_messages,
        "message passing: what was written before a word is read after it "
        "(S30)");
    groups_both(2, stores_are_seen_after_a_barrier,
        "store buffering: both find what the other wrote before a barrier "
        "(S26)");
    return done_testing();
}
