/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Tests cancelled threads. A thread that calls the library with a pending
 * cancellation would end at the first cancellation point inside, so each kind
 * of call is made that way, on its slow path if it has one. The call must
 * return, the thread ends afterwards, and the rank, its peers, locks and files
 * remain usable.
 */
#include "t/ranks.h"
#include "t/store/helpers.h"
#include "t/tap.h"

#include <fcntl.h>
#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

#define LARGE (1 << 20) /* elements, which use staging memory */

/* ---- a thread with a pending cancellation ---- */

typedef bool (*call_fn)(void *arg);

struct call {
    call_fn fn;
    void *arg;
    _Atomic bool begun;
    bool right;
    bool returned;
};

static void *call_and_end(void *arg)
{
    struct call *call = arg;

    atomic_store(&call->begun, true);
    call->right = call->fn(call->arg);
    call->returned = true;
    pthread_testcancel();
    return NULL;
}

static void *cancel_and_call(void *arg)
{
    int state;

    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &state);
    pthread_cancel(pthread_self());
    pthread_setcancelstate(state, NULL);
    return call_and_end(arg);
}

/* Checks that a call completed and that the thread was cancelled afterwards. */
static bool join_cancelled(pthread_t thread, const struct call *call)
{
    void *end = NULL;

    pthread_join(thread, &end);
    if (!call->returned)
        diag("the call was cancelled inside");
    else if (!call->right)
        diag("the call failed");
    else if (end != PTHREAD_CANCELED)
        diag("the thread was not cancelled");
    return call->returned && call->right && end == PTHREAD_CANCELED;
}

static bool returns_whole(call_fn fn, void *arg)
{
    struct call call = {.fn = fn, .arg = arg};
    pthread_t thread;

    return pthread_create(&thread, NULL, cancel_and_call, &call) == 0 &&
           join_cancelled(thread, &call);
}

/* ---- collectives ---- */

static bool barrier(void *arg)
{
    return symmcoll_barrier(arg, NULL, NULL) == SYMMCOLL_OK;
}

/* Rank 1 starts after the others have read its liveness word. */
static int late_peers_are_waited_for(struct symmcoll_group *group, int rank)
{
    bool right = barrier(group);

    if (rank == 1) {
        usleep(400000);
        right = barrier(group) && right;
    } else {
        right = returns_whole(barrier, group) && right;
    }
    return barrier(group) && right;
}

static int a_waiting_thread_is_cancelled(struct symmcoll_group *group, int rank)
{
    struct call call = {.fn = barrier, .arg = group};
    bool right = barrier(group);
    pthread_t thread;

    if (rank == 1) {
        usleep(500000);
        right = barrier(group) && right;
    } else {
        if (pthread_create(&thread, NULL, call_and_end, &call) != 0)
            return 0;
        while (!atomic_load(&call.begun))
            usleep(1000);
        usleep(50000);
        pthread_cancel(thread);
        right = join_cancelled(thread, &call) && right;
    }
    return barrier(group) && right;
}

static bool sum_many(void *arg)
{
    float *x = calloc(LARGE, sizeof(*x));
    bool right =
        x != NULL && symmcoll_all_reduce(arg, x, x, LARGE, SYMMCOLL_FLOAT32,
                         SYMMCOLL_SUM, NULL, NULL) == SYMMCOLL_OK;

    free(x);
    return right;
}

static int staging_is_reserved(struct symmcoll_group *group, int rank)
{
    (void)rank;
    return returns_whole(sum_many, group) && sum_many(group);
}

static void end_own_thread(symmcoll_status_t status, void *arg)
{
    _Atomic int *count = arg;

    if (status != SYMMCOLL_OK)
        return;
    pthread_cancel(pthread_self());
    pthread_testcancel();
    atomic_fetch_add(count, 1);
}

static bool start_and_wait(void *arg)
{
    struct symmcoll_group *group = arg;
    struct symmcoll_work *work = NULL;
    int64_t x = 1;
    _Atomic int count = 0;
    bool right =
        symmcoll_all_reduce(group, &x, &x, 1, SYMMCOLL_INT64, SYMMCOLL_SUM,
            NULL, &work) == SYMMCOLL_OK &&
        symmcoll_work_then(work, end_own_thread, &count) == SYMMCOLL_OK &&
        symmcoll_work_then(work, end_own_thread, &count) == SYMMCOLL_OK &&
        symmcoll_work_wait(work, 60) == SYMMCOLL_OK &&
        x == symmcoll_group_size(group);

    while (right && atomic_load(&count) < 2)
        sched_yield(); /* usleep() would be a cancellation point */
    symmcoll_work_free(work);
    return right;
}

static int works_are_waited_for(struct symmcoll_group *group, int rank)
{
    if (rank == 1)
        usleep(300000);
    return returns_whole(start_and_wait, group) && start_and_wait(group);
}

/* ---- failures ---- */

static bool time_out(void *arg)
{
    struct symmcoll_call call = SYMMCOLL_CALL_INIT;

    call.timeout = 0.2;
    return symmcoll_barrier(arg, &call, NULL) == SYMMCOLL_ERR_TIMEOUT;
}

