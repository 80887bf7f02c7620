/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Tests a rank without memory for the chunks that all ranks map, or for its
 * own state: all ranks' errors name it, and all may continue. A rank that
 * cannot start a thread continues on its own. The linker makes the library
 * call the wrappers here.
 */
#include "t/fused/made.h"

#include <symmcoll/symm_mem.h>

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#define POOR 1

symmcoll_status_t __real_symmcoll_symm_alloc(struct symmcoll_world *world,
    size_t nbytes, const struct symmcoll_symm_args *args, void **data);
symmcoll_status_t __wrap_symmcoll_symm_alloc(struct symmcoll_world *world,
    size_t nbytes, const struct symmcoll_symm_args *args, void **data);

void *__real_symc_alloc(size_t count, size_t size);
void *__wrap_symc_alloc(size_t count, size_t size);
symmcoll_status_t __real_symc_thread_start(pthread_t *thread, const char *name,
    size_t stack_nbytes, void *(*run)(void *), void *arg);
symmcoll_status_t __wrap_symc_thread_start(pthread_t *thread, const char *name,
    size_t stack_nbytes, void *(*run)(void *), void *arg);

static _Thread_local bool is_poor;
static _Thread_local bool has_no_memory;
static _Thread_local bool has_no_thread;
static _Thread_local int refused; /* by one of the latter */

void *__wrap_symc_alloc(size_t count, size_t size)
{
    refused += has_no_memory;
    return has_no_memory ? NULL : __real_symc_alloc(count, size);
}

symmcoll_status_t __wrap_symc_thread_start(pthread_t *thread, const char *name,
    size_t stack_nbytes, void *(*run)(void *), void *arg)
{
    refused += has_no_thread;
    return has_no_thread
               ? symc_fail(SYMMCOLL_ERR_SYSTEM, "no thread for %s", name)
               : __real_symc_thread_start(thread, name, stack_nbytes, run, arg);
}

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

/* Checks the error for the first memory of a group, and for memory that
 * grows. */
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

/* Makes its first call of a fused operation. */
static int without_memory(struct symmcoll_group *group, int rank)
{
    symmcoll_status_t status;
    bool good;

    has_no_memory = rank == POOR;
    status = gather(group, 100000);
    has_no_memory = false;
    good = rank == POOR
               ? status == SYMMCOLL_ERR_NO_MEMORY && refused > 0
               : made_says(status, SYMMCOLL_ERR_NO_MEMORY, "rank 1 cannot go");
    return good && OK(gather(group, 100000)) && OK(scatter(group, 100000));
}

static int without_a_thread(struct symmcoll_group *group, int rank)
{
    bool good;

    has_no_thread = rank == POOR;
    good = OK(gather(group, 100000)) && OK(scatter(group, 100000));
    has_no_thread = false;
    return (rank != POOR || refused > 0) && good;
}

static void run_all(int (*run)(int n, rank_fn body), const char *kind)
{
    ok(run(3, without_memory),
        "%s: all are told which rank has no memory to begin with", kind);
    ok(run(3, without_a_thread),
        "%s: a rank that can start no thread takes part", kind);
    ok(run(3, in_gathering),
        "%s: all are told which rank has no memory for its shard", kind);
    ok(run(3, in_an_exchange), "%s: and which has none for its chunks", kind);
}

int main(void)
{
    plan(8);
    run_all(ranks_run, "processes");
    run_all(threads_run, "threads");
    return done_testing();
}
