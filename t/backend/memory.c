/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Tests a second kind of memory, which the fake module serves with operations
 * that complete later: mixed with operations on host memory in one group, and
 * passed by some ranks only. memory_faults.c tests failures of the module.
 */
#include "modules.h"

#include "group/group.h"

#include <sched.h>
#include <sys/wait.h>

/* ---- what works ---- */

static int every_collective(struct symmcoll_group *group, int rank)
{
    float *at = device(rank);
    float *out = at + 64;
    int size = symmcoll_group_size(group), right;

    for (int i = 0; i < 2 * size; i++)
        at[i] = (float)(rank + 10 * i);
    right = say(symmcoll_all_gather(group, out, at, 2, F32, NULL, NULL) ==
                        SYMMCOLL_OK &&
                    out[2 * (size - 1) + 1] == (float)(size - 1 + 10),
        "all_gather");
    right &= say(symmcoll_reduce_scatter(
                     group, out, at, 2, F32, SUM, NULL, NULL) == SYMMCOLL_OK &&
                     out[1] == (float)(size * (size - 1) / 2 +
                                       size * 10 * (2 * rank + 1)),
        "reduce_scatter");
    right &= say(
        symmcoll_broadcast(group, at, 2, F32, 1, NULL, NULL) == SYMMCOLL_OK &&
            at[0] == 1 && at[1] == 11,
        "broadcast");
    at[0] = (float)rank;
    right &= say(symmcoll_gather(group, rank == 0 ? out : NULL, at, 1, F32, 0,
                     NULL, NULL) == SYMMCOLL_OK &&
                     (rank != 0 || out[size - 1] == (float)(size - 1)),
        "gather");
    right &= say(symmcoll_reduce(group, rank == 1 ? out : NULL, at, 1, F32, SUM,
                     1, NULL, NULL) == SYMMCOLL_OK &&
                     (rank != 1 || out[0] == (float)(size * (size - 1) / 2)),
        "reduce");
    for (int i = 0; i < size; i++)
        at[i] = (float)(10 * rank + i);
    right &= say(symmcoll_scatter(group, out, rank == 1 ? at : NULL, 1, F32, 1,
                     NULL, NULL) == SYMMCOLL_OK &&
                     out[0] == (float)(10 + rank),
        "scatter");
    right &= say(symmcoll_all_to_all(group, out, at, 1, F32, NULL, NULL) ==
                         SYMMCOLL_OK &&
                     out[size - 1] == (float)(10 * (size - 1) + rank),
        "all_to_all");
    return right && symmcoll_group_sequence(group) == 7 &&
           atomic_load(&control()->started) >= 7;
}

/* Mixes both kinds of memory, blocking and not, without waiting in between. */
static int mixed(struct symmcoll_group *group, int rank)
{
    float *at = device(rank);
    struct symmcoll_work *works[12];
    float host[12][2] = {{0}};
    int right = 1;

    for (int round = 0; round < 20 && right; round++) {
        for (int i = 0; i < 12; i++) {
            float *mine = i % 3 == 0 ? host[i] : at + 2 * i;

            mine[0] = (float)rank + 1;
            mine[1] = 0;
            right = right && symmcoll_all_reduce(group, mine + 1, mine, 1, F32,
                                 SUM, NULL, &works[i]) == SYMMCOLL_OK;
        }
        right = right && sum_host(group, rank) == SYMMCOLL_OK;
        for (int i = 0; i < 12; i++) {
            const float *mine = i % 3 == 0 ? host[i] : at + 2 * i;

            right = right && symmcoll_work_wait(works[i], 30) == SYMMCOLL_OK &&
                    mine[1] == expected_sum(group);
            symmcoll_work_free(works[i]);
        }
        right = right &&
                sum_device(group, at + 100, rank, NULL) == SYMMCOLL_OK &&
                at[101] == expected_sum(group);
    }
    return say(right, "mixed") && symmcoll_group_sequence(group) == 20 * 14;
}

/* Releases a work without waiting or testing: a thread of the library
 * completes it. */
static int released(struct symmcoll_group *group, int rank)
{
    float *at = device(rank);
    struct symmcoll_work *work;

    if (sum_device(group, at, rank, NULL) != SYMMCOLL_OK ||
        sum_device(group, at + 8, rank, &work) != SYMMCOLL_OK)
        return say(0, "released");
    symmcoll_work_free(work);
    if (symmcoll_barrier(group, NULL, NULL) != SYMMCOLL_OK)
        return say(0, "after it");
    while (atomic_load(&group->runner.queue->nrunning) > 0)
        sched_yield();
    return at[9] == expected_sum(group);
}

