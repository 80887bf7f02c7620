/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Tests a machine without a CUDA driver: a world and its groups work on host
 * memory, and calls that need a device report the missing driver on the rank
 * that makes them.
 */
#include "t/ranks.h"
#include "t/tap.h"

#include "devices/unserved.h"

#include <symmcoll.h>

#include <dlfcn.h>
#include <string.h>

static int refused(symmcoll_status_t status, const char *what)
{
    const char *text = symmcoll_last_error();
    int right = status == SYMMCOLL_ERR_UNSUPPORTED &&
                strstr(text, "no CUDA driver: libcuda.so.1") != NULL &&
                strstr(text, what) != NULL;

    if (!right)
        diag("%s: %s: %s", what, symmcoll_status_name(status), text);
    return right;
}

static int sums(struct symmcoll_group *group, int rank)
{
    float one = (float)rank, all = 0;

    return symmcoll_all_reduce(group, &all, &one, 1, SYMMCOLL_FLOAT32,
               SYMMCOLL_SUM, NULL, NULL) == SYMMCOLL_OK &&
           all == 1;
}

static int asks(struct symmcoll_group *group)
{
    struct symmcoll_world *world = symmcoll_group_world(group);
    struct symmcoll_symm_args args = SYMMCOLL_SYMM_ARGS_INIT;
    const int device = 0;
    void *data = NULL;

    args.device = SYMMCOLL_CUDA;
    return refused(symmcoll_barrier_devices(group, &device, 1, NULL, NULL),
               "barrier_devices: device 0: ") &
           refused(symmcoll_symm_alloc(world, 64, &args, &data), "symm_alloc");
}

static int works_without(struct symmcoll_group *group, int rank)
{
    uint64_t before;
    int right = sums(group, rank);

    before = symmcoll_group_sequence(group);
    right = asks(group) && right;
    return right && symmcoll_group_sequence(group) == before &&
           symmcoll_barrier_devices(group, NULL, 0, NULL, NULL) ==
               SYMMCOLL_OK &&
           sums(group, rank);
}

/* Checks that each page is looked up once: it is host memory while there is no
 * driver. */
static int pages_are_known(void)
{
    static char host[2 * SYMC_UNSERVED_PAGE];
    char *next = host + SYMC_UNSERVED_PAGE;
    int16_t device = 99;

    return symc_unserved_is_hosts(NULL) && !symc_unserved_is_hosts(host) &&
           !symc_unserved_find(host, &device) && symc_unserved_is_hosts(host) &&
           !symc_unserved_is_hosts(next) &&
           !symc_unserved_find(next, &device) && symc_unserved_is_hosts(host) &&
           symc_unserved_is_hosts(next) && device == 99;
}

int main(void)
{
    if (dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL) != NULL)
        skip_all("this machine has a CUDA driver");
    plan(3);
    ok(ranks_run(2, works_without),
        "without a driver ranks join, and what asks for a device says so "
        "(2 processes)");
    ok(threads_run(2, works_without),
        "without a driver ranks join, and what asks for a device says so "
        "(2 threads)");
    ok(pages_are_known(), "no page is asked for twice");
    return done_testing();
}
