/* SPDX-License-Identifier: BSD-3-Clause */
/* Tests functional gather and scatter, and their adjoints. */
#include "t/functional/made.h"

#include <stdint.h>
#include <string.h>

#define MOST 64

/* Returns element (i, j) of the whole tensor, which has `columns` columns; a
 * rank's part has other elements. */
static float element(int64_t columns, int64_t i, int64_t j)
{
    return (float)(1 + i * columns + j);
}

/* Returns the whole tensor: 2 * size x 3 or 2 x 3 * size. */
static struct symmcoll_tensor make_whole(float *values, int size, int dim)
{
    struct symmcoll_tensor made = SYMMCOLL_TENSOR_SHAPE(values,
        SYMMCOLL_FLOAT32, dim == 0 ? 2 * size : 2, dim == 0 ? 3 : 3 * size);

    for (int64_t i = 0; values != NULL && i < count_of(&made); i++)
        values[i] = element(made.shape[1], 0, i);
    return made;
}

static int is_whole(const struct symmcoll_tensor *tensor, int size, int dim)
{
    struct symmcoll_tensor whole = make_whole(NULL, size, dim);

    if (!is_shape(tensor, 2, whole.shape[0], whole.shape[1], 0))
        return 0;
    for (int64_t i = 0; i < count_of(tensor); i++) {
        if (at(tensor, i) != element(whole.shape[1], 0, i))
            return 0;
    }
    return 1;
}

/* Returns a rank's part of it, 2 x 3. */
static struct symmcoll_tensor make_part(
    float *values, int size, int dim, int rank)
{
    struct symmcoll_tensor whole = make_whole(NULL, size, dim);
    struct symmcoll_tensor made =
        SYMMCOLL_TENSOR_SHAPE(values, SYMMCOLL_FLOAT32, 2, 3);

    for (int i = 0; i < 6; i++)
        values[i] = element(whole.shape[1], i / 3 + (dim == 0 ? 2 * rank : 0),
            i % 3 + (dim ? 3 * rank : 0));
    return made;
}

static int is_part(
    const struct symmcoll_tensor *tensor, int size, int dim, int rank)
{
    float expected[6];

    make_part(expected, size, dim, rank);
    return is_shape(tensor, 2, 2, 3, 0) &&
           memcmp(tensor->data, expected, sizeof(expected)) == 0;
}

/* Checks the result of a rank that is not the root: a part of length 0. */
static int is_empty(const struct symmcoll_tensor *tensor, int dim)
{
    return tensor->ndim == 2 && tensor->shape[dim] == 0 &&
           tensor->shape[1 - dim] == (dim == 0 ? 3 : 2);
}

/* Copies the elements column by column. */
static struct symmcoll_tensor turn(
    const struct symmcoll_tensor *tensor, float *values)
{
    struct symmcoll_tensor made = *tensor;

    made.data = values;
    made.strides[0] = 1;
    made.strides[1] = made.shape[0];
    for (int64_t i = 0; i < count_of(tensor); i++)
        values[i / made.shape[1] + i % made.shape[1] * made.shape[0]] =
            at(tensor, i);
    return made;
}

/* ---- one call and its gradient ---- */

static int scatters_along(
    struct symmcoll_group *group, int rank, int dim, int root)
{
    float values[MOST], turned[MOST];
    int size = symmcoll_group_size(group), good;
    struct symmcoll_tensor in =
        make_whole(rank == root ? values : NULL, size, dim);
    struct symmcoll_tensor out = SYMMCOLL_TENSOR_INIT, back = out, grad;
    struct symmcoll_adjoint *adjoint = NULL;
    uint64_t before = symmcoll_group_sequence(group);