static bool is_aborted(void *arg)
{
    return symmcoll_barrier(arg, NULL, NULL) == SYMMCOLL_ERR_ABORTED;
}

/* Rank 1 calls after rank 0 has timed out, and gets the error. */
static int timeouts_are_told(struct symmcoll_group *group, int rank)
{
    if (rank == 1) {
        while (symmcoll_group_error(group) == SYMMCOLL_OK)
            usleep(1000);
        return returns_whole(is_aborted, group) && is_aborted(group);
    }
    return returns_whole(time_out, group) && is_aborted(group) &&
           symmcoll_group_error(group) == SYMMCOLL_ERR_TIMEOUT;
}

static bool misses_a_peer(void *arg)
{
    return symmcoll_barrier(arg, NULL, NULL) == SYMMCOLL_ERR_PEER;
}

/* Rank 1 has finalized when rank 0 needs it. */
static int peers_that_left_are_missed(int rank, int size, void *arg)
{
    struct symmcoll_world *world;
    bool right = true;

    (void)size;
    (void)arg;
    if (symmcoll_init(NULL, &world) != SYMMCOLL_OK)
        return 1;
    if (rank == 0)
        right = returns_whole(misses_a_peer, symmcoll_world_group(world)) &&
                is_aborted(symmcoll_world_group(world));
    return symmcoll_finalize(world) == SYMMCOLL_OK && right ? 0 : 1;
}

/* ---- a world ---- */

static bool begin(void *arg)
{
    return symmcoll_init(NULL, arg) == SYMMCOLL_OK;
}

static bool use(void *arg)
{
    struct symmcoll_world *world = arg;
    const char *path = scratch_path();
    symmcoll_op_t op;
    bool right = symmcoll_trace_dump(world, path, 0) == SYMMCOLL_OK &&
                 symmcoll_op_create_premul(world, 2, &op) == SYMMCOLL_OK;
    int state;

    /* The file is the test's, and removing it is a cancellation point. */
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &state);
    unlink(path);
    pthread_setcancelstate(state, NULL);
    return right;
}

static bool end(void *arg)
{
    return symmcoll_finalize(arg) == SYMMCOLL_OK;
}

static int worlds_are_made_and_ended(int rank, int size, void *arg)
{
    struct symmcoll_world *world = NULL;

    (void)size;
    (void)arg;
    if (rank == 1)
        usleep(100000); /* rank 0 waits for it in init */
    for (int i = 0; i < 2; i++) {
        if (!returns_whole(begin, &world) ||
            !barrier(symmcoll_world_group(world)) ||
            !returns_whole(use, world) || !use(world) ||
            !returns_whole(end, world))
            return 1;
    }
    return 0;
}

/* ---- the reducer ---- */

static symmcoll_status_t sleep_in_hook(struct symmcoll_group *group,
    const struct symmcoll_bucket *bucket, void *arg,
    struct symmcoll_work **work)
{
    usleep(1000);
    return symmcoll_hook_all_reduce(group, bucket, arg, work);
}

struct training {
    struct symmcoll_group *group;
    struct symmcoll_reducer *reducer;
    float value, grad;
};

static bool create_reducer(void *arg)
{
    struct training *training = arg;
    struct symmcoll_reducer_args args = SYMMCOLL_REDUCER_ARGS_INIT;
    struct symmcoll_tensor param = {sizeof(struct symmcoll_tensor),
        &training->value, SYMMCOLL_FLOAT32, SYMMCOLL_HOST, 0, 1, {1}, {1}};

    args.hook = sleep_in_hook;
    return symmcoll_reducer_create(training->group, &param, 1, &args,
               &training->reducer) == SYMMCOLL_OK;
}

static bool take_step(void *arg)
{
    struct training *training = arg;
    struct symmcoll_tensor mean = SYMMCOLL_TENSOR_INIT;
    bool right =
        symmcoll_reducer_begin(training->reducer, 1) == SYMMCOLL_OK &&
        symmcoll_reducer_ready(training->reducer, 0, &training->grad) ==
            SYMMCOLL_OK &&
        symmcoll_reducer_finish(training->reducer) == SYMMCOLL_OK &&
        symmcoll_reducer_grad(training->reducer, 0, &mean) == SYMMCOLL_OK &&
        *(float *)mean.data == training->grad;

    symmcoll_reducer_zero(training->reducer);
    return right;
}

static int reducers_take_whole_steps(struct symmcoll_group *group, int rank)
{
    struct training training = {.group = group, .grad = 2};
    bool right = returns_whole(create_reducer, &training);

    for (int i = 0; right && i < 3; i++) {
        if (rank == 1)
            usleep(100000);
        right = returns_whole(take_step, &training);
    }
    right = right && take_step(&training);
    symmcoll_reducer_free(training.reducer);
    return right;
}

/* ---- stores and settings, without a world ---- */

