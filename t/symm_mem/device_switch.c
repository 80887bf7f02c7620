/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Tests which operations on symmetric device memory use sums by a switch. The
 * simulated driver has the multicast address but no switch: its kernels read
 * the ranks one by one.
 */
#include "t/symm_mem/device.h"

#include "t/cuda/kernels.h"

#include <symmcoll/symm_ops.h>

#define COUNT 300

static const char *const names[] = {
    "symc_multimem_one_shot_f32", "symc_multimem_two_shot_f32"};

/* Returns how often kernels of the switch have run in this process. */
static int count_runs(void)
{
    return kernels_runs(names[0]) + kernels_runs(names[1]);
}

static void fill_own(const struct joined *it)
{
    float mine[COUNT];

    for (int i = 0; i < COUNT; i++)
        mine[i] = (float)(it->rank + i);
    device_write(it->data, mine, sizeof(mine));
}

/* Checks the sum or the maximum over the ranks. */
static bool is_right(
    const struct joined *it, const void *device, symmcoll_op_t op)
{
    float found[COUNT];
    bool right = true;

    device_read(found, device, sizeof(found));
    for (int i = 0; i < COUNT; i++) {
        float expected = (float)(it->size - 1 + i);

        if (op == SYMMCOLL_SUM)
            expected = (float)(it->size * (it->size - 1) / 2 + it->size * i);
        right = right && found[i] == expected;
    }
    return HOLDS(right);
}

/* Runs all forms; by (out): how many used the switch. */
static bool reduce(struct joined *it, symmcoll_op_t op, int *by)
{
    int before = count_runs(), root = it->size - 1;
    void *out = device_alloc(COUNT * sizeof(float));
    bool right, is_root = it->rank == root;

    fill_own(it);
    right = OK(symmcoll_barrier(it->group, NULL, NULL)) &&
            OK(symmcoll_symm_one_shot_all_reduce(
                it->handle, 0, out, COUNT, F32, op, NULL));
    device_wait(it->stream);
    right = right && is_right(it, out, op) &&
            OK(symmcoll_symm_one_shot_reduce(it->handle, 0,
                is_root ? out : NULL, COUNT, F32, op, root, NULL)) &&
            OK(symmcoll_symm_two_shot_all_reduce(
                it->handle, 0, out, COUNT, F32, op, NULL));
    device_wait(it->stream);
    right = right && is_right(it, out, op) && is_right(it, it->data, op);
    device_free(out);
    *by = count_runs() - before;
    return right;
}

static int reduces(struct symmcoll_group *group, int rank, int wanted)
{
    struct joined it;
    int sums = -1, others = -1;
    bool right = begin_joined(&it, group, rank, COUNT * sizeof(float)) &&
                 reduce(&it, SYMMCOLL_SUM, &sums) &&
                 reduce(&it, SYMMCOLL_MAX, &others);

    if (sums != wanted || others != 0)
        diag("%d sums and %d others were by the switch, not %d and 0", sums,
            others, wanted);
    return end_joined(&it, right) && sums == wanted && others == 0;
}

static int by_the_switch(struct symmcoll_group *group, int rank)
{
    return reduces(group, rank, 3);
}

static int one_by_one(struct symmcoll_group *group, int rank)
{
    return reduces(group, rank, 0);
}

/* Checks the multicast address in the handle's attributes, for kernels of the
 * program. */
static int is_shown(struct symmcoll_group *group, int rank)
{
    struct symmcoll_symm_info info = SYMMCOLL_SYMM_INFO_INIT;
    struct symmcoll_symm *inside = NULL;
    char *whole = NULL;
    struct joined it;
    bool right =
        begin_joined(&it, group, rank, 1024) &&
        OK(symmcoll_symm_rendezvous(group, it.data + 512, NULL, &inside)) &&
        OK(symmcoll_symm_get_info(it.handle, &info)) &&
        HOLDS((whole = info.multicast) != NULL) &&
        OK(symmcoll_symm_get_info(inside, &info)) &&
        HOLDS(info.multicast == whole + 512);

    for (int r = 0; r < it.size; r++)
        right = right && HOLDS(info.buffers[r] != info.multicast);
    symmcoll_symm_release(inside);
    return end_joined(&it, right);
}

