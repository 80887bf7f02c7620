/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Tests exchanges of unlike parts on devices by a kernel: without NCCL, with a
 * device for each rank and with ranks that share one.
 */
#include "t/cuda/kernels.h"
#include "t/cuda/unlike.h"
#include "t/sanitized.h"

#include <stdlib.h>
#include <string.h>

#define SIZE 3
#define SLOT (4096 / SIZE / 16 * 16) /* bytes of a part, of a launch */

/* ---- number of launches ---- */

/* Checks that each rank makes as many launches as the largest part needs, and
 * no more. Ranks are processes. */
static int takes_pieces(struct symmcoll_group *group, int rank)
{
    static const size_t most[] = {0, 1, SLOT, SLOT + 1, 3 * SLOT + 5};
    static const int launches[] = {0, 1, 1, 2, 4};
    struct unlike one = {.shape = UNLIKE_ONE, .dtype = SYMMCOLL_UINT8};

    device_use(rank);
    for (size_t i = 0; i < sizeof(most) / sizeof(*most); i++) {
        int before = kernels_runs("symc_exchange"), found;

        one.most = most[i];
        if (!unlike_same_as_host(group, rank, &one))
            return 0;
        found = kernels_runs("symc_exchange") - before;
        if (found == launches[i])
            continue;
        diag("a part of %zu bytes: %d launches, not %d", most[i], found,
            launches[i]);
        return 0;
    }
    return 1;
}

/* ---- differing counts ---- */

/* Rank 1 expects one element more from rank 0 than rank 0 passes; no byte is
 * touched, and the group remains usable. */
static int counts_differ(struct symmcoll_group *group, int rank)
{
    struct unlike one = {.shape = UNLIKE_MIXED, .dtype = F32, .most = 12};
    char host[256], found[256];
    CUstream stream;
    char *at;
    struct symmcoll_call call = SYMMCOLL_CALL_INIT;
    int right, before;

    device_use(rank);
    stream = device_stream();
    at = device_alloc(sizeof(host));
    right = unlike_same_as_host(group, rank, &one);
    before = kernels_runs("symc_exchange");
    memset(host, 7, sizeof(host));
    device_write(at, host, sizeof(host));
    unlike_plan(&one, rank, SIZE);
    one.received[0] += rank == 1;
    one.nreceived += rank == 1;
    call.stream = stream;
    right =
        ended(unlike_call(group, &one, at, at + sizeof(host) / 2, &call, NULL),
            SYMMCOLL_ERR_MISMATCH,
            "all_to_all_v: counts differ: rank 0 passed 8 elements for "
            "rank 1, which expected 9 (group ") &&
        right;
    device_wait(stream);
    device_read(found, at, sizeof(found));
    right =
        say(memcmp(found, host, sizeof(host)) == 0, "an untouched buffer") &&
        say(kernels_runs("symc_exchange") == before, "no launch") && right;
    device_end_stream(stream);
    device_free(at);
    return unlike_same_as_host(group, rank, &one) && right;
}

/* ---- reductions ---- */

/* Reduces unlike parts in place. Then rank 1 passes one element more for rank
 * 2 than rank 2 expects: no byte is touched, and the group remains usable. */
