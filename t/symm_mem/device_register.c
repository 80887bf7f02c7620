/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Tests registration of the program's own device memory: from cuMemAlloc() or
 * mapped, from any address on, joined with that of other ranks, and
 * deregistered.
 */
#include "t/cuda/later.h"
#include "t/symm_mem/own.h"
#include "t/symm_mem/own_on_device.h"

#include "group/group.h"

static int count_objects(void)
{
    return fake_live(FAKE_PHYSICAL) + fake_live(FAKE_MAPPED) +
           fake_live(FAKE_RESERVED) + fake_live(FAKE_ALLOCATED);
}

/* Runs the body twice: the first run allocates everything that a group needs
 * once, and the second leaves no object. */
static int leaves_nothing(struct symmcoll_group *group, int rank, rank_fn body)
{
    int before, right = body(group, rank);

    before = count_objects();
    right = right && body(group, rank);
    return right && (group->world->threads || HOLDS(count_objects() == before));
}

static int joins_allocated(struct symmcoll_group *group, int rank)
{
    return leaves_nothing(group, rank, own_joins_allocated);
}

static int joins_mapped(struct symmcoll_group *group, int rank)
{
    return leaves_nothing(group, rank, own_joins_mapped);
}

/* The program frees its memory next. */
static int waits_for_what_runs(struct symmcoll_group *group, int rank)
{
    struct later later;
    struct joined it;
    struct own own;
    char *source;
    bool right;

    device_use(rank);
    own = make_own(ALLOCATED, rank);
    source = device_alloc(NBYTES);
    right = begin_own(&it, group, rank, &own);
    fake_stall(it.stream);
    right =
        right && OK(symmcoll_symm_put_data(it.handle, rank, 0, source, NBYTES));
    later_resume(&later, it.stream);
    symmcoll_symm_release(it.handle);
    right = OK(symmcoll_symm_deregister(it.world, own.data)) && right;
    right = later_end(&later) && right;
    device_wait(it.stream);
    right = OK(symmcoll_group_set_stream(group, NULL)) && right;
    right = OK(symmcoll_barrier(group, NULL, NULL)) && right;
    device_end_stream(it.stream);
    device_free(source);
    free_own(&own);
    return right;
}

int main(void)
{
    device_begin();
    for (int n = 1; n <= 3; n++) {
        on_both(n, joins_allocated, "memory of cuMemAlloc() (S13)");
        on_both(n, joins_mapped, "mapped memory (S13)");
    }
    on_both(2, own_joins_parts, "parts of an allocation, and two groups (S13)");
    on_both(3, own_joins_both_kinds, "of the library, and mapped (S13)");
    on_both(2, own_leaves_mapped_to_peers,
        "mapped memory remains for peers, and is left at the end");
    on_both(2, waits_for_what_runs, "it is given back when no copy uses it");
    return done_testing();
}
