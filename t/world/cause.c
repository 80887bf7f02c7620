/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Tests that all ranks report the first failure. Ranks that get a failure
 * exit, as trainers do; a rank that learns of it later finds many dead ranks,
 * and still reports the original failure.
 */
#include "t/ranks.h"
#include "t/tap.h"
#include "t/world/faults.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define LAST 1 /* the rank that learns of it last */
#define TIMES 8

/* A kind of failure, and the order in which ranks exit after it. */
struct plan {
    enum {
        TIMEOUT,
        ABORT,
        DEATH,
        MISMATCH
    } how;
    bool reversed; /* the highest rank first */
    bool finalize; /* before the exit */
    bool issues;   /* a later operation before that */
    double pause;  /* seconds between exits */
};

static void sleep_for(double seconds)
{
    usleep((useconds_t)(seconds * 1e6));
}

/* Passes a different count on rank 0; LAST continues afterwards. */
static int differ(struct faults_rank *self, const struct plan *plan)
{
    struct symmcoll_work *work;
    float x[2] = {0};

    faults_note(self, faults_sum(self, x, self->rank == 0 ? 1 : 2));
    if (self->rank == LAST) {
        faults_note(self, faults_barrier(self));
        faults_note(self, symmcoll_group_error(self->group));
        return faults_finalize(self);
    }
    /* Issued operations do not end: the first rank stays alive and makes no
     * call. */
    if (plan->issues && self->rank == 0)
        faults_pass(self, 2);
    else if (plan->issues)
        faults_note(self, symmcoll_barrier(self->group, NULL, &work));
    sleep_for(self->rank * plan->pause);
    if (plan->finalize)
        faults_finalize(self);
    faults_exit(1);
}

/* All but LAST fail and exit, one after another. */
static int fail_and_exit(struct faults_rank *self, const struct plan *plan)
{
    struct symmcoll_call call =
        faults_timeout(plan->how == TIMEOUT ? 0.05 : 60);
    int turn = plan->reversed ? self->size - 1 - self->rank : self->rank;

    if (plan->how == ABORT && self->rank == 0)
        symmcoll_group_abort(self->group, "out of disk");
    if (plan->how == DEATH && self->rank == 0)
        raise(SIGKILL);
    faults_note(self, symmcoll_barrier(self->group, &call, NULL));
    sleep_for(turn * plan->pause);
    if (plan->finalize)
        faults_finalize(self);
    faults_exit(1);
}

static int fail(struct faults_rank *self)
{
    const struct plan *plan = self->arg;

    if (!faults_init(self) || faults_barrier(self) != SYMMCOLL_OK)
        return 1;
    faults_reach(self, 1);
    faults_pass(self, 1);
    if (plan->how == MISMATCH)
        return differ(self, plan);
    if (self->rank != LAST)
        return fail_and_exit(self, plan);
    faults_pass(self, 2);
    faults_note(self, faults_barrier(self));
    faults_note(self, faults_barrier(self));
    faults_note(self, symmcoll_group_error(self->group));
    return faults_finalize(self);
}

/* Returns the text that names the cause. */
static const char *find_words(
    const struct faults_job *job, const struct plan *plan, char *buffer)
{
    switch (plan->how) {
    case TIMEOUT:
        /* The list may have other ranks that this machine delayed. */
        return "timed out after 0.05 s: rank";
    case ABORT:
        return ": out of disk";
    default:
        faults_name(job, 0, buffer);
        return strcat(buffer, " killed by SIGKILL");
    }
}

/* Checks that each note of LAST names the cause, and no rank that exited after
 * it. */
