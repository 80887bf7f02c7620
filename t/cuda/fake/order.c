/* SPDX-License-Identifier: BSD-3-Clause */
#include "t/cuda/fake/order.h"

#if defined(__SANITIZE_THREAD__)

#include "t/cuda/fake/state.h"

#include <linux/futex.h>
#include <sanitizer/tsan_interface.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

enum {
    IDLE,
    ASKED,
    ENDING
};

struct fake_order {
    uint32_t state;
    void (*function)(void *arg);
    void *arg;
};

void fake_release(void *address)
{
    __tsan_release(address);
}

void fake_acquire(void *address)
{
    __tsan_acquire(address);
}

NOT_CHECKED static void set_state(struct fake_order *order, uint32_t state)
{
    __atomic_store_n(&order->state, state, __ATOMIC_SEQ_CST);
    (void)syscall(SYS_futex, &order->state, FUTEX_WAKE_PRIVATE, 1, NULL);
}

/* Waits until the state changes. Returns the new one. */
NOT_CHECKED static uint32_t wait_while(struct fake_order *order, uint32_t state)
{
    uint32_t found;

    while ((found = __atomic_load_n(&order->state, __ATOMIC_SEQ_CST)) == state)
        (void)syscall(
            SYS_futex, &order->state, FUTEX_WAIT_PRIVATE, state, NULL);
    return found;
}

NOT_CHECKED static void *serve(void *arg)
{
    struct fake_order *order = arg;

    while (wait_while(order, IDLE) == ASKED) {
        order->function(order->arg);
        set_state(order, IDLE);
    }
    free(order);
    return NULL;
}

struct fake_order *fake_make_order(void)
{
    struct fake_order *order = fake_alloc(sizeof(*order));
    pthread_attr_t attributes;
    pthread_t thread;

    if (pthread_attr_init(&attributes) != 0 ||
        pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED) !=
            0 ||
        pthread_create(&thread, &attributes, serve, order) != 0)
        fake_die("no thread");
    (void)pthread_attr_destroy(&attributes);
    return order;
}

NOT_CHECKED void fake_free_order(struct fake_order *order)
{
    set_state(order, ENDING);
}

NOT_CHECKED void fake_call_ordered(
    struct fake_order *order, void (*function)(void *arg), void *arg)
{
    order->function = function;
    order->arg = arg;
    set_state(order, ASKED);
    (void)wait_while(order, ASKED);
}

#else

#include <stddef.h>

void fake_release(void *address)
{
    (void)address;
}

void fake_acquire(void *address)
{
    (void)address;
}

struct fake_order *fake_make_order(void)
{
    return NULL;
}

void fake_free_order(struct fake_order *order)
{
    (void)order;
}

void fake_call_ordered(
    struct fake_order *order, void (*function)(void *arg), void *arg)
{
    (void)order;
    function(arg);
}

#endif
