/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A store is the small key-value table through which ranks find each other and
 * agree on small values.  Keys and values are bytes; counters are decimal text.
 * Any thread may use a store; a blocked call may hold up other calls on the
 * same object, so take a clone for a second thread.  A key has at most 4096
 * bytes, its prefixes included, a value 16 MiB.
 *
 * Source: torch.distributed.Store.           Manual: symmcoll_store_get(3).
 */
#ifndef SYMMCOLL_STORE_H
#define SYMMCOLL_STORE_H

#include <symmcoll/types.h>

SYMMCOLL_BEGIN_DECLS

struct symmcoll_store;

/* What symmcoll_store_compare_set() found. */
enum symmcoll_store_outcome {
    SYMMCOLL_STORE_CREATED = 0,  /* absent, as expected: desired was stored */
    SYMMCOLL_STORE_ABSENT = 1,   /* absent, not as expected: nothing stored */
    SYMMCOLL_STORE_REPLACED = 2, /* equal to expected: desired was stored */
    SYMMCOLL_STORE_DIFFERS = 3   /* different: nothing stored */
};

/* A table in this process, for threads.  Clones share it. */
SYMMCOLL_CHECKED
symmcoll_status_t symmcoll_store_create_hash(struct symmcoll_store **store);

/* A store that keeps nothing, for ranks without their peers: to changes every
 * key is absent, to reading calls it is there and empty, and no call blocks. */
SYMMCOLL_CHECKED
symmcoll_status_t symmcoll_store_create_fake(struct symmcoll_store **store);

/*
 * A table in a file that all ranks can open. path must be new: a file that
 * another run left there is refused with INVALID where that can be detected.
 * The last of num_workers to close removes it; num_workers <= 0: it stays.  A
 * folder of path that is not there yet is waited for, for two seconds at most.
 */
SYMMCOLL_CHECKED
symmcoll_status_t symmcoll_store_open_file(
    const char *path, int num_workers, struct symmcoll_store **store);

/*
 * A table at a server that speaks the Redis protocol, for ranks on several
 * machines too.  Calls of several threads do not hold each other up.
 */
struct symmcoll_store_tcp_args {
    size_t size;     /* sizeof(struct symmcoll_store_tcp_args) */
    const char *url; /* "redis://[user[:password]@]host[:port][/db]"; rediss:
                        for TLS; port 6379 if there is none; or
                        "unix://[user[:password]@]/PATH[?db=N]" */
    const char *password_file; /* its first line; NULL: the URL's, or none */
    const char *tls_ca;        /* file of the authorities; NULL: the system's */
    const char *tls_cert; /* file of this client's certificate; NULL: none */
    const char *tls_key;  /* file of its key; NULL: in tls_cert */
    const char *job;      /* whose keys these are; NULL: "default" */
    int num_workers;      /* how many will open it; 0: not known */
    int wait_workers;     /* 1: return when all of them have */
    double timeout;       /* for opening, and the store's; negative: 300 s */
    int serve; /* 1: serve the table here, at the URL's host and port, 0 being
                  any, until the store is closed */
    int listen_fd; /* with serve: a socket that listens there, and nowhere else,
                      already, taken if the call succeeds; 0: none */
};
#define SYMMCOLL_STORE_TCP_ARGS_INIT                                          \
    {                                                                         \
        sizeof(struct symmcoll_store_tcp_args), NULL, NULL, NULL, NULL, NULL, \
            NULL, 0, 0, -1, 0, 0                                              \
    }

/*
 * Connect; a server that is not there yet is waited for.  The last of
 * num_workers to close removes the job's keys, which otherwise go a day after
 * the last process that had it open.
 *
 * Errors: INVALID (an argument, the password, a certificate), TIMEOUT, SYSTEM,
 * NO_MEMORY, UNSUPPORTED (built without hiredis, or TLS without OpenSSL).
 */
SYMMCOLL_CHECKED
symmcoll_status_t symmcoll_store_open_tcp(
    const struct symmcoll_store_tcp_args *args, struct symmcoll_store **store);

/* The port of a tcp store's server, also through views; 0: no tcp store. */
SYMMCOLL_API
int symmcoll_store_port(const struct symmcoll_store *store);

/*
 * A store of the program's own.  Every function is passed user; several threads
 * may call them at the same time.  timeout is the time that is left, in seconds,
 * 0 where the call is not to block: a function that exceeds it holds its caller
 * up.  A function returns OK or an error of enum symmcoll_status and sets its
 * outputs, the last arguments, only then.  Values are bytes; a key ends with a
 * zero byte.
 */
