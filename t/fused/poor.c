/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A rank that has no memory for the chunks that all ranks map: all are told
 * which one, and may go on.  The linker has the library call the wrapper here.
 */
#include "t/fused/made.h"

#include <symmcoll/symm_mem.h>

#include <stdlib.h>
#include <string.h>

#define POOR 1

symmcoll_status_t __real_symmcoll_symm_alloc(struct symmcoll_world *world,
    size_t nbytes, const struct symmcoll_symm_args *args, void **data);
symmcoll_status_t __wrap_symmcoll_symm_alloc(struct symmcoll_world *world,
    size_t nbytes, const struct symmcoll_symm_args *args, void **data);

static _Thread_local bool is_poor;

symmcoll_status_t __wrap_symmcoll_symm_alloc(struct symmcoll_world *world,
    size_t nbytes, const struct symmcoll_symm_args *args, void **data)
{
    if (is_poor)
        nbytes = SIZE_MAX;
    return __real_symmcoll_symm_alloc(world, nbytes, args, data);
}

static symmcoll_status_t make(void *context, int rank, void *chunk)
{
    memset(chunk, rank, *(const size_t *)context);
    return SYMMCOLL_OK;
}

static symmcoll_status_t gather(struct symmcoll_group *group, size_t nbytes)
{
    int size = symmcoll_group_size(group);
    char *mine = calloc(1, nbytes), *all = malloc(nbytes * (size_t)size);
    symmcoll_status_t status = symmcoll_all_gather_and_consume(
        group, mine, nbytes, NULL, NULL, NULL, all);

    free(mine);
    free(all);
    return status;
}

static symmcoll_status_t scatter(struct symmcoll_group *group, size_t nbytes)
{
    char *all = malloc(nbytes * (size_t)symmcoll_group_size(group));
    symmcoll_status_t status = symmcoll_produce_and_all_to_all(
        group, nbytes, make, &nbytes, NULL, all);

    free(all);
    return status;
}

/* The first memory of a group, and memory that grows. */
static bool is_told(struct symmcoll_group *group, int rank,
    symmcoll_status_t (*operate)(struct symmcoll_group *group, size_t nbytes))
{
    bool good = true;

    for (size_t nbytes = 1000; good && nbytes < 1000000; nbytes *= 30) {
        symmcoll_status_t status;

        is_poor = rank == POOR;
        status = operate(group, nbytes);
        is_poor = false;
        good = made_says(status, SYMMCOLL_ERR_NO_MEMORY,
                   rank == POOR ? "bytes" : "rank 1 cannot go on: NO_MEMORY") &&
               OK(operate(group, nbytes));
    }
    return good;
}

static int in_gathering(struct symmcoll_group *group, int rank)
{
    return is_told(group, rank, gather);
}

static int in_an_exchange(struct symmcoll_group *group, int rank)
{
    return is_told(group, rank, scatter);
}

static void run_all(int (*run)(int n, rank_fn body), const char *kind)
{
    ok(run(3, in_gathering),
        "%s: all are told which rank has no memory for its shard", kind);
    ok(run(3, in_an_exchange), "%s: and which has none for its chunks", kind);
}

int main(void)
{
    plan(4);
    run_all(ranks_run, "processes");
    run_all(threads_run, "threads");
    return done_testing();
}
