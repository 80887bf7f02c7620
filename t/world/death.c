/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Tests ranks that die, in every way and place: the others get the rank and
 * its end in time, the dead rank's record is written, and no resource remains.
 */
#include "t/tap.h"
#include "t/world/faults.h"

#include "world/world.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#define SIZE 4
#define LATE 0
#define VICTIM 2
#define GIB ((size_t)1 << 30)
#define GOAL (SANITIZED ? 0.5 : 0.1) /* seconds until a death is detected */

/* ---- bodies of ranks ---- */

/* Records the failing call, the one after it, and the group's error. */
static void tell_all(struct faults_rank *self)
{
    faults_note(self, faults_barrier(self));
    faults_note(self, faults_barrier(self));
    faults_note(self, symmcoll_group_error(self->group));
}

static int wait_for_the_late(struct faults_rank *self)
{
    if (!faults_init(self) || faults_barrier(self) != SYMMCOLL_OK)
        return 1;
    faults_reach(self, 1);
    if (self->rank == LATE)
        faults_pass(self, 1);
    tell_all(self);
    return faults_finalize(self);
}

/* Waits for less time than the monitor sleeps. */
static int wait_briefly(struct faults_rank *self)
{
    struct symmcoll_call call = faults_timeout(0.02);

    if (!faults_init(self) || faults_barrier(self) != SYMMCOLL_OK)
        return 1;
    faults_reach(self, 1);
    faults_pass(self, self->rank == VICTIM ? 2 : 1);
    faults_note(self, symmcoll_barrier(self->group, &call, NULL));
    return faults_finalize(self);
}

static int wait_for_the_busy(struct faults_rank *self)
{
    volatile unsigned long counter = 0;

    if (!faults_init(self) || faults_barrier(self) != SYMMCOLL_OK)
        return 1;
    faults_reach(self, 1);
    while (self->rank == VICTIM)
        counter++;
    tell_all(self);
    return faults_finalize(self);
}

static int wait_for_the_large(struct faults_rank *self)
{
    char *memory = NULL;

    if (self->rank == VICTIM) {
        memory = malloc(GIB);
        if (memory == NULL)
            return 1;
        memset(memory, 1, GIB);
    }
    if (!faults_init(self) || faults_barrier(self) != SYMMCOLL_OK)
        return 1;
    faults_reach(self, 1);
    if (self->rank == VICTIM) {
        pause();
        return memory[GIB / 2]; /* keeps it in use to the end */
    }
    tell_all(self);
    return faults_finalize(self);
}

/* arg: the signal with which the victim ends itself. */
static int wait_for_the_signalled(struct faults_rank *self)
{
    const int *sig = self->arg;

    if (!faults_init(self) || faults_barrier(self) != SYMMCOLL_OK)
        return 1;
    faults_reach(self, 1);
    if (self->rank == VICTIM) {
        faults_pass(self, 1);
        if (*sig == SIGABRT)
            abort();
        kill(getpid(), *sig);
        pause();
    }
    tell_all(self);
    return faults_finalize(self);
}

/* arg: the exit status of the victim. */
static int wait_for_the_leaver(struct faults_rank *self)
{
    const int *status = self->arg;

    if (!faults_init(self) || faults_barrier(self) != SYMMCOLL_OK)
        return 1;
    faults_reach(self, 1);
    if (self->rank == VICTIM) {
        faults_pass(self, 1);
        faults_exit(*status);
    }
    tell_all(self);
    return faults_finalize(self);
}

/* Runs large operations endlessly; a rank may be killed in any of them. */
static int work_without_end(struct faults_rank *self)
{
    enum {
        COUNT = 1 << 18
    };
    float *x = malloc(COUNT * sizeof(*x));
    symmcoll_status_t status = SYMMCOLL_OK;
    bool right = true;

    if (x == NULL || !faults_init(self))
        return 1;
    for (int i = 1; status == SYMMCOLL_OK && right; i++) {
        status = faults_sum(self, x, COUNT);
        if (status == SYMMCOLL_OK)
            right = x[0] == SIZE && x[COUNT - 1] == SIZE;
        faults_reach(self, i);
    }
    faults_note(self, status);
    free(x);
    tell_all(self);
    return faults_finalize(self) != 0 || !right;
}

/* ---- errors of the other ranks ---- */

/* Checks that the n-th note of all others names each dead rank, and how it
 * ended. */
