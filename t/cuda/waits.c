/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Tests waits for works on devices: the result of every collective precedes
 * later work of the stream, also with two works in a row. With
 * errors.blocking_wait a wait that expires fails the group.
 */
#include "t/cuda/members.h"

#include "cuda/device_group.h"
#include "group/group.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define COUNT 30

/* ---- every collective ---- */

static const struct collective every[] = {{.kind = SYMC_ALL_REDUCE},
    {.kind = SYMC_REDUCE, .root = 1}, {.kind = SYMC_ALL_GATHER},
    {.kind = SYMC_ALL_GATHER, .listed = true}, {.kind = SYMC_REDUCE_SCATTER},
    {.kind = SYMC_REDUCE_SCATTER, .listed = true},
    {.kind = SYMC_BROADCAST, .root = 1}, {.kind = SYMC_SCATTER, .root = 1},
    {.kind = SYMC_SCATTER, .root = 1, .listed = true},
    {.kind = SYMC_GATHER, .root = 1}, {.kind = SYMC_ALL_TO_ALL},
    {.kind = SYMC_ALL_TO_ALL, .listed = true}};

/* One call: the host's input and expected output, and the memory of the
 * device. */
struct run {
    struct symmcoll_group *group;
    struct collective one;
    int rank;
    size_t in_nbytes, out_nbytes;
    void *in, *expected, *found; /* of the host */
    void *device_in, *device_out;
    CUstream stream;
    struct symmcoll_call call;
};

static CUdeviceptr address(const void *at)
{
    return (CUdeviceptr)(uintptr_t)at;
}

static int begin(struct run *run, struct symmcoll_group *group, int rank,
    const struct collective *one)
{
    int size = symmcoll_group_size(group);

    *run = (struct run){.group = group, .one = *one, .rank = rank};
    run->one.dtype = F32;
    run->one.op = SUM;
    run->one.count = COUNT;
    run->in_nbytes = collective_in_nbytes(&run->one, size);
    run->out_nbytes = collective_out_nbytes(&run->one, size);
    run->in = malloc(run->in_nbytes + run->out_nbytes);
    run->expected = malloc(run->out_nbytes);
    run->found = malloc(run->out_nbytes);
    fill(F32, run->in, run->in_nbytes / sizeof(float), (uint64_t)rank + 1);
    memset(run->expected, 0, run->out_nbytes);
    memset(run->found, 0, run->out_nbytes);
    run->device_in = device_alloc(run->in_nbytes);
    run->device_out = device_alloc(run->out_nbytes);
    run->call = (struct symmcoll_call)SYMMCOLL_CALL_INIT;
    run->stream = run->call.stream = device_stream();
    if (run->one.kind == SYMC_BROADCAST) /* in place */
        memcpy(run->expected, run->in, run->out_nbytes);
    return collective_call(group, &run->one, run->expected, run->in, NULL,
               NULL) == SYMMCOLL_OK;
}

static int end(struct run *run, int right)
{
    device_wait(run->stream);
    device_end_stream(run->stream);
    device_free(run->device_in);
    device_free(run->device_out);
    free(run->found);
    free(run->expected);
    free(run->in);
    return right;
}

/* Checks that the stream reads the same bytes as the host received. */
static int is_right(const struct run *run)
{
    return !collective_receives(&run->one, run->rank) ||
           memcmp(run->found, run->expected, run->out_nbytes) == 0;
}

/* The stream is blocked: the input arrives late, and so does everything after
 * it. */
static int waits_for_one(
    struct symmcoll_group *group, int rank, const struct collective *one)
{
    struct symmcoll_work *work = NULL;
    struct run run;
    int right = say(begin(&run, group, rank, one), "in host memory");
    bool moved = run.one.kind == SYMC_BROADCAST;

    fake_stall(run.stream);
    cuMemcpyAsync(address(moved ? run.device_out : run.device_in),
        address(run.in), moved ? run.out_nbytes : run.in_nbytes, run.stream);
    right = say(collective_call(group, &run.one, run.device_out, run.device_in,
                    &run.call, &work) == SYMMCOLL_OK,
                "the call") &&
            say(symmcoll_work_wait(work, -1) == SYMMCOLL_OK, "the wait") &&
            right;
    cuMemcpyAsync(address(run.found), address(run.device_out), run.out_nbytes,
        run.stream);
    right = right && say(symmcoll_work_test(work) == SYMMCOLL_IN_PROGRESS,
                         "the host does not wait");
    fake_resume(run.stream);
    device_wait(run.stream);
    symmcoll_work_free(work);
    if (!say(is_right(&run), "the result"))
        right = 0;
    if (!right)
        diag("%s%s", symc_kind_name(one->kind), one->listed ? ", a list" : "");
    return end(&run, right);
}

