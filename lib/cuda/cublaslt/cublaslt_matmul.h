/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Products of matrices in the memory of a device, by cuBLASLt.  One is planned
 * once, which asks cuBLASLt for what is fastest, and then enqueued any number of
 * times, on other matrices of the same shapes.
 */
#ifndef SYMC_CUDA_CUBLASLT_CUBLASLT_MATMUL_H
#define SYMC_CUDA_CUBLASLT_CUBLASLT_MATMUL_H

#include "base/product.h"
#include "cuda/cublaslt/cublaslt.h"

/* A handle of cuBLASLt, of a device. */
struct symc_lt {
    const struct symc_cublaslt *table; /* NULL: not open */
    struct symc_lt_context *handle;
    symc_cublaslt_fail_fn fail;
};

/* In the current context, whose device it is of, as is every call with it.  path
 * is that of symc_cublaslt_load().  Errors: those of that, NO_MEMORY, DEVICE. */
symmcoll_status_t symc_lt_open(
    struct symc_lt *lt, symc_cublaslt_fail_fn fail, const char *path);
void symc_lt_close(struct symc_lt *lt);

struct symc_lt_plan {
    const struct symc_lt *lt;
    struct symc_lt_desc *desc;
    struct symc_lt_layout *a, *b, *c;
    struct symc_lt_algo algo;
    struct symc_product product;
    size_t workspace; /* bytes that it uses */
};

/* Errors: UNSUPPORTED (types or shapes that cuBLASLt does not multiply, or not in
 * such a workspace), NO_MEMORY, DEVICE. */
symmcoll_status_t symc_lt_plan_make(const struct symc_lt *lt,
    const struct symc_product *product, struct symc_lt_plan *plan);
void symc_lt_plan_free(struct symc_lt_plan *plan);

/* Enqueue one.  A plan is used by one thread at a time.  Errors: those above. */
symmcoll_status_t symc_lt_matmul(struct symc_lt_plan *plan,
    const struct symc_product_operands *operands, struct CUstream_st *stream);

#endif
