/* SPDX-License-Identifier: BSD-3-Clause */
#include "t/fused/scattered.h"

#include <string.h>

void scattered_operands(struct scattered *test, int rank, int size,
    struct symmcoll_tensor *a, struct symmcoll_tensor *b)
{
    int64_t b_shape[2];

    test->depth = test->shape[test->ndim - 1];
    b_shape[0] = test->depth;
    b_shape[1] = test->columns * (test->dim == test->ndim - 1 ? size : 1);
    if (test->dim < test->ndim - 1)
        test->shape[test->dim] *= size;
    *a = made_tensor(test->dtype, test->ndim, test->shape, test->order,
        test->dim, SCATTERED_A, rank);
    *b = made_tensor(
        test->dtype, 2, b_shape, test->b_order, 0, SCATTERED_B, rank);
}

/* Returns the sum over all ranks for an element of the whole product. */
static struct made_sum sum_of(const struct scattered *test, int size,
    int64_t row, int64_t column, int64_t columns)
{
    double factor = test->op == SYMMCOLL_AVG ? 1.0 / size : 1;
    struct made_sum sum = {
        .terms = test->depth + size + 1, .inexact = test->inexact};

    for (int r = 0; r < size; r++) {
        for (int64_t k = 0; k < test->depth; k++) {
            double term =
                factor *
                made_value(test->dtype, SCATTERED_A, r, row * test->depth + k) *
                made_value(test->dtype, SCATTERED_B, r, k * columns + column);

            sum.value += term;
            sum.magnitude += term < 0 ? -term : term;
        }
    }
    return sum;
}

int scattered_is_right(const struct scattered *test, int size, int rank,
    const struct symmcoll_tensor *a, const struct symmcoll_tensor *b,
    const struct symmcoll_tensor *out)
{
    int64_t shape[4], step = test->step > 0 ? test->step : 1;

    memcpy(shape, a->shape, sizeof(shape));
    shape[a->ndim - 1] = b->shape[1];
    shape[test->dim] /= size;
    if (!made_is_shaped(out, a->ndim, shape, 0))
        return 0;
    for (int64_t i = 0; i < made_count(out); i += step) {
        int64_t at[4] = {0}, left = i, row = 0;

        for (int d = out->ndim - 1; d >= 0; d--) {
            at[d] = left % shape[d];
            left /= shape[d];
        }
        at[test->dim] += rank * shape[test->dim];
        for (int d = 0; d < a->ndim - 1; d++)
            row = row * a->shape[d] + at[d];
        if (!made_is_near(test->dtype, made_at(out, i),
                sum_of(test, size, row, at[a->ndim - 1], b->shape[1])))
            return 0;
    }
    return 1;
}
