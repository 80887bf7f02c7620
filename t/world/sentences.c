/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Tests the sentences that report a failure: they are complete, have the
 * caller's label if there is one, and name no operation twice.
 */
#include "t/attempts.h"
#include "t/ranks.h"
#include "t/tap.h"
#include "t/world/faults.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define SIZE 4
#define LATE 0
#define VICTIM 2

/* The way in which the failure occurs. */
struct plan {
    enum {
        TIMEOUT, /* VICTIM and LATE call after the others have timed out */
        WITHIN,  /* VICTIM is killed in the operation, for which LATE is late */
        BEFORE,  /* VICTIM is killed before the operation */
        LEAVING, /* VICTIM finalizes before it */
        ABORT    /* LATE aborts instead */
    } how;
    const char *label;
    double seconds; /* the timeout for TIMEOUT */
};

static symmcoll_status_t sum(
    struct faults_rank *self, const char *label, double timeout)
{
    struct symmcoll_call call = faults_timeout(timeout);
    float x = 1;

    call.label = label;
    return symmcoll_all_reduce(
        self->group, &x, &x, 1, SYMMCOLL_FLOAT32, SYMMCOLL_SUM, &call, NULL);
}

static int fail(struct faults_rank *self)
{
    const struct plan *plan = self->arg;
    bool waits =
        (self->rank == LATE && (plan->how <= WITHIN || plan->how == ABORT)) ||
        (self->rank == VICTIM && plan->how == TIMEOUT);

    if (!faults_init(self) || faults_barrier(self) != SYMMCOLL_OK)
        return 1;
    faults_reach(self, 1);
    if (waits)
        faults_pass(self, 1);
    /* When all have left the barrier, which the death would fail. */
    if (self->rank == VICTIM && plan->how == BEFORE) {
        faults_pass(self, 1);
        raise(SIGKILL);
    }
    if (self->rank == VICTIM && plan->how == LEAVING)
        return faults_finalize(self);
    if (self->rank == LATE && plan->how == ABORT)
        symmcoll_group_abort(self->group, "out of disk");
    faults_note(self,
        sum(self, plan->label, plan->how == TIMEOUT ? plan->seconds : 60));
    faults_note(self, sum(self, NULL, 60));
    faults_note(self, symmcoll_group_error(self->group));
    faults_pass(self, 2);
    return faults_finalize(self);
}

static void start(struct faults_job *job, const struct plan *plan)
{
    faults_start(job, SIZE, fail, plan);
    faults_await_all(job, 1);
    if (plan->how == WITHIN) {
        for (int r = 1; r < SIZE; r++)
            faults_await_asleep(job, r, 1);
        faults_signal(job, VICTIM, SIGKILL);
    }
    if (plan->how <= WITHIN) {
        faults_told(job, 1, 0);
        faults_told(job, 3, 0);
    }
    faults_open(job, 1);
}

static bool finish(struct faults_job *job)
{
    bool good;

    for (int r = 0; r < SIZE; r++)
        faults_told(job, r, 2);
    faults_open(job, 2);
    good = faults_finish(job, 1u << VICTIM);
    return faults_clear_dumps(SIZE) && good;
}

/* Checks that a rank's n-th note is a text, in which GROUP, VICTIM and LATE
 * are replaced by their names in this job. */
static bool is_told(const struct faults_job *job, int rank, int n,
    symmcoll_status_t status, const char *text)
{
    const struct faults_note *note = faults_told(job, rank, n);
    char expected[1024] = "";
    size_t used = 0;

    while (*text != '\0' && used < sizeof(expected) - 128) {
        char *at = expected + used;

        if (strncmp(text, "GROUP", 5) == 0) {
            used += (size_t)sprintf(at, "group %s/0", job->world_name);
            text += 5;
        } else if (strncmp(text, "VICTIM", 6) == 0) {
            used += strlen(faults_name(job, VICTIM, at));
            text += 6;
        } else if (strncmp(text, "LATE", 4) == 0) {
            used += strlen(faults_name(job, LATE, at));
            text += 4;
        } else {
            expected[used++] = *text++;
            expected[used] = '\0';
        }
    }
    if (note->status == status && strcmp(note->detail, expected) == 0)
        return true;
    diag("rank %d, note %d: expected %s: %s", rank, n,
        symmcoll_status_name(status), expected);
    diag("found %s: %s", symmcoll_status_name(note->status), note->detail);
    return false;
}

