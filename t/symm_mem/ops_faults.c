/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Tests ranks that die before or in operations on symmetric memory, that are
 * late, or that pass different arguments.
 */
#include "base/moving.h"
#include "group/group.h"
#include "run/call.h"
#include "t/symm_mem/ops.h"
#include "t/world/faults.h"

#include <signal.h>
#include <unistd.h>

#define NBYTES ((size_t)1 << 20)

/* One rank dies instead of joining the operation; all others get an error. */
static int waits_for_the_dead(struct faults_rank *self)
{
    float out[16];
    struct symmcoll_symm *handle = NULL;
    void *data = NULL;
    symmcoll_status_t status;

    if (!faults_init(self) || !join(self->group, NBYTES, &data, &handle))
        return 1;
    faults_reach(self, 1);
    if (self->rank == 1)
        faults_pass(self, 99); /* for ever */
    status = symmcoll_symm_one_shot_all_reduce(
        handle, 0, out, 16, SYMMCOLL_FLOAT32, SYMMCOLL_SUM, NULL);
    faults_note(self, status);
    status = symmcoll_symm_two_shot_all_reduce(
        handle, 0, NULL, 16, SYMMCOLL_FLOAT32, SYMMCOLL_SUM, NULL);
    faults_note(self, status);
    faults_reach(self, 2);
    symmcoll_symm_release(handle);
    (void)symmcoll_symm_free(self->world, data);
    return faults_finalize(self);
}

static bool tells_of_deaths(void)
{
    struct faults_job job;
    bool good;

    faults_start(&job, 3, waits_for_the_dead, NULL);
    good = faults_await_all(&job, 1) && faults_await_asleep(&job, 0, 1) &&
           faults_await_asleep(&job, 2, 1);
    faults_signal(&job, 1, SIGKILL);
    for (int r = 0; r < 3 && good; r += 2) {
        good =
            faults_await(&job, r, 2) &&
            faults_said(faults_told(&job, r, 0), SYMMCOLL_ERR_PEER, "rank 1",
                "symm_one_shot_all_reduce", "SIGKILL", NULL) &&
            faults_said(faults_told(&job, r, 1), SYMMCOLL_ERR_ABORTED, "rank 1",
                NULL) &&
            HOLDS(faults_told(&job, r, 0)->at - job.killed_at < FAULTS_KNOWN);
    }
    return faults_finish(&job, 1u << 1) && good;
}

/* Kills one rank while all reduce endlessly. */
static int reduces_for_ever(struct faults_rank *self)
{
    struct symmcoll_symm *handle = NULL;
    void *data = NULL;
    symmcoll_status_t status = SYMMCOLL_OK;

    if (!faults_init(self) || !join(self->group, NBYTES, &data, &handle))
        return 1;
    faults_reach(self, 1);
    while (status == SYMMCOLL_OK)
        status = symmcoll_symm_two_shot_all_reduce(
            handle, 0, NULL, NBYTES / 4, SYMMCOLL_FLOAT32, SYMMCOLL_MAX, NULL);
    faults_note(self, status);
    faults_reach(self, 2);
    symmcoll_symm_release(handle);
    (void)symmcoll_symm_free(self->world, data);
    return faults_finalize(self);
}

static bool ends_in_the_middle(void)
{
    struct faults_job job;
    bool good;

    faults_start(&job, 3, reduces_for_ever, NULL);
    good = faults_await_all(&job, 1);
    (void)usleep(20000);
    faults_signal(&job, 2, SIGKILL);
    for (int r = 0; r < 2 && good; r++)
        good =
            faults_await(&job, r, 2) &&
            faults_said(
                faults_told(&job, r, 0), SYMMCOLL_ERR_PEER, "rank 2", NULL) &&
            HOLDS(faults_told(&job, r, 0)->at - job.killed_at < FAULTS_KNOWN);
    return faults_finish(&job, 1u << 2) && good;
}

/* ---- a rank that stops during a move ---- */

