/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Tests how processes share device memory: by descriptors, or by fabric
 * handles, which a driver may refuse to create, to export or to import.
 */
#include "t/cuda/joined.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define VICTIM 1
#define NBYTES ((size_t)10000)

static const char *of_victim; /* settings of the victim's fake driver */
static bool by_fabric;
static bool rdma;          /* memory is to be accessible to network adapters */
static unsigned int types; /* of handles with which memory is created */

#define DESCRIPTOR ((unsigned int)CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR)
#define FABRIC ((unsigned int)CU_MEM_HANDLE_TYPE_FABRIC)

/* Checks that memory can be shared in exactly these ways. */
static int has_types(void *at)
{
    CUmemAllocationProp found = {.requestedHandleTypes = 0};
    CUmemGenericAllocationHandle handle = 0;
    int right = cuMemRetainAllocationHandle(&handle, at) == CUDA_SUCCESS &&
                cuMemGetAllocationPropertiesFromHandle(&found, handle) ==
                    CUDA_SUCCESS &&
                cuMemRelease(handle) == CUDA_SUCCESS;

    right = say(found.allocFlags.gpuDirectRDMACapable == rdma,
                "GPUDirect RDMA where the device has it") &&
            right;
    if (right && (unsigned int)found.requestedHandleTypes == types)
        return 1;
    diag("expected handles of types %u, found %u", types,
        (unsigned int)found.requestedHandleTypes);
    return 0;
}

/* Counts imports: only with fabric handles a rank imports its own handle,
 * too. */
static int joins(struct symmcoll_group *group, int rank)
{
    struct symc_joined *joined = NULL;
    void *memory, *at = NULL;
    uint64_t before;
    int live, right;

    device_use(rank);
    if (rank == VICTIM && of_victim != NULL)
        fake_configure(of_victim);
    right = joined_open(group, rank);
    live = joined_objects();
    memory = joined_alloc(group, rank, NBYTES, &at);
    if (rank != VICTIM || of_victim == NULL)
        right = has_types(at) && right;
    before = fake_calls("cuMemImportFromShareableHandle");
    right = say(joined_join(group, memory, &joined) == SYMMCOLL_OK, "join") &&
            right;
    if (!right)
        return 0;
    if (rank != VICTIM || of_victim == NULL)
        right = say(fake_calls("cuMemImportFromShareableHandle") - before ==
                        (by_fabric              ? 3
                            : of_victim != NULL ? 3
                                                : 2),
            "imports");
    right = joined_is_common(group, rank, joined, true) && right;
    joined_backend(group)->mem->leave(joined);
    joined_backend(group)->mem->free(memory);
    return say(joined_objects() == live, "nothing is left") && right;
}

/* Checks that the first operation reports the reason. */
static int is_refused(struct symmcoll_group *group, int rank)
{
    float *at;
    int right;

    device_use(rank);
    at = device_alloc(sizeof(*at));
    right = ended(symmcoll_all_reduce(group, at, at, 1, F32, SUM, NULL, NULL),
        SYMMCOLL_ERR_UNSUPPORTED,
        "with a fabric handle for a segment on device ");
    device_free(at);
    return right;
}

/* Makes each call that a fabric handle needs fail. */
static int names_the_call(struct symmcoll_group *group, int rank)
{
    static const char *const calls[] = {"cuMemExportToShareableHandle",
        "cuMemImportFromShareableHandle", "cuMemRelease"};
    char setting[64], text[96];
    float *at;
    int right = 1;

    device_use(rank);
    at = device_alloc(sizeof(*at));
    for (int i = 0; i < 3 && right; i++) {
        struct symmcoll_group *one = joined_group(group);

        snprintf(setting, sizeof(setting), "fail=%s:1:400", calls[i]);
        snprintf(text, sizeof(text), "%s for a fabric handle (cuda.share) of ",
            calls[i]);
        fake_configure(setting);
        right = ended(symmcoll_all_reduce(one, at, at, 1, F32, SUM, NULL, NULL),
            SYMMCOLL_ERR_DEVICE, text);
        right = symmcoll_group_free(one) == SYMMCOLL_OK && right;
    }
    device_free(at);
    return right;
}

/* Runs a body with a setting. wanted: the types of handles that memory is
 * created with. */
static int with(rank_fn body, const char *value, const char *settings,
    bool fabric, unsigned int wanted)
{
    int right;

    setenv("SYMMCOLL_CUDA_SHARE", value, 1);
    of_victim = settings;
    by_fabric = fabric;
    types = wanted;
    right = ranks_run(3, body);
    of_victim = NULL;
    unsetenv("SYMMCOLL_CUDA_SHARE");
    return right;
}

int main(void)
{
    device_begin();
    ok(with(joins, "auto", NULL, false, DESCRIPTOR),
        "without fabric, descriptors are");
    ok(with(is_refused, "fabric", NULL, false, 0),
        "where it is asked for, the error says what the driver returned");
    fake_configure("fabric=1");
    ok(with(joins, "auto", NULL, true, DESCRIPTOR | FABRIC) &&
            with(joins, "fabric", NULL, true, DESCRIPTOR | FABRIC),
        "cuda.share: fabric handles are used where all have them");
    ok(with(names_the_call, "fabric", NULL, true, 0),
        "and errors name the driver's call");
    ok(with(joins, "descriptor", NULL, false, DESCRIPTOR),
        "unless descriptors are wanted");
    ok(with(joins, "auto", "fabric=0", false, DESCRIPTOR | FABRIC),
        "and where one device lacks them all take descriptors");
    ok(with(joins, "auto", "fail=cuMemExportToShareableHandle:1:800", true,
           DESCRIPTOR | FABRIC) &&
            with(joins, "auto", "fail=cuMemImportFromShareableHandle:1:801",
                true, DESCRIPTOR | FABRIC),
        "or cannot export or import what it has made, as long as that is so");
    ok(with(joins, "auto", "fail=cuMemCreate:1:1", true, DESCRIPTOR | FABRIC),
        "or refuses to make memory with one, whatever its error is");
    rdma = fake_configure("rdma=1");
    ok(with(joins, "auto", NULL, true, DESCRIPTOR | FABRIC) &&
            with(joins, "descriptor", NULL, false, DESCRIPTOR),
        "network adapters can be given the memory, where the device says so");
    return done_testing();
}
