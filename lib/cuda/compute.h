/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Products on a device: cuBLASLt, and the side streams that copy for an operation while
 * products run.
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
    /* The side streams of running and of captured operations: a stream that takes part
     * in a capture does so until the capture ends. */
    CUstream beside, beside_captured;
    CUevent event; /* recorded on one stream for another that waits at once */
};

extern const struct symc_compute_ops symc_cuda_compute_ops;

#endif
