/* SPDX-License-Identifier: BSD-3-Clause */
/* Derives a case from a seed. */
#include "t/chaos/chaos.h"
#include "t/world/faults.h"

#include <stdio.h>

/* splitmix64 */
uint64_t chaos_random(uint64_t seed, uint64_t n)
{
    uint64_t z = seed * UINT64_C(0x9E3779B97F4A7C15) +
                 (n + 1) * UINT64_C(0xD1B54A32D192ED03);

    z = (z ^ z >> 30) * UINT64_C(0xBF58476D1CE4E5B9);
    z = (z ^ z >> 27) * UINT64_C(0x94D049BB133111EB);
    return z ^ z >> 31;
}

static int pick(const struct chaos_case *drawn, int n, int count)
{
    return (int)(chaos_random(drawn->seed, (uint64_t)n) % (uint64_t)count);
}

void chaos_draw(uint64_t seed, struct chaos_case *drawn)
{
    /* Few ranks are drawn more often than many, and the slow fault seldom. */
    static const int sizes[] = {2, 2, 3, 3, 4, 4, 5, 6, 8, 16};
    static const enum chaos_fault faults[] = {CHAOS_KILL, CHAOS_KILL,
        CHAOS_KILL, CHAOS_STOP, CHAOS_STOP, CHAOS_FREEZE, CHAOS_EXIT,
        CHAOS_EXIT, CHAOS_ABORT, CHAOS_ABORT, CHAOS_EXEC, CHAOS_EXEC,
        CHAOS_FORK, CHAOS_FORK, CHAOS_CANCEL, CHAOS_CANCEL, CHAOS_CLOSE,
        CHAOS_CLOSE, CHAOS_LIMIT, CHAOS_LIMIT};
    static const int delays[] = {1, 100, 1000, 10000};

    *drawn = (struct chaos_case){.seed = seed};
    drawn->size = sizes[pick(drawn, 0, sizeof(sizes) / sizeof(sizes[0]))];
    drawn->launcher = pick(drawn, 1, 2) == 1;
    drawn->fault = faults[pick(drawn, 2, sizeof(faults) / sizeof(faults[0]))];
    drawn->moment = (enum chaos_moment)pick(drawn, 3, CHAOS_MOMENTS);
    drawn->victim = pick(drawn, 4, drawn->size);
    drawn->before = pick(drawn, 5, 30);
    drawn->delay_us = pick(drawn, 6, delays[pick(drawn, 7, 4)]);
    /* A limit on address space has no effect on a sanitizer's. */
    drawn->limit = pick(drawn, 8, SANITIZED ? 2 : 3);
    drawn->works = pick(drawn, 9, 4);
    drawn->groups = pick(drawn, 10, 2) == 1;
    drawn->symm = pick(drawn, 11, 3) == 0;
}

void chaos_describe(const struct chaos_case *drawn, char *text, size_t nbytes)
{
    static const char *const faults[CHAOS_FAULTS] = {"is killed",
        "is stopped and continued", "is stopped beyond the timeout", "exits",
        "aborts", "executes another program", "forks",
        "has its thread cancelled", "loses its descriptors", ""};
    static const char *const limits[] = {
        "is short of files", "cannot write files", "is short of memory"};
    static const char *const moments[CHAOS_MOMENTS] = {
        "init", "operations", "dump", "finalize"};

    snprintf(text, nbytes, "seed %llu: of %d ranks%s%s%s rank %d %s in %s",
        (unsigned long long)drawn->seed, drawn->size,
        drawn->launcher ? " with a launcher" : "",
        drawn->groups ? " in groups" : "",
        drawn->symm ? " with symmetric memory" : "", drawn->victim,
        drawn->fault == CHAOS_LIMIT ? limits[drawn->limit]
                                    : faults[drawn->fault],
        moments[drawn->moment]);
}

bool chaos_ends_rank(enum chaos_fault fault)
{
    return fault == CHAOS_KILL || fault == CHAOS_EXIT || fault == CHAOS_ABORT ||
           fault == CHAOS_EXEC || fault == CHAOS_CANCEL;
}

bool chaos_is_fatal(const struct chaos_case *drawn)
{
    return chaos_ends_rank(drawn->fault) && drawn->moment != CHAOS_FINALIZE;
}

bool chaos_has_no_end(const struct chaos_case *drawn)
{
    return chaos_is_fatal(drawn) ||
           (drawn->fault == CHAOS_FREEZE && drawn->moment != CHAOS_FINALIZE);
}
