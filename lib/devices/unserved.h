/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Detects CUDA device memory in a process without a backend for it, because such
 * memory must not be treated as host memory and read by the host.
 */
#ifndef SYMC_DEVICES_UNSERVED_H
#define SYMC_DEVICES_UNSERVED_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SYMC_UNSERVED_PAGES 256 /* pages that are cached */
#define SYMC_UNSERVED_PAGE 4096

/* Pages that were checked while the process had no libcuda, and therefore are
 * host memory: page numbers from 1, each at the index of its remainder.  All
 * zero once libcuda is found. */
extern _Atomic uintptr_t symc_unserved_pages[SYMC_UNSERVED_PAGES]
    __attribute__((visibility("hidden")));

/* Returns whether an address is known to be host memory without a query. */
static inline bool symc_unserved_is_hosts(const void *at)
{
    uintptr_t page = (uintptr_t)at / SYMC_UNSERVED_PAGE + 1;

    return at == NULL || atomic_load_explicit(
                             &symc_unserved_pages[page % SYMC_UNSERVED_PAGES],
                             memory_order_relaxed) == page;
}

/* Returns whether an address is in device memory, and on which device (out).
 * Loads and initialises nothing: without libcuda in the process, there is no
 * device memory.  Any thread may call it at any time. */
bool symc_unserved_find(const void *at, int16_t *device);

#endif
