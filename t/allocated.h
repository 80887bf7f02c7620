/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * How much memory of malloc() this process has.
 */
#ifndef T_ALLOCATED_H
#define T_ALLOCATED_H

#include "sanitized.h"

#include <malloc.h>

#if SANITIZED
size_t __sanitizer_get_current_allocated_bytes(void); /* its header may lack */
#endif

/* A sanitizer has an allocator of its own, and two threads may not call the C
 * library's mallinfo2() at once. */
static inline size_t count_allocated(void)
{
#if SANITIZED
    return __sanitizer_get_current_allocated_bytes();
#else
    return mallinfo2().uordblks;
#endif
}

#endif
