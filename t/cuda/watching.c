/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Tests how kernels without a waiting thread end: in graphs launched while no
 * thread calls the library, for a peer that has left, and of a group that is
 * aborted while one of its threads is blocked in the driver by a full queue.
 */
#include "t/cuda/sums.h"
#include "t/symm_mem/device.h"

#include <pthread.h>
#include <stdlib.h>

#define SIZE 3
#define VICTIM 1
#define PIECES 40 /* of a sum of COUNT elements, and more; begin.c */
#define COUNT (PIECES * 1024)

/* ---- a driver whose queue is full ---- */

/* The victim's kernels do not begin; rank 0 enqueues more of them than its
 * driver accepts before the first one ends. */
static int stand_in_the_driver(struct faults_rank *self)
{
    struct sums sums;
    pthread_t thread = 0;

    if (!sums_begin(self, &sums, COUNT))
        return 1;
    if (self->rank == VICTIM)
        fake_stall(sums.stream);
    if (self->rank == 0 &&
        (!fake_configure("queue=8") ||
            pthread_create(&thread, NULL, sums_abort, self) != 0))
        return 1;
    faults_reach(self, 1);
    (void)sums_add(self->group, &sums, COUNT, -1, NULL);
    faults_note(self, symmcoll_group_error(self->group));
    faults_reach(self, 2);
    if (self->rank == 0)
        pthread_join(thread, NULL);
    if (self->rank == VICTIM) {
        faults_pass(self, 2);
        fake_resume(sums.stream);
    }
    device_wait(sums.stream);
    faults_reach(self, 3);
    return faults_finalize(self);
}

static void test_full_queue(void)
{
    const struct timespec pause = {.tv_nsec = 300 * 1000 * 1000};
    struct faults_job job;
    bool told;

    faults_start(&job, SIZE, stand_in_the_driver, NULL);
    told = faults_await(&job, VICTIM, 2) && faults_await(&job, 2, 2);
    (void)nanosleep(&pause, NULL); /* by then it is most likely blocked in the
                                    * driver */
    told = atomic_load(&job.board->lines[0].step) < 2 && told;
    faults_open(&job, 1);
    told = faults_await(&job, 0, 2) && told;
    faults_open(&job, 2);
    told = faults_await_all(&job, 3) && told;
    told = faults_said(faults_told(&job, 0, 0), SYMMCOLL_ERR_CANCELED, "enough",
               NULL) &&
           told;
    ok(faults_finish(&job, 0) && told,
        "an abort ends kernels while a thread stands in the driver");
}

/* ---- calls that wait for the victim ---- */

#define NBYTES 1024
#define KEPT 1024 /* calls captured, each of which is kept */
#define LATE 600  /* seconds; longer than any test waits */

enum call {
    SUMS,
    WAIT,
    BARRIER,
    VALUE,
    WAIT_AFTER_MANY
};

/* How a test makes ranks wait. */
struct wait {
    enum call call;
    bool captured;
    bool finalizes; /* the victim; otherwise it releases the group */
    double timeout;
    const char *text;
};

static symmcoll_status_t make(
    const struct joined *it, const struct wait *wait, int peer)
{
    const struct sums sums = {it->stream, it->data};

    switch (wait->call) {
    case SUMS:
        return sums_add(it->group, &sums, 64, wait->timeout, NULL);
    case BARRIER:
        return symmcoll_symm_barrier(it->handle, 3, wait->timeout);
    case VALUE:
        return symmcoll_symm_wait_value32(
            it->handle, peer, 0, 77, wait->timeout);
    default:
        return symmcoll_symm_wait_signal(it->handle, peer, 3, wait->timeout);
    }
}

/* Captures a graph of n calls, the last of which waits. */
static CUgraphExec capture(
    const struct joined *it, const struct wait *wait, int n)
{
    CUgraph graph = NULL;
    CUgraphExec exec = NULL;
    bool right = cuStreamBeginCapture(it->stream,
                     CU_STREAM_CAPTURE_MODE_RELAXED) == CUDA_SUCCESS;

    for (int i = 0; i < n; i++)
        right = OK(make(it, wait, VICTIM)) && right;
    right = cuStreamEndCapture(it->stream, &graph) == CUDA_SUCCESS && right;
    if (!right || cuGraphInstantiate(&exec, graph, 0) != CUDA_SUCCESS)
        diag("there is no graph");
    if (graph != NULL)
        cuGraphDestroy(graph);
    return exec;
}