struct symmcoll_store_functions {
    size_t size; /* sizeof(struct symmcoll_store_functions) */
    void *user;  /* borrowed until close */

    /* Whether a key exists, and a copy of its value, from malloc(): taken.
     * Does not wait for the key.  NULL: made of check and wait_get. */
    symmcoll_status_t (*get)(void *user, const char *key, double timeout,
        int *found, void **value, size_t *nbytes);

    /* Store a value, over an older one.  NULL: made of compare_set; one of the
     * two is required. */
    symmcoll_status_t (*set)(void *user, const char *key, const void *value,
        size_t nbytes, double timeout);

    /* Store desired where the key holds expected, or where it is absent if
     * expected is NULL; stored says whether.  It must be one step to others.
     * NULL: UNSUPPORTED, as is what would be made of it; joining needs it. */
    symmcoll_status_t (*compare_set)(void *user, const char *key,
        const void *expected, size_t expected_nbytes, const void *desired,
        size_t desired_nbytes, double timeout, int *stored);

    /* As symmcoll_store_add() and symmcoll_store_append().  NULL: made of
     * compare_set. */
    symmcoll_status_t (*add)(void *user, const char *key, int64_t amount,
        double timeout, int64_t *sum);
    symmcoll_status_t (*append)(void *user, const char *key, const void *value,
        size_t nbytes, double timeout);

    /* As symmcoll_store_delete() and symmcoll_store_num_keys().  NULL:
     * UNSUPPORTED. */
    symmcoll_status_t (*remove)(
        void *user, const char *key, double timeout, int *removed);
    symmcoll_status_t (*num_keys)(void *user, double timeout, size_t *count);

    /* Wait until all keys exist; TIMEOUT where they do not.  NULL: get is asked
     * again and again. */
    symmcoll_status_t (*wait)(
        void *user, const char *const *keys, size_t nkeys, double timeout);

    /* The last handle has been closed; may be NULL. */
    void (*close)(void *user);

    /* Whether all keys exist; does not wait for them.  NULL: made of get. */
    symmcoll_status_t (*check)(void *user, const char *const *keys,
        size_t nkeys, double timeout, int *exist);

    /* For a store that cannot look without waiting: as get, of a key that check
     * has found, which may have gone meanwhile: then TIMEOUT. */
    symmcoll_status_t (*wait_get)(void *user, const char *key, double timeout,
        void **value, size_t *nbytes);

    /* For a store whose compare_set returns a value alone, from malloc(): desired
     * where it was stored, the present value where that differs, expected where
     * the key is absent.  Used where compare_set is NULL, for compare_set only:
     * who finds desired there cannot tell who stored it. */
    symmcoll_status_t (*compare_set_value)(void *user, const char *key,
        const void *expected, size_t expected_nbytes, const void *desired,
        size_t desired_nbytes, double timeout, void **value, size_t *nbytes);
};
#define SYMMCOLL_STORE_FUNCTIONS_INIT                                          \
    {                                                                          \
        sizeof(struct symmcoll_store_functions), NULL, NULL, NULL, NULL, NULL, \
            NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL                     \
    }

/* Make a handle on such a store, which has no queues and lists (UNSUPPORTED).
 * The struct is copied; where this fails nothing has been called.  Errors:
 * INVALID (get and one of those it is made of, or set and compare_set, are
 * NULL), NO_MEMORY. */
SYMMCOLL_CHECKED
symmcoll_status_t symmcoll_store_create_user(
    const struct symmcoll_store_functions *functions,
    struct symmcoll_store **store);

/* A view of another store in which every key becomes prefix/key.  The other is
 * cloned, not taken. */
SYMMCOLL_CHECKED
symmcoll_status_t symmcoll_store_create_prefix(struct symmcoll_store *store,
    const char *prefix, struct symmcoll_store **view);

/* A second handle on the same table, with a timeout of its own. */
SYMMCOLL_CHECKED
symmcoll_status_t symmcoll_store_clone(
    struct symmcoll_store *store, struct symmcoll_store **clone);

/* The store a view is made of, one level down.  Borrowed from the view; NULL
 * for a store that is no view. */
SYMMCOLL_API
struct symmcoll_store *symmcoll_store_underlying(
    const struct symmcoll_store *store);