/* Operations that run at once; the recorder has all of them. */
#define MANY 9

static int count_entries(const struct symmcoll_group *group)
{
    const struct symc_trace_ring *ring = group->world->trace.ring;
    int count = 0;

    for (uint32_t i = 0; i < ring->capacity; i++)
        count += atomic_load(&ring->entries[i].lock) != 0 &&
                 atomic_load(&ring->entries[i].state) == SYMC_TRACE_COMPLETED;
    return count;
}

static bool has_begun(struct symmcoll_group *group)
{
    return atomic_load(&group->runner.queue->nrunning) > 0;
}

/* If the rank that hangs has continued, the work may have ended. */
static bool begins(struct symmcoll_group *group, struct symmcoll_work *work)
{
    symmcoll_status_t status = SYMMCOLL_IN_PROGRESS;

    while (status == SYMMCOLL_IN_PROGRESS && !has_begun(group))
        status = symmcoll_work_test(work);
    return status == SYMMCOLL_IN_PROGRESS || status == SYMMCOLL_OK;
}

/* Waits until all threads have called, since they share the module and none
 * may make it hang or continue earlier. round counts from 1. */
static void await_threads(const struct symmcoll_group *group, int round)
{
    static _Atomic int here;

    atomic_fetch_add(&here, 1);
    while (group->world->threads &&
           atomic_load(&here) < round * symmcoll_group_size(group))
        sched_yield();
}

static int recorded(struct symmcoll_group *group, int rank)
{
    struct symmcoll_work *works[MANY];
    float *at = device(rank);
    int right =
        say(sum_device(group, at + 100, rank, NULL) == SYMMCOLL_OK, "before");

    /* A first work starts the progress thread, and is not issued. */
    right &= released(group, rank);
    await_threads(group, 1);
    atomic_store(&control()->hangs, 1);
    for (int i = 0; i < MANY && right; i++) {
        right =
            say(sum_device(group, at + 2 * i, rank, &works[i]) == SYMMCOLL_OK,
                "a work");
        if (i == 0)
            right = right && begins(group, works[0]);
    }
    await_threads(group, 2);
    atomic_store(&control()->hangs, -1);
    for (int i = 0; i < MANY && right; i++) {
        right = say(symmcoll_work_wait(works[i], 30) == SYMMCOLL_OK, "its end");
        symmcoll_work_free(works[i]);
    }
    if (count_entries(group) != 4 + MANY)
        diag("%d entries", count_entries(group));
    return right && count_entries(group) == 4 + MANY;
}

/* Checks that a backend gets the devices of the members that open it. */
static int devices(struct symmcoll_group *group, int rank)
{
    float *at = device(rank) + (rank == 1 ? FAKE_NBYTES / 8 : 0);
    int right = say(sum_device(group, at, rank, NULL) == SYMMCOLL_OK, "a sum");

    for (int r = 0; r < symmcoll_group_size(group) && right; r++)
        right =
            say(atomic_load(&control()->devices[r]) == (r == 1), "a device");
    return right;
}

static int streams(struct symmcoll_group *group, int rank)
{
    float *at = device(rank), host[2] = {1, 0};
    struct symmcoll_call call = SYMMCOLL_CALL_INIT;

    call.stream = at + 7;
    at[0] = 1;
    return say(symmcoll_all_reduce(group, at + 1, at, 1, F32, SUM, &call,
                   NULL) == SYMMCOLL_OK &&
                   symmcoll_group_size(group) == (int)at[1],
               "stream") &&
           (symmcoll_group_size(group) > 2 ||
               atomic_load(&control()->stream) != NULL) &&
           ended(symmcoll_all_reduce(
                     group, host + 1, host, 1, F32, SUM, &call, NULL),
               SYMMCOLL_ERR_UNSUPPORTED, "expected no stream for host memory");
}

/* Checks that an operation without bytes has no place. */
static int empty(struct symmcoll_group *group, int rank)
{
    float *at = rank == 0 ? device(rank) : NULL;

    return say(symmcoll_all_reduce(group, at, at, 0, F32, SUM, NULL, NULL) ==
                   SYMMCOLL_OK,
        "empty");
}

/* ---- arguments that differ between ranks ---- */

