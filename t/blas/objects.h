/* SPDX-License-Identifier: BSD-3-Clause */
/* The objects of the stand-in for cuBLASLt. Private to this folder. */
#ifndef T_BLAS_OBJECTS_H
#define T_BLAS_OBJECTS_H

#include "cuda/cublaslt/cublaslt.h"
#include "t/blas/fake_cublaslt.h"

#define FAKE_API __attribute__((visibility("default")))
/* The functions that it exports. */
#define STATUS enum symc_lt_status
#define HANDLE struct symc_lt_context *
#define DESC struct symc_lt_desc *
#define LAYOUT struct symc_lt_layout *
#define PREFERENCE struct symc_lt_preference *
#define ALGO struct symc_lt_algo
#define RESULT struct symc_lt_result
#define COMPUTE enum symc_lt_compute
#define TYPE enum symc_lt_type
#define DESC_ATTRIBUTE enum symc_lt_desc_attribute
#define PREFERENCE_ATTRIBUTE enum symc_lt_preference_attribute
#define STREAM struct CUstream_st *
#define DECLARE(member, name, type, args) FAKE_API type name args;
SYMC_CUBLASLT_FUNCTIONS(DECLARE)

#define ALGO_MAGIC 0x6c74616c676fULL /* first in what the heuristic returns */

enum object_kind {
    OBJECT_NONE,
    OBJECT_HANDLE,
    OBJECT_DESC,
    OBJECT_LAYOUT,
    OBJECT_PREFERENCE
};

struct object {
    enum object_kind kind;
};

struct symc_lt_desc {
    struct object object;
    enum symc_lt_compute compute;
    int32_t trans_a, trans_b, sms, a_mode, b_mode;
    int8_t fast;
    const float *a_scale, *b_scale;
};

struct symc_lt_layout {
    struct object object;
    enum symc_lt_type type;
    int64_t rows, cols, distance; /* by columns */
};

struct symc_lt_preference {
    struct object object;
    size_t workspace;
    uint32_t reductions;
    uint32_t alignments[4];
};

extern struct fake_cublaslt fake_cublaslt;

_Noreturn void fake_lt_die(const char *why);
void fake_lt_check(const void *object, enum object_kind kind);

/* Returns the kinds of scales that are set. */
uint64_t fake_lt_scales(const struct symc_lt_desc *desc);

#endif
