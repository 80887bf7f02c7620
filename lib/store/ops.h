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
    SYMC_EDIT_DELETE
};

/* One change of one key: the request and its result. */
struct symc_edit {
    enum symc_edit_kind kind;
    const void *value; /* SET, APPEND; what COMPARE_SET desires */
    size_t nbytes;
    const void *expected; /* COMPARE_SET */
    size_t expected_nbytes;
    int64_t amount; /* ADD */

    bool existed;                        /* out: before the change */
    int64_t sum;                         /* out, ADD */
    enum symmcoll_store_outcome outcome; /* out, COMPARE_SET */
    struct symc_bytes result;            /* out, COMPARE_SET: the caller's */
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

    /* Wait until all keys exist.  missing is nkeys then, else the number of the
     * first key that was not there at the deadline. */
    symmcoll_status_t (*wait)(void *table, const char *const *keys,
        size_t nkeys, int64_t deadline_ns, size_t *missing);

    symmcoll_status_t (*count)(void *table, int64_t deadline_ns, size_t *count);

    /* The store this one is a view of, borrowed; NULL: none ever. */
    struct symmcoll_store *(*underlying)(void *table);
};

struct symmcoll_store {
    const struct symc_store_ops *ops;
    void *table;
    _Atomic double timeout; /* seconds */
    double usual;           /* the same where none is set */
};

/* Set both, of a store that nobody else has yet. */
void symc_store_set_usual(struct symmcoll_store *store, double timeout);

/* Set both to another store's. */
void symc_store_copy_timeout(
    struct symmcoll_store *store, const struct symmcoll_store *other);

/* Make a handle; the table is taken, and closed where that fails. */
symmcoll_status_t symc_store_create(const struct symc_store_ops *ops,
    void *table, struct symmcoll_store **store);

/* As symmcoll_store_get(), until a deadline; TIMEOUT keeps no detail, so that
 * the caller can say what it waited for. */
symmcoll_status_t symc_store_get_until(struct symmcoll_store *store,
    const char *key, int64_t deadline_ns, struct symc_bytes *value);

/* ---- edit.c ---- */

/* A copy on the heap, with a zero byte after it.  Errors: NO_MEMORY. */
symmcoll_status_t symc_bytes_copy(
    const void *data, size_t nbytes, struct symc_bytes *copy);

/* What an edit does to a key. */
struct symc_change {
    enum {
        SYMC_KEEP,
        SYMC_PUT,
        SYMC_REMOVE
    } what;
    struct symc_bytes value; /* PUT: the caller's */
};

/*
 * Compute a change and fill in the edit's results; nothing is stored. present
 * is the value there, NULL where there is none.  Errors: INVALID (not a number,
 * overflow, too long), NO_MEMORY.
 */
symmcoll_status_t symc_edit_apply(struct symc_edit *edit, const char *key,
    const struct symc_bytes *present, struct symc_change *change);

/* A key as text for a message, cut and printable; buffer of SYMC_KEY_TEXT. */
const char *symc_key_text(const char *key, char *buffer);

#endif
