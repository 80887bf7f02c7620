/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Memory of CUDA devices in a process whose worlds have no backend for it: it must
 * not be taken for the host's, which the host would read.
 */
#ifndef SYMC_DEVICES_UNSERVED_H
#define SYMC_DEVICES_UNSERVED_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SYMC_UNSERVED_PAGES 256 /* that are remembered */
#define SYMC_UNSERVED_PAGE 4096

/* Pages that were asked for while the process had no libcuda, and so are the
 * host's: numbers from 1, each in the place of its remainder.  All zero once it
 * has been found. */
extern _Atomic uintptr_t symc_unserved_pages[SYMC_UNSERVED_PAGES]
    __attribute__((visibility("hidden")));

/* Whether an address need not be asked for. */
static inline bool symc_unserved_is_hosts(const void *at)
{
    uintptr_t page = (uintptr_t)at / SYMC_UNSERVED_PAGE + 1;

    return at == NULL || atomic_load_explicit(
                             &symc_unserved_pages[page % SYMC_UNSERVED_PAGES],
                             memory_order_relaxed) == page;
}

/* Whether an address is in the memory of a device, and of which (out).  Opens and
 * initialises nothing: without libcuda in the process no memory is a device's.
 * Any thread may call it at any time. */
bool symc_unserved_find(const void *at, int16_t *device);

#endif
