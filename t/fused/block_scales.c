/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Tests products of 8-bit floats with a scale for each 32 elements along the
 * depth, against double precision; and refused arguments.
 */
#include "t/fused/made.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define A_SEED 1
#define B_SEED 10
#define MATRICES 2
#define REFUSED(call, detail) made_says(call, SYMMCOLL_ERR_INVALID, detail)

struct test {
    int ndim;
    int64_t shape[3]; /* of a shard */
    enum made_order order;
    int64_t step; /* of checks */
    bool spread;  /* scales of A have a stride */
};

/* Returns the exponent of a block's scale, from -5 to 5. */
static int exponent_of(int seed, int rank, int64_t row, int64_t block)
{
    return (int)((row * 7 + block * 3 + rank * 2 + seed) % 11) - 5;
}

/* Returns the scales of a matrix in the layout of the call, tile by tile;
 * free(data). */
static struct symmcoll_tensor make_scales(
    int seed, int rank, int64_t rows, int64_t depth, int64_t stride)
{
    int64_t tiles = (rows + 127) / 128, across = ((depth + 31) / 32 + 3) / 4;
    int64_t count = tiles * across * 512;
    uint8_t *at = calloc((size_t)(count * stride + 1), 1);
    struct symmcoll_tensor made =
        SYMMCOLL_TENSOR_SHAPE(at, SYMMCOLL_FLOAT8_E8M0FNU, count);

    made.strides[0] = stride;
    for (int64_t tile = 0; tile < tiles * across; tile++) {
        for (int i = 0; i < 512; i++) {
            int64_t row = tile / across * 128 + i / 4 % 4 * 32 + i / 16;
            int64_t block = tile % across * 4 + i % 4;

            /* Padding of a tile is not read: NaN. */
            *at = row < rows && block * 32 < depth
                      ? (uint8_t)(127 + exponent_of(seed, rank, row, block))
                      : 0xff;
            at += stride;
        }
    }
    return made;
}

struct matrix {
    struct symmcoll_tensor b, scale, bias;
    struct symmcoll_scaled_matrix scaled;
};

static void make_matrix(
    struct matrix *made, int i, int64_t depth, int64_t width, int rank)
{
    static const struct symmcoll_scaled_matrix init =
        SYMMCOLL_SCALED_MATRIX_INIT;
    const int64_t shape[2] = {depth, width};

    made->b = made_tensor(SYMMCOLL_FLOAT8_E5M2, 2, shape,
        i == 0 ? MADE_CONTIGUOUS : MADE_REVERSED, 0, B_SEED + i, rank);
    made->scale = make_scales(B_SEED + i, rank, width, depth, 1);
    made->bias = made_tensor(
        SYMMCOLL_FLOAT32, 1, &width, MADE_CONTIGUOUS, 0, B_SEED + i, rank);
    made->scaled = init;
    made->scaled.b = &made->b;
    made->scaled.b_scale = &made->scale;
    if (i > 0) {
        made->scaled.bias = &made->bias;
        made->scaled.out_dtype = SYMMCOLL_BFLOAT16;
    }
}

static int is_right(const struct test *test, int size, int rank, int i,
    const struct symmcoll_tensor *out)
{
    int64_t width = out->shape[test->ndim - 1];
    int64_t depth = test->shape[test->ndim - 1], shape[3], rows = 1;

    memcpy(shape, test->shape, sizeof(shape));
    for (int d = 0; d < test->ndim - 1; d++)
        rows *= shape[d];
    shape[0] *= size;
    shape[test->ndim - 1] = width;
    if (!made_is_shaped(out, test->ndim, shape, 0))
        return 0;
    for (int64_t at = 0; at < made_count(out); at += test->step) {
        struct made_sum sum = {.terms = depth + 1};
        int64_t row = at / width % rows, column = at % width;
        int from = (int)(at / width / rows);

        for (int64_t k = 0; k < depth; k++) {
            int exponent = exponent_of(A_SEED, from, row, k / 32) +
                           exponent_of(B_SEED + i, rank, column, k / 32);
            double term = ldexp(made_value(SYMMCOLL_FLOAT8_E4M3FN, A_SEED, from,
                                    row * depth + k) *
                                    made_value(SYMMCOLL_FLOAT8_E5M2, B_SEED + i,
                                        rank, k * width + column),
                exponent);

            sum.value += term;
            sum.magnitude += fabs(term);
        }
        if (i > 0)
            sum.value += made_value(SYMMCOLL_FLOAT32, B_SEED + i, rank, column);
        sum.magnitude += i > 0;
        if (!made_is_near(out->dtype, made_at(out, at), sum)) {
            diag("rank %d: matrix %d, element %lld: expected %g, found %g",
                rank, i, (long long)at, sum.value, made_at(out, at));
            return 0;
        }
    }
    return 1;
}

