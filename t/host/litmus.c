/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Tests memory order: a rank that sees an operation's number sees its whole
 * payload, and no line or slot is overwritten while a rank still reads it.
 * Every word encodes its operation and rank; ranks are early and late
 * alternately.
 */
#include "../coll/data.h"
#include "../tap.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>

#define MOST_RANKS 5
#define WORDS_MAX ((size_t)20000)

/* A generator that produces the same numbers on all ranks for the same
 * state. */
static uint64_t next_random(uint64_t *state)
{
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return *state;
}

static uint64_t stamp(uint64_t number, int rank, size_t i)
{
    return number << 32 | (uint64_t)rank << 24 | (uint64_t)i;
}

/* Delays the rank now and then, differently on each rank. */
static void dawdle(uint64_t *own)
{
    uint64_t bits = next_random(own);

    for (volatile uint64_t i = bits % 8 == 0 ? bits % 400 : 0; i > 0; i--)
        ;
    if (bits % 200 == 0)
        sched_yield();
}

static bool gathers_whole(struct symmcoll_group *group, int rank,
    uint64_t number, size_t words, uint64_t *in, uint64_t *out)
{
    int size = symmcoll_group_size(group);

    for (size_t i = 0; i < words; i++)
        in[i] = stamp(number, rank, i);
    if (symmcoll_all_gather(
            group, out, in, words, SYMMCOLL_UINT64, NULL, NULL) != SYMMCOLL_OK)
        return false;
    for (int r = 0; r < size; r++) {
        for (size_t i = 0; i < words; i++) {
            if (out[(size_t)r * words + i] == stamp(number, r, i))
                continue;
            diag("rank %d, operation %llu: word %zu of %zu of rank %d is "
                 "0x%llx",
                rank, (unsigned long long)number, i, words, r,
                (unsigned long long)out[(size_t)r * words + i]);
            return false;
        }
    }
    return true;
}

static bool casts_whole(struct symmcoll_group *group, int rank, uint64_t number,
    size_t words, uint64_t *buf)
{
    int root = (int)(number % (uint64_t)symmcoll_group_size(group));

    for (size_t i = 0; i < words; i++)
        buf[i] = rank == root ? stamp(number, root, i) : 0;
    if (symmcoll_broadcast(group, buf, words, SYMMCOLL_UINT64, root, NULL,
            NULL) != SYMMCOLL_OK)
        return false;
    for (size_t i = 0; i < words; i++) {
        if (buf[i] != stamp(number, root, i)) {
            diag("rank %d, operation %llu: word %zu of the root is 0x%llx",
                rank, (unsigned long long)number, i,
                (unsigned long long)buf[i]);
            return false;
        }
    }
    return true;
}

static bool sums_whole(struct symmcoll_group *group, int rank, uint64_t number,
    size_t words, uint64_t *in, uint64_t *out)
{
    uint64_t size = (uint64_t)symmcoll_group_size(group);

    for (size_t i = 0; i < words; i++)
        in[i] = number * 1000 + (uint64_t)rank + i;
    if (symmcoll_all_reduce(group, out, in, words, SYMMCOLL_UINT64,
            SYMMCOLL_SUM, NULL, NULL) != SYMMCOLL_OK)
        return false;
    for (size_t i = 0; i < words; i++) {
        if (out[i] != size * (number * 1000 + i) + size * (size - 1) / 2) {
            diag("rank %d, operation %llu: sum %zu is %llu", rank,
                (unsigned long long)number, i, (unsigned long long)out[i]);
            return false;
        }
    }
    return true;
}

/* Runs that many operations, of words[0] to words[n - 1] words in a mixed
 * order. */
static int mix_operations(struct symmcoll_group *group, int rank,
    uint64_t operations, const size_t *words, size_t n)
{
    uint64_t shared = 99, own = (uint64_t)rank * 31 + 7;
    uint64_t *in = malloc(WORDS_MAX * sizeof(*in));
    uint64_t *out = malloc(WORDS_MAX * MOST_RANKS * sizeof(*out));
    bool right = in != NULL && out != NULL;

    for (uint64_t i = 1; right && i <= operations; i++) {
        size_t count = words[next_random(&shared) % n];

        dawdle(&own);
        switch (next_random(&shared) % 4) {
        case 0:
            right = casts_whole(group, rank, i, count, in);
            break;
        case 1:
            right = sums_whole(group, rank, i, count, in, out);
            break;
        default:
            right = gathers_whole(group, rank, i, count, in, out);
        }
    }
    free(in);
    free(out);
    return right;
}

static uint64_t operations; /* of the running point */

/* Uses payloads in the header line: 40 bytes. */
static int lines_are_whole(struct symmcoll_group *group, int rank)
{
    static const size_t words[] = {1, 2, 4, 5};

    return mix_operations(group, rank, operations, words, LENGTH(words));
}

/* Uses payloads in the header line and outside of it, alternately. */
static int payloads_are_whole(struct symmcoll_group *group, int rank)
{
    static const size_t words[] = {1, 5, 6, 17, 200, 1024};

    return mix_operations(group, rank, operations / 4, words, LENGTH(words));
}

/* Uses slots that are reused after four rounds, and all transports mixed. */
static int slots_are_whole(struct symmcoll_group *group, int rank)
{
    static const size_t words[] = {1, 6, 300, 1025, 2048, 5000, WORDS_MAX};

    return mix_operations(group, rank, operations / 40, words, LENGTH(words));
}

int main(void)
{
    static const int sizes[] = {2, 3, MOST_RANKS};
    const char *sanitizer = getenv("T_SANITIZER");

    operations = sanitizer != NULL && sanitizer[0] == 't' ? 2000 : 20000;
    for (size_t i = 0; i < LENGTH(sizes); i++)
        both_run(sizes[i], lines_are_whole,
            "what travels in the header line is seen whole");
    for (size_t i = 0; i < LENGTH(sizes); i++)
        both_run(sizes[i], payloads_are_whole,
            "what travels beside the line is seen whole");
    setenv("SYMMCOLL_HOST_CHUNK", "4KiB", 1);
    setenv("SYMMCOLL_HOST_DIRECT", "off", 1);
    for (size_t i = 0; i < LENGTH(sizes); i++)
        both_run(sizes[i], slots_are_whole,
            "what travels through staging slots is seen whole");
    setenv("SYMMCOLL_HOST_DIRECT", "on", 1);
    ok(threads_run(MOST_RANKS, slots_are_whole),
        "what threads read from each other's buffers is seen whole");
    /* Sleeps in every wait, so that doorbells are tested, too. */
    setenv("SYMMCOLL_HOST_SPIN", "0", 1);
    setenv("SYMMCOLL_HOST_POLLS", "0", 1);
    setenv("SYMMCOLL_HOST_YIELD", "0", 1);
    operations /= 2;
    both_run(2, lines_are_whole, "so it is where every wait sleeps");
    both_run(3, slots_are_whole, "so it is where every wait sleeps");
    return done_testing();
}
