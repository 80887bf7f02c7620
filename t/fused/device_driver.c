/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Tests which driver calls a fused operation on a device makes from the third
 * call on: each of them costs host time.
 */
#include "t/fused/device_calls.h"

#include <string.h>

#define SIZE 2
#define CALLS 3

static bool gathers;

static symmcoll_status_t run(struct fused_call *it)
{
    return gathers ? fused_call_gather(it) : fused_call_scatter(it);
}

/* Returns how often an operation of this process makes that driver call; -1:
 * it fails. */
static int count(struct fused_call *it, const char *name)
{
    const uint64_t before = fake_calls(name);
    bool right = OK(run(it));
    const int counted = (int)(fake_calls(name) - before);

    device_wait(it->call.stream);
    return right ? counted : -1;
}

/* Runs calls first, so that results are at the addresses of the first call. */
static int has_begun(
    struct fused_call *it, struct symmcoll_group *group, int rank)
{
    fused_call_begin(it, group, rank);
    return count(it, "") == 0 && count(it, "") == 0;
}

static int counted(
    const struct fused_call *it, const char *name, int expected, int found)
{
    if (found != expected)
        diag("rank %d: %s: expected %d of %s, found %d",
            symmcoll_group_rank(it->group), gathers ? "gather" : "scatter",
            expected, name, found);
    return found == expected;
}

/* Checks the queries for a, b and the results: the place and the context of
 * each. */
static int asks_for_its_tensors(struct symmcoll_group *group, int rank)
{
    const char *name = "cuPointerGetAttributes";
    struct fused_call it;
    int right = has_begun(&it, group, rank);

    for (int i = 0; i < CALLS && right; i++)
        right = counted(&it, name, 6, count(&it, name));
    fused_call_drop(&it);
    fused_call_free(&it);
    return right;
}

/* Checks two queries of the capture status: one at the call, the result of
 * which all ranks share, and one where work is enqueued, in case another
 * thread has begun a capture since. */
static int asks_twice_for_a_capture(struct symmcoll_group *group, int rank)
{
    const char *name = "cuStreamIsCapturing";
    struct fused_call it;
    int right = has_begun(&it, group, rank);

    for (int i = 0; i < CALLS && right; i++)
        right = counted(&it, name, 2, count(&it, name));
    fused_call_drop(&it);
    fused_call_free(&it);
    return right;
}

/* Checks that no operation makes that driver call. make: the results are
 * allocated in each operation. */
static int makes_none(struct fused_call *it, const char *name, bool make)
{
    int right = 1;

    for (int i = 0; i < CALLS && right; i++) {
        if (make)
            fused_call_drop(it);
        right = counted(it, name, 0, count(it, name));
    }
    return right;
}

static int makes_nothing_anew(struct symmcoll_group *group, int rank)
{
    static const char *const names[] = {"cuDeviceGetCount", "cuDeviceGet",
        "cuDevicePrimaryCtxGetState", "cuDevicePrimaryCtxRetain",
        "cuDevicePrimaryCtxRelease", "cuEventCreate", "cuEventDestroy",
        "cuStreamCreateWithPriority"};
    struct fused_call it;
    int right = has_begun(&it, group, rank);

    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]) && right; i++)
        right =
            makes_none(&it, names[i], false) && makes_none(&it, names[i], true);
    fused_call_drop(&it);
    fused_call_free(&it);
    return right;
}

/* Checks that a result is freed in the order of the stream of its call, while
 * the other stream is blocked. */
static int is_freed(struct symmcoll_world *world, struct symmcoll_tensor *out,
    CUstream stream, CUstream other)
{
    const int before = fake_live(FAKE_ALLOCATED);
    int left;

    fake_stall(other);
    symmcoll_f_free(world, out);
    device_wait(stream);
    left = fake_live(FAKE_ALLOCATED);
    fake_resume(other);
    return left == before - 1 || (diag("memory is left"), 0);
}

/* Frees results after their group was released, and then all uses of the
 * device except theirs. */
static int are_freed(struct symmcoll_world *world, struct symmcoll_tensor *outs,
    CUstream *streams)
{
    const int before = fake_live(FAKE_CONTEXTS);
    int right = is_freed(world, &outs[0], streams[0], streams[1]) &&
                fake_live(FAKE_CONTEXTS) == before;

    right = is_freed(world, &outs[1], streams[1], streams[0]) && right &&
            fake_live(FAKE_CONTEXTS) == before - 1;
    if (!right)
        diag("of %d uses of contexts %d are left", before,
            fake_live(FAKE_CONTEXTS));
    return right;
}

static int results_outlive(struct symmcoll_group *group, int rank)
{
    struct symmcoll_tensor init = SYMMCOLL_TENSOR_INIT, outs[2] = {init, init};
    struct symmcoll_world *world = symmcoll_group_world(group);
    struct symmcoll_group *made = NULL;
    struct fused_call it;
    CUstream streams[2];
    int right = OK(symmcoll_group_create(world, NULL, &made));

    fused_call_begin(&it, made, rank);
    streams[0] = it.call.stream;
    streams[1] = device_stream();
    for (int i = 0; i < 2; i++) {
        it.call.stream = streams[i];
        right = right && OK(run(&it));
        device_wait(streams[i]);
        outs[i] = it.out;
        it.out = init;
    }
    symmcoll_group_free(made);
    right = right && are_freed(world, outs, streams);
    it.call.stream = streams[0];
    fused_call_free(&it);
    device_end_stream(streams[1]);
    return right;
}

