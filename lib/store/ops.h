/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The operations of a kind of store. store.c checks the arguments, turns
 * seconds into deadlines and calls through this table; hash.c, file.c and
 * prefix.c fill it in.
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
#define SYMC_KEY_TEXT 80                /* bytes of a key shown in a message */

/* A value; data is on the heap, with a zero byte after nbytes. */
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
    const void *value; /* SET, APPEND, PUSH; what COMPARE_SET desires */
    size_t nbytes;
    const void *expected; /* COMPARE_SET */
    size_t expected_nbytes;
    int64_t amount; /* ADD */

    bool existed;                        /* out: before the change */
    int64_t sum;                         /* out, ADD; PUSH: the new length */
    enum symmcoll_store_outcome outcome; /* out, COMPARE_SET */
    struct symc_bytes result; /* out, COMPARE_SET, POP: the caller's */
};

/* One key of several that are set at once. */
struct symc_pair {
    const char *key;
    struct symc_bytes value; /* borrowed */
};

/* Keys as text, one after the other, each with its zero byte. */
struct symc_names {
    char *text; /* NULL: none */
    size_t nbytes, room;
    size_t count;
    size_t skip; /* bytes that are left out at the beginning of each */
};

/* How a watch is ended: both are set before wake() is called. */
struct symc_stop {
    atomic_bool asked;
    int fd; /* eventfd; becomes readable */
};

/*
 * The length of keys has been checked before, except that a prefix can make one
 * too long.  A deadline passed already means: do not wait.
 */
struct symc_store_ops {
    const char *kind; /* "hash" */

    /* One more handle on the same table; close() once for each. */
    void (*share)(void *table);
    void (*close)(void *table);

    /* Apply a change atomically and wake those who wait for the key. */
    symmcoll_status_t (*edit)(void *table, const char *key,
        struct symc_edit *edit, int64_t deadline_ns);

    /* Copy a value, which becomes the caller's; does not wait for the key. */
    symmcoll_status_t (*find)(void *table, const char *key, int64_t deadline_ns,
        bool *found, struct symc_bytes *value);

    /* Waits until all keys exist, or until a time; looks at them at least once,
     * and returns TIMEOUT if that has not ended by the deadline.  missing is
     * nkeys where all exist, else the number of the first that does not. */
    symmcoll_status_t (*wait)(void *table, const char *const *keys,
        size_t nkeys, int64_t until_ns, int64_t deadline_ns, size_t *missing);

    symmcoll_status_t (*count)(void *table, int64_t deadline_ns, size_t *count);

    /* Set all keys or none, atomically for readers. */
    symmcoll_status_t (*set_all)(void *table, const struct symc_pair *pairs,
        size_t npairs, int64_t deadline_ns);

    /* How many values a queue has, 0 where the key is absent. */
    symmcoll_status_t (*length)(
        void *table, const char *key, int64_t deadline_ns, size_t *length);

    /* Add the keys that begin with a prefix. */
    symmcoll_status_t (*list)(void *table, const char *prefix,
        int64_t deadline_ns, struct symc_names *names);

    /* Wait until a key holds another value than before, or stop.  A value
     * without data: absent.  now (out) is the caller's.  Errors: INVALID (a
     * queue).  NULL: find is asked again and again. */
    symmcoll_status_t (*await_change)(void *table, const char *key,
        const struct symc_bytes *before, const struct symc_stop *stop,
        struct symc_bytes *now);

    /* Have those in await_change look at their stop; NULL: they need not be
     * told. */
    void (*wake)(void *table);

    /* The store this one is a view of, borrowed; NULL: none ever. */
    struct symmcoll_store *(*underlying)(void *table);
};

/* Public calls that are counted. */
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
    double squares; /* of the differences from it, added up */
};

struct symmcoll_store {
    const struct symc_store_ops *ops;
    void *table;
    _Atomic double timeout;   /* seconds */
    double usual;             /* the same where none is set */
    pthread_mutex_t counting; /* what follows */
    struct symc_counter counters[SYMC_STORE_CALLS];
};

/* Set both, of a store that no other thread uses yet. */
void symc_store_set_usual(struct symmcoll_store *store, double timeout);

/* Set both to another store's. */
void symc_store_copy_timeout(
    struct symmcoll_store *store, const struct symmcoll_store *other);

/* Make a handle; the table is taken, and closed where that fails. */
symmcoll_status_t symc_store_create(const struct symc_store_ops *ops,
    void *table, struct symmcoll_store **store);

