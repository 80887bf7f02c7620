/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Products of matrices in the memory of a device: their shapes, as who asks for
 * one and the backend that multiplies both have them.
 */
#ifndef SYMC_BASE_PRODUCT_H
#define SYMC_BASE_PRODUCT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <symmcoll/types.h>

/* The shape of a matrix: element (i, j) is i * distance + j elements from the
 * first one, by_columns: i + j * distance. */
struct symc_product_matrix {
    enum symmcoll_dtype dtype;
    int64_t rows, cols; /* 1 or more */
    int64_t distance;
    bool by_columns;
    uint32_t alignment; /* see symc_product_alignment() */
};

#define SYMC_PRODUCT_ALIGNMENT 256 /* bytes, at most */

/* Bytes of which both an address and a step to further ones are multiples: a
 * power of two. */
static inline uint32_t symc_product_alignment(const void *at, int64_t step)
{
    uintptr_t bits = (uintptr_t)at | (uintptr_t)step | SYMC_PRODUCT_ALIGNMENT;

    return (uint32_t)(bits & (~bits + 1));
}

/*
 * c = a @ b / divisor, with `add` and what is added to it.  a and b are of one type,
 * or of 8-bit floats; c is by rows, of the type of a, of float32, or of 8-bit floats
 * also of float16 or bfloat16.  Sums are of float32, or float64.
 */
struct symc_product {
    struct symc_product_matrix a, b, c;
    bool add;
    int divisor; /* 0: 1 */
    bool tf32;   /* of float32: elements may be rounded to 10 bits */
    bool outer;  /* of 8-bit floats: a scale for each row of a, and for each
                         column of b; else one for each matrix */
    bool fast;   /* of 8-bit floats: sums may be of fewer bits */
    bool scaled; /* of 8-bit floats: there are scales; so also with `outer` */
    int sms;     /* multiprocessors that it is to use; 0: all */
    size_t workspace; /* bytes that it may use */
};

/* What is multiplied, in memory of the device. */
struct symc_product_operands {
    const void *a, *b;
    void *c;
    const void *added; /* with `add`, a matrix as c is; or NULL: what is in c */
    /* Of `scaled` products; with `outer` aligned to 16 bytes. */
    const float *a_scale, *b_scale;
    void *workspace; /* of no other stream at that time */
};

#endif
