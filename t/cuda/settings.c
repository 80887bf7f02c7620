/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Tests the settings of device operations by their effect: which kernels run,
 * how often, and with how many blocks.
 */
#include "t/cuda/kernels.h"
#include "t/cuda/members.h"

#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>

#define COUNT 2000 /* floats: 8000 bytes */

/* The latest run by ranks that are processes. */
static const char *expected_kernel;
static int expected_runs, expected_blocks;

/* Checks the kernel, the number of runs and the blocks of one operation. */
static int runs_so(struct symmcoll_group *group, int rank)
{
    struct collective one = {
        .kind = SYMC_ALL_REDUCE, .dtype = F32, .count = COUNT};
    int right, runs, blocks;

    device_use(rank);
    right = same_as_host(group, rank, &one);
    runs = kernels_runs(expected_kernel);
    blocks = fake_blocks_max(rank);
    if (runs == expected_runs && blocks == expected_blocks)
        return right;
    diag("%s ran %d times on %d blocks at most, not %d on %d", expected_kernel,
        runs, blocks, expected_runs, expected_blocks);
    return 0;
}

static int with(int n, const char *variable, const char *value,
    const char *kernel, int runs, int blocks)
{
    int right;

    if (variable != NULL)
        setenv(variable, value, 1);
    expected_kernel = kernel;
    expected_runs = runs;
    expected_blocks = blocks;
    right = ranks_run(n, runs_so);
    if (variable != NULL)
        unsetenv(variable);
    return right;
}

/* ---- copies ---- */

/* Checks whether both kinds use copies or the kernel. */
static int moves_by(struct symmcoll_group *group, int rank, bool copies)
{
    static const enum symc_kind kinds[] = {SYMC_ALL_GATHER, SYMC_ALL_TO_ALL};
    int right = 1;

    device_use(rank);
    for (int i = 0; i < 2 && right; i++) {
        struct collective one = {.kind = kinds[i], .dtype = F32, .count = 333};
        int pulls = kernels_runs("symc_pull"),
            barriers = kernels_runs("symc_barrier");

        right = same_as_host(group, rank, &one);
        pulls = kernels_runs("symc_pull") - pulls;
        barriers = kernels_runs("symc_barrier") - barriers;
        if ((pulls == 0) == copies && (barriers > 0) == copies)
            continue;
        diag("the kernel ran %d times, copies are%s expected", pulls,
            copies ? "" : " not");
        return 0;
    }
    return right;
}

static int copies(struct symmcoll_group *group, int rank)
{
    return moves_by(group, rank, true);
}

/* Checks that ranks agree on copies when one rank's settings disable them. */
static int agrees_on_copies(int rank, int size, void *arg)
{
    struct symmcoll_world *world;
    int right;

    (void)size;
    (void)arg;
    if (rank == 1)
        setenv("SYMMCOLL_CUDA_COPY_ENGINE", "off", 1);
    if (symmcoll_init(NULL, &world) != SYMMCOLL_OK)
        return 1;
    right = moves_by(symmcoll_world_group(world), rank, false);
    return !right || symmcoll_finalize(world) != SYMMCOLL_OK;
}

static void test_copies(void)
{
    int statuses[3], right;

    setenv("SYMMCOLL_CUDA_COPY_ENGINE", "on", 1);
    ok(ranks_run(3, copies),
        "cuda.copy_engine: all_gather and all_to_all are copies by the driver");
    right = ranks_spawn(3, agrees_on_copies, NULL, statuses);
    for (int r = 0; r < 3; r++)
        right = right && statuses[r] == 0;
    ok(right, "where one rank has it off they are kernels on all");
    unsetenv("SYMMCOLL_CUDA_COPY_ENGINE");
}

/* ---- concurrent groups on a device that ranks share ---- */

#define MANY 8192 /* floats: 4 blocks of a kernel */
#define SMS 8     /* multiprocessors */

static pthread_barrier_t both_ranks;

/* Enqueues a sum on a stream, in a group. */
static int enqueue(
    struct symmcoll_group *group, void *at, size_t count, CUstream stream)
{
    struct symmcoll_call call = SYMMCOLL_CALL_INIT;

    call.stream = stream;
    return ended(
        symmcoll_all_reduce(group, at, at, count, F32, SUM, &call, NULL),
        SYMMCOLL_OK, "");
}

/* Opens the groups one after the other; at most two blocks run at once. */
static int open_all(
    struct symmcoll_group *const *groups, void *const *at, CUstream stream)
{
    int right = 1;

    for (int i = 0; i < 2; i++) {
        right = enqueue(groups[i], at[i], 1, stream) && right;
        device_wait(stream);
        pthread_barrier_wait(&both_ranks);
    }
    return right;
}