static int one_passes_host_memory(struct symmcoll_group *group, int rank)
{
    float *at = device(rank), host[2] = {0, 42};
    int right = 1;

    for (int first = 0; first < 2; first++) { /* before the backend is open,
                                               * and after */
        float *mine = rank == 1 ? host : at;
        struct symmcoll_work *work = NULL;

        right &= ended(sum_device(group, mine, rank, NULL),
                     SYMMCOLL_ERR_MISMATCH, "memory differs") &&
                 strstr(symmcoll_last_error(), "rank 1 passed host memory") !=
                     NULL &&
                 mine[1] == 0;
        right &=
            say(sum_device(group, mine, rank, &work) == SYMMCOLL_OK, "a work");
        right &= ended(symmcoll_work_wait(work, 30), SYMMCOLL_ERR_MISMATCH,
            "memory differs");
        symmcoll_work_free(work);
        right &= say(sum_device(group, at, rank, NULL) == SYMMCOLL_OK &&
                         at[1] == expected_sum(group),
            "after it");
        right &= say(sum_host(group, rank) == SYMMCOLL_OK, "host after it");
    }
    return right;
}

static int other_arguments(struct symmcoll_group *group, int rank)
{
    float *at = device(rank);

    return ended(symmcoll_all_reduce(group, at + 8, at, rank == 1 ? 3 : 2, F32,
                     SUM, NULL, NULL),
               SYMMCOLL_ERR_MISMATCH, "count differs") &&
           say(sum_device(group, at, rank, NULL) == SYMMCOLL_OK, "after it");
}

static int two_memories_in_one_call(struct symmcoll_group *group, int rank)
{
    float *at = device(rank), host = 0;
    float *far = (float *)(void *)(control()->memory + FAKE_NBYTES / 2);
    char text[64];

    snprintf(text, sizeof(text), "in at %p in host memory", (void *)&host);
    return ended(symmcoll_all_reduce(group, at, &host, 1, F32, SUM, NULL, NULL),
               SYMMCOLL_ERR_INVALID, text) &&
           ended(symmcoll_all_reduce(group, far, at, 1, F32, SUM, NULL, NULL),
               SYMMCOLL_ERR_INVALID, "of device 1") &&
           symmcoll_group_sequence(group) == 0 &&
           say(sum_host(group, rank) == SYMMCOLL_OK, "after it");
}

static int type_that_it_has_not(struct symmcoll_group *group, int rank)
{
    float *at = device(rank);

    return ended(symmcoll_all_reduce(
                     group, at, at, 1, SYMMCOLL_INT32, SUM, NULL, NULL),
               SYMMCOLL_ERR_UNSUPPORTED, "all_reduce: fake has float32") &&
           say(sum_device(group, at, rank, NULL) == SYMMCOLL_OK, "after it");
}

/* Checks lists, which only the root passes. */
static int lists(struct symmcoll_group *group, int rank)
{
    float *at = device(rank);
    int size = symmcoll_group_size(group), right = 1;
    void *parts[8];

    for (int r = 0; r < size; r++) {
        parts[r] = at + 100 - 3 * r;
        at[100 - 3 * r] = (float)(10 * rank + r);
    }
    right &= say(symmcoll_scatter_list(group, at,
                     rank == 1 ? (const void *const *)parts : NULL, 1, F32, 1,
                     NULL, NULL) == SYMMCOLL_OK &&
                     at[0] == (float)(10 + rank),
        "scatter_list");
    right &= say(symmcoll_gather_list(group, rank == 0 ? parts : NULL, at, 1,
                     F32, 0, NULL, NULL) == SYMMCOLL_OK,
        "gather_list");
    for (int r = 0; r < size && rank == 0; r++)
        right &= say(at[100 - 3 * r] == (float)(10 + r), "a part");
    return right;
}

/* A buffer that cannot be packed is broadcast alone, and those around it
 * together. */
static int coalesced(struct symmcoll_group *group, int rank)
{
    float *at = device(rank);
    float host[3] = {(float)rank, (float)rank, (float)rank};
    void *bufs[] = {&host[0], at, &host[1], at + 8, &host[2]};
    static const size_t counts[] = {1, 2, 1, 2, 1};
    enum symmcoll_dtype dtypes[] = {F32, F32, F32, F32, F32};

    at[1] = at[9] = (float)rank;
    return say(symmcoll_broadcast_coalesced(group, bufs, counts, dtypes, 5,
                   1024, 1, NULL) == SYMMCOLL_OK,
               "coalesced") &&
           host[0] == 1 && host[1] == 1 && host[2] == 1 && at[1] == 1 &&
           at[9] == 1 && symmcoll_group_sequence(group) == 5;
}

