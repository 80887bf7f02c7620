/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Whether this program is built with AddressSanitizer or ThreadSanitizer, which
 * make it slower and keep memory, mappings and address space for themselves.
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

/* ThreadSanitizer sees the threads of one process, and no other's. */
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
 * It sees each process alone: more of them show it nothing that two do not, and as
 * threads the same ranks show it all that they do to each other.
 */
#define CHECKED_PROCESSES 2
/* Of these three have all that more have: neighbours, and one that is none. */
#define MOST_THREADS(most) (THREADS_CHECKED ? 3 : (most))

/* Around what nobody can free. */
#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/lsan_interface.h>
#else
#define __lsan_disable()
#define __lsan_enable()
#endif

#endif
