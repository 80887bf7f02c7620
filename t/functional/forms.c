/* SPDX-License-Identifier: BSD-3-Clause */
/* Tests the values that functional calls compute. */
#include "t/functional/made.h"

#include <stdint.h>

/* ---- all_reduce and broadcast ---- */

static int reduces(struct symmcoll_group *group, int rank)
{
    float ones[4] = {1, 1, 1, 1};
    struct symmcoll_tensor in = SYMMCOLL_TENSOR_FLAT(ones, 4, SYMMCOLL_FLOAT32);
    struct symmcoll_tensor out = SYMMCOLL_TENSOR_INIT;
    int good;

    (void)rank;
    good =
        OK(symmcoll_f_all_reduce(group, &in, SYMMCOLL_SUM, NULL, &out, NULL)) &&
        waits(group, &out) && is_shape(&out, 1, 4, 0, 0) &&
        all_are(&out, (float)symmcoll_group_size(group)) && all_are(&in, 1);
    release(group, &out);
    return good && out.data == NULL;
}

/* Uses a transposed matrix: the result is in the order of its indices. */
static int takes_any_strides(struct symmcoll_group *group, int rank)
{
    float matrix[2][3] = {{0, 1, 2}, {10, 11, 12}};
    struct symmcoll_tensor in =
        SYMMCOLL_TENSOR_SHAPE(matrix, SYMMCOLL_FLOAT32, 3, 2);
    struct symmcoll_tensor sum = SYMMCOLL_TENSOR_INIT,
                           copy = SYMMCOLL_TENSOR_INIT;
    const float expected[] = {0, 10, 1, 11, 2, 12};
    float size = (float)symmcoll_group_size(group);
    int good;

    in.strides[0] = 1;
    in.strides[1] = 3;
    good =
        OK(symmcoll_f_all_reduce(group, &in, SYMMCOLL_SUM, NULL, &sum, NULL)) &&
        waits(group, &sum);
    for (int i = 0; i < 6; i++)
        good = good && at(&sum, i) == size * expected[i];
    if (rank != 1)
        matrix[0][0] = 77;
    good = good && OK(symmcoll_f_broadcast(group, &in, 1, NULL, &copy, NULL)) &&
           waits(group, &copy);
    for (int i = 0; i < 6; i++)
        good = good && at(&copy, i) == expected[i];
    release(group, &sum);
    release(group, &copy);
    return good;
}

static int broadcasts(struct symmcoll_group *group, int rank)
{
    float mine[4];
    struct symmcoll_tensor in = SYMMCOLL_TENSOR_FLAT(mine, 4, SYMMCOLL_FLOAT32);
    struct symmcoll_tensor out = SYMMCOLL_TENSOR_INIT;
    int good;

    fill(&in, rank == 0 ? 1 : 0);
    good = OK(symmcoll_f_broadcast(group, &in, 0, NULL, &out, NULL)) &&
           waits(group, &out) && all_are(&out, 1) &&
           all_are(&in, rank == 0 ? 1 : 0);
    release(group, &out);
    return good;
}

/* ---- all_gather ---- */

/* Returns element (i, j, k) of a rank's tensor. */
static float element(int rank, int i, int j, int k)
{
    return (float)(rank * 1000 + i * 100 + j * 10 + k);
}

static int gathers_along(struct symmcoll_group *group, int rank, int dim)
{
    float mine[3][2][4];
    struct symmcoll_tensor in =
        SYMMCOLL_TENSOR_SHAPE(mine, SYMMCOLL_FLOAT32, 3, 2, 4);
    struct symmcoll_tensor out = SYMMCOLL_TENSOR_INIT;
    int size = symmcoll_group_size(group), good;
    int64_t shape[3] = {3, 2, 4};

    for (int i = 0; i < 24; i++)
        (&mine[0][0][0])[i] = element(rank, i / 8, i / 4 % 2, i % 4);
    shape[dim] *= size;
    good = OK(symmcoll_f_all_gather(group, &in, dim, NULL, &out, NULL)) &&
           waits(group, &out) &&
           is_shape(&out, 3, shape[0], shape[1], shape[2]);
    for (int64_t n = 0; good && n < 24 * size; n++) {
        int64_t index[3] = {
            n / (shape[1] * shape[2]), n / shape[2] % shape[1], n % shape[2]};
        int from = (int)(index[dim] / in.shape[dim]);

        index[dim] %= in.shape[dim];
        good = at(&out, n) ==
               element(from, (int)index[0], (int)index[1], (int)index[2]);
    }
    release(group, &out);
    return good;
}

