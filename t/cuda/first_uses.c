/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Tests first uses of an operation in a context, during which a driver may
 * make streams wait for each other. With ranks that are threads no operation
 * is a first use: a group uses each kind when it is opened, before any of its
 * kernels waits for another rank.
 */
#include "t/cuda/every.h"

#include "group/site.h"

#include <stdlib.h>
#include <string.h>

#define COUNT 8
#define VICTIM 1

static symmcoll_status_t sum(struct symmcoll_group *group, void *at)
{
    return symmcoll_all_reduce(group, at, at, COUNT, F32, SUM, NULL, NULL);
}

/* Until all ranks are here. */
static int meet(struct symmcoll_group *group)
{
    int32_t one = 1;

    return say(symmcoll_all_reduce(group, &one, &one, 1, SYMMCOLL_INT32, SUM,
                   NULL, NULL) == SYMMCOLL_OK,
        "a barrier of the host");
}

/* Checks the status and text of a group's first operation. */
static int opens(struct symmcoll_group *group, int rank,
    symmcoll_status_t status, const char *text)
{
    CUstream stream;
    float *at;
    int right;

    device_use(rank);
    stream = device_stream();
    at = device_alloc(COUNT * sizeof(float));
    right = say(symmcoll_group_set_stream(group, stream) == SYMMCOLL_OK,
                "a stream") &&
            say(sum(group, at) == status &&
                    (status == SYMMCOLL_OK ||
                        strstr(symmcoll_last_error(), text) != NULL),
                symmcoll_last_error());
    device_wait(stream);
    right = say(symmcoll_group_set_stream(group, NULL) == SYMMCOLL_OK,
                "no stream") &&
            right;
    device_end_stream(stream);
    device_free(at);
    return right;
}

static int nothing_is_first(struct symmcoll_group *group, int rank)
{
    static const rank_fn all[] = {every_all_reduce, every_reduce,
        every_reduce_scatter, every_all_gather, every_gather, every_scatter,
        every_all_to_all, every_broadcast, every_lists,
        every_types_and_reductions, every_factors};
    int right = opens(group, rank, SYMMCOLL_OK, ""), before;

    right = meet(group) && right;
    before = fake_first_uses();
    right = meet(group) && right;
    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
        right = all[i](group, rank) && right;
    right = meet(group) && right;
    if (fake_first_uses() != before)
        diag("%d are the first of their kind", fake_first_uses() - before);
    return fake_first_uses() == before && right;
}

/* Checks sets and copies, which fused operations use but sums do not. */
static int so_are_sets_and_copies(struct symmcoll_group *group, int rank)
{
    static const char *const names[] = {
        "cuMemsetD8Async", "cuMemcpyAsync", "cuMemcpy2DAsync"};
    uint64_t before[3];
    int right;

    for (int i = 0; i < 3; i++)
        before[i] = fake_calls(names[i]);
    right = opens(group, rank, SYMMCOLL_OK, "") && meet(group);
    for (int i = 0; i < 3; i++)
        right = say(fake_calls(names[i]) > before[i], names[i]) && right;
    return right;
}

/* Two pieces to a buffer and back, by a rank alone. */
static int so_are_pieces(struct symmcoll_group *group, int rank)
{
    int right = opens(group, rank, SYMMCOLL_OK, ""), before;
    int device = device_use(rank);
    char *at = device_alloc(64);
    const struct symc_local_piece pieces[] = {{at, 0, 3}, {at + 5, 4, 7}};
    struct symc_local_pieces both = {at + 32, pieces, 2, false};
    struct symc_site *site = NULL;

    right = right && symc_site_open("t", group, device, NULL, NULL, true,
                         &site) == SYMMCOLL_OK;
    before = fake_first_uses();
    for (int spread = 0; right && spread < 2; spread++) {
        both.spread = spread;
        right = symc_site_move_pieces(site, &both) == SYMMCOLL_OK;
    }
    right = say(right && fake_first_uses() == before, "pieces");
    symc_site_close(site);
    device_wait(NULL);
    device_free(at);
    return meet(group) && right;
}

static int processes_use_nothing(struct symmcoll_group *group, int rank)
{
    return opens(group, rank, SYMMCOLL_OK, "") &&
           say(fake_calls("cuMemcpy2DAsync") == 0, "rows");
}

static int a_failure_is_told(struct symmcoll_group *group, int rank)
{
    int right = meet(group);

    if (rank == VICTIM)
        (void)fake_configure("fail=cuMemcpy2DAsync:1:719");
    right = meet(group) && right;
    return opens(group, rank, SYMMCOLL_ERR_DEVICE,
               "cuMemcpy2DAsync for what operations use first") &&
           right;
}

static int without_memory_none_is(struct symmcoll_group *group, int rank)
{
    const uint64_t before = fake_calls("cuMemcpy2DAsync");
    int right = meet(group);

    if (rank == VICTIM)
        (void)fake_configure("fail=cuMemAllocFromPoolAsync:1:2 "
                             "fail=cuMemAllocFromPoolAsync:1:2");
    right = meet(group) && right;
    return opens(group, rank, SYMMCOLL_OK, "") && meet(group) && right &&
           say(fake_calls("cuMemcpy2DAsync") == before, "rows");
}

int main(void)
{
    static const size_t counts[EVERY_COUNTS] = {0, 1, 7, 37, 131, 421};

    device_begin();
    memcpy(every_counts, counts, sizeof(counts));
    setenv("SYMMCOLL_CUDA_SHARE_DEVICE", "on", 1);
    if (!fake_configure("devices=1"))
        diag("the fake driver does not take devices=1");
    ok(ranks_run(2, processes_use_nothing),
        "ranks that are processes use nothing");
    ok(threads_run(2, without_memory_none_is),
        "threads without memory for it neither");
    ok(threads_run(2, a_failure_is_told),
        "what fails then is told in the first operation, on all ranks");
    ok(threads_run(2, nothing_is_first),
        "of a collective nothing is the first of its kind on the device");
    ok(threads_run(2, so_are_sets_and_copies),
        "nor of sets of memory, copies and copies of rows");
    ok(threads_run(2, so_are_pieces), "nor of pieces of a buffer");
    return done_testing();
}
