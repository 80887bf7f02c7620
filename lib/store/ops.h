/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The operations of a kind of store.  store.c checks the arguments, converts
 * seconds to deadlines and calls through this table, which hash.c, file.c,
 * tcp.c, prefix.c, user.c and fake_store.c fill in.
 */
#ifndef SYMC_STORE_OPS_H
#define SYMC_STORE_OPS_H

#include "base/base.h"

#include <symmcoll/store.h>

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

#define SYMC_STORE_KEY_MAX 4096         /* bytes, prefixes included */
#define SYMC_STORE_VALUE_MAX (16 << 20) /* bytes */
#define SYMC_KEY_TEXT 80                /* bytes of a key in a message */

/* A value: data is on the heap, with a zero byte after nbytes. */
struct symc_bytes {
    void *data;
    size_t nbytes;
};

enum symc_edit_kind {
    SYMC_EDIT_SET,
    SYMC_EDIT_ADD,
    SYMC_EDIT_APPEND,
    SYMC_EDIT_COMPARE_SET,
    SYMC_EDIT_DELETE,
    SYMC_EDIT_PUSH,
    SYMC_EDIT_POP
};

/* One change of one key: the request and its result. */
struct symc_edit {
    enum symc_edit_kind kind;
    const void *value; /* SET, APPEND, PUSH; COMPARE_SET: the new value */
    size_t nbytes;
    const void *expected; /* COMPARE_SET */
    size_t expected_nbytes;
    int64_t amount; /* ADD */

    bool existed;                        /* out: before the change */
    int64_t sum;                         /* out, ADD; PUSH: the new length */
    enum symmcoll_store_outcome outcome; /* out, COMPARE_SET */
    struct symc_bytes result; /* out, COMPARE_SET, POP: owned by the caller */
};

/* One of several keys that are set together. */
struct symc_pair {
    const char *key;
    struct symc_bytes value; /* borrowed */
};

/* Keys as text, one after another, each with its zero byte. */
struct symc_names {
    char *text; /* NULL: none */
    size_t nbytes, room;
    size_t count;
    size_t skip; /* bytes to omit at the beginning of each */
};

/* The request to end a watch: both members are set before wake() is called. */
struct symc_stop {
    atomic_bool requested;
    int fd; /* eventfd; becomes readable */
};

/*
 * The length of keys has been checked, except that a prefix can make one too
 * long.  A deadline in the past means: do not wait.
 */
struct symc_store_ops {
    const char *kind; /* "hash" */

    /* Adds a handle on the table; close() is called once for each. */
    void (*share)(void *table);
    void (*close)(void *table);

    /* Applies a change atomically and wakes the waiters for the key. */
    symmcoll_status_t (*edit)(void *table, const char *key,
        struct symc_edit *edit, int64_t deadline_ns);

    /* Copies a value, which the caller then owns; does not wait for the key. */
    symmcoll_status_t (*find)(void *table, const char *key, int64_t deadline_ns,
        bool *found, struct symc_bytes *value);

    /* Waits until all keys exist or until until_ns.  Checks them at least once,
     * and returns TIMEOUT if that takes beyond the deadline. missing is the
     * index of the first key that does not exist, or nkeys. */
    symmcoll_status_t (*wait)(void *table, const char *const *keys,
        size_t nkeys, int64_t until_ns, int64_t deadline_ns, size_t *missing);

    symmcoll_status_t (*count)(void *table, int64_t deadline_ns, size_t *count);

    /* Sets all keys or none, atomically for readers. */
    symmcoll_status_t (*set_all)(void *table, const struct symc_pair *pairs,
        size_t npairs, int64_t deadline_ns);

    /* Returns in length the number of values of a queue, 0 if the key is
     * absent. */
    symmcoll_status_t (*length)(
        void *table, const char *key, int64_t deadline_ns, size_t *length);

    /* Adds the keys that begin with a prefix. */
    symmcoll_status_t (*list)(void *table, const char *prefix,
        int64_t deadline_ns, struct symc_names *names);

    /* Waits until a key's value differs from `before`, or for `stop`.  A value
     * without data means absent. now (out) is owned by the caller.  Errors:
     * INVALID (a queue).  NULL: find() is polled. */
    symmcoll_status_t (*await_change)(void *table, const char *key,
        const struct symc_bytes *before, const struct symc_stop *stop,
        struct symc_bytes *now);

    /* Makes the threads in await_change() check their `stop`; NULL: not
     * needed. */
    void (*wake)(void *table);

    /* Returns the store that this one is a view of, borrowed; NULL: this kind
     * is not a view. */
    struct symmcoll_store *(*underlying)(void *table);
};

/* The public calls with counters. */
enum symc_store_call {
    SYMC_STORE_SET,
    SYMC_STORE_GET,
    SYMC_STORE_ADD,
    SYMC_STORE_APPEND,
    SYMC_STORE_COMPARE_SET,
    SYMC_STORE_DELETE,
    SYMC_STORE_WAIT,
    SYMC_STORE_CHECK,
    SYMC_STORE_MULTI_SET,
    SYMC_STORE_QUEUE_PUSH,
    SYMC_STORE_QUEUE_POP,
    SYMC_STORE_QUEUE_LEN,
    SYMC_STORE_NUM_KEYS,
    SYMC_STORE_LIST_KEYS,
    SYMC_STORE_CALLS
};

struct symc_counter {
    uint64_t count, failures;
    double mean;    /* seconds */
    double squares; /* sum of squared differences from the mean */
};

struct symmcoll_store {
    const struct symc_store_ops *ops;
    void *table;
    _Atomic double timeout;   /* seconds */
    double usual;             /* the timeout by default */
    pthread_mutex_t counting; /* lock of the counters */
    struct symc_counter counters[SYMC_STORE_CALLS];
};

