/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Every function of a stand-in for cuBLASLt by its name, for programs that
 * only look it up; FAKE_CUBLASLT_VERSION sets the version that it reports.
 */
#include "cuda/cublaslt/cublaslt_functions.h"

#include <stdlib.h>

#define STUB(member, name, type, args)                           \
    __attribute__((visibility("default"), weak)) int name(void); \
    int name(void)                                               \
    {                                                            \
        return 14; /* CUBLAS_STATUS_INTERNAL_ERROR */            \
    }

#define cublasLtGetVersion stub_version
SYMC_CUBLASLT_FUNCTIONS(STUB)
#undef cublasLtGetVersion

__attribute__((visibility("default"))) size_t cublasLtGetVersion(void);

size_t cublasLtGetVersion(void)
{
    const char *wanted = getenv("FAKE_CUBLASLT_VERSION");

    return wanted != NULL ? (size_t)atol(wanted) : 130100;
}
