/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Tests symmcoll_group_notify(): a function is called for each operation of a
 * group that ends (W15, W16). Each body has its own group, the release of
 * which waits for the callbacks.
 */
#include "groups.h"
#include "t/ddp/model.h"

#include <math.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <time.h>

#define MOST 64

/* The reported operations in order. The callback thread writes it, and the
 * thread that released the group reads it. */
struct told {
    int count;
    bool right; /* times, and all attributes that are the same for all */
    char names[MOST][32];
    enum symmcoll_kind kinds[MOST];
    char label[32]; /* of the last one */
    uint64_t sequences[MOST];
    symmcoll_status_t statuses[MOST];
    char detail[200]; /* of a failed one */
};

static double now(clockid_t clock)
{
    struct timespec time;

    clock_gettime(clock, &time);
    return (double)time.tv_sec + (double)time.tv_nsec / 1e9;
}

/* Checks the times of the monotonic clock, which have the same differences. */
static bool are_monotonic(const struct symmcoll_operation *operation)
{
    double length = operation->ended_monotonic - operation->started_monotonic;

    return operation->created_monotonic > 0 &&
           operation->created_monotonic <= operation->started_monotonic &&
           operation->started_monotonic <= operation->ended_monotonic &&
           operation->ended_monotonic <= now(CLOCK_MONOTONIC) &&
           fabs(operation->duration - length) < 0.001;
}

static void note(const struct symmcoll_operation *operation, void *arg)
{
    struct told *told = arg;
    int i = told->count++;
    double length = operation->ended - operation->started;

    if (i >= MOST)
        return;
    strcpy(told->names[i], operation->name);
    strcpy(told->label, operation->label);
    told->kinds[i] = operation->kind;
    told->sequences[i] = operation->sequence;
    told->statuses[i] = operation->status;
    if (operation->status < 0)
        snprintf(
            told->detail, sizeof(told->detail), "%s", symmcoll_last_error());
    if (operation->duration > 0 && operation->created <= operation->started &&
        operation->started <= operation->ended &&
        fabs(operation->duration - length) < 0.001 &&
        fabs(operation->ended - now(CLOCK_REALTIME)) < 100 &&
        are_monotonic(operation))
        return;
    told->right = false;
    diag("%s: created %f, started %f, ended %f, took %g", operation->name,
        operation->created, operation->started, operation->ended,
        operation->duration);
}

/* Creates a group that reports its operations. */
static struct symmcoll_group *open_group(
    struct symmcoll_group *all, int rank, struct told *told)
{
    struct symmcoll_group *group;

    memset(told, 0, sizeof(*told));
    told->right = true;
    if (!made(rank,
            symmcoll_group_create(symmcoll_group_world(all), NULL, &group)) ||
        !made(rank, symmcoll_group_notify(group, note, told)))
        abort();
    return group;
}

/* Returns how many operations of a name have been reported. */
static int count(const struct told *told, const char *name)
{
    int found = 0;

    for (int i = 0; i < told->count && i < MOST; i++)
        found += strcmp(told->names[i], name) == 0 &&
                 told->statuses[i] == SYMMCOLL_OK;
    return found;
}

static int broadcasts_are_told(struct symmcoll_group *all, int rank)
{
    struct told told;
    struct symmcoll_group *group = open_group(all, rank, &told);
    struct symmcoll_call call = SYMMCOLL_CALL_INIT;
    int buf[5000] = {rank};
    bool right = true;

    call.label = "weights";
    for (int i = 0; i < 8; i++) {
        struct symmcoll_work *work;
        size_t n = i % 4 < 2 ? 2 : 5000;

        if (i % 2 == 0) {
            right = made(rank, symmcoll_broadcast(group, buf, n, SYMMCOLL_INT32,
                                   0, &call, NULL)) &&
                    right;
            continue;
        }
        right = made(rank, symmcoll_broadcast(group, buf, n, SYMMCOLL_INT32, 0,
                               &call, &work)) &&
                made(rank, symmcoll_work_wait(work, -1)) && right;
        symmcoll_work_free(work);
    }
    right = made(rank, symmcoll_group_free(group)) && right;
    for (int i = 0; i < told.count && i < 8; i++)
        right = right && told.sequences[i] == (uint64_t)i + 1;
    return right && told.right && told.count == 8 &&
           count(&told, "broadcast") == 8 && strcmp(told.label, "weights") == 0;
}