/* Counts are compared as for host memory, and then all are refused alike. */
static int counts_that_it_has_not(struct symmcoll_group *group, int rank)
{
    float *at = device(rank);
    size_t size = (size_t)symmcoll_group_size(group);
    size_t in[8] = {0}, out[8] = {0};

    for (size_t r = 0; r < size; r++)
        in[r] = out[r] = 2;
    out[0] += rank == 1;
    return ended(symmcoll_all_to_all_v(group, at + 64, 2 * size + (rank == 1),
                     out, at, 2 * size, in, F32, NULL, NULL),
               SYMMCOLL_ERR_MISMATCH,
               "rank 0 passed 2 elements for rank 1, which expected 3") &&
           ended(symmcoll_all_to_all_v(group, at + 64, 2 * size, NULL, at,
                     2 * size, in, F32, NULL, NULL),
               SYMMCOLL_ERR_UNSUPPORTED, "all_to_all_v: fake has equal") &&
           ended(symmcoll_all_to_all_v(group, (float[8]){0}, size, NULL, at,
                     size, NULL, F32, NULL, NULL),
               SYMMCOLL_ERR_INVALID, "expected all buffers in one memory") &&
           say(sum_device(group, at, rank, NULL) == SYMMCOLL_OK, "after it");
}

/* ---- which backends ---- */

static int knows_host_memory_alone(struct symmcoll_group *group, int rank)
{
    static float at[2]; /* of no module, because none is loaded */

    at[0] = (float)rank;
    return control() == NULL && !group->world->registry.finds &&
           group->world->registry.count == 2 &&
           strcmp(group->world->registry.backends[0]->name, "host") == 0 &&
           symmcoll_all_reduce(group, at + 1, at, 1, F32, SUM, NULL, NULL) ==
               SYMMCOLL_OK;
}

static int are_in_order(struct symmcoll_group *group, int rank)
{
    const struct symc_registry *registry = &group->world->registry;

    (void)rank;
    return registry->count == 3 && registry->finds &&
           strcmp(registry->backends[0]->name, "host") == 0 &&
           strcmp(registry->backends[1]->name, "fake_module") == 0 &&
           strcmp(registry->backends[2]->name, "fake") == 0;
}

static int refuses_setting(int rank, int size, void *arg)
{
    struct symmcoll_world *world;

    (void)rank;
    (void)size;
    setenv("SYMMCOLL_BACKENDS", arg, 1);
    return ended(symmcoll_init(NULL, &world), SYMMCOLL_ERR_CONFIG,
               "backends: expected names of backends, found 'zebra'")
               ? 0
               : 1;
}

static int setting_is_checked(void)
{
    static char list[] = "host, zebra";
    int status;

    return ranks_spawn(1, refuses_setting, list, &status) &&
           WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

static void test_settings(void)
{
    ok(ranks_run(2, are_in_order), "backends are in the order of priority");
    setenv("SYMMCOLL_BACKENDS", "fake,host", 1);
    ok(ranks_run(2, knows_host_memory_alone),
        "the setting backends says which are loaded");
    unsetenv("SYMMCOLL_BACKENDS");
    ok(setting_is_checked(), "a name in it that is none is a CONFIG error");
}

int main(void)
{
    use_modules_of_tests();
    /* Makes calls without a work return after the data has moved. */
    setenv("SYMMCOLL_ERRORS_BLOCKING_WAIT", "on", 1);
    for (int n = 2; n <= 4; n++) {
        on_both(n, every_collective, "each collective on another memory");
        on_both(n, mixed, "works of two memories in one group");
        on_both(n, one_passes_host_memory, "host memory among others differs");
    }
    on_both(2, released, "a released work ends");
    on_both(2, recorded, "all that is under way is recorded");
    on_both(3, devices, "members know the devices of all when they open");
    on_both(2, streams, "a stream is passed on");
    on_both(3, empty, "no bytes are in no memory");
    on_both(2, other_arguments, "other arguments than memory are compared");
    on_both(2, two_memories_in_one_call, "out and in are in one memory");
    on_both(
        2, type_that_it_has_not, "an operation that all lack fails nothing");
    on_both(3, coalesced, "buffers of two memories are broadcast in order");
    on_both(3, lists, "lists of buffers in another memory");
    on_both(3, counts_that_it_has_not, "counts of each pair are compared");
    test_settings();
    return done_testing();
}
