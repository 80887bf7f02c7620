/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Tests stopped ranks: if stopped for less than the timeout nothing happens;
 * if for longer the others name them, their record is written for them, and
 * they get the error when they continue.
 */
#include "t/attempts.h"
#include "t/tap.h"
#include "t/world/faults.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define SIZE 3
#define STOPPED 1
#define COUNT ((size_t)1 << 17)

/* Returns for how many seconds a rank is stopped: STOPPED_SECONDS, else one. */
static double seconds_stopped(void)
{
    const char *text = getenv("STOPPED_SECONDS");

    return text != NULL ? strtod(text, NULL) : 1;
}

static void sleep_for(double seconds)
{
    usleep((useconds_t)(seconds * 1e6));
}

/* Runs small and large operations until gate 1. */
static int work_on(struct faults_rank *self)
{
    float *x = malloc(COUNT * sizeof(*x));
    bool good = x != NULL && faults_init(self);
    float go_on = 1;

    for (int i = 1; good && go_on > 0; i++) {
        good = faults_sum(self, x, COUNT) == SYMMCOLL_OK && x[0] == SIZE &&
               x[COUNT - 1] == SIZE;
        go_on = atomic_load(&self->board->gate) < 1;
        /* All ranks end after the same operation: once any has seen the gate
         * open. */
        good = good &&
               symmcoll_all_reduce(self->group, &go_on, &go_on, 1,
                   SYMMCOLL_FLOAT32, SYMMCOLL_MIN, NULL, NULL) == SYMMCOLL_OK;
        faults_reach(self, i);
    }
    if (!good)
        diag("rank %d: %s", self->rank, symmcoll_last_error());
    free(x);
    return good ? faults_finalize(self) : 1;
}

/* All but one wait in the second barrier; that one is stopped before it. */
static int wait_for_the_stopped(struct faults_rank *self)
{
    if (!faults_init(self) || faults_barrier(self) != SYMMCOLL_OK)
        return 1;
    faults_reach(self, 1);
    if (self->rank == STOPPED)
        faults_pass(self, 1);
    faults_note(self, faults_barrier(self));
    faults_note(self, faults_barrier(self));
    faults_pass(self, 2);
    return faults_finalize(self);
}

static void below_the_timeout(void)
{
    struct faults_job job;
    int before, after;

    faults_start(&job, SIZE, work_on, NULL);
    faults_await_all(&job, 3);
    faults_signal(&job, STOPPED, SIGSTOP);
    sleep_for(seconds_stopped() / 2);
    before = atomic_load(&job.board->lines[STOPPED].step);
    sleep_for(seconds_stopped() / 2);
    after = atomic_load(&job.board->lines[STOPPED].step);
    faults_signal(&job, STOPPED, SIGCONT);
    faults_await_all(&job, after + 3);
    faults_open(&job, 1);
    ok(before == after, "while a rank is stopped, nobody overtakes it");
    ok(faults_finish(&job, 0) && faults_clear_dumps(0),
        "afterwards all goes on, and all results are right");
}

/* The points to check for ranks with operations that time out. */
struct found {
    bool told, dumped, learns, left;
};

static void set_timeout(double seconds)
{
    char text[32];

    snprintf(text, sizeof(text), "%.0fms", seconds * 1e3);
    setenv("SYMMCOLL_TIMEOUTS_COLLECTIVE", text, 1);
}

static bool stop_for_longer(double seconds, void *arg)
{
    struct found *found = arg;
    struct faults_job job;
    char name[64], place[128];
    bool told = true;

    set_timeout(seconds);
    faults_start(&job, SIZE, wait_for_the_stopped, NULL);
    faults_await_all(&job, 1);
    faults_signal(&job, STOPPED, SIGSTOP);
    snprintf(place, sizeof(place), "barrier seq 2 of group %s/0 timed out",
        job.world_name);
    for (int r = 0; r < SIZE; r += 2)
        told = faults_said(faults_told(&job, r, 0), SYMMCOLL_ERR_TIMEOUT,
                   "rank 1 did not come", faults_name(&job, STOPPED, name),
                   place, "is after barrier seq 1", NULL) &&
               faults_said(faults_told(&job, r, 1), SYMMCOLL_ERR_ABORTED,
                   "rank 1 did not come", NULL) &&
               told;
    found->told = told;
    found->dumped =
        faults_dumped(STOPPED, "\"reason\": \"the rank did not come\"");
    faults_open(&job, 1);
    faults_signal(&job, STOPPED, SIGCONT);
    found->learns = faults_said(faults_told(&job, STOPPED, 0),
        SYMMCOLL_ERR_ABORTED, "rank 1 did not come", NULL);
    faults_open(&job, 2);
    found->left = faults_finish(&job, 0) && faults_clear_dumps(SIZE);
    return told && found->dumped && found->learns && found->left;
}

static void above_the_timeout(void)
{
    struct found found = {.told = false};

    setenv("SYMMCOLL_TRACE_DUMP_GRACE", "200ms", 1);
    setenv("SYMMCOLL_LOG_LEVEL", "error", 1);
    attempts_hold(stop_for_longer, 0.3, &found);
    unsetenv("SYMMCOLL_TIMEOUTS_COLLECTIVE");
    unsetenv("SYMMCOLL_TRACE_DUMP_GRACE");
    unsetenv("SYMMCOLL_LOG_LEVEL");
    ok(found.told,
        "a rank that is stopped for longer than the timeout is named");
    ok(found.dumped, "its record is written by another one");
    ok(found.learns, "when it goes on it learns that the others have given up");
    ok(found.left, "all finalize, and nothing is left");
}

/* The first rank is stopped: another one writes its record. */
static int wait_for_rank_0(struct faults_rank *self)
{
    if (!faults_init(self) || faults_barrier(self) != SYMMCOLL_OK)
        return 1;
    faults_reach(self, 1);
    faults_pass(self, self->rank == 0 ? 1 : 0);
    faults_note(self, faults_barrier(self));
    faults_pass(self, 2);
    return faults_finalize(self);
}

static bool stop_the_first(double seconds, void *arg)
{
    struct faults_job job;
    bool good;

    (void)arg;
    set_timeout(seconds);
    faults_start(&job, SIZE, wait_for_rank_0, NULL);
    faults_await_all(&job, 1);
    faults_signal(&job, 0, SIGSTOP);
    good = faults_said(faults_told(&job, 1, 0), SYMMCOLL_ERR_TIMEOUT,
               "rank 0 did not come", NULL) &&
           faults_dumped(0, "the rank did not come");
    faults_open(&job, 2);
    faults_signal(&job, 0, SIGCONT);
    faults_finish(&job, 0);
    faults_clear_dumps(SIZE);
    return good;
}

static void the_first_rank(void)
{
    setenv("SYMMCOLL_TRACE_DUMP_GRACE", "200ms", 1);
    ok(attempts_hold(stop_the_first, 0.3, NULL),
        "a stopped rank 0 is named, and its record is written");
}

int main(void)
{
    plan(7);
    faults_begin();
    below_the_timeout();
    above_the_timeout();
    the_first_rank();
    faults_end();
    return done_testing();
}
