/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Tests symmetric memory that is registered with NCCL, with the stand-ins for
 * the driver and for NCCL: which operations use it, and how all members
 * continue when one cannot register, or has deregistered it.
 */
#include "t/nccl/lost.h"
#include "t/nccl/windowed.h"
#include "t/sanitized.h"

/* ---- operations that use windows ---- */

static enum use expected;

static int all_alike(struct symmcoll_group *group, int rank)
{
    struct memory one = {.handle = NULL}, other = {.handle = NULL};
    const int windows = expected == WINDOW;
    int right;

    begin(rank);
    right = allocate(group, rank, &one) && allocate(group, rank, &other) &&
            every_kind(group, rank, one.at + OUT, one.at, expected) &&
            have(windows) &&
            every_kind(group, rank, one.at + 256, one.at + OUT, expected) &&
            have(windows) &&
            every_kind(group, rank, other.at, one.at, expected) &&
            have(2 * windows) &&
            every_kind(group, rank, other.at + OUT, other.at, expected) &&
            have(2 * windows);
    return release(group, &one) && have(windows) && release(group, &other) &&
           have(0) && right;
}

static int takes_its_time(struct symmcoll_group *group, int rank)
{
    atomic_store(&find_nccl()->slow, 5);
    return all_alike(group, rank);
}

/* Checks the kinds for which NCCL does not use windows. */
static int others(struct symmcoll_group *group, int rank)
{
    const struct collective broadcast = {
        .kind = SYMC_BROADCAST, .dtype = SYMMCOLL_INT32, .count = ELEMENTS};
    struct memory one = {.handle = NULL};
    int right;

    begin(rank);
    right = allocate(group, rank, &one) &&
            collect(group, rank, &broadcast, one.at + OUT, one.at, PLAIN) &&
            have(0) &&
            collect(group, rank, &kinds[0], one.at + OUT, one.at, WINDOW) &&
            collect(group, rank, &broadcast, one.at + OUT, one.at, PLAIN);
    return release(group, &one) && right;
}

/* Rank 1 has its buffers at other offsets: before there is a window, and with
 * one. */
static int unlike(struct symmcoll_group *group, int rank)
{
    struct memory one = {.handle = NULL};
    char *own;
    int right;

    begin(rank);
    own = device_alloc(ROOM);
    right = allocate(group, rank, &one);
    for (int i = 0; i < 2 && right; i++)
        right = every_kind(group, rank, one.at + OUT + (rank == 1 ? 256 : 0),
                    one.at, PLAIN) &&
                every_kind(group, rank, rank == 1 ? own + OUT : one.at + OUT,
                    one.at, PLAIN) &&
                every_kind(group, rank, one.at + OUT, rank == 1 ? own : one.at,
                    PLAIN) &&
                have(i) &&
                every_kind(group, rank, one.at + OUT, one.at, WINDOW) &&
                have(1);
    device_free(own);
    return release(group, &one) && right;
}

/* ---- operations without windows ---- */

static int one_fails(struct symmcoll_group *group, int rank)
{
    struct memory one = {.handle = NULL};
    int right;

    begin(rank);
    if (rank == 1)
        atomic_store(&find_nccl()->window_result, SYMC_NCCL_INTERNAL_ERROR);
    right = allocate(group, rank, &one) &&
            every_kind(group, rank, one.at + OUT, one.at, PLAIN) && have(0) &&
            every_kind(group, rank, one.at + OUT, one.at, PLAIN);
    return release(group, &one) && right;
}

/* Rank 1 refuses before a window is created; earlier windows are no longer
 * used. */
static int one_refuses(struct symmcoll_group *group, int rank)
{
    struct memory one = {.handle = NULL}, other = {.handle = NULL};
    int right;

    begin(rank);
    right = allocate(group, rank, &one) && allocate(group, rank, &other) &&
            every_kind(group, rank, one.at + OUT, one.at, WINDOW) && have(1);
    if (rank == 1)
        setenv("NCCL_COMM_BLOCKING", "1", 1);
    right = right && every_kind(group, rank, other.at + OUT, other.at, PLAIN) &&
            every_kind(group, rank, one.at + OUT, one.at, PLAIN);
    unsetenv("NCCL_COMM_BLOCKING");
    right = right && every_kind(group, rank, other.at + OUT, other.at, PLAIN);
    return release(group, &one) && release(group, &other) && right;
}

/* Fills the memory with ones for a sum. */
static void fill_ones(const struct memory *memory)
{
    int32_t ones[ELEMENTS];

    for (size_t i = 0; i < ELEMENTS; i++)
        ones[i] = 1;
    device_write(memory->at, ones, sizeof(ones));
}

