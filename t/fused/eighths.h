/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Fused products of 8-bit floats, in host or device memory: operands with
 * every kind of scales, and the results in double precision.
 */
#ifndef T_FUSED_EIGHTHS_H
#define T_FUSED_EIGHTHS_H

#include "t/fused/made.h"

#define EIGHTHS_MATRICES 3

enum eighths_mode {
    ONE_SCALE,
    ROWS,
    ALL_ROWS
};

struct eighths {
    enum symmcoll_dtype a_dtype, b_dtype;
    int ndim;
    int64_t shape[4]; /* of a shard; for a scatter of this rank's part */
    int dim;
    enum made_order order;
    enum eighths_mode mode;
    int kind; /* bits: scales of columns, bias, factor of results */
    int n;
    symmcoll_op_t op;
    int64_t columns, step; /* of the scattered product; of checks; 0: few,
                            * all */

    /* As devices require: lengths of lines are multiples of 16, and there are
     * no biases, factors or results of 8 bits. Matrices are by columns, or in
     * `order`. */
    bool of_devices, b_in_order;
    bool no_a;
    int shift;        /* bytes from an aligned address to the operands */
    int repeated;     /* see eighths_on_device.h, and then: */
    bool over_scales; /* A is gathered into the memory of the scales; one
                       * matrix */
    double inexact;   /* see struct made_sum */
};

/* The i-th matrix of a call, with its scales and bias. */
struct eighths_matrix {
    struct symmcoll_tensor b, columns, bias, result;
    struct symmcoll_scaled_matrix scaled;
    int64_t width;
};

void eighths_free(struct eighths_matrix *made);

/* Create the shard, scales and matrices that a rank gathers and multiplies.
 * The caller frees the data and the matrices. */
void eighths_gathered(const struct eighths *test, int size, int rank,
    struct symmcoll_tensor *shard, struct symmcoll_tensor *scale,
    struct eighths_matrix matrices[EIGHTHS_MATRICES]);

/* Checks A (NULL: not requested) and all results. */
int eighths_are_gathered(const struct eighths *test, int size, int rank,
    const struct eighths_matrix *matrices, const struct symmcoll_tensor *a,
    const struct symmcoll_tensor *outs);

/* Creates the tensors that a rank multiplies and scatters. */
void eighths_scattered(const struct eighths *test, int size, int rank,
    struct symmcoll_tensor *a, struct symmcoll_tensor *scale,
    struct eighths_matrix *matrix);

/* Checks the rank's part of the result. */
int eighths_are_scattered(const struct eighths *test, int size, int rank,
    const struct eighths_matrix *matrix, const struct symmcoll_tensor *out);

/* Prints a failing case. */
void eighths_say(const struct eighths *test, int rank);

#endif