static int run_gather(
    struct symmcoll_group *group, int rank, const struct test *test)
{
    static const int64_t widths[MATRICES] = {5, 521};
    struct symmcoll_world *world = symmcoll_group_world(group);
    int64_t depth = test->shape[test->ndim - 1], rows = 1;
    int size = symmcoll_group_size(group), good;
    struct symmcoll_tensor init = SYMMCOLL_TENSOR_INIT, a = init;
    struct symmcoll_tensor outs[MATRICES] = {init, init}, scale, shard;
    struct symmcoll_scaled_matrix bs[MATRICES];
    struct matrix matrices[MATRICES];

    for (int d = 0; d < test->ndim - 1; d++)
        rows *= test->shape[d];
    shard = made_tensor(SYMMCOLL_FLOAT8_E4M3FN, test->ndim, test->shape,
        test->order, 0, A_SEED, rank);
    scale = make_scales(A_SEED, rank, rows, depth, test->spread ? 3 : 1);
    for (int i = 0; i < MATRICES; i++) {
        make_matrix(&matrices[i], i, depth, widths[i], rank);
        bs[i] = matrices[i].scaled;
    }
    good = OK(symmcoll_fused_all_gather_scaled_matmul(
        group, &shard, &scale, bs, MATRICES, 0, NULL, &a, outs));
    for (int i = 0; i < MATRICES; i++) {
        good = good && is_right(test, size, rank, i, &outs[i]);
        symmcoll_f_free(world, &outs[i]);
        free(matrices[i].b.data);
        free(matrices[i].scale.data);
        free(matrices[i].bias.data);
    }
    symmcoll_f_free(world, &a);
    free(scale.data);
    free(shard.data);
    return good;
}

static int gathers(struct symmcoll_group *group, int rank)
{
    static const struct test tests[] = {
        {.ndim = 2, .shape = {128, 70, 0}, .step = 37},
        {.ndim = 2, .shape = {256, 161, 0}, .step = 1001, .spread = true},
        {.ndim = 3, .shape = {2, 64, 32}, .step = 31, .order = MADE_REVERSED},
        {.ndim = 2, .shape = {128, 1, 0}, .step = 1, .order = MADE_SPREAD},
        {.ndim = 2, .shape = {128, 0, 0}, .step = 1},
        {.ndim = 2, .shape = {0, 9, 0}, .step = 1}};
    int good = 1;

    for (int i = 0; i < 6 && good; i++)
        good = run_gather(group, rank, &tests[i]);
    return good;
}

/* Multiplies shard by shard, and in the plain sequence. */
static int scales_come_with_rows(struct symmcoll_group *group, int rank)
{
    const struct test many = {.ndim = 2, .shape = {640, 33, 0}, .step = 997};
    const struct test few = {.ndim = 2, .shape = {128, 33, 0}, .step = 53};
    int good = run_gather(group, rank, &many) &&
               OK(symmcoll_fused_set_plain(group, rank == 0)) &&
               run_gather(group, rank, &few);

    return OK(symmcoll_fused_set_plain(group, 0)) && good;
}

/* ---- refused arguments ---- */

/* A valid call: a [128, 2, 33] by [33, 6]. */
struct call {
    struct symmcoll_tensor a, b, a_scale, b_scale, rows, out;
    struct symmcoll_scaled_matrix matrix;
    int dim;
};

static uint8_t bytes[128 * 2 * 33];
static float floats[128 * 2];

static void begin(struct call *it)
{
    static const struct symmcoll_scaled_matrix init =
        SYMMCOLL_SCALED_MATRIX_INIT;
    struct symmcoll_tensor a =
        SYMMCOLL_TENSOR_SHAPE(bytes, SYMMCOLL_FLOAT8_E4M3FN, 128, 2, 33);
    struct symmcoll_tensor b =
        SYMMCOLL_TENSOR_SHAPE(bytes, SYMMCOLL_FLOAT8_E4M3FN, 33, 6);
    struct symmcoll_tensor a_scale =
        SYMMCOLL_TENSOR_SHAPE(bytes, SYMMCOLL_FLOAT8_E8M0FNU, 1024);
    struct symmcoll_tensor b_scale =
        SYMMCOLL_TENSOR_SHAPE(bytes, SYMMCOLL_FLOAT8_E8M0FNU, 512);
    struct symmcoll_tensor rows =
        SYMMCOLL_TENSOR_SHAPE(floats, SYMMCOLL_FLOAT32, 128, 2, 1);
    struct symmcoll_tensor out = SYMMCOLL_TENSOR_INIT;

    *it = (struct call){.a = a,
        .b = b,
        .a_scale = a_scale,
        .b_scale = b_scale,
        .rows = rows,
        .out = out,
        .matrix = init};
    it->matrix.b = &it->b;
    it->matrix.b_scale = &it->b_scale;
}

