/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Tests a fused operation of which the driver refuses a part on one rank,
 * while the rank's stream is blocked: each driver call of the operation in
 * turn. All ranks get an error, and no memory is freed before the device has
 * finished with it.
 */
#include "t/fused/device_calls.h"

#include <stdio.h>
#include <string.h>

#define SIZE 3

/* The operation, and the driver call that fails in it. */
struct failing {
    bool gathers;
    const char *call, *named; /* the names in messages */
};

static struct failing failing;

static void set_failure(int number)
{
    char text[64];

    (void)snprintf(text, sizeof(text), "fail=%s:%d:%d", failing.call, number,
        (int)CUDA_ERROR_UNKNOWN);
    if (!fake_configure(text))
        diag("the fake driver does not take %s", text);
}

static symmcoll_status_t run(struct fused_call *it)
{
    return failing.gathers ? fused_call_gather(it) : fused_call_scatter(it);
}

/* Returns how often the victim makes the driver call in the operation. */
static int count_calls(struct symmcoll_group *group, int rank)
{
    struct fused_call it;
    int64_t counts[2] = {0};
    uint64_t before;
    int right;

    fused_call_begin(&it, group, rank);
    right = OK(run(&it));
    fused_call_drop(&it);
    device_wait(it.call.stream);
    before = fake_calls(failing.call);
    right = right && OK(run(&it));
    if (rank == VICTIM)
        counts[0] = (int64_t)(fake_calls(failing.call) - before);
    fused_call_drop(&it);
    fused_call_free(&it);
    right = right && OK(symmcoll_all_reduce(group, &counts[1], &counts[0], 1,
                         SYMMCOLL_INT64, SYMMCOLL_MAX, NULL, NULL));
    return right ? (int)counts[1] : -1;
}

static int say_missing(int rank, int number)
{
    diag("rank %d: %s %d: no error", rank, failing.call, number);
    return 0;
}

/* Checks the victim's error. The other ranks get theirs from the call, or from
 * the next one after their streams have ended. */
static int is_told(struct fused_call *it, int rank, int number)
{
    symmcoll_status_t status;

    if (rank == VICTIM) {
        fake_stall(it->call.stream);
        set_failure(number);
    }
    status = run(it);
    if (rank == VICTIM)
        fake_resume(it->call.stream);
    device_wait(it->call.stream);
    fused_call_drop(it);
    if (rank == VICTIM)
        return made_says(status, SYMMCOLL_ERR_DEVICE, failing.named) ||
               say_missing(rank, number);
    if (status == SYMMCOLL_OK)
        status = run(it);
    return status != SYMMCOLL_OK || say_missing(rank, number);
}

/* Runs the operation in a new group, which fails. */
static int fails_at(struct symmcoll_group *group, int rank, int number)
{
    struct symmcoll_group *made = NULL;
    struct fused_call it;
    int right =
        OK(symmcoll_group_create(symmcoll_group_world(group), NULL, &made));

    fused_call_begin(&it, made, rank);
    right = right && OK(run(&it));
    fused_call_drop(&it);
    device_wait(it.call.stream);
    right = right && is_told(&it, rank, number);
    fused_call_free(&it);
    symmcoll_group_free(made);
    return right;
}

static int each_fails(struct symmcoll_group *group, int rank)
{
    int count = count_calls(group, rank), right = count > 0;

    for (int i = 1; i <= count && right; i++)
        right = fails_at(group, rank, i);
    return right;
}

/* Makes the wait fail by which the stream waits at the end for the second
 * stream of a gather. */
static int join_fails(struct symmcoll_group *group, int rank)
{
    int count = count_calls(group, rank), right = count > 0, before, left;
    struct symmcoll_group *made = NULL;
    symmcoll_status_t status;
    struct fused_call it;
    uint64_t calls;

    right = right &&
            OK(symmcoll_group_create(symmcoll_group_world(group), NULL, &made));
    before = fake_live(FAKE_PHYSICAL) + fake_live(FAKE_STREAMS);
    fused_call_begin(&it, made, rank);
    right = right && OK(run(&it));
    fused_call_drop(&it);
    device_wait(it.call.stream);
    if (rank == VICTIM) {
        fake_stall(it.call.stream);
        set_failure(count);
    }
    calls = fake_calls(failing.call);
    status = run(&it);
    calls = fake_calls(failing.call) - calls;
    if (rank == VICTIM) {
        right = right && calls == (uint64_t)count &&
                made_says(status, SYMMCOLL_ERR_DEVICE,
                    "cuStreamWaitEvent after products") &&
                made_says(status, SYMMCOLL_ERR_DEVICE,
                    "backend cuda still owns its buffers");
        fake_resume(it.call.stream);
    }
    device_wait(it.call.stream);
    fused_call_drop(&it);
    if (rank != VICTIM && status == SYMMCOLL_OK)
        right = right && run(&it) != SYMMCOLL_OK;
    fused_call_free(&it);
    symmcoll_group_free(made);
    left = fake_live(FAKE_PHYSICAL) + fake_live(FAKE_STREAMS);
    if (left != before)
        diag("rank %d: %d allocations and streams, later %d", rank, before,
            left);
    return right && left == before;
}

/* Tests a failing driver call. Copies and concurrent products occur only in a
 * gather (1 operation). */
static void test_call(const char *call, const char *named, int operations)
{
    failing.call = call;
    failing.named = named;
    for (int i = 0; i < operations; i++) {
        failing.gathers = i == 0;
        ok(ranks_run(SIZE, each_fails), "%s: each that fails in %s is told",
            call, i == 0 ? "a gather" : "a scatter");
    }
}

int main(void)
{
    on_device_begin("2");
    test_call("cuLaunchKernelEx", "cuLaunchKernelEx", 2);
    test_call("cuMemcpyAsync", "cuMemcpyAsync", 1);
    test_call("cuEventRecord", "cuEventRecord", 2);
    test_call("cuStreamWaitEvent", "cuStreamWaitEvent", 1);
    test_call(
        "cuLaunchHostFunc", "cublasLtMatmul", 2); /* made by the stand-in */
    failing.call = "cuStreamWaitEvent";
    failing.gathers = true;
    ok(ranks_run(SIZE, join_fails),
        "where the stream beside cannot be joined it is asked, and "
        "nothing is left");
    return done_testing();
}
