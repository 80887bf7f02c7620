/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Defines whether this program is built with AddressSanitizer or
 * ThreadSanitizer. Both make a program slower and reserve memory, mappings and
 * address space for themselves.
 */
#ifndef T_SANITIZED_H
#define T_SANITIZED_H

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define SANITIZED 1
#endif
#endif
#ifndef SANITIZED
#define SANITIZED 0
#endif

/* ThreadSanitizer checks the threads of one process, not those of another. */
#if defined(__SANITIZE_THREAD__)
#define THREADS_CHECKED 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define THREADS_CHECKED 1
#endif
#endif
#ifndef THREADS_CHECKED
#define THREADS_CHECKED 0
#endif

/*
 * ThreadSanitizer checks each process alone, so more than two processes add
 * nothing. Ranks that are threads of one process are checked against each
 * other.
 */
#define CHECKED_PROCESSES 2
/* Three ranks suffice: two of them are adjacent ranks and two are not. */
#define MOST_THREADS(most) (THREADS_CHECKED ? 3 : (most))

/* Brackets allocations that cannot be freed, so that they are not reported as
 * leaks. */
#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/lsan_interface.h>
#else
#define __lsan_disable()
#define __lsan_enable()
#endif

#endif
