/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Tests fused operations in a context created by the program, from a thread
 * without a current context, or with that of another device.
 */
#include "t/fused/device_calls.h"

#include <pthread.h>
#include <stdlib.h>

#define SIZE 2

struct task {
    struct fused_call call;
    int rank;
    int right;
};

static bool elsewhere; /* the context of another device is current */

static void *run(void *arg)
{
    struct task *task = arg;
    struct fused_call *it = &task->call;

    if (elsewhere)
        device_use(task->rank + SIZE);
    for (int i = 0; i < 2; i++) {
        task->right = task->right && OK(fused_call_gather(it));
        fused_call_drop(it);
        task->right = task->right && OK(fused_call_scatter(it));
        fused_call_drop(it);
    }
    return NULL;
}

static int in_thread(struct symmcoll_group *group, int rank)
{
    struct task task = {.rank = rank, .right = 1};
    CUcontext own = NULL;
    pthread_t thread;

    if (cuInit(0) != CUDA_SUCCESS ||
        cuCtxCreate(&own, NULL, 0, rank) != CUDA_SUCCESS)
        return 0;
    fused_call_begin_there(&task.call, group, rank, rank);
    if (pthread_create(&thread, NULL, run, &task) != 0)
        return 0;
    pthread_join(thread, NULL);
    task.right = is_primary_unused(rank) && task.right;
    fused_call_free(&task.call);
    return task.right;
}

/* In a failed group the first call may have opened resources in another
 * context than that of the second call. The second call still returns why the
 * group failed. */
static int after_a_failure(struct symmcoll_group *group, int rank)
{
    struct symmcoll_group *made = NULL;
    int right =
        OK(symmcoll_group_create(symmcoll_group_world(group), NULL, &made));

    symmcoll_group_abort(made, "no more");
    for (int i = 0; i < 2 && right; i++) {
        struct fused_call it;
        CUcontext own = NULL;

        right = cuInit(0) == CUDA_SUCCESS &&
                cuCtxCreate(&own, NULL, 0, rank) == CUDA_SUCCESS;
        if (!right)
            break;
        fused_call_begin_there(&it, made, rank, rank);
        right = made_says(
                    fused_call_gather(&it), SYMMCOLL_ERR_ABORTED, "no more") &&
                it.out.data == NULL &&
                made_says(
                    fused_call_scatter(&it), SYMMCOLL_ERR_ABORTED, "no more") &&
                it.out.data == NULL;
        fused_call_free(&it);
    }
    symmcoll_group_free(made);
    return right;
}

/* Gives one rank a matrix, or a place for its result, in memory of another
 * context than the group has, or is about to be opened in. That rank's error
 * names the matrix, the other ranks' errors name the rank. */
static int refuses_others(struct symmcoll_group *group, int rank, bool begun)
{
    const size_t nbytes = (size_t)FUSED_CALL_ROWS * SIZE * SIZE *
                          FUSED_CALL_COLUMNS * sizeof(float);
    CUcontext own = NULL, popped = NULL;
    struct symmcoll_tensor place;
    struct fused_call it;
    void *others, *b;
    int right;

    fused_call_begin(&it, group, rank);
    right = cuCtxCreate(&own, NULL, 0, it.device) == CUDA_SUCCESS;
    others = device_alloc(nbytes);
    right = cuCtxPopCurrent(&popped) == CUDA_SUCCESS && right;
    if (begun) {
        right = right && OK(fused_call_gather(&it));
        fused_call_drop(&it);
    }
    b = it.b.data;
    if (rank == VICTIM)
        it.b.data = others;
    right = right && fused_calls_fail(&it, rank, SYMMCOLL_ERR_INVALID,
                         " in memory of context ", "rank 1");
    it.b.data = b;
    place = it.a;
    place.shape[1] = FUSED_CALL_COLUMNS;
    place.strides[0] = FUSED_CALL_COLUMNS;
    place.shape[0] = FUSED_CALL_ROWS;
    place.data = rank == VICTIM ? others : NULL;
    it.out = place;
    right =
        right && made_says(fused_call_scatter(&it), SYMMCOLL_ERR_INVALID,
                     rank == VICTIM ? "out in memory of context " : "rank 1");
    it.out = (struct symmcoll_tensor)SYMMCOLL_TENSOR_INIT;
    (void)cuCtxPushCurrent(own);
    device_free(others);
    (void)cuCtxPopCurrent(&popped);
    return fused_call_end(&it, right);
}

static int refuses_at_once(struct symmcoll_group *group, int rank)
{
    return refuses_others(group, rank, false);
}

static int refuses_later(struct symmcoll_group *group, int rank)
{
    return refuses_others(group, rank, true);
}

int main(void)
{
    on_device_begin("2");
    on_both(SIZE, in_thread, "from a thread without a context");
    elsewhere = true;
    on_both(SIZE, in_thread, "from a thread in that of another device");
    on_both(
        SIZE, after_a_failure, "from one of two, in a group that has failed");
    on_both(SIZE, refuses_at_once,
        "a tensor of another context than that of a is refused");
    on_both(SIZE, refuses_later, "or than that of the group");
    return done_testing();
}