static int kinds_are_told(struct symmcoll_group *all, int rank)
{
    struct told told;
    struct symmcoll_group *group = open_group(all, rank, &told);
    int size = symmcoll_group_size(group), in[8] = {rank}, out[8];
    int next = (rank + 1) % size, previous = (rank + size - 1) % size;
    bool right = true;

    for (int i = 0; i < 3; i++)
        right = right &&
                made(rank, symmcoll_all_reduce(group, out, in, 1,
                               SYMMCOLL_INT32, SYMMCOLL_SUM, NULL, NULL)) &&
                made(rank, symmcoll_broadcast(
                               group, in, 1, SYMMCOLL_INT32, 0, NULL, NULL)) &&
                made(rank, symmcoll_all_gather(
                               group, out, in, 1, SYMMCOLL_INT32, NULL, NULL));
    right = right && made(rank, symmcoll_barrier(group, NULL, NULL)) &&
            made(rank, symmcoll_send(group, in, 1, SYMMCOLL_INT32, next, 0,
                           NULL, NULL)) &&
            made(rank, symmcoll_recv(group, out, 1, SYMMCOLL_INT32, previous, 0,
                           NULL, NULL, NULL));
    right = made(rank, symmcoll_group_free(group)) && right;
    return right && told.right && told.count == 12 &&
           count(&told, "all_reduce") == 3 && count(&told, "broadcast") == 3 &&
           count(&told, "all_gather") == 3 && count(&told, "barrier") == 1 &&
           count(&told, "send") == 1 && count(&told, "recv") == 1 &&
           told.kinds[0] == SYMMCOLL_KIND_ALL_REDUCE &&
           told.kinds[1] == SYMMCOLL_KIND_BROADCAST &&
           told.kinds[2] == SYMMCOLL_KIND_ALL_GATHER &&
           told.kinds[9] == SYMMCOLL_KIND_BARRIER &&
           told.kinds[10] == SYMMCOLL_KIND_SEND &&
           told.kinds[11] == SYMMCOLL_KIND_RECV && told.sequences[9] == 10 &&
           told.sequences[11] == 2;
}

static int objects_are_told(struct symmcoll_group *all, int rank)
{
    struct told told;
    struct symmcoll_group *group = open_group(all, rank, &told);
    struct symmcoll_object mine = {0}, theirs[4] = {{0}};
    char bytes[300] = "an object";
    bool right;

    mine.data = bytes;
    mine.nbytes = 100 * (size_t)rank + 1;
    right = made(
        rank, symmcoll_all_gather_object(group, theirs, &mine, 1000, NULL));
    symmcoll_objects_free(theirs, (size_t)symmcoll_group_size(group));
    right = made(rank, symmcoll_group_free(group)) && right;
    return right && told.right && told.count == 2 &&
           count(&told, "all_gather") == 2;
}

static int a_reducer_is_told(struct symmcoll_group *all, int rank)
{
    struct told told;
    struct symmcoll_group *group = open_group(all, rank, &told);
    struct model model;
    struct symmcoll_reducer *reducer = model_begin(group, rank, &model, 64);
    bool right = reducer != NULL;
    int before, buckets = right ? symmcoll_reducer_bucket_count(reducer) : 0;

    model_fill(&model, rank, symmcoll_group_size(group), 0);
    right = right && made(rank, model_run_backward(reducer, &model, 1));
    symmcoll_reducer_free(reducer);
    right = made(rank, symmcoll_group_free(group)) && right;
    before = count(&told, "broadcast");
    return right && told.right && before > 0 && buckets > 0 &&
           count(&told, "all_reduce") >= buckets &&
           strcmp(told.names[told.count - 1], "all_reduce") == 0;
}

