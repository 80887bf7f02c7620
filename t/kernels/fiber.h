/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Fibers, which the sanitizers know of: each is a thread of its own to
 * ThreadSanitizer, and changing from one to another orders nothing.
 */
#ifndef T_KERNELS_FIBER_H
#define T_KERNELS_FIBER_H

#include <stdbool.h>
#include <stddef.h>
#include <ucontext.h>

/* Of what fibers run here themselves: the order of fibers orders it. */
#define NOT_CHECKED __attribute__((no_sanitize("thread", "address")))

struct fiber {
    ucontext_t context; /* to begin in */
    bool has_run;
    void *place[5]; /* where it goes on, for __builtin_longjmp() */
    void *sanitizer;
    void *fake_stack; /* of AddressSanitizer, while it does not run */
    void *stack;
    size_t stack_nbytes;
    void (*function)(void *arg);
    void *arg;
    struct fiber *next; /* that is not in use */
};

/* The one that calls this, which will run others. */
void fiber_of_caller(struct fiber *fiber);

/* One that calls the function when it is next changed to; or NULL without
 * memory.  The function ends by changing to another one; it returns when the
 * fiber is changed to after it was put back and taken again. */
struct fiber *fiber_take(void (*function)(void *arg), void *arg);
void fiber_put_back(struct fiber *fiber);

void fiber_switch(struct fiber *from, struct fiber *to);

/* All that was done before fiber_release() of an address happens before what
 * follows fiber_acquire() of it, to ThreadSanitizer. */
void fiber_release(void *address);
void fiber_acquire(void *address);

#endif
