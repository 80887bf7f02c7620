/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Tests failing collectives on symmetric buffers: a death in the middle, a
 * late rank, and differing arguments; and buffers that are released as soon as
 * a call has returned.
 */
#include "../attempts.h"
#include "../coll/data.h"
#include "../world/faults.h"
#include "symmetric.h"

#include <string.h>
#include <time.h>

#define SIZE 3
#define VICTIM 1
#define COUNT ((size_t)1 << 20) /* floats: many chunks */

enum operation {
    ALL_REDUCE,
    ALL_GATHER,
    REDUCE_SCATTER,
    GATHER /* into the root's buffer */
};

static symmcoll_status_t operate(struct faults_rank *self, enum operation which,
    void *out, void *in, double timeout)
{
    struct symmcoll_call call = faults_timeout(timeout);

    switch (which) {
    case ALL_REDUCE:
        return symmcoll_all_reduce(self->group, out, out, COUNT,
            SYMMCOLL_FLOAT32, SYMMCOLL_SUM, &call, NULL);
    case ALL_GATHER:
        return symmcoll_all_gather(
            self->group, out, in, COUNT / SIZE, SYMMCOLL_FLOAT32, &call, NULL);
    case REDUCE_SCATTER:
        return symmcoll_reduce_scatter(self->group, out, in, COUNT / SIZE,
            SYMMCOLL_FLOAT32, SYMMCOLL_SUM, &call, NULL);
    default:
        return symmcoll_gather(self->group, out, in, COUNT / SIZE,
            SYMMCOLL_FLOAT32, 0, &call, NULL);
    }
}

/* ---- a death ---- */

/* arg: the operation. */
static int operate_for_ever(struct faults_rank *self)
{
    const enum operation *which = self->arg;
    symmcoll_status_t status = SYMMCOLL_OK;
    struct symmetric in, out;

    if (!faults_init(self))
        return 1;
    in = symmetric_open(self->group, COUNT * sizeof(float));
    out = symmetric_open(self->group, COUNT * sizeof(float));
    for (int i = 0; status == SYMMCOLL_OK; i++) {
        status = operate(self, *which, out.at, in.at, 60);
        if (i == 10)
            faults_reach(self, 1);
    }
    faults_note(self, status);
    /* The memory of the other ranks still exists. */
    memset(out.at, 1, COUNT * sizeof(float));
    symmetric_close(&in);
    symmetric_close(&out);
    return faults_finalize(self);
}

static bool is_known(enum operation which)
{
    struct faults_job job;
    bool right;

    faults_start(&job, SIZE, operate_for_ever, &which);
    right = faults_await_all(&job, 1);
    faults_signal(&job, VICTIM, SIGKILL);
    right = faults_kill_is_known(&job, VICTIM) && right;
    return faults_finish(&job, 1u << VICTIM) && faults_clear_dumps(SIZE) &&
           right;
}

/* ---- a late rank ---- */

static bool holds_byte(const unsigned char *at, int byte)
{
    for (size_t i = 0; i < COUNT * sizeof(float); i++) {
        if (at[i] != byte)
            return false;
    }
    return true;
}

/* The victim calls after the others have timed out and overwritten their
 * buffers, which must not change. */
static int come_late(struct faults_rank *self)
{
    const double *seconds = self->arg; /* timeout of the others */
    struct symmetric out;
    symmcoll_status_t status;
    bool intact;

    if (!faults_init(self))
        return 1;
    out = symmetric_open(self->group, COUNT * sizeof(float));
    if (self->rank == VICTIM)
        faults_pass(self, 1);
    status = operate(
        self, ALL_REDUCE, out.at, NULL, self->rank == VICTIM ? 60 : *seconds);
    faults_note(self, status);
    memset(out.at, 0x5a, COUNT * sizeof(float));
    faults_reach(self, 1);
    faults_pass(self, 2);
    intact = holds_byte(out.at, 0x5a);
    symmetric_close(&out);
    return faults_finalize(self) == 0 && intact ? 0 : 1;
}

static bool late_rank_writes_nothing(double seconds, void *arg)
{
    struct faults_job job;
    bool right = true;

    (void)arg;
    faults_start(&job, SIZE, come_late, &seconds);
    for (int r = 0; r < SIZE; r++) {
        if (r != VICTIM)
            right = faults_await(&job, r, 1) && right;
    }
    faults_open(&job, 1);
    right = faults_await(&job, VICTIM, 1) && right;
    faults_open(&job, 2);
    for (int r = 0; r < SIZE; r++)
        right = faults_said(faults_told(&job, r, 0),
                    r == VICTIM ? SYMMCOLL_ERR_ABORTED : SYMMCOLL_ERR_TIMEOUT,
                    "rank 1 did not come", NULL) &&
                right;
    return faults_finish(&job, 0) && faults_clear_dumps(SIZE) && right;
}

/* ---- bodies without faults of processes ---- */