static int gathers(struct symmcoll_group *group, int rank)
{
    return gathers_along(group, rank, 0) && gathers_along(group, rank, 1) &&
           gathers_along(group, rank, 2);
}

/* ---- reduce_scatter ---- */

static int scatters_along(struct symmcoll_group *group, int rank, int dim)
{
    float ones[3 * 3 * 4];
    int size = symmcoll_group_size(group), good;
    struct symmcoll_tensor in = SYMMCOLL_TENSOR_SHAPE(
        ones, SYMMCOLL_FLOAT32, dim == 0 ? 3 * size : 3, dim ? 3 * size : 3);
    struct symmcoll_tensor sum = SYMMCOLL_TENSOR_INIT,
                           mean = SYMMCOLL_TENSOR_INIT;

    fill(&in, 1);
    good = OK(symmcoll_f_reduce_scatter(
               group, &in, SYMMCOLL_SUM, dim, NULL, &sum, NULL)) &&
           waits(group, &sum) && is_shape(&sum, 2, 3, 3, 0) &&
           all_are(&sum, (float)size);
    for (int i = 0; i < 9 * size; i++)
        ones[i] = (float)i;
    good = good &&
           OK(symmcoll_f_reduce_scatter(
               group, &in, SYMMCOLL_AVG, dim, NULL, &mean, NULL)) &&
           waits(group, &mean);
    for (int i = 0; good && i < 9; i++) {
        int row = i / 3 + (dim == 0 ? 3 * rank : 0);
        int column = i % 3 + (dim == 1 ? 3 * rank : 0);

        good = at(&mean, i) == (float)(row * (int)in.shape[1] + column);
    }
    release(group, &sum);
    release(group, &mean);
    return good;
}

static int scatters(struct symmcoll_group *group, int rank)
{
    return scatters_along(group, rank, 0) && scatters_along(group, rank, 1);
}

/* ---- meshes ---- */

/* Runs in a mesh of 2 x 2 ranks: sums along rows, parts along columns. */
static int works_in(struct symmcoll_group *world_group, const int *ranks)
{
    struct symmcoll_group_args args = SYMMCOLL_GROUP_ARGS_INIT;
    struct symmcoll_group *part = NULL;
    int rank, good;

    args.ranks = ranks;
    args.nranks = 2;
    if (!OK(symmcoll_group_create(world_group->world, &args, &part)))
        return 0;
    rank = symmcoll_group_rank(part);
    good = rank < 0 || (reduces(part, rank) && scatters(part, rank));
    return symmcoll_group_free(part) == SYMMCOLL_OK && good;
}

static int works_in_meshes(struct symmcoll_group *group, int rank)
{
    static const int groups[4][2] = {{0, 1}, {2, 3}, {0, 2}, {1, 3}};
    int good = 1;

    (void)rank;
    for (int i = 0; i < 4; i++)
        good = works_in(group, groups[i]) && good;
    return good;
}

/* ---- lists ---- */

static int reduces_lists(struct symmcoll_group *group, int rank)
{
    float ones[4], threes[6];
    struct symmcoll_tensor in[2] = {
        SYMMCOLL_TENSOR_FLAT(ones, 4, SYMMCOLL_FLOAT32),
        SYMMCOLL_TENSOR_FLAT(threes, 6, SYMMCOLL_FLOAT32)};
    struct symmcoll_tensor out[2] = {
        SYMMCOLL_TENSOR_INIT, SYMMCOLL_TENSOR_INIT};
    float size = (float)symmcoll_group_size(group);
    int good;

    (void)rank;
    fill(&in[0], 1);
    fill(&in[1], 3);
    good = OK(symmcoll_f_all_reduce_coalesced(
               group, in, 2, SYMMCOLL_SUM, NULL, out, NULL)) &&
           waits(group, &out[0]) && waits(group, &out[1]) &&
           is_shape(&out[1], 1, 6, 0, 0) && all_are(&out[0], size) &&
           all_are(&out[1], 3 * size);
    release(group, &out[0]);
    release(group, &out[1]);
    return good;
}