static int reduces_in_place(struct symmcoll_group *group, int rank)
{
    size_t counts[SIZE] = {5, 0, 700};
    struct symmcoll_call call = SYMMCOLL_CALL_INIT;
    float host[SIZE * 1024], found[SIZE * 1024];
    const void *ins[SIZE];
    float *at;
    int right;

    device_use(rank);
    call.stream = device_stream();
    at = device_alloc(sizeof(host));
    for (int i = 0; i < SIZE * 1024; i++)
        host[i] = (float)(rank + i);
    device_write(at, host, sizeof(host));
    for (int r = 0; r < SIZE; r++)
        ins[r] = at + (ptrdiff_t)r * 1024;
    right = say(
        symmcoll_reduce_scatter_list(group, at + (ptrdiff_t)rank * 1024,
            counts[rank], ins, counts, F32, SUM, &call, NULL) == SYMMCOLL_OK,
        "in place");
    for (size_t i = 0; i < counts[rank]; i++)
        host[(size_t)rank * 1024 + i] =
            (float)(SIZE * (rank * 1024 + (int)i) + SIZE * (SIZE - 1) / 2);
    device_wait(call.stream);
    counts[2] += rank == 1;
    right =
        ended(symmcoll_reduce_scatter_list(group, at + (ptrdiff_t)rank * 1024,
                  counts[rank], ins, counts, F32, SUM, &call, NULL),
            SYMMCOLL_ERR_MISMATCH,
            "reduce_scatter_list: counts differ: rank 1 passed 701 elements "
            "for rank 2, which expected 700 (group ") &&
        right;
    device_wait(call.stream);
    device_read(found, at, sizeof(found));
    right = say(memcmp(found, host, sizeof(host)) == 0, "the sums") && right;
    device_end_stream(call.stream);
    device_free(at);
    return say(symmcoll_barrier(group, NULL, NULL) == SYMMCOLL_OK,
               "a barrier") &&
           right;
}

/* ---- nothing ---- */

/* Checks that after a first operation a rank without parts needs no buffer. */
static int has_no_buffer(struct symmcoll_group *group, int rank)
{
    struct unlike one = {.shape = UNLIKE_LONELY, .dtype = F32, .most = 700};
    const bool any = rank == 0 || rank == SIZE - 1;
    struct symmcoll_call call = SYMMCOLL_CALL_INIT;
    char *at;
    int right;

    device_use(rank);
    call.stream = device_stream();
    at = device_alloc(one.most * sizeof(float));
    right = unlike_same_as_host(group, rank, &one);
    unlike_plan(&one, rank, SIZE);
    right = say(unlike_call(group, &one, any ? at : NULL, any ? at : NULL,
                    &call, NULL) == SYMMCOLL_OK,
                "without a buffer") &&
            right;
    device_wait(call.stream);
    device_end_stream(call.stream);
    device_free(at);
    return unlike_same_as_host(group, rank, &one) && right;
}

/* ---- settings ---- */

/* Checks that exchanges never use copies, even if other moves do. */
static int is_no_copy(struct symmcoll_group *group, int rank)
{
    const struct unlike one = {
        .shape = UNLIKE_MIXED, .dtype = F32, .most = 333};
    int before;

    device_use(rank);
    before = kernels_runs("symc_exchange");
    return unlike_same_as_host(group, rank, &one) &&
           say(kernels_runs("symc_exchange") > before, "the kernel");
}

static void test_sharing(void)
{
    setenv("SYMMCOLL_CUDA_SHARE_DEVICE", "on", 1);
    fake_configure("devices=2");
    on_both(SIZE, every_unlike, "ranks that share a device exchange them, too");
    on_both(SIZE, every_unlike_graph, "also in graphs");
    fake_configure("devices=1");
    on_both(SIZE, every_unlike, "so do ranks that all have one device");
    unsetenv("SYMMCOLL_CUDA_SHARE_DEVICE");
    fake_configure("devices=8");
}

int main(void)
{
    device_begin();
    for (int n = 1; n <= MOST_THREADS(5); n++)
        on_both(n, every_unlike,
            "parts of unlike sizes have the bits that they have in host memory");
    for (int n = 2; n <= 3; n++)
        on_both(n, every_unlike_graph,
            "so they have in graphs that are started again");
    ok(ranks_run(SIZE, takes_pieces),
        "each rank makes as many launches as the largest part of all takes");
    on_both(SIZE, counts_differ,
        "counts that differ are told with both, and no byte is touched");
    on_both(SIZE, reduces_in_place,
        "so they are of reductions, whose unlike parts may be in place");
    on_both(SIZE, has_no_buffer, "a rank without a part needs no buffer");
    setenv("SYMMCOLL_CUDA_COPY_ENGINE", "on", 1);
    on_both(SIZE, is_no_copy, "cuda.copy_engine leaves them to the kernel");
    unsetenv("SYMMCOLL_CUDA_COPY_ENGINE");
    test_sharing();
    return done_testing();
}
