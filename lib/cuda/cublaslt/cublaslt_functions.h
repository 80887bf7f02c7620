/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The functions of cuBLASLt that the library calls: the member of struct symc_cublaslt,
 * the name, the return type and the parameters.  The user of the list defines STATUS,
 * HANDLE, DESC, LAYOUT, PREFERENCE, ALGO, RESULT, COMPUTE, TYPE, DESC_ATTRIBUTE,
 * PREFERENCE_ATTRIBUTE and STREAM: the library as its own declarations, a test as those
 * of cublasLt.h, to compare both.
 */
#ifndef SYMC_CUDA_CUBLASLT_CUBLASLT_FUNCTIONS_H
#define SYMC_CUDA_CUBLASLT_CUBLASLT_FUNCTIONS_H

#define SYMC_CUBLASLT_FUNCTIONS(F)                                             \
    F(get_version, cublasLtGetVersion, size_t, (void))                         \
    F(get_status_name, cublasLtGetStatusName, const char *, (STATUS status))   \
    F(create, cublasLtCreate, STATUS, (HANDLE * handle))                       \
    F(destroy, cublasLtDestroy, STATUS, (HANDLE handle))                       \
    F(matmul, cublasLtMatmul, STATUS,                                          \
        (HANDLE handle, DESC desc, const void *alpha, const void *a,           \
            LAYOUT a_layout, const void *b, LAYOUT b_layout, const void *beta, \
            const void *c, LAYOUT c_layout, void *d, LAYOUT d_layout,          \
            const ALGO *algo, void *workspace, size_t workspace_nbytes,        \
            STREAM stream))                                                    \
    F(matmul_algo_get_heuristic, cublasLtMatmulAlgoGetHeuristic, STATUS,       \
        (HANDLE handle, DESC desc, LAYOUT a_layout, LAYOUT b_layout,           \
            LAYOUT c_layout, LAYOUT d_layout, PREFERENCE preference,           \
            int wanted, RESULT *results, int *found))                          \
    F(matmul_desc_create, cublasLtMatmulDescCreate, STATUS,                    \
        (DESC * desc, COMPUTE compute, TYPE scale))                            \
    F(matmul_desc_destroy, cublasLtMatmulDescDestroy, STATUS, (DESC desc))     \
    F(matmul_desc_set_attribute, cublasLtMatmulDescSetAttribute, STATUS,       \
        (DESC desc, DESC_ATTRIBUTE attribute, const void *value,               \
            size_t nbytes))                                                    \
    F(matrix_layout_create, cublasLtMatrixLayoutCreate, STATUS,                \
        (LAYOUT * layout, TYPE type, uint64_t rows, uint64_t cols,             \
            int64_t distance))                                                 \
    F(matrix_layout_destroy, cublasLtMatrixLayoutDestroy, STATUS,              \
        (LAYOUT layout))                                                       \
    F(matmul_preference_create, cublasLtMatmulPreferenceCreate, STATUS,        \
        (PREFERENCE * preference))                                             \
    F(matmul_preference_destroy, cublasLtMatmulPreferenceDestroy, STATUS,      \
        (PREFERENCE preference))                                               \
    F(matmul_preference_set_attribute, cublasLtMatmulPreferenceSetAttribute,   \
        STATUS,                                                                \
        (PREFERENCE preference, PREFERENCE_ATTRIBUTE attribute,                \
            const void *value, size_t nbytes))

#endif
