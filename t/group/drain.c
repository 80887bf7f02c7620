/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Tests symmcoll_group_drain(): waits for the operations that this rank has
 * called, and for the callbacks that report them.
 */
#include "t/group/groups.h"

#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

/* The number of ranks that have done their part, in memory shared by
 * processes. */
static _Atomic int *done;

static void await_done(int ranks)
{
    while (atomic_load(done) < ranks)
        usleep(1000);
}

static symmcoll_status_t sum(struct symmcoll_group *group, double *values,
    size_t count, struct symmcoll_work **work)
{
    return symmcoll_all_reduce(group, values, values, count, SYMMCOLL_FLOAT64,
        SYMMCOLL_SUM, NULL, work);
}

static void count_call(symmcoll_status_t status, void *arg)
{
    atomic_int *calls = arg;

    if (status == SYMMCOLL_OK)
        atomic_fetch_add(calls, 1);
}

static void count_operation(
    const struct symmcoll_operation *operation, void *arg)
{
    count_call(operation->status, arg);
}

/* Releases works at once; rank 0 calls when the others wait. */
static int all_has_been_reported(struct symmcoll_group *all, int rank)
{
    static const size_t large = 100000;
    int size = symmcoll_group_size(all), next = (rank + 1) % size;
    double *values = calloc(large, sizeof(*values)), sent = rank, other = -1;
    struct symmcoll_work *works[4] = {NULL};
    static atomic_int reports[3]; /* of ranks that are threads, too */
    atomic_int calls = 0;
    bool right =
        made(rank, symmcoll_group_notify(all, count_operation, &reports[rank]));

    values[0] = 1;
    if (rank == 0)
        await_done(size - 1);
    right =
        made(rank, sum(all, values, 1, &works[0])) &&
        made(rank, sum(all, values, large, &works[1])) &&
        made(rank, symmcoll_send(all, &sent, 1, SYMMCOLL_FLOAT64, next, 0, NULL,
                       &works[2])) &&
        made(rank, symmcoll_recv(all, &other, 1, SYMMCOLL_FLOAT64,
                       (rank + size - 1) % size, 0, NULL, NULL, &works[3])) &&
        right;
    for (int i = 0; right && i < 4; i++) {
        right = made(rank, symmcoll_work_then(works[i], count_call, &calls));
        symmcoll_work_free(works[i]);
    }
    if (rank != 0)
        right = groups_said(rank, symmcoll_group_drain(all, 0),
                    SYMMCOLL_ERR_TIMEOUT, "they go on") &&
                right;
    atomic_fetch_add(done, 1);
    right = made(rank, symmcoll_group_drain(all, -1)) &&
            atomic_load(&calls) == 4 && atomic_load(&reports[rank]) == 4 &&
            values[0] == size * size && other == (rank + size - 1) % size &&
            symmcoll_group_error(all) == SYMMCOLL_OK &&
            made(rank, symmcoll_group_drain(all, 0)) && right;
    free(values);
    return right;
}

/* A blocking call of another thread. */
struct other {
    struct symmcoll_group *group;
    atomic_int begun, ended;
};

static void *call_barrier(void *arg)
{
    struct other *other = arg;

    atomic_store(&other->begun, 1);
    if (symmcoll_barrier(other->group, NULL, NULL) == SYMMCOLL_OK)
        atomic_store(&other->ended, 1);
    return NULL;
}

static int calls_of_threads_end_too(struct symmcoll_group *all, int rank)
{
    struct other other = {.group = all};
    pthread_t thread;
    bool right;

    if (rank == 0) {
        await_done(symmcoll_group_size(all) - 1);
        return made(rank, symmcoll_barrier(all, NULL, NULL));
    }
    if (pthread_create(&thread, NULL, call_barrier, &other) != 0)
        return 0;
    /* The drain waits for it once it has its ticket. */
    while (symmcoll_group_sequence(all) == 0)
        usleep(1000);
    right = groups_said(rank, symmcoll_group_drain(all, 0.001),
        SYMMCOLL_ERR_TIMEOUT, "operations of group");
    atomic_fetch_add(done, 1);
    right = made(rank, symmcoll_group_drain(all, INFINITY)) && right;
    pthread_join(thread, NULL);
    return right && atomic_load(&other.ended) == 1;
}

/* Drains another group in a callback of one group. */
struct inner {
    struct symmcoll_group *own, *another;
    symmcoll_status_t refused, drained, waited;
    int calls_then; /* number of the other group's callbacks after its drain */
    atomic_int calls, over;
};

