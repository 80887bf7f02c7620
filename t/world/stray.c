/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Tests stray stores: a rank overwrites every word of a part of a block, its
 * own or another's, and dies. The others name it, and none of them crashes,
 * hangs or is taken for dead.
 */
#include "t/tap.h"
#include "t/world/faults.h"
#include "world/world.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define SIZE 3
#define VICTIM 1
#define COUNT 70000 /* floats: goes through the staging */
#define RANDOM 0u
#define GROUP_NBYTES 24576 /* of the group's part, before its staging */

/* The values that are stored. */
static const uint32_t patterns[] = {
    RANDOM, 1, 2, 0x01010101, 0x0000fff0, 0x7fffffff, 0x80000000, 0xffffffff};
#define PATTERNS (sizeof(patterns) / sizeof(*patterns))
/* Values that look like a liveness word, stored where no living rank reads
 * them. */
static const uint32_t lives[] = {
    SYMC_LIVENESS_DIED, SYMC_LIVENESS_SHUTDOWN, SYMC_LIVENESS_GAVE_UP};
#define LIVES (sizeof(lives) / sizeof(*lives))

enum part {
    CONSTANTS,
    WORDS,
    TABLE,
    RECORDER,
    GROUP,
    WHOLE
};

struct stray {
    enum part part;
    int target; /* the rank whose block it is */
    uint32_t pattern;
};

/* Hidden from ThreadSanitizer, because the use of memory of others is the
 * fault to be tested. */
__attribute__((no_sanitize("thread"))) static void write_over(
    const struct symc_block_view *view, enum part part, uint32_t pattern)
{
    const struct symc_block_layout layout = view->layout;
    const struct symc_offer group = view->first;
    /* The failure record, doorbell and channel; staging is data. */
    size_t first = 0, end = group.offset + GROUP_NBYTES;
    uint64_t random = 88172645463325252;

    if (part == CONSTANTS)
        end = offsetof(struct symc_block, liveness);
    else if (part == WORDS)
        first = offsetof(struct symc_block, liveness),
        end = offsetof(struct symc_block, segments);
    else if (part == TABLE)
        first = offsetof(struct symc_block, segments),
        end = sizeof(*view->block);
    else if (part == RECORDER)
        first = layout.trace_offset, end = layout.nbytes;
    else if (part == GROUP)
        first = group.offset;
    for (size_t at = first; at < end; at += sizeof(pattern)) {
        uint32_t word = pattern;

        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        if (pattern == RANDOM)
            word = (uint32_t)(random >> 16);
        memcpy((char *)view->block + at, &word, sizeof(word));
    }
}

static int go_on_until_told(struct faults_rank *self)
{
    const struct stray *stray = self->arg;
    float *x = malloc(COUNT * sizeof(*x));
    symmcoll_status_t status;

    if (x == NULL || !faults_init(self) ||
        faults_sum(self, x, COUNT) != SYMMCOLL_OK)
        return 1;
    faults_reach(self, 1);
    if (self->rank == VICTIM) {
        faults_pass(self, 1);
        write_over(&self->world->peers[stray->target].view, stray->part,
            stray->pattern);
        /* The other ranks continue to use the parts that are intact. */
        if (stray->part == CONSTANTS || stray->part == TABLE ||
            stray->part == RECORDER) {
            (void)faults_barrier(self);
            (void)faults_sum(self, x, COUNT);
        }
        kill(getpid(), SIGKILL);
    }
    /* Any error before the final one is acceptable, mostly mismatches. */
    for (int i = 0; i < 1000000; i++) {
        status = i % 2 == 0 ? faults_barrier(self) : faults_sum(self, x, COUNT);
        if (status == SYMMCOLL_ERR_PEER || status == SYMMCOLL_ERR_ABORTED)
            break;
    }
    faults_note(self, status);
    free(x);
    return faults_finalize(self);
}

static bool is_named(const struct stray *stray, const char *how)
{
    struct faults_job job;
    char name[64];
    bool good = true;

    faults_start(&job, SIZE, go_on_until_told, stray);
    faults_await_all(&job, 1);
    job.killed_at = faults_now();
    faults_open(&job, 1);
    faults_name(&job, VICTIM, name);
    for (int r = 0; r < SIZE; r++) {
        const struct faults_note *note = faults_told(&job, r, 0);

        if (r == VICTIM)
            continue;
        good = (note->status == SYMMCOLL_ERR_PEER ||
                   note->status == SYMMCOLL_ERR_ABORTED) &&
               strstr(note->detail, name) != NULL &&
               strstr(note->detail, how) != NULL &&
               note->at - job.killed_at < FAULTS_KNOWN && good;
        if (!good)
            diag("words of %#x: rank %d, after %.0f ms, %s: %s", stray->pattern,
                r, (note->at - job.killed_at) * 1e3,
                symmcoll_status_name(note->status), note->detail);
    }
    return faults_finish(&job, 1u << VICTIM) && good;
}

static void test_part(enum part part, int target, const char *name)
{
    bool good = true;

    for (size_t i = 0; i < PATTERNS; i++) {
        struct stray stray = {part, target, patterns[i]};

        good = is_named(&stray, "killed by SIGKILL") && good;
    }
    for (size_t i = 0; target == VICTIM && i < LIVES; i++) {
        struct stray stray = {part, target, lives[i]};

        good = is_named(&stray, "") && good;
    }
    faults_clear_dumps(SIZE * (PATTERNS + LIVES));
    ok(good,
        "stray stores to %s of %s: the rank that died is named, the others "
        "live",
        name, target == VICTIM ? "its own block" : "another's block");
}

int main(void)
{
    plan(12);
    faults_begin();
    setenv("SYMMCOLL_LOG_LEVEL", "off", 1);
    for (int target = VICTIM; target >= 0; target--) {
        test_part(CONSTANTS, target, "the constants");
        test_part(WORDS, target, "the words of life and waiting");
        test_part(TABLE, target, "the table of segments");
        test_part(RECORDER, target, "the flight recorder");
        test_part(GROUP, target, "the group's part");
        test_part(WHOLE, target, "all");
    }
    faults_end();
    return done_testing();
}
