/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Tests finalize with operations that do not end: it returns after
 * timeouts.finalize with an error that names where every rank is. Also tests a
 * program that ends without finalize.
 */
#include "t/tap.h"
#include "t/world/faults.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define SIZE 3
#define LATE 1 /* the late rank */
#define COUNT ((size_t)1 << 16)

/* The way in which the late rank is late. */
enum how {
    STOPS, /* it is stopped by a signal */
    HANGS, /* it computes */
    COMES  /* it is in time */
};

static void compute_until(const struct faults_rank *self, int gate)
{
    while (atomic_load(&self->board->gate) < gate)
        continue;
}

/* Starts a small and a large operation; the first rank finalizes at once, the
 * third when the late one has continued. */
static int leave_with_works(struct faults_rank *self)
{
    enum how how = *(const enum how *)self->arg;
    float one = 1, *x = calloc(COUNT, sizeof(*x));
    struct symmcoll_work *works[2] = {NULL, NULL};
    symmcoll_status_t status;
    double began;

    if (x == NULL || !faults_init(self) || faults_barrier(self) != SYMMCOLL_OK)
        return 1;
    faults_reach(self, 1);
    if (self->rank == LATE && how == HANGS)
        compute_until(self, 1);
    else if (self->rank == LATE && how == STOPS)
        faults_pass(self, 1);
    status = symmcoll_all_reduce(self->group, &one, &one, 1, SYMMCOLL_FLOAT32,
        SYMMCOLL_SUM, NULL, &works[0]);
    if (status == SYMMCOLL_OK)
        status = symmcoll_all_reduce(self->group, x, x, COUNT, SYMMCOLL_FLOAT32,
            SYMMCOLL_SUM, NULL, &works[1]);
    if (self->rank != 0 && how != COMES)
        faults_pass(self, 1);
    began = faults_now();
    faults_note(self, symmcoll_finalize(self->world));
    if (faults_now() - began > FAULTS_KNOWN + 0.3)
        return 2;
    for (int i = 0; i < 2; i++) {
        if (status == SYMMCOLL_OK)
            faults_note(self, symmcoll_work_wait(works[i], 0));
        symmcoll_work_free(works[i]);
    }
    free(x);
    return 0;
}

/* The first rank starts two operations that the late rank has not joined, and
 * exits. */
static int leave_without(struct faults_rank *self)
{
    float one = 1, *x = calloc(COUNT, sizeof(*x));
    struct symmcoll_work *works[2] = {NULL, NULL};
    bool right =
        x != NULL && faults_init(self) && faults_barrier(self) == SYMMCOLL_OK;

    if (self->rank == LATE)
        faults_pass(self, 1);
    else
        right =
            right &&
            symmcoll_all_reduce(self->group, &one, &one, 1, SYMMCOLL_FLOAT32,
                SYMMCOLL_SUM, NULL, &works[0]) == SYMMCOLL_OK &&
            symmcoll_all_reduce(self->group, x, x, COUNT, SYMMCOLL_FLOAT32,
                SYMMCOLL_SUM, NULL, &works[1]) == SYMMCOLL_OK;
    if (right && self->rank == 0)
        faults_exit(0);
    if (right && self->rank != LATE)
        faults_note(self, symmcoll_work_wait(works[0], -1));
    symmcoll_work_free(works[0]);
    symmcoll_work_free(works[1]);
    right = faults_finalize(self) == 0 && right;
    free(x);
    return right ? 0 : 1;
}

/* Checks the note of the first rank. */
static bool gave_up(const struct faults_job *job)
{
    char group[128], late[96], name[64];

    snprintf(group, sizeof(group), "operations of group %s/0 had not ended",
        job->world_name);
    snprintf(late, sizeof(late), "; %s is after barrier seq 1",
        faults_name(job, LATE, name));
    /* The operation in flight is canceled, the other never begins. */
    return faults_said(faults_told(job, 0, 0), SYMMCOLL_ERR_TIMEOUT,
               "finalize: after 0.3 s", group, "and were canceled",
               "this rank is in all_reduce seq 2", late, NULL) &&
           faults_said(faults_told(job, 0, 1), SYMMCOLL_ERR_CANCELED,
               "queued operations did not end", NULL) &&
           faults_said(faults_told(job, 0, 2), SYMMCOLL_ERR_ABORTED,
               "queued operations did not end", NULL);
}

static void try_late(enum how how, const char *what)
{
    struct faults_job job;

    faults_start(&job, SIZE, leave_with_works, &how);
    faults_await_all(&job, 1);
    if (how == STOPS)
        faults_signal(&job, LATE, SIGSTOP);
    ok(gave_up(&job), "a peer that %s: finalize says that it had to give up",
        what);
    faults_open(&job, 1);
    if (how == STOPS)
        faults_signal(&job, LATE, SIGCONT);
    ok(faults_finish(&job, 0) && faults_clear_dumps(SIZE),
        "and nothing is left when it goes on");
}

static void in_time(void)
{
    enum how how = COMES;
    struct faults_job job;
    bool good = true;

    faults_start(&job, SIZE, leave_with_works, &how);
    for (int r = 0; r < SIZE; r++)
        for (int i = 0; i < 3; i++)
            good =
                faults_said(faults_told(&job, r, i), SYMMCOLL_OK, NULL) && good;
    ok(faults_finish(&job, 0) && good,
        "where all come, finalize lets the works end and says nothing");
}

static void without(void)
{
    struct faults_job job;
    char name[64];
    bool told;

    faults_start(&job, SIZE, leave_without, NULL);
    told = faults_said(faults_told(&job, 2, 0), SYMMCOLL_ERR_PEER,
        faults_name(&job, 0, name), NULL);
    faults_open(&job, 1);
    ok(faults_finish(&job, 0) && faults_clear_dumps(SIZE) && told,
        "a rank that exits with works under way ends in order, and counts as "
        "dead (G40)");
}

int main(void)
{
    plan(6);
    setenv("SYMMCOLL_TIMEOUTS_FINALIZE", "300ms", 1);
    setenv("SYMMCOLL_TRACE_DUMP_ON_ERROR", "off", 1);
    faults_begin();
    try_late(STOPS, "is stopped");
    try_late(HANGS, "hangs");
    /* Long enough for a busy machine. */
    setenv("SYMMCOLL_TIMEOUTS_FINALIZE", "60s", 1);
    in_time();
    without();
    faults_end();
    return done_testing();
}
