/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What ThreadSanitizer is told of the order of work.  The fake driver's own lock
 * would order all streams; so under it the work of each stream is done by another
 * thread, to which it is handed in a way that ThreadSanitizer does not see.  That
 * thread is ordered by fake_release() and fake_acquire() alone: all before a
 * release of an address is before what comes after an acquire of it.
 */
#ifndef T_CUDA_FAKE_ORDER_H
#define T_CUDA_FAKE_ORDER_H

/* Of functions that use what is the driver's alone. */
#define NOT_CHECKED __attribute__((no_sanitize("thread")))
/* Of those that they call, and that use what is the caller's. */
#define CHECKED __attribute__((noinline))

struct fake_order;

void fake_release(void *address);
void fake_acquire(void *address);

/* NULL where there is no ThreadSanitizer. */
struct fake_order *fake_make_order(void);
void fake_free_order(struct fake_order *order);

/* Call a function, which is NOT_CHECKED, by the order's thread or where there is
 * none at once; returns when it has. */
void fake_call_ordered(
    struct fake_order *order, void (*function)(void *arg), void *arg);

#endif
