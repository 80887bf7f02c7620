/* SPDX-License-Identifier: BSD-3-Clause */
/* Tests the gradients that adjoints compute. */
#include "t/functional/made.h"

#include <stdint.h>
#include <string.h>

/* Runs the adjoint with a gradient of ones for all results; a wait has no
 * adjoint (F26). */
static int run_back(struct symmcoll_group *group,
    const struct symmcoll_adjoint *adjoint, const struct symmcoll_tensor *out,
    struct symmcoll_tensor *gradient)
{
    float ones[256];
    struct symmcoll_tensor grad = *out;

    grad.data = ones;
    fill(&grad, 1);
    return OK(symmcoll_adjoint_run(adjoint, &grad, NULL, gradient)) &&
           waits(group, gradient);
}

/* Checks that the gradient has one value everywhere and the shape of the
 * inputs; frees the result of the call and its adjoint. */
static int is_gradient(struct symmcoll_group *group,
    struct symmcoll_adjoint *adjoint, struct symmcoll_tensor *out,
    const struct symmcoll_tensor *in, float value)
{
    struct symmcoll_tensor grad = SYMMCOLL_TENSOR_INIT;
    int good =
        run_back(group, adjoint, out, &grad) &&
        is_shape(&grad, in->ndim, in->shape[0], in->shape[1], in->shape[2]) &&
        all_are(&grad, value);

    release(group, out);
    release(group, &grad);
    symmcoll_adjoint_free(adjoint);
    return good;
}

/* ---- one call of each kind ---- */

static int gather_back(struct symmcoll_group *group, int rank)
{
    float ones[27];
    struct symmcoll_tensor in =
        SYMMCOLL_TENSOR_SHAPE(ones, SYMMCOLL_FLOAT32, 3, 3, 3);
    int good = 1;

    (void)rank;
    fill(&in, 1);
    for (int dim = 0; dim < 3 && good; dim++) {
        struct symmcoll_tensor out = SYMMCOLL_TENSOR_INIT;
        struct symmcoll_adjoint *adjoint = NULL;

        good =
            OK(symmcoll_f_all_gather(group, &in, dim, NULL, &out, &adjoint)) &&
            waits(group, &out) && all_are(&out, 1);
        good = is_gradient(group, adjoint, &out, &in,
                   (float)symmcoll_group_size(group)) &&
               good;
    }
    return good;
}

static int scatter_back_of(struct symmcoll_group *group, symmcoll_op_t op)
{
    float ones[64] = {0};
    int size = symmcoll_group_size(group), good = 1;

    for (int dim = 0; dim < 2 && good; dim++) {
        struct symmcoll_tensor in = SYMMCOLL_TENSOR_SHAPE(ones,
            SYMMCOLL_FLOAT32, dim == 0 ? 3 * size : 3, dim ? 3 * size : 3);
        struct symmcoll_tensor out = SYMMCOLL_TENSOR_INIT;
        struct symmcoll_adjoint *adjoint = NULL;

        fill(&in, 1);
        good = OK(symmcoll_f_reduce_scatter(
                   group, &in, op, dim, NULL, &out, &adjoint)) &&
               waits(group, &out) &&
               all_are(&out, op == SYMMCOLL_SUM ? (float)size : 1);
        good = is_gradient(group, adjoint, &out, &in,
                   op == SYMMCOLL_SUM ? 1 : 1 / (float)size) &&
               good;
    }
    return good;
}

static int scatter_back(struct symmcoll_group *group, int rank)
{
    (void)rank;
    return scatter_back_of(group, SYMMCOLL_SUM);
}

static int averages_back(struct symmcoll_group *group, int rank)
{
    float ones[4] = {1, 1, 1, 1};
    struct symmcoll_tensor in = SYMMCOLL_TENSOR_FLAT(ones, 4, SYMMCOLL_FLOAT32);
    struct symmcoll_tensor out = SYMMCOLL_TENSOR_INIT;
    struct symmcoll_adjoint *adjoint = NULL;

    (void)rank;
    return OK(symmcoll_f_all_reduce(
               group, &in, SYMMCOLL_AVG, NULL, &out, &adjoint)) &&
           is_gradient(group, adjoint, &out, &in, 1) &&
           scatter_back_of(group, SYMMCOLL_AVG);
}

