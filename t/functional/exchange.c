/* SPDX-License-Identifier: BSD-3-Clause */
/* Tests rows that ranks exchange, and permutations. */
#include "t/functional/made.h"

#include <stdlib.h>
#include <string.h>

#define MOST 4

/* ---- all_to_all ---- */

/* Exchanges uneven rows: rank r sends (d + 1) * (r + 1) rows of the value r +
 * 1 to rank d. */
static int uneven(struct symmcoll_group *group, int rank, int columns)
{
    int size = symmcoll_group_size(group), rows = 0, row = 0, good;
    size_t in_splits[MOST], out_splits[MOST];
    float mine[160 * 5];
    struct symmcoll_tensor in, out = SYMMCOLL_TENSOR_INIT;

    for (int r = 0; r < size; r++) {
        in_splits[r] = (size_t)(r + 1) * (size_t)(rank + 1);
        out_splits[r] = (size_t)(r + 1) * (size_t)(rank + 1);
        rows += (int)in_splits[r];
    }
    in = (struct symmcoll_tensor)SYMMCOLL_TENSOR_SHAPE(
        mine, SYMMCOLL_FLOAT32, rows, columns);
    if (columns == 0)
        in = (struct symmcoll_tensor)SYMMCOLL_TENSOR_FLAT(
            mine, rows, SYMMCOLL_FLOAT32);
    fill(&in, (float)(rank + 1));
    good = OK(symmcoll_f_all_to_all(
               group, &in, out_splits, in_splits, NULL, &out, NULL)) &&
           waits(group, &out) && out.ndim == in.ndim && out.shape[0] == rows &&
           count_of(&out) == count_of(&in);
    for (int r = 0; r < size; r++) {
        for (size_t i = 0; i < out_splits[r]; i++, row++) {
            int64_t width = count_of(&out) / rows;

            for (int64_t j = 0; j < width; j++)
                good = good && at(&out, row * width + j) == (float)(r + 1);
        }
    }
    release(group, &out);
    return good;
}

static int exchanges_rows(struct symmcoll_group *group, int rank)
{
    return uneven(group, rank, 5);
}

static int exchanges_elements(struct symmcoll_group *group, int rank)
{
    return uneven(group, rank, 0);
}

static int exchanges_equal_parts(struct symmcoll_group *group, int rank)
{
    int size = symmcoll_group_size(group), good;
    float mine[MOST * MOST];
    struct symmcoll_tensor in =
        SYMMCOLL_TENSOR_SHAPE(mine, SYMMCOLL_FLOAT32, size, size);
    struct symmcoll_tensor out = SYMMCOLL_TENSOR_INIT;

    fill(&in, (float)(rank + 1));
    good =
        OK(symmcoll_f_all_to_all(group, &in, NULL, NULL, NULL, &out, NULL)) &&
        waits(group, &out) && is_shape(&out, 2, size, size, 0);
    for (int i = 0; good && i < size * size; i++)
        good = at(&out, i) == (float)(i / size + 1);
    release(group, &out);
    return good;
}

/* Sends a tensor of ones twice, and returns the gradient of its sum. */
static int goes_back(struct symmcoll_group *group, int rank)
{
    float twos[4] = {2, 2, 2, 2}, ones[4] = {1, 1, 1, 1};
    const size_t splits[2] = {1, 1};
    struct symmcoll_tensor in =
        SYMMCOLL_TENSOR_SHAPE(twos, SYMMCOLL_FLOAT32, 2, 2);
    struct symmcoll_tensor grad =
        SYMMCOLL_TENSOR_SHAPE(ones, SYMMCOLL_FLOAT32, 2, 2);
    struct symmcoll_tensor out = SYMMCOLL_TENSOR_INIT,
                           back = SYMMCOLL_TENSOR_INIT;
    struct symmcoll_adjoint *adjoint = NULL;
    int good;

    (void)rank;
    good = OK(symmcoll_f_all_to_all(
               group, &in, splits, splits, NULL, &out, &adjoint)) &&
           waits(group, &out) && is_shape(&out, 2, 2, 2, 0) &&
           all_are(&out, 2) &&
           OK(symmcoll_adjoint_run(adjoint, &grad, NULL, &back)) &&
           waits(group, &back) && is_shape(&back, 2, 2, 2, 0);
    for (int i = 0; good && i < 4; i++)
        good = 2 * at(&back, i) == 2;
    release(group, &out);
    release(group, &back);
    symmcoll_adjoint_free(adjoint);
    return good;
}

