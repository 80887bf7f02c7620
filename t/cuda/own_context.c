/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Tests a context created by the program: groups are opened in it whichever
 * thread opens them.
 */
#include "t/cuda/members.h"

#include <stdio.h>

#define COUNT 100

/* Runs in a context that is not current in the calling thread, as in threads
 * of the library. */
static int in_own_context(struct symmcoll_group *group, int rank, bool streamed)
{
    struct symmcoll_call call = SYMMCOLL_CALL_INIT;
    CUcontext own = NULL, popped;
    CUstream stream = NULL;
    void *at;
    int right;

    if (cuInit(0) != CUDA_SUCCESS ||
        cuCtxCreate(&own, NULL, 0, rank) != CUDA_SUCCESS)
        return 0;
    stream = streamed ? device_stream() : NULL;
    at = device_alloc(COUNT * sizeof(float));
    (void)cuCtxPopCurrent(&popped);
    call.stream = stream;
    right = say(symmcoll_all_reduce(
                    group, at, at, COUNT, F32, SUM, &call, NULL) == SYMMCOLL_OK,
                "the sum") &&
            is_primary_unused(rank);
    (void)cuCtxPushCurrent(own);
    device_wait(stream);
    device_end_stream(stream);
    device_free(at);
    return right;
}

static int on_its_stream(struct symmcoll_group *group, int rank)
{
    return in_own_context(group, rank, true);
}

static int in_its_memory(struct symmcoll_group *group, int rank)
{
    return in_own_context(group, rank, false);
}

/* Joins a group in the primary context with memory of another context, which
 * its kernels cannot reach; the group remains usable. */
static int joins_none(struct symmcoll_group *group, int rank)
{
    struct symmcoll_world *world = symmcoll_group_world(group);
    struct symmcoll_symm *handle = NULL;
    CUcontext own = NULL, popped;
    float *at, *others = NULL;
    int right;

    device_use(rank);
    at = device_alloc(COUNT * sizeof(float));
    right = say(symmcoll_all_reduce(
                    group, at, at, COUNT, F32, SUM, NULL, NULL) == SYMMCOLL_OK,
                "a sum") &&
            say(cuCtxCreate(&own, NULL, 0, rank) == CUDA_SUCCESS, "a context");
    others = device_alloc(COUNT * sizeof(float));
    (void)cuCtxPopCurrent(&popped);
    right = right &&
            say(symmcoll_symm_register(
                    world, others, COUNT * sizeof(float), NULL) == SYMMCOLL_OK,
                "memory") &&
            ended(symmcoll_symm_rendezvous(group, others, NULL, &handle),
                SYMMCOLL_ERR_INVALID, "of another context") &&
            say(symmcoll_symm_deregister(world, others) == SYMMCOLL_OK,
                "its end") &&
            say(symmcoll_all_reduce(
                    group, at, at, COUNT, F32, SUM, NULL, NULL) == SYMMCOLL_OK,
                "another sum");
    device_wait(NULL);
    device_free(at);
    (void)cuCtxPushCurrent(own);
    device_free(others);
    return right;
}

/* Checks that one rank's buffer of another context is refused at its call. The
 * stream is the default stream of the current context. */
static int is_refused(
    struct symmcoll_group *group, const void *others, float *at, bool out)
{
    char text[200];
    CUcontext begun = NULL, other = NULL;
    CUpointer_attribute name = CU_POINTER_ATTRIBUTE_CONTEXT;
    void *value = &other;
    void *to = out ? (void *)(uintptr_t)others : at;

    if (cuCtxGetCurrent(&begun) != CUDA_SUCCESS ||
        cuPointerGetAttributes(
            1, &name, &value, (CUdeviceptr)(uintptr_t)others) != CUDA_SUCCESS)
        return 0;
    (void)snprintf(text, sizeof(text),
        "all_reduce: expected %s in memory of context %p, in which the group has "
        "begun on device %d, found %p of context %p",
        out ? "out" : "in", (void *)begun, symmcoll_group_rank(group), others,
        (void *)other);
    return ended(symmcoll_all_reduce(
                     group, to, out ? at : others, COUNT, F32, SUM, NULL, NULL),
        SYMMCOLL_ERR_INVALID, text);
}

