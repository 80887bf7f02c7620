/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The context for a request of one rank: the context of the request's stream and memory,
 * not the calling thread's, which may have none or another one.
 */
#include "cuda/device_group.h"
#include "cuda/memory.h"

/* Prefers the group's context, then the buffer's, as memory lives longer than a stream.
 * NULL: unknown. */
static CUcontext find_wanted(
    const struct symc_cuda *cuda, const struct symc_memory_request *request)
{
    const struct symc_cuda_group *group = request->state;
    const struct symc_cuda_memory *memory = request->memory;
    CUcontext wanted;

    if (group != NULL && group->device == request->device)
        return group->context.context;
    wanted = symc_cuda_context_find(cuda, NULL, request->buffer);
    if (wanted == NULL)
        wanted = symc_cuda_context_find(cuda, request->stream, NULL);
    return wanted == NULL && memory != NULL ? memory->context.context : wanted;
}

symmcoll_status_t symc_cuda_request_open(
    const struct symc_memory_request *request,
    struct symc_cuda_context *context)
{
    const struct symc_cuda *cuda = NULL;
    symmcoll_status_t status = symc_cuda_load(request->fail, &cuda);

    return status == SYMMCOLL_OK
               ? symc_cuda_context_open(cuda, request->fail, request->device,
                     find_wanted(cuda, request), context)
               : status;
}

bool symc_cuda_request_serves(const struct symc_memory_request *request,
    const struct symc_cuda_context *context)
{
    return symc_cuda_context_is_chosen(
        context, find_wanted(context->cuda, request));
}