/* ---- its settings ---- */

#define BLOCKS_COUNT 8192 /* floats: more than two blocks have threads for */

/* Checks the number of blocks of a large sum. */
static int has_blocks(struct symmcoll_group *group, int rank, int wanted)
{
    struct joined it;
    void *out = NULL;
    bool right = begin_joined(&it, group, rank, BLOCKS_COUNT * sizeof(float));

    out = device_alloc(BLOCKS_COUNT * sizeof(float));
    right = right && OK(symmcoll_symm_one_shot_all_reduce(it.handle, 0, out,
                         BLOCKS_COUNT, F32, SYMMCOLL_SUM, NULL));
    device_wait(it.stream);
    if (fake_blocks_max(rank) != wanted)
        diag("%d blocks, not %d", fake_blocks_max(rank), wanted);
    device_free(out);
    return end_joined(&it, right) && fake_blocks_max(rank) == wanted;
}

static int has_one_block(struct symmcoll_group *group, int rank)
{
    return has_blocks(group, rank, 1);
}

static int has_two_blocks(struct symmcoll_group *group, int rank)
{
    return has_blocks(group, rank, 2);
}

/* Checks how often intra_node_all_reduce used one shot and two. */
static int takes_shots(struct symmcoll_group *group, int rank, int one, int two)
{
    static const char *const of[] = {
        "symc_multimem_one_shot_bf16", "symc_multimem_two_shot_bf16"};
    struct joined it;
    uint16_t ones[COUNT], sum[COUNT];
    bool right = begin_joined(&it, group, rank, sizeof(ones));
    void *buf = device_alloc(sizeof(ones));

    for (int i = 0; i < COUNT; i++)
        ones[i] = 0x3f80;
    device_write(buf, ones, sizeof(ones));
    right = right && OK(symmcoll_symm_intra_node_all_reduce(it.handle, buf,
                         COUNT, SYMMCOLL_BFLOAT16, SYMMCOLL_SUM, NULL));
    device_wait(it.stream);
    device_read(sum, buf, sizeof(sum));
    for (int i = 0; i < COUNT; i++)
        right = right && HOLDS(sum[i] == 0x4040); /* 3 */
    device_free(buf);
    right = HOLDS(kernels_runs(of[0]) == one) && right;
    right = HOLDS(kernels_runs(of[1]) == two) && right;
    return end_joined(&it, right);
}

static int takes_one_shot(struct symmcoll_group *group, int rank)
{
    return takes_shots(group, rank, 1, 0);
}

static int takes_two_shots(struct symmcoll_group *group, int rank)
{
    return takes_shots(group, rank, 0, 1);
}

static void check_settings(void)
{
    ok(ranks_run(3, has_two_blocks),
        "a kernel that uses the switch has as many blocks as others may");
    setenv("SYMMCOLL_CUDA_MULTICAST_BLOCKS", "1", 1);
    ok(ranks_run(3, has_one_block),
        "cuda.multicast_blocks: no kernel that uses the switch has more");
    ok(ranks_run(3, takes_one_shot),
        "small sums of intra_node_all_reduce take one step");
    setenv("SYMMCOLL_CUDA_MULTIMEM_ONE_SHOT_MAX", "599", 1);
    ok(ranks_run(3, takes_two_shots),
        "cuda.multimem_one_shot_max: larger sums take two steps");
    setenv("SYMMCOLL_CUDA_MULTIMEM_ONE_SHOT_MAX", "600", 1);
    ok(ranks_run(3, takes_one_shot), "one of that size does not");
}

int main(void)
{
    device_begin();
    fake_configure("multicast=1");
    ok(ranks_run(3, one_by_one), "by default no sum is the switch's");
    ok(ranks_run(3, is_shown),
        "a handle has the address where multicast is, from its own on (S31)");
    setenv("SYMMCOLL_CUDA_MULTIMEM", "on", 1);
    ok(ranks_run(3, by_the_switch),
        "cuda.multimem: sums of floats are the switch's");
    check_settings();
    setenv("SYMMCOLL_CUDA_MULTICAST", "off", 1);
    ok(ranks_run(3, one_by_one), "none where the memory has no such address");
    return done_testing();
}