static int adds(struct symmcoll_group *group, const struct memory *memory,
    const struct symmcoll_call *call)
{
    return say(symmcoll_all_reduce(group, memory->at + OUT, memory->at,
                   ELEMENTS, SYMMCOLL_INT32, SUM, call, NULL) == SYMMCOLL_OK,
        "a sum");
}

static int has_sum(const struct memory *memory)
{
    int32_t found[ELEMENTS];
    int right = 1;

    device_read(found, memory->at + OUT, sizeof(found));
    for (size_t i = 0; i < ELEMENTS; i++)
        right = right && found[i] == SIZE;
    return say(right, "the sum of all");
}

/* Checks an operation that was enqueued in a window before rank 1 refuses
 * another window. */
static int what_runs_goes_on(struct symmcoll_group *group, int rank)
{
    struct memory one = {.handle = NULL}, other = {.handle = NULL};
    struct symmcoll_call call = SYMMCOLL_CALL_INIT;
    int32_t sum = 1; /* of the host */
    int right, windowed;

    begin(rank);
    right = allocate(group, rank, &one) && allocate(group, rank, &other) &&
            every_kind(group, rank, one.at + OUT, one.at, WINDOW);
    fill_ones(&one);
    fill_ones(&other);
    windowed = atomic_load(&find_nccl()->windowed);
    call.stream = device_stream();
    if (rank == 0)
        fake_stall(call.stream);
    right = right && adds(group, &one, &call);
    if (rank == 1)
        setenv("NCCL_COMM_BLOCKING", "1", 1);
    right = right && adds(group, &other, &call) &&
            say(atomic_load(&find_nccl()->windowed) == windowed + 1,
                "one in a window") &&
            symmcoll_all_reduce(group, &sum, &sum, 1, SYMMCOLL_INT32, SUM, NULL,
                NULL) == SYMMCOLL_OK; /* all have refused */
    unsetenv("NCCL_COMM_BLOCKING");
    if (rank == 0)
        fake_resume(call.stream);
    device_wait(call.stream);
    device_end_stream(call.stream);
    right = right && has_sum(&one) && has_sum(&other) &&
            every_kind(group, rank, one.at + OUT, one.at, PLAIN);
    return release(group, &one) && release(group, &other) && right;
}

/* Checks that ranks which are threads have no window, because no other process
 * can map their memory. */
static int threads_have_none(struct symmcoll_group *group, int rank)
{
    struct memory one = {.handle = NULL};
    struct symmcoll_call call = SYMMCOLL_CALL_INIT;
    int right;

    begin(rank);
    call.stream = device_stream();
    right = allocate(group, rank, &one) &&
            say(collective_call(group, &kinds[0], one.at + OUT, one.at, &call,
                    NULL) == SYMMCOLL_OK,
                "one of threads");
    device_wait(call.stream);
    device_end_stream(call.stream);
    return release(group, &one) &&
           say(atomic_load(&find_nccl()->windowed) == 0, "none is used") &&
           say(atomic_load(&find_nccl()->enqueued) > 0, "NCCL is") && right;
}

/* Rank 1 captures its operation: before there is a window, and with one. */
static int captured(struct symmcoll_group *group, int rank)
{
    struct symmcoll_call call = SYMMCOLL_CALL_INIT;
    struct memory one = {.handle = NULL};
    CUgraph graph = NULL;
    int right;

    begin(rank);
    right = allocate(group, rank, &one);
    call.stream = device_stream();
    for (int i = 0; i < 2 && right; i++) {
        if (rank == 1)
            right = cuStreamBeginCapture(call.stream,
                        CU_STREAM_CAPTURE_MODE_RELAXED) == CUDA_SUCCESS;
        right = say(collective_call(group, &kinds[2], one.at + OUT, one.at,
                        &call, NULL) == SYMMCOLL_OK,
                    "captured") &&
                have(i) && right;
        if (rank == 1) {
            CUgraphExec exec = NULL;

            right = cuStreamEndCapture(call.stream, &graph) == CUDA_SUCCESS &&
                    cuGraphInstantiate(&exec, graph, 0) == CUDA_SUCCESS &&
                    cuGraphLaunch(exec, call.stream) == CUDA_SUCCESS && right;
            device_wait(call.stream);
            (void)cuGraphExecDestroy(exec);
            (void)cuGraphDestroy(graph);
        }
        device_wait(call.stream);
        right = right &&
                collect(group, rank, &kinds[2], one.at + OUT, one.at, WINDOW);
    }
    device_end_stream(call.stream);
    return release(group, &one) && right;
}

/* ---- leaving ---- */

