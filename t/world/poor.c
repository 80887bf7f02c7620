/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Tests a rank without memory for its world, at each allocation of init: init
 * fails, releases everything, and may be called again. The linker makes all
 * allocations of the library call the wrapper here.
 */
#include "t/allocated.h"
#include "t/ranks.h"
#include "t/tap.h"

#include <symmcoll.h>

#include <dirent.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#define MOST 1000 /* allocations of init */

void *__real_symc_alloc(size_t count, size_t size);
void *__wrap_symc_alloc(size_t count, size_t size);

/* The number of this thread's allocations before the one that fails; -1: none does. */
static _Thread_local int left = -1;

void *__wrap_symc_alloc(size_t count, size_t size)
{
    bool fails = left == 0;

    if (left >= 0)
        left--;
    return fails ? __real_symc_alloc(SIZE_MAX, 2)
                 : __real_symc_alloc(count, size);
}

static int count_descriptors(void)
{
    DIR *dir = opendir("/proc/self/fd");
    int count = 0;

    while (dir != NULL && readdir(dir) != NULL)
        count++;
    if (dir != NULL)
        closedir(dir);
    return count;
}

/* Creates a world of this rank only. */
static symmcoll_status_t begin(
    struct symmcoll_store *store, struct symmcoll_world **world)
{
    struct symmcoll_init_args args = SYMMCOLL_INIT_ARGS_INIT;

    args.rank = 0;
    args.world_size = 1;
    args.store = store;
    return symmcoll_init(&args, world);
}

/* Fails each allocation of init, from the first to the last one. */
static bool fail_each(struct symmcoll_store *store)
{
    int before = count_descriptors();

    for (int succeed = 0; succeed < MOST; succeed++) {
        struct symmcoll_world *world = NULL;
        symmcoll_status_t status;

        left = succeed;
        status = begin(store, &world);
        left = -1;
        if (status == SYMMCOLL_OK)
            return symmcoll_barrier(symmcoll_world_group(world), NULL, NULL) ==
                       SYMMCOLL_OK &&
                   symmcoll_finalize(world) == SYMMCOLL_OK && succeed > 0 &&
                   count_descriptors() == before;
        if (status != SYMMCOLL_ERR_NO_MEMORY || world != NULL ||
            strstr(symmcoll_last_error(), "memory") == NULL ||
            count_descriptors() != before) {
            diag("allocation %d: status %d, %d descriptors of %d: %s", succeed,
                (int)status, count_descriptors(), before,
                symmcoll_last_error());
            return false;
        }
    }
    return false;
}

/* Checks that the second run keeps no more memory, except that of the C
 * library for ended threads: some hundred bytes of each. */
static int init_keeps_nothing(void)
{
    size_t allocated = 0;
    bool right = true;

    for (int i = 0; right && i < 2; i++) {
        struct symmcoll_store *store = NULL;

        right = symmcoll_store_create_hash(&store) == SYMMCOLL_OK &&
                fail_each(store);
        symmcoll_store_close(store);
        if (i == 0)
            allocated = count_allocated();
    }
    return right && count_allocated() <= allocated + 32768;
}

int main(void)
{
    plan(1);
    ok(process_run(init_keeps_nothing),
        "a world that there is no memory for leaves nothing, and may be made "
        "later");
    return done_testing();
}
