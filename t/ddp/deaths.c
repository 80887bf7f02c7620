/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Tests that training goes on after a rank has died in the middle of a pass: the
 * others get an error, shrink the group and move their reducers to it.
 */
#include "model.h"

#include "t/world/faults.h"

#include <signal.h>
#include <stdbool.h>

#define SIZE 3
#define VICTIM 1

enum place {
    IN_READY,
    IN_HOOK,
    IN_FINISH,
    IN_REBUILD,
    IN_FORWARD,
    IN_GATHER,
    IN_JOIN,
    IN_JOIN_END
};

/* The step in which the victim dies; the buckets are rebuilt in step 1. */
struct death {
    enum place place;
    int step;
};

struct survivor {
    const struct death *death;
    struct model model;
    struct symmcoll_reducer *reducer;
    struct symmcoll_tensor buffer;
    int64_t counter;
    int rank, step;
};

static bool dies(const struct survivor *survivor, enum place place)
{
    return survivor->rank == VICTIM && survivor->death->place == place &&
           survivor->step == survivor->death->step;
}

static void die(const struct survivor *survivor, enum place place)
{
    if (dies(survivor, place))
        raise(SIGKILL);
}

static symmcoll_status_t hook(struct symmcoll_group *group,
    const struct symmcoll_bucket *bucket, void *arg,
    struct symmcoll_work **work)
{
    if (bucket->is_last)
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

static symmcoll_status_t create(
    struct symmcoll_group *group, struct survivor *survivor)
{
    struct symmcoll_reducer_args args = model_args(64);
    enum place place = survivor->death->place;