/* Release a handle; NULL is fine. */
SYMMCOLL_API
void symmcoll_store_close(struct symmcoll_store *store);

/* The timeout of blocking calls in seconds, 300 at first; negative: what it was
 * at first.  Errors: INVALID (NULL, NaN). */
SYMMCOLL_CHECKED
symmcoll_status_t symmcoll_store_set_timeout(
    struct symmcoll_store *store, double timeout);
/* The same, and the timeout before (out, or NULL), to be set again later. */
SYMMCOLL_CHECKED
symmcoll_status_t symmcoll_store_swap_timeout(
    struct symmcoll_store *store, double timeout, double *previous);
SYMMCOLL_API
double symmcoll_store_timeout(const struct symmcoll_store *store);

/* Store a value, over an older one. */
SYMMCOLL_CHECKED
symmcoll_status_t symmcoll_store_set(struct symmcoll_store *store,
    const char *key, const void *value, size_t nbytes);

/*
 * Wait until key exists, then take a copy of its value.
 * value   out: release with free(); a zero byte follows the value
 * nbytes  out: without that byte
 * Errors: TIMEOUT (names the key).
 */
SYMMCOLL_CHECKED
symmcoll_status_t symmcoll_store_get(struct symmcoll_store *store,
    const char *key, void **value, size_t *nbytes);

/* Add to a counter, made as 0 where absent; sum (out, or NULL) is the result.
 * Errors: INVALID (the value is no number). */
SYMMCOLL_CHECKED
symmcoll_status_t symmcoll_store_add(struct symmcoll_store *store,
    const char *key, int64_t amount, int64_t *sum);

/* Wait until all nkeys keys exist.  timeout: negative is the store's.
 * Errors: TIMEOUT (names the first missing key). */
SYMMCOLL_CHECKED
symmcoll_status_t symmcoll_store_wait(struct symmcoll_store *store,
    const char *const *keys, size_t nkeys, double timeout);

/* Whether all nkeys keys exist; never waits for one. */
SYMMCOLL_CHECKED
symmcoll_status_t symmcoll_store_check(struct symmcoll_store *store,
    const char *const *keys, size_t nkeys, int *exist);

/*
 * Store desired where key holds expected (0 bytes: where it is absent).
 * outcome  out, may be NULL: which case it was
 * value    out: desired where it was stored, the present value where it
 *          differs, expected where the key is absent; release with free()
 */
SYMMCOLL_CHECKED
symmcoll_status_t symmcoll_store_compare_set(struct symmcoll_store *store,
    const char *key, const void *expected, size_t expected_nbytes,
    const void *desired, size_t desired_nbytes,
    enum symmcoll_store_outcome *outcome, void **value, size_t *nbytes);

/* Append bytes to a value, made empty where absent. */
SYMMCOLL_CHECKED
symmcoll_status_t symmcoll_store_append(struct symmcoll_store *store,
    const char *key, const void *value, size_t nbytes);

/*
 * Several keys by one call. keys, values and nbytes are arrays of nkeys.
 *
 * multi_set sets all or none, and nobody sees some of them before the rest; in a
 * store of the program's own they are set one after the other.
 * multi_get waits for all; on failure it returns none.
 * values  out: release each with free()
 * Errors: as symmcoll_store_set() and symmcoll_store_get().
 */
SYMMCOLL_CHECKED
symmcoll_status_t symmcoll_store_multi_set(struct symmcoll_store *store,
    const char *const *keys, const void *const *values, const size_t *nbytes,
    size_t nkeys);
SYMMCOLL_CHECKED
symmcoll_status_t symmcoll_store_multi_get(struct symmcoll_store *store,
    const char *const *keys, void **values, size_t *nbytes, size_t nkeys);

/* Remove a key; removed (out, or NULL) says whether it was there. */
SYMMCOLL_CHECKED
symmcoll_status_t symmcoll_store_delete(
    struct symmcoll_store *store, const char *key, int *removed);

/*
 * A key may hold a queue instead of a value.  push puts a value after the
 * others and makes the queue where the key is absent; pop takes the first, and
 * removes the key with the last one.  Each value goes to one pop.
 *
 * timeout  of pop, for an empty queue: negative is the store's, 0 does not
 * block value    out: release with free(); a zero byte follows the value length
 * out: 0 where the key is absent
 *
 * Errors: INVALID (the key holds a value), TIMEOUT (the queue is empty).
 */