/* Calls every function of a store, with its own memory; leaves "a" there. */
static bool use_store(void *arg)
{
    struct symmcoll_store *store = arg;
    const char *const keys[] = {"a", "b"};
    const void *values[] = {"1", "2"};
    const size_t sizes[] = {1, 1};
    enum symmcoll_store_outcome outcome;
    size_t nbytes, count;
    void *got[2] = {NULL, NULL};
    size_t got_nbytes[2];
    int64_t number;
    int removed;
    bool right =
        symmcoll_store_set(store, "a", "0", 1) == SYMMCOLL_OK &&
        symmcoll_store_add(store, "n", 1, &number) == SYMMCOLL_OK &&
        symmcoll_store_append(store, "n", "1", 1) == SYMMCOLL_OK &&
        symmcoll_store_compare_set(store, "a", "0", 1, "1", 1, &outcome, NULL,
            &nbytes) == SYMMCOLL_OK &&
        symmcoll_store_multi_set(store, keys, values, sizes, 2) ==
            SYMMCOLL_OK &&
        symmcoll_store_multi_get(store, keys, got, got_nbytes, 2) ==
            SYMMCOLL_OK &&
        symmcoll_store_num_keys(store, &count) == SYMMCOLL_OK &&
        symmcoll_store_delete(store, "b", &removed) == SYMMCOLL_OK &&
        symmcoll_store_wait(store, keys, 2, 0.05) == SYMMCOLL_ERR_TIMEOUT &&
        symmcoll_store_wait(store, keys, 1, 60) == SYMMCOLL_OK;

    free(got[0]);
    free(got[1]);
    return right;
}

static int hash_stores_go_on(const void *arg)
{
    struct symmcoll_store *store, *view;
    bool right;

    (void)arg;
    if (symmcoll_store_create_hash(&store) != SYMMCOLL_OK ||
        symmcoll_store_create_prefix(store, "p", &view) != SYMMCOLL_OK)
        return false;
    right = returns_whole(use_store, store) && returns_whole(use_store, view) &&
            use_store(store) && holds(store, "a", "1") &&
            holds(store, "p/a", "1");
    symmcoll_store_close(view);
    symmcoll_store_close(store);
    return right;
}

struct file_store {
    const char *path;
    struct symmcoll_store *store;
};

static bool open_file(void *arg)
{
    struct file_store *file = arg;

    return symmcoll_store_open_file(file->path, 2, &file->store) == SYMMCOLL_OK;
}

static bool use_file(void *arg)
{
    struct file_store *file = arg;

    return use_store(file->store);
}

static bool close_file(void *arg)
{
    struct file_store *file = arg;

    symmcoll_store_close(file->store);
    return true;
}

/* The other store opens the file itself, so that a lock left behind would
 * block it. */
static int file_stores_go_on(const void *arg)
{
    struct file_store cancelled = {.path = scratch_path()};
    struct file_store other = cancelled;
    bool right = returns_whole(open_file, &cancelled) && open_file(&other) &&
                 returns_whole(use_file, &cancelled) &&
                 returns_whole(use_file, &other) && use_file(&other) &&
                 holds(cancelled.store, "a", "1") && close_file(&other) &&
                 returns_whole(close_file, &cancelled) &&
                 access(cancelled.path, F_OK) != 0;

    (void)arg;
    unlink(cancelled.path);
    return right;
}

/* A callback of the program with a cancellation point. */
static void print(const struct symmcoll_setting *setting, void *arg)
{
    int fd = open("/dev/null", O_WRONLY | O_CLOEXEC);
    int *count = arg;

    (void)setting;
    if (fd >= 0)
        close(fd);
    ++*count;
}

static bool list_settings(void *arg)
{
    int count = 0;

    (void)arg;
    return symmcoll_config_each(print, NULL, &count) == SYMMCOLL_OK &&
           count > 10 &&
           symmcoll_config_get("host.spin", print, NULL, &count) ==
               SYMMCOLL_OK &&
           symmcoll_config_check("/nowhere", NULL, NULL) < 0;
}

/* ---- points ---- */

static void both(rank_fn body, const char *sentence)
{
    ok(ranks_run(2, body), "processes: %s", sentence);
    ok(threads_run(2, body), "threads: %s", sentence);
}

static bool ends_well(raw_rank_fn body)
{
    int statuses[2] = {0};

    return ranks_spawn(2, body, NULL, statuses) && statuses[0] == 0 &&
           statuses[1] == 0;
}

int main(void)
{
    both(late_peers_are_waited_for,
        "a collective whose peers are late ends before its thread");
    both(a_waiting_thread_is_cancelled,
        "a thread that is cancelled while it waits ends after the call");
    both(staging_is_reserved, "so does one that reserves memory");
    both(works_are_waited_for,
        "a work is waited for, and callbacks cannot end their thread");
    both(timeouts_are_told, "a timeout is told to both sides");
    ok(ends_well(peers_that_left_are_missed), "a peer that has left is missed");
    ok(ends_well(worlds_are_made_and_ended),
        "worlds are made, written out and ended");
    both(reducers_take_whole_steps, "a reducer takes whole steps, hooks too");
    ok(run_in_child(hash_stores_go_on, NULL),
        "a hash store has no lock left behind");
    ok(run_in_child(file_stores_go_on, NULL),
        "a file store has none, for others neither");
    ok(returns_whole(list_settings, NULL), "settings are listed to their end");
    return done_testing();
}
