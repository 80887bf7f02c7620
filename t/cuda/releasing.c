/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Tests groups that are created and released while a kernel of another group
 * waits, with ranks that are threads and share a device: a call that frees
 * memory waits for all work of the device, so no thread may make one while a
 * kernel depends on it.
 */
#include "t/cuda/joined.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <unistd.h>

#define SIZE 2
#define STANDING 1 /* the rank with the blocked stream */
#define MANY 40    /* groups, with more words than one allocation has */

static symmcoll_status_t sum(
    struct symmcoll_group *group, float *at, CUstream stream)
{
    struct symmcoll_call call = SYMMCOLL_CALL_INIT;

    call.stream = stream;
    return symmcoll_all_reduce(group, at, at, 1, F32, SUM, &call, NULL);
}

/* Returns a group with an open backend. */
static struct symmcoll_group *open_other(
    struct symmcoll_group *all, float *at, CUstream stream)
{
    struct symmcoll_group *other = joined_group(all);

    if (!say(sum(other, at, stream) == SYMMCOLL_OK, "a sum of another group"))
        abort();
    return other;
}

static atomic_int called; /* number of ranks that have called */

/* The kernel of rank 0 waits for that of the other rank, which begins only
 * after that rank has released a group. */
static int while_a_kernel_waits(struct symmcoll_group *group, int rank)
{
    struct symmcoll_group *other;
    CUstream stream;
    float *at;
    int right;

    device_use(0);
    stream = device_stream();
    at = device_alloc(sizeof(*at));
    right = say(sum(group, at, stream) == SYMMCOLL_OK, "the first sum");
    other = open_other(group, at, stream);
    device_wait(stream);
    if (rank == STANDING)
        fake_stall(stream);
    right = say(sum(group, at, stream) == SYMMCOLL_OK, "the sum") && right;
    atomic_fetch_add(&called, 1);
    while (atomic_load(&called) < SIZE)
        usleep(1000);
    right =
        say(symmcoll_group_free(other) == SYMMCOLL_OK, "the release") && right;
    if (rank == STANDING)
        fake_resume(stream);
    device_wait(stream);
    right =
        say(symmcoll_group_error(group) == SYMMCOLL_OK, "afterwards") && right;
    device_end_stream(stream);
    device_free(at);
    return right;
}

/* Has many groups at once, with separate words. */
static int many_at_once(struct symmcoll_group *group, int rank)
{
    struct symmcoll_group *others[MANY];
    uint64_t before;
    CUstream stream;
    float *at;
    int right = 1;

    device_use(rank);
    stream = device_stream();
    at = device_alloc(sizeof(*at));
    before = fake_calls("cuMemHostAlloc");
    for (int round = 0; round < 2; round++) {
        for (int i = 0; i < MANY; i++)
            others[i] = open_other(group, at, stream);
        for (int i = 0; i < MANY; i++)
            right = say(sum(others[i], at, stream) == SYMMCOLL_OK, "a sum") &&
                    right;
        device_wait(stream);
        for (int i = 0; i < MANY; i++)
            right = say(symmcoll_group_free(others[i]) == SYMMCOLL_OK,
                        "a release") &&
                    right;
    }
    right = say(fake_calls("cuMemHostAlloc") - before < MANY,
                "memory of several groups") &&
            right;
    if (!group->world->threads)
        right = say(fake_live(FAKE_HOST) == 0, "nothing is left") && right;
    device_end_stream(stream);
    device_free(at);
    return right;
}

/* ---- memory of one rank only ---- */

/* Checks that memory freed on a blocked stream does not block another
 * stream. */
static int is_independent(
    const struct symc_local_ops *ops, void *local, CUstream standing)
{
    CUstream other = device_stream();
    void *freed = NULL, *at = NULL;
    int right = ops->allocate(local, standing, 64, &freed) == SYMMCOLL_OK;

    fake_stall(standing);
    right = right && ops->free(local, standing, freed) == SYMMCOLL_OK &&
            ops->allocate(local, other, 64, &at) == SYMMCOLL_OK &&
            ops->clear(local, other, at, 64) == SYMMCOLL_OK;
    device_wait(other);
    fake_resume(standing);
    right = right && ops->free(local, other, at) == SYMMCOLL_OK;
    device_wait(other);
    device_end_stream(other);
    return say(right, "memory of two streams");
}

static int frees_on_another_stream(struct symmcoll_group *group, int rank)
{
    struct symc_memory_request request;
    const struct symc_local_ops *ops;
    CUstream stream;
    void *local = NULL;
    int right;

    device_use(rank);
    right = joined_open(group, rank);
    stream = device_stream();
    request = joined_request(group, rank, 1);
    ops = joined_backend(group)->local;
    right = say(ops->open(&request, &local) == SYMMCOLL_OK, "a device") &&
            right && is_independent(ops, local, stream) &&
            is_independent(ops, local, stream);
    device_wait(stream);
    ops->close(local);
    device_end_stream(stream);
    return right;
}

int main(void)
{
    device_begin();
    on_both(SIZE, many_at_once, "groups have words of their own");
    on_both(SIZE, frees_on_another_stream,
        "an allocation does not wait for what another stream frees");
    if (!fake_configure("waits=1"))
        return 1;
    setenv("SYMMCOLL_CUDA_SHARE_DEVICE", "on", 1);
    setenv("SYMMCOLL_TIMEOUTS_COLLECTIVE", "20s", 1);
    ok(threads_run(SIZE, while_a_kernel_waits),
        "a group is released while a kernel of another one waits");
    return done_testing();
}