/* Rank 0 sends all its three rows to rank 1, which sends one; gradients are
 * transposed, and sent in the opposite direction. */
static int uneven_goes_back(struct symmcoll_group *group, int rank)
{
    static const size_t sent[2][2] = {{0, 3}, {1, 0}};
    float mine[6] = {0, 1, 2, 3, 4, 5}, grads[6];
    struct symmcoll_tensor in =
        SYMMCOLL_TENSOR_SHAPE(mine, SYMMCOLL_FLOAT32, rank == 0 ? 3 : 1, 2);
    struct symmcoll_tensor out = SYMMCOLL_TENSOR_INIT,
                           back = SYMMCOLL_TENSOR_INIT, grad;
    const size_t received[2] = {sent[0][rank], sent[1][rank]};
    struct symmcoll_adjoint *adjoint = NULL;
    int rows = rank == 0 ? 1 : 3, good;

    good = OK(symmcoll_f_all_to_all(
               group, &in, received, sent[rank], NULL, &out, &adjoint)) &&
           waits(group, &out) && is_shape(&out, 2, rows, 2, 0);
    for (int i = 0; good && i < 2 * rows; i++)
        good = at(&out, i) == (float)i;
    grad = out;
    grad.data = grads;
    grad.strides[0] = 1;
    grad.strides[1] = rows;
    for (int i = 0; i < 2 * rows; i++) /* row i % rows, column i / rows */
        grads[i] = (float)(10 * (i % rows) + i / rows);
    good = good && OK(symmcoll_adjoint_run(adjoint, &grad, NULL, &back)) &&
           waits(group, &back) && is_shape(&back, 2, rank == 0 ? 3 : 1, 2, 0);
    for (int i = 0; good && i < (rank == 0 ? 6 : 2); i++)
        good = at(&back, i) == (float)(10 * (i / 2) + i % 2);
    release(group, &out);
    release(group, &back);
    symmcoll_adjoint_free(adjoint);
    return good;
}

static int splits_are_checked(struct symmcoll_group *group, int rank)
{
    float mine[6] = {0};
    struct symmcoll_tensor in =
        SYMMCOLL_TENSOR_SHAPE(mine, SYMMCOLL_FLOAT32, 3, 2);
    struct symmcoll_tensor out = SYMMCOLL_TENSOR_INIT;
    const size_t wrong[2] = {1, 1}, right[2] = {1, 2}, huge[2] = {SIZE_MAX, 4};
    uint64_t before = symmcoll_group_sequence(group);

    (void)rank;
    return symmcoll_f_all_to_all(group, &in, right, NULL, NULL, &out, NULL) ==
               SYMMCOLL_ERR_INVALID &&
           strstr(symmcoll_last_error(), "or neither, found out_splits") !=
               NULL &&
           symmcoll_f_all_to_all(group, &in, right, wrong, NULL, &out, NULL) ==
               SYMMCOLL_ERR_INVALID &&
           strstr(symmcoll_last_error(), "sum to dimension 0, 3, found 2") !=
               NULL &&
           symmcoll_f_all_to_all(group, &in, huge, right, NULL, &out, NULL) ==
               SYMMCOLL_ERR_INVALID &&
           symmcoll_f_all_to_all(group, &in, NULL, NULL, NULL, &out, NULL) ==
               SYMMCOLL_ERR_INVALID &&
           strstr(symmcoll_last_error(), "a multiple of 2 ranks, found 3") !=
               NULL &&
           symmcoll_group_sequence(group) == before;
}

static int shapes_alone(struct symmcoll_group *group, int rank)
{
    struct symmcoll_tensor in =
        SYMMCOLL_TENSOR_SHAPE(NULL, SYMMCOLL_FLOAT32, 3, 2);
    struct symmcoll_tensor out = SYMMCOLL_TENSOR_INIT;
    const size_t in_splits[2] = {1, 2}, out_splits[2] = {5, 4};
    uint64_t before = symmcoll_group_sequence(group);

    (void)rank;
    in.device = SYMMCOLL_META;
    return OK(symmcoll_f_all_to_all(
               group, &in, out_splits, in_splits, NULL, &out, NULL)) &&
           out.device == SYMMCOLL_META && is_shape(&out, 2, 9, 2, 0) &&
           symmcoll_group_sequence(group) == before;
}

/* ---- permute ---- */

