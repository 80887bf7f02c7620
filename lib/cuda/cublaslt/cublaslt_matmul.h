/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Products of matrices in device memory, by cuBLASLt.  A product is planned once, when
 * cuBLASLt's heuristic chooses an algorithm, and then enqueued any number of times, on
 * matrices of the same shapes.
 */
#ifndef SYMC_CUDA_CUBLASLT_CUBLASLT_MATMUL_H
#define SYMC_CUDA_CUBLASLT_CUBLASLT_MATMUL_H

#include "base/product.h"
#include "cuda/cublaslt/cublaslt.h"

/* A handle of cuBLASLt for a device. */
struct symc_lt {
    const struct symc_cublaslt *table; /* NULL: not open */
    struct symc_lt_context *handle;
    symc_cublaslt_fail_fn fail;
};

/* Opens a handle for the device of the current context, which must be current in each
 * later call with it.  path: as for symc_cublaslt_load().  Errors: those of
 * symc_cublaslt_load(), NO_MEMORY, DEVICE. */
symmcoll_status_t symc_lt_open(
    struct symc_lt *lt, symc_cublaslt_fail_fn fail, const char *path);
void symc_lt_close(struct symc_lt *lt);

struct symc_lt_plan {
    const struct symc_lt *lt;
    struct symc_lt_desc *desc;
    struct symc_lt_layout *a, *b, *c;
    struct symc_lt_algo algo;
    struct symc_product product;
    size_t workspace; /* bytes needed */
};

/* Plans a product.  Errors: UNSUPPORTED (types or shapes that cuBLASLt does not
 * multiply, or not in such a workspace), NO_MEMORY, DEVICE. */
symmcoll_status_t symc_lt_plan_make(const struct symc_lt *lt,
    const struct symc_product *product, struct symc_lt_plan *plan);
void symc_lt_plan_free(struct symc_lt_plan *plan);

/* Enqueues a product.  A plan is used by one thread at a time.  Errors: those of
 * symc_lt_plan_make(). */
symmcoll_status_t symc_lt_matmul(struct symc_lt_plan *plan,
    const struct symc_product_operands *operands, struct CUstream_st *stream);

#endif
