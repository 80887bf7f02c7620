/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Tests settings that are off by default, on one device that threads or
 * processes share: data to send is searched for NaN, and the driver copies
 * data that is moved.
 */
#include "t/cuda/searched.h"
#include "t/gpu/gpu.h"
#include "t/gpu/ranks.h"

#include <stdlib.h>

/* Copies some bytes, odd sizes, the size of the staging memory, and more. */
static int copies(struct symmcoll_group *group, int rank)
{
    static const enum symc_kind kinds[] = {SYMC_ALL_GATHER, SYMC_ALL_TO_ALL};
    static const enum symmcoll_dtype dtypes[] = {F32, SYMMCOLL_UINT8};
    const size_t counts[] = {0, 1, 37, 2501, gpu_choose(70001, 5003, 5003)};
    int right = 1;

    device_use(rank);
    for (size_t i = 0; i < sizeof(counts) / sizeof(*counts); i++)
        for (int k = 0; k < 4 && right; k++) {
            const struct collective one = {.kind = kinds[k / 2],
                .dtype = dtypes[k % 2],
                .count = counts[i]};

            right = same_as_host(group, rank, &one);
        }
    return right;
}

static void search(void (*on_ranks)(int n, rank_fn body, const char *what))
{
    on_ranks(2, searched_fails_its_group,
        "a NaN that a rank sends fails its group with rank, element and count");
    on_ranks(2, searched_names_the_part, "of a list with the part");
    on_ranks(2, searched_names_the_buffer, "of several with the buffer");
    on_ranks(2, searched_is_what_is_sent,
        "what is received is not searched, and no integer is");
}

static void copy(void)
{
    static const char what[] =
        "all_gather and all_to_all by copies of the driver have the host's bits";

    for (int n = 2; n <= gpu_choose(3, 3, 2); n++)
        on_threads(n, copies, what);
    on_processes(2, copies, what);
}

int main(void)
{
    gpu_begin(120);
    setenv("SYMMCOLL_CUDA_STAGING", gpu_is_rehearsal() ? "4KiB" : "128KiB", 1);
    setenv("SYMMCOLL_ERRORS_NAN_CHECK", "error", 1);
    search(on_threads);
    search(on_processes);
    unsetenv("SYMMCOLL_ERRORS_NAN_CHECK");
    setenv("SYMMCOLL_CUDA_COPY_ENGINE", "on", 1);
    copy();
    return done_testing();
}
