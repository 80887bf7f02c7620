/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Tests joined memory with a multicast address of all members, and without
 * one, which is not an error. Only a real device can show that stores to that
 * address arrive.
 */
#include "cuda/joined.h"
#include "t/cuda/joined.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define VICTIM 1
#define NBYTES ((size_t)10000)

/* Settings of the victim's fake driver for all devices, applied before a group is
 * opened. */
static const char *of_victim;

/* Joins memory, and checks that all ranks have a multicast address, or none. */
static int joins(struct symmcoll_group *group, int rank, void *memory, bool has)
{
    struct symc_joined *joined = NULL;
    struct symc_device_data data;
    int right = say(joined_join(group, memory, &joined) == SYMMCOLL_OK, "join");

    if (!right)
        return 0;
    data = symc_cuda_joined_data(joined, 0);
    right = say((joined->multicast != NULL) == has, "an address of all") &&
            joined->multicast == data.multicast &&
            joined_is_common(group, rank, joined, false);
    joined_backend(group)->mem->leave(joined);
    return symmcoll_barrier(group, NULL, NULL) == SYMMCOLL_OK && right;
}

static int joins_so(
    struct symmcoll_group *group, int rank, int device, bool has)
{
    struct symmcoll_group *other;
    void *memory, *at = NULL;
    int before, right;

    device_use(device);
    if (rank == VICTIM && of_victim != NULL)
        fake_configure(of_victim);
    right = joined_open(group, rank);
    before = joined_objects();
    memory = joined_alloc(group, device, NBYTES, &at);
    right = joins(group, rank, memory, has) &&
            joins(group, rank, memory, has) && right;
    other = joined_group(group);
    right =
        joined_open(other, rank) && joins(other, rank, memory, has) && right;
    right = symmcoll_group_free(other) == SYMMCOLL_OK && right;
    joined_backend(group)->mem->free(memory);
    if (group->world->threads)
        return right; /* others have some */
    return say(joined_objects() == before, "nothing is left") && right;
}

static int has_it(struct symmcoll_group *group, int rank)
{
    return joins_so(group, rank, rank, true);
}

static int has_none(struct symmcoll_group *group, int rank)
{
    return joins_so(group, rank, rank, false);
}

static int shares_a_device(struct symmcoll_group *group, int rank)
{
    return joins_so(group, rank, rank == 2 ? 2 : 0, false) &&
           say(fake_calls("cuMulticastGetGranularity") == 0, "it is not tried");
}

/* ---- what fails ---- */

static int any_call_fails(struct symmcoll_group *group, int rank)
{
    static const char *const names[] = {"cuMulticastGetGranularity",
        "cuMulticastCreate", "cuMulticastAddDevice", "cuMulticastBindMem",
        "cuMemAddressReserve:2", "cuMemMap:4", "cuMemSetAccess:4",
        "cuMemExportToShareableHandle:2", "cuMemImportFromShareableHandle:3"};
    struct symc_memory_request request;
    void *memory, *at = NULL;
    int right;

    device_use(rank);
    right = joined_open(group, rank);
    request = joined_request(group, rank, NBYTES);
    if (joined_backend(group)->mem->allocate(&request, &memory, &at) !=
        SYMMCOLL_OK)
        return 0;
    for (size_t i = 0; i < sizeof(names) / sizeof(*names) && right; i++) {
        bool of_first = strncmp(names[i], "cuMulticastC", 12) == 0 ||
                        strncmp(names[i], "cuMemExport", 11) == 0;
        char setting[80];
        int before = joined_objects();

        snprintf(setting, sizeof(setting), "fail=%s%s:999", names[i],
            strchr(names[i], ':') != NULL ? "" : ":1");
        if (rank == (of_first ? 0 : VICTIM))
            fake_configure(setting);
        right = joins(group, rank, memory, false) &&
                say(joined_objects() == before, "nothing is left");
        if (!right)
            diag("rank %d: %s", rank, names[i]);
    }
    right = right && joins(group, rank, memory, true);
    joined_backend(group)->mem->free(memory);
    return right;
}

static int with(
    rank_fn body, const char *variable, const char *value, const char *settings)
{
    int right;

    if (variable != NULL)
        setenv(variable, value, 1);
    of_victim = settings;
    right = ranks_run(3, body);
    of_victim = NULL;
    if (variable != NULL)
        unsetenv(variable);
    return right;
}

int main(void)
{
    device_begin();
    ok(with(has_none, NULL, NULL, NULL), "devices without it have none");
    fake_configure("multicast=1");
    on_both(3, has_it, "all members have an address of all, in each group");
    of_victim = "fail=cuMemCreate:1:801";
    ok(threads_run(3, has_it),
        "memory of threads has no handles where the driver refuses them");
    of_victim = NULL;
    on_both(1, has_none, "not a group of one");
    ok(with(has_none, "SYMMCOLL_CUDA_MULTICAST", "off", NULL),
        "cuda.multicast: off, there is none");
    ok(with(shares_a_device, "SYMMCOLL_CUDA_SHARE_DEVICE", "on", NULL),
        "nor where two ranks share a device");
    ok(with(has_none, NULL, NULL, "multicast=0"),
        "nor where one device does not have it");
    ok(with(has_none, NULL, NULL, "missing=cuMulticastBindMem"),
        "nor where one driver is too old for it");
    ok(with(has_none, NULL, NULL, "coarse=8K"),
        "nor where memory is no multiple of a device's granularity");
    ok(with(any_call_fails, NULL, NULL, NULL),
        "whatever call of the driver fails, all go without it, nothing is left, "
        "and the next time all have it");
    return done_testing();
}