static int failures_are_told(struct symmcoll_group *all, int rank)
{
    struct told told;
    struct symmcoll_group *group = open_group(all, rank, &told);
    int in[8] = {0}, out[8];
    bool right;

    /* A call refused at once has no number. */
    right = symmcoll_all_reduce(group, NULL, in, 1, SYMMCOLL_INT32,
                SYMMCOLL_SUM, NULL, NULL) == SYMMCOLL_ERR_INVALID;
    right =
        symmcoll_all_reduce(group, out, in, rank == 0 ? 1 : 2, SYMMCOLL_INT32,
            SYMMCOLL_SUM, NULL, NULL) == SYMMCOLL_ERR_MISMATCH &&
        right;
    right = made(rank, symmcoll_barrier(group, NULL, NULL)) && right;
    right = made(rank, symmcoll_group_free(group)) && right;
    return right && told.right && told.count == 2 &&
           told.statuses[0] == SYMMCOLL_ERR_MISMATCH &&
           strstr(told.detail, "count differs") != NULL &&
           count(&told, "barrier") == 1;
}

/* Checks that operations of other groups are not reported, and that a second
 * registration of the same function is refused. */
static int a_group_tells_its_own(struct symmcoll_group *all, int rank)
{
    struct told told;
    struct symmcoll_group *group = open_group(all, rank, &told);
    int one[1] = {0};
    struct symmcoll_group *alone;
    bool right =
        symmcoll_group_notify(group, note, &told) == SYMMCOLL_ERR_INVALID &&
        strstr(symmcoll_last_error(), "the same again") != NULL &&
        symmcoll_group_notify(NULL, note, NULL) == SYMMCOLL_ERR_INVALID &&
        symmcoll_group_notify(all, NULL, NULL) == SYMMCOLL_ERR_INVALID;

    right = made(rank, symmcoll_barrier(all, NULL, NULL)) && right;
    right = made(rank, groups_create(all, one, 1, &alone)) && right;
    right = symmcoll_group_notify(alone, note, &told) ==
                (rank == 0 ? SYMMCOLL_OK : SYMMCOLL_NOT_MEMBER) &&
            right;
    right = made(rank, symmcoll_group_free(alone)) && right;
    right = made(rank, symmcoll_group_free(group)) && right;
    return right && told.count == 0;
}

/* The order in which functions are called. */
struct ordered {
    atomic_int *turn;
    int first, last, count; /* of its calls */
};

static void note_turn(const struct symmcoll_operation *operation, void *arg)
{
    struct ordered *ordered = arg;

    (void)operation;
    ordered->last = atomic_fetch_add(ordered->turn, 1);
    if (ordered->count++ == 0)
        ordered->first = ordered->last;
}

static int several_are_called_in_order(struct symmcoll_group *all, int rank)
{
    atomic_int turn = 0;
    struct ordered ordered[3] = {
        {&turn, 0, 0, 0}, {&turn, 0, 0, 0}, {&turn, 0, 0, 0}};
    bool right = true;

    for (int i = 0; i < 3; i++)
        right =
            made(rank, symmcoll_group_notify(all, note_turn, &ordered[i])) &&
            right;
    right = made(rank, symmcoll_barrier(all, NULL, NULL)) &&
            made(rank, symmcoll_group_drain(all, 60)) && right;
    for (int i = 0; i < 3; i++)
        right = ordered[i].count == 1 && ordered[i].first == i && right;
    right = made(rank, symmcoll_group_unnotify(all, note_turn, &ordered[1])) &&
            symmcoll_group_unnotify(all, note_turn, &ordered[1]) ==
                SYMMCOLL_ERR_INVALID &&
            symmcoll_group_unnotify(NULL, note_turn, &ordered[1]) ==
                SYMMCOLL_ERR_INVALID &&
            made(rank, symmcoll_barrier(all, NULL, NULL)) &&
            made(rank, symmcoll_group_drain(all, 60)) && right;
    right = ordered[0].count == 2 && ordered[1].count == 1 &&
            ordered[2].count == 2 && ordered[0].last == 3 &&
            ordered[2].last == 4 && right;
    for (int i = 0; i < 3; i += 2)
        right =
            made(rank, symmcoll_group_unnotify(all, note_turn, &ordered[i])) &&
            right;
    return made(rank, symmcoll_barrier(all, NULL, NULL)) &&
           made(rank, symmcoll_group_drain(all, 60)) &&
           atomic_load(&turn) == 5 && right;
}

