/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Whether all_reduce on devices can use NCCL. It is loaded as the library loads
 * it, also in builds without CUDA.
 */
#include "perf_thresholds.h"

#include "cuda/nccl/nccl.h"

#include <stdlib.h>

static void load(const struct symmcoll_setting *setting, void *arg)
{
    const struct symc_nccl **nccl = arg;

    if (symc_nccl_load(NULL, setting->value, nccl) != SYMMCOLL_OK)
        *nccl = NULL;
}

static const char *get_variable(const char *name)
{
    return getenv(name);
}

/* Returns whether lib/cuda/nccl/nccl_choice.c has NCCL do this reduction: for
 * integers those with the same bits in any order, for floats sums; 16-bit
 * integers never. */
static bool is_reduced(const struct perf_options *options)
{
    switch (options->dtype) {
    case SYMMCOLL_BOOL:
    case SYMMCOLL_INT8:
    case SYMMCOLL_UINT8:
    case SYMMCOLL_INT32:
    case SYMMCOLL_UINT32:
    case SYMMCOLL_INT64:
    case SYMMCOLL_UINT64:
        return options->reduce == SYMMCOLL_SUM ||
               options->reduce == SYMMCOLL_PRODUCT ||
               options->reduce == SYMMCOLL_MIN ||
               options->reduce == SYMMCOLL_MAX;
    case SYMMCOLL_INT16:
    case SYMMCOLL_UINT16:
        return false;
    case SYMMCOLL_FLOAT16:
    case SYMMCOLL_BFLOAT16:
        return options->reduce == SYMMCOLL_SUM ||
               options->reduce == SYMMCOLL_AVG;
    default:
        return options->reduce == SYMMCOLL_SUM ||
               options->reduce == SYMMCOLL_AVG ||
               options->reduce == SYMMCOLL_PREMUL_SUM;
    }
}

const char *perf_nccl_missing(const struct perf_options *options)
{
    const struct symc_nccl *nccl = NULL;

    if (options->share)
        return "NCCL wants a device for each rank";
    if (!is_reduced(options))
        return "NCCL does not do this reduction";
    if (symmcoll_config_get("cuda.nccl", load, NULL, &nccl) != SYMMCOLL_OK ||
        nccl == NULL ||
        symc_nccl_check_variables(NULL, nccl, get_variable) != SYMMCOLL_OK)
        return "no NCCL, symmcoll-info(1) says why";
    return NULL;
}