/* Joins memory in a new group. */
static bool join_all(
    struct faults_rank *self, struct joined *it, struct symmcoll_group **group)
{
    return faults_init(self) &&
           OK(symmcoll_group_create(self->world, NULL, group)) &&
           begin_joined(it, *group, self->rank, NBYTES);
}

static bool leave(
    struct joined *it, struct symmcoll_group *group, CUgraphExec exec)
{
    device_wait(it->stream);
    if (exec != NULL)
        cuGraphExecDestroy(exec);
    symmcoll_symm_release(it->handle);
    return OK(symmcoll_symm_free(it->world, it->data)) &&
           OK(symmcoll_group_free(group));
}

/* ---- a timeout in a graph ---- */

/* The group has no other work when the graph is launched, and the victim does
 * not launch it. */
static int wait_in_a_graph(struct faults_rank *self)
{
    const struct wait *wait = self->arg;
    struct symmcoll_group *group;
    struct joined it;
    CUgraphExec exec;
    bool right;

    if (!join_all(self, &it, &group))
        return 1;
    if (wait->call == WAIT_AFTER_MANY) {
        exec = capture(&it, wait, KEPT);
        cuGraphExecDestroy(exec);
    }
    exec = capture(&it, wait, 1);
    faults_reach(self, 1);
    faults_pass(self, 1);
    if (self->rank != VICTIM && cuGraphLaunch(exec, it.stream) != CUDA_SUCCESS)
        return 1;
    faults_note(self, faults_await_failure(group));
    faults_note(self, symmcoll_symm_barrier(it.handle, 1, -1));
    faults_reach(self, 2);
    right = leave(&it, group, exec);
    return faults_finalize(self) != 0 || !right;
}

/* Checks the first call after that. The victim, which was late, gets the error
 * of a failed group; the others get that error or the cause itself, depending
 * on whether the call or the attendant was first. */
static bool told_after(const struct faults_job *job, const struct wait *wait)
{
    bool told = true;
    int found = 0;

    for (int r = 0; r < SIZE; r++) {
        const struct faults_note *note = faults_told(job, r, 1);
        bool late = r == VICTIM, own;
        bool before = late || note->status == SYMMCOLL_ERR_ABORTED;
        char self[64];

        snprintf(self, sizeof(self), "rank %d timed out", r);
        own = strstr(note->detail, self) != NULL;
        found += own;
        told = faults_said(note,
                   before ? SYMMCOLL_ERR_ABORTED : SYMMCOLL_ERR_TIMEOUT,
                   "symm_barrier: ", wait->text,
                   before ? "has failed before: " : NULL, NULL) &&
               HOLDS(!late || !own) && told;
    }
    return HOLDS(found > 0) && told;
}

static void test_deadline(const struct wait *wait, const char *what)
{
    /* The attendant is asleep by then. */
    const struct timespec pause = {.tv_sec = 1, .tv_nsec = 500 * 1000 * 1000};
    struct faults_job job;
    bool told;

    faults_start(&job, SIZE, wait_in_a_graph, wait);
    told = faults_await_all(&job, 1);
    (void)nanosleep(&pause, NULL);
    faults_open(&job, 1);
    told = faults_await_all(&job, 2) && told;
    for (int r = 0; r < SIZE; r++)
        told = faults_said(faults_told(&job, r, 0), SYMMCOLL_ERR_TIMEOUT,
                   "captured in a graph", "timed out waiting for rank 1",
                   wait->text, NULL) &&
               faults_dumped(r, NULL) && told;
    told = told_after(&job, wait) && told;
    ok(faults_finish(&job, 0) && told, "%s", what);
}

/* ---- a peer that has left ---- */

static int wait_for_who_leaves(struct faults_rank *self)
{
    const struct wait *wait = self->arg;
    struct symmcoll_group *group;
    struct joined it;
    CUgraphExec exec = NULL;
    bool right = join_all(self, &it, &group);

    if (!right)
        return 1;
    if (wait->captured)
        exec = capture(&it, wait, 1);
    if (self->rank != VICTIM)
        right = wait->captured ? cuGraphLaunch(exec, it.stream) == CUDA_SUCCESS
                               : OK(make(&it, wait, VICTIM));
    faults_reach(self, 1);
    faults_pass(self, 1);
    if (self->rank != VICTIM)
        faults_note(self, faults_await_failure(group));
    if (self->rank != VICTIM || !wait->finalizes)
        right = leave(&it, group, exec) && right;
    faults_reach(self, 2);
    if (!wait->finalizes)
        faults_pass(self, 2);
    right = faults_finalize(self) == 0 && right;
    if (self->rank == VICTIM && wait->finalizes) {
        symmcoll_symm_release(it.handle);
        if (exec != NULL)
            cuGraphExecDestroy(exec);
    }
    return !right;
}