/* Permutes in the rows and in the columns of a mesh of 2 x 2. */
static int permutes_in(
    struct symmcoll_group *group, const int *ranks, int *good)
{
    struct symmcoll_group_args args = SYMMCOLL_GROUP_ARGS_INIT;
    struct symmcoll_group *part = NULL;
    struct symmcoll_tensor out = SYMMCOLL_TENSOR_INIT;
    const int swapped[2] = {1, 0};
    float mine[2];
    struct symmcoll_tensor in = SYMMCOLL_TENSOR_FLAT(mine, 2, SYMMCOLL_FLOAT32);
    int rank;

    args.ranks = ranks;
    args.nranks = 2;
    if (!OK(symmcoll_group_create(group->world, &args, &part)))
        return 0;
    rank = symmcoll_group_rank(part);
    mine[0] = (float)(2 * rank);
    mine[1] = (float)(2 * rank + 1);
    if (rank < 0)
        *good = *good && symmcoll_f_permute(part, &in, swapped, NULL, &out,
                             NULL) == SYMMCOLL_NOT_MEMBER;
    else
        *good = *good &&
                OK(symmcoll_f_permute(part, &in, swapped, NULL, &out, NULL)) &&
                waits(group, &out) && at(&out, 0) == (float)(2 * (1 - rank)) &&
                at(&out, 1) == (float)(2 * (1 - rank) + 1);
    release(group, &out);
    return symmcoll_group_free(part) == SYMMCOLL_OK;
}

static int permutes(struct symmcoll_group *group, int rank)
{
    static const int groups[4][2] = {{0, 1}, {2, 3}, {0, 2}, {1, 3}};
    int good = 1;

    (void)rank;
    for (int i = 0; i < 4; i++)
        good = permutes_in(group, groups[i], &good) && good;
    return good;
}

/* Permutes three ranks in a ring, and back. */
static int permutes_back(struct symmcoll_group *group, int rank)
{
    const int next[3] = {1, 2, 0}, twice[3] = {1, 2, 1}, outside[3] = {1, 2, 3};
    float mine[1] = {(float)rank};
    struct symmcoll_tensor in = SYMMCOLL_TENSOR_FLAT(mine, 1, SYMMCOLL_FLOAT32);
    struct symmcoll_tensor out = SYMMCOLL_TENSOR_INIT,
                           back = SYMMCOLL_TENSOR_INIT;
    struct symmcoll_adjoint *adjoint = NULL;
    int good;

    good = OK(symmcoll_f_permute(group, &in, next, NULL, &out, &adjoint)) &&
           OK(symmcoll_adjoint_run(adjoint, &out, NULL, &back)) &&
           waits(group, &back) && at(&out, 0) == (float)((rank + 2) % 3) &&
           at(&back, 0) == (float)rank;
    release(group, &out);
    release(group, &back);
    symmcoll_adjoint_free(adjoint);
    return good &&
           symmcoll_f_permute(group, &in, twice, NULL, &out, NULL) ==
               SYMMCOLL_ERR_INVALID &&
           strstr(symmcoll_last_error(),
               "ranks 0 and 2 with the destination") != NULL &&
           symmcoll_f_permute(group, &in, outside, NULL, &out, NULL) ==
               SYMMCOLL_ERR_INVALID &&
           strstr(symmcoll_last_error(), "expected 0 to 2, found 3") != NULL &&
           symmcoll_f_permute(group, &in, NULL, NULL, &out, NULL) ==
               SYMMCOLL_ERR_INVALID;
}

static void run_all(int (*run)(int n, rank_fn body), const char *kind)
{
    ok(run(4, exchanges_rows), "%s: all_to_all exchanges rows (F7)", kind);
    ok(run(4, exchanges_elements), "%s: of one dimension, single elements (F7)",
        kind);
    ok(run(4, exchanges_equal_parts), "%s: without splits, equal parts (F7)",
        kind);
    ok(run(2, goes_back), "%s: the gradient of all_to_all goes back (F20)",
        kind);
    ok(run(2, uneven_goes_back), "%s: also with other splits (F20)", kind);
    ok(run(2, splits_are_checked), "%s: splits are checked (F7)", kind);
    ok(run(2, shapes_alone),
        "%s: of a shape alone the splits say the result's "
        "(F40)",
        kind);
    ok(run(4, permutes), "%s: tensors are permuted in groups of a mesh (F9)",
        kind);
    ok(run(3, permutes_back),
        "%s: a permutation goes back; what is none is refused (F9 F28)", kind);
}

int main(void)
{
    plan(18);
    run_all(ranks_run, "processes");
    run_all(threads_run, "threads");
    return done_testing();
}
