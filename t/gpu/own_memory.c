/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Tests device memory of the program that is registered as symmetric, on one
 * device that threads or processes share: from cuMemAlloc(), and mapped.
 */
#include "t/cuda/members.h"
#include "t/gpu/gpu.h"
#include "t/gpu/ranks.h"
#include "t/symm_mem/own_on_device.h"

static int joins_allocated(struct symmcoll_group *group, int rank)
{
    return own_joins_allocated(group, rank) && own_joins_allocated(group, rank);
}

static int joins_mapped(struct symmcoll_group *group, int rank)
{
    return own_joins_mapped(group, rank) && own_joins_mapped(group, rank);
}

static void each(int n, void (*on_ranks)(int n, rank_fn body, const char *what))
{
    on_ranks(n, joins_allocated, "memory of cuMemAlloc(), twice");
    on_ranks(n, joins_mapped, "mapped memory, twice");
    on_ranks(n, own_joins_parts, "parts of an allocation, and two groups");
    on_ranks(n, own_joins_both_kinds, "of the library, and mapped");
    on_ranks(n, own_leaves_mapped_to_peers,
        "mapped memory remains for peers, and is left at the end");
}

int main(void)
{
    gpu_begin(200);
    for (int n = 2; n <= gpu_choose(4, 4, 2); n += 2)
        each(n, on_threads);
    each(2, on_processes);
    return done_testing();
}
