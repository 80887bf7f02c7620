/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Tests operations that are issued and have not ended when a failure occurs:
 * the first gets the cause, those after it are aborted with the cause, and the
 * buffers are unchanged.
 */
#include "t/ranks.h"
#include "t/tap.h"
#include "t/world/faults.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define SIZE 3
#define ABSENT 1 /* the rank that does not arrive */
#define WORKS 3

enum how {
    KILLED,
    ABORTED,
    BLOCKING_WAIT
};

static symmcoll_status_t sum(
    struct faults_rank *self, float *x, struct symmcoll_work **work)
{
    return symmcoll_all_reduce(
        self->group, x, x, 1, SYMMCOLL_FLOAT32, SYMMCOLL_SUM, NULL, work);
}

/* The first work starts the thread; later ones are issued. */
static bool begin(struct faults_rank *self)
{
    struct symmcoll_work *work = NULL;
    float x = 1;
    bool good = sum(self, &x, &work) == SYMMCOLL_OK &&
                symmcoll_work_wait(work, -1) == SYMMCOLL_OK && x == SIZE;

    symmcoll_work_free(work);
    return good;
}

static int fail_beside_issued(struct faults_rank *self)
{
    const enum how *how = self->arg;
    struct symmcoll_work *works[WORKS] = {NULL};
    float x[WORKS];
    bool good;

    if (*how == BLOCKING_WAIT)
        setenv("SYMMCOLL_ERRORS_BLOCKING_WAIT", "on", 1);
    if (!faults_init(self) || !begin(self))
        return 1;
    /* All ranks must have left the earlier operation, which the failure would
     * also fail. */
    faults_reach(self, 1);
    faults_pass(self, 1);
    if (self->rank == ABSENT) {
        faults_reach(self, 2);
        faults_pass(self, 2);
        if (*how == ABORTED)
            symmcoll_group_abort(self->group, "out of disk");
        faults_pass(self, 3);
        return faults_finalize(self);
    }
    good = true;
    for (int i = 0; i < WORKS; i++) {
        x[i] = (float)i + 5;
        good = sum(self, &x[i], &works[i]) == SYMMCOLL_OK && good;
    }
    faults_reach(self, 2);
    /* The works end although no rank waits for them. If a wait ends them, it
     * starts only after all ranks have issued theirs. */
    if (*how == BLOCKING_WAIT)
        faults_pass(self, 2);
    else if (self->rank == 0)
        faults_pass(self, 3);
    for (int i = 0; i < WORKS; i++) {
        faults_note(self,
            symmcoll_work_wait(works[i], *how == BLOCKING_WAIT ? 0.05 : -1));
        symmcoll_work_free(works[i]);
        good = x[i] == (float)i + 5 && good;
    }
    faults_note(self, good ? SYMMCOLL_OK : SYMMCOLL_ERR_INTERNAL);
    faults_reach(self, 3);
    faults_pass(self, 3);
    return faults_finalize(self);
}

/* Checks the notes of one rank: its first work, and those after it. */
static bool is_told(const struct faults_job *job, int rank,
    symmcoll_status_t first, const char *text)
{
    bool good = faults_said(faults_told(job, rank, 0), first, text, NULL);

    for (int i = 1; i < WORKS; i++)
        good = faults_said(faults_told(job, rank, i), SYMMCOLL_ERR_ABORTED,
                   text, NULL) &&
               good;
    return faults_told(job, rank, WORKS)->status == SYMMCOLL_OK && good;
}

static void try(enum how how, symmcoll_status_t first, const char *text,
    const char *sentence)
{
    struct faults_job job;
    bool good;

    faults_start(&job, SIZE, fail_beside_issued, &how);
    good = faults_await_all(&job, 1);
    faults_open(&job, 1);
    good = faults_await_all(&job, 2) && good;
    if (how == KILLED)
        faults_signal(&job, ABSENT, SIGKILL);
    faults_open(&job, 2);
    good = faults_await(&job, 2, 3) && good;
    faults_open(&job, 3);
    good = faults_await(&job, 0, 3) && good;
    good = is_told(&job, 2, first, text) && good;
    good = is_told(&job, 0, first, text) && good;
    good = faults_finish(&job, how == KILLED ? 1u << ABSENT : 0) && good;
    ok(faults_clear_dumps(SIZE) && good, "%s", sentence);
}

int main(void)
{
    plan(3);
    faults_begin();
    try(KILLED, SYMMCOLL_ERR_PEER, "killed by SIGKILL",
        "a death ends what has been issued, waited for or not");
    try(ABORTED, SYMMCOLL_ERR_CANCELED, "out of disk",
        "an abort ends what has been issued, waited for or not");
    try(BLOCKING_WAIT, SYMMCOLL_ERR_TIMEOUT, "blocking_wait",
        "with errors.blocking_wait an expired wait ends what has been issued");
    faults_end();
    return done_testing();
}
