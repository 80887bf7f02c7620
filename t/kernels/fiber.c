/* SPDX-License-Identifier: BSD-3-Clause */
#include "t/kernels/fiber.h"

#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>

#if defined(__SANITIZE_THREAD__)
#define HAS_TSAN 1
#elif defined(__SANITIZE_ADDRESS__)
#define HAS_ASAN 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define HAS_TSAN 1
#elif __has_feature(address_sanitizer)
#define HAS_ASAN 1
#endif
#endif

#if defined(HAS_TSAN)
#include <sanitizer/tsan_interface.h>
#elif defined(HAS_ASAN)
#include <sanitizer/common_interface_defs.h>
#endif

#define STACK_NBYTES ((size_t)64 * 1024)
#define LINE_NBYTES 64
#define SHIFTS 128 /* places where a stack may begin */

/* Unused fibers, which are kept because creating one takes a millisecond under
 * ThreadSanitizer. */
static struct fiber *unused;
static size_t made;
static pthread_mutex_t unused_lock = PTHREAD_MUTEX_INITIALIZER;

/* ---- fiber switches as the sanitizers require them ---- */

NOT_CHECKED static void begin_switch(struct fiber *from, struct fiber *to)
{
#if defined(HAS_TSAN)
    (void)from;
    __tsan_switch_to_fiber(to->sanitizer, __tsan_switch_to_fiber_no_sync);
#elif defined(HAS_ASAN)
    __sanitizer_start_switch_fiber(
        &from->fake_stack, to->stack, to->stack_nbytes);
#else
    (void)from;
    (void)to;
#endif
}

NOT_CHECKED static void end_switch(struct fiber *to)
{
#if defined(HAS_ASAN)
    __sanitizer_finish_switch_fiber(to->fake_stack, NULL, NULL);
#else
    (void)to;
#endif
}

void fiber_release(void *address)
{
#if defined(HAS_TSAN)
    __tsan_release(address);
#else
    (void)address;
#endif
}

void fiber_acquire(void *address)
{
#if defined(HAS_TSAN)
    __tsan_acquire(address);
#else
    (void)address;
#endif
}

/* ---- changing ---- */

/* Switches to a fiber. The first switch is setcontext()'s; later ones avoid
 * it, because setcontext() and swapcontext() make system calls to set a signal
 * mask that never changes. */
NOT_CHECKED __attribute__((noinline, noreturn)) static void go_to(
    struct fiber *fiber)
{
    if (fiber->has_run)
        __builtin_longjmp(fiber->place, 1);
    fiber->has_run = true;
    setcontext(&fiber->context);
    abort();
}

NOT_CHECKED void fiber_switch(struct fiber *from, struct fiber *to)
{
    begin_switch(from, to);
    if (__builtin_setjmp(from->place) == 0)
        go_to(to);
    end_switch(from);
}

/* Runs the fiber's functions, one after another. */
NOT_CHECKED static void run_functions(unsigned int low, unsigned int high)
{
    struct fiber *fiber = (struct fiber *)((uintptr_t)high << 16 << 16 | low);

    end_switch(fiber);
    for (;;)
        fiber->function(fiber->arg);
}

/* ---- making ---- */

void fiber_of_caller(struct fiber *fiber)
{
    *fiber = (struct fiber){.has_run = true};
#if defined(HAS_TSAN)
    fiber->sanitizer = __tsan_get_current_fiber();
#elif defined(HAS_ASAN)
    pthread_attr_t attributes;

    if (pthread_getattr_np(pthread_self(), &attributes) != 0 ||
        pthread_attr_getstack(
            &attributes, &fiber->stack, &fiber->stack_nbytes) != 0)
        abort();
    pthread_attr_destroy(&attributes);
#endif
}

/* Prepares a fiber. Stacks begin at different lines of a page, because lines
 * at the same offset in different pages compete for few places in a
 * processor's cache. */
static bool prepare(struct fiber *fiber, size_t shift)
{
    if (getcontext(&fiber->context) != 0)
        return false;
    fiber->context.uc_stack.ss_sp = fiber->stack;
    fiber->context.uc_stack.ss_size = fiber->stack_nbytes - shift;
#if defined(HAS_TSAN)
    fiber->sanitizer = __tsan_create_fiber(0);
#endif
    makecontext(&fiber->context, (void (*)(void))run_functions, 2,
        (unsigned int)(uintptr_t)fiber,
        (unsigned int)((uintptr_t)fiber >> 16 >> 16));
    return true;
}

static struct fiber *make_fiber(size_t number)
{
    const size_t shift = number % SHIFTS * LINE_NBYTES;
    struct fiber *fiber = calloc(1, sizeof(*fiber));

    if (fiber == NULL)
        return NULL;
    fiber->stack_nbytes = STACK_NBYTES;
    fiber->stack = mmap(NULL, STACK_NBYTES, PROT_READ | PROT_WRITE,
        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    return fiber->stack != MAP_FAILED && prepare(fiber, shift) ? fiber : NULL;
}

struct fiber *fiber_take(void (*function)(void *arg), void *arg)
{
    struct fiber *fiber;
    size_t number;

    pthread_mutex_lock(&unused_lock);
    fiber = unused;
    if (fiber != NULL)
        unused = fiber->next;
    number = fiber == NULL ? made++ : 0;
    pthread_mutex_unlock(&unused_lock);
    if (fiber == NULL)
        fiber = make_fiber(number);
    if (fiber == NULL)
        return NULL;
    fiber->function = function;
    fiber->arg = arg;
    return fiber;
}

void fiber_put_back(struct fiber *fiber)
{
    pthread_mutex_lock(&unused_lock);
    fiber->next = unused;
    unused = fiber;
    pthread_mutex_unlock(&unused_lock);
}
