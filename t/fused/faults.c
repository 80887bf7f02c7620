/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Tests ranks that run fused operations endlessly until one of them is killed:
 * the others get an error with its rank, in time.
 */
#include "../world/faults.h"
#include "../tap.h"

#include <stdlib.h>

#define SIZE 3
#define VICTIM 1
#define ROWS 600   /* of a shard */
#define MANY 17000 /* rows that are multiplied in blocks */
#define SIDE 64

enum operation {
    GATHER,
    SCATTER,
    BLOCKS,
    SCALED_GATHER,
    SCALED_SCATTER,
    IN_CONSUME,
    IN_PRODUCE
};

/* Kills the victim in the middle of an operation, in a function of the
 * caller. */
static symmcoll_status_t die(void *context, int rank, const void *shard)
{
    struct faults_rank *self = context;

    (void)shard;
    if (self->rank == VICTIM && rank != VICTIM)
        raise(SIGKILL);
    return SYMMCOLL_OK;
}

/* Kills the victim after it has produced one chunk of two. */
static symmcoll_status_t die_producing(void *context, int rank, void *chunk)
{
    (void)chunk;
    return die(context, rank == 0 ? 0 : VICTIM, NULL);
}

static symmcoll_status_t operate_scaled(
    struct faults_rank *self, enum operation which, float *in, float *out)
{
    struct symmcoll_tensor shard =
        SYMMCOLL_TENSOR_SHAPE(in, SYMMCOLL_FLOAT8_E4M3FN, ROWS, SIDE);
    struct symmcoll_tensor whole =
        SYMMCOLL_TENSOR_SHAPE(in, SYMMCOLL_FLOAT8_E4M3FN, SIZE * ROWS, SIDE);
    struct symmcoll_tensor b =
        SYMMCOLL_TENSOR_SHAPE(in, SYMMCOLL_FLOAT8_E4M3FN, SIDE, SIDE);
    struct symmcoll_tensor rows =
        SYMMCOLL_TENSOR_SHAPE(in, SYMMCOLL_FLOAT32, ROWS, 1);
    struct symmcoll_tensor one = SYMMCOLL_TENSOR_FLAT(in, 1, SYMMCOLL_FLOAT32);
    struct symmcoll_tensor product =
        SYMMCOLL_TENSOR_SHAPE(out, SYMMCOLL_FLOAT32, SIZE * ROWS, SIDE);
    struct symmcoll_tensor part =
        SYMMCOLL_TENSOR_SHAPE(out, SYMMCOLL_FLOAT32, ROWS, SIDE);
    struct symmcoll_scaled_matrix matrix = SYMMCOLL_SCALED_MATRIX_INIT;

    matrix.b = &b;
    matrix.b_scale = &one;
    if (which == SCALED_GATHER)
        return symmcoll_fused_all_gather_scaled_matmul(
            self->group, &shard, &rows, &matrix, 1, 0, NULL, NULL, &product);
    return symmcoll_fused_scaled_matmul_reduce_scatter(
        self->group, &whole, &one, &matrix, SYMMCOLL_SUM, 0, NULL, &part);
}

static symmcoll_status_t operate(
    struct faults_rank *self, enum operation which, float *in, float *out)
{
    struct symmcoll_tensor many =
        SYMMCOLL_TENSOR_SHAPE(in, SYMMCOLL_FLOAT32, SIZE * MANY, 1);
    struct symmcoll_tensor row =
        SYMMCOLL_TENSOR_SHAPE(in, SYMMCOLL_FLOAT32, 1, SIDE);
    struct symmcoll_tensor many_parts =
        SYMMCOLL_TENSOR_SHAPE(out, SYMMCOLL_FLOAT32, MANY, SIDE);
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
    case BLOCKS:
        return symmcoll_fused_matmul_reduce_scatter(
            self->group, &many, &row, SYMMCOLL_SUM, 0, NULL, &many_parts);
    case SCALED_GATHER:
    case SCALED_SCATTER:
        return operate_scaled(self, which, in, out);
    case IN_CONSUME:
        return symmcoll_all_gather_and_consume(
            self->group, in, sizeof(*in), die, self, NULL, NULL);
    default:
        return symmcoll_produce_and_all_to_all(
            self->group, sizeof(*in), die_producing, self, NULL, out);
    }
}

