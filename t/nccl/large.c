/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Tests which collectives on devices use NCCL, with the stand-ins for the
 * driver and for NCCL, which adds in the reverse order of ranks; and the
 * operations of all members when NCCL is absent or unusable.
 */
#include "t/cuda/members.h"
#include "t/nccl/by.h"
#include "t/nccl/exchanged.h"
#include "t/sanitized.h"

#include "cuda/nccl/nccl.h"

#include "base/dtype.h"
#include "group/group.h"

#include <math.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#define INT32 SYMMCOLL_INT32

/* ---- both sides of the limit ---- */

static int both_sides(
    struct symmcoll_group *group, int rank, struct collective one)
{
    int right = 1;

    one.dtype = SYMMCOLL_UINT8;
    for (int in_place = 0; in_place < 2 && right; in_place++) {
        if (in_place && (one.kind == SYMC_ALL_TO_ALL || one.listed))
            continue;
        one.in_place = in_place;
        one.root = in_place;
        one.count = MIN - 1;
        right = right_by(group, rank, &one, false);
        one.count = MIN;
        right = right && right_by(group, rank, &one, true);
        one.count = 9 * MIN;
        right = right && right_by(group, rank, &one, true);
    }
    return right;
}

static int moves(struct symmcoll_group *group, int rank)
{
    static const struct collective kinds[] = {
        {.kind = SYMC_BROADCAST},
        {.kind = SYMC_ALL_GATHER},
        {.kind = SYMC_ALL_GATHER, .listed = true},
        {.kind = SYMC_GATHER},
        {.kind = SYMC_GATHER, .listed = true},
        {.kind = SYMC_SCATTER},
        {.kind = SYMC_SCATTER, .listed = true},
        {.kind = SYMC_ALL_TO_ALL},
        {.kind = SYMC_ALL_REDUCE},
        {.kind = SYMC_REDUCE},
        {.kind = SYMC_REDUCE_SCATTER},
        {.kind = SYMC_REDUCE_SCATTER, .listed = true},
        {.kind = SYMC_ALL_REDUCE_COALESCED, .several = 4},
        {.kind = SYMC_ALL_GATHER_COALESCED, .several = 4},
        {.kind = SYMC_REDUCE_SCATTER_COALESCED, .several = 4, .region = true},
    };
    int right = 1;

    device_use(rank);
    for (size_t i = 0; i < sizeof(kinds) / sizeof(*kinds) && right; i++)
        right = both_sides(group, rank, kinds[i]);
    atexit(check_nccl);
    return right;
}

/* Checks that parts for each rank use collectives of their own. */
static int parts(struct symmcoll_group *group, int rank)
{
    return moves(group, rank) &&
           say(atomic_load(&find_nccl()->parted) > 0, "a call for parts");
}

/* Checks that NCCL before 2.28, which lacks them, is not called for parts. */
static int parts_without(struct symmcoll_group *group, int rank)
{
    return moves(group, rank) &&
           say(atomic_load(&find_nccl()->parted) == 0, "no call for parts");
}

static bool is_exact(enum symmcoll_dtype dtype, symmcoll_op_t op)
{
    return (dtype == SYMMCOLL_BOOL || dtype == SYMMCOLL_INT8 ||
               dtype == SYMMCOLL_UINT8 || dtype == INT32 ||
               dtype == SYMMCOLL_UINT32 || dtype == SYMMCOLL_INT64 ||
               dtype == SYMMCOLL_UINT64) &&
           (op == SYMMCOLL_SUM || op == SYMMCOLL_PRODUCT ||
               op == SYMMCOLL_MIN || op == SYMMCOLL_MAX);
}

static int reductions(struct symmcoll_group *group, int rank)
{
    struct collective one = {.kind = SYMC_ALL_REDUCE};
    int right = 1, exact = 0;

    device_use(rank);
    for (int dtype = 0; dtype < SYMMCOLL_DTYPE_COUNT; dtype++) {
        for (int op = 0; op < SYMMCOLL_PREMUL_SUM && right; op++) {
            one.dtype = (enum symmcoll_dtype)dtype;
            one.op = op;
            one.count = MIN / symmcoll_dtype_size(one.dtype) + 1;
            one.kind = op % 2 ? SYMC_REDUCE_SCATTER : SYMC_ALL_REDUCE;
            if (!symc_dtype_reduces(symc_dtype_find(one.dtype), op))
                continue;
            right = right_by(group, rank, &one, is_exact(one.dtype, op));
            exact += is_exact(one.dtype, op);
        }
    }
    return right && exact == 7 * 4;
}

/* ---- floats ---- */