static void on_each(rank_fn body, const char *what)
{
    for (int i = 0; i < 2; i++) {
        gathers = i == 0;
        ok(ranks_run(SIZE, body), "%s: %s",
            gathers ? "all_gather_matmul" : "matmul_reduce_scatter", what);
    }
}

/* ---- trial products, with threads ---- */

/* Checks how many products all ranks have enqueued. Synchronises through host
 * memory, because the devices have pending work. */
static int products_are(
    const struct fused_call *it, struct fake_cublaslt *lt, int expected)
{
    int32_t one = 1;

    return OK(symmcoll_all_reduce(it->group, &one, &one, 1, SYMMCOLL_INT32,
               SYMMCOLL_SUM, NULL, NULL)) &&
           counted(it, "products", expected, lt->products) &&
           OK(symmcoll_all_reduce(it->group, &one, &one, 1, SYMMCOLL_INT32,
               SYMMCOLL_SUM, NULL, NULL));
}

/* Returns the number of plans for parts: one for a gather; for a scatter one
 * that begins a sum and one that ends it. */
static int plans_of_parts(void)
{
    return gathers ? 1 : 2;
}

static int tries_once(struct symmcoll_group *group, int rank)
{
    int expected = SIZE * (plans_of_parts() + SIZE), right;
    struct fused_call it;

    fused_call_begin(&it, group, rank);
    right = OK(run(&it)) && products_are(&it, on_device_cublaslt(), expected);
    for (int i = 0; i < CALLS && right; i++) {
        expected += SIZE * SIZE;
        right =
            OK(run(&it)) && products_are(&it, on_device_cublaslt(), expected);
    }
    device_wait(it.call.stream);
    fused_call_drop(&it);
    fused_call_free(&it);
    return right;
}

/* Makes the trial products fail on one rank: no rank enqueues one that the
 * choice needs, and the next call tries again. */
static int a_try_fails(struct symmcoll_group *group, int rank)
{
    struct fused_call it;
    int32_t one = 1;
    symmcoll_status_t status;
    int right;

    fused_call_begin(&it, group, rank);
    if (rank == VICTIM)
        (void)fake_configure("fail=cuLaunchHostFunc:1:400");
    right = OK(symmcoll_all_reduce(
        group, &one, &one, 1, SYMMCOLL_INT32, SYMMCOLL_SUM, NULL, NULL));
    status = run(&it);
    /* Whichever rank makes the call first fails. */
    right = right && made_says(status, SYMMCOLL_ERR_DEVICE,
                         strstr(symmcoll_last_error(), "cannot go on") == NULL
                             ? "cublasLtMatmul"
                             : "rank ");
    right = right && OK(run(&it));
    device_wait(it.call.stream);
    fused_call_drop(&it);
    fused_call_free(&it);
    return right;
}

/* Checks that without memory for it a trial is left to the next call. */
static int has_no_memory(struct symmcoll_group *group, int rank)
{
    int expected = SIZE * (plans_of_parts() + SIZE), right;
    struct fake_cublaslt *lt;
    struct fused_call it;

    fused_call_begin(&it, group, rank);
    right = OK(run(&it));
    lt = on_device_cublaslt();
    if (right && rank == VICTIM)
        (void)fake_configure("fail=cuMemAllocFromPoolAsync:1:2");
    right = right && OK(symmcoll_fused_set_plain(group, 1)) &&
            products_are(&it, lt, expected);
    expected += SIZE + SIZE - 1;
    right = right && OK(run(&it)) && products_are(&it, lt, expected);
    expected += SIZE + 1;
    right = right && OK(run(&it)) && products_are(&it, lt, expected);
    right = right && OK(run(&it)) && products_are(&it, lt, expected + SIZE);
    device_wait(it.call.stream);
    fused_call_drop(&it);
    fused_call_free(&it);
    return right;
}

static void on_each_threads(rank_fn body, const char *what)
{
    for (int i = 0; i < 2; i++) {
        gathers = i == 0;
        ok(threads_run(SIZE, body), "%s: %s (threads)",
            gathers ? "all_gather_matmul" : "matmul_reduce_scatter", what);
    }
}

int main(void)
{
    on_device_begin("2");
    on_each(
        asks_for_its_tensors, "the driver is asked where tensors are alone");
    on_each(asks_twice_for_a_capture, "and twice whether a stream is captured");
    on_each(makes_nothing_anew,
        "events and the device are those of the first call");
    on_each(results_outlive, "results outlive the group, with the device");
    on_each_threads(
        tries_once, "each product is tried by the first call, and by no other");
    on_each_threads(
        a_try_fails, "one that cannot be tried is told, and none is enqueued");
    on_each_threads(
        has_no_memory, "one for which there is no memory is tried later");
    return done_testing();
}