/* Checks that the group remains usable, and that pool memory belongs to all
 * contexts. */
static int refuses_others(struct symmcoll_group *group, int rank)
{
    CUcontext own = NULL, popped;
    CUdeviceptr pooled = 0;
    float *at, *others;
    int right;

    device_use(rank);
    at = device_alloc(COUNT * sizeof(float));
    right = say(symmcoll_all_reduce(
                    group, at, at, COUNT, F32, SUM, NULL, NULL) == SYMMCOLL_OK,
                "a sum") &&
            say(cuCtxCreate(&own, NULL, 0, rank) == CUDA_SUCCESS, "a context");
    others = device_alloc(COUNT * sizeof(float));
    right = say(cuMemAllocAsync(&pooled, COUNT * sizeof(float), NULL) ==
                    CUDA_SUCCESS,
                "memory of a pool") &&
            right;
    device_wait(NULL);
    (void)cuCtxPopCurrent(&popped);
    right = right && is_refused(group, others, at, false) &&
            is_refused(group, others, at, true) &&
            say(symmcoll_all_reduce(group, (void *)(uintptr_t)pooled, at, COUNT,
                    F32, SUM, NULL, NULL) == SYMMCOLL_OK,
                "a sum in a pool");
    device_wait(NULL);
    device_free(at);
    (void)cuCtxPushCurrent(own);
    device_free(others);
    right =
        say(cuMemFreeAsync(pooled, NULL) == CUDA_SUCCESS, "its end") && right;
    device_wait(NULL);
    return right;
}

/* A rendezvous is the group's first use of its device, from a thread in which
 * another context is current, with memory of the program. */
static int follows_joined_memory(struct symmcoll_group *group, int rank)
{
    struct symmcoll_world *world = symmcoll_group_world(group);
    struct symmcoll_symm_args args = SYMMCOLL_SYMM_ARGS_INIT;
    struct symmcoll_symm *handle = NULL;
    struct symmcoll_call call = SYMMCOLL_CALL_INIT;
    CUcontext own = NULL, popped;
    void *data = NULL;
    int right;

    if (cuInit(0) != CUDA_SUCCESS ||
        cuCtxCreate(&own, NULL, 0, rank) != CUDA_SUCCESS)
        return 0;
    args.device = SYMMCOLL_CUDA;
    args.device_index = rank;
    right = say(symmcoll_symm_alloc(
                    world, COUNT * sizeof(float), &args, &data) == SYMMCOLL_OK,
        "memory");
    call.stream = device_stream();
    (void)cuCtxPopCurrent(&popped);
    right =
        right &&
        say(symmcoll_symm_rendezvous(group, data, NULL, &handle) == SYMMCOLL_OK,
            "a rendezvous") &&
        say(symmcoll_all_reduce(
                group, data, data, COUNT, F32, SUM, &call, NULL) == SYMMCOLL_OK,
            "a sum in its context") &&
        is_primary_unused(rank);
    (void)cuCtxPushCurrent(own);
    device_wait(call.stream);
    symmcoll_symm_release(handle);
    right =
        say(symmcoll_symm_free(world, data) == SYMMCOLL_OK, "its end") && right;
    device_end_stream(call.stream);
    return right;
}