static symmcoll_status_t reduce_at(struct symmcoll_group *group,
    enum symmcoll_dtype dtype, symmcoll_op_t op, void *at, CUstream stream)
{
    struct symmcoll_call call = SYMMCOLL_CALL_INIT;

    call.stream = stream;
    return symmcoll_all_reduce(group, at, at, ELEMENTS, dtype, op, &call, NULL);
}

/* Returns the first element of a reduction of floats. */
static int reduces_float(struct symmcoll_group *group, int rank,
    symmcoll_op_t op, float mine, float *found)
{
    CUstream stream = device_stream();
    float *at = device_alloc(ELEMENTS * sizeof(*at));
    int right;

    (void)rank;
    device_write(at, &mine, sizeof(mine));
    right = say(reduce_at(group, F32, op, at, stream) == SYMMCOLL_OK, "floats");
    device_wait(stream);
    device_read(found, at, sizeof(*found));
    device_end_stream(stream);
    device_free(at);
    return right;
}

/* Terms with a sum that loses the 1 in the order of ranks. */
static const float terms[SIZE] = {1, 1e8f, -1e8f};

static int floats_keep_their_order(struct symmcoll_group *group, int rank)
{
    const struct collective first = {
        .kind = SYMC_BROADCAST, .dtype = F32, .count = ELEMENTS};
    const float mine = rank == 1 ? NAN : (float)rank;
    float sum, least, most;
    int right, before;

    device_use(rank);
    right = right_by(group, rank, &first, true);
    before = enqueued();
    return reduces_float(group, rank, SUM, terms[rank], &sum) &&
           reduces_float(group, rank, SYMMCOLL_MIN, mine, &least) &&
           reduces_float(group, rank, SYMMCOLL_MAX, mine, &most) &&
           was_by(before, false, "floats") && right && sum == 0 &&
           isnan(least) && isnan(most);
}

/* ---- without NCCL ---- */

/* The reason why there is none; NULL: not requested. */
static const char *reason;

static const struct collective sum = {
    .kind = SYMC_ALL_REDUCE, .dtype = INT32, .count = ELEMENTS};
static const struct collective gather = {
    .kind = SYMC_ALL_GATHER, .dtype = F32, .count = 3 * ELEMENTS};

static int goes_without(struct symmcoll_group *group, int rank)
{
    device_use(rank);
    return right_by(group, rank, &sum, false) &&
           right_by(group, rank, &gather, false) &&
           right_by(group, rank, &sum, false) &&
           say(exchange_by(group, false) == SYMMCOLL_OK, "an exchange") &&
           (reason == NULL ||
               lacks_nccl(group, SYMMCOLL_ERR_UNSUPPORTED, reason)) &&
           right_by(group, rank, &gather, false);
}

/* Checks that without a limit for large sizes exchanges still use NCCL. */
static int has_no_limit(struct symmcoll_group *group, int rank)
{
    device_use(rank);
    return right_by(group, rank, &sum, false) &&
           right_by(group, rank, &gather, false) &&
           say(exchange(group) == SYMMCOLL_OK, "an exchange") &&
           right_by(group, rank, &sum, false);
}

/* Checks that a sum times out in its own time, and that nothing then waits for
 * NCCL. */
static int is_given_up(struct symmcoll_group *group, int rank)
{
    struct symmcoll_call call = SYMMCOLL_CALL_INIT;
    struct fake_nccl *fake = find_nccl();
    int32_t *at;
    int right, before;

    device_use(rank);
    call.stream = device_stream();
    /* Long enough for all ranks to arrive, for which a sanitizer needs
     * longer. */
    call.timeout = SANITIZED ? 9 : 1.5;
    group->world->config->timeouts_init = SYMC_NS_PER_S * (SANITIZED ? 6 : 1);
    at = device_alloc(ELEMENTS * sizeof(*at));
    atomic_store(&fake->stuck, 1);
    before = enqueued();
    right = say(symmcoll_all_reduce(group, at, at, ELEMENTS, INT32, SUM, &call,
                    NULL) == SYMMCOLL_OK,
                "a sum") &&
            was_by(before, false, "a sum that has no time for NCCL");
    device_wait(call.stream);
    right =
        say(symmcoll_barrier(group, NULL, NULL) == SYMMCOLL_OK, "a barrier") &&
        right;
    atomic_store(&fake->stuck, 0);
    right =
        say(symmcoll_barrier(group, NULL, NULL) == SYMMCOLL_OK, "another") &&
        say(exchange_by(group, false) == SYMMCOLL_OK, "an exchange") && right;
    device_end_stream(call.stream);
    device_free(at);
    return right;
}