/* A function that waits inside a call, or removes itself. */
struct removing {
    struct symmcoll_group *group;
    atomic_int inside, go, calls, left;
    symmcoll_status_t status;
};

static void wait_inside(const struct symmcoll_operation *operation, void *arg)
{
    struct removing *removing = arg;

    (void)operation;
    atomic_fetch_add(&removing->calls, 1);
    atomic_store(&removing->inside, 1);
    while (!atomic_load(&removing->go))
        sched_yield();
    atomic_store(&removing->left, 1);
}

static void remove_itself(const struct symmcoll_operation *operation, void *arg)
{
    struct removing *removing = arg;

    (void)operation;
    atomic_fetch_add(&removing->calls, 1);
    removing->status =
        symmcoll_group_unnotify(removing->group, remove_itself, removing);
}

static void *let_go(void *arg)
{
    struct removing *removing = arg;

    while (!atomic_load(&removing->inside))
        sched_yield();
    sched_yield();
    atomic_store(&removing->go, 1);
    return NULL;
}

/* Operations that ended before a function is removed, but have not been
 * reported to it, are not. */
static int removed_functions_are_not_called(
    struct symmcoll_group *all, int rank)
{
    struct removing waiting = {.group = all}, itself = {.group = all};
    pthread_t thread;
    bool right =
        made(rank, symmcoll_group_notify(all, wait_inside, &waiting)) &&
        made(rank, symmcoll_group_notify(all, remove_itself, &itself));

    for (int i = 0; right && i < 3; i++)
        right = made(rank, symmcoll_barrier(all, NULL, NULL));
    while (right && !atomic_load(&waiting.inside))
        sched_yield();
    right = right && pthread_create(&thread, NULL, let_go, &waiting) == 0;
    if (!right)
        return 0;
    right = made(rank, symmcoll_group_unnotify(all, wait_inside, &waiting)) &&
            atomic_load(&waiting.left) == 1;
    pthread_join(thread, NULL);
    return made(rank, symmcoll_group_drain(all, 60)) &&
           atomic_load(&waiting.calls) >= 1 &&
           atomic_load(&waiting.calls) <= 3 &&
           atomic_load(&itself.calls) == 1 && itself.status == SYMMCOLL_OK &&
           right;
}

/* A callback of one group releases another group, of which operations are
 * still to be reported. */
struct releasing {
    struct told told;
    struct symmcoll_group *group;
    atomic_int inside, go, freed, late, at_release, done;
};

static void note_before_release(
    const struct symmcoll_operation *operation, void *arg)
{
    struct releasing *releasing = arg;

    if (atomic_load(&releasing->freed))
        atomic_store(&releasing->late, 1);
    note(operation, &releasing->told);
}

static void release_inside(symmcoll_status_t status, void *arg)
{
    struct releasing *releasing = arg;

    atomic_store(&releasing->inside, 1);
    while (!atomic_load(&releasing->go))
        sched_yield();
    if (status != SYMMCOLL_OK ||
        symmcoll_group_free(releasing->group) != SYMMCOLL_OK)
        atomic_store(&releasing->late, 2);
    atomic_store(&releasing->freed, 1);
    atomic_store(&releasing->at_release, releasing->told.count);
    atomic_store(&releasing->done, 1);
}

static void mark_done(symmcoll_status_t status, void *arg)
{
    struct releasing *releasing = arg;

    (void)status;
    atomic_store(&releasing->done, 1);
}

