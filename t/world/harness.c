/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Tests the harness itself when some ranks fail between two collectives: the
 * run fails, and the other ranks get an error instead of waiting.
 */
#include "t/ranks.h"
#include "t/tap.h"

#include <symmcoll.h>

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/mman.h>

#define SIZE 4

static struct shared {
    int failing;          /* a bit for each rank that fails */
    _Atomic int refused;  /* ranks with an error from the second collective */
    _Atomic int gathered; /* ranks with a right second collective */
} * shared;

static bool gather(struct symmcoll_group *group, int rank)
{
    int64_t all[SIZE], value = rank;

    if (symmcoll_all_gather(
            group, all, &value, 1, SYMMCOLL_INT64, NULL, NULL) != SYMMCOLL_OK)
        return false;
    for (int r = 0; r < SIZE; r++)
        if (all[r] != r)
            return false;
    return true;
}

static int fail_between(struct symmcoll_group *group, int rank)
{
    if (!gather(group, rank) || (shared->failing >> rank & 1) != 0)
        return 0;
    if (gather(group, rank))
        shared->gathered++;
    else
        shared->refused++;
    return 1;
}

/* Checks that the run fails with these ranks, and that the other ranks get an
 * error. */
static bool fails(int (*run)(int n, rank_fn body), int failing, int nfailing)
{
    *shared = (struct shared){.failing = failing};
    return !run(SIZE, fail_between) && shared->refused == SIZE - nfailing &&
           shared->gathered == 0;
}

static void run_all(int (*run)(int n, rank_fn body), const char *kind)
{
    *shared = (struct shared){.failing = 0};
    ok(run(SIZE, fail_between) && shared->gathered == SIZE,
        "%s: where no rank fails the run is good", kind);
    ok(fails(run, 1, 1), "%s: rank 0 fails the run", kind);
    ok(fails(run, 2, 1), "%s: another rank fails the run", kind);
    ok(fails(run, 14, 3), "%s: all ranks but rank 0 fail the run", kind);
}

int main(void)
{
    shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE,
        MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (shared == MAP_FAILED)
        skip_all("no shared memory");
    plan(8);
    run_all(ranks_run, "processes");
    run_all(threads_run, "threads");
    return done_testing();
}