/* The kernels of one rank wait for those of the other, which have not begun. */
static int all_are_resident(struct symmcoll_group *group, int rank)
{
    struct symmcoll_group *groups[2] = {group, NULL};
    CUstream streams[2];
    void *at[2];
    int right;

    device_use(0);
    right = ended(
        symmcoll_group_create(symmcoll_group_world(group), NULL, &groups[1]),
        SYMMCOLL_OK, "");
    for (int i = 0; i < 2; i++) {
        streams[i] = device_stream();
        at[i] = device_alloc(MANY * sizeof(float));
    }
    right = right && open_all(groups, at, streams[0]);
    for (int i = 0; i < 2 && rank == 1; i++)
        fake_stall(streams[i]);
    for (int i = 0; i < 2 && right; i++)
        right = enqueue(groups[i], at[i], MANY, streams[i]);
    while (right && fake_blocks_max(0) < expected_blocks / 2)
        sched_yield();
    for (int i = 0; i < 2; i++) {
        if (rank == 1)
            fake_resume(streams[i]);
        device_wait(streams[i]);
    }
    pthread_barrier_wait(&both_ranks);
    if (fake_blocks_max(0) > expected_blocks)
        diag("%d blocks at once on %d multiprocessors", fake_blocks_max(0),
            expected_blocks);
    for (int i = 0; i < 2; i++) {
        device_free(at[i]);
        device_end_stream(streams[i]);
    }
    return ended(symmcoll_group_free(groups[1]), SYMMCOLL_OK, "") && right &&
           fake_blocks_max(0) <= expected_blocks;
}

static int is_refused(struct symmcoll_group *group, int rank)
{
    CUstream stream;
    void *at;
    int right;

    device_use(0);
    (void)rank;
    stream = device_stream();
    at = device_alloc(sizeof(float));
    right = ended(symmcoll_all_reduce(group, at, at, 1, F32, SUM, NULL, NULL),
        SYMMCOLL_ERR_UNSUPPORTED,
        "expected 10 multiprocessors or more, one for each of 2 ranks on a "
        "device in each of 5 groups (cuda.groups), found 8 for rank 0");
    device_free(at);
    device_end_stream(stream);
    return right;
}

static void check_groups(void)
{
    fake_configure("devices=1 sms=8");
    setenv("SYMMCOLL_CUDA_SHARE_DEVICE", "on", 1);
    setenv("SYMMCOLL_CUDA_GROUPS", "2", 1);
    expected_blocks = SMS;
    pthread_barrier_init(&both_ranks, NULL, 2);
    ok(threads_run(2, all_are_resident),
        "cuda.groups: the kernels of so many fit on a shared device at once");
    setenv("SYMMCOLL_CUDA_GROUPS", "5", 1);
    ok(ranks_run(2, is_refused), "more than fit there are refused");
    pthread_barrier_destroy(&both_ranks);
}

int main(void)
{
    static const char *const variables[] = {"SYMMCOLL_CUDA_STAGING",
        "SYMMCOLL_CUDA_PACKETS_MAX", "SYMMCOLL_CUDA_ONE_SHOT_MAX",
        "SYMMCOLL_CUDA_ONE_SHOT_MAX_TWO", "SYMMCOLL_CUDA_BLOCKS",
        "SYMMCOLL_CUDA_GROUPS"};

    device_begin();
    for (size_t i = 0; i < sizeof(variables) / sizeof(*variables); i++)
        unsetenv(variables[i]);
    ok(with(3, NULL, NULL, "symc_packets_f32", 1, 4),
        "by default few bytes are sent in packets");
    ok(with(3, "SYMMCOLL_CUDA_PACKETS_MAX", "2KiB", "symc_one_shot_f32", 1, 1),
        "cuda.packets_max: larger reductions are not");
    setenv("SYMMCOLL_CUDA_PACKETS_MAX", "0", 1);
    ok(with(3, "SYMMCOLL_CUDA_ONE_SHOT_MAX", "2KiB", "symc_two_shot_f32", 1, 1),
        "cuda.one_shot_max: larger ones take two steps");
    ok(with(2, "SYMMCOLL_CUDA_ONE_SHOT_MAX", "2KiB", "symc_one_shot_f32", 1, 1),
        "it is not for two ranks");
    ok(with(2, "SYMMCOLL_CUDA_ONE_SHOT_MAX_TWO", "2KiB", "symc_two_shot_f32", 1,
           1),
        "cuda.one_shot_max_two is");
    ok(with(3, "SYMMCOLL_CUDA_STAGING", "8KiB", "symc_one_shot_f32", 1, 1) &&
            with(3, "SYMMCOLL_CUDA_STAGING", "4KiB", "symc_one_shot_f32", 2, 1),
        "cuda.staging: what does not fit there takes several kernels");
    setenv("SYMMCOLL_CUDA_PACKETS_MAX", "16KiB", 1);
    ok(with(3, "SYMMCOLL_CUDA_BLOCKS", "1", "symc_one_shot_f32", 1, 1),
        "cuda.blocks: no kernel has more, so fewer bytes go in packets");
    unsetenv("SYMMCOLL_CUDA_BLOCKS");
    test_copies();
    check_groups();
    return done_testing();
}
