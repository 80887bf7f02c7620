/* SPDX-License-Identifier: BSD-3-Clause */
/* Tests restrided copies, shapes without memory, and refused arguments. */
#include "t/fused/made.h"

#include <stdlib.h>
#include <string.h>

#define REFUSED(call, detail) made_says((call), SYMMCOLL_ERR_INVALID, (detail))

typedef symmcoll_status_t (*restride_fn)(
    const struct symmcoll_tensor *in, int dim, struct symmcoll_tensor *out);

/* Checks that a restrided copy has the same values, contiguous with that
 * dimension first. */
static int is_restrided(restride_fn restride, enum made_order order, int dim)
{
    const int64_t shape[4] = {8, 64, 32, 16};
    struct symmcoll_tensor in =
        made_tensor(SYMMCOLL_FLOAT32, 4, shape, order, 1, 3, 0);
    struct symmcoll_tensor out = SYMMCOLL_TENSOR_INIT;
    int good =
        OK(restride(&in, dim, &out)) && made_is_shaped(&out, 4, shape, dim);

    for (int64_t i = 0; good && i < made_count(&in); i++)
        good = made_at(&out, i) == made_at(&in, i);
    symmcoll_f_free(NULL, &out);
    free(in.data);
    return good;
}

static int all_are_restrided(restride_fn restride)
{
    int good = 1;

    for (int dim = 0; dim < 4; dim++)
        good = good && is_restrided(restride, MADE_CONTIGUOUS, dim) &&
               is_restrided(restride, MADE_REVERSED, dim);
    return good;
}

/* ---- shapes without memory ---- */

static struct symmcoll_tensor meta(int ndim, int64_t a, int64_t b, int64_t c)
{
    struct symmcoll_tensor made =
        SYMMCOLL_TENSOR_SHAPE(NULL, SYMMCOLL_BFLOAT16, a, b, c);

    made.device = SYMMCOLL_META;
    made.ndim = ndim;
    return made;
}

static int shapes_alone(struct symmcoll_group *group, int rank)
{
    uint64_t before = symmcoll_group_sequence(group);
    struct symmcoll_tensor shard = meta(3, 8, 32, 4), whole = meta(3, 8, 64, 4);
    struct symmcoll_tensor b = meta(2, 4, 16, 1);
    struct symmcoll_tensor a = SYMMCOLL_TENSOR_INIT, out = a, part = a;
    const int64_t a_shape[3] = {8, 64, 4}, out_shape[3] = {8, 64, 16};
    const int64_t part_shape[3] = {8, 32, 16};

    (void)rank;
    b.strides[0] = 16;
    return OK(symmcoll_fused_all_gather_matmul(
               group, &shard, &b, 1, 1, NULL, &a, &out)) &&
           a.device == SYMMCOLL_META && a.data == NULL && out.data == NULL &&
           made_is_shaped(&a, 3, a_shape, 1) &&
           made_is_shaped(&out, 3, out_shape, 1) &&
           OK(symmcoll_fused_matmul_reduce_scatter(
               group, &whole, &b, SYMMCOLL_SUM, 1, NULL, &part)) &&
           part.data == NULL && made_is_shaped(&part, 3, part_shape, 0) &&
           symmcoll_group_sequence(group) == before;
}

/* Checks that a caller's pointer in such a tensor is not copied to the result,
 * since f_free() would free it. */
static int results_have_no_memory(restride_fn restride)
{
    float data[6] = {0};
    struct symmcoll_tensor in =
        SYMMCOLL_TENSOR_SHAPE(data, SYMMCOLL_FLOAT32, 2, 3);
    struct symmcoll_tensor out = SYMMCOLL_TENSOR_INIT;
    const int64_t shape[2] = {2, 3};

    in.device = SYMMCOLL_META;
    return OK(restride(&in, 1, &out)) && out.device == SYMMCOLL_META &&
           out.data == NULL && made_is_shaped(&out, 2, shape, 1);
}

/* ---- refusals ---- */

static int gather_is_checked(struct symmcoll_group *group, int rank)
{
    float data[24] = {0};
    struct symmcoll_tensor a =
        SYMMCOLL_TENSOR_SHAPE(data, SYMMCOLL_FLOAT32, 2, 3, 4);
    struct symmcoll_tensor b =
        SYMMCOLL_TENSOR_SHAPE(data, SYMMCOLL_FLOAT32, 4, 2);
    struct symmcoll_tensor row =
        SYMMCOLL_TENSOR_SHAPE(data, SYMMCOLL_FLOAT32, 4);
    struct symmcoll_tensor ints =
        SYMMCOLL_TENSOR_SHAPE(data, SYMMCOLL_INT32, 2, 4);
    struct symmcoll_tensor doubles =
        SYMMCOLL_TENSOR_SHAPE(data, SYMMCOLL_FLOAT64, 4, 2);
    struct symmcoll_tensor short_b =
        SYMMCOLL_TENSOR_SHAPE(data, SYMMCOLL_FLOAT32, 3, 2);
    struct symmcoll_tensor out = SYMMCOLL_TENSOR_INIT;

#define GATHER(a, b, n, dim) \
    symmcoll_fused_all_gather_matmul(group, a, b, n, dim, NULL, NULL, &out)
    (void)rank;
    return REFUSED(GATHER(&row, &b, 1, 0),
               "fused_all_gather_matmul: expected a of 2 dimensions or more, "
               "found 1") &&
           REFUSED(GATHER(&a, &a, 1, 0), "b 0: expected a matrix, found 3") &&
           REFUSED(GATHER(&a, &b, 1, 3),
               "expected a dimension of 0 to 2, found 3") &&
           REFUSED(GATHER(&a, &b, 1, -1), "found -1") &&
           REFUSED(GATHER(&a, &short_b, 1, 0), "expected 4 rows, found 3") &&
           REFUSED(GATHER(&a, &b, 1, 2), "expected 8 rows, found 4") &&
           REFUSED(GATHER(&a, &doubles, 1, 0),
               "expected float32 as a is, found float64") &&
           REFUSED(GATHER(&a, &b, -1, 0), "found a negative number") &&
           REFUSED(GATHER(&a, NULL, 1, 0), "found NULL") &&
           REFUSED(GATHER(NULL, &b, 1, 0), "expected a, found NULL") &&
           made_says(GATHER(&ints, &b, 1, 0), SYMMCOLL_ERR_UNSUPPORTED,
               "expected float32, float64, float16 or bfloat16, found int32") &&
           out.data == NULL && OK(symmcoll_barrier(group, NULL, NULL));
}

