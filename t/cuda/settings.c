/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The settings of device operations, each with what it changes: which kernels
 * run, how often, and on how many blocks.
 */
#include "t/cuda/kernels.h"
#include "t/cuda/members.h"

#include <stdio.h>
#include <stdlib.h>

#define COUNT 2000 /* floats: 8000 bytes */

/* Of the latest run, by ranks that are processes. */
static const char *expected_kernel;
static int expected_runs, expected_blocks;

/* How one operation runs. */
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

int main(void)
{
    static const char *const variables[] = {"SYMMCOLL_CUDA_STAGING",
        "SYMMCOLL_CUDA_PACKETS_MAX", "SYMMCOLL_CUDA_ONE_SHOT_MAX",
        "SYMMCOLL_CUDA_ONE_SHOT_MAX_TWO", "SYMMCOLL_CUDA_BLOCKS"};

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
    return done_testing();
}