static bool all_said(const struct faults_job *job, unsigned dead, int n,
    symmcoll_status_t status, const char *how)
{
    bool good = true;

    for (int r = 0; r < job->size; r++) {
        if ((dead >> r & 1) != 0)
            continue;
        for (int d = 0; d < job->size; d++) {
            char name[64];

            if ((dead >> d & 1) != 0)
                good = faults_said(faults_told(job, r, n), status,
                           faults_name(job, d, name), how, NULL) &&
                       good;
        }
    }
    return good;
}

/* Returns the time from the kill until the slowest waiting rank had the
 * error. */
static double slowest(const struct faults_job *job, unsigned dead)
{
    double worst = 0;

    for (int r = 0; r < job->size; r++) {
        double took = faults_told(job, r, 0)->at - job->killed_at;

        if ((dead >> r & 1) == 0 && r != LATE && took > worst)
            worst = took;
    }
    return worst;
}

/* Checks five points of a job with the given dead ranks. */
static void judge(struct faults_job *job, unsigned dead, const char *who,
    const char *how, const char *record)
{
    bool dumped = true;

    ok(all_said(job, dead, 0, SYMMCOLL_ERR_PEER, how),
        "%s: every other rank is told rank, pid and end", who);
    diag("%s: known after %.0f ms", who, slowest(job, dead) * 1e3);
    ok(slowest(job, dead) < FAULTS_KNOWN, "%s: soon", who);
    ok(all_said(job, dead, 1, SYMMCOLL_ERR_ABORTED, how) &&
            all_said(job, dead, 2, SYMMCOLL_ERR_PEER, how),
        "%s: later calls are ABORTED with the first reason", who);
    for (int r = 0; r < job->size; r++) {
        if ((dead >> r & 1) != 0)
            dumped = faults_dumped(r, record) && dumped;
    }
    ok(dumped, "%s: the record of the dead is written", who);
    ok(faults_finish(job, dead) && faults_clear_dumps(SIZE),
        "%s: nothing is left, and the others finalize", who);
}

/* ---- the points ---- */

/* Waits until all ranks are in the operation, except the late one, which polls
 * its gate. */
static void await_waiting(const struct faults_job *job)
{
    for (int r = 0; r < SIZE; r++) {
        if (r == LATE)
            faults_await(job, r, 1);
        else
            faults_await_asleep(job, r, 1);
    }
}

static void a_waiting_rank(void)
{
    struct faults_job job;

    faults_start(&job, SIZE, wait_for_the_late, NULL);
    await_waiting(&job);
    faults_signal(&job, VICTIM, SIGKILL);
    faults_told(&job, 1, 0);
    faults_told(&job, 3, 0);
    faults_open(&job, 1);
    judge(&job, 1u << VICTIM, "killed while waiting", "killed by SIGKILL",
        "\"state\": \"started\"");
}

/* Measures the time until a death is detected, several times, because a busy
 * machine may spoil most measurements. */
static void in_time(void)
{
    double best = FAULTS_KNOWN;

    for (int i = 0; i < 5 && best >= GOAL * 10; i++) {
        struct faults_job job;
        double took;

        faults_start(&job, SIZE, wait_for_the_late, NULL);
        await_waiting(&job);
        faults_signal(&job, VICTIM, SIGKILL);
        faults_told(&job, 1, 0);
        faults_told(&job, 3, 0);
        faults_open(&job, 1);
        took = slowest(&job, 1u << VICTIM);
        best = took < best ? took : best;
        faults_finish(&job, 1u << VICTIM);
        faults_clear_dumps(SIZE);
    }
    diag("known after %.0f ms", best * 1e3);
    ok(best < GOAL * 10, "a death is known in time");
}

static void a_computing_rank(void)
{
    struct faults_job job;

    faults_start(&job, SIZE, wait_for_the_busy, NULL);
    faults_await_asleep(&job, 3, 1);
    faults_await_all(&job, 1);
    faults_signal(&job, VICTIM, SIGKILL);
    judge(&job, 1u << VICTIM, "killed while computing",
        "killed by SIGKILL after barrier seq 1", "\"state\": \"completed\"");
}

/* Returns the available memory in bytes. */
static size_t memory_available(void)
{
    FILE *file = fopen("/proc/meminfo", "r");
    char line[128];
    size_t kib = 0;

    while (file != NULL && fgets(line, sizeof(line), file) != NULL) {
        if (sscanf(line, "MemAvailable: %zu", &kib) == 1)
            break;
    }
    if (file != NULL)
        fclose(file);
    return kib * 1024;
}