static symmcoll_status_t agrees(struct symc_mover *mover,
    const struct symc_moving *moving, const void *const *payloads)
{
    (void)mover;
    (void)moving;
    (void)payloads;
    return SYMMCOLL_OK;
}

static void stops(struct symc_mover *mover, const struct symc_moving *moving)
{
    (void)mover;
    if (moving->rank == 1)
        (void)raise(SIGSTOP);
}

/* Stops inside an operation, and continues when the other rank has timed out
 * and reuses its buffer. */
static int stops_inside(struct faults_rank *self)
{
    struct symc_mover mover = {.check = agrees, .move = stops};
    struct symc_op op = {.kind = SYMC_SYMM_ALL_GATHER,
        .dtype = SYMMCOLL_UINT8,
        .count = 1,
        .elem = 1,
        .out = &mover,
        .timeout_ns = SYMC_NS_PER_S / 5};

    if (!faults_init(self))
        return 1;
    faults_reach(self, 1);
    faults_pass(self, 1);
    faults_note(self, symc_run_call(&self->group->runner, &op));
    faults_reach(self, 2);
    faults_pass(self, 2);
    return faults_finalize(self);
}

static bool finds_that_it_was_late(void)
{
    struct faults_job job;
    bool good;

    faults_start(&job, 2, stops_inside, NULL);
    good = faults_await_all(&job, 1);
    faults_open(&job, 1);
    good = good && faults_await(&job, 0, 2) &&
           faults_said(
               faults_told(&job, 0, 0), SYMMCOLL_ERR_TIMEOUT, "rank 1", NULL);
    faults_signal(&job, 1, SIGCONT);
    good = good && faults_await(&job, 1, 2) &&
           faults_said(
               faults_told(&job, 1, 0), SYMMCOLL_ERR_ABORTED, "rank 1", NULL);
    faults_open(&job, 2);
    return faults_finish(&job, 0) && good;
}

/* ---- differing ranks ---- */

static int passes_something_else(struct symmcoll_group *group, int rank)
{
    struct symmcoll_symm *handle = NULL, *other = NULL;
    float out[64], in[64] = {0};
    void *data = NULL, *more = NULL;
    bool odd = rank == 2;
    bool good = join(group, NBYTES, &data, &handle) &&
                join(group, NBYTES, &more, &other);

#define SUM(handle, offset, count, dtype, op) \
    symmcoll_symm_one_shot_all_reduce(        \
        handle, offset, out, count, dtype, op, NULL)
#define F32 SYMMCOLL_FLOAT32
    good =
        good &&
        REFUSED(SUM(handle, odd ? 64 : 0, 16, F32, SYMMCOLL_SUM),
            SYMMCOLL_ERR_MISMATCH,
            "symm_one_shot_all_reduce: offset differs: ranks 0 and 1 passed 0, rank 2 "
            "passed 64 (group ") &&
        REFUSED(SUM(handle, 0, odd ? 15 : 16, F32, SYMMCOLL_SUM),
            SYMMCOLL_ERR_MISMATCH, "count differs") &&
        REFUSED(SUM(handle, 0, 16, odd ? SYMMCOLL_INT32 : F32, SYMMCOLL_SUM),
            SYMMCOLL_ERR_MISMATCH, "dtype differs") &&
        REFUSED(SUM(handle, 0, 16, F32, odd ? SYMMCOLL_MAX : SYMMCOLL_SUM),
            SYMMCOLL_ERR_MISMATCH, "op differs") &&
        REFUSED(SUM(odd ? other : handle, 0, 16, F32, SYMMCOLL_SUM),
            SYMMCOLL_ERR_MISMATCH,
            "handle differs: ranks 0 and 1 passed number") &&
        REFUSED(odd ? symmcoll_symm_two_shot_all_reduce(
                          handle, 0, NULL, 16, F32, SYMMCOLL_SUM, NULL)
                    : SUM(handle, 0, 16, F32, SYMMCOLL_SUM),
            SYMMCOLL_ERR_MISMATCH, "operation differs") &&
        REFUSED(odd ? symmcoll_symm_low_contention_all_gather(
                          handle, 0, out, 16, F32, NULL)
                    : symmcoll_symm_all_gather(handle, 0, out, 16, F32, NULL),
            SYMMCOLL_ERR_MISMATCH, "operation differs") &&
        REFUSED(odd ? symmcoll_symm_one_shot_all_reduce_copy(
                          handle, 0, out, in, 16, F32, SYMMCOLL_SUM, NULL)
                    : SUM(handle, 0, 16, F32, SYMMCOLL_SUM),
            SYMMCOLL_ERR_MISMATCH, "symm_one_shot_all_reduce_copy") &&
        OK(SUM(handle, 0, 16, F32, SYMMCOLL_SUM));
    good = part(group, more, other) && good;
    return part(group, data, handle) && good;
}

