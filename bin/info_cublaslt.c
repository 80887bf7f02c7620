/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * cuBLASLt: whether operations on device memory can use it.  It is loaded as
 * they load it, also in builds without CUDA.
 */
#include "info.h"

#include "config/config.h"
#include "cuda/cublaslt/cublaslt.h"

#include <symmcoll.h>

bool info_find_cublaslt(
    const struct symc_config *config, char *detail, size_t nbytes)
{
    const struct symc_cublaslt *cublaslt;
    char version[32];

    if (symc_cublaslt_load(symc_fail, config->cuda_cublaslt, &cublaslt) !=
        SYMMCOLL_OK) {
        snprintf(detail, nbytes, "%s", symmcoll_last_error());
        return false;
    }
    snprintf(detail, nbytes, "%s, %s",
        symc_cublaslt_format_version(cublaslt->version, version),
        cublaslt->path);
    return true;
}