/* Passes a buffer of another context to operations on symmetric memory. */
static int refuses_beside_symmetric(struct symmcoll_group *group, int rank)
{
    struct symmcoll_world *world = symmcoll_group_world(group);
    struct symmcoll_symm_args args = SYMMCOLL_SYMM_ARGS_INIT;
    struct symmcoll_symm *handle = NULL;
    CUcontext own = NULL, popped;
    void *data = NULL;
    float *others, *at;
    int right;

    device_use(rank);
    args.device = SYMMCOLL_CUDA;
    args.device_index = rank;
    at = device_alloc(COUNT * sizeof(float));
    right =
        say(symmcoll_symm_alloc(world, COUNT * sizeof(float), &args, &data) ==
                SYMMCOLL_OK,
            "memory") &&
        say(symmcoll_symm_rendezvous(group, data, NULL, &handle) == SYMMCOLL_OK,
            "a rendezvous") &&
        say(cuCtxCreate(&own, NULL, 0, rank) == CUDA_SUCCESS, "a context");
    others = device_alloc(COUNT * sizeof(float));
    (void)cuCtxPopCurrent(&popped);
    right =
        right &&
        ended(symmcoll_symm_one_shot_all_reduce(
                  handle, 0, others, COUNT, F32, SUM, NULL),
            SYMMCOLL_ERR_INVALID,
            "symm_one_shot_all_reduce: expected out in memory of context ") &&
        ended(symmcoll_symm_put_data(handle, !rank, 0, others, sizeof(float)),
            SYMMCOLL_ERR_INVALID, "in memory of context ") &&
        say(symmcoll_symm_one_shot_all_reduce(
                handle, 0, at, COUNT, F32, SUM, NULL) == SYMMCOLL_OK,
            "a sum in its own");
    device_wait(NULL);
    symmcoll_symm_release(handle);
    right =
        say(symmcoll_symm_free(world, data) == SYMMCOLL_OK, "its end") && right;
    device_free(at);
    (void)cuCtxPushCurrent(own);
    device_free(others);
    return right;
}

/* Sends and receives memory of another context, which fail alone: neither
 * takes a number, and the group remains usable. */
static int refuses_messages(struct symmcoll_group *group, int rank)
{
    const int peer = !rank;
    CUcontext own = NULL, popped;
    CUdeviceptr pooled = 0;
    float *at, *others;
    char text[96];
    int right;

    device_use(rank);
    at = device_alloc(COUNT * sizeof(float));
    right = say(symmcoll_all_reduce(
                    group, at, at, COUNT, F32, SUM, NULL, NULL) == SYMMCOLL_OK,
                "a sum") &&
            say(cuCtxCreate(&own, NULL, 0, rank) == CUDA_SUCCESS, "a context");
    others = device_alloc(COUNT * sizeof(float));
    right = say(cuMemAllocAsync(&pooled, COUNT * sizeof(float), NULL) ==
                    CUDA_SUCCESS,
                "memory of a pool") &&
            right;
    device_wait(NULL);
    (void)cuCtxPopCurrent(&popped);
    (void)snprintf(text, sizeof(text), "device %d, found %p of context %p",
        rank, (void *)others, (void *)own);
    right =
        right &&
        ended(symmcoll_send(group, others, COUNT, F32, peer, 0, NULL, NULL),
            SYMMCOLL_ERR_INVALID, "send: expected in in memory of context") &&
        ended(SYMMCOLL_ERR_INVALID, SYMMCOLL_ERR_INVALID, text) &&
        ended(
            symmcoll_recv(group, others, COUNT, F32, peer, 0, NULL, NULL, NULL),
            SYMMCOLL_ERR_INVALID, "recv: expected out in memory of context") &&
        ended(SYMMCOLL_ERR_INVALID, SYMMCOLL_ERR_INVALID, text) &&
        say((rank == 0 ? symmcoll_send(group, (void *)(uintptr_t)pooled, COUNT,
                             F32, peer, 0, NULL, NULL)
                       : symmcoll_recv(group, (void *)(uintptr_t)pooled, COUNT,
                             F32, peer, 0, NULL, NULL, NULL)) == SYMMCOLL_OK,
            "a message in a pool");
    device_wait(NULL);
    device_free(at);
    (void)cuCtxPushCurrent(own);
    device_free(others);
    right =
        say(cuMemFreeAsync(pooled, NULL) == CUDA_SUCCESS, "its end") && right;
    device_wait(NULL);
    return right;
}

int main(void)
{
    device_begin();
    on_both(2, on_its_stream, "a group is in the context of the stream");
    on_both(2, in_its_memory, "of a default stream, in that of the memory");
    on_both(2, joins_none, "it joins no memory of another context");
    on_both(
        2, refuses_others, "nor are there buffers of operations, but of pools");
    on_both(2, refuses_messages, "nor of messages, which fail alone");
    on_both(2, refuses_beside_symmetric,
        "nor those of operations on symmetric memory");
    on_both(2, follows_joined_memory,
        "a group that is begun by a rendezvous is in the context of the memory");
    return done_testing();
}