static void test_leaving(const struct wait *wait, const char *what)
{
    struct faults_job job;
    bool told;

    faults_start(&job, SIZE, wait_for_who_leaves, wait);
    told = faults_await_all(&job, 1);
    faults_open(&job, 1);
    told = faults_await(&job, 0, 2) && faults_await(&job, 2, 2) && told;
    faults_open(&job, 2);
    for (int r = 0; r < SIZE; r += 2)
        told = faults_said(faults_told(&job, r, 0), SYMMCOLL_ERR_PEER, "rank 1",
                   wait->finalizes ? "has finalized" : "released the group",
                   wait->text, NULL) &&
               told;
    ok(faults_finish(&job, 0) && told, "%s", what);
}

/* The victim's signals arrive before the streams reach the waits, those of the
 * others after it. */
static int go_on_without(struct faults_rank *self)
{
    const struct timespec pause = {.tv_nsec = 500 * 1000 * 1000};
    struct symmcoll_group *group;
    struct joined it;
    bool right = join_all(self, &it, &group);
    int other = 2 - self->rank;

    if (!right)
        return 1;
    if (self->rank == VICTIM) {
        right = OK(symmcoll_symm_put_signal(it.handle, 0, 3, LATE)) &&
                OK(symmcoll_symm_put_signal(it.handle, 2, 3, LATE));
        right = leave(&it, group, NULL) && right;
        faults_reach(self, 1);
        return faults_finalize(self) != 0 || !right;
    }
    fake_stall(it.stream);
    right = OK(symmcoll_symm_wait_signal(it.handle, VICTIM, 3, LATE));
    if (self->rank == 0)
        right =
            OK(symmcoll_symm_wait_signal(it.handle, other, 1, LATE)) && right;
    faults_reach(self, 1);
    faults_pass(self, 1); /* the victim has left */
    if (self->rank == 0)
        fake_resume(it.stream);
    (void)nanosleep(&pause, NULL);
    if (self->rank == 2) {
        fake_resume(it.stream);
        right =
            OK(symmcoll_symm_put_signal(it.handle, other, 1, LATE)) && right;
    }
    device_wait(it.stream);
    right = OK(symmcoll_group_error(group)) && right;
    faults_reach(self, 2);
    faults_pass(self, 2);
    right = leave(&it, group, NULL) && right;
    return faults_finalize(self) != 0 || !right;
}

static void test_signals_that_are_there(void)
{
    struct faults_job job;
    bool told;

    faults_start(&job, SIZE, go_on_without, NULL);
    told = faults_await_all(&job, 1);
    faults_open(&job, 1);
    told = faults_await(&job, 0, 2) && faults_await(&job, 2, 2) && told;
    faults_open(&job, 2);
    ok(faults_finish(&job, 0) && told,
        "signals of a peer that has left are found, and those of others waited "
        "for");
}

int main(void)
{
    static const struct wait deadlines[] = {
        {SUMS, true, false, 0.5, "all_reduce seq 1 'the sum' of group"},
        {WAIT, true, false, 0.5, "symm_wait_signal of group"},
        {WAIT_AFTER_MANY, true, false, 0.5, "in a graph, after 1024 calls"}};
    static const struct wait leaving[] = {
        {WAIT, false, false, LATE, "symm_wait_signal of group"},
        {VALUE, false, true, LATE, "symm_wait_value32 of group"},
        {BARRIER, false, false, LATE, "symm_barrier of group"},
        {SUMS, true, false, LATE, "all_reduce seq 1 'the sum' of group"},
        {WAIT, true, true, LATE, "symm_wait_signal of group"}};

    device_begin();
    faults_begin();
    test_full_queue();
    test_deadline(&deadlines[0], "a collective in a graph that waits in vain");
    test_deadline(&deadlines[1], "a wait for a signal in a graph");
    test_deadline(&deadlines[2], "one after more than are kept by name");
    test_leaving(&leaving[0], "a wait for a signal of a peer that has left");
    test_leaving(&leaving[1], "a wait for its word");
    test_leaving(&leaving[2], "a barrier with it");
    test_leaving(&leaving[3], "a collective in a graph");
    test_leaving(&leaving[4], "a wait for its signal in a graph");
    test_signals_that_are_there();
    faults_end();
    return done_testing();
}
