/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Tests a rank that publishes its line and leaves the group while another one
 * checks whether it has: the published line counts.
 */
#include "../coll/data.h"
#include "../tap.h"

#include "group/group.h"

#include <symmcoll.h>

#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/mman.h>

/* State shared by the two ranks, processes or threads. */
static struct {
    _Atomic int looks; /* rank 0 checks whether rank 1 has left */
    _Atomic int left;  /* it has */
} * shared;

static bool (*is_failed)(void *context, int member);

/* Replaces the group's function: rank 1 leaves at the moment of the check. */
static bool leave_first(void *context, int member)
{
    if (member == 1) {
        atomic_store(&shared->looks, 1);
        while (atomic_load(&shared->left) == 0)
            sched_yield();
    }
    return is_failed(context, member);
}

static bool is_ok(symmcoll_status_t status)
{
    if (status != SYMMCOLL_OK)
        diag("%s", symmcoll_last_error());
    return status == SYMMCOLL_OK;
}

static bool make(struct symmcoll_group *all, struct symmcoll_group **part)
{
    return is_ok(symmcoll_group_create(symmcoll_group_world(all), NULL, part));
}

static int leaves_at_once(struct symmcoll_group *all, int rank)
{
    struct symmcoll_group *part;
    struct symmcoll_work *work = NULL;
    int64_t in = rank + 1, out = 0;
    bool right;

    if (rank == 0) {
        atomic_store(&shared->looks, 0);
        atomic_store(&shared->left, 0);
    }
    if (!make(all, &part))
        return 0;
    if (rank == 1) {
        while (atomic_load(&shared->looks) == 0)
            sched_yield();
        right = is_ok(symmcoll_all_reduce(
            part, &out, &in, 1, SYMMCOLL_INT64, SYMMCOLL_SUM, NULL, NULL));
        right = is_ok(symmcoll_group_free(part)) && right;
        atomic_store(&shared->left, 1);
        return right && out == 3;
    }
    is_failed = part->runner.core.failed;
    part->runner.core.failed = leave_first;
    right = is_ok(symmcoll_all_reduce(part, &out, &in, 1, SYMMCOLL_INT64,
                SYMMCOLL_SUM, NULL, &work)) &&
            is_ok(symmcoll_work_wait(work, -1));
    symmcoll_work_free(work);
    return is_ok(symmcoll_group_free(part)) && right && out == 3;
}

/* Leaves during a monitored barrier, which reports missing ranks. */
static int leaves_a_monitored_barrier(struct symmcoll_group *all, int rank)
{
    struct symmcoll_group *part;
    bool right;

    if (rank == 0) {
        atomic_store(&shared->looks, 0);
        atomic_store(&shared->left, 0);
    }
    if (!make(all, &part))
        return 0;
    if (rank == 1) {
        while (atomic_load(&shared->looks) == 0)
            sched_yield();
        right = is_ok(symmcoll_monitored_barrier(part, 0, NULL, NULL, NULL));
        right = is_ok(symmcoll_group_free(part)) && right;
        atomic_store(&shared->left, 1);
        return right;
    }
    is_failed = part->runner.core.failed;
    part->runner.core.failed = leave_first;
    right = is_ok(symmcoll_monitored_barrier(part, 0, NULL, NULL, NULL));
    return is_ok(symmcoll_group_free(part)) && right;
}

int main(void)
{
    shared = mmap(
        NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (shared == MAP_FAILED)
        skip_all("no shared memory");
    both_run(2, leaves_at_once,
        "an issued operation has the line of a rank that has left since");
    both_run(2, leaves_a_monitored_barrier, "so has a monitored barrier");
    return done_testing();
}