/* arg: the operation's label. */
static bool time_out(double seconds, void *arg)
{
    const char *label = arg;
    struct plan plan = {.how = TIMEOUT, .label = label, .seconds = seconds};
    struct faults_job job;
    char text[512], before[600];
    bool good;

    snprintf(text, sizeof(text),
        "all_reduce seq 2%s of GROUP timed out after %g s: ranks 0 and 2 did "
        "not come; LATE is after barrier seq 1; VICTIM is after barrier seq 1",
        label != NULL ? " 'loss'" : "", seconds);
    snprintf(
        before, sizeof(before), "GROUP has failed before: TIMEOUT: %s", text);
    start(&job, &plan);
    good = is_told(&job, 1, 0, SYMMCOLL_ERR_TIMEOUT, text);
    /* The victim may have begun the operation; if not, its error names the
     * operation. */
    good = faults_said(faults_told(&job, VICTIM, 0), SYMMCOLL_ERR_ABORTED,
               "has failed before: TIMEOUT: all_reduce seq 2", NULL) &&
           good;
    good = is_told(&job, 1, 1, SYMMCOLL_ERR_ABORTED, before) && good;
    good = is_told(&job, 1, 2, SYMMCOLL_ERR_TIMEOUT, text) && good;
    return finish(&job) && good;
}

static void a_timeout(char *label, const char *op)
{
    ok(attempts_hold(time_out, 0.2, label), "a timeout in %s", op);
}

static void a_death_within(const char *label, const char *op)
{
    struct plan plan = {.how = WITHIN, .label = label};
    struct faults_job job;
    char text[512], before[600];
    bool good;

    snprintf(text, sizeof(text), "VICTIM killed by SIGKILL in %s of GROUP", op);
    snprintf(before, sizeof(before), "GROUP has failed before: PEER: %s", text);
    start(&job, &plan);
    good = is_told(&job, 1, 0, SYMMCOLL_ERR_PEER, text);
    good = is_told(&job, 1, 1, SYMMCOLL_ERR_ABORTED, before) && good;
    good = is_told(&job, 1, 2, SYMMCOLL_ERR_PEER, text) && good;
    ok(finish(&job) && good, "a death within %s", op);
}

static void a_death_before(void)
{
    struct plan plan = {.how = BEFORE, .label = "loss"};
    struct faults_job job;
    bool good;

    start(&job, &plan);
    good = is_told(&job, 1, 0, SYMMCOLL_ERR_PEER,
        "all_reduce seq 2 'loss': VICTIM killed by SIGKILL after barrier seq 1 "
        "of GROUP");
    good = is_told(&job, 1, 1, SYMMCOLL_ERR_ABORTED,
               "all_reduce: GROUP has failed before: PEER: VICTIM killed by "
               "SIGKILL after barrier seq 1 of GROUP") &&
           good;
    ok(finish(&job) && good, "a death before an operation");
}

static void a_leaving(void)
{
    struct plan plan = {.how = LEAVING, .label = "loss"};
    struct faults_job job;
    bool good;

    start(&job, &plan);
    good = is_told(&job, 1, 0, SYMMCOLL_ERR_PEER,
        "VICTIM has finalized, and all_reduce seq 2 'loss' of GROUP needs it");
    ok(finish(&job) && good, "a rank that has finalized");
}

static void an_abort(void)
{
    struct plan plan = {.how = ABORT, .label = "loss"};
    struct faults_job job;
    bool good;

    start(&job, &plan);
    good = is_told(
        &job, 1, 2, SYMMCOLL_ERR_CANCELED, "rank 0 aborted GROUP: out of disk");
    good = is_told(&job, LATE, 2, SYMMCOLL_ERR_CANCELED,
               "this rank aborted GROUP: out of disk") &&
           good;
    good = is_told(&job, LATE, 0, SYMMCOLL_ERR_ABORTED,
               "all_reduce 'loss': GROUP has failed before: CANCELED: this "
               "rank aborted GROUP: out of disk") &&
           good;
    ok(finish(&job) && good, "an abort, of which the rank itself says so");
}

int main(void)
{
    plan(7);
    faults_begin();
    setenv("SYMMCOLL_LOG_LEVEL", "error", 1);
    setenv("SYMMCOLL_TRACE_DUMP_GRACE", "200ms", 1);
    a_timeout(NULL, "all_reduce seq 2");
    a_timeout((char[]){"loss"}, "all_reduce seq 2 'loss'");
    a_death_within(NULL, "all_reduce seq 2");
    a_death_within("loss", "all_reduce seq 2 'loss'");
    a_death_before();
    a_leaving();
    an_abort();
    faults_end();
    return done_testing();
}