static int gathers_lists(struct symmcoll_group *group, int rank)
{
    float ones[4], twos[4];
    struct symmcoll_tensor in[2] = {
        SYMMCOLL_TENSOR_FLAT(ones, 4, SYMMCOLL_FLOAT32),
        SYMMCOLL_TENSOR_FLAT(twos, 4, SYMMCOLL_FLOAT32)};
    struct symmcoll_tensor out[2] = {
        SYMMCOLL_TENSOR_INIT, SYMMCOLL_TENSOR_INIT};
    const int dims[2] = {0, 0};
    int size = symmcoll_group_size(group), good;

    (void)rank;
    fill(&in[0], 1);
    fill(&in[1], 2);
    good = OK(symmcoll_f_all_gather_coalesced(
               group, in, 2, dims, NULL, out, NULL)) &&
           waits(group, &out[1]) && waits(group, &out[0]) &&
           is_shape(&out[0], 1, 4 * size, 0, 0) && all_are(&out[0], 1) &&
           all_are(&out[1], 2);
    release(group, &out[0]);
    release(group, &out[1]);
    return good;
}

static int scatters_lists(struct symmcoll_group *group, int rank)
{
    int64_t ones[4] = {1, 1, 1, 1}, twos[4] = {2, 2, 2, 2};
    struct symmcoll_tensor in[2] = {
        SYMMCOLL_TENSOR_FLAT(ones, 4, SYMMCOLL_INT64),
        SYMMCOLL_TENSOR_FLAT(twos, 4, SYMMCOLL_INT64)};
    struct symmcoll_tensor out[2] = {
        SYMMCOLL_TENSOR_INIT, SYMMCOLL_TENSOR_INIT};
    const int dims[2] = {0, 0};
    int good;

    (void)rank;
    good = OK(symmcoll_f_reduce_scatter_coalesced(
               group, in, 2, SYMMCOLL_SUM, dims, NULL, out, NULL)) &&
           waits(group, &out[0]) && waits(group, &out[1]) &&
           is_shape(&out[0], 1, 1, 0, 0) &&
           *(const int64_t *)out[0].data == 4 &&
           *(const int64_t *)out[1].data == 8;
    release(group, &out[0]);
    release(group, &out[1]);
    return good;
}

static void run_all(int (*run)(int n, rank_fn body), const char *kind)
{
    ok(run(4, reduces), "%s: all_reduce sums into a new tensor (F1 F3)", kind);
    ok(run(4, broadcasts), "%s: broadcast leaves the inputs alone (F1 F3)",
        kind);
    ok(run(2, takes_any_strides),
        "%s: all_reduce and broadcast take tensors of any strides", kind);
    ok(run(4, gathers) && run(2, gathers),
        "%s: all_gather joins along every dimension (F4)", kind);
    ok(run(4, scatters) && run(2, scatters),
        "%s: reduce_scatter cuts along every dimension (F5)", kind);
    ok(run(4, works_in_meshes),
        "%s: rows and columns of a mesh have sums and parts of their own (F3 "
        "F5)",
        kind);
    ok(run(4, reduces_lists), "%s: lists of tensors are reduced (F3)", kind);
    ok(run(4, gathers_lists), "%s: lists of tensors are gathered (F6)", kind);
    ok(run(4, scatters_lists), "%s: lists of tensors are reduced and cut (F6)",
        kind);
}

int main(void)
{
    plan(18);
    run_all(ranks_run, "processes");
    run_all(threads_run, "threads");
    return done_testing();
}
