/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What errors.async_handling makes of a death, and what becomes of a monitor
 * that stands still.
 */
#include "t/tap.h"
#include "t/world/faults.h"
#include "world/world.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#define SIZE 3
#define VICTIM 1

static void leave_no_core(void)
{
    const struct rlimit none = {0, 0};

    setrlimit(RLIMIT_CORE, &none);
}

static int wait_for_the_victim(struct faults_rank *self)
{
    leave_no_core();
    if (!faults_init(self) || faults_barrier(self) != SYMMCOLL_OK)
        return 1;
    faults_reach(self, 1);
    if (self->rank == VICTIM)
        pause();
    faults_note(self, faults_barrier(self));
    faults_note(self, faults_barrier(self));
    faults_pass(self, 1);
    return faults_finalize(self);
}

static void start_and_kill(struct faults_job *job, const char *mode)
{
    setenv("SYMMCOLL_ERRORS_ASYNC_HANDLING", mode, 1);
    setenv("SYMMCOLL_LOG_LEVEL", "off", 1);
    faults_start(job, SIZE, wait_for_the_victim, NULL);
    faults_await_asleep(job, 0, 1);
    faults_await_asleep(job, 2, 1);
    faults_await(job, VICTIM, 1);
    faults_signal(job, VICTIM, SIGKILL);
}

static void end(struct faults_job *job, unsigned bad)
{
    faults_open(job, 1);
    faults_finish(job, bad);
    faults_clear_dumps(SIZE);
    unsetenv("SYMMCOLL_ERRORS_ASYNC_HANDLING");
    unsetenv("SYMMCOLL_LOG_LEVEL");
}

/* Modes 1 and 3. */
static void the_process_ends(const char *mode)
{
    struct faults_job job;
    bool ended = true, dumped = true;

    start_and_kill(&job, mode);
    for (int r = 0; r < SIZE; r += 2) {
        faults_reap(&job, r);
        ended = WIFSIGNALED(job.statuses[r]) &&
                WTERMSIG(job.statuses[r]) == SIGABRT && ended;
    }
    ended = ended && faults_now() - job.killed_at < 2 * FAULTS_KNOWN;
    for (int r = 0; r < SIZE; r++)
        dumped = faults_dumped(r, NULL) && dumped;
    ok(ended, "mode %s: a death ends the other processes by SIGABRT", mode);
    ok(dumped, "mode %s: the records are written before", mode);
    end(&job, 7);
}

static void the_error_is_returned(void)
{
    struct faults_job job;

    start_and_kill(&job, "2");
    ok(faults_said(faults_told(&job, 0, 0), SYMMCOLL_ERR_PEER,
           "killed by SIGKILL", NULL),
        "mode 2: a death is an error of the call");
    end(&job, 1u << VICTIM);
}

static void nobody_looks(void)
{
    struct faults_job job;
    const struct faults_note *note;

    setenv("SYMMCOLL_TIMEOUTS_COLLECTIVE", "500ms", 1);
    start_and_kill(&job, "0");
    note = faults_told(&job, 0, 0);
    ok(faults_said(note, SYMMCOLL_ERR_TIMEOUT, "rank 1 did not come", NULL),
        "mode 0: a death is seen as a timeout alone");
    ok(faults_said(faults_told(&job, 2, 1), SYMMCOLL_ERR_ABORTED, NULL),
        "mode 0: which fails the group on all ranks");
    end(&job, 1u << VICTIM);
    unsetenv("SYMMCOLL_TIMEOUTS_COLLECTIVE");
}

/* ---- the heartbeat ---- */

/* The monitor stands still as long as we hold the lock that it needs. */
static int hold_the_monitor(struct faults_rank *self)
{
    leave_no_core();
    if (!faults_init(self))
        return 1;
    pthread_mutex_lock(&self->world->lock);
    faults_reach(self, 1);
    faults_pass(self, 1);
    pthread_mutex_unlock(&self->world->lock);
    faults_note(self, faults_barrier(self));
    return faults_finalize(self);
}

static void a_stuck_monitor(void)
{
    struct faults_job job;

    setenv("SYMMCOLL_TIMEOUTS_HEARTBEAT", "1s", 1);
    setenv("SYMMCOLL_ERRORS_KILL_PROCESS", "on", 1);
    setenv("SYMMCOLL_LOG_LEVEL", "off", 1);
    faults_start(&job, 1, hold_the_monitor, NULL);
    faults_reap(&job, 0);
    ok(WIFSIGNALED(job.statuses[0]) && WTERMSIG(job.statuses[0]) == SIGABRT,
        "with errors.kill_process a stuck monitor ends the process");
    faults_finish(&job, 1);
    setenv("SYMMCOLL_ERRORS_KILL_PROCESS", "off", 1);
    faults_start(&job, 1, hold_the_monitor, NULL);
    faults_await(&job, 0, 1);
    usleep(1600000);
    faults_open(&job, 1);
    ok(faults_told(&job, 0, 0)->status == SYMMCOLL_OK && faults_finish(&job, 0),
        "without it the rank goes on");
    unsetenv("SYMMCOLL_TIMEOUTS_HEARTBEAT");
    unsetenv("SYMMCOLL_ERRORS_KILL_PROCESS");
    unsetenv("SYMMCOLL_LOG_LEVEL");
}

int main(void)
{
    plan(9);
    faults_begin();
    nobody_looks();
    the_process_ends("1");
    the_error_is_returned();
    the_process_ends("3");
    a_stuck_monitor();
    faults_end();
    return done_testing();
}