static symmcoll_status_t gather(struct symmcoll_group *group, struct call *it,
    const struct symmcoll_tensor *a_scale)
{
    return symmcoll_fused_all_gather_scaled_matmul(
        group, &it->a, a_scale, &it->matrix, 1, it->dim, NULL, NULL, &it->out);
}

static int shapes_are_checked(struct symmcoll_group *group, int rank)
{
    const int64_t shape[3] = {256, 2, 6};
    struct call it;
    int good;

    (void)rank;
    begin(&it);
    it.dim = 1;
    good = REFUSED(gather(group, &it, &it.a_scale),
        "expected gather_dim 0, since a_scale is of blocks, found 1");
    begin(&it);
    it.a.shape[0] = 127;
    good = good && REFUSED(gather(group, &it, &it.a_scale),
                       "expected a multiple of 128 rows, since a_scale is of "
                       "blocks, found 254");
    begin(&it);
    it.a_scale.shape[0] = 1023;
    good = good && REFUSED(gather(group, &it, &it.a_scale),
                       "expected a_scale of shape [1024], in tiles of 128 by "
                       "4, found shape [1023]");
    begin(&it);
    it.b_scale.shape[0] = 1024;
    good = good && REFUSED(gather(group, &it, &it.a_scale),
                       "expected b_scale of shape [512], in tiles of 128 by 4, "
                       "found shape [1024]");
    begin(&it);
    it.a.device = it.b.device = SYMMCOLL_META;
    it.a_scale.device = it.b_scale.device = SYMMCOLL_META;
    return good && OK(gather(group, &it, &it.a_scale)) && it.out.data == NULL &&
           made_is_shaped(&it.out, 3, shape, 0);
}

static int both_operands_have_them(struct symmcoll_group *group, int rank)
{
    struct call it;
    int good;

    (void)rank;
    begin(&it);
    it.matrix.b_scale = &it.rows;
    good = REFUSED(gather(group, &it, &it.a_scale),
        "expected b_scale of float8_e8m0fnu as a_scale is, found float32");
    begin(&it);
    good = good && REFUSED(gather(group, &it, &it.rows),
                       "expected b_scale of float32, found float8_e8m0fnu");
    return good &&
           REFUSED(symmcoll_fused_scaled_matmul_reduce_scatter(group, &it.a,
                       &it.rows, &it.matrix, SYMMCOLL_SUM, 0, NULL, &it.out),
               "expected b_scale of float32, found float8_e8m0fnu");
}

/* On one rank A has scales of blocks, on the others scales of rows. */
static int others_are_told(struct symmcoll_group *group, int rank)
{
    struct symmcoll_tensor one =
        SYMMCOLL_TENSOR_SHAPE(floats, SYMMCOLL_FLOAT32, 1);
    struct call it;

    begin(&it);
    if (rank > 0)
        it.matrix.b_scale = &one;
    return made_says(gather(group, &it, rank > 0 ? &it.rows : &it.a_scale),
        SYMMCOLL_ERR_MISMATCH,
        "rank 0 passed fused_all_gather_scaled_matmul of a shard [128, 2, 33] "
        "of float8_e4m3fn with scales of blocks");
}

static void run_all(int (*run)(int n, rank_fn body), const char *kind)
{
    ok(run(2, gathers) && run(3, gathers),
        "%s: elements are scaled by their blocks, against double precision "
        "(M33 M35)",
        kind);
    ok(run(2, scales_come_with_rows) && run(4, scales_come_with_rows),
        "%s: scales of blocks are gathered with the rows (M33)", kind);
    ok(run(2, shapes_are_checked),
        "%s: they are for gather_dim 0, rows by 128, and in one dimension "
        "(M33)",
        kind);
    ok(run(2, both_operands_have_them),
        "%s: both operands have scales of blocks, or none has (M33)", kind);
    ok(run(3, others_are_told),
        "%s: ranks whose scales are of another kind are told (M33)", kind);
}

int main(void)
{
    plan(10);
    run_all(ranks_run, "processes");
    run_all(threads_run, "threads");
    return done_testing();
}
