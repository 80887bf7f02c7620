/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Tests the modes of errors.async_handling after a death, and a monitor that
 * is stuck.
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
#define OURS "SYMMCOLL_ERRORS_ASYNC_HANDLING"
#define ALIAS "TORCH_NCCL_ASYNC_ERROR_HANDLING"

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

static void start_and_kill(
    struct faults_job *job, const char *variable, const char *mode)
{
    setenv(variable, mode, 1);
    setenv("SYMMCOLL_LOG_LEVEL", "off", 1);
    faults_start(job, SIZE, wait_for_the_victim, NULL);
    faults_await_asleep(job, 0, 1);
    faults_await_asleep(job, 2, 1);
    faults_await(job, VICTIM, 1);
    faults_signal(job, VICTIM, SIGKILL);
}

static void end(struct faults_job *job, const char *variable, unsigned bad)
{
    faults_open(job, 1);
    faults_finish(job, bad);
    faults_clear_dumps(SIZE);
    unsetenv(variable);
    unsetenv("SYMMCOLL_LOG_LEVEL");
}

/* The callback of a failing work is slow; in mode 3 the process ends before
 * the callback returns. */
static void take_time(symmcoll_status_t status, void *arg)
{
    struct faults_rank *self = arg;

    if (*(const int *)self->arg == 3)
        faults_pass(self, 1);
    usleep(1000000);
    if (status < 0)
        faults_reach(self, 2);
}

static int wait_with_a_callback(struct faults_rank *self)
{
    struct symmcoll_work *work;

    leave_no_core();
    if (!faults_init(self) || faults_barrier(self) != SYMMCOLL_OK ||
        (self->rank != VICTIM &&
            (symmcoll_barrier(self->group, NULL, &work) != SYMMCOLL_OK ||
                symmcoll_work_then(work, take_time, self) != SYMMCOLL_OK)))
        return 1;
    faults_reach(self, 1);
    for (;;)
        pause();
}

/* Checks the remaining works of a failed group: mode 1 lets them and their
 * callbacks end; mode 3 does not. */
static void works_at_the_end(const char *mode, int step)
{
    const int number = atoi(mode);
    struct faults_job job;
    bool good = true;

    setenv(OURS, mode, 1);
    setenv("SYMMCOLL_LOG_LEVEL", "off", 1);
    setenv("SYMMCOLL_TRACE_DUMP_ON_ERROR", "off", 1);
    faults_start(&job, SIZE, wait_with_a_callback, &number);
    faults_await_all(&job, 1);
    faults_signal(&job, VICTIM, SIGKILL);
    for (int r = 0; r < SIZE; r += 2) {
        faults_reap(&job, r);
        good = WIFSIGNALED(job.statuses[r]) &&
               WTERMSIG(job.statuses[r]) == SIGABRT &&
               atomic_load(&job.board->lines[r].step) == step && good;
    }
    ok(good, "mode %s: %s", mode,
        step == 2 ? "the process ends when its works and their callbacks have"
                  : "the process ends at once, in the middle of a callback");
    unsetenv("SYMMCOLL_TRACE_DUMP_ON_ERROR");
    end(&job, OURS, 7);
}

/* Checks modes 1 and 3: the process ends. */
static void the_process_ends(const char *mode)
{
    struct faults_job job;
    bool ended = true, dumped = true;

    start_and_kill(&job, OURS, mode);
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
    end(&job, OURS, 7);
}

/* Checks modes 0 and 2, set by either variable: the calls name the dead rank, in
 * time. */
static void the_error_is_returned(const char *variable, const char *mode)
{
    struct faults_job job;
    bool told = true, later = true, soon = true;
    char name[64];

    start_and_kill(&job, variable, mode);
    faults_name(&job, VICTIM, name);
    for (int r = 0; r < SIZE; r += 2) {
        const struct faults_note *first = faults_told(&job, r, 0);

        told = faults_said(
                   first, SYMMCOLL_ERR_PEER, name, "killed by SIGKILL", NULL) &&
               told;
        soon = first->at - job.killed_at < FAULTS_KNOWN && soon;
        later = faults_said(faults_told(&job, r, 1), SYMMCOLL_ERR_ABORTED, name,
                    NULL) &&
                later;
    }
    ok(told && soon,
        "%s %s: a death is an error of the call, which names the rank in time",
        variable, mode);
    ok(later, "%s %s: later calls are ABORTED with that reason", variable,
        mode);
    end(&job, variable, 1u << VICTIM);
}

/* ---- the heartbeat ---- */

/* The monitor blocks while this thread holds the lock that it needs after it
 * has seen that a group failed. */
static int hold_the_monitor(struct faults_rank *self)
{
    leave_no_core();
    if (!faults_init(self))
        return 1;
    pthread_mutex_lock(&self->world->lock);
    atomic_fetch_add(&self->world->own.block->failures, 1);
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
    plan(14);
    faults_begin();
    the_error_is_returned(OURS, "0");
    the_error_is_returned(ALIAS, "0");
    the_error_is_returned(OURS, "2");
    the_process_ends("1");
    the_process_ends("3");
    works_at_the_end("1", 2);
    works_at_the_end("3", 1);
    a_stuck_monitor();
    faults_end();
    return done_testing();
}