/* Does what symmcoll_store_get() does, until a deadline.  absent (out): TIMEOUT
 * because the key is not there, which has no detail, so that the caller can say
 * what it waited for; other TIMEOUTs have one. */
symmcoll_status_t symc_store_get_until(struct symmcoll_store *store,
    const char *key, int64_t deadline_ns, struct symc_bytes *value,
    bool *absent);

/* The deadline of a call that begins now, by the store's timeout. */
int64_t symc_store_deadline(const struct symmcoll_store *store);

symmcoll_status_t symc_store_refuse_null(const char *where, const char *what);
symmcoll_status_t symc_store_fail_timeout(
    const char *where, const char *key, double timeout);

/* Errors: INVALID (NULL, too long). */
symmcoll_status_t symc_store_check_key(
    const struct symmcoll_store *store, const char *key, const char *where);
symmcoll_status_t symc_store_check_keys(const struct symmcoll_store *store,
    const char *const *keys, size_t nkeys, const char *where);
symmcoll_status_t symc_store_check_value(
    const void *value, size_t nbytes, const char *name, const char *where);

/* Run one change, until a deadline, and count it, except a pop. */
symmcoll_status_t symc_store_edit(struct symmcoll_store *store, const char *key,
    struct symc_edit *edit, int64_t deadline_ns);

/* Count a call that began at a time; returns its status. */
symmcoll_status_t symc_store_count(struct symmcoll_store *store,
    enum symc_store_call call, int64_t began_ns, symmcoll_status_t status);

/* As the kind's wait. */
symmcoll_status_t symc_store_await(struct symmcoll_store *store,
    const char *const *keys, size_t nkeys, int64_t deadline_ns,
    size_t *missing);

/* Whether it is a fake store, or a view of one. */
bool symc_store_is_fake(const struct symmcoll_store *store);

/* As symmcoll_store_open_file(), which waits for a folder of the path for two
 * seconds, but until a deadline at most. */
symmcoll_status_t symc_store_open_file(const char *path, int num_workers,
    int64_t deadline_ns, struct symmcoll_store **store);

/* ---- watch.c ---- */

/* Whether two values, or the lack of them, are the same. */
bool symc_bytes_equal(const struct symc_bytes *a, const struct symc_bytes *b);

/* As the kind's await_change, for kinds that have none too. */
symmcoll_status_t symc_store_await_change(const struct symc_store_ops *ops,
    void *table, const char *key, const struct symc_bytes *before,
    const struct symc_stop *stop, struct symc_bytes *now);

/* ---- keys.c ---- */

/* Errors: NO_MEMORY. */
symmcoll_status_t symc_names_add(struct symc_names *names, const char *key);

/* Sort them and drop what is there twice.  Errors: NO_MEMORY. */
symmcoll_status_t symc_names_unique(struct symc_names *names);

/* ---- edit.c ---- */

/* A copy on the heap, with a zero byte after it.  Errors: NO_MEMORY. */
symmcoll_status_t symc_bytes_copy(
    const void *data, size_t nbytes, struct symc_bytes *copy);

/* What a key holds: both NULL where it is absent. */
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

/* What an edit does to a key. */
struct symc_change {
    enum {
        SYMC_KEEP,
        SYMC_PUT,
        SYMC_REMOVE,
        SYMC_PUSH,
        SYMC_POP /* a queue that becomes empty is removed */
    } what;
    struct symc_bytes value; /* PUT, PUSH: the caller's */
};

/*
 * Compute a change and fill in the edit's results; nothing is stored.  Errors:
 * INVALID (not a number, overflow, too long, a queue where a value is expected
 * or the other way round), NO_MEMORY.
 */
symmcoll_status_t symc_edit_apply(struct symc_edit *edit, const char *key,
    struct symc_item present, struct symc_change *change);

/* Copy a key's value; found is false where it is absent.  Errors: INVALID (a
 * queue), NO_MEMORY. */
symmcoll_status_t symc_item_copy(const char *key, struct symc_item item,
    bool *found, struct symc_bytes *value);

/* The length of a key's queue, 0 where it is absent.  Errors: INVALID. */
symmcoll_status_t symc_item_length(
    const char *key, struct symc_item item, size_t *length);

/* Report that a key holds a queue, or a value.  They return INVALID. */
symmcoll_status_t symc_fail_is_queue(const char *where, const char *key);
symmcoll_status_t symc_fail_is_value(const char *where, const char *key);

/* A key as text for a message, cut and printable; buffer of SYMC_KEY_TEXT. */
const char *symc_key_text(const char *key, char *buffer);

#endif