static int one_is_too_old(struct symmcoll_group *group, int rank)
{
    if (rank == 1)
        setenv("FAKE_NCCL_VERSION", "22105", 1);
    return goes_without(group, rank);
}

static int one_makes_no_communicator(struct symmcoll_group *group, int rank)
{
    if (rank == 1)
        atomic_store(&find_nccl()->init_result, SYMC_NCCL_SYSTEM_ERROR);
    return goes_without(group, rank);
}

/* Checks that after a permanent refusal creation is not retried, even if it
 * would succeed now. */
static int refused_for_good(struct symmcoll_group *group, int rank,
    enum symc_nccl_result result, const char *text)
{
    int right;

    device_use(rank);
    if (rank == 1)
        atomic_store(&find_nccl()->init_result, result);
    right = exchanges_without(group, SYMMCOLL_ERR_DEVICE, text);
    if (rank == 1)
        atomic_store(&find_nccl()->init_result, SYMC_NCCL_SUCCESS);
    return exchanges_without(group, SYMMCOLL_ERR_DEVICE, text) && right;
}

static int one_has_a_wrong_argument(struct symmcoll_group *group, int rank)
{
    return refused_for_good(group, rank, SYMC_NCCL_INVALID_ARGUMENT,
        "ncclCommInitRankConfig on rank 1: NCCL error 4");
}

/* Returns the error of NCCL for a device that two ranks share, and for
 * versions that differ. */
static int one_is_used_wrongly(struct symmcoll_group *group, int rank)
{
    return refused_for_good(group, rank, SYMC_NCCL_INVALID_USAGE,
        "ncclCommInitRankConfig on rank 1: NCCL error 5");
}

/* One rank's setting has a larger minimum, or none: the largest one applies to
 * all. */
static int the_most_holds(int rank, int size, void *arg)
{
    const struct collective one = {
        .kind = SYMC_BROADCAST, .dtype = SYMMCOLL_UINT8, .count = MIN};
    const struct collective more = {
        .kind = SYMC_BROADCAST, .dtype = SYMMCOLL_UINT8, .count = 2 * MIN};
    struct symmcoll_world *world;
    int right;

    (void)size;
    (void)arg;
    if (rank == 1)
        setenv("SYMMCOLL_CUDA_NCCL_MIN", "2000", 1);
    if (symmcoll_init(NULL, &world) != SYMMCOLL_OK)
        return 1;
    device_use(rank);
    right = right_by(symmcoll_world_group(world), rank, &one, false) &&
            right_by(symmcoll_world_group(world), rank, &more, true);
    return !right || symmcoll_finalize(world) != SYMMCOLL_OK;
}

static int all_agree_on_the_most(void)
{
    int statuses[SIZE],
        right = ranks_spawn(SIZE, the_most_holds, NULL, statuses);

    for (int r = 0; r < SIZE; r++)
        right = right && statuses[r] == 0;
    return right;
}

/* ---- captured ---- */

static symmcoll_status_t reduce_halves(
    struct symmcoll_group *group, int32_t *at, CUstream stream)
{
    const size_t counts[] = {ELEMENTS / 2, ELEMENTS - ELEMENTS / 2};
    void *outs[] = {at, at + counts[0]};
    struct symmcoll_call call = SYMMCOLL_CALL_INIT;

    call.stream = stream;
    return symmcoll_all_reduce_coalesced(group, outs, (const void *const *)outs,
        counts, 2, INT32, SUM, &call, NULL);
}

/* Sums integers in one buffer or two; rank 1 captures its sum. */
static int sums_captured(struct symmcoll_group *group, int rank, int32_t *at,
    bool halves, CUstream stream)
{
    CUgraph graph = NULL;
    CUgraphExec exec = NULL;
    int32_t found, mine = rank + 1;
    int right = 1;

    device_write(at, &mine, sizeof(mine));
    if (rank == 1)
        right = cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_RELAXED) ==
                CUDA_SUCCESS;
    right =
        say((halves ? reduce_halves(group, at, stream)
                    : reduce_at(group, INT32, SUM, at, stream)) == SYMMCOLL_OK,
            "captured by one") &&
        right;
    if (rank == 1)
        right = cuStreamEndCapture(stream, &graph) == CUDA_SUCCESS &&
                cuGraphInstantiate(&exec, graph, 0) == CUDA_SUCCESS &&
                cuGraphLaunch(exec, stream) == CUDA_SUCCESS && right;
    device_wait(stream);
    device_read(&found, at, sizeof(found));
    if (exec != NULL)
        (void)cuGraphExecDestroy(exec);
    if (graph != NULL)
        (void)cuGraphDestroy(graph);
    return right && found == SIZE * (SIZE + 1) / 2;
}