static int checks_arguments(struct symmcoll_group *group, int rank)
{
    struct symmcoll_call call = SYMMCOLL_CALL_INIT;
    uint64_t before, after;
    struct symmcoll_symm *handle = NULL;
    float out[64];
    void *data = NULL;
    bool good = join(group, 4096, &data, &handle);

    (void)rank;
    call.flags = 7;
    before = symmcoll_group_sequence(group);
    good = good &&
           REFUSED(SUM(NULL, 0, 16, F32, SYMMCOLL_SUM), SYMMCOLL_ERR_INVALID,
               "found NULL") &&
           REFUSED(SUM(handle, 4092, 2, F32, SYMMCOLL_SUM),
               SYMMCOLL_ERR_INVALID, "2 elements of 4 bytes from byte 4092") &&
           REFUSED(SUM(handle, 0, SIZE_MAX / 2, F32, SYMMCOLL_SUM),
               SYMMCOLL_ERR_INVALID, "within the buffer's 4096 bytes") &&
           REFUSED(SUM(handle, 0, 16, SYMMCOLL_DTYPE_COUNT, SYMMCOLL_SUM),
               SYMMCOLL_ERR_INVALID, "element type") &&
           REFUSED(
               SUM(handle, 0, 16, F32, 77), SYMMCOLL_ERR_INVALID, "found 77") &&
           REFUSED(SUM(handle, 0, 16, F32, SYMMCOLL_BXOR),
               SYMMCOLL_ERR_UNSUPPORTED, "bxor is not defined for float32") &&
           REFUSED(symmcoll_symm_one_shot_all_reduce(
                       handle, 0, NULL, 16, F32, SYMMCOLL_SUM, NULL),
               SYMMCOLL_ERR_INVALID, "expected out, found NULL") &&
           REFUSED(symmcoll_symm_one_shot_all_reduce(handle, 0,
                       (char *)data + 32, 16, F32, SYMMCOLL_SUM, NULL),
               SYMMCOLL_ERR_INVALID, "overlap") &&
           REFUSED(symmcoll_symm_one_shot_all_reduce(handle, 64,
                       (char *)data + 4, 16, F32, SYMMCOLL_SUM, NULL),
               SYMMCOLL_ERR_INVALID, "overlap") &&
           REFUSED(symmcoll_symm_low_contention_all_gather(
                       handle, 128, (char *)data + 4, 16, F32, NULL),
               SYMMCOLL_ERR_INVALID, "overlap") &&
           REFUSED(symmcoll_symm_all_gather(
                       handle, 128, (char *)data + 68, 16, F32, NULL),
               SYMMCOLL_ERR_INVALID, "overlap") &&
           REFUSED(symmcoll_symm_one_shot_all_reduce(
                       handle, 0, out, 16, F32, SYMMCOLL_SUM, &call),
               SYMMCOLL_ERR_INVALID, "flags of 0") &&
           REFUSED(symmcoll_symm_one_shot_reduce(
                       handle, 0, out, 16, F32, SYMMCOLL_SUM, 2, NULL),
               SYMMCOLL_ERR_INVALID, "root of 0 to 1, found 2") &&
           REFUSED(symmcoll_symm_reduce_scatter(
                       handle, 0, out, 3, 4, 0, F32, SYMMCOLL_SUM, NULL),
               SYMMCOLL_ERR_INVALID, "multiple of 2 rows, found 3") &&
           REFUSED(symmcoll_symm_reduce_scatter(
                       handle, 0, out, 4, 3, 1, F32, SYMMCOLL_SUM, NULL),
               SYMMCOLL_ERR_INVALID, "multiple of 2 columns, found 3") &&
           REFUSED(symmcoll_symm_all_gather(
                       handle, 0, (char *)data + 8, 16, F32, NULL),
               SYMMCOLL_ERR_INVALID, "overlap");
    after = symmcoll_group_sequence(group);
    /* Results adjacent to the input are permitted. */
    good = HOLDS(before == after) &&
           OK(symmcoll_symm_one_shot_all_reduce(
               handle, 64, data, 16, F32, SYMMCOLL_SUM, NULL)) &&
           OK(symmcoll_symm_one_shot_all_reduce(
               handle, 0, (char *)data + 64, 16, F32, SYMMCOLL_SUM, NULL)) &&
           OK(symmcoll_symm_low_contention_all_gather(
               handle, 128, data, 16, F32, NULL)) &&
           OK(symmcoll_symm_all_gather(
               handle, 128, (char *)data + 64, 16, F32, NULL)) &&
           good;
    return part(group, data, handle) && good;
}

