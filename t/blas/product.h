/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Checks one product on a device against float64: its elements are close, and
 * no byte beside them changes.
 *
 * The bound of an element is that of a sum of K products in float32, in any
 * order, rounded once to the type of the result: (K + 1) 2^-23 sum |a b| +
 * rounding (|sum|); with TF32, for elements that were rounded to 10 bits
 * before, 2^-10 sum |a b| more; for 8-bit floats, the sums of which devices
 * compute in 14 bits, (K + 1) 2^-13 sum |a b| more.
 */
#ifndef T_BLAS_PRODUCT_H
#define T_BLAS_PRODUCT_H

#include "cuda/cublaslt/cublaslt_matmul.h"

struct product_matrix {
    struct symc_product_matrix shape;
    char *host, *device;
    size_t nbytes;
};

/* Returns element (i, j) of a matrix created with a seed: exact in every
 * type. */
double product_value(int seed, int64_t i, int64_t j);
/* Returns the offset of an element in bytes. */
size_t product_place(
    const struct symc_product_matrix *shape, int64_t i, int64_t j);
/* Creates a matrix on the device, and a copy; room: elements between two
 * lines. */
struct product_matrix product_make(enum symmcoll_dtype dtype, int64_t rows,
    int64_t cols, bool by_columns, int64_t room, int seed);
void product_drop(struct product_matrix *it);

/* The operands of a product: m x k by k x n. */
struct product_given {
    enum symmcoll_dtype dtype, out;
    int64_t m, n, k;
    bool a_columns, b_columns;
    int64_t room;
    bool add, tf32, outer, scaled;
    bool apart; /* what is added is another matrix than the result */
    int divisor;
};

/* A workspace. */
struct product_room {
    void *at;
    size_t nbytes;
};

/* The handle and the stream of a product. */
struct product_on {
    const struct symc_lt *lt;
    struct CUstream_st *stream;
};

/* Checks that c is the product of matrices with seeds 1 and 2, or the sum of
 * it and the previous contents, of c or of a separate matrix. */
bool product_is_right(const struct product_given *given,
    const struct product_matrix *c, const char *before);

/* Runs a product and checks it. False also if it could not be started: the
 * cause is in symmcoll_last_error(), and nothing has been multiplied. */
bool product_run(const struct product_on *on, const struct product_given *given,
    const struct product_room *workspace);

#endif
