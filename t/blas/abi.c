/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Compares lib/cuda's declarations of cuBLASLt with cuBLASLt's header: its
 * prototypes, or this does not compile; its values, and the offsets in its
 * structures.
 */
#include "cuda/cublaslt/cublaslt.h"
#include "t/tap.h"

#if defined(__has_include)
#if __has_include(<cublasLt.h>)
#include <cublasLt.h>
#endif
#endif

#if defined(CUBLAS_VER_MAJOR) && CUBLAS_VER_MAJOR == SYMC_CUBLASLT_MAJOR

#include "t/cuda/alike.h"

#define STATUS cublasStatus_t
#define HANDLE cublasLtHandle_t
#define DESC cublasLtMatmulDesc_t
#define LAYOUT cublasLtMatrixLayout_t
#define PREFERENCE cublasLtMatmulPreference_t
#define ALGO cublasLtMatmulAlgo_t
#define RESULT cublasLtMatmulHeuristicResult_t
#define COMPUTE cublasComputeType_t
#define TYPE cudaDataType
#define DESC_ATTRIBUTE cublasLtMatmulDescAttributes_t
#define PREFERENCE_ATTRIBUTE cublasLtMatmulPreferenceAttributes_t
#define STREAM cudaStream_t

#define PROTOTYPE(member, name, type, args)                          \
    _Static_assert(_Generic(&(name), type(*) args : 1, default : 0), \
        #name " has other parameters");
SYMC_CUBLASLT_FUNCTIONS(PROTOTYPE)

static int values_are_alike(void)
{
    SAME(SYMC_LT_SUCCESS, CUBLAS_STATUS_SUCCESS);
    SAME(SYMC_LT_NOT_INITIALIZED, CUBLAS_STATUS_NOT_INITIALIZED);
    SAME(SYMC_LT_ALLOC_FAILED, CUBLAS_STATUS_ALLOC_FAILED);
    SAME(SYMC_LT_INVALID_VALUE, CUBLAS_STATUS_INVALID_VALUE);
    SAME(SYMC_LT_ARCH_MISMATCH, CUBLAS_STATUS_ARCH_MISMATCH);
    SAME(SYMC_LT_EXECUTION_FAILED, CUBLAS_STATUS_EXECUTION_FAILED);
    SAME(SYMC_LT_INTERNAL_ERROR, CUBLAS_STATUS_INTERNAL_ERROR);
    SAME(SYMC_LT_NOT_SUPPORTED, CUBLAS_STATUS_NOT_SUPPORTED);
    SAME(SYMC_LT_F32, CUDA_R_32F);
    SAME(SYMC_LT_F64, CUDA_R_64F);
    SAME(SYMC_LT_F16, CUDA_R_16F);
    SAME(SYMC_LT_BF16, CUDA_R_16BF);
    SAME(SYMC_LT_E4M3, CUDA_R_8F_E4M3);
    SAME(SYMC_LT_E5M2, CUDA_R_8F_E5M2);
    SAME(SYMC_LT_COMPUTE_32F, CUBLAS_COMPUTE_32F);
    SAME(SYMC_LT_COMPUTE_64F, CUBLAS_COMPUTE_64F);
    SAME(SYMC_LT_COMPUTE_TF32, CUBLAS_COMPUTE_32F_FAST_TF32);
    return alike();
}

static int attributes_are_alike(void)
{
    SAME(SYMC_LT_DESC_TRANS_A, CUBLASLT_MATMUL_DESC_TRANSA);
    SAME(SYMC_LT_DESC_TRANS_B, CUBLASLT_MATMUL_DESC_TRANSB);
    SAME(1, CUBLAS_OP_T);
    SAME(SYMC_LT_DESC_SM_COUNT_TARGET, CUBLASLT_MATMUL_DESC_SM_COUNT_TARGET);
    SAME(SYMC_LT_DESC_A_SCALE, CUBLASLT_MATMUL_DESC_A_SCALE_POINTER);
    SAME(SYMC_LT_DESC_B_SCALE, CUBLASLT_MATMUL_DESC_B_SCALE_POINTER);
    SAME(SYMC_LT_DESC_FAST_ACCUM, CUBLASLT_MATMUL_DESC_FAST_ACCUM);
    SAME(SYMC_LT_DESC_A_SCALE_MODE, CUBLASLT_MATMUL_DESC_A_SCALE_MODE);
    SAME(SYMC_LT_DESC_B_SCALE_MODE, CUBLASLT_MATMUL_DESC_B_SCALE_MODE);
    SAME(SYMC_LT_SCALE_ONE, CUBLASLT_MATMUL_MATRIX_SCALE_SCALAR_32F);
    SAME(SYMC_LT_SCALE_OUTER, CUBLASLT_MATMUL_MATRIX_SCALE_OUTER_VEC_32F);
    SAME(
        SYMC_LT_PREFERENCE_WORKSPACE, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES);
    SAME(SYMC_LT_PREFERENCE_REDUCTIONS,
        CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK);
    SAME(
        SYMC_LT_REDUCTION_COMPUTE_TYPE, CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE);
    SAME(SYMC_LT_PREFERENCE_ALIGNMENT_A,
        CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES);
    SAME(SYMC_LT_PREFERENCE_ALIGNMENT_B,
        CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES);
    SAME(SYMC_LT_PREFERENCE_ALIGNMENT_C,
        CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES);
    SAME(SYMC_LT_PREFERENCE_ALIGNMENT_D,
        CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES);
    return alike();
}

#define SAME_RESULT(our, their) \
    SAME_MEMBER(                \
        struct symc_lt_result, our, cublasLtMatmulHeuristicResult_t, their)

static int structs_are_alike(void)
{
    SAME_SIZE(struct symc_lt_algo, cublasLtMatmulAlgo_t);
    SAME_SIZE(struct symc_lt_result, cublasLtMatmulHeuristicResult_t);
    SAME_RESULT(algo, algo);
    SAME_RESULT(workspace, workspaceSize);
    SAME_RESULT(state, state);
    SAME_RESULT(waves, wavesCount);
    SAME_SIZE(enum symc_lt_status, cublasStatus_t);
    SAME_SIZE(enum symc_lt_type, cudaDataType);
    SAME_SIZE(enum symc_lt_compute, cublasComputeType_t);
    SAME_SIZE(enum symc_lt_desc_attribute, cublasLtMatmulDescAttributes_t);
    return alike();
}

int main(void)
{
    plan(3);
    ok(values_are_alike(), "values are as in cublasLt.h of %d.%d.%d",
        CUBLAS_VER_MAJOR, CUBLAS_VER_MINOR, CUBLAS_VER_PATCH);
    ok(attributes_are_alike(), "attributes, and their values, are");
    ok(structs_are_alike(), "structures have their members where it has them");
    return done_testing();
}

#else

int main(void)
{
    skip_all("there is no cublasLt.h of %d", SYMC_CUBLASLT_MAJOR);
}

#endif