/* Sets the timeout and its default.  No other thread may use the store yet. */
void symc_store_set_usual(struct symmcoll_store *store, double timeout);

/* Copies the timeout and its default from another store. */
void symc_store_copy_timeout(
    struct symmcoll_store *store, const struct symmcoll_store *other);

/* Makes a handle; takes the table, and closes it on failure. */
symmcoll_status_t symc_store_create(const struct symc_store_ops *ops,
    void *table, struct symmcoll_store **store);

/* As symmcoll_store_get(), with a deadline. absent (out): TIMEOUT because the
 * key does not exist, which has no detail, so that the caller can name what it
 * waited for; other TIMEOUTs have one. */
symmcoll_status_t symc_store_get_until(struct symmcoll_store *store,
    const char *key, int64_t deadline_ns, struct symc_bytes *value,
    bool *absent);

/* Returns the deadline of a call that begins now, by the store's timeout. */
int64_t symc_store_deadline(const struct symmcoll_store *store);

symmcoll_status_t symc_store_refuse_null(const char *where, const char *what);
symmcoll_status_t symc_store_fail_timeout(
    const char *where, const char *key, double timeout);

/* Check the arguments of a public call.  Errors: INVALID (NULL, too long). */
symmcoll_status_t symc_store_check_key(
    const struct symmcoll_store *store, const char *key, const char *where);
symmcoll_status_t symc_store_check_keys(const struct symmcoll_store *store,
    const char *const *keys, size_t nkeys, const char *where);
symmcoll_status_t symc_store_check_value(
    const void *value, size_t nbytes, const char *name, const char *where);

/* Runs one change until a deadline, and counts it unless it is a pop. */
symmcoll_status_t symc_store_edit(struct symmcoll_store *store, const char *key,
    struct symc_edit *edit, int64_t deadline_ns);

/* Counts a call that began at began_ns; returns its status. */
symmcoll_status_t symc_store_count(struct symmcoll_store *store,
    enum symc_store_call call, int64_t began_ns, symmcoll_status_t status);

/* Waits for keys until a deadline, as wait() in struct symc_store_ops. */
symmcoll_status_t symc_store_await(struct symmcoll_store *store,
    const char *const *keys, size_t nkeys, int64_t deadline_ns,
    size_t *missing);

/* Returns whether a store is a fake store, or a view of one. */
bool symc_store_is_fake(const struct symmcoll_store *store);

/* As symmcoll_store_open_file(), but waits for a folder of the path at most
 * until the deadline. */
symmcoll_status_t symc_store_open_file(const char *path, int num_workers,
    int64_t deadline_ns, struct symmcoll_store **store);

/* ---- watch.c ---- */

/* Returns whether two values are equal, or both absent. */
bool symc_bytes_equal(const struct symc_bytes *a, const struct symc_bytes *b);

/* As await_change() in struct symc_store_ops; also for kinds without it. */
symmcoll_status_t symc_store_await_change(const struct symc_store_ops *ops,
    void *table, const char *key, const struct symc_bytes *before,
    const struct symc_stop *stop, struct symc_bytes *now);

/* ---- keys.c ---- */

/* Adds a key to a list.  Errors: NO_MEMORY. */
symmcoll_status_t symc_names_add(struct symc_names *names, const char *key);

/* Sorts a list and removes duplicates.  Errors: NO_MEMORY. */
symmcoll_status_t symc_names_unique(struct symc_names *names);

/* ---- edit.c ---- */

/* Copies bytes to the heap, with a zero byte after them.  Errors: NO_MEMORY. */
symmcoll_status_t symc_bytes_copy(
    const void *data, size_t nbytes, struct symc_bytes *copy);

/* The content of a key; both NULL: absent. */
struct symc_item {
    const struct symc_bytes *value;
    const struct symc_queue *queue;
};

/* Values in the order in which they were added. */
struct symc_queue {
    struct symc_queued *first, *last;
    size_t length;
};

struct symc_queued {
    struct symc_queued *next;
    struct symc_bytes value;
};

/* The effect of an edit on a key. */
struct symc_change {
    enum {
        SYMC_KEEP,
        SYMC_PUT,
        SYMC_REMOVE,
        SYMC_PUSH,
        SYMC_POP /* a queue that becomes empty is removed */
    } what;
    struct symc_bytes value; /* PUT, PUSH: owned by the caller */
};

/*
 * Computes a change and fills in the edit's results; stores nothing.  Errors:
 * INVALID (not a number, overflow, too long, a queue where a value is expected
 * or the reverse), NO_MEMORY.
 */
symmcoll_status_t symc_edit_apply(struct symc_edit *edit, const char *key,
    struct symc_item present, struct symc_change *change);

/* Copies a key's value; found is false if it is absent.  Errors: INVALID (a
 * queue), NO_MEMORY. */
symmcoll_status_t symc_item_copy(const char *key, struct symc_item item,
    bool *found, struct symc_bytes *value);

/* Returns in length the length of a key's queue, 0 if it is absent.  Errors:
 * INVALID (a value). */
symmcoll_status_t symc_item_length(
    const char *key, struct symc_item item, size_t *length);

/* Report that a key has a queue, or a value, and return INVALID. */
symmcoll_status_t symc_fail_is_queue(const char *where, const char *key);
symmcoll_status_t symc_fail_is_value(const char *where, const char *key);

/* Formats a key for a message, truncated and printable, into a buffer of
 * SYMC_KEY_TEXT. */
const char *symc_key_text(const char *key, char *buffer);

#endif
