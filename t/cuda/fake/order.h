/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What ThreadSanitizer is told of the order of work.  The fake driver's own lock
 * would order all streams; so the work of each stream is done by a thread of its
 * own in ThreadSanitizer's eyes, which is ordered by fake_release() and
 * fake_acquire() alone: all before a release of an address is before what comes
 * after an acquire of it.
 */
#ifndef T_CUDA_FAKE_ORDER_H
#define T_CUDA_FAKE_ORDER_H

#include <stddef.h>

#if defined(__SANITIZE_THREAD__)

#include <sanitizer/tsan_interface.h>

static inline void fake_release(void *address)
{
    __tsan_release(address);
}

static inline void fake_acquire(void *address)
{
    __tsan_acquire(address);
}

static inline void *fake_make_order(void)
{
    return __tsan_create_fiber(0);
}

static inline void fake_free_order(void *order)
{
    __tsan_destroy_fiber(order);
}

/* Returns what to go back to. */
static inline void *fake_enter_order(void *order)
{
    void *before = __tsan_get_current_fiber();

    __tsan_switch_to_fiber(order, __tsan_switch_to_fiber_no_sync);
    return before;
}

static inline void fake_leave_order(void *before)
{
    __tsan_switch_to_fiber(before, __tsan_switch_to_fiber_no_sync);
}

#else

static inline void fake_release(void *address)
{
    (void)address;
}

static inline void fake_acquire(void *address)
{
    (void)address;
}

static inline void *fake_make_order(void)
{
    return NULL;
}

static inline void fake_free_order(void *order)
{
    (void)order;
}

static inline void *fake_enter_order(void *order)
{
    return order;
}

static inline void fake_leave_order(void *before)
{
    (void)before;
}

#endif

#endif
