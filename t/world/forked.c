/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Tests fork() in a rank: the child has copies of all handles and must not use
 * them; it gets INVALID, changes nothing and ends normally, and the rank
 * continues.
 */
#include "t/ranks.h"
#include "t/tap.h"
#include "t/world/faults.h"

#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define SIZE 2

static bool refused(const char *what, symmcoll_status_t status)
{
    bool good = status == SYMMCOLL_ERR_INVALID &&
                strstr(symmcoll_last_error(), "a fork of it") != NULL;

    if (!good)
        diag("%s in a child: %s: %s", what, symmcoll_status_name(status),
            symmcoll_last_error());
    return good;
}

/* Tries everything on the inherited handles. */
static bool try_all(struct symmcoll_world *world, struct symmcoll_work *pending)
{
    struct symmcoll_group *group = symmcoll_world_group(world);
    struct symmcoll_work *work;
    symmcoll_op_t op;
    float x[4] = {7, 7, 7, 7};
    bool good = refused("barrier", symmcoll_barrier(group, NULL, NULL));

    good = refused(
               "all_reduce", symmcoll_all_reduce(group, x, x, 4,
                                 SYMMCOLL_FLOAT32, SYMMCOLL_SUM, NULL, NULL)) &&
           good;
    good = refused("all_reduce with a work",
               symmcoll_all_reduce(group, x, x, 4, SYMMCOLL_FLOAT32,
                   SYMMCOLL_SUM, NULL, &work)) &&
           good;
    good = refused("broadcast", symmcoll_broadcast(group, x, 4,
                                    SYMMCOLL_FLOAT32, 0, NULL, NULL)) &&
           good;
    good = refused("work_wait", symmcoll_work_wait(pending, -1)) && good;
    good = symmcoll_work_test(pending) == SYMMCOLL_IN_PROGRESS && good;
    symmcoll_work_free(pending);
    good = refused("group_error", symmcoll_group_error(group)) && good;
    good = refused("trace_dump", symmcoll_trace_dump(world, NULL, 0)) && good;
    good =
        refused("op_create_premul", symmcoll_op_create_premul(world, 2, &op)) &&
        good;
    symmcoll_group_abort(group, "a child has no say");
    good = refused("finalize", symmcoll_finalize(world)) && good;
    return good && x[0] == 7 && symmcoll_group_rank(group) >= 0 &&
           symmcoll_world_size(world) == SIZE;
}

/* Rank 1 forks while one of its operations is pending: queued, or issued. */
static int fork_beside(struct faults_rank *self, bool issued)
{
    struct symmcoll_work *work = NULL;
    float x = 1;
    int status = 0;
    pid_t child;
    bool good;

    if (!faults_init(self) || faults_barrier(self) != SYMMCOLL_OK)
        return 1;
    if (issued) { /* every operation is, from the second on */
        good = symmcoll_barrier(self->group, NULL, &work) == SYMMCOLL_OK &&
               symmcoll_work_wait(work, -1) == SYMMCOLL_OK;
        symmcoll_work_free(work);
        if (!good)
            return 1;
    }
    if (self->rank == 0)
        faults_pass(self, 1);
    good = symmcoll_all_reduce(self->group, &x, &x, 1, SYMMCOLL_FLOAT32,
               SYMMCOLL_SUM, NULL, &work) == SYMMCOLL_OK;
    if (self->rank == 1) {
        fflush(NULL);
        child = fork();
        if (child == 0)
            _exit(try_all(self->world, work) ? 0 : 1);
        good = child > 0 && waitpid(child, &status, 0) == child &&
               status == 0 && good;
        faults_note(self, good ? SYMMCOLL_OK : SYMMCOLL_ERR_INTERNAL);
        if (!good)
            diag("the child ended with wait status 0x%x", status);
        atomic_store(&self->board->gate, 1);
    }
    good = symmcoll_work_wait(work, -1) == SYMMCOLL_OK && x == SIZE && good;
    symmcoll_work_free(work);
    good = faults_barrier(self) == SYMMCOLL_OK && good;
    return faults_finalize(self) != 0 || !good;
}

static int fork_beside_queued(struct faults_rank *self)
{
    return fork_beside(self, false);
}

static int fork_beside_issued(struct faults_rank *self)
{
    return fork_beside(self, true);
}

/* Leaves a child that outlives its rank, and holds nothing that the others
 * would miss. */
static int leave_a_child(struct faults_rank *self)
{
    pid_t child;

    if (!faults_init(self) || faults_barrier(self) != SYMMCOLL_OK)
        return 1;
    faults_reach(self, 1);
    if (self->rank == 1) {
        faults_pass(self, 1); /* when all have left the barrier */
        child = fork();
        if (child == 0) {
            faults_pass(self, 2);
            _exit(0);
        }
        faults_exit(child > 0 ? 5 : 6);
    }
    faults_note(self, faults_barrier(self));
    return faults_finalize(self);
}

int main(void)
{
    struct faults_job job;
    char name[64];
    bool good;

    plan(6);
    faults_begin();
    faults_start(&job, SIZE, fork_beside_queued, NULL);
    good = faults_told(&job, 1, 0)->status == SYMMCOLL_OK;
    ok(good, "a child's calls are INVALID, and it ends well");
    ok(faults_finish(&job, 0) && faults_clear_dumps(0),
        "the rank's own operations go on as if there were no child");
    faults_start(&job, SIZE, fork_beside_issued, NULL);
    good = faults_told(&job, 1, 0)->status == SYMMCOLL_OK;
    ok(good, "so it is with an operation that has been issued");
    ok(faults_finish(&job, 0) && faults_clear_dumps(0),
        "which ends in the rank as if there were no child");
    faults_start(&job, SIZE, leave_a_child, NULL);
    faults_await_all(&job, 1);
    faults_open(&job, 1);
    ok(faults_said(faults_told(&job, 0, 0), SYMMCOLL_ERR_PEER,
           faults_name(&job, 1, name), "exited with status 5", NULL),
        "a rank that dies is missed though a child of it lives");
    faults_open(&job, 2);
    faults_finish(&job, 1u << 1);
    ok(faults_clear_dumps(SIZE), "and it leaves its record");
    faults_end();
    return done_testing();
}
