/* SPDX-License-Identifier: BSD-3-Clause */
#include "t/cuda/every.h"

#include "group/group.h"

#include <stdlib.h>
#include <string.h>

#define GRAPH_COUNT \
    131 /* several chunks of a small staging area, for some
                         * kinds */

static CUgraphExec capture(struct symmcoll_group *group,
    const struct collective *one, void *out, const void *in, CUstream stream)
{
    struct symmcoll_call call = SYMMCOLL_CALL_INIT;
    /* Threads of the library may call anything during the capture. Ranks that
     * are threads call the driver themselves, so only their own calls are
     * checked. */
    CUstreamCaptureMode mode = group->world->threads
                                   ? CU_STREAM_CAPTURE_MODE_THREAD_LOCAL
                                   : CU_STREAM_CAPTURE_MODE_GLOBAL;
    CUgraph graph = NULL;
    CUgraphExec exec = NULL;
    int right;

    call.stream = stream;
    right = cuStreamBeginCapture(stream, mode) == CUDA_SUCCESS;
    right = right && say(collective_call(group, one, out, in, &call, NULL) ==
                             SYMMCOLL_OK,
                         "captured");
    right = cuStreamEndCapture(stream, &graph) == CUDA_SUCCESS && right;
    if (!right || cuGraphInstantiate(&exec, graph, 0) != CUDA_SUCCESS)
        diag("there is no graph of %s", symc_kind_name(one->kind));
    if (graph != NULL)
        cuGraphDestroy(graph);
    return exec;
}

/* Launches the graph with new input, and compares with the host. */
static int start(struct symmcoll_group *group, int rank,
    const struct collective *one, CUgraphExec exec, char *device,
    CUstream stream, int round)
{
    int size = symmcoll_group_size(group);
    size_t in_nbytes = collective_in_nbytes(one, size);
    size_t out_nbytes = collective_out_nbytes(one, size);
    char *host = calloc(2, in_nbytes + out_nbytes);
    char *read = host + in_nbytes + out_nbytes;
    bool in_place = one->kind == SYMC_BROADCAST;
    int right;

    fill(one->dtype, host, in_nbytes / symmcoll_dtype_size(one->dtype),
        (uint64_t)round * 16 + (uint64_t)rank);
    device_write(device, host, in_nbytes + out_nbytes);
    right = cuGraphLaunch(exec, stream) == CUDA_SUCCESS;
    device_wait(stream);
    device_read(read, device, in_nbytes + out_nbytes);
    right = say(collective_call(group, one, in_place ? host : host + in_nbytes,
                    host, NULL, NULL) == SYMMCOLL_OK,
                "in host memory") &&
            right;
    right = say(memcmp(read, host, in_nbytes + out_nbytes) == 0,
                symc_kind_name(one->kind)) &&
            right;
    free(host);
    return right;
}

static int capture_one(
    struct symmcoll_group *group, int rank, const struct collective *one)
{
    int size = symmcoll_group_size(group), right;
    size_t in_nbytes = collective_in_nbytes(one, size);
    char *device = device_alloc(in_nbytes + collective_out_nbytes(one, size));
    CUstream stream = device_stream();
    bool in_place = one->kind == SYMC_BROADCAST;
    CUgraphExec exec = capture(
        group, one, in_place ? device : device + in_nbytes, device, stream);

    right = exec != NULL;
    for (int round = 0; round < 3 && right; round++)
        right = start(group, rank, one, exec, device, stream, round) &&
                (round != 1 || same_as_host(group, rank, one));
    if (exec != NULL)
        cuGraphExecDestroy(exec);
    device_end_stream(stream);
    device_free(device);
    return right;
}

static int unlike_parts(struct symmcoll_group *group, int rank)
{
    struct collective one = {.kind = SYMC_REDUCE_SCATTER,
        .dtype = F32,
        .count = GRAPH_COUNT,
        .listed = true,
        .unlike = true};
    int right = capture_one(group, rank, &one);

    one.count = 3 * GRAPH_COUNT * 10;
    return right && capture_one(group, rank, &one);
}

int every_graph(struct symmcoll_group *group, int rank)
{
    static const enum symc_kind kinds[] = {SYMC_ALL_REDUCE, SYMC_REDUCE,
        SYMC_REDUCE_SCATTER, SYMC_ALL_GATHER, SYMC_GATHER, SYMC_SCATTER,
        SYMC_ALL_TO_ALL, SYMC_BROADCAST, SYMC_ALL_REDUCE_COALESCED,
        SYMC_ALL_GATHER_COALESCED, SYMC_REDUCE_SCATTER_COALESCED};
    struct collective first = {
        .kind = SYMC_ALL_REDUCE, .dtype = F32, .count = 3};
    int right;

    device_use(rank);
    right = same_as_host(group, rank, &first);
    for (size_t i = 0; i < sizeof(kinds) / sizeof(*kinds) && right; i++) {
        struct collective one = {
            .kind = kinds[i], .dtype = F32, .count = GRAPH_COUNT, .root = 1};

        if (kinds[i] >= SYMC_ALL_REDUCE_COALESCED)
            one.several = 5;

        right = capture_one(group, rank, &one);
        one.count = 3 * GRAPH_COUNT * 10;
        right = right && capture_one(group, rank, &one);
        one.count = 3;
        right = right && capture_one(group, rank, &one);
    }
    return right && unlike_parts(group, rank);
}