/* Frees the group first, or the memory. */
static int both_orders(struct symmcoll_group *all, int rank)
{
    struct symmcoll_group *group = NULL;
    struct memory one = {.handle = NULL};
    int right = 1;

    begin(rank);
    for (int i = 0; i < 2 && right; i++) {
        right =
            say(symmcoll_group_create(all->world, NULL, &group) == SYMMCOLL_OK,
                "a group") &&
            allocate(group, rank, &one) &&
            every_kind(group, rank, one.at + OUT, one.at, WINDOW) && have(1);
        if (i == 0)
            right = release(all, &one) && have(0) && right;
        right = say(symmcoll_group_free(group) == SYMMCOLL_OK, "its end") &&
                have(0) &&
                say(atomic_load(&find_nccl()->live) == 0, "none is left") &&
                right;
        if (i == 1)
            right = release(all, &one) && right;
    }
    return right;
}

/* Checks that no window is created while only rank 1 has left one. */
static int one_leaves_early(struct symmcoll_group *group, int rank)
{
    struct memory one = {.handle = NULL}, other = {.handle = NULL};
    int right;

    begin(rank);
    right = allocate(group, rank, &one) && allocate(group, rank, &other) &&
            every_kind(group, rank, one.at + OUT, one.at, WINDOW);
    if (rank == 1)
        right = release(group, &one) && right;
    right = right && have(rank != 1) &&
            every_kind(group, rank, other.at + OUT, other.at, PLAIN) &&
            have(rank != 1);
    if (rank != 1)
        right = release(group, &one) && right;
    right = right &&
            every_kind(group, rank, other.at + OUT, other.at, WINDOW) &&
            have(1);
    return release(group, &other) && right;
}

/* Creates many windows, each in the place of the one before. */
static int many(struct symmcoll_group *group, int rank)
{
    struct memory one = {.handle = NULL};
    int right = 1;

    begin(rank);
    for (int i = 0; i < 40 && right; i++)
        right = allocate(group, rank, &one) &&
                collect(group, rank, &kinds[0], one.at + OUT, one.at, WINDOW) &&
                have(1) && release(group, &one);
    return right;
}

/* Checks that a group's two communicators are kept. */
static int it_stays(struct symmcoll_group *group, int rank)
{
    const struct symmcoll_world *world = group->world;
    struct memory one = {.handle = NULL};
    struct symmcoll_group *made = NULL;
    int right;

    device_use(rank);
    __lsan_disable(); /* it cannot be freed */
    right =
        say(symmcoll_group_split(group, 0, rank, NULL, &made) == SYMMCOLL_OK,
            "a group") &&
        allocate(made, rank, &one) &&
        collect(made, rank, &kinds[0], one.at + OUT, one.at, WINDOW) &&
        say(world->nccl_comms == 2, "the two are counted") &&
        close_lost(made) &&
        say(world->nccl_comms == 0, "they are counted no more");
    __lsan_enable();
    return right;
}

int main(void)
{
    device_begin();
    name_nccl();
    setenv("SYMMCOLL_CUDA_NCCL_MIN", "1000", 1);
    expected = PLAIN;
    ok(ranks_run(SIZE, all_alike), "there are none unless they are asked for");
    setenv("SYMMCOLL_CUDA_NCCL_WINDOWS", "on", 1);
    name_nccl_of("t/nccl/few");
    ok(ranks_run(SIZE, all_alike), "NCCL before 2.28 has none");
    name_nccl();
    expected = WINDOW;
    ok(ranks_run(SIZE, all_alike),
        "cuda.nccl_windows: buffers in symmetric memory are in NCCL's");
    ok(ranks_run(SIZE, takes_its_time),
        "NCCL that takes its time to make one is waited for");
    ok(ranks_run(SIZE, others), "a broadcast makes none");
    ok(ranks_run(SIZE, unlike),
        "buffers that one rank has elsewhere are NCCL's without a window");
    ok(ranks_run(SIZE, one_fails),
        "where one rank makes none NCCL serves all without");
    ok(ranks_run(SIZE, one_refuses),
        "so it does where one refuses to, also for what has one");
    ok(ranks_run(SIZE, what_runs_goes_on), "what is in one by then goes on");
    ok(threads_run(SIZE, threads_have_none), "that of threads is in none");
    ok(ranks_run(SIZE, captured), "what is captured makes none");
    ok(ranks_run(SIZE, both_orders),
        "memory may be freed before its group, and after it");
    ok(ranks_run(SIZE, one_leaves_early),
        "while one rank alone has left one no other is made");
    ok(ranks_run(SIZE, many), "memory that is freed makes room for others");
    ok(ranks_run(SIZE, it_stays),
        "one of a group that is closed after what is lost is counted no more");
    return done_testing();
}
