/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Tests ranks that exchange parts endlessly until one of them is killed: the
 * others get an error with its rank, in time.
 */
#include "../tap.h"
#include "../world/faults.h"

#include <stdlib.h>

#define SIZE 3
#define VICTIM 1
#define COUNT ((size_t)1 << 20) /* floats for each rank: many chunks */

enum operation {
    SCATTER,
    ALL_TO_ALL,
    ALL_TO_ALL_V
};

static symmcoll_status_t exchange(
    struct faults_rank *self, enum operation which, float *out, float *in)
{
    switch (which) {
    case SCATTER:
        return symmcoll_scatter(
            self->group, out, in, COUNT, SYMMCOLL_FLOAT32, 0, NULL, NULL);
    case ALL_TO_ALL_V:
        return symmcoll_all_to_all_v(self->group, out, SIZE * COUNT, NULL, in,
            SIZE * COUNT, NULL, SYMMCOLL_FLOAT32, NULL, NULL);
    default:
        return symmcoll_all_to_all(
            self->group, out, in, COUNT, SYMMCOLL_FLOAT32, NULL, NULL);
    }
}

/* arg: the operation. */
static int exchange_for_ever(struct faults_rank *self)
{
    const enum operation *which = self->arg;
    float *in = calloc(SIZE * COUNT, sizeof(*in));
    float *out = calloc(SIZE * COUNT, sizeof(*out));
    symmcoll_status_t status = SYMMCOLL_OK;
    int exit_status;

    if (in == NULL || out == NULL || !faults_init(self))
        return 1;
    for (int i = 0; status == SYMMCOLL_OK; i++) {
        status = exchange(self, *which, out, in);
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

    faults_start(&job, SIZE, exchange_for_ever, &which);
    right = faults_await_all(&job, 1);
    faults_signal(&job, VICTIM, SIGKILL);
    right = faults_kill_is_known(&job, VICTIM) && right;
    return faults_finish(&job, 1u << VICTIM) && right;
}

int main(void)
{
    plan(3);
    faults_begin();
    ok(is_known(SCATTER), "a death in the middle of a scatter is known");
    ok(is_known(ALL_TO_ALL), "a death in the middle of an all_to_all is known");
    ok(is_known(ALL_TO_ALL_V),
        "a death in the middle of an all_to_all with splits is known");
    faults_end();
    return done_testing();
}
