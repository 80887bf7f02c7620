/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The order of work as declared to ThreadSanitizer. The fake driver's own lock
 * would order all streams, so under ThreadSanitizer the work of each stream is
 * run by a second thread, and handed over in a way that ThreadSanitizer does
 * not see. That thread is ordered only by fake_release() and fake_acquire():
 * everything before a release of an address happens before everything after an
 * acquire of it.
 */
#ifndef T_CUDA_FAKE_ORDER_H
#define T_CUDA_FAKE_ORDER_H

/* Marks functions that use only the driver's own data. */
#define NOT_CHECKED __attribute__((no_sanitize("thread")))
/* Marks functions called by these that use the caller's data. */
#define CHECKED __attribute__((noinline))

struct fake_order;

void fake_release(void *address);
void fake_acquire(void *address);

/* Returns NULL without ThreadSanitizer. */
struct fake_order *fake_make_order(void);
void fake_free_order(struct fake_order *order);

/* Calls a function that is NOT_CHECKED in the order's thread, or directly if
 * there is none. Returns when the function has. */
void fake_call_ordered(
    struct fake_order *order, void (*function)(void *arg), void *arg);

#endif