    good =
        OK(symmcoll_f_scatter(group, &in, dim, root, NULL, &out, &adjoint)) &&
        waits(group, &out) && is_part(&out, size, dim, rank) &&
        symmcoll_group_sequence(group) == before + 1;
    if (good && rank != (root + 1) % size) /* gradients in any order */
        grad = turn(&out, turned);
    else
        grad = out;
    good = good && OK(symmcoll_adjoint_run(adjoint, &grad, NULL, &back)) &&
           waits(group, &back) &&
           (rank == root ? is_whole(&back, size, dim)
                         : is_shape(&back, 2, in.shape[0], in.shape[1], 0) &&
                               all_are(&back, 0));
    release(group, &out);
    release(group, &back);
    symmcoll_adjoint_free(adjoint);
    return good;
}

static int gathers_along(
    struct symmcoll_group *group, int rank, int dim, int root)
{
    float values[6], turned[MOST];
    int size = symmcoll_group_size(group), good;
    struct symmcoll_tensor in = make_part(values, size, dim, rank);
    struct symmcoll_tensor out = SYMMCOLL_TENSOR_INIT, back = out, grad;
    struct symmcoll_adjoint *adjoint = NULL;
    uint64_t before = symmcoll_group_sequence(group);

    good = OK(symmcoll_f_gather(group, &in, dim, root, NULL, &out, &adjoint)) &&
           waits(group, &out) && symmcoll_group_sequence(group) == before + 1 &&
           (rank == root ? is_whole(&out, size, dim) : is_empty(&out, dim));
    grad = good && dim == 1 ? turn(&out, turned) : out;
    good = good && OK(symmcoll_adjoint_run(adjoint, &grad, NULL, &back)) &&
           waits(group, &back) && is_part(&back, size, dim, rank);
    release(group, &out);
    release(group, &back);
    symmcoll_adjoint_free(adjoint);
    return good;
}

static int scatters(struct symmcoll_group *group, int rank)
{
    int size = symmcoll_group_size(group);

    return scatters_along(group, rank, 0, 0) &&
           scatters_along(group, rank, 1, 0) &&
           scatters_along(group, rank, 0, size - 1) &&
           scatters_along(group, rank, 1, size - 1);
}

static int gathers(struct symmcoll_group *group, int rank)
{
    int size = symmcoll_group_size(group);

    return gathers_along(group, rank, 0, 0) &&
           gathers_along(group, rank, 1, 0) &&
           gathers_along(group, rank, 0, size - 1) &&
           gathers_along(group, rank, 1, size - 1);
}

/* ---- other properties ---- */

/* Checks a broadcast from the only rank with data; every rank has a part of
 * the gradient. */
static int broadcasts_without_data(struct symmcoll_group *group, int rank)
{
    float mine[4] = {1, 1, 1, 1};
    struct symmcoll_tensor in =
        SYMMCOLL_TENSOR_SHAPE(rank == 1 ? mine : NULL, SYMMCOLL_FLOAT32, 2, 2);
    struct symmcoll_tensor out = SYMMCOLL_TENSOR_INIT, back = out, grad;
    struct symmcoll_adjoint *adjoint = NULL;
    int good = OK(symmcoll_f_broadcast(group, &in, 1, NULL, &out, &adjoint)) &&
               waits(group, &out) && all_are(&out, 1);

    grad = out;
    grad.data = NULL;
    grad.strides[0] = 1;
    grad.strides[1] = 2;
    good = good &&
           symmcoll_adjoint_run(adjoint, &grad, NULL, &back) ==
               SYMMCOLL_ERR_INVALID &&
           strstr(symmcoll_last_error(), "expected data of 4 elements") != NULL;
    release(group, &out);
    symmcoll_adjoint_free(adjoint);
    return good;
}