static bool is_told(const struct faults_job *job, const struct plan *plan)
{
    /* The interrupted call has the status of the cause, except on a late rank;
     * the next one is ABORTED. */
    static const symmcoll_status_t statuses[][2] = {
        [TIMEOUT] = {SYMMCOLL_ERR_ABORTED, SYMMCOLL_ERR_TIMEOUT},
        [ABORT] = {SYMMCOLL_ERR_ABORTED, SYMMCOLL_ERR_CANCELED},
        [DEATH] = {SYMMCOLL_ERR_PEER, SYMMCOLL_ERR_PEER},
    };
    char buffer[128];
    const char *words = find_words(job, plan, buffer);
    bool good = true;

    for (int n = 0; n < 3; n++) {
        const struct faults_note *note = faults_told(job, LAST, n);
        symmcoll_status_t expected = n == 1   ? SYMMCOLL_ERR_ABORTED
                                     : n == 0 ? statuses[plan->how][0]
                                              : statuses[plan->how][1];

        /* An abort interrupts an operation in flight. */
        if (n == 0 && plan->how == ABORT &&
            note->status == SYMMCOLL_ERR_CANCELED)
            expected = SYMMCOLL_ERR_CANCELED;
        good = faults_said(note, expected, words, NULL) && good;
        if (strstr(note->detail, "exited") != NULL) {
            diag("an exit is named: %s", note->detail);
            good = false;
        }
    }
    return good;
}

/* Checks that a rank which continues after a mismatch gets the mismatch as the
 * reason of the exits. */
static bool run_mismatch(int size, bool issues)
{
    bool good = true;

    for (int i = 0; i < TIMES && good; i++) {
        struct plan plan = {.how = MISMATCH,
            .pause = 0.004 * (i / 2),
            .issues = issues,
            .finalize = i % 2 != 0 && !issues};
        struct faults_job job;

        faults_start(&job, size, fail, &plan);
        faults_await_all(&job, 1);
        faults_open(&job, 1);
        good = faults_said(faults_told(&job, LAST, 0), SYMMCOLL_ERR_MISMATCH,
                   "count differs: rank 0 passed 1", NULL) &&
               faults_said(faults_told(&job, LAST, 1), SYMMCOLL_ERR_PEER,
                   "after all_reduce: count differs: rank 0 passed 1", NULL) &&
               faults_said(faults_told(&job, LAST, 2), SYMMCOLL_ERR_PEER,
                   "after all_reduce: count differs: rank 0 passed 1", NULL);
        faults_open(&job, 2);
        good = faults_finish(&job, ~(1u << LAST)) && good;
    }
    return faults_clear_dumps(size * TIMES) && good;
}

/* Stops LAST, so that the exited ranks are known to be dead before it looks at
 * anything. */
static bool run_stopped(int size, const struct plan *plan)
{
    struct faults_job job;
    bool good;

    faults_start(&job, size, fail, plan);
    faults_await_all(&job, 1);
    faults_signal(&job, LAST, SIGSTOP);
    faults_open(&job, 1);
    for (int r = 0; r < size; r++) {
        if (r != LAST)
            faults_reap(&job, r);
    }
    faults_open(&job, 2);
    faults_signal(&job, LAST, SIGCONT);
    good = is_told(&job, plan);
    return faults_finish(&job, ~(1u << LAST)) && good;
}

/* LAST sleeps, while its monitor watches the other ranks. */
static bool run_asleep(int size, const struct plan *plan)
{
    struct faults_job job;
    bool good;

    faults_start(&job, size, fail, plan);
    faults_await_all(&job, 1);
    faults_open(&job, 1);
    for (int r = 0; r < size; r++) {
        if (r != LAST)
            faults_reap(&job, r);
    }
    faults_open(&job, 2);
    good = is_told(&job, plan);
    return faults_finish(&job, ~(1u << LAST)) && good;
}

static bool run_times(int size, struct plan plan)
{
    bool good = true;

    for (int i = 0; i < TIMES && good; i++) {
        plan.reversed = i % 2 != 0;
        plan.pause = 0.004 * (i / 2);
        plan.finalize = i % 3 == 2 && plan.how != DEATH;
        good = run_asleep(size, &plan);
    }
    plan.finalize = false;
    for (int i = 0; i < 2 && good; i++) {
        plan.reversed = i % 2 != 0;
        plan.pause = 0.002 * i;
        good = run_stopped(size, &plan);
    }
    if (!good)
        diag("%d ranks, %s, %g s between exits%s", size,
            plan.reversed ? "from the highest" : "from the lowest", plan.pause,
            plan.finalize ? ", after finalize" : "");
    return good && faults_clear_dumps(size * (TIMES + 2));
}

/* ---- across groups ---- */

