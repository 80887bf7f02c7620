/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The exchange of descriptors that a backend may ask for: it ends with the
 * group, long before timeouts.init.
 */
#include "group/group.h"
#include "t/tap.h"
#include "t/world/faults.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define SIZE 3
#define VICTIM 1

enum how {
    DIES,
    FINALIZES,
    ABORTS,
    COMES
};

static symmcoll_status_t exchange(struct faults_rank *self, int *fds)
{
    const struct symc_core *core = &self->group->core;

    return core->exchange(core->group, STDERR_FILENO, fds);
}

/* All but the victim exchange; what that does is up to the test. */
static int exchange_all(struct faults_rank *self)
{
    enum how how = *(const enum how *)self->arg;
    int fds[SIZE] = {-1, -1, -1};

    if (!faults_init(self) || faults_barrier(self) != SYMMCOLL_OK)
        return 1;
    faults_reach(self, 1);
    if (self->rank == VICTIM && how != COMES) {
        faults_pass(self, 1);
        if (how == ABORTS)
            symmcoll_group_abort(self->group, "out of disk");
        if (how != FINALIZES)
            faults_pass(self, 2);
        return faults_finalize(self);
    }
    faults_note(self, exchange(self, fds));
    for (int r = 0; r < SIZE; r++) {
        if (fds[r] >= 0 && (fcntl(fds[r], F_GETFD) < 0 || close(fds[r]) != 0))
            return 1;
    }
    if (how == COMES)
        faults_note(self, exchange(self, fds));
    return faults_finalize(self);
}

static bool told(const struct faults_job *job, double began, enum how how)
{
    static const symmcoll_status_t statuses[] = {[DIES] = SYMMCOLL_ERR_PEER,
        [FINALIZES] = SYMMCOLL_ERR_PEER,
        [ABORTS] = SYMMCOLL_ERR_CANCELED};
    static const char *const words[] = {[DIES] = "killed by SIGKILL",
        [FINALIZES] = "has finalized, and an exchange",
        [ABORTS] = "rank 1 aborted group"};
    bool good = true;

    for (int r = 0; r < SIZE; r++) {
        const struct faults_note *note;

        if (r == VICTIM)
            continue;
        note = faults_told(job, r, 0);
        good = faults_said(note, statuses[how], words[how], NULL) &&
               note->at - began < FAULTS_KNOWN && good;
    }
    return good;
}

static void try(enum how how, const char *what)
{
    struct faults_job job;
    double began;

    faults_start(&job, SIZE, exchange_all, &how);
    faults_await_asleep(&job, 0, 1);
    faults_await_asleep(&job, 2, 1);
    began = faults_now();
    if (how == DIES)
        faults_signal(&job, VICTIM, SIGKILL);
    faults_open(&job, 1);
    ok(told(&job, began, how), "an exchange ends when a member %s", what);
    faults_open(&job, 2);
    ok(faults_finish(&job, how == DIES ? 1u << VICTIM : 0) &&
            faults_clear_dumps(SIZE),
        "and nothing is left");
}

static void succeed(void)
{
    enum how how = COMES;
    struct faults_job job;
    bool good = true;

    faults_start(&job, SIZE, exchange_all, &how);
    for (int r = 0; r < SIZE; r++)
        for (int i = 0; i < 2; i++)
            good =
                faults_said(faults_told(&job, r, i), SYMMCOLL_OK, NULL) && good;
    ok(faults_finish(&job, 0) && good, "where all come it succeeds, twice");
}

int main(void)
{
    plan(7);
    faults_begin();
    try(DIES, "dies");
    try(FINALIZES, "has finalized");
    try(ABORTS, "fails the group");
    succeed();
    faults_end();
    return done_testing();
}
