/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Tests that messages name a rank by its number in the world, followed by its
 * number in the group in brackets if that differs. The test assigns the group's
 * members other numbers, in messages only.
 */
#include "group/group.h"
#include "t/attempts.h"
#include "t/tap.h"
#include "t/world/faults.h"

#include <symmcoll/collectives.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SIZE 3
#define LATE 1

static const int numbers[SIZE] = {4, 5, 7};

static bool join(struct faults_rank *self)
{
    if (!faults_init(self))
        return false;
    pthread_mutex_lock(&self->world->lock); /* the monitor reads them */
    self->group->runner.members.ranks.global = numbers;
    pthread_mutex_unlock(&self->world->lock);
    return faults_barrier(self) == SYMMCOLL_OK;
}

/* The fate of the late rank, and the error of the others. */
struct lateness {
    const char *how;
    symmcoll_status_t status;
    bool with_pid;
    double seconds; /* that they wait */
};

/* The late rank aborts, exits or finalizes, or does nothing. */
static int meet(struct faults_rank *self)
{
    const struct lateness *lateness = self->arg;
    const char *how = lateness->how;
    struct symmcoll_call call = faults_timeout(lateness->seconds);

    if (!join(self))
        return 1;
    faults_reach(self, 1);
    faults_pass(self, 1);
    if (self->rank == LATE) {
        faults_pass(self, 2);
        if (strcmp(how, "aborted") == 0)
            symmcoll_group_abort(self->group, NULL);
        if (strcmp(how, "exited") == 0)
            faults_exit(3);
        if (strcmp(how, "did not come") == 0)
            faults_pass(self, 3);
        return faults_finalize(self);
    }
    faults_note(self, symmcoll_barrier(self->group, &call, NULL));
    return faults_finalize(self);
}

static bool names_both(double seconds, void *arg)
{
    struct lateness *lateness = arg;
    const char *how = lateness->how;
    struct faults_job job;
    char words[128], name[64], group[96];
    bool told = true;

    lateness->seconds = seconds;
    faults_start(&job, SIZE, meet, lateness);
    faults_await_all(&job, 1);
    faults_open(&job, 1);
    for (int r = 0; r < SIZE; r += 2)
        faults_await_asleep(&job, r, 1);
    faults_open(&job, 2);
    snprintf(group, sizeof(group), "%s/0", job.world_name);
    snprintf(words, sizeof(words), "rank 5 (1 in group %s%s%s", group,
        lateness->with_pid ? ", " : ") ",
        lateness->with_pid ? strchr(faults_name(&job, LATE, name), '(') + 1
                           : how);
    for (int r = 0; r < SIZE; r += 2)
        told = faults_said(faults_told(&job, r, 0), lateness->status, words,
                   how, NULL) &&
               told;
    faults_open(&job, 3);
    faults_finish(&job, strcmp(how, "exited") == 0 ? 1u << LATE : 0);
    faults_clear_dumps(SIZE);
    return told;
}

/* The timeout is short only if it must expire. */
static void try(const char *how, symmcoll_status_t status, bool with_pid)
{
    struct lateness lateness = {how, status, with_pid, 0};
    bool expires = strcmp(how, "did not come") == 0;

    ok(attempts_hold(names_both, expires ? 0.3 : 60, &lateness),
        "a rank that %s is called by both its numbers", how);
}

/* The late rank passes a different argument. */
static int differ(struct faults_rank *self)
{
    float x[4] = {0};

    if (!join(self))
        return 1;
    faults_note(self, faults_sum(self, x, self->rank == LATE ? 2 : 4));
    return faults_finalize(self);
}

/* Makes the next call on the rank that has aborted. */
static int speak_of_itself(struct faults_rank *self)
{
    if (!join(self))
        return 1;
    if (self->rank == LATE)
        symmcoll_group_abort(self->group, "enough");
    faults_note(self, faults_barrier(self));
    return faults_finalize(self);
}

int main(void)
{
    struct faults_job job;

    plan(6);
    setenv("SYMMCOLL_LOG_LEVEL", "error", 1);
    faults_begin();
    try("aborted", SYMMCOLL_ERR_CANCELED, false);
    try("exited", SYMMCOLL_ERR_PEER, true);
    try("has finalized", SYMMCOLL_ERR_PEER, true);
    try("did not come", SYMMCOLL_ERR_TIMEOUT, false);
    faults_start(&job, SIZE, differ, NULL);
    ok(faults_said(faults_told(&job, 0, 0), SYMMCOLL_ERR_MISMATCH,
           "rank 5 (1 in group ", "passed 2, the other 2 passed 4", NULL),
        "and one that passes something else");
    faults_finish(&job, 0);
    faults_start(&job, SIZE, speak_of_itself, NULL);
    ok(faults_said(faults_told(&job, LATE, 0), SYMMCOLL_ERR_ABORTED,
           "this rank aborted group", NULL),
        "a rank does not call itself by a number");
    faults_finish(&job, 0);
    faults_clear_dumps(SIZE);
    faults_end();
    return done_testing();
}
