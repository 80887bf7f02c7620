/* SPDX-License-Identifier: BSD-3-Clause */
/* A product with a left operand that arrives in chunks of rows: shared
 * definitions. */
#ifndef SYMC_FUSED_ASYNC_INPUT_H
#define SYMC_FUSED_ASYNC_INPUT_H

#include "fused/device.h"
#include "symm_mem/symm_mem.h"

#define SYMC_ASYNC_HERE 1 /* value of a signal that has arrived */

/* INVARIANT: chunks divides the rows of a. */
struct async_input {
    const char *name;
    struct symmcoll_symm *handle;
    size_t signals; /* offset of the first signal, in bytes */
    size_t chunks;
    size_t pivot;
    int rank, ranks;
    double timeout;
    struct symmcoll_tensor a, b;
    struct symc_fused_result out;
};

/* One chunk. */
struct async_chunk {
    int source; /* rank that stores its signal */
    size_t signal;
    int64_t first, rows;
};

/* Returns the i-th chunk in the order of the call. */
static inline struct async_chunk symc_async_chunk(
    const struct async_input *it, size_t i)
{
    size_t chunk = (it->pivot + i) % it->chunks;
    int64_t rows = it->a.shape[0] / (int64_t)it->chunks;

    return (struct async_chunk){
        .source = (int)(chunk * (size_t)it->ranks / it->chunks),
        .signal = it->signals + chunk * sizeof(uint32_t),
        .first = (int64_t)chunk * rows,
        .rows = rows};
}

/* ---- async_device.c: device memory ---- */

/* Begins a call like symc_fused_on_begin(), and sets the site of its result. */
symmcoll_status_t symc_async_begin(const struct symc_fused_call *begun,
    struct async_input *it, struct symc_fused_on *on);

/* Enqueues the waits and the products. Errors: those of plans, of memory, and
 * of the enqueued operations. */
symmcoll_status_t symc_async_enqueue(const struct symc_fused_call *begun,
    const struct async_input *it, const struct symc_fused_on *on);

#endif
