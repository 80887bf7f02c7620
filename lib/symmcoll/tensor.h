/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A view of memory with a shape: what the functional, fused and DDP calls take.
 */
#ifndef SYMMCOLL_TENSOR_H
#define SYMMCOLL_TENSOR_H

#include <symmcoll/types.h>

SYMMCOLL_BEGIN_DECLS

#define SYMMCOLL_MAX_DIMS 8

enum symmcoll_device {
    SYMMCOLL_HOST = 0,
    SYMMCOLL_CUDA = 1
};

/* Strides are in elements.  The data is borrowed. */
struct symmcoll_tensor {
    void *data;
    enum symmcoll_dtype dtype;
    enum symmcoll_device device;
    int ndim;
    int64_t shape[SYMMCOLL_MAX_DIMS];
    int64_t strides[SYMMCOLL_MAX_DIMS];
};

SYMMCOLL_END_DECLS

#endif
