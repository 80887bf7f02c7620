/* SPDX-License-Identifier: BSD-3-Clause */
#include "t/fused/gathered.h"

#include <string.h>

struct symmcoll_tensor gathered_shard(const struct gathered *test, int rank)
{
    return made_tensor(test->dtype, test->ndim, test->shape, test->order,
        test->dim, GATHERED_A, rank);
}

void gathered_matrices(const struct gathered *test, int rank, int size,
    struct symmcoll_tensor bs[GATHERED_MATRICES])
{
    static const int64_t columns[GATHERED_MATRICES] = {5, 1, 16};
    bool last = test->dim == test->ndim - 1;

    for (int i = 0; i < test->n; i++) {
        int64_t shape[2] = {
            test->shape[test->ndim - 1] * (last ? size : 1), columns[i]};

        bs[i] = made_tensor(
            test->dtype, 2, shape, test->b_order, 0, GATHERED_B + i, rank);
    }
}

/* Returns the element of A at an index in the shape of a. */
static double whole_at(
    const struct gathered *test, const struct symmcoll_tensor *a, int64_t index)
{
    int64_t local;
    int size = (int)(a->shape[test->dim] / test->shape[test->dim]);
    int rank =
        made_shard_of(test->ndim, test->shape, size, test->dim, index, &local);

    return made_value(test->dtype, GATHERED_A, rank, local);
}

static int a_is_right(
    const struct gathered *test, const struct symmcoll_tensor *a)
{
    for (int64_t i = 0; i < made_count(a); i++) {
        if (made_at(a, i) != whole_at(test, a, i)) {
            diag("a: element %lld: expected %g, found %g", (long long)i,
                whole_at(test, a, i), made_at(a, i));
            return 0;
        }
    }
    return 1;
}

/* Checks a product. whole: has A's shape; its data is not read. */
static int product_is_right(const struct gathered *test,
    const struct symmcoll_tensor *whole, const struct symmcoll_tensor *b,
    const struct symmcoll_tensor *out)
{
    int64_t depth = b->shape[0], columns = b->shape[1];

    for (int64_t i = 0; i < made_count(out); i++) {
        struct made_sum sum = {.terms = depth, .inexact = test->inexact};

        for (int64_t k = 0; k < depth; k++) {
            double term = whole_at(test, whole, i / columns * depth + k) *
                          made_at(b, k * columns + i % columns);

            sum.value += term;
            sum.magnitude += term < 0 ? -term : term;
        }
        if (!made_is_near(test->dtype, made_at(out, i), sum))
            return 0;
    }
    return 1;
}

int gathered_are_right(const struct gathered *test, int size,
    const struct symmcoll_tensor *bs, const struct symmcoll_tensor *a,
    const struct symmcoll_tensor *outs)
{
    bool last = test->dim == test->ndim - 1;
    struct symmcoll_tensor whole = SYMMCOLL_TENSOR_INIT;
    int good = 1;

    whole.ndim = test->ndim;
    memcpy(whole.shape, test->shape, sizeof(test->shape));
    whole.shape[test->dim] *= size;
    if (!test->no_a)
        good =
            made_is_shaped(a, test->ndim, whole.shape, last ? 0 : test->dim) &&
            a_is_right(test, a);
    for (int i = 0; i < test->n && good; i++) {
        int64_t shape[4];

        memcpy(shape, whole.shape, sizeof(shape));
        shape[test->ndim - 1] = bs[i].shape[1];
        good =
            made_is_shaped(&outs[i], test->ndim, shape, last ? 0 : test->dim) &&
            product_is_right(test, &whole, &bs[i], &outs[i]);
    }
    return good;
}