static void drain_inside(symmcoll_status_t status, void *arg)
{
    struct inner *inner = arg;
    struct symmcoll_work *work = NULL;
    double value = 1;

    (void)status;
    inner->refused = symmcoll_group_drain(inner->own, 0);
    inner->waited = sum(inner->another, &value, 1, &work);
    if (inner->waited == SYMMCOLL_OK)
        inner->waited = symmcoll_work_then(work, count_call, &inner->calls);
    if (inner->waited == SYMMCOLL_OK)
        inner->waited = symmcoll_work_wait(work, 60);
    symmcoll_work_free(work);
    inner->drained = symmcoll_group_drain(inner->another, 60);
    inner->calls_then = atomic_load(&inner->calls);
    atomic_store(&inner->over, 1);
}

static int callbacks_use_other_groups(struct symmcoll_group *all, int rank)
{
    struct inner inner = {.own = all};
    struct symmcoll_work *work = NULL;
    bool right = made(rank, groups_create(all, NULL, 0, &inner.another)) &&
                 made(rank, symmcoll_barrier(all, NULL, &work)) &&
                 made(rank, symmcoll_work_then(work, drain_inside, &inner)) &&
                 made(rank, symmcoll_group_drain(all, 60));

    symmcoll_work_free(work);
    if (!right || atomic_load(&inner.over) == 0)
        return 0;
    return inner.refused == SYMMCOLL_ERR_INVALID &&
           inner.waited == SYMMCOLL_OK && inner.drained == SYMMCOLL_OK &&
           inner.calls_then == 1 &&
           made(rank, symmcoll_group_free(inner.another));
}

/* Checks that drain waits for operations started by a callback. */
struct chain {
    struct symmcoll_group *group;
    double value;
    atomic_int calls;
};

static void start_next(symmcoll_status_t status, void *arg)
{
    struct chain *chain = arg;
    struct symmcoll_work *work = NULL;

    if (status != SYMMCOLL_OK || atomic_fetch_add(&chain->calls, 1) >= 5)
        return;
    if (sum(chain->group, &chain->value, 1, &work) != SYMMCOLL_OK ||
        symmcoll_work_then(work, start_next, chain) != SYMMCOLL_OK)
        diag("%s", symmcoll_last_error());
    symmcoll_work_free(work);
}

static int what_callbacks_start_ends_too(struct symmcoll_group *all, int rank)
{
    struct chain chain = {.group = all, .value = 1};
    double power = 1;

    (void)rank;
    for (int i = 0; i < 5; i++)
        power *= symmcoll_group_size(all);
    start_next(SYMMCOLL_OK, &chain);
    return made(rank, symmcoll_group_drain(all, 60)) && chain.value == power &&
           atomic_load(&chain.calls) == 6;
}

static int failed_groups_are_drained(struct symmcoll_group *all, int rank)
{
    struct symmcoll_work *work = NULL;
    double value = 1;
    bool right = true;

    if (rank != 0)
        right = made(rank, sum(all, &value, 1, &work));
    symmcoll_group_abort(all, "no more");
    right = made(rank, symmcoll_group_drain(all, 60)) && right;
    if (rank != 0)
        right = symmcoll_work_test(work) < 0 && right;
    symmcoll_work_free(work);
    return right;
}

static int wrong_calls_are_refused(struct symmcoll_group *all, int rank)
{
    static const int zero = 0;
    struct symmcoll_group *alone;
    bool right = groups_said(rank, symmcoll_group_drain(NULL, 1),
                     SYMMCOLL_ERR_INVALID, "found NULL") &&
                 groups_said(rank, symmcoll_group_drain(all, NAN),
                     SYMMCOLL_ERR_INVALID, "group_drain: expected") &&
                 made(rank, groups_create(all, &zero, 1, &alone));

    return right &&
           symmcoll_group_drain(alone, 1) ==
               (rank == 0 ? SYMMCOLL_OK : SYMMCOLL_NOT_MEMBER) &&
           made(rank, symmcoll_group_free(alone));
}

static void both(int n, rank_fn body, const char *sentence)
{
    atomic_store(done, 0);
    ok(ranks_run(n, body), "%s (%d processes)", sentence, n);
    atomic_store(done, 0);
    ok(threads_run(n, body), "%s (%d threads)", sentence, n);
}

int main(void)
{
    plan(12);
    done = mmap(NULL, sizeof(*done), PROT_READ | PROT_WRITE,
        MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    both(3, all_has_been_reported,
        "all that a rank has called has ended and been reported");
    both(2, calls_of_threads_end_too, "so have calls of other threads");
    both(2, callbacks_use_other_groups,
        "a callback waits for operations of another group, and drains it");
    both(2, what_callbacks_start_ends_too,
        "what callbacks start meanwhile has ended too");
    both(2, failed_groups_are_drained, "a group that has failed is drained");
    both(2, wrong_calls_are_refused, "wrong calls are refused");
    return done_testing();
}