static int every_collective(struct symmcoll_group *group, int rank)
{
    struct collective first = {
        .kind = SYMC_ALL_REDUCE, .dtype = F32, .count = COUNT};
    int right;

    device_use(rank);
    right = same_as_host(group, rank, &first); /* opens the backend */
    for (size_t i = 0; i < sizeof(every) / sizeof(*every) && right; i++)
        right = waits_for_one(group, rank, &every[i]);
    return right;
}

/* ---- consecutive works ---- */

/* Runs each on the result of the one before it, with a wait between them or
 * none. */
static int in_a_row(struct symmcoll_group *group, int rank)
{
    struct symmcoll_work *works[4] = {NULL};
    float size = (float)symmcoll_group_size(group), one = 1, found = 0;
    struct symmcoll_call call = SYMMCOLL_CALL_INIT;
    void *at;
    int right = 1;

    device_use(rank);
    at = device_alloc(sizeof(float));
    call.stream = device_stream();
    fake_stall(call.stream);
    cuMemcpyAsync(address(at), address(&one), sizeof(one), call.stream);
    for (int i = 0; i < 4; i++) {
        right = right && say(symmcoll_all_reduce(group, at, at, 1, F32, SUM,
                                 &call, &works[i]) == SYMMCOLL_OK,
                             "the call");
        if (i % 2 == 0)
            right =
                right &&
                say(symmcoll_work_wait(works[i], -1) == SYMMCOLL_OK, "a wait");
    }
    right = right && say(symmcoll_work_wait(works[3], -1) == SYMMCOLL_OK &&
                             symmcoll_work_wait(works[1], -1) == SYMMCOLL_OK,
                         "waits in the other order");
    cuMemcpyAsync(address(&found), address(at), sizeof(found), call.stream);
    fake_resume(call.stream);
    device_wait(call.stream);
    right = right && say(found == size * size * size * size, "the result");
    for (int i = 0; i < 4; i++)
        symmcoll_work_free(works[i]);
    device_end_stream(call.stream);
    device_free(at);
    return right;
}

/* ---- concurrent waits and tests ---- */

#define ROUNDS 20

struct tested {
    struct symmcoll_work *works[2];
    _Atomic bool ended;
};

static void *test_both(void *arg)
{
    struct tested *tested = arg;
    symmcoll_status_t status;

    do /* a timeout is not an error of the work */
        status = symmcoll_work_wait(tested->works[1], 0.001);
    while ((status == SYMMCOLL_OK || status == SYMMCOLL_ERR_TIMEOUT) &&
           (symmcoll_work_test(tested->works[0]) == SYMMCOLL_IN_PROGRESS ||
               symmcoll_work_test(tested->works[1]) == SYMMCOLL_IN_PROGRESS));
    tested->ended = true;
    return NULL;
}

/* Another thread tests two works, so that their tokens may end at any time,
 * while this thread makes the stream wait for both. */
static int one_round(struct symmcoll_group *group, void *at, CUstream stream)
{
    struct symmcoll_call call = SYMMCOLL_CALL_INIT;
    struct tested tested = {.works = {NULL}};
    float one = 1, size = (float)symmcoll_group_size(group), found = 0;
    pthread_t thread;
    int right = 1;

    call.stream = stream;
    cuMemcpyAsync(address(at), address(&one), sizeof(one), stream);
    for (int i = 0; i < 2; i++)
        right = say(symmcoll_all_reduce(group, at, at, 1, F32, SUM, &call,
                        &tested.works[i]) == SYMMCOLL_OK,
                    "a call") &&
                right;
    pthread_create(&thread, NULL, test_both, &tested);
    for (int i = 0; i < 2; i++)
        right = say(symmcoll_work_wait(tested.works[i], -1) == SYMMCOLL_OK,
                    "a wait") &&
                right;
    cuMemcpyAsync(address(&found), address(at), sizeof(found), stream);
    device_wait(stream);
    pthread_join(thread, NULL);
    for (int i = 0; i < 2; i++)
        symmcoll_work_free(tested.works[i]);
    return say(found == size * size && tested.ended, "the result") && right;
}

static int beside_tests(struct symmcoll_group *group, int rank)
{
    CUstream stream;
    void *at;
    int right = 1;

    device_use(rank);
    at = device_alloc(sizeof(float));
    stream = device_stream();
    for (int i = 0; i < ROUNDS && right; i++)
        right = one_round(group, at, stream);
    device_end_stream(stream);
    device_free(at);
    return right;
}

/* ---- errors.blocking_wait ---- */

static symmcoll_status_t add(struct symmcoll_group *group, void *at,
    bool barrier, struct symmcoll_work **work)
{
    return barrier
               ? symmcoll_barrier(group, NULL, work)
               : symmcoll_all_reduce(group, at, at, 1, F32, SUM, NULL, work);
}

/* Rank 0 calls after the other rank's wait has timed out: the group has failed
 * on both, and later calls return the cause (W8). */
static int expires(
    struct symmcoll_group *group, void *at, int rank, bool barrier)
{
    struct symmcoll_work *work = NULL;
    int right = 1;