/* Checks that without a token the result has no adjoint, and that with one the
 * gradient is summed. */
static int reduce_back(struct symmcoll_group *group, int rank)
{
    float mine[4];
    struct symmcoll_tensor in = SYMMCOLL_TENSOR_FLAT(mine, 4, SYMMCOLL_FLOAT32);
    struct symmcoll_tensor out = SYMMCOLL_TENSOR_INIT,
                           grad = SYMMCOLL_TENSOR_INIT;
    struct symmcoll_adjoint *adjoint = NULL;
    int good;

    fill(&in, (float)rank);
    good =
        OK(symmcoll_f_all_reduce(group, &in, SYMMCOLL_SUM, NULL, &out, NULL)) &&
        adjoint == NULL &&
        symmcoll_adjoint_run(adjoint, &in, NULL, &grad) ==
            SYMMCOLL_ERR_INVALID &&
        strstr(symmcoll_last_error(), "expected an adjoint") != NULL;
    release(group, &out);
    return good &&
           OK(symmcoll_f_all_reduce(
               group, &in, SYMMCOLL_SUM, NULL, &out, &adjoint)) &&
           is_gradient(
               group, adjoint, &out, &in, (float)symmcoll_group_size(group));
}

static int broadcast_back(struct symmcoll_group *group, int rank)
{
    float mine[4];
    struct symmcoll_tensor in = SYMMCOLL_TENSOR_FLAT(mine, 4, SYMMCOLL_FLOAT32);
    struct symmcoll_tensor out = SYMMCOLL_TENSOR_INIT;
    struct symmcoll_adjoint *adjoint = NULL;

    fill(&in, (float)rank);
    return OK(symmcoll_f_broadcast(group, &in, 1, NULL, &out, &adjoint)) &&
           is_gradient(group, adjoint, &out, &in,
               rank == 1 ? (float)symmcoll_group_size(group) : 0);
}

/* ---- what they share ---- */

/* Checks that a maximum has no adjoint; forward it is like any other call. */
static int refused_when_run(struct symmcoll_group *group, int rank)
{
    float mine[4] = {1, 2, 3, 4};
    struct symmcoll_tensor in = SYMMCOLL_TENSOR_FLAT(mine, 4, SYMMCOLL_FLOAT32);
    struct symmcoll_tensor out[2] = {
        SYMMCOLL_TENSOR_INIT, SYMMCOLL_TENSOR_INIT};
    struct symmcoll_tensor grad = SYMMCOLL_TENSOR_INIT;
    struct symmcoll_adjoint *reduced = NULL, *scattered = NULL;
    uint64_t before;
    int good;

    (void)rank;
    good = OK(symmcoll_f_all_reduce(
               group, &in, SYMMCOLL_MAX, NULL, &out[0], &reduced)) &&
           OK(symmcoll_f_reduce_scatter(
               group, &in, SYMMCOLL_MAX, 0, NULL, &out[1], &scattered)) &&
           waits(group, &out[0]) && waits(group, &out[1]);
    before = symmcoll_group_sequence(group);
    good = good &&
           symmcoll_adjoint_run(reduced, &out[0], NULL, &grad) ==
               SYMMCOLL_ERR_UNSUPPORTED &&
           strstr(symmcoll_last_error(), "expected sum or avg, found max") !=
               NULL &&
           symmcoll_adjoint_run(scattered, &out[1], NULL, &grad) ==
               SYMMCOLL_ERR_UNSUPPORTED &&
           grad.data == NULL && symmcoll_group_sequence(group) == before;
    release(group, &out[0]);
    release(group, &out[1]);
    symmcoll_adjoint_free(reduced);
    symmcoll_adjoint_free(scattered);
    return good;
}