static int is_awaited(struct faults_rank *self)
{
    struct symmcoll_call call = SYMMCOLL_CALL_INIT;
    struct symmcoll_symm *handle = NULL;
    float out[16];
    void *data = NULL;

    call.timeout = 0.05;
    call.label = "loss";
    if (!faults_init(self) || !join(self->group, NBYTES, &data, &handle))
        return 1;
    /* When both have left the rendezvous, which the timeout would fail. */
    faults_reach(self, 1);
    faults_pass(self, self->rank == 0 ? 2 : 1);
    faults_note(self, symmcoll_symm_one_shot_all_reduce(
                          handle, 0, out, 16, F32, SYMMCOLL_SUM, &call));
    faults_reach(self, 2);
    faults_pass(self, 2);
    symmcoll_symm_release(handle);
    (void)symmcoll_symm_free(self->world, data);
    return faults_finalize(self);
}

static bool names_the_late(void)
{
    struct faults_job job;
    bool good;

    faults_start(&job, 2, is_awaited, NULL);
    good = faults_await_all(&job, 1);
    faults_open(&job, 1);
    good = good && faults_await(&job, 1, 2) &&
           faults_said(faults_told(&job, 1, 0), SYMMCOLL_ERR_TIMEOUT, "rank 0",
               "symm_one_shot_all_reduce seq 1 'loss'", NULL);
    faults_open(&job, 2);
    good = good && faults_await(&job, 0, 2) &&
           faults_said(faults_told(&job, 0, 0), SYMMCOLL_ERR_ABORTED, NULL);
    return faults_finish(&job, 0) && good;
}

static void run_all(int (*run)(int n, rank_fn body), const char *kind)
{
    ok(run(3, passes_something_else),
        "%s: what ranks pass differently is named on all (S58)", kind);
    ok(run(2, checks_arguments),
        "%s: an argument error has changed no counter (C6)", kind);
}

int main(void)
{
    plan(8);
    run_all(ranks_run, "processes");
    run_all(threads_run, "threads");
    faults_begin();
    ok(tells_of_deaths(), "a death before the operation ends it on all (S58)");
    ok(ends_in_the_middle(), "a death in the middle does, too (S59)");
    ok(finds_that_it_was_late(),
        "a rank that was stopped while it moved does not succeed");
    ok(names_the_late(), "a rank that does not come in time is named (S58)");
    faults_end();
    return done_testing();
}
