/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Tests scales of fused products that match no shape, and shapes without
 * memory.
 */
#include "t/fused/made.h"

#define REFUSED(call, detail) made_says(call, SYMMCOLL_ERR_INVALID, detail)

/* A valid call: a [2, 3, 4] by [4, 6], with scales of rows. */
struct call {
    uint8_t bytes[24];
    float floats[24];
    struct symmcoll_tensor a, a_scale, b, b_scale, bias, result_scale, out;
    struct symmcoll_scaled_matrix matrix;
    int dim;
};

static void begin(struct call *it)
{
    static const struct symmcoll_scaled_matrix init =
        SYMMCOLL_SCALED_MATRIX_INIT;
    struct symmcoll_tensor a =
        SYMMCOLL_TENSOR_SHAPE(it->bytes, SYMMCOLL_FLOAT8_E4M3FN, 2, 3, 4);
    struct symmcoll_tensor a_scale =
        SYMMCOLL_TENSOR_SHAPE(it->floats, SYMMCOLL_FLOAT32, 2, 3, 1);
    struct symmcoll_tensor b =
        SYMMCOLL_TENSOR_SHAPE(it->bytes, SYMMCOLL_FLOAT8_E5M2, 4, 6);
    struct symmcoll_tensor b_scale =
        SYMMCOLL_TENSOR_SHAPE(it->floats, SYMMCOLL_FLOAT32, 1, 6);
    struct symmcoll_tensor bias =
        SYMMCOLL_TENSOR_SHAPE(it->floats, SYMMCOLL_BFLOAT16, 6);
    struct symmcoll_tensor one =
        SYMMCOLL_TENSOR_SHAPE(it->floats, SYMMCOLL_FLOAT32, 1);
    struct symmcoll_tensor out = SYMMCOLL_TENSOR_INIT;

    it->a = a;
    it->a_scale = a_scale;
    it->b = b;
    it->b_scale = b_scale;
    it->bias = bias;
    it->result_scale = one;
    it->out = out;
    it->matrix = init;
    it->matrix.b = &it->b;
    it->matrix.b_scale = &it->b_scale;
    it->matrix.bias = &it->bias;
    it->matrix.result_scale = &it->result_scale;
    it->dim = 0;
}

static symmcoll_status_t gather(
    struct symmcoll_group *group, struct call *it, bool scaled)
{
    return symmcoll_fused_all_gather_scaled_matmul(group, &it->a,
        scaled ? &it->a_scale : NULL, &it->matrix, 1, it->dim, NULL, NULL,
        &it->out);
}

static symmcoll_status_t scatter(
    struct symmcoll_group *group, struct call *it, bool scaled)
{
    return symmcoll_fused_scaled_matmul_reduce_scatter(group, &it->a,
        scaled ? &it->a_scale : NULL, &it->matrix, SYMMCOLL_SUM, it->dim, NULL,
        &it->out);
}

/* ---- scales of A ---- */

static int of_rows(struct symmcoll_group *group, int rank)
{
    struct call it = {.dim = 0};
    int good;

    (void)rank;
    begin(&it);
    it.a_scale.shape[1] = 2;
    good =
        REFUSED(gather(group, &it, true),
            "fused_all_gather_scaled_matmul: expected a_scale of shape [2, 3, "
            "1] or [4, 3, 1] or of one element, found shape [2, 2, 1]") &&
        REFUSED(scatter(group, &it, true),
            "fused_scaled_matmul_reduce_scatter: expected a_scale of shape [2, "
            "3, 1] or of one element, found shape [2, 2, 1]");
    begin(&it);
    it.a_scale.shape[0] = 4;
    good = good && REFUSED(scatter(group, &it, true), "found shape [4, 3, 1]");
    it.a_scale.shape[2] = 2;
    good = good && REFUSED(gather(group, &it, true), "found shape [4, 3, 2]");
    begin(&it);
    it.a_scale.dtype = SYMMCOLL_FLOAT64;
    return good &&
           REFUSED(gather(group, &it, true),
               "expected a_scale of float32, found float64") &&
           REFUSED(
               scatter(group, &it, false), "expected a_scale, found NULL") &&
           REFUSED(gather(group, &it, false), "expected a_scale, found NULL");
}

/* Passes scales of blocks, which are a row of 8-bit exponents. */
static int of_blocks(struct symmcoll_group *group, int rank)
{
    struct call it = {.dim = 0};
    struct symmcoll_tensor blocks =
        SYMMCOLL_TENSOR_SHAPE(it.bytes, SYMMCOLL_FLOAT8_E8M0FNU, 16);

    (void)rank;
    begin(&it);
    it.a_scale = blocks;
    return REFUSED(scatter(group, &it, true),
        "expected a_scale of float32, found float8_e8m0fnu");
}

/* ---- scales of a matrix ---- */

