/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A small model for tests of the gradient reducer, with ranks that are
 * processes or threads. Gradients are small integers times the number of ranks
 * where they are divided, so that every average is exact.
 */
#ifndef T_DDP_MODEL_H
#define T_DDP_MODEL_H

#include "../ranks.h"
#include "../tap.h"

#include <symmcoll.h>

#define MODEL_PARAMS 4

/* The operations that rebuild the buckets: a broadcast, with an exchange of
 * failures before and after it. */
#define MODEL_REBUILD 3

extern const char *const model_names[MODEL_PARAMS];

/* The parameters and gradients of one rank. */
struct model {
    float values[MODEL_PARAMS][32];
    float grads[MODEL_PARAMS][32];
    struct symmcoll_tensor params[MODEL_PARAMS];
};

/* Return tensors of two dimensions, in row-major order, and of one. */
struct symmcoll_tensor model_matrix(
    void *data, enum symmcoll_dtype dtype, int64_t rows, int64_t columns);
struct symmcoll_tensor model_vector(
    void *data, enum symmcoll_dtype dtype, int64_t count);

void model_make(struct model *model, int rank);

/* Returns the number of elements of a tensor. */
size_t model_count(const struct symmcoll_tensor *tensor);

/* Returns well mixed bits of a number (splitmix64). */
uint64_t model_mix(uint64_t value);

/* Returns an element of rank r's gradient in one step, times the size. */
float model_term(int rank, int param, int i, int step);

void model_fill(struct model *model, int rank, int size, int step);

/* Checks an element of a gradient's view; prints it if it differs. */
int model_view_is(
    struct symmcoll_reducer *reducer, int param, int i, float expected);

/* Checks that all views hold the sums over ranks of the terms of steps first
 * to last, which is the average of the gradients. */
int model_views_hold(struct symmcoll_reducer *reducer,
    const struct model *model, int size, int first, int last);

/* Runs one backward, the last parameter first. */
symmcoll_status_t model_run_backward(
    struct symmcoll_reducer *reducer, struct model *model, int sync);

/* Checks that the last error contains a text; prints the error if not. */
int model_error_says(const char *text);

/* Returns arguments with this bucket_cap and the model's names. */
struct symmcoll_reducer_args model_args(size_t cap);

/* Creates a model and its reducer; NULL: failed. */
struct symmcoll_reducer *model_begin(
    struct symmcoll_group *group, int rank, struct model *model, size_t cap);

struct model_point {
    rank_fn body;
    int ranks;
    const char *sentence;
};

/* Runs two points for each body, with processes and with threads. Returns the
 * value of main(). */
int model_run_points(const struct model_point *points, size_t npoints);

#endif