/* arg: the operation. */
static int operate_for_ever(struct faults_rank *self)
{
    const enum operation *which = self->arg;
    float *in = calloc((size_t)SIZE * ROWS * SIDE, sizeof(*in));
    float *out = calloc((size_t)MANY * SIDE, sizeof(*out));
    symmcoll_status_t status = SYMMCOLL_OK;
    int exit_status;

    if (in == NULL || out == NULL || !faults_init(self))
        return 1;
    if (*which >= IN_CONSUME)
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

/* arg: the timeout in seconds of a rank that waits for a signal that the
 * victim never sends. */
static int wait_for_signal(struct faults_rank *self)
{
    const double *timeout = self->arg;
    struct symmcoll_call call = faults_timeout(*timeout);
    float b[4] = {0};
    struct symmcoll_tensor a, columns, out = SYMMCOLL_TENSOR_INIT;
    struct symmcoll_symm *handle;
    symmcoll_status_t status = SYMMCOLL_OK;
    void *data;

    if (!faults_init(self) ||
        symmcoll_symm_alloc(self->world, 4096, NULL, &data) != SYMMCOLL_OK ||
        symmcoll_symm_rendezvous(self->group, data, NULL, &handle) !=
            SYMMCOLL_OK)
        return 1;
    a = (struct symmcoll_tensor)SYMMCOLL_TENSOR_SHAPE(
        data, SYMMCOLL_FLOAT32, SIZE, 4);
    columns = (struct symmcoll_tensor)SYMMCOLL_TENSOR_SHAPE(
        b, SYMMCOLL_FLOAT32, 4, 1);
    faults_reach(self, 1);
    if (self->rank == VICTIM)
        faults_pass(self, 2);
    else
        status =
            faults_note(self, symmcoll_async_input_matmul(handle, 2048, SIZE,
                                  VICTIM, &a, &columns, &call, &out));
    faults_reach(self, 2);
    /* The group remains usable if no rank died. */
    if (status != SYMMCOLL_ERR_PEER && faults_barrier(self) != SYMMCOLL_OK)
        return 1;
    symmcoll_symm_release(handle);
    (void)symmcoll_symm_free(self->world, data);
    return faults_finalize(self);
}

static bool is_known(enum operation which)
{
    struct faults_job job;
    bool right;

    faults_start(&job, SIZE, operate_for_ever, &which);
    right = faults_await_all(&job, 1);
    if (which < IN_CONSUME)
        faults_signal(&job, VICTIM, SIGKILL);
    else
        job.killed_at = faults_now();
    right = faults_kill_is_known(&job, VICTIM) && right;
    return faults_finish(&job, 1u << VICTIM) && right;
}

static bool signal_of_the_dead(void)
{
    static const double never = -1;
    struct faults_job job;
    bool right;

    faults_start(&job, SIZE, wait_for_signal, &never);
    right = faults_await_all(&job, 1) && faults_await_asleep(&job, 0, 1) &&
            faults_await_asleep(&job, 2, 1);
    faults_signal(&job, VICTIM, SIGKILL);
    right = faults_kill_is_known(&job, VICTIM) && right;
    return faults_finish(&job, 1u << VICTIM) && right;
}

static bool signal_of_the_late(void)
{
    static const double moment = 0.01;
    struct faults_job job;
    bool right;

    faults_start(&job, SIZE, wait_for_signal, &moment);
    right = faults_await(&job, 0, 2) && faults_await(&job, 2, 2);
    faults_open(&job, 2);
    for (int r = 0; r < SIZE; r++)
        right = (r == VICTIM ||
                    faults_said(faults_told(&job, r, 0), SYMMCOLL_ERR_TIMEOUT,
                        "rank 1", "store 1 at byte 2052", NULL)) &&
                right;
    return faults_finish(&job, 0) && right;
}

int main(void)
{
    plan(9);
    faults_begin();
    ok(is_known(GATHER), "a death in all_gather and matmul is known");
    ok(is_known(SCATTER), "a death in matmul and reduce_scatter is known");
    ok(is_known(BLOCKS), "and so it is between blocks");
    ok(is_known(SCALED_GATHER), "a death in all_gather and scaled matmul");
    ok(is_known(SCALED_SCATTER), "a death in scaled matmul and reduce_scatter");
    ok(is_known(IN_CONSUME), "a death in a function that consumes is known");
    ok(is_known(IN_PRODUCE), "a death in a function that produces is known");
    ok(signal_of_the_dead(), "a death before its signal is known");
    ok(signal_of_the_late(), "a signal that is late is known, and its rank");
    faults_end();
    return done_testing();
}
