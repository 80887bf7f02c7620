/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Watching keys: each watch has a thread that waits for a change, in the way
 * its kind of store supports, and calls the user's function.
 */
#include "base/cancel.h"
#include "base/descriptor.h"
#include "base/thread.h"
#include "store/ops.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#define LOOK_MS 20                  /* interval at which a key is polled */
#define LOOK_NS (5 * SYMC_NS_PER_S) /* timeout of one read */

struct symmcoll_watch {
    struct symmcoll_store *store; /* a clone, owned by this watch */
    void (*changed)(const struct symmcoll_store_event *event, void *arg);
    void *arg;
    struct symc_stop stop;
    struct symc_bytes value; /* last one reported */
    pthread_t thread;
    pid_t pid;     /* a child after fork() does not have the thread */
    bool detached; /* freed by its own function, in its own thread */
    char key[];
};

bool symc_bytes_equal(const struct symc_bytes *a, const struct symc_bytes *b)
{
    if (a->data == NULL || b->data == NULL)
        return a->data == NULL && b->data == NULL;
    return a->nbytes == b->nbytes &&
           (a->nbytes == 0 || memcmp(a->data, b->data, a->nbytes) == 0);
}

/* ---- waiting for a change ---- */

static symmcoll_status_t read_key(const struct symc_store_ops *ops, void *table,
    const char *key, int64_t deadline_ns, struct symc_bytes *value)
{
    bool found = false;
    symmcoll_status_t status =
        ops->find(table, key, deadline_ns, &found, value);

    if (status == SYMMCOLL_OK && !found)
        *value = (struct symc_bytes){NULL, 0};
    return status;
}

/* Polls a key until its value changes or the watch is stopped. */
static symmcoll_status_t look_again_and_again(const struct symc_store_ops *ops,
    void *table, const char *key, const struct symc_bytes *before,
    const struct symc_stop *stop, struct symc_bytes *now)
{
    struct pollfd stopped = {.fd = stop->fd, .events = POLLIN};
    symmcoll_status_t status = SYMMCOLL_OK;

    while (!atomic_load(&stop->requested)) {
        status = read_key(ops, table, key, symc_now_ns() + LOOK_NS, now);
        if (status != SYMMCOLL_OK || !symc_bytes_equal(now, before))
            return status;
        free(now->data);
        *now = (struct symc_bytes){NULL, 0};
        poll(&stopped, 1, LOOK_MS);
    }
    return status;
}

symmcoll_status_t symc_store_await_change(const struct symc_store_ops *ops,
    void *table, const char *key, const struct symc_bytes *before,
    const struct symc_stop *stop, struct symc_bytes *now)
{
    if (ops->await_change != NULL)
        return ops->await_change(table, key, before, stop, now);
    return look_again_and_again(ops, table, key, before, stop, now);
}

/* ---- the thread ---- */

static void free_watch(struct symmcoll_watch *watch)
{
    symmcoll_store_close(watch->store);
    close(watch->stop.fd);
    free(watch->value.data);
    free(watch);
}

/* Calls the user's function with the current value. */
static void call_user(struct symmcoll_watch *watch, symmcoll_status_t status)
{
    const struct symmcoll_store_event event = {.key = watch->key,
        .value = watch->value.data,
        .nbytes = watch->value.nbytes,
        .status = status};

    watch->changed(&event, watch->arg);
}

static void *run_watch(void *arg)
{
    struct symmcoll_watch *watch = arg;
    symmcoll_status_t status = SYMMCOLL_OK;

    while (status == SYMMCOLL_OK && !atomic_load(&watch->stop.requested)) {
        struct symc_bytes now = {NULL, 0};

        status = symc_store_await_change(watch->store->ops, watch->store->table,
            watch->key, &watch->value, &watch->stop, &now);
        if (atomic_load(&watch->stop.requested)) {
            free(now.data);
            break;
        }
        free(watch->value.data);
        watch->value = now;
        call_user(watch, status);
    }
    if (watch->detached)
        free_watch(watch);
    return NULL;
}

/* ---- the calls ---- */

static symmcoll_status_t start_watch(
    struct symmcoll_watch *made, struct symmcoll_watch **watch)
{
    struct symmcoll_watch *before = *watch;
    symmcoll_status_t status = read_key(made->store->ops, made->store->table,
        made->key, symc_store_deadline(made->store), &made->value);

    if (status != SYMMCOLL_OK)
        return status;
    /* Set before the function can be called, because the function may free the
     * watch before symc_thread_start() returns. */
    *watch = made;
    status = symc_thread_start(&made->thread, "symc-watch", 0, run_watch, made);
    if (status != SYMMCOLL_OK)
        *watch = before;
    return status;
}

static symmcoll_status_t watch_key(struct symmcoll_store *store,
    const char *key,
    void (*changed)(const struct symmcoll_store_event *event, void *arg),
    void *arg, struct symmcoll_watch **watch)
{
    static const char where[] = "store_watch";
    symmcoll_status_t status = symc_store_check_key(store, key, where);
    struct symmcoll_watch *made;
    size_t length;

    if (status != SYMMCOLL_OK)
        return status;
    if (changed == NULL || watch == NULL)
        return symc_store_refuse_null(
            where, changed == NULL ? "changed" : "watch");
    length = strlen(key) + 1;
    made = symc_alloc(1, sizeof(*made) + length);
    if (made == NULL)
        return SYMMCOLL_ERR_NO_MEMORY;
    memcpy(made->key, key, length);
    made->changed = changed;
    made->arg = arg;
    made->pid = getpid();
    made->stop.fd =
        symc_descriptor_raise(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
    if (made->stop.fd < 0) {
        status = symc_fail_descriptor(errno, where);
        free(made);
        return status;
    }
    status = symmcoll_store_clone(store, &made->store);
    if (status == SYMMCOLL_OK)
        status = start_watch(made, watch);
    if (status != SYMMCOLL_OK) {
        struct symc_error error;

        symc_error_keep(&error, status); /* closing may fail as well */
        free_watch(made);
        return symc_error_return(&error);
    }
    return SYMMCOLL_OK;
}

symmcoll_status_t symmcoll_store_watch(struct symmcoll_store *store,
    const char *key,
    void (*changed)(const struct symmcoll_store_event *event, void *arg),
    void *arg, struct symmcoll_watch **watch)
{
    int cancel = symc_cancel_disable();
    symmcoll_status_t status = watch_key(store, key, changed, arg, watch);

    symc_cancel_restore(cancel);
    return status;
}

void symmcoll_watch_free(struct symmcoll_watch *watch)
{
    const uint64_t one = 1;
    int cancel;

    if (watch == NULL)
        return;
    cancel = symc_cancel_disable();
    atomic_store(&watch->stop.requested, true);
    if (watch->pid == getpid() &&
        pthread_equal(watch->thread, pthread_self())) {
        watch->detached = true;
        pthread_detach(watch->thread);
    } else {
        if (watch->pid == getpid()) {
            /* Cannot fail: the counter is 0. */
            (void)!write(watch->stop.fd, &one, sizeof(one));
            if (watch->store->ops->wake != NULL)
                watch->store->ops->wake(watch->store->table);
            pthread_join(watch->thread, NULL);
        }
        free_watch(watch);
    }
    symc_cancel_restore(cancel);
}
