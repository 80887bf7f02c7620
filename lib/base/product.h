/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Products of matrices in device memory: their shapes, as shared by callers and
 * the backend that multiplies.
 */
#ifndef SYMC_BASE_PRODUCT_H
#define SYMC_BASE_PRODUCT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <symmcoll/types.h>

/* The shape of a matrix.  Element (i, j) is i * distance + j elements from the
 * first one; by_columns: i + j * distance. */
struct symc_product_matrix {
    enum symmcoll_dtype dtype;
    int64_t rows, cols; /* 1 or more */
    int64_t distance;
    bool by_columns;
    uint32_t alignment; /* see symc_product_alignment() */
};

#define SYMC_PRODUCT_ALIGNMENT 256 /* bytes, at most */

/* Returns the largest power of two, up to SYMC_PRODUCT_ALIGNMENT, that divides
 * both an address and the step from it to further ones. */
static inline uint32_t symc_product_alignment(const void *at, int64_t step)
{
    uintptr_t bits = (uintptr_t)at | (uintptr_t)step | SYMC_PRODUCT_ALIGNMENT;

    return (uint32_t)(bits & (~bits + 1));
}

/*
 * c = a @ b / divisor, plus a matrix if `add` is set.  a and b have the same
 * type, or are both 8-bit floats.  c is by rows and has the type of a, or
 * float32, or for 8-bit floats also float16 or bfloat16.  Sums are float32 or
 * float64.
 */
struct symc_product {
    struct symc_product_matrix a, b, c;
    bool add;
    int divisor; /* 0: no division */
    bool tf32;   /* float32: elements may be rounded to 10 bits */
    bool outer;  /* 8-bit floats: one scale per row of a and per column of b;
                    otherwise one per matrix */
    bool fast;   /* 8-bit floats: sums may have fewer bits */
    bool scaled; /* 8-bit floats: there are scales; set if `outer` is */
    int sms;     /* multiprocessors to use; 0: all */
    size_t workspace; /* bytes that may be used */
};

/* The operands of a product, in device memory. */
struct symc_product_operands {
    const void *a, *b;
    void *c;
    const void *added; /* with `add`: a matrix with c's shape, or NULL: c's
                          content */
    /* With `scaled`; 16-byte aligned with `outer`. */
    const float *a_scale, *b_scale;
    void *workspace; /* not used by another stream at that time */
};

#endif