    model_make(&survivor->model, survivor->rank);
    survivor->buffer = model_vector(&survivor->counter, SYMMCOLL_INT64, 1);
    args.buffers = &survivor->buffer;
    args.nbuffers = 1;
    args.hook_arg = survivor;
    if (place == IN_HOOK || place == IN_FINISH)
        args.hook = hook;
    if (place == IN_FINISH)
        args.hook_end = hook_end;
    args.static_graph = place == IN_READY;
    args.shard = place == IN_GATHER;
    return symmcoll_reducer_create(
        group, survivor->model.params, MODEL_PARAMS, &args, &survivor->reducer);
}

/* Runs a step in which the victim may die. */
static symmcoll_status_t run_step(struct survivor *survivor, int size)
{
    symmcoll_status_t status;

    model_fill(&survivor->model, survivor->rank, size, survivor->step);
    die(survivor, IN_FORWARD);
    die(survivor, IN_JOIN);
    status = symmcoll_reducer_forward(survivor->reducer, 1);
    die(survivor, IN_REBUILD);
    if (status == SYMMCOLL_OK)
        status = symmcoll_reducer_begin(survivor->reducer, 1);
    for (int p = MODEL_PARAMS - 1; status == SYMMCOLL_OK && p >= 0; p--) {
        if (p == 1)
            die(survivor, IN_READY);
        status = symmcoll_reducer_ready(
            survivor->reducer, p, survivor->model.grads[p]);
    }
    return status == SYMMCOLL_OK ? symmcoll_reducer_finish(survivor->reducer)
                                 : status;
}

/* Ends a step: gathers the parameters, if they are sharded. */
static symmcoll_status_t end_step(struct survivor *survivor)
{
    if (survivor->death->place == IN_GATHER) {
        die(survivor, IN_GATHER);
        return symmcoll_reducer_gather(survivor->reducer);
    }
    symmcoll_reducer_zero(survivor->reducer);
    return SYMMCOLL_OK;
}

/* Runs steps until one fails. Returns its status. */
static symmcoll_status_t run_until_death(struct survivor *survivor)
{
    struct symmcoll_join *join = NULL;
    symmcoll_status_t status = SYMMCOLL_OK, ended;
    bool joins = survivor->death->place >= IN_JOIN;
    /* Rank 0 has no more inputs, and waits in join_end. */
    int steps = joins && survivor->rank == 0 ? 1 : 5;

    if (joins)
        status = symmcoll_join_begin(&survivor->reducer, 1, NULL, &join);
    for (; status == SYMMCOLL_OK && survivor->step < steps; survivor->step++) {
        die(survivor, IN_JOIN_END);
        status = run_step(survivor, SIZE);
        if (status == SYMMCOLL_OK)
            status = end_step(survivor);
    }
    if (!joins)
        return status;
    ended = symmcoll_join_end(join);
    return status == SYMMCOLL_OK || status == ended ? ended
                                                    : SYMMCOLL_ERR_INTERNAL;
}

/* Checks the averages of this rank's slices. */
static bool slices_hold(const struct survivor *survivor, int size)
{
    int n = symmcoll_reducer_shard_count(survivor->reducer);

    for (int s = 0; s < n; s++) {
        struct symmcoll_shard shard = SYMMCOLL_SHARD_INIT;

        if (symmcoll_reducer_shard(survivor->reducer, s, &shard) != SYMMCOLL_OK)
            return false;
        for (size_t i = 0; i < shard.count; i++) {
            float sum = 0;

            for (int r = 0; r < size; r++)
                sum += model_term(
                    r, shard.param, (int)(shard.offset + i), survivor->step);
            if (((const float *)shard.grad)[i] != sum)
                return false;
        }
    }
    return n > 0;
}

/* Moves to the group of the survivors, and trains there. */
static bool go_on(struct survivor *survivor, struct symmcoll_group *left)
{
    int size = symmcoll_group_size(left);
    bool right;

    survivor->rank = symmcoll_group_rank(left);
    survivor->model.values[0][3] += (float)survivor->rank;
    /* Gradients of a pass that has begun would be undefined. */
    right = size == SIZE - 1 &&
            (survivor->death->place > IN_FINISH ||
                symmcoll_reducer_move(survivor->reducer, left,
                    SYMMCOLL_MOVE_KEEP) == SYMMCOLL_ERR_INVALID);
    right = right &&
            symmcoll_reducer_move(survivor->reducer, left, 0) == SYMMCOLL_OK &&
            survivor->model.values[0][3] == 3;
    for (survivor->step = 10; right && survivor->step < 13; survivor->step++) {
        right = run_step(survivor, size) == SYMMCOLL_OK &&
                (survivor->death->place == IN_GATHER
                        ? slices_hold(survivor, size)
                        : model_views_hold(survivor->reducer, &survivor->model,
                              size, survivor->step, survivor->step)) &&
                end_step(survivor) == SYMMCOLL_OK;
    }
    return right;
}

static int lose_one(struct faults_rank *self)
{
    const struct death *death = self->arg;
    struct survivor survivor = {.death = death, .rank = self->rank};
    struct symmcoll_group *left = NULL;
    symmcoll_status_t status;
    bool right;

    if (!faults_init(self))
        return 1;
    status = create(self->group, &survivor);
    if (status == SYMMCOLL_OK)
        status = run_until_death(&survivor);
    /* A gather starts several buckets: the group may have failed before one. */
    right = status == SYMMCOLL_ERR_PEER ||
            (death->place == IN_GATHER && status == SYMMCOLL_ERR_ABORTED &&
                symmcoll_group_error(self->group) == SYMMCOLL_ERR_PEER);
    if (!right)
        diag("rank %d: %d: %s", self->rank, status, symmcoll_last_error());
    right = right && symmcoll_group_shrink(self->group, NULL, &left, NULL) ==
                         SYMMCOLL_OK;
    right = right && go_on(&survivor, left);
    if (!right)
        diag("rank %d: %s", self->rank, symmcoll_last_error());
    symmcoll_reducer_free(survivor.reducer);
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
    faults_begin();
    test_death(IN_READY, 0, "a rank dies in the first pass, between gradients");
    test_death(IN_READY, 3, "a rank dies in a later pass, between gradients");
    test_death(IN_HOOK, 2, "a rank dies in its hook");
    test_death(IN_FINISH, 2, "a rank dies in finish");
    test_death(IN_REBUILD, 1, "a rank dies before it rebuilds its buckets");
    test_death(IN_FORWARD, 2, "a rank dies before it sends its buffers");
    test_death(IN_GATHER, 2, "a rank dies before it gathers parameters");
    test_death(
        IN_JOIN, 2, "a rank dies in a join, where another has no inputs");
    test_death(IN_JOIN_END, 4, "a rank dies where two have no inputs");
    faults_end();
    return done_testing();
}
