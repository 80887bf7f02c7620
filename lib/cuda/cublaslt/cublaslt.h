/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * cuBLASLt: libcublasLt.so.13, opened at the first product and never linked with, as it
 * has half a gigabyte.  Its types are declared here after its binary interface of 13, so
 * that the library is built without cuBLASLt's header, and without CUDA's.
 *
 * cuBLASLt is loaded once per process: the copy that the process has loaded already,
 * else the one that cuda.cublaslt names.  It is never unloaded.
 */
#ifndef SYMC_CUDA_CUBLASLT_CUBLASLT_H
#define SYMC_CUDA_CUBLASLT_CUBLASLT_H

#include "base/base.h"
#include "cuda/cublaslt/cublaslt_functions.h"

#include <symmcoll/types.h>

#define SYMC_CUBLASLT_LIBRARY "libcublasLt.so.13"
#define SYMC_CUBLASLT_MAJOR 13

/* ---- declarations of cuBLASLt ---- */

struct CUstream_st;
struct symc_lt_context;
struct symc_lt_desc;
struct symc_lt_layout;
struct symc_lt_preference;

enum symc_lt_status {
    SYMC_LT_SUCCESS = 0,
    SYMC_LT_NOT_INITIALIZED = 1,
    SYMC_LT_ALLOC_FAILED = 3,
    SYMC_LT_INVALID_VALUE = 7,
    SYMC_LT_ARCH_MISMATCH = 8,
    SYMC_LT_EXECUTION_FAILED = 13,
    SYMC_LT_INTERNAL_ERROR = 14,
    SYMC_LT_NOT_SUPPORTED = 15
};

enum symc_lt_type {
    SYMC_LT_F32 = 0,
    SYMC_LT_F64 = 1,
    SYMC_LT_F16 = 2,
    SYMC_LT_BF16 = 14,
    SYMC_LT_E4M3 = 28,
    SYMC_LT_E5M2 = 29
};

enum symc_lt_compute {
    SYMC_LT_COMPUTE_32F = 68,
    SYMC_LT_COMPUTE_64F = 70,
    SYMC_LT_COMPUTE_TF32 = 77
};

enum symc_lt_desc_attribute {
    SYMC_LT_DESC_TRANS_A = 3, /* int32_t: 1: transposed */
    SYMC_LT_DESC_TRANS_B = 4,
    SYMC_LT_DESC_SM_COUNT_TARGET = 15, /* int32_t; 0: all */
    SYMC_LT_DESC_A_SCALE = 17,         /* const void *, a device address */
    SYMC_LT_DESC_B_SCALE = 18,
    SYMC_LT_DESC_FAST_ACCUM = 25,   /* int8_t */
    SYMC_LT_DESC_A_SCALE_MODE = 31, /* int32_t: enum symc_lt_scale_mode */
    SYMC_LT_DESC_B_SCALE_MODE = 32
};

enum symc_lt_scale_mode {
    SYMC_LT_SCALE_ONE = 0,  /* one float32 for the matrix */
    SYMC_LT_SCALE_OUTER = 3 /* one per row of a, one per column of b */
};

enum symc_lt_preference_attribute {
    SYMC_LT_PREFERENCE_WORKSPACE = 1,   /* size_t */
    SYMC_LT_PREFERENCE_REDUCTIONS = 3,  /* uint32_t, the bits below */
    SYMC_LT_PREFERENCE_ALIGNMENT_A = 5, /* uint32_t, bytes; of b, c, d below */
    SYMC_LT_PREFERENCE_ALIGNMENT_B = 6,
    SYMC_LT_PREFERENCE_ALIGNMENT_C = 7,
    SYMC_LT_PREFERENCE_ALIGNMENT_D = 8
};

/* The types in which partial sums of a product may be added up. */
enum symc_lt_reduction {
    SYMC_LT_REDUCTION_COMPUTE_TYPE = 2 /* the type of the computation */
};

struct symc_lt_algo {
    uint64_t data[8];
};

/* The heuristic's result. */
struct symc_lt_result {
    struct symc_lt_algo algo;
    size_t workspace; /* bytes that it needs */
    enum symc_lt_status state;
    float waves;
    int reserved[4];
};

/* ---- the library ---- */

/* As core->fail: keeps the detail of an error and returns the status. */
typedef symmcoll_status_t (*symc_cublaslt_fail_fn)(
    symmcoll_status_t status, const char *format, ...) SYMC_PRINTF(2, 3);

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
#define MEMBER(member, name, type, args) type(*member) args;

/* Functions of cuBLASLt: cublasLtMatmul is matmul.  See cublaslt_functions.h. */
struct symc_cublaslt {
    size_t version;   /* the library's, 130100 for 13.1.0 */
    const char *path; /* its file */

    SYMC_CUBLASLT_FUNCTIONS(MEMBER)
};

#undef STATUS
#undef HANDLE
#undef DESC
#undef LAYOUT
#undef PREFERENCE
#undef ALGO
#undef RESULT
#undef COMPUTE
#undef TYPE
#undef DESC_ATTRIBUTE
#undef PREFERENCE_ATTRIBUTE
#undef STREAM
#undef MEMBER

/*
 * Returns the table (out), which is static.  The first call that succeeds has opened the
 * library and filled the table.  Any thread may call it.
 * path  of the library, from the setting cuda.cublaslt; "": cuBLASLt is not to be
 *       used.  Ignored if the process has loaded libcublasLt.so.13 already
 * fail  may be NULL: then no detail is kept
 * Errors: UNSUPPORTED, with the reason: the loader's error, another major version,
 * a function that the library lacks.
 */
symmcoll_status_t symc_cublaslt_load(symc_cublaslt_fail_fn fail,
    const char *path, const struct symc_cublaslt **cublaslt);

/* Formats "13.1.0" into a buffer of 32 bytes. */
const char *symc_cublaslt_format_version(size_t version, char *buffer);

#endif
