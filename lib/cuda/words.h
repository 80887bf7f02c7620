/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Words of groups in host memory that kernels and the host share.  All groups of a
 * context take them from the same slabs: freeing such memory, and possibly allocating
 * it, waits for running kernels, and a kernel of another group may wait for the calling
 * rank.  The slabs are therefore freed with the context's last group, when no kernel of
 * any group runs.
 */
#ifndef SYMC_CUDA_WORDS_H
#define SYMC_CUDA_WORDS_H

#include "cuda/device_group.h"

/* Returns zeroed words, and their address for kernels (out).  The context must be
 * current.  Any thread may call it.  Returns NULL on failure; called: the result of the
 * driver's call. */
struct symc_cuda_words *symc_cuda_words_take(
    const struct symc_cuda_context *context,
    struct symc_cuda_words **device_words, struct symc_cuda_called *called);

/* Gives words back; the kernels that used them must have ended.  The context must be
 * current.  Any thread may call it.  NULL is allowed. */
void symc_cuda_words_give(const struct symc_cuda_context *context,
    struct symc_cuda_log *log, struct symc_cuda_words *words);

#endif