/* Captures before there is a communicator, and after. */
static int one_captures(struct symmcoll_group *group, int rank)
{
    const struct collective one = {
        .kind = SYMC_ALL_REDUCE, .dtype = INT32, .count = ELEMENTS};
    CUstream stream;
    int32_t *at;
    int right = 1;

    device_use(rank);
    stream = device_stream();
    at = device_alloc(ELEMENTS * sizeof(*at));
    for (int i = 0; i < 4 && right; i++) {
        int before = enqueued();

        right = sums_captured(group, rank, at, i % 2 == 1, stream) &&
                was_by(before, false, "captured") &&
                right_by(group, rank, &one, true);
    }
    device_end_stream(stream);
    device_free(at);
    return right;
}

/* ---- the rest ---- */

static int takes_its_time(struct symmcoll_group *group, int rank)
{
    atomic_store(&find_nccl()->slow, 5);
    return moves(group, rank);
}

/* Checks that ranks synchronise by kernels if there is nothing to move. */
static int nothing_is_by_kernels(struct symmcoll_group *group, int rank)
{
    const struct collective none = {.kind = SYMC_ALL_GATHER, .dtype = F32};
    const struct collective one = {
        .kind = SYMC_ALL_GATHER, .dtype = F32, .count = 1};

    device_use(rank);
    return right_by(group, rank, &none, false) &&
           right_by(group, rank, &one, true);
}

/* The largest part of all, that of rank 2, is first large, and then not. */
static int unlike_parts(struct symmcoll_group *group, int rank)
{
    struct collective one = {.kind = SYMC_REDUCE_SCATTER,
        .dtype = SYMMCOLL_UINT8,
        .count = MIN * 4 / 3 + 1,
        .listed = true,
        .unlike = true};
    int right;

    device_use(rank);
    right = right_by(group, rank, &one, true);
    one.count = MIN * 4 / 3 - 1;
    return right_by(group, rank, &one, false) && right;
}

static void test_without(void)
{
    reason = "no NCCL: expected the name of a library, found an empty "
             "cuda.nccl";
    on_both(SIZE, goes_without, "without NCCL kernels go on");
    name_nccl();
    reason = "libnccl.so.2: expected NCCL 2.22.0 or later, found 2.21.5";
    ok(ranks_run(SIZE, one_is_too_old),
        "where that of one rank is too old they do on all");
    on_both(SIZE, is_given_up,
        "what a sum had no time to make an exchange does without, too");
    reason = NULL;
    ok(ranks_run(SIZE, one_makes_no_communicator),
        "where one rank makes no communicator they do on all");
    ok(ranks_run(SIZE, one_has_a_wrong_argument),
        "where NCCL refuses an argument none is made any more");
    ok(ranks_run(SIZE, one_is_used_wrongly),
        "nor where NCCL calls it invalid usage");
    setenv("SYMMCOLL_CUDA_SHARE_DEVICE", "on", 1);
    fake_configure("devices=2");
    on_both(SIZE, goes_without, "where ranks share a device they do, too");
    unsetenv("SYMMCOLL_CUDA_SHARE_DEVICE");
    fake_configure("devices=8");
}

int main(void)
{
    device_begin();
    setenv("SYMMCOLL_CUDA_NCCL_MIN", "1000", 1);
    test_without();
    on_both(SIZE, parts,
        "cuda.nccl_min: what is moved is NCCL's from that size on");
    name_nccl_of("t/nccl/few");
    on_both(SIZE, parts_without, "so it is by NCCL before 2.28");
    name_nccl();
    on_both(SIZE, unlike_parts,
        "of unlike parts the largest of all ranks counts, which all know");
    on_both(SIZE, reductions, "so are reductions of integers, and no others");
    on_both(SIZE, floats_keep_their_order,
        "floats are added in the order of ranks, and keep NaN");
    on_both(SIZE, takes_its_time,
        "NCCL that takes its time to enqueue is waited for");
    on_both(
        SIZE, one_captures, "what one rank captures is done by kernels on all");
    ok(process_run(all_agree_on_the_most),
        "where ranks have different limits the largest holds");
    setenv("SYMMCOLL_CUDA_NCCL_MIN", "0", 1);
    on_both(SIZE, nothing_is_by_kernels,
        "without elements ranks wait for each other, whatever the limit");
    setenv("SYMMCOLL_CUDA_NCCL_MIN", "inf", 1);
    on_both(SIZE, has_no_limit,
        "without a limit nothing is NCCL's but exchanges of unlike parts");
    return done_testing();
}