static int scatter_is_checked(struct symmcoll_group *group, int rank)
{
    float data[24] = {0};
    struct symmcoll_tensor a =
        SYMMCOLL_TENSOR_SHAPE(data, SYMMCOLL_FLOAT32, 2, 3, 4);
    struct symmcoll_tensor b =
        SYMMCOLL_TENSOR_SHAPE(data, SYMMCOLL_FLOAT32, 4, 3);
    struct symmcoll_tensor row =
        SYMMCOLL_TENSOR_SHAPE(data, SYMMCOLL_FLOAT32, 4);
    struct symmcoll_tensor out = SYMMCOLL_TENSOR_INIT;

#define SCATTER(a, b, op, dim) \
    symmcoll_fused_matmul_reduce_scatter(group, a, b, op, dim, NULL, &out)
    (void)rank;
    return REFUSED(SCATTER(&a, &b, SYMMCOLL_MAX, 0),
               "fused_matmul_reduce_scatter: expected sum or avg, found max") &&
           REFUSED(SCATTER(&a, &b, 99, 0), "expected sum or avg") &&
           REFUSED(
               SCATTER(&row, &b, SYMMCOLL_SUM, 0), "2 dimensions or more") &&
           REFUSED(SCATTER(&a, &row, SYMMCOLL_SUM, 0), "expected a matrix") &&
           REFUSED(SCATTER(&a, &b, SYMMCOLL_SUM, 3), "0 to 2, found 3") &&
           REFUSED(SCATTER(&a, &b, SYMMCOLL_SUM, 1),
               "expected the length of scatter_dim to be a multiple of 2 "
               "ranks, found 3") &&
           REFUSED(SCATTER(&a, &b, SYMMCOLL_SUM, 2),
               "expected the columns of b to be a multiple of 2 ranks, found "
               "3") &&
           REFUSED(symmcoll_fused_restride_a(&a, 3, &out), "0 to 2, found 3") &&
           REFUSED(
               symmcoll_fused_restride_a_shard(NULL, 0, &out), "found NULL") &&
           out.data == NULL && OK(symmcoll_barrier(group, NULL, NULL));
}

/* Uses tensors without elements, but with lengths whose products overflow. */
static int lengths_are_checked(struct symmcoll_group *group, int rank)
{
    static const int64_t many = INT64_C(1) << 40;
    float data[4] = {0};
    struct symmcoll_tensor a =
        SYMMCOLL_TENSOR_SHAPE(data, SYMMCOLL_FLOAT32, many, many, 0);
    struct symmcoll_tensor rows =
        SYMMCOLL_TENSOR_SHAPE(data, SYMMCOLL_FLOAT32, many, 0);
    struct symmcoll_tensor b =
        SYMMCOLL_TENSOR_SHAPE(data, SYMMCOLL_FLOAT32, 0, many);
    struct symmcoll_tensor out = SYMMCOLL_TENSOR_INIT;

    (void)rank;
    return REFUSED(
               GATHER(&a, &b, 1, 0), "expected lengths of a other than 0") &&
           REFUSED(GATHER(&rows, &b, 1, 0), "expected lengths of a @ b") &&
           REFUSED(
               SCATTER(&a, &b, SYMMCOLL_SUM, 0), "expected lengths of a ") &&
           REFUSED(SCATTER(&rows, &b, SYMMCOLL_SUM, 0),
               "expected lengths of a @ b other than 0 whose product is") &&
           REFUSED(symmcoll_fused_restride_a(&a, 0, &out),
               "expected lengths of in other than 0") &&
           out.data == NULL && OK(symmcoll_barrier(group, NULL, NULL));
}

static void run_all(int (*run)(int n, rank_fn body), const char *kind)
{
    ok(run(2, shapes_alone),
        "%s: shapes without memory have the results' shapes and strides (M3)",
        kind);
    ok(run(2, gather_is_checked),
        "%s: arguments of all_gather and matmul are checked (M1)", kind);
    ok(run(2, scatter_is_checked),
        "%s: arguments of matmul and reduce_scatter are checked (M20)", kind);
    ok(run(2, lengths_are_checked),
        "%s: lengths are checked, also where there is no element", kind);
}

int main(void)
{
    plan(11);
    ok(all_are_restrided(symmcoll_fused_restride_a_shard),
        "a shard is restrided to what all_gather and matmul reads best (M9)");
    ok(all_are_restrided(symmcoll_fused_restride_a),
        "A is restrided to what matmul and reduce_scatter reads best (M26)");
    ok(results_have_no_memory(symmcoll_fused_restride_a_shard) &&
            results_have_no_memory(symmcoll_fused_restride_a),
        "a shape without memory is restrided to one, also with a pointer (M3)");
    run_all(ranks_run, "processes");
    run_all(threads_run, "threads");
    return done_testing();
}
