/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A store implemented by the program on top of a hash store, with functions
 * that can fail, return nonsense or take too long.
 */
#ifndef T_STORE_TABLE_H
#define T_STORE_TABLE_H

#include "t/tap.h"

#include <symmcoll.h>

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* The behaviour of the table's functions, and how often they were called. */
struct table {
    struct symmcoll_store *inner;
    pthread_mutex_t lock;
    _Atomic symmcoll_status_t status; /* returned by all functions, if not OK */
    bool value_is_null;
    size_t nbytes; /* reported for every value, if not 0 */
    bool stores_nothing;
    bool wait_is_early;
    double wait_takes;
    _Atomic int adds, appends, waits, closes, sets;
};

static inline symmcoll_status_t get(void *user, const char *key, double timeout,
    int *found, void **value, size_t *nbytes)
{
    struct table *table = user;

    (void)timeout;
    if (table->status != SYMMCOLL_OK)
        return table->status;
    if (symmcoll_store_check(table->inner, &key, 1, found) != SYMMCOLL_OK)
        return SYMMCOLL_ERR_INTERNAL;
    if (!*found)
        return SYMMCOLL_OK;
    if (symmcoll_store_get(table->inner, key, value, nbytes) != SYMMCOLL_OK)
        return SYMMCOLL_ERR_INTERNAL;
    if (table->nbytes != 0)
        *nbytes = table->nbytes;
    if (table->value_is_null) {
        free(*value);
        *value = NULL;
    }
    return SYMMCOLL_OK;
}

static inline symmcoll_status_t set(void *user, const char *key,
    const void *value, size_t nbytes, double timeout)
{
    struct table *table = user;

    (void)timeout;
    atomic_fetch_add(&table->sets, 1);
    return table->status != SYMMCOLL_OK
               ? table->status
               : symmcoll_store_set(table->inner, key, value, nbytes);
}

/* Appears as one step to others: under a lock, since NULL differs from an
 * empty value. */
static inline symmcoll_status_t compare_set(void *user, const char *key,
    const void *expected, size_t expected_nbytes, const void *desired,
    size_t desired_nbytes, double timeout, int *stored)
{
    struct table *table = user;
    symmcoll_status_t status;
    void *value = NULL;
    size_t nbytes = 0;
    int found = 0;

    if (table->stores_nothing)
        return SYMMCOLL_OK;
    pthread_mutex_lock(&table->lock);
    status = get(user, key, timeout, &found, &value, &nbytes);
    *stored = expected == NULL
                  ? !found
                  : found && nbytes == expected_nbytes &&
                        (nbytes == 0 || memcmp(value, expected, nbytes) == 0);
    if (status == SYMMCOLL_OK && *stored)
        status = symmcoll_store_set(table->inner, key, desired, desired_nbytes);
    pthread_mutex_unlock(&table->lock);
    free(value);
    return status;
}

static inline symmcoll_status_t check(void *user, const char *const *keys,
    size_t nkeys, double timeout, int *exist)
{
    struct table *table = user;

    (void)timeout;
    return table->status != SYMMCOLL_OK
               ? table->status
               : symmcoll_store_check(table->inner, keys, nkeys, exist);
}

static inline symmcoll_status_t wait_get(
    void *user, const char *key, double timeout, void **value, size_t *nbytes)
{
    struct table *table = user;

    if (symmcoll_store_set_timeout(table->inner, timeout) != SYMMCOLL_OK)
        return SYMMCOLL_ERR_INTERNAL;
    return symmcoll_store_get(table->inner, key, value, nbytes);
}

static inline symmcoll_status_t compare_set_value(void *user, const char *key,
    const void *expected, size_t expected_nbytes, const void *desired,
    size_t desired_nbytes, double timeout, void **value, size_t *nbytes)
{
    struct table *table = user;

    (void)timeout;
    return table->status != SYMMCOLL_OK
               ? table->status
               : symmcoll_store_compare_set(table->inner, key, expected,
                     expected_nbytes, desired, desired_nbytes, NULL, value,
                     nbytes);
}

static inline symmcoll_status_t add(
    void *user, const char *key, int64_t amount, double timeout, int64_t *sum)
{
    struct table *table = user;

    (void)timeout;
    atomic_fetch_add(&table->adds, 1);
    return symmcoll_store_add(table->inner, key, amount, sum);
}

static inline symmcoll_status_t append(void *user, const char *key,
    const void *value, size_t nbytes, double timeout)
{
    struct table *table = user;

    (void)timeout;
    atomic_fetch_add(&table->appends, 1);
    return symmcoll_store_append(table->inner, key, value, nbytes);
}

static inline symmcoll_status_t remove_key(
    void *user, const char *key, double timeout, int *removed)
{
    struct table *table = user;

    (void)timeout;
    return symmcoll_store_delete(table->inner, key, removed);
}

static inline symmcoll_status_t num_keys(
    void *user, double timeout, size_t *count)
{
    struct table *table = user;

    (void)timeout;
    return table->status != SYMMCOLL_OK
               ? table->status
               : symmcoll_store_num_keys(table->inner, count);
}

static inline symmcoll_status_t wait_for(
    void *user, const char *const *keys, size_t nkeys, double timeout)
{
    struct table *table = user;
    struct timespec time = {0, (long)(table->wait_takes * 1e9)};

    atomic_fetch_add(&table->waits, 1);
    if (table->wait_takes > 0) {
        nanosleep(&time, NULL);
        return SYMMCOLL_ERR_TIMEOUT;
    }
    return table->wait_is_early
               ? SYMMCOLL_OK
               : symmcoll_store_wait(table->inner, keys, nkeys, timeout);
}

static inline void close_table(void *user)
{
    struct table *table = user;

    symmcoll_store_close(table->inner);
    atomic_fetch_add(&table->closes, 1);
}

static inline void make_table(struct table *table)
{
    memset(table, 0, sizeof(*table));
    pthread_mutex_init(&table->lock, NULL);
    if (symmcoll_store_create_hash(&table->inner) != SYMMCOLL_OK)
        exit(1);
}

/* Returns the functions that a store needs for the whole contract. */
static inline struct symmcoll_store_functions least(struct table *table)
{
    struct symmcoll_store_functions functions = SYMMCOLL_STORE_FUNCTIONS_INIT;

    make_table(table);
    functions.user = table;
    functions.get = get;
    functions.compare_set = compare_set;
    functions.remove = remove_key;
    functions.num_keys = num_keys;
    functions.close = close_table;
    return functions;
}

static inline struct symmcoll_store *open_store(
    const struct symmcoll_store_functions *functions)
{
    struct symmcoll_store *store = NULL;

    if (symmcoll_store_create_user(functions, &store) != SYMMCOLL_OK) {
        diag("%s", symmcoll_last_error());
        exit(1);
    }
    return store;
}

#endif
