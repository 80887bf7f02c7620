/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What an operation with a list of buffers reads or writes is known to those
 * that come after it.
 */
#include "../coll/data.h"
#include "../pair/pair.h"

/* The attendant runs from the first operation on that is queued. */
static bool warm(struct symmcoll_group *group)
{
    struct symmcoll_work *work;

    return symmcoll_barrier(group, NULL, &work) == SYMMCOLL_OK && ends(work);
}

/* The root's next operation reads a part that its gather_list is to receive. */
static int results_are_awaited(struct symmcoll_group *group, int rank)
{
    int own = 0, part = 0, in = 5 + rank, sum = 0;
    void *outs[2] = {&own, &part};
    struct symmcoll_work *first, *second;
    bool right = warm(group);

    if (rank == 1)
        right = right && get(group, 0, 1, 1, 0, 0);
    right = right &&
            say(symmcoll_gather_list(group, rank == 0 ? outs : NULL, &in, 1,
                    SYMMCOLL_INT32, 0, NULL, &first) == SYMMCOLL_OK,
                "gather_list") &&
            say(symmcoll_all_reduce(group, &sum, rank == 0 ? &part : &own, 1,
                    SYMMCOLL_INT32, SYMMCOLL_SUM, NULL, &second) == SYMMCOLL_OK,
                "all_reduce");
    if (rank == 0)
        right = right && put(group, 1, 1, 1, 0, 0);
    return right && ends(first) && ends(second) && say(sum == 6, "its sum");
}

/* The root's scatter_list reads what an operation before it is to receive. */
static int parts_are_awaited(struct symmcoll_group *group, int rank)
{
    int sums[2] = {0}, in = 5 + rank, out = 0;
    const void *ins[2] = {&sums[0], &sums[1]};
    struct symmcoll_work *first, *second;
    bool right = warm(group);

    if (rank == 1)
        right = right && get(group, 0, 1, 1, 0, 0);
    right = right &&
            say(symmcoll_all_reduce(group, &sums[1], &in, 1, SYMMCOLL_INT32,
                    SYMMCOLL_SUM, NULL, &first) == SYMMCOLL_OK,
                "all_reduce") &&
            say(symmcoll_scatter_list(group, &out, rank == 0 ? ins : NULL, 1,
                    SYMMCOLL_INT32, 0, NULL, &second) == SYMMCOLL_OK,
                "scatter_list");
    if (rank == 0)
        right = right && put(group, 1, 1, 1, 0, 0);
    return right && ends(first) && ends(second) &&
           say(out == (rank == 0 ? 0 : 11), "its part");
}

int main(void)
{
    plan(4);
    both_run(2, results_are_awaited,
        "what reads a part of a list that is being received waits for it");
    both_run(2, parts_are_awaited,
        "what reads a list waits for what is received into it");
    return done_testing();
}
