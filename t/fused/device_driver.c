/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What a fused operation on a device asks the driver for, from the third call on: each
 * call costs the host some of its time.
 */
#include "t/fused/device_calls.h"

#define SIZE 2
#define CALLS 3

static bool gathers;

static symmcoll_status_t run(struct fused_call *it)
{
    return gathers ? fused_call_gather(it) : fused_call_scatter(it);
}

/* How often a call of this process makes that one of the driver; -1: it fails. */
static int count(struct fused_call *it, const char *name)
{
    const uint64_t before = fake_calls(name);
    bool right = OK(run(it));
    const int counted = (int)(fake_calls(name) - before);

    device_wait(it->call.stream);
    return right ? counted : -1;
}

/* The results are where those of the first call are. */
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

/* a, b and the results: each once. */
static int asks_for_its_tensors(struct symmcoll_group *group, int rank)
{
    const char *name = "cuPointerGetAttributes";
    struct fused_call it;
    int right = has_begun(&it, group, rank);

    for (int i = 0; i < CALLS && right; i++)
        right = counted(&it, name, 3, count(&it, name));
    fused_call_drop(&it);
    fused_call_free(&it);
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

int main(void)
{
    on_device_begin("2");
    on_each(
        asks_for_its_tensors, "the driver is asked where tensors are alone");
    return done_testing();
}
