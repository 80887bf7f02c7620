/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Random tensors for the tests of fused operations, with elements that every
 * rank can compute for all ranks, and their products in double precision.
 */
#ifndef T_FUSED_MADE_H
#define T_FUSED_MADE_H

#include "t/ranks.h"
#include "t/tap.h"

#include <symmcoll.h>

#include "group/group.h"

#define OK(call) made_succeeds((call), #call)

int made_succeeds(symmcoll_status_t status, const char *call);

/* Checks that a call has failed with a status and with a text in its detail. */
int made_says(
    symmcoll_status_t status, symmcoll_status_t wanted, const char *detail);

/* Returns the element at an index, in row-major order, of a rank's tensor:
 * from -1 to 1, rounded to the type. */
double made_value(enum symmcoll_dtype dtype, int seed, int rank, int64_t index);

/* The order of a tensor's dimensions in memory. */
enum made_order {
    MADE_CONTIGUOUS,
    MADE_FIRST,    /* one dimension first */
    MADE_REVERSED, /* the first one is contiguous */
    MADE_SPREAD    /* contiguous, with a gap after each row */
};

/* Returns a tensor of a shape with a rank's values, in new memory: free(data).
 * dim is for MADE_FIRST. */
struct symmcoll_tensor made_tensor(enum symmcoll_dtype dtype, int ndim,
    const int64_t *shape, enum made_order order, int dim, int seed, int rank);

/* Returns an element by its index in row-major order. */
double made_at(const struct symmcoll_tensor *tensor, int64_t index);

int64_t made_count(const struct symmcoll_tensor *tensor);

/* Returns the offset of an element, in elements. */
int64_t made_offset(const struct symmcoll_tensor *tensor, int64_t index);

/* Returns the rank with the shard that contains an element of the gathered
 * tensor, and (local) the element's index there. shape is that of a shard. */
int made_shard_of(int ndim, const int64_t *shape, int size, int dim,
    int64_t index, int64_t *local);

/* The types and shapes of a product, and the dimension of the gather or
 * scatter. */
struct made_case {
    enum symmcoll_dtype dtype;
    int ndim;
    int64_t shape[4];
    int dim;
    enum made_order order, b_order;
};

/* Runs one case; the iteration stops when it returns 0. */
typedef int (*made_case_fn)(
    struct symmcoll_group *group, int rank, const struct made_case *given);

/* Run a body with every dimension of tensors of 2 to 4 dimensions, for every
 * type that is multiplied unscaled; and with every order of both operands
 * along every dimension of three. */
int made_each_dimension(
    struct symmcoll_group *group, int rank, made_case_fn body);
int made_each_order(struct symmcoll_group *group, int rank, made_case_fn body);

/* A sum of products, and the sum of their absolute values. */
struct made_sum {
    double value, magnitude;
    int64_t terms;
    double inexact; /* relative error of each term, in addition to that of
                     * sums */
};

/* Returns whether an element is as close to a sum as one that is added in
 * float32 (or float64) and then rounded to the type:
 *
 *     |found - sum| <= s + v (|sum| + s) + w
 *     s = ((terms + 1) u + inexact) magnitude
 *
 * where u is the rounding error of sums, v that of the type if it is another
 * one, and w half of the type's least number. */
int made_is_near(enum symmcoll_dtype dtype, double found, struct made_sum sum);

/* Checks the shape of a tensor, and that it is contiguous with dimension
 * `first` first. */
int made_is_shaped(const struct symmcoll_tensor *tensor, int ndim,
    const int64_t *shape, int first);

#endif