/* Uses memory of the caller, and tensors without memory. */
static int into_places(struct symmcoll_group *group, int rank)
{
    float values[MOST], part[6], place[MOST];
    int size = symmcoll_group_size(group), good;
    struct symmcoll_tensor whole = make_whole(values, size, 0), out;
    struct symmcoll_tensor in = make_part(part, size, 0, rank), shape;

    out = make_part(place, size, 0, 0);
    memset(place, 0, sizeof(place));
    good = OK(symmcoll_f_scatter(group, &whole, 0, 0, NULL, &out, NULL)) &&
           out.data == place && waits(group, &out) &&
           is_part(&out, size, 0, rank);
    shape = whole;
    shape.device = SYMMCOLL_META;
    shape.data = NULL;
    out = (struct symmcoll_tensor)SYMMCOLL_TENSOR_INIT;
    good = good &&
           OK(symmcoll_f_scatter(group, &shape, 0, 0, NULL, &out, NULL)) &&
           out.device == SYMMCOLL_META && is_shape(&out, 2, 2, 3, 0);
    shape = in;
    shape.device = SYMMCOLL_META;
    shape.data = NULL;
    out = (struct symmcoll_tensor)SYMMCOLL_TENSOR_INIT;
    return good &&
           OK(symmcoll_f_gather(group, &shape, 1, 0, NULL, &out, NULL)) &&
           (rank == 0 ? is_shape(&out, 2, 2, 3 * size, 0) : is_empty(&out, 1));
}

static int says(symmcoll_status_t status, const char *detail)
{
    if (status == SYMMCOLL_ERR_INVALID &&
        strstr(symmcoll_last_error(), detail) != NULL)
        return 1;
    diag("expected '%s', found %s: %s", detail, symmcoll_status_name(status),
        symmcoll_last_error());
    return 0;
}

static int refuses(struct symmcoll_group *group, int rank)
{
    float values[MOST];
    struct symmcoll_tensor in = make_whole(values, 2, 0), none, turned;
    struct symmcoll_tensor out = SYMMCOLL_TENSOR_INIT;
    uint64_t before = symmcoll_group_sequence(group);

    none = make_whole(NULL, 2, 0);
    turned = in;
    turned.strides[0] = 1;
    turned.strides[1] = 4;
    return says(symmcoll_f_scatter(group, &in, 1, 0, NULL, &out, NULL),
               "f_scatter: expected dimension 1 to be a multiple of 2 ranks") &&
           says(symmcoll_f_scatter(group, &in, 0, 2, NULL, &out, NULL),
               "f_scatter: expected a root of 0 to 1, found 2") &&
           says(symmcoll_f_gather(group, &in, 0, -1, NULL, &out, NULL),
               "f_gather: expected a root of 0 to 1, found -1") &&
           says(symmcoll_f_gather(group, &in, 2, 0, NULL, &out, NULL),
               "f_gather: expected a dimension of 0 to 1, found 2") &&
           says(symmcoll_f_gather(group, &turned, 0, 0, NULL, &out, NULL),
               "expected a contiguous tensor") &&
           says(symmcoll_f_gather(group, &none, 0, 0, NULL, &out, NULL),
               "expected data of 12 elements, found NULL") &&
           says(symmcoll_f_scatter(group, &none, 0, rank, NULL, &out, NULL),
               "expected data of 12 elements, found NULL") &&
           says(symmcoll_f_scatter(NULL, &in, 0, 0, NULL, &out, NULL),
               "expected a group") &&
           out.data == NULL && symmcoll_group_sequence(group) == before;
}

static void run_all(int (*run)(int n, rank_fn body), const char *kind)
{
    ok(run(3, gathers) && run(1, gathers),
        "%s: gather joins at the root, and goes back by scatter (F28 C17)",
        kind);
    ok(run(3, scatters) && run(1, scatters),
        "%s: scatter cuts what the root has, and goes back by gather (F28 C18)",
        kind);
    ok(run(2, broadcasts_without_data),
        "%s: only the root of a broadcast needs data (F3)", kind);
    ok(run(2, into_places),
        "%s: results go to memory of the caller, and shapes need none (F8 F40)",
        kind);
    ok(run(2, refuses), "%s: wrong roots, dimensions and tensors are refused",
        kind);
}

int main(void)
{
    plan(10);
    run_all(ranks_run, "processes");
    run_all(threads_run, "threads");
    return done_testing();
}