static int mismatch_touches_nothing(struct symmcoll_group *group, int rank)
{
    struct symmetric out = symmetric_open(group, COUNT * sizeof(float));
    size_t count = rank == VICTIM ? COUNT / 2 : COUNT;
    bool right;

    memset(out.at, 0x5a, COUNT * sizeof(float));
    right = symmcoll_all_reduce(group, out.at, out.at, count, SYMMCOLL_FLOAT32,
                SYMMCOLL_SUM, NULL, NULL) == SYMMCOLL_ERR_MISMATCH &&
            strstr(symmcoll_last_error(), "count differs") != NULL &&
            holds_byte(out.at, 0x5a) &&
            symmcoll_all_reduce(group, out.at, out.at, COUNT, SYMMCOLL_UINT8,
                SYMMCOLL_MAX, NULL, NULL) == SYMMCOLL_OK &&
            holds_byte(out.at, 0x5a);
    symmetric_close(&out);
    return right;
}

static bool holds_floats(const float *at, size_t count, float value)
{
    for (size_t i = 0; i < count; i++) {
        if (at[i] != value)
            return false;
    }
    return true;
}

/* Each rank releases its buffer at once, and the others continue with
 * theirs. */
static int freed_at_once(struct symmcoll_group *group, int rank)
{
    const size_t count = 20000;
    float sum = (float)(SIZE * (SIZE + 1) / 2);
    bool right = true;

    for (int i = 0; right && i < 30; i++) {
        struct symmetric made = symmetric_open(group, count * sizeof(float));
        float *x = (float *)(void *)made.at;

        for (size_t j = 0; j < count; j++)
            x[j] = (float)(rank + 1);
        right = symmcoll_all_reduce(group, x, x, count, SYMMCOLL_FLOAT32,
                    SYMMCOLL_SUM, NULL, NULL) == SYMMCOLL_OK;
        if (rank != i % SIZE)
            right = right && holds_floats(x, count, sum);
        symmetric_close(&made);
    }
    return right;
}

/* One rank has released its buffer and passes private memory: the others still
 * have theirs. */
static int freed_by_one(struct symmcoll_group *group, int rank)
{
    const size_t count = 20000;
    struct symmetric made = symmetric_open(group, count * sizeof(float));
    float *x = (float *)(void *)made.at;
    float *own = malloc(count * sizeof(float));
    bool right = own != NULL;

    if (rank == VICTIM) {
        symmetric_close(&made);
        x = own;
    }
    for (size_t j = 0; right && j < count; j++)
        x[j] = (float)(rank + 1);
    right = right &&
            symmcoll_all_reduce(group, x, x, count, SYMMCOLL_FLOAT32,
                SYMMCOLL_SUM, NULL, NULL) == SYMMCOLL_OK &&
            holds_floats(x, count, (float)(SIZE * (SIZE + 1) / 2));
    if (rank != VICTIM)
        symmetric_close(&made);
    free(own);
    return right;
}

/* Has several operations in flight, large and small. */
static int overlapping_ones(struct symmcoll_group *group, int rank)
{
    enum {
        WORKS = 6
    };
    const size_t count = 50000;
    struct symmcoll_work *works[WORKS];
    struct symmetric made[WORKS];
    float sum = (float)(SIZE * (SIZE + 1) / 2);
    bool right = true;

    for (int i = 0; i < WORKS; i++) {
        made[i] = symmetric_open(group, count * sizeof(float));
        for (size_t j = 0; j < count; j++)
            ((float *)(void *)made[i].at)[j] = (float)(rank + 1);
    }
    for (int i = 0; i < WORKS; i++)
        right = symmcoll_all_reduce(group, made[i].at, made[i].at,
                    i % 2 == 0 ? count : 7, SYMMCOLL_FLOAT32, SYMMCOLL_SUM,
                    NULL, &works[i]) == SYMMCOLL_OK &&
                right;
    for (int i = 0; right && i < WORKS; i++) {
        right = symmcoll_work_wait(works[i], -1) == SYMMCOLL_OK &&
                holds_floats(
                    (float *)(void *)made[i].at, i % 2 == 0 ? count : 7, sum);
        symmcoll_work_free(works[i]);
    }
    for (int i = 0; i < WORKS; i++)
        symmetric_close(&made[i]);
    return right;
}

int main(void)
{
    plan(13);
    faults_begin();
    ok(is_known(ALL_REDUCE),
        "a death in the middle of a sum into all ranks' buffers is known");
    ok(is_known(ALL_GATHER),
        "a death in the middle of an all_gather from them is known");
    ok(is_known(REDUCE_SCATTER),
        "a death in the middle of a reduce_scatter from them is known");
    ok(is_known(GATHER),
        "a death in the middle of a gather into the root's is known");
    ok(attempts_hold(late_rank_writes_nothing, 0.2, NULL),
        "a rank that comes after a timeout writes to nobody's buffer");
    both_run(SIZE, mismatch_touches_nothing,
        "counts that differ leave symmetric buffers untouched");
    both_run(SIZE, freed_at_once,
        "a symmetric buffer can be freed as soon as a call has returned");
    both_run(
        SIZE, freed_by_one, "what one rank has freed, the others can pass");
    both_run(SIZE, overlapping_ones,
        "operations on symmetric buffers that overlap are right");
    faults_end();
    return done_testing();
}