/* Passes one value for all elements, as the gradient of a sum is. */
static int takes_one_value(struct symmcoll_group *group, int rank)
{
    float mine[4] = {0}, value[1] = {(float)(rank + 1)};
    int size = symmcoll_group_size(group), good;
    struct symmcoll_tensor in =
        SYMMCOLL_TENSOR_SHAPE(mine, SYMMCOLL_FLOAT32, 2, 2);
    struct symmcoll_tensor out = SYMMCOLL_TENSOR_INIT,
                           grad = SYMMCOLL_TENSOR_INIT, given;
    struct symmcoll_adjoint *adjoint = NULL;

    good = OK(symmcoll_f_all_gather(group, &in, 1, NULL, &out, &adjoint)) &&
           waits(group, &out);
    given = out;
    given.data = value;
    given.strides[0] = given.strides[1] = 0;
    good = good && OK(symmcoll_adjoint_run(adjoint, &given, NULL, &grad)) &&
           waits(group, &grad) && is_shape(&grad, 2, 2, 2, 0) &&
           all_are(&grad, (float)(size * (size + 1)) / 2);
    release(group, &out);
    release(group, &grad);
    symmcoll_adjoint_free(adjoint);
    return good;
}

/* Passes gradients with the strides of a transposed matrix. */
static int takes_any_strides(struct symmcoll_group *group, int rank)
{
    float ones[6] = {1, 1, 1, 1, 1, 1}, back[6] = {0, 1, 2, 3, 4, 5};
    struct symmcoll_tensor in = SYMMCOLL_TENSOR_SHAPE(
        ones, SYMMCOLL_FLOAT32, 3, 2 * symmcoll_group_size(group) / 2);
    struct symmcoll_tensor out = SYMMCOLL_TENSOR_INIT,
                           grad = SYMMCOLL_TENSOR_INIT, given;
    struct symmcoll_adjoint *adjoint = NULL;
    int size = symmcoll_group_size(group), good;

    (void)rank;
    good = OK(symmcoll_f_reduce_scatter(
               group, &in, SYMMCOLL_SUM, 1, NULL, &out, &adjoint)) &&
           waits(group, &out) && is_shape(&out, 2, 3, 1, 0);
    given = out;
    given.data = back;
    given.strides[0] = 2;
    good = good && OK(symmcoll_adjoint_run(adjoint, &given, NULL, &grad)) &&
           waits(group, &grad) && is_shape(&grad, 2, 3, size, 0);
    for (int i = 0; good && i < 3 * size; i++)
        good = at(&grad, i) == (float)(i / size * 2);
    release(group, &out);
    release(group, &grad);
    symmcoll_adjoint_free(adjoint);
    return good;
}

static int lists_go_back(struct symmcoll_group *group, int rank)
{
    float mine[2][4],
        ones[2][8] = {{1, 1, 1, 1, 1, 1, 1, 1}, {2, 2, 2, 2, 2, 2, 2, 2}};
    struct symmcoll_tensor in[2] = {
        SYMMCOLL_TENSOR_FLAT(mine[0], 4, SYMMCOLL_FLOAT32),
        SYMMCOLL_TENSOR_FLAT(mine[1], 2, SYMMCOLL_FLOAT32)};
    struct symmcoll_tensor out[2] = {
        SYMMCOLL_TENSOR_INIT, SYMMCOLL_TENSOR_INIT};
    struct symmcoll_tensor grads[2],
        back[2] = {SYMMCOLL_TENSOR_INIT, SYMMCOLL_TENSOR_INIT};
    struct symmcoll_adjoint *adjoint = NULL;
    const int dims[2] = {0, 0};
    int good;

    fill(&in[0], (float)rank);
    fill(&in[1], (float)rank);
    good = OK(symmcoll_f_all_gather_coalesced(
               group, in, 2, dims, NULL, out, &adjoint)) &&
           waits(group, &out[0]) && waits(group, &out[1]);
    for (int i = 0; i < 2; i++) {
        grads[i] = out[i];
        grads[i].data = ones[i];
    }
    good = good && OK(symmcoll_adjoint_run(adjoint, grads, NULL, back)) &&
           waits(group, &back[0]) && waits(group, &back[1]) &&
           is_shape(&back[0], 1, 4, 0, 0) && is_shape(&back[1], 1, 2, 0, 0) &&
           all_are(&back[0], 2) && all_are(&back[1], 4);
    for (int i = 0; i < 2; i++) {
        release(group, &out[i]);
        release(group, &back[i]);
    }
    symmcoll_adjoint_free(adjoint);
    return good;
}