    if (rank == 0) {
        while (symmcoll_group_error(group) == SYMMCOLL_OK)
            usleep(1000);
        right = say(add(group, at, barrier, NULL) < 0, "a late call");
    } else {
        right =
            say(add(group, at, barrier, &work) == SYMMCOLL_OK, "the call") &&
            ended(symmcoll_work_wait(work, 0.05), SYMMCOLL_ERR_TIMEOUT,
                "blocking_wait on");
        symmcoll_work_free(work);
    }
    return ended(add(group, at, barrier, NULL), SYMMCOLL_ERR_ABORTED,
               "blocking_wait on") &&
           symmcoll_group_error(group) == SYMMCOLL_ERR_TIMEOUT && right;
}

/* arg: whether the operation is a barrier. */
static int fails_the_group(int rank, int size, void *arg)
{
    struct symmcoll_world *world;
    struct symmcoll_group *group;
    void *at;
    int right;

    (void)size;
    setenv("SYMMCOLL_ERRORS_BLOCKING_WAIT", "on", 1);
    if (symmcoll_init(NULL, &world) != SYMMCOLL_OK)
        return 1;
    group = symmcoll_world_group(world);
    device_use(rank);
    at = device_alloc(sizeof(float));
    right = say(add(group, at, false, NULL) == SYMMCOLL_OK, "the first call") &&
            expires(group, at, rank, arg != NULL);
    right = symmcoll_finalize(world) == SYMMCOLL_OK && right;
    device_free(at);
    device_free(device_alloc(64)); /* the device stays usable (W6) */
    return right ? 0 : 1;
}

static int both_fail(void *arg)
{
    int statuses[2] = {0};

    return ranks_spawn(2, fails_the_group, arg, statuses) && statuses[0] == 0 &&
           statuses[1] == 0;
}

/* ---- a kernel that is timing out ---- */

/* A concurrent kernel of this rank has claimed the failure record but not
 * filled it in, so the rank's own operation may have waited for no peer. */
static int is_half_told(struct symmcoll_group *group, float *at)
{
    struct symc_cuda_group *state =
        group->runner.slots[SYMC_MEMORY_DEVICE].state;
    struct symc_device_failure *failure = &state->words->failure;
    struct symmcoll_work *work = NULL;
    uint64_t launches = fake_calls("cuLaunchKernelEx");
    int right;

    __atomic_store_n(
        &failure->reason, (uint32_t)SYMC_DEVICE_TIMEOUT, __ATOMIC_RELEASE);
    right = say(add(group, at, false, &work) == SYMMCOLL_OK, "the second call");
    while (right && fake_calls("cuLaunchKernelEx") == launches)
        usleep(1000); /* until both have called */
    right = right && cuCtxSynchronize() == CUDA_SUCCESS;
    for (int i = 0; i < 100 && right; i++)
        right = say(symmcoll_work_test(work) == SYMMCOLL_IN_PROGRESS,
            "its work before it is told");
    failure->peer = 1;
    failure->number = state->numbered;
    __atomic_store_n(&failure->complete, 1, __ATOMIC_RELEASE);
    right =
        ended(symmcoll_work_wait(work, 60), SYMMCOLL_ERR_TIMEOUT, "rank 1") &&
        right;
    symmcoll_work_free(work);
    return right;
}

static int is_told_why(int rank, int size, void *arg)
{
    struct symmcoll_world *world;
    struct symmcoll_group *group;
    float *at;
    int right;

    (void)size;
    (void)arg;
    if (symmcoll_init(NULL, &world) != SYMMCOLL_OK)
        return 1;
    group = symmcoll_world_group(world);
    device_use(rank);
    at = device_alloc(sizeof(*at));
    right = say(add(group, at, false, NULL) == SYMMCOLL_OK, "the first call");
    if (rank == 0)
        right = is_half_told(group, at) && right;
    else
        (void)add(group, at, false, NULL);
    while (symmcoll_group_error(group) == SYMMCOLL_OK)
        usleep(1000);
    right = symmcoll_finalize(world) == SYMMCOLL_OK && right;
    device_free(at);
    return right ? 0 : 1;
}

static int half_told(void)
{
    int statuses[2] = {0};

    return ranks_spawn(2, is_told_why, NULL, statuses) && statuses[0] == 0 &&
           statuses[1] == 0;
}

int main(void)
{
    device_begin();
    on_both(2, every_collective,
        "what a stream has after a wait comes after any collective (W2, W3)");
    on_both(3, every_collective,
        "what a stream has after a wait comes after any collective (W2, W3)");
    on_both(3, in_a_row, "works in a row on one buffer (W3)");
    on_both(2, beside_tests, "waits while another thread tests the works");
    ok(both_fail(NULL),
        "with errors.blocking_wait an expired wait fails the group (W5, W8)");
    ok(both_fail((void *)"barrier"),
        "so does an expired wait for a barrier (W7, W8)");
    ok(half_told(),
        "what ends since a kernel gives up has ended when that has said why");
    return done_testing();
}