static void a_large_rank(void)
{
    struct faults_job job;

    if (memory_available() < 3 * GIB) {
        skip(5, "less than 3 GiB of memory available");
        return;
    }
    faults_start(&job, SIZE, wait_for_the_large, NULL);
    faults_await_all(&job, 1);
    faults_signal(&job, VICTIM, SIGKILL);
    judge(&job, 1u << VICTIM, "killed with 1 GiB", "killed by SIGKILL", NULL);
}

static void a_leaving_rank(int status, const char *who, const char *how)
{
    struct faults_job job;

    faults_start(&job, SIZE, wait_for_the_leaver, &status);
    faults_await_all(&job, 1);
    job.killed_at = faults_now();
    faults_open(&job, 1);
    judge(&job, 1u << VICTIM, who, how, "\"state\": \"completed\"");
}

/* A rank that ends with status 0 and has no operation in flight has left:
 * ranks that need it get an error, and no record is written. */
static void a_rank_that_ends(void)
{
    static const char who[] = "exit(0) without finalize";
    static const char how[] =
        "has ended without symmcoll_finalize, and barrier "
        "seq 2 of group";
    struct faults_job job;
    int status = 0;

    faults_start(&job, SIZE, wait_for_the_leaver, &status);
    faults_await_all(&job, 1);
    job.killed_at = faults_now();
    faults_open(&job, 1);
    ok(all_said(&job, 1u << VICTIM, 0, SYMMCOLL_ERR_PEER, how),
        "%s: every other rank is told rank, pid and end", who);
    diag("%s: known after %.0f ms", who, slowest(&job, 1u << VICTIM) * 1e3);
    ok(slowest(&job, 1u << VICTIM) < FAULTS_KNOWN, "%s: soon", who);
    ok(all_said(&job, 1u << VICTIM, 1, SYMMCOLL_ERR_ABORTED, how),
        "%s: later calls are ABORTED with the first reason", who);
    ok(faults_finish(&job, 1u << VICTIM), "%s: the others finalize", who);
    ok(faults_clear_dumps(SIZE - 1), "%s: its record is not written", who);
}

/* Ends a rank that the others no longer need. */
static int end_one_by_one(struct faults_rank *self)
{
    bool right = faults_init(self) && faults_barrier(self) == SYMMCOLL_OK;

    if (self->rank == VICTIM)
        faults_exit(right ? 0 : 1);
    faults_reach(self, 1);
    faults_pass(self, 1);
    while (right && symc_liveness_state(
                        &symmcoll_group_world(self->group)->peers[VICTIM]) !=
                        SYMC_LIVENESS_LEFT)
        usleep(1000);
    faults_note(self, symmcoll_group_error(self->group));
    return faults_finalize(self) + !right;
}

static void a_rank_that_is_done(void)
{
    struct faults_job job;
    bool right = true;

    faults_start(&job, SIZE, end_one_by_one, NULL);
    faults_open(&job, 1);
    for (int r = 0; r < SIZE; r++)
        right = (r == VICTIM ||
                    faults_said(faults_told(&job, r, 0), SYMMCOLL_OK, NULL)) &&
                right;
    right = faults_finish(&job, 1u << VICTIM) && right;
    ok(faults_clear_dumps(0) && right,
        "exit(0) without finalize, when all is done: no group fails, and "
        "nothing is written");
}

static void a_signalled_rank(int sig, const char *who, const char *how)
{
    static const struct rlimit none;
    struct rlimit before;
    struct faults_job job;

    getrlimit(RLIMIT_CORE, &before);
    setrlimit(RLIMIT_CORE, &none);
    faults_start(&job, SIZE, wait_for_the_signalled, &sig);
    setrlimit(RLIMIT_CORE, &before);
    faults_await_all(&job, 1);
    job.killed_at = faults_now();
    faults_open(&job, 1);
    judge(&job, 1u << VICTIM, who, how, "\"state\": \"completed\"");
}

