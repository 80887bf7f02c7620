/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Tests that training on devices goes on after a rank has died in the middle of a
 * pass: the others get an error from finish or the next begin, shrink the group and
 * move their reducers to it.
 */
#include "t/ddp/alone.h"
#include "t/world/faults.h"

#include <signal.h>

#define SIZE 3
#define VICTIM 1
#define STEPS 5

enum place {
    IN_READY,
    IN_HOOK,
    IN_FINISH,
    IN_REBUILD
};

/* The step in which the victim dies; the buckets are rebuilt in step 1. */
struct death {
    enum place place;
    int step;
};

struct survivor {
    const struct death *death;
    struct alone alone;
    int rank, step;
};

static void die(const struct survivor *survivor, enum place place)
{
    if (survivor->rank == VICTIM && survivor->death->place == place &&
        survivor->step == survivor->death->step)
        raise(SIGKILL);
}

static symmcoll_status_t hook(struct symmcoll_group *group,
    const struct symmcoll_bucket *bucket, void *arg,
    struct symmcoll_work **work)
{
    die(arg, IN_HOOK);
    return symmcoll_hook_all_reduce(group, bucket, NULL, work);
}

static symmcoll_status_t hook_end(struct symmcoll_group *group,
    const struct symmcoll_bucket *bucket, void *arg,
    struct symmcoll_work **work)
{
    *work = NULL;
    die(arg, IN_FINISH);
    return bucket->round == 0
               ? symmcoll_hook_all_reduce(group, bucket, NULL, work)
               : SYMMCOLL_OK;
}

static bool create(struct symmcoll_group *group, struct survivor *survivor)
{
    struct symmcoll_reducer_args args = SYMMCOLL_REDUCER_ARGS_INIT;

    args.hook_arg = survivor;
    if (survivor->death->place == IN_HOOK)
        args.hook = hook;
    if (survivor->death->place == IN_FINISH) {
        args.hook = symmcoll_hook_all_reduce;
        args.hook_end = hook_end;
    }
    return alone_begin(&survivor->alone, group, survivor->rank, &args);
}

/* Runs a step, in which the victim may die; the gradient is 12 * (rank + 1). */
static symmcoll_status_t run_step(struct survivor *survivor)
{
    struct alone *alone = &survivor->alone;
    symmcoll_status_t status;

    die(survivor, IN_REBUILD);
    status = symmcoll_reducer_begin(alone->reducer, 1);
    alone_enqueue(alone, 12 * (float)(survivor->rank + 1));
    die(survivor, IN_READY);
    if (status == SYMMCOLL_OK)
        status = symmcoll_reducer_ready(alone->reducer, 0, alone->grad);
    return status == SYMMCOLL_OK ? symmcoll_reducer_finish(alone->reducer)
                                 : status;
}

/* Checks the average over n ranks. */
static bool is_average(const struct survivor *survivor, int n)
{
    const struct alone *alone = &survivor->alone;
    struct symmcoll_tensor grad = SYMMCOLL_TENSOR_INIT;
    float found[ALONE_COUNT] = {0}, expected = 6 * (float)(n + 1);
    bool right = symmcoll_reducer_grad(alone->reducer, 0, &grad) == SYMMCOLL_OK;

    device_wait(alone->stream);
    if (right)
        device_read(found, grad.data, sizeof(found));
    for (int i = 0; right && i < ALONE_COUNT; i++)
        right = found[i] == expected;
    if (!right)
        diag("rank %d: expected %g, found %g", survivor->rank, (double)expected,
            (double)found[0]);
    return right;
}

/* Moves to the group of the survivors, and trains there. */
static bool go_on(struct survivor *survivor, struct symmcoll_group *left)
{
    struct alone *alone = &survivor->alone;
    int n = symmcoll_group_size(left);
    bool right =
        n == SIZE - 1 &&
        symmcoll_group_set_stream(left, alone->stream) == SYMMCOLL_OK &&
        say(symmcoll_reducer_move(alone->reducer, left, 0) == SYMMCOLL_OK,
            "move");

    survivor->rank = symmcoll_group_rank(left);
    for (survivor->step = STEPS; right && survivor->step < STEPS + 3;
         survivor->step++) {
        right = say(run_step(survivor) == SYMMCOLL_OK, "a step") &&
                is_average(survivor, n);
        symmcoll_reducer_zero(alone->reducer);
    }
    return right;
}

static int lose_one(struct faults_rank *self)
{
    struct survivor survivor = {.death = self->arg, .rank = self->rank};
    struct symmcoll_group *left = NULL;
    symmcoll_status_t status = SYMMCOLL_OK;
    bool right;

    if (!faults_init(self) || !create(self->group, &survivor))
        return 1;
    for (; status == SYMMCOLL_OK && survivor.step < STEPS; survivor.step++) {
        status = run_step(&survivor);
        symmcoll_reducer_zero(survivor.alone.reducer);
    }
    /* ABORTED: the group had failed before the operation. */
    right = say(status == SYMMCOLL_ERR_PEER || status == SYMMCOLL_ERR_ABORTED,
                "a peer") &&
            say(symmcoll_group_shrink(self->group, NULL, &left, NULL) ==
                    SYMMCOLL_OK,
                "shrink") &&
            go_on(&survivor, left);
    right = alone_end(&survivor.alone, right);
    symmcoll_group_free(left);
    return faults_finalize(self) == 0 && right ? 0 : 1;
}

static void test_death(enum place place, int step, const char *what)
{
    struct death death = {place, step};
    struct faults_job job;

    faults_start(&job, SIZE, lose_one, &death);
    ok(faults_finish(&job, 1u << VICTIM), "D47: %s", what);
    faults_clear_dumps(SIZE);
}

int main(void)
{
    device_begin();
    faults_begin();
    test_death(IN_READY, 0, "a rank dies in the first pass, before ready");
    test_death(IN_READY, 3, "a rank dies in a later pass, before ready");
    test_death(IN_HOOK, 2, "a rank dies in its hook");
    test_death(IN_FINISH, 2, "a rank dies in finish");
    test_death(IN_REBUILD, 1, "a rank dies before it rebuilds its buckets");
    faults_end();
    return done_testing();
}
