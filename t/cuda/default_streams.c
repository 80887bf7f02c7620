/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Tests ranks that are threads, each with its own device, on the devices'
 * default streams. A copy between two devices in a default stream waits for
 * all work of both, so the library copies on another stream, and the default
 * stream waits for the copy.
 */
#include "t/cuda/members.h"

#include <stdlib.h>

#define COUNT 600
#define ROUNDS 10
#define SIZE 3

static int fine(symmcoll_status_t status, const char *what)
{
    return say(status == SYMMCOLL_OK, what);
}

/* Moves parts of lists, which are copied between two barriers: the kernel of a
 * rank that is ahead waits for one that still has to copy. */
static int lists_are_moved(struct symmcoll_group *group, int rank)
{
    float *at, host[SIZE * COUNT];
    void *outs[SIZE];
    const void *ins[SIZE];
    size_t counts[SIZE];
    int right = 1;

    device_use(rank);
    at = device_alloc(2 * SIZE * COUNT * sizeof(float));
    for (int r = 0; r < SIZE; r++) {
        outs[r] = at + (size_t)r * COUNT;
        ins[r] = at + (size_t)(SIZE + r) * COUNT;
        counts[r] = COUNT;
    }
    for (int round = 0; round < ROUNDS && right; round++) {
        for (int i = 0; i < SIZE * COUNT; i++)
            host[i] = (float)(round * 100 + rank * 10 + i / COUNT);
        device_write(at + (size_t)SIZE * COUNT, host, sizeof(host));
        right = fine(symmcoll_all_gather_list(
                         group, outs, counts, ins[0], COUNT, F32, NULL, NULL),
            "parts");
        device_wait(NULL);
        device_read(host, at, sizeof(host));
        for (int i = 0; i < SIZE * COUNT && right; i++)
            right = say(host[i] == (float)(round * 100 + i / COUNT * 10),
                "what has been gathered");
    }
    device_free(at);
    return right;
}

/* A kernel on rank 0's device waits for work that comes after rank 1's copy. */
static int data_comes_before_its_signal(struct symmcoll_group *group, int rank)
{
    struct symmcoll_world *world = symmcoll_group_world(group);
    struct symmcoll_symm_args args = SYMMCOLL_SYMM_ARGS_INIT;
    struct symmcoll_group *beside = NULL; /* on no device */
    struct symmcoll_symm *handle = NULL;
    float *at = NULL, *own, host[COUNT];
    CUstream stream = NULL;
    void *data = NULL;
    int right;

    args.device = SYMMCOLL_CUDA;
    args.device_index = device_use(rank);
    own = device_alloc(sizeof(host));
    right =
        fine(symmcoll_group_create(world, NULL, &beside), "a group") &&
        fine(
            symmcoll_symm_alloc(world, sizeof(host), &args, &data), "memory") &&
        fine(symmcoll_symm_rendezvous(group, data, NULL, &handle), "joined");
    at = data;
    if (rank == 0) {
        stream = device_stream();
        right = right &&
                fine(symmcoll_group_set_stream(group, stream), "a stream") &&
                fine(symmcoll_symm_wait_signal(handle, 1, 0, -1), "the wait");
    }
    right = right && fine(symmcoll_barrier(beside, NULL, NULL), "a barrier");
    if (rank == 1) {
        for (int i = 0; i < COUNT; i++)
            host[i] = (float)i;
        device_write(own, host, sizeof(host));
        right = right &&
                fine(symmcoll_symm_put_data(handle, 0, 0, own, sizeof(host)),
                    "data") &&
                fine(symmcoll_symm_put_signal(handle, 0, 0, -1), "a signal");
    }
    device_wait(stream);
    if (rank == 0) {
        device_read(host, at, sizeof(host));
        for (int i = 0; i < COUNT && right; i++)
            right = say(host[i] == (float)i, "what has come");
    }
    right = fine(symmcoll_barrier(beside, NULL, NULL), "the end") && right;
    right = fine(symmcoll_group_set_stream(group, NULL), "no stream") && right;
    symmcoll_symm_release(handle);
    right = fine(symmcoll_group_free(beside), "the group's end") && right;
    right = fine(symmcoll_symm_free(world, data), "its end") && right;
    device_end_stream(stream);
    device_free(own);
    return right;
}

/* Checks the order with work that the caller enqueued on its stream before and
 * after the call. */
static int it_is_in_order(struct symmcoll_group *group, int rank)
{
    struct symmcoll_call call = SYMMCOLL_CALL_INIT;
    float *at, host[COUNT];
    CUdeviceptr word;
    int right = 1;

    device_use(rank);
    at = device_alloc(2 * sizeof(host));
    word = (CUdeviceptr)(uintptr_t)at;
    for (int round = 1; round <= ROUNDS && right; round++) {
        const unsigned int value = 0x3f800000; /* 1 */

        right = say(cuMemsetD32Async(word, value, COUNT, NULL) == CUDA_SUCCESS,
                    "ones") &&
                fine(symmcoll_all_reduce(
                         group, at, at, COUNT, F32, SUM, &call, NULL),
                    "a sum") &&
                say(cuMemcpyAsync(word + sizeof(host), word, sizeof(host),
                        NULL) == CUDA_SUCCESS,
                    "a copy") &&
                say(cuMemsetD32Async(word, 0, COUNT, NULL) == CUDA_SUCCESS,
                    "zeros");
        device_wait(NULL);
        device_read(host, at + COUNT, sizeof(host));
        for (int i = 0; i < COUNT && right; i++)
            right = say(host[i] == SIZE, "the sum");
    }
    device_free(at);
    return right;
}

int main(void)
{
    device_begin();
    setenv("SYMMCOLL_TIMEOUTS_COLLECTIVE", "20s", 1);
    ok(threads_run(SIZE, lists_are_moved),
        "copies between devices do not wait for kernels that wait for them");
    ok(threads_run(SIZE, data_comes_before_its_signal),
        "nor for a kernel that waits for what comes after them");
    on_both(SIZE, it_is_in_order,
        "operations are in the order of the default stream");
    return done_testing();
}
