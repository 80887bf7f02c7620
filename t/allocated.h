/* SPDX-License-Identifier: BSD-3-Clause */
/* Counts the bytes that malloc() has allocated in this process. */
#ifndef T_ALLOCATED_H
#define T_ALLOCATED_H

#include "sanitized.h"

#include <malloc.h>

#if SANITIZED
size_t __sanitizer_get_current_allocated_bytes(
    void); /* its header may lack it */
#endif

/* Returns the bytes allocated. A sanitizer has its own allocator, and
 * mallinfo2() of the C library must not be called by two threads at once. */
static inline size_t count_allocated(void)
{
#if SANITIZED
    return __sanitizer_get_current_allocated_bytes();
#else
    return mallinfo2().uordblks;
#endif
}

#endif
