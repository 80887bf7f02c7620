/* SPDX-License-Identifier: BSD-3-Clause */
/* Tests barrier: no rank leaves before all have entered. */
#include "../tap.h"
#include "data.h"

#include <sched.h>
#include <stdatomic.h>
#include <sys/mman.h>

#define ROUNDS 300

/* The progress of each rank, in memory shared by all ranks. */
static _Atomic int *arrived;

static int nobody_leaves_early(struct symmcoll_group *group, int rank)
{
    int size = symmcoll_group_size(group);
    bool right = true;

    for (int round = 1; right && round <= ROUNDS; round++) {
        for (int i = (round * 31 + rank * 17) % 50; i > 45; i--)
            sched_yield();
        atomic_store(&arrived[rank], round);
        right = symmcoll_barrier(group, NULL, NULL) == SYMMCOLL_OK;
        for (int r = 0; r < size; r++)
            right = right && atomic_load(&arrived[r]) >= round;
    }
    right = right && symmcoll_barrier(group, NULL, NULL) == SYMMCOLL_OK;
    atomic_store(&arrived[rank], 0); /* for the next group */
    return right && symmcoll_group_sequence(group) == ROUNDS + 1;
}

/* Checks that an empty sum is a barrier as well, and has a number. */
static int an_empty_sum_synchronises(struct symmcoll_group *group, int rank)
{
    int size = symmcoll_group_size(group);
    bool right = true;

    for (int round = 1; right && round <= ROUNDS; round++) {
        atomic_store(&arrived[rank], round);
        right = symmcoll_all_reduce(group, NULL, NULL, 0, SYMMCOLL_FLOAT32,
                    SYMMCOLL_SUM, NULL, NULL) == SYMMCOLL_OK;
        for (int r = 0; r < size; r++)
            right = right && atomic_load(&arrived[r]) >= round;
    }
    right = right && symmcoll_barrier(group, NULL, NULL) == SYMMCOLL_OK;
    atomic_store(&arrived[rank], 0); /* for the next group */
    return right && symmcoll_group_sequence(group) == ROUNDS + 1;
}

int main(void)
{
    static const int sizes[] = {1, 2, 3, 5, 17};

    arrived = mmap(
        NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (arrived == MAP_FAILED)
        skip_all("no shared memory");
    for (size_t i = 0; i < LENGTH(sizes); i++) {
        both_run(sizes[i], nobody_leaves_early,
            "without devices, nobody leaves before all have entered (C24, C34)");
        both_run(sizes[i], an_empty_sum_synchronises,
            "a sum of no elements waits for all as well");
    }
    return done_testing();
}