static int of_columns(struct symmcoll_group *group, int rank)
{
    struct call it = {.dim = 0};
    int good;

    (void)rank;
    begin(&it);
    it.b_scale.shape[1] = 5;
    good = REFUSED(gather(group, &it, true),
        "expected b_scale of shape [1, 6] or of one element, found shape [1, "
        "5]");
    begin(&it);
    it.bias.shape[0] = 7;
    good = good && REFUSED(gather(group, &it, true),
                       "expected bias of shape [6], found shape [7]");
    it.bias.dtype = SYMMCOLL_INT32;
    good = good && REFUSED(scatter(group, &it, true),
                       "expected bias of float32, float16 or bfloat16, found "
                       "int32");
    begin(&it);
    it.result_scale.shape[0] = 2;
    good = good && REFUSED(gather(group, &it, true),
                       "expected result_scale of one element, found shape [2]");
    begin(&it);
    it.matrix.b_scale = NULL;
    good = good &&
           REFUSED(gather(group, &it, true), "expected b_scale, found NULL");
    begin(&it);
    it.matrix.out_dtype = SYMMCOLL_INT32;
    return good && made_says(gather(group, &it, true), SYMMCOLL_ERR_UNSUPPORTED,
                       "expected out_dtype float32, float16, bfloat16 or an "
                       "8-bit float with a sign, found ");
}

static int of_operands(struct symmcoll_group *group, int rank)
{
    struct call it = {.dim = 0};
    int good;

    (void)rank;
    begin(&it);
    it.a.dtype = SYMMCOLL_FLOAT16;
    good = made_says(gather(group, &it, true), SYMMCOLL_ERR_UNSUPPORTED,
        "expected an 8-bit float with a sign, found float16");
    begin(&it);
    it.b.dtype = SYMMCOLL_FLOAT8_E8M0FNU;
    good = good && REFUSED(scatter(group, &it, true),
                       "b 0: expected an 8-bit float with a sign as a is, "
                       "found float8_e8m0fnu");
    begin(&it);
    it.dim = 2;
    good = good && made_says(gather(group, &it, true), SYMMCOLL_ERR_UNSUPPORTED,
                       "expected a dimension before the last, found 2 of 3");
    begin(&it);
    it.matrix.size = 12;
    return good &&
           REFUSED(gather(group, &it, true), "expected scaled matrix of size");
}

/* Passes the struct of a program compiled with fewer members: the missing ones
 * are not read. */
static int of_a_smaller_struct(struct symmcoll_group *group, int rank)
{
    struct call it = {.dim = 0};
    int good;

    (void)rank;
    begin(&it);
    it.bias.shape[0] = 7;
    it.result_scale.shape[0] = 2;
    it.matrix.out_dtype = SYMMCOLL_INT32;
    it.matrix.size = offsetof(struct symmcoll_scaled_matrix, bias);
    good = OK(gather(group, &it, true)) && it.out.dtype == SYMMCOLL_FLOAT32;
    symmcoll_f_free(symmcoll_group_world(group), &it.out);
    it.matrix.size = offsetof(struct symmcoll_scaled_matrix, b_scale);
    good = REFUSED(gather(group, &it, true), "expected b_scale, found NULL") &&
           good;
    it.matrix.size = sizeof(it.matrix.size);
    return REFUSED(gather(group, &it, true), "expected b, found NULL") && good;
}

/* ---- shapes ---- */

static int shapes_alone(struct symmcoll_group *group, int rank)
{
    const int64_t gathered[3] = {4, 3, 6}, part[3] = {1, 3, 6};
    struct call it = {.dim = 0};
    int good;

    (void)rank;
    begin(&it);
    it.a.device = it.b.device = SYMMCOLL_META;
    it.a_scale.device = it.b_scale.device = SYMMCOLL_META;
    it.matrix.out_dtype = SYMMCOLL_FLOAT16;
    good = OK(gather(group, &it, true)) && it.out.data == NULL &&
           it.out.dtype == SYMMCOLL_FLOAT16 &&
           made_is_shaped(&it.out, 3, gathered, 0);
    return good && OK(scatter(group, &it, true)) && it.out.data == NULL &&
           made_is_shaped(&it.out, 3, part, 0);
}

static void run_all(int (*run)(int n, rank_fn body), const char *kind)
{
    ok(run(2, of_rows),
        "%s: scales that fit neither a shard nor A are refused (M30)", kind);
    ok(run(2, of_blocks),
        "%s: products that are added up have no scales of blocks (M33)", kind);
    ok(run(2, of_columns),
        "%s: what belongs to a matrix is checked beside it (M32)", kind);
    ok(run(2, of_operands), "%s: operands and the dimension are checked (M34)",
        kind);
    ok(run(2, of_a_smaller_struct),
        "%s: members that a smaller struct lacks are none (M32)", kind);
    ok(run(2, shapes_alone),
        "%s: shapes without memory have those of the results", kind);
}

int main(void)
{
    plan(12);
    run_all(ranks_run, "processes");
    run_all(threads_run, "threads");
    return done_testing();
}
