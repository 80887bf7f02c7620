/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Fibers that are visible to the sanitizers: each is a separate thread to
 * ThreadSanitizer, and a switch between fibers establishes no order.
 */
#ifndef T_KERNELS_FIBER_H
#define T_KERNELS_FIBER_H

#include <stdbool.h>
#include <stddef.h>
#include <ucontext.h>

/* Marks functions of the engine itself, which run in fibers and are ordered by
 * the order of fibers. */
#define NOT_CHECKED __attribute__((no_sanitize("thread", "address")))

struct fiber {
    ucontext_t context; /* to begin in */
    bool has_run;
    void *place[5]; /* where it continues, for __builtin_longjmp() */
    void *sanitizer;
    void *fake_stack; /* of AddressSanitizer, while it does not run */
    void *stack;
    size_t stack_nbytes;
    void (*function)(void *arg);
    void *arg;
    struct fiber *next; /* unused fibers */
};

/* Turns the caller into a fiber, which will run others. */
void fiber_of_caller(struct fiber *fiber);

/* Returns a fiber that calls the function when it is next switched to; NULL:
 * no memory. The function ends by switching to another fiber, and that switch
 * returns when the fiber is switched to after it was put back and taken
 * again. */
struct fiber *fiber_take(void (*function)(void *arg), void *arg);
void fiber_put_back(struct fiber *fiber);

void fiber_switch(struct fiber *from, struct fiber *to);

/* Order fibers for ThreadSanitizer: everything before fiber_release() of an
 * address happens before everything after fiber_acquire() of it. */
void fiber_release(void *address);
void fiber_acquire(void *address);

#endif
