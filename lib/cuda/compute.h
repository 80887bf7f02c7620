/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What multiplies on a device: cuBLASLt, and the streams beside those of
 * operations, on which these copy while products run.
 */
#ifndef SYMC_CUDA_COMPUTE_H
#define SYMC_CUDA_COMPUTE_H

#include "backend/backend.h"
#include "cuda/context.h"
#include "cuda/cublaslt/cublaslt_matmul.h"

struct symc_cuda_compute {
    struct symc_cuda_context context;
    symc_cuda_fail_fn fail;
    struct symc_lt lt;
    /* Of operations that run, and of those that are captured: a stream that takes
     * part in a capture does so until that ends. */
    CUstream beside, beside_captured;
    CUevent
        event; /* of one stream, for another one that waits for it at once */
};

extern const struct symc_compute_ops symc_cuda_compute_ops;

#endif