static int a_callback_releases_another(struct symmcoll_group *all, int rank)
{
    struct releasing *releasing = calloc(1, sizeof(*releasing));
    struct symmcoll_work *work = NULL;
    bool right = releasing != NULL;
    int late, count;

    right = right &&
            made(rank, groups_create(all, NULL, 0, &releasing->group)) &&
            made(rank, symmcoll_group_notify(
                           releasing->group, note_before_release, releasing)) &&
            made(rank, symmcoll_barrier(all, NULL, &work)) &&
            made(rank, symmcoll_work_then(work, release_inside, releasing));
    if (!right)
        return 0;
    releasing->told.right = true;
    while (!atomic_load(&releasing->inside))
        sched_yield();
    for (int i = 0; i < 3; i++)
        right =
            made(rank, symmcoll_barrier(releasing->group, NULL, NULL)) && right;
    /* All ranks have received their data before any releases the group. */
    right = made(rank, symmcoll_barrier(all, NULL, NULL)) && right;
    atomic_store(&releasing->go, 1);
    while (!atomic_load(&releasing->done))
        sched_yield();
    symmcoll_work_free(work);
    /* Callbacks run in order: by now all pending ones have run. */
    work = NULL;
    atomic_store(&releasing->done, 0);
    right = made(rank, symmcoll_barrier(all, NULL, &work)) &&
            made(rank, symmcoll_work_then(work, mark_done, releasing)) && right;
    while (right && !atomic_load(&releasing->done))
        sched_yield();
    symmcoll_work_free(work);
    late = atomic_load(&releasing->late);
    count = atomic_load(&releasing->at_release);
    right = right && late == 0 && count == 3 && releasing->told.count == 3;
    if (!right)
        diag("rank %d: %d told at the release, %d in all, late: %d", rank,
            count, releasing->told.count, late);
    free(releasing);
    return right;
}

static int without_recorder(int rank, int size, void *arg)
{
    struct symmcoll_world *world;
    bool right;

    (void)rank;
    (void)size;
    (void)arg;
    setenv("SYMMCOLL_TRACE_BUFFER_SIZE", "0", 1);
    if (symmcoll_init(NULL, &world) != SYMMCOLL_OK)
        return 1;
    right = symmcoll_group_notify(symmcoll_world_group(world), note, NULL) ==
                SYMMCOLL_ERR_INVALID &&
            strstr(symmcoll_last_error(), "trace.buffer_size") != NULL;
    return symmcoll_finalize(world) != SYMMCOLL_OK || !right;
}

int main(void)
{
    static const struct {
        rank_fn body;
        const char *sentence;
    } points[] = {
        {broadcasts_are_told,
            "W15 C65: each broadcast is told, with its number and its times"},
        {kinds_are_told, "W15: operations of every kind are told"},
        {objects_are_told, "W15 C70: an all_gather_object is two all_gather"},
        {a_reducer_is_told, "W15 W16: those of a reducer are told"},
        {failures_are_told, "W15: so is one that fails, with its error"},
        {a_callback_releases_another,
            "W15: a callback that releases another group makes its calls"},
        {a_group_tells_its_own,
            "W15: a function is called for its own group alone, and added once"},
        {several_are_called_in_order,
            "W15: several functions are called in order, but for removed ones"},
        {removed_functions_are_not_called,
            "W15: a function is not called once it has been removed"},
    };
    int npoints = (int)(sizeof(points) / sizeof(points[0])), status;

    plan(2 * npoints + 1);
    for (int i = 0; i < npoints; i++) {
        ok(ranks_run(2, points[i].body), "%s (2 processes)",
            points[i].sentence);
        ok(threads_run(2, points[i].body), "%s (2 threads)",
            points[i].sentence);
    }
    ok(ranks_spawn(1, without_recorder, NULL, &status) && status == 0,
        "W15: without a recorder there are no times, and an error says so");
    return done_testing();
}