static void two_at_once(void)
{
    struct faults_job job;
    siginfo_t ended;

    faults_start(&job, SIZE, wait_for_the_late, NULL);
    await_waiting(&job);
    /* Stops all ranks, so that neither the other ranks nor the victims see one
     * death before the other. */
    for (int r = 0; r < SIZE; r++)
        kill(job.pids[r], SIGSTOP);
    for (int r = 0; r < SIZE; r++)
        waitid(P_PID, (id_t)job.pids[r], &ended, WSTOPPED | WNOWAIT);
    kill(job.pids[1], SIGKILL);
    faults_signal(&job, VICTIM, SIGKILL);
    waitid(P_PID, (id_t)job.pids[1], &ended, WEXITED | WNOWAIT);
    waitid(P_PID, (id_t)job.pids[VICTIM], &ended, WEXITED | WNOWAIT);
    kill(job.pids[0], SIGCONT);
    kill(job.pids[3], SIGCONT);
    faults_told(&job, 3, 0);
    faults_open(&job, 1);
    judge(&job, 1u << 1 | 1u << VICTIM, "two killed at once",
        "killed by SIGKILL", "\"state\": \"started\"");
}

/* The timeout expires before a monitor has run. */
static void before_the_timeout(void)
{
    struct faults_job job;
    siginfo_t ended;
    bool told = true;

    setenv("SYMMCOLL_HOST_WATCH", "10s", 1);
    faults_start(&job, SIZE, wait_briefly, NULL);
    faults_await_all(&job, 1);
    faults_signal(&job, VICTIM, SIGKILL);
    waitid(P_PID, (id_t)job.pids[VICTIM], &ended, WEXITED | WNOWAIT);
    faults_open(&job, 1);
    for (int r = 0; r < SIZE; r++) {
        char name[64];

        if (r != VICTIM)
            told = faults_said(faults_told(&job, r, 0), SYMMCOLL_ERR_PEER,
                       faults_name(&job, VICTIM, name), "killed by SIGKILL",
                       NULL) &&
                   told;
    }
    ok(told, "a rank that had died is named so by a timeout that comes first");
    faults_finish(&job, 1u << VICTIM);
    faults_clear_dumps(SIZE);
    unsetenv("SYMMCOLL_HOST_WATCH");
}

/* Kills the first rank, which served the others in init and would write the
 * records. */
static void the_first_rank(void)
{
    struct faults_job job;
    bool told = true;

    faults_start(&job, SIZE, wait_for_the_late, NULL);
    await_waiting(&job);
    faults_signal(&job, LATE, SIGKILL);
    for (int r = 1; r < SIZE; r++) {
        char name[64];
        const struct faults_note *note = faults_told(&job, r, 0);

        told =
            faults_said(note, SYMMCOLL_ERR_PEER, faults_name(&job, LATE, name),
                "after barrier seq 1", NULL) &&
            note->at - job.killed_at < FAULTS_KNOWN && told;
    }
    ok(told, "rank 0 killed: every other rank is told, in time");
    ok(faults_dumped(LATE, NULL), "rank 0 killed: its record is written");
    ok(faults_finish(&job, 1u << LATE) && faults_clear_dumps(SIZE),
        "rank 0 killed: nothing is left");
}

static void a_working_rank(void)
{
    struct faults_job job;
    bool told = true;

    faults_start(&job, SIZE, work_without_end, NULL);
    faults_await_all(&job, 20);
    faults_signal(&job, VICTIM, SIGKILL);
    for (int r = 0; r < SIZE; r++) {
        const struct faults_note *note = faults_told(&job, r, 0);
        char name[64];

        if (r == VICTIM)
            continue;
        told =
            faults_said(note, SYMMCOLL_ERR_PEER,
                faults_name(&job, VICTIM, name), "killed by SIGKILL", NULL) &&
            note->at - job.killed_at < FAULTS_KNOWN && told;
        told = faults_said(faults_told(&job, r, 1), SYMMCOLL_ERR_ABORTED,
                   "killed by SIGKILL", NULL) &&
               told;
    }
    ok(told, "killed in a stream of large operations: the others are told");
    ok(faults_dumped(VICTIM, "all_reduce"),
        "killed in a stream of large operations: its record is written");
    ok(faults_finish(&job, 1u << VICTIM) && faults_clear_dumps(SIZE),
        "killed in a stream of large operations: results are right to the end, "
        "nothing is left");
}

int main(void)
{
    plan(49);
    faults_begin();
    a_waiting_rank();
    in_time();
    a_computing_rank();
    a_large_rank();
    a_leaving_rank(
        1, "exit(1) without finalize", "exited with status 1 without finalize");
    a_rank_that_ends();
    a_rank_that_is_done();
    a_signalled_rank(SIGABRT, "abort()", "killed by SIGABRT");
    a_signalled_rank(SIGTERM, "SIGTERM", "killed by SIGTERM");
    two_at_once();
    before_the_timeout();
    the_first_rank();
    a_working_rank();
    faults_end();
    return done_testing();
}