/* How a rank ends after the failure of a group, and what LAST_OF_THREE, which
 * is no member of that group, does then. */
struct sequel {
    bool finalize;
    bool creates; /* a group with that rank, instead of a barrier of all */
};

static symmcoll_status_t create_pair(
    struct faults_rank *self, int first, struct symmcoll_group **group)
{
    struct symmcoll_group_args args = SYMMCOLL_GROUP_ARGS_INIT;
    int ranks[2] = {first, first + 1};

    args.ranks = ranks;
    args.nranks = 2;
    args.flags = SYMMCOLL_GROUP_LOCAL;
    return symmcoll_group_create(self->world, &args, group);
}

/* Rank 0 does not join the group of ranks 0 and 1, rank 1 ends because of
 * that, and rank 2 needs rank 1. */
static int fail_pair(struct faults_rank *self)
{
    const struct sequel *sequel = self->arg;
    struct symmcoll_group *pair = NULL;
    struct symmcoll_call call = faults_timeout(0.05);

    if (!faults_init(self) ||
        (self->rank < 2 && create_pair(self, 0, &pair) != SYMMCOLL_OK))
        return 1;
    faults_reach(self, 1);
    faults_pass(self, 1);
    if (self->rank == 1) {
        faults_note(self, symmcoll_barrier(pair, &call, NULL));
        if (sequel->finalize)
            return faults_finalize(self);
        faults_exit(3);
    }
    if (self->rank == 2) {
        faults_note(self, sequel->creates ? create_pair(self, 1, &pair)
                                          : faults_barrier(self));
        return faults_finalize(self);
    }
    (void)faults_barrier(self);
    faults_pass(self, 2);
    return faults_finalize(self);
}

static bool run_sequel(struct sequel sequel)
{
    const char *end = sequel.finalize
                          ? "has finalized after barrier seq 1 of group"
                          : "exited with status 3 without finalize after "
                            "barrier seq 1 of group";
    bool good = true;

    for (int i = 0; i < TIMES && good; i++) {
        struct faults_job job;

        faults_start(&job, 3, fail_pair, &sequel);
        faults_await_all(&job, 1);
        faults_open(&job, 1);
        good = faults_said(faults_told(&job, 2, 0), SYMMCOLL_ERR_PEER,
            "rank 1 (pid", end, "timed out after 0.05 s: rank 0", NULL);
        faults_open(&job, 2);
        good = faults_finish(&job, sequel.finalize ? 0 : 1u << 1) && good;
    }
    return faults_clear_dumps(3 * TIMES) && good;
}

int main(void)
{
    static const int sizes[] = {2, 4};

    plan(13);
    faults_begin();
    setenv("SYMMCOLL_LOG_LEVEL", "error", 1);
    for (int i = 0; i < 2; i++) {
        ok(run_times(sizes[i], (struct plan){.how = TIMEOUT}),
            "%d ranks: a late rank is told of the timeout, not of the exits "
            "that it caused",
            sizes[i]);
        ok(run_times(sizes[i], (struct plan){.how = ABORT}),
            "%d ranks: an abort is named, not the exits that it caused",
            sizes[i]);
        ok(run_times(sizes[i], (struct plan){.how = DEATH}),
            "%d ranks: a death is named, not the exits that it caused",
            sizes[i]);
        ok(run_mismatch(sizes[i], false),
            "%d ranks: a mismatch is named with the exits that it caused",
            sizes[i]);
    }
    ok(run_sequel((struct sequel){.finalize = true}),
        "who needs a rank that finalized after another group's failure is told "
        "of that");
    ok(run_sequel((struct sequel){.finalize = false}),
        "so is who needs a rank that exited after it");
    ok(run_sequel((struct sequel){.creates = true}),
        "and who makes a group of members alone with that rank");
    /* A rank that exits while it writes its record leaves an incomplete
     * file. */
    setenv("SYMMCOLL_TRACE_DUMP_ON_ERROR", "off", 1);
    ok(run_mismatch(4, true),
        "4 ranks: also where a later operation had been issued");
    setenv("SYMMCOLL_TRACE_BUFFER_SIZE", "0", 1);
    ok(run_mismatch(2, false), "also without a flight recorder");
    faults_end();
    return done_testing();
}