/* Uses i + 2 on each of two ranks: nothing is conjugated in either
 * direction. */
static int complex_go_back(struct symmcoll_group *group, int rank)
{
    float mine[2] = {1, (float)rank}, given[2] = {2, 1};
    struct symmcoll_tensor in =
        SYMMCOLL_TENSOR_FLAT(mine, 1, SYMMCOLL_COMPLEX64);
    struct symmcoll_tensor out = SYMMCOLL_TENSOR_INIT, grads,
                           back = SYMMCOLL_TENSOR_INIT;
    struct symmcoll_adjoint *adjoint = NULL;
    int good = OK(symmcoll_f_all_reduce(
                   group, &in, SYMMCOLL_SUM, NULL, &out, &adjoint)) &&
               waits(group, &out) && at(&out, 0) == 2 && at(&out, 1) == 1;

    grads = out;
    grads.data = given;
    good = good && OK(symmcoll_adjoint_run(adjoint, &grads, NULL, &back)) &&
           waits(group, &back) && at(&back, 0) == 4 && at(&back, 1) == 2;
    release(group, &out);
    release(group, &back);
    symmcoll_adjoint_free(adjoint);
    return good;
}

static int gradients_are_checked(struct symmcoll_group *group, int rank)
{
    float mine[4] = {0};
    struct symmcoll_tensor in = SYMMCOLL_TENSOR_FLAT(mine, 4, SYMMCOLL_FLOAT32);
    struct symmcoll_tensor out = SYMMCOLL_TENSOR_INIT,
                           back = SYMMCOLL_TENSOR_INIT;
    struct symmcoll_adjoint *adjoint = NULL;
    int good = OK(symmcoll_f_all_gather(group, &in, 0, NULL, &out, &adjoint)) &&
               waits(group, &out);

    (void)rank;
    good =
        good &&
        symmcoll_adjoint_run(adjoint, &in, NULL, &back) ==
            SYMMCOLL_ERR_INVALID &&
        strstr(symmcoll_last_error(), "gradient 0: expected the shape") != NULL;
    out.dtype = SYMMCOLL_INT32;
    good = good && symmcoll_adjoint_run(adjoint, &out, NULL, &back) ==
                       SYMMCOLL_ERR_INVALID;
    release(group, &out);
    symmcoll_adjoint_free(adjoint);
    return good;
}

static void run_all(int (*run)(int n, rank_fn body), const char *kind)
{
    ok(run(2, gather_back),
        "%s: of all_gather it is the sum over the ranks (F21)", kind);
    ok(run(2, scatter_back), "%s: of reduce_scatter it is gathered (F22)",
        kind);
    ok(run(2, reduce_back),
        "%s: of all_reduce it is the sum, and without a token there is none "
        "(F23 F24)",
        kind);
    ok(run(3, broadcast_back), "%s: of broadcast it is the root's (F27)", kind);
    ok(run(4, averages_back), "%s: averages divide it (F29)", kind);
    ok(run(2, refused_when_run),
        "%s: other operations are refused when it is run (F22 F24)", kind);
    ok(run(2, takes_any_strides), "%s: gradients may have any strides (F30)",
        kind);
    ok(run(2, takes_one_value), "%s: and may be one value for all (F30)", kind);
    ok(run(2, lists_go_back), "%s: lists go back together (F25)", kind);
    ok(run(2, complex_go_back), "%s: complex ones are not conjugated (F31)",
        kind);
    ok(run(2, gradients_are_checked),
        "%s: gradients of another shape or type are refused", kind);
}

int main(void)
{
    plan(22);
    run_all(ranks_run, "processes");
    run_all(threads_run, "threads");
    return done_testing();
}
