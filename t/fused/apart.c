/* SPDX-License-Identifier: BSD-3-Clause */
/* Tests that results which overlap operands or each other are refused. */
#include "t/fused/made.h"

#include <symmcoll/symm_mem.h>

#include <string.h>

#define REFUSED(call, detail) made_says(call, SYMMCOLL_ERR_INVALID, detail)

/* The memory of all tensors: 4 x 4 floats for those of both ranks together,
 * half of that for those of one rank. */
struct memory {
    float floats[5][16];
    struct symmcoll_tensor shard, b[2], a, out[2];
};

static void begin(struct memory *it)
{
    struct symmcoll_tensor shard =
        SYMMCOLL_TENSOR_SHAPE(it->floats[0], SYMMCOLL_FLOAT32, 2, 4);
    struct symmcoll_tensor b =
        SYMMCOLL_TENSOR_SHAPE(it->floats[1], SYMMCOLL_FLOAT32, 4, 4);
    struct symmcoll_tensor whole =
        SYMMCOLL_TENSOR_SHAPE(it->floats[2], SYMMCOLL_FLOAT32, 4, 4);

    it->shard = shard;
    it->b[0] = it->b[1] = b;
    it->a = it->out[0] = it->out[1] = whole;
    it->out[0].data = it->floats[3];
    it->out[1].data = it->floats[4];
}

static symmcoll_status_t gather(struct symmcoll_group *group, struct memory *it)
{
    return symmcoll_fused_all_gather_matmul(
        group, &it->shard, it->b, 2, 0, NULL, &it->a, it->out);
}

static int of_gather(struct symmcoll_group *group, int rank)
{
    struct memory it;
    int good;

    (void)rank;
    memset(&it, 0, sizeof(it));
    begin(&it);
    good = OK(gather(group, &it));
    it.out[1].data = it.floats[0] + 7;
    good = REFUSED(gather(group, &it),
               "fused_all_gather_matmul: expected out 1 in other memory than "
               "a_shard, found that they overlap") &&
           good;
    begin(&it);
    it.out[0].data = it.floats[1] - 15;
    it.shard.data = it.floats[4];
    it.out[1].data = it.floats[3];
    good = REFUSED(gather(group, &it), "expected out 0 in other memory than b "
                                       "0, ") &&
           good;
    begin(&it);
    it.a.data = it.floats[1] + 15;
    good =
        REFUSED(gather(group, &it), "expected a in other memory than b 0, ") &&
        good;
    begin(&it);
    it.out[1].data = it.floats[3] + 15;
    good = REFUSED(gather(group, &it),
               "expected out 1 in other memory than out 0, ") &&
           good;
    begin(&it);
    it.a.data = it.out[0].data;
    good = REFUSED(
               gather(group, &it), "expected out 0 in other memory than a, ") &&
           good;
    begin(&it);
    it.shard.strides[1] = INT64_MAX;
    good = REFUSED(gather(group, &it), "expected strides that memory") && good;
    begin(&it);
    it.b[1].strides[0] = INT64_MIN / 16;
    good = REFUSED(gather(group, &it), "expected strides that memory") && good;
    begin(&it);
    it.out[0].data = it.out[1].data = NULL;
    good = REFUSED(symmcoll_fused_all_gather_matmul(
                       group, &it.shard, it.b, 2, 0, NULL, &it.out[1], it.out),
               "expected a and out 1 in different structs, found the same") &&
           good;
    begin(&it);
    return OK(gather(group, &it)) && good;
}

static symmcoll_status_t scatter(
    struct symmcoll_group *group, struct memory *it)
{
    return symmcoll_fused_matmul_reduce_scatter(
        group, &it->a, it->b, SYMMCOLL_SUM, 0, NULL, &it->shard);
}

static int of_scatter(struct symmcoll_group *group, int rank)
{
    struct memory it;
    int good;

    (void)rank;
    memset(&it, 0, sizeof(it));
    begin(&it);
    it.shard.data = it.floats[2] + 8;
    good = REFUSED(scatter(group, &it),
        "fused_matmul_reduce_scatter: expected out in other memory than a, ");
    it.shard.data = it.floats[1] - 1;
    it.a.data = it.floats[3];
    good =
        REFUSED(scatter(group, &it), "expected out in other memory than b, ") &&
        good;
    begin(&it);
    return OK(scatter(group, &it)) && good;
}

