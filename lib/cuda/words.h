/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Words of groups in memory of the host, which kernels and the host both use: of all
 * groups of a context in common.  What frees such memory, and may make it, waits for
 * kernels that run, and those of another group may wait for the rank that calls: it
 * is freed with the last group, when there are none.
 */
#ifndef SYMC_CUDA_WORDS_H
#define SYMC_CUDA_WORDS_H

#include "cuda/device_group.h"

/* Zeroed, and the same as kernels see it.  In the context, as is giving them back; any
 * thread may call both.  called: what failed; NULL is returned then. */
struct symc_cuda_words *symc_cuda_words_take(
    const struct symc_cuda_context *context,
    struct symc_cuda_words **device_words, struct symc_cuda_called *called);

/* What kernels that have ended used; NULL is allowed. */
void symc_cuda_words_give(const struct symc_cuda_context *context,
    struct symc_cuda_log *log, struct symc_cuda_words *words);

#endif