SYMMCOLL_CHECKED
symmcoll_status_t symmcoll_store_queue_push(struct symmcoll_store *store,
    const char *key, const void *value, size_t nbytes);
SYMMCOLL_CHECKED
symmcoll_status_t symmcoll_store_queue_pop(struct symmcoll_store *store,
    const char *key, double timeout, void **value, size_t *nbytes);
SYMMCOLL_CHECKED
symmcoll_status_t symmcoll_store_queue_len(
    struct symmcoll_store *store, const char *key, size_t *length);

/*
 * Wait until count ranks have called this with the same key.  It can be used
 * again with the same key, unless it failed.
 *
 * rank     from 0 to count - 1, a different one in each call
 * timeout  negative is the store's, 0 does not block
 *
 * Errors: INVALID, MISMATCH (count), TIMEOUT (names the ranks that are
 * missing).
 */
SYMMCOLL_CHECKED
symmcoll_status_t symmcoll_store_barrier(struct symmcoll_store *store,
    const char *key, int rank, int count, double timeout);

/* What a watch tells. */
struct symmcoll_store_event {
    const char *key;   /* as it was passed to symmcoll_store_watch() */
    const void *value; /* what the key holds, and a zero byte; NULL: it is
                          absent */
    size_t nbytes;     /* without that byte */
    symmcoll_status_t status; /* not OK: the watch has ended with this error,
                                 and symmcoll_last_error() has its detail */
};

/* A key that is watched. */
struct symmcoll_watch;

/*
 * Call a function whenever a key holds another value than before, from a thread
 * of the watch.  The first change that is told is one after this call has
 * returned.  Of changes that follow each other quickly only the last may be
 * told, and none where the key then holds what it held.
 *
 * changed  may call any function for stores; symmcoll_watch_free() too
 * event    borrowed until changed returns; later releases append members
 * watch    out: release with symmcoll_watch_free(), before or after the store
 *
 * hash and tcp stores are told of a change; of a file, a store of the program's
 * own and a server that others change by commands of their own the key is read
 * again and again.
 *
 * Errors: INVALID (NULL, or the key holds a queue, then or later), what the
 * store returns when it is read, SYSTEM (no thread), NO_MEMORY.
 * Source: torch.distributed.Store.watch_key.  Manual: symmcoll_store_watch(3).
 */
SYMMCOLL_CHECKED
symmcoll_status_t symmcoll_store_watch(struct symmcoll_store *store,
    const char *key,
    void (*changed)(const struct symmcoll_store_event *event, void *arg),
    void *arg, struct symmcoll_watch **watch);

/* End a watch; NULL is fine.  The function does not run any more when this has
 * returned, unless it is the function that calls it, for the last time.  A tcp
 * store's server that does not answer, to a connection that is being opened, and
 * a file that stays locked may each keep it for 5 seconds. */
SYMMCOLL_API
void symmcoll_watch_free(struct symmcoll_watch *watch);

/*
 * All keys, sorted by their bytes; of a view those with its prefix, without it.
 * keys   out: count texts and a NULL; release all with one free(keys)
 */
SYMMCOLL_CHECKED
symmcoll_status_t symmcoll_store_list_keys(
    struct symmcoll_store *store, char ***keys, size_t *count);

/* How many keys there are, the store's own bookkeeping included. */
SYMMCOLL_CHECKED
symmcoll_status_t symmcoll_store_num_keys(
    struct symmcoll_store *store, size_t *count);

/* How often a kind of call has returned on a handle, and how long it took. */
struct symmcoll_store_counter {
    const char *name;  /* "set", "queue_pop", ...: of symmcoll_store_set() */
    uint64_t count;    /* calls that have returned, refused ones not counted */
    uint64_t failures; /* of these, with an error */
    double mean;       /* seconds */
    double variance;   /* seconds squared; 0 for less than two calls */
};

/*
 * Call a function for the counter of each kind of call on this handle; clones
 * and views have their own.  A barrier counts as the calls of which it is made,
 * a multi_get as its gets.
 *
 * counter  borrowed until each returns; later releases append members
 *
 * Errors: INVALID (NULL).
 * Source: torch's TCPStore.collect_client_counters.
 */
SYMMCOLL_CHECKED
symmcoll_status_t symmcoll_store_each_counter(struct symmcoll_store *store,
    void (*each)(const struct symmcoll_store_counter *counter, void *arg),
    void *arg);

SYMMCOLL_END_DECLS

#endif
