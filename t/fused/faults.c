/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Ranks that run fused operations without end, until one of them is killed: the
 * others are told who, in time.
 */
#include "../world/faults.h"
#include "../tap.h"

#include <stdlib.h>

#define SIZE 3
#define VICTIM 1
#define ROWS 600 /* of a shard */
#define SIDE 64

enum operation {
    GATHER,
    SCATTER,
    IN_FUNCTION
};

/* It ends in the middle of an operation, in a function of its own. */
static symmcoll_status_t die(void *context, int rank, const void *shard)
{
    struct faults_rank *self = context;

    (void)shard;
    if (self->rank == VICTIM && rank != VICTIM)
        raise(SIGKILL);
    return SYMMCOLL_OK;
}

static symmcoll_status_t operate(
    struct faults_rank *self, enum operation which, float *in, float *out)
{
    struct symmcoll_tensor shard =
        SYMMCOLL_TENSOR_SHAPE(in, SYMMCOLL_FLOAT32, ROWS, SIDE);
    struct symmcoll_tensor whole =
        SYMMCOLL_TENSOR_SHAPE(in, SYMMCOLL_FLOAT32, SIZE * ROWS, SIDE);
    struct symmcoll_tensor b =
        SYMMCOLL_TENSOR_SHAPE(in, SYMMCOLL_FLOAT32, SIDE, SIDE);
    struct symmcoll_tensor product =
        SYMMCOLL_TENSOR_SHAPE(out, SYMMCOLL_FLOAT32, SIZE * ROWS, SIDE);
    struct symmcoll_tensor part =
        SYMMCOLL_TENSOR_SHAPE(out, SYMMCOLL_FLOAT32, ROWS, SIDE);

    switch (which) {
    case GATHER:
        return symmcoll_fused_all_gather_matmul(
            self->group, &shard, &b, 1, 0, NULL, NULL, &product);
    case SCATTER:
        return symmcoll_fused_matmul_reduce_scatter(
            self->group, &whole, &b, SYMMCOLL_SUM, 0, NULL, &part);
    default:
        return symmcoll_all_gather_and_consume(
            self->group, in, sizeof(*in), die, self, NULL, NULL);
    }
}

/* arg: the operation. */
static int operate_for_ever(struct faults_rank *self)
{
    const enum operation *which = self->arg;
    float *in = calloc((size_t)SIZE * ROWS * SIDE, sizeof(*in));
    float *out = calloc((size_t)SIZE * ROWS * SIDE, sizeof(*out));
    symmcoll_status_t status = SYMMCOLL_OK;
    int exit_status;

    if (in == NULL || out == NULL || !faults_init(self))
        return 1;
    if (*which == IN_FUNCTION)
        faults_reach(self, 1);
    for (int i = 0; status == SYMMCOLL_OK; i++) {
        status = operate(self, *which, in, out);
        if (i == 10)
            faults_reach(self, 1);
    }
    faults_note(self, status);
    exit_status = faults_finalize(self);
    free(in);
    free(out);
    return exit_status;
}

static bool is_known(enum operation which)
{
    struct faults_job job;
    bool right;

    faults_start(&job, SIZE, operate_for_ever, &which);
    right = faults_await_all(&job, 1);
    if (which != IN_FUNCTION)
        faults_signal(&job, VICTIM, SIGKILL);
    else
        job.killed_at = faults_now();
    right = faults_kill_is_known(&job, VICTIM) && right;
    return faults_finish(&job, 1u << VICTIM) && right;
}

int main(void)
{
    plan(3);
    faults_begin();
    ok(is_known(GATHER), "a death in all_gather and matmul is known");
    ok(is_known(SCATTER), "a death in matmul and reduce_scatter is known");
    ok(is_known(IN_FUNCTION), "a death in a caller's function is known");
    faults_end();
    return done_testing();
}
