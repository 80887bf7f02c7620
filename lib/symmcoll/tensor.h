/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Memory with an element type and a shape, as the reducer and the functional
 * calls take it; collectives take a pointer and a count.
 * Manual: symmcoll_tensor(3).
 */
#ifndef SYMMCOLL_TENSOR_H
#define SYMMCOLL_TENSOR_H

#include <symmcoll/types.h>

SYMMCOLL_BEGIN_DECLS

#define SYMMCOLL_MAX_DIMS 8

enum symmcoll_device {
    SYMMCOLL_HOST = 0,
    SYMMCOLL_CUDA = 1,
    SYMMCOLL_META = 2 /* a shape without memory, for functional calls */
};

/*
 * Element (i, j, ...) is at data + (i * strides[0] + j * strides[1] + ...)
 * elements: strides count elements, not bytes.  Entries of shape and strides
 * from ndim on are not read.  In an array, all tensors have the size of the
 * first one, which is the distance in bytes from one to the next.
 */
struct symmcoll_tensor {
    size_t size;                        /* sizeof(struct symmcoll_tensor) */
    void *data;                         /* the first element; borrowed */
    enum symmcoll_dtype dtype;          /* of all elements */
    enum symmcoll_device device;        /* the memory that data is in */
    int device_index;                   /* of its kind; 0 for the host */
    int ndim;                           /* 0 (one element) to MAX_DIMS */
    int64_t shape[SYMMCOLL_MAX_DIMS];   /* elements along each dimension */
    int64_t strides[SYMMCOLL_MAX_DIMS]; /* elements to the next index */
};

/*
 * Initialisers, in C and C++.  Arguments may be of any integer type, and are
 * evaluated more than once.
 *
 * SYMMCOLL_TENSOR_INIT                        one element, without memory
 * SYMMCOLL_TENSOR_FLAT(pointer, count, dtype) one dimension, contiguous
 * SYMMCOLL_TENSOR_SHAPE(pointer, dtype, ...)  1 to 8 lengths, row-major
 */
#define SYMMCOLL_TENSOR_INIT                                                 \
    {                                                                        \
        sizeof(struct symmcoll_tensor), NULL, SYMMCOLL_UINT8, SYMMCOLL_HOST, \
            0, 0, {0},                                                       \
        {                                                                    \
            0                                                                \
        }                                                                    \
    }
#define SYMMCOLL_TENSOR_FLAT(pointer, count, dtype) \
    SYMMCOLL_TENSOR_SHAPE(pointer, dtype, count)
#define SYMMCOLL_TENSOR_SHAPE(pointer, dtype, ...)                            \
    SYMMCOLL_TENSOR_8_(pointer, dtype,                                        \
        SYMMCOLL_NINTH_(__VA_ARGS__, 8, 7, 6, 5, 4, 3, 2, 1, 0), __VA_ARGS__, \
        1, 1, 1, 1, 1, 1, 1, 0)

/* For the initialisers only.  Missing lengths are filled up with ones, which do
 * not change a product. */
#define SYMMCOLL_NINTH_(a, b, c, d, e, f, g, h, i, ...) i
#define SYMMCOLL_DIM_(n) ((int64_t)(n))
#define SYMMCOLL_DIMS_(a, b, c, d) \
    SYMMCOLL_DIM_(a) * SYMMCOLL_DIM_(b) * SYMMCOLL_DIM_(c) * SYMMCOLL_DIM_(d)
#define SYMMCOLL_TENSOR_8_(pointer, dtype, ndim, a, b, c, d, e, f, g, h, ...) \
    {                                                                         \
        sizeof(struct symmcoll_tensor), (pointer), (dtype), SYMMCOLL_HOST, 0, \
            (ndim),                                                           \
            {SYMMCOLL_DIM_(a), SYMMCOLL_DIM_(b), SYMMCOLL_DIM_(c),            \
                SYMMCOLL_DIM_(d), SYMMCOLL_DIM_(e), SYMMCOLL_DIM_(f),         \
                SYMMCOLL_DIM_(g), SYMMCOLL_DIM_(h)},                          \
        {                                                                     \
            SYMMCOLL_DIMS_(b, c, d, 1) * SYMMCOLL_DIMS_(e, f, g, h),          \
                SYMMCOLL_DIMS_(c, d, 1, 1) * SYMMCOLL_DIMS_(e, f, g, h),      \
                SYMMCOLL_DIMS_(d, 1, 1, 1) * SYMMCOLL_DIMS_(e, f, g, h),      \
                SYMMCOLL_DIMS_(e, f, g, h), SYMMCOLL_DIMS_(f, g, h, 1),       \
                SYMMCOLL_DIMS_(g, h, 1, 1), SYMMCOLL_DIM_(h), 1               \
        }                                                                     \
    }

SYMMCOLL_END_DECLS

#endif