/* Checks chunks in place, and at places that are not. */
static int of_chunks(struct symmcoll_group *group, int rank)
{
    int all[8];
    int good = 1;

    all[rank] = rank + 5;
    good = OK(symmcoll_all_gather_and_consume(
               group, &all[rank], sizeof(int), NULL, NULL, NULL, all)) &&
           all[0] == 5 && all[1] == 6;
    /* Directly after the shard, directly before it, and at another address. */
    all[3] = rank + 7;
    good = OK(symmcoll_all_gather_and_consume(
               group, &all[3], sizeof(int), NULL, NULL, NULL, &all[4])) &&
           all[4] == 7 && all[5] == 8 && good;
    all[2] = rank + 9;
    good = OK(symmcoll_all_gather_and_consume(
               group, &all[2], sizeof(int), NULL, NULL, NULL, all)) &&
           all[0] == 9 && all[1] == 10 && good;
    good = OK(symmcoll_all_gather_and_consume(
               group, &all[2], sizeof(int), NULL, NULL, NULL, NULL)) &&
           good;
    return REFUSED(symmcoll_all_gather_and_consume(group, &all[1 - rank],
                       sizeof(int), NULL, NULL, NULL, all),
               rank == 0 ? "or at byte 0 of that, found it at byte 4"
                         : "or at byte 4 of that, found it at byte 0") &&
           good;
}

/* Multiplies rows that arrive, with everything in one symmetric memory: a at
 * byte 0, b at 64, out at out_at, the signals at 256. */
static symmcoll_status_t multiply(
    struct symmcoll_symm *handle, char *data, size_t out_at)
{
    struct symmcoll_tensor a =
        SYMMCOLL_TENSOR_SHAPE(data, SYMMCOLL_FLOAT32, 4, 4);
    struct symmcoll_tensor b =
        SYMMCOLL_TENSOR_SHAPE(data + 64, SYMMCOLL_FLOAT32, 4, 4);
    struct symmcoll_tensor out =
        SYMMCOLL_TENSOR_SHAPE(data + out_at, SYMMCOLL_FLOAT32, 4, 4);
    struct symmcoll_call call = SYMMCOLL_CALL_INIT;

    call.timeout = 0;
    return symmcoll_async_input_matmul(handle, 256, 2, 0, &a, &b, &call, &out);
}

static int of_arriving_rows(struct symmcoll_group *group, int rank)
{
    struct symmcoll_world *world = symmcoll_group_world(group);
    const uint32_t here[2] = {1, 1};
    struct symmcoll_symm *handle;
    void *data;
    int good;

    (void)rank;
    if (!OK(symmcoll_symm_alloc(world, 512, NULL, &data)) ||
        !OK(symmcoll_symm_rendezvous(group, data, NULL, &handle)))
        return 0;
    memset(data, 0, 512);
    memcpy((char *)data + 256, here, sizeof(here));
    good = REFUSED(multiply(handle, data, 60),
               "async_input_matmul: expected out in other memory than a, ") &&
           REFUSED(multiply(handle, data, 124), "other memory than b, ") &&
           REFUSED(multiply(handle, data, 196),
               "expected out in other memory than the signals, ") &&
           REFUSED(multiply(handle, data, 260), "than the signals, ") &&
           OK(multiply(handle, data, 128)) && OK(multiply(handle, data, 192)) &&
           OK(multiply(handle, data, 264));
    symmcoll_symm_release(handle);
    return OK(symmcoll_symm_free(world, data)) && good;
}

static void run_all(int (*run)(int n, rank_fn body), const char *kind)
{
    ok(run(2, of_gather),
        "%s: results of all_gather and matmul that overlap are refused", kind);
    ok(run(2, of_scatter), "%s: and that of matmul and reduce_scatter", kind);
    ok(run(2, of_arriving_rows),
        "%s: and that of rows that arrive, also with their signals", kind);
    ok(run(2, of_chunks), "%s: a shard is apart from all, or in its place",
        kind);
}

int main(void)
{
    plan(8);
    run_all(ranks_run, "processes");
    run_all(threads_run, "threads");
    return done_testing();
}
