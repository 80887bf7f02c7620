/* SPDX-License-Identifier: BSD-3-Clause */
#include "t/gpu/cublaslt.h"

#include "t/gpu/gpu.h"
#include "t/ranks.h"
#include "t/tap.h"

#include "cuda/cublaslt/cublaslt_matmul.h"

#include <stdio.h>
#include <stdlib.h>

const char *gpu_cublaslt(void)
{
    static char stand_in[4096];
    const char *build = getenv("T_BUILDDIR");

    if (!gpu_is_rehearsal())
        return SYMC_CUBLASLT_LIBRARY;
    (void)snprintf(stand_in, sizeof(stand_in), "%s/t/blas/.libs/%s",
        build != NULL ? build : ".", SYMC_CUBLASLT_LIBRARY);
    return stand_in;
}

static int has_library(void)
{
    struct symc_lt lt;

    (void)gpu_open();
    if (symc_lt_open(&lt, symc_fail, gpu_cublaslt()) != SYMMCOLL_OK) {
        diag("%s", symmcoll_last_error());
        return 0;
    }
    symc_lt_close(&lt);
    return 1;
}

void gpu_need_cublaslt(void)
{
    if (gpu_is_rehearsal())
        setenv("SYMMCOLL_CUDA_CUBLASLT", gpu_cublaslt(), 1);
    /* Runs in a new process, so that this one may still fork. */
    if (!process_run(has_library))
        skip_all("there is no cuBLASLt of %d", SYMC_CUBLASLT_MAJOR);
}
