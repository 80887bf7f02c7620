/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A store is a small key-value table, through which ranks find each other and
 * exchange small values.  Keys and values are bytes; counters are decimal text.
 * Any thread may use a store; a call that waits may delay other calls on the
 * same handle, so use a clone for a second thread.  A key has at most 4096
 * bytes, including prefixes, a value 16 MiB.
 *
 * Source: torch.distributed.Store.           Manual: symmcoll_store_get(3).
 */
#ifndef SYMMCOLL_STORE_H
#define SYMMCOLL_STORE_H

#include <symmcoll/types.h>

SYMMCOLL_BEGIN_DECLS

struct symmcoll_store;

/* The cases of symmcoll_store_compare_set(). */
enum symmcoll_store_outcome {
    SYMMCOLL_STORE_CREATED = 0,  /* absent, as expected: desired was stored */
    SYMMCOLL_STORE_ABSENT = 1,   /* absent, not as expected: nothing stored */
    SYMMCOLL_STORE_REPLACED = 2, /* equal to expected: desired was stored */
    SYMMCOLL_STORE_DIFFERS = 3   /* different: nothing stored */
};

/* Creates a table in this process, for ranks that are threads.  Clones share
 * it. */
SYMMCOLL_CHECKED
symmcoll_status_t symmcoll_store_create_hash(struct symmcoll_store **store);

/* Creates a store that keeps nothing, for a rank without its peers: changes
 * succeed as if the key were absent, every key exists with an empty value, and
 * no call blocks. */
SYMMCOLL_CHECKED
symmcoll_status_t symmcoll_store_create_fake(struct symmcoll_store **store);

/*
 * Opens a table in a file that all ranks can open.  path must be new: a file
 * that another run left is refused with INVALID where that can be detected.
 * The last of num_workers to close removes the file; with num_workers <= 0 it
 * remains.  Waits up to two seconds for a folder of path that does not exist
 * yet.
 */
SYMMCOLL_CHECKED
symmcoll_status_t symmcoll_store_open_file(
    const char *path, int num_workers, struct symmcoll_store **store);

/*
 * A table at a server of the Redis protocol, also for ranks on several
 * machines.  Calls of several threads do not delay each other.
 */
struct symmcoll_store_tcp_args {
    size_t size;     /* sizeof(struct symmcoll_store_tcp_args) */
    const char *url; /* "redis://[user[:password]@]host[:port][/db]"; rediss:
                        for TLS; default port 6379; or
                        "unix://[user[:password]@]/PATH[?db=N]" */
    const char *password_file; /* its first line; NULL: the URL's password */
    const char *tls_ca;        /* trusted authorities; NULL: the system's */
    const char *tls_cert; /* file of this client's certificate; NULL: none */
    const char *tls_key;  /* file of its key; NULL: in tls_cert */
    const char *job;      /* each job has its own keys; NULL: "default" */
    int num_workers;      /* number of processes that open it; 0: unknown */
    int wait_workers;     /* 1: return when all of them have opened it */
    double timeout;       /* of the call, then of the store; negative: 300 s */
    int serve; /* 1: serve the table in this process at the URL's host and port,
                  until the store is closed; port 0: any */
    int listen_fd; /* with serve: a socket that already listens at exactly that
                      address; taken if the call succeeds; 0: none */
};
#define SYMMCOLL_STORE_TCP_ARGS_INIT                                          \
    {                                                                         \
        sizeof(struct symmcoll_store_tcp_args), NULL, NULL, NULL, NULL, NULL, \
            NULL, 0, 0, -1, 0, 0                                              \
    }

/*
 * Opens a tcp store; waits for a server that does not listen yet.  The last of
 * num_workers to close removes the job's keys; otherwise they expire a day
 * after the last process has ended.
 *
 * Errors: INVALID (an argument, the password, a certificate; more processes
 * than num_workers), TIMEOUT, SYSTEM, NO_MEMORY, UNSUPPORTED (built without
 * hiredis, or TLS without OpenSSL; another version of the library opened the
 * job's store).
 */
SYMMCOLL_CHECKED
symmcoll_status_t symmcoll_store_open_tcp(
    const struct symmcoll_store_tcp_args *args, struct symmcoll_store **store);

/* Returns the port of a tcp store's server, also through views; 0 for any other
 * store. */
SYMMCOLL_API
int symmcoll_store_port(const struct symmcoll_store *store);

/*
 * The functions of a store of the program.  Each is passed user; several
 * threads may call them at the same time.  timeout is the remaining time in
 * seconds, 0 if the call must not block; the library does not interrupt a
 * function that exceeds it.  A function returns OK or an error of enum
 * symmcoll_status, and sets its outputs, the last arguments, only with OK.
 * Values are bytes; a key ends with a zero byte.
 */
struct symmcoll_store_functions {
    size_t size; /* sizeof(struct symmcoll_store_functions) */
    void *user;  /* borrowed until close */

    /* Returns whether a key exists, and a copy of its value, from malloc():
     * taken.  Does not wait for the key.  NULL: made of check and wait_get. */
    symmcoll_status_t (*get)(void *user, const char *key, double timeout,
        int *found, void **value, size_t *nbytes);

    /* Stores a value, and replaces an older one.  NULL: made of compare_set;
     * one of the two is required. */
    symmcoll_status_t (*set)(void *user, const char *key, const void *value,
        size_t nbytes, double timeout);

    /* Stores desired if the value is expected or, with expected NULL, if the
     * key is absent; stored (out) is 1 if it did.  Has to be atomic.  NULL:
     * calls that need it are UNSUPPORTED.  symmcoll_init() needs it, or
     * compare_set_value. */
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

    /* Waits until all keys exist, else TIMEOUT.  NULL: the library polls. */
    symmcoll_status_t (*wait)(
        void *user, const char *const *keys, size_t nkeys, double timeout);

    /* Called when the last handle has been closed.  May be NULL. */
    void (*close)(void *user);

    /* Returns whether all keys exist, without waiting.  NULL: made of get. */
    symmcoll_status_t (*check)(void *user, const char *const *keys,
        size_t nkeys, double timeout, int *exist);

    /* Used with check if get is NULL: returns a copy of a value as get does,
     * but waits for the key.  TIMEOUT if a key that check found is gone. */
    symmcoll_status_t (*wait_get)(void *user, const char *key, double timeout,
        void **value, size_t *nbytes);

    /* Used if compare_set is NULL, only for symmcoll_store_compare_set().  Does
     * the same, but returns only a value, from malloc(): desired if it was
     * stored, the present value if that differs, expected if the key is absent.
     * The result does not show which process stored desired. */
    symmcoll_status_t (*compare_set_value)(void *user, const char *key,
        const void *expected, size_t expected_nbytes, const void *desired,
        size_t desired_nbytes, double timeout, void **value, size_t *nbytes);
};
#define SYMMCOLL_STORE_FUNCTIONS_INIT                                          \
    {                                                                          \
        sizeof(struct symmcoll_store_functions), NULL, NULL, NULL, NULL, NULL, \
            NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL                     \
    }

/* Creates a handle on a store of the program, which has no queues and lists of
 * keys (UNSUPPORTED).  The struct is copied; after an error no function has
 * been called.  Errors: INVALID (get is NULL, and check or wait_get; or set and
 * compare_set are NULL), NO_MEMORY. */
SYMMCOLL_CHECKED
symmcoll_status_t symmcoll_store_create_user(
    const struct symmcoll_store_functions *functions,
    struct symmcoll_store **store);

/* Creates a view of another store, in which a key stands for prefix/key.  The
 * other store is cloned, not taken. */
SYMMCOLL_CHECKED
symmcoll_status_t symmcoll_store_create_prefix(struct symmcoll_store *store,
    const char *prefix, struct symmcoll_store **view);

/* Creates a second handle on the same table, with its own timeout. */
SYMMCOLL_CHECKED
symmcoll_status_t symmcoll_store_clone(
    struct symmcoll_store *store, struct symmcoll_store **clone);

/* Returns the store that a view was made of.  Borrowed from the view; NULL for
 * a store that is not a view. */
SYMMCOLL_API
struct symmcoll_store *symmcoll_store_underlying(
    const struct symmcoll_store *store);

/* Releases a handle; NULL is valid. */
SYMMCOLL_API
void symmcoll_store_close(struct symmcoll_store *store);

/* Sets the timeout of waiting calls, in seconds, initially 300; negative: the
 * initial one.  Errors: INVALID (NULL, NaN). */
SYMMCOLL_CHECKED
symmcoll_status_t symmcoll_store_set_timeout(
    struct symmcoll_store *store, double timeout);
/* Sets the timeout as symmcoll_store_set_timeout() does, and returns the
 * previous one (out, or NULL). */
SYMMCOLL_CHECKED
symmcoll_status_t symmcoll_store_swap_timeout(
    struct symmcoll_store *store, double timeout, double *previous);
SYMMCOLL_API
double symmcoll_store_timeout(const struct symmcoll_store *store);

/* Stores a value, and replaces an older one. */
SYMMCOLL_CHECKED
symmcoll_status_t symmcoll_store_set(struct symmcoll_store *store,
    const char *key, const void *value, size_t nbytes);

/*
 * Waits until a key exists, and returns a copy of its value.
 * value   out: release with free(); a zero byte follows the value
 * nbytes  out: without that byte
 * Errors: TIMEOUT (the detail names the key).
 */
SYMMCOLL_CHECKED
symmcoll_status_t symmcoll_store_get(struct symmcoll_store *store,
    const char *key, void **value, size_t *nbytes);

/* Adds to a counter, which is created as 0 if absent; sum (out, or NULL) is the
 * result.  Errors: INVALID (the value is not a number; overflow). */
SYMMCOLL_CHECKED
symmcoll_status_t symmcoll_store_add(struct symmcoll_store *store,
    const char *key, int64_t amount, int64_t *sum);

/* Waits until all nkeys keys exist.  timeout: negative is the store's.
 * Errors: TIMEOUT (the detail names the first missing key). */
SYMMCOLL_CHECKED
symmcoll_status_t symmcoll_store_wait(struct symmcoll_store *store,
    const char *const *keys, size_t nkeys, double timeout);

/* Returns whether all nkeys keys exist, without waiting for them. */
SYMMCOLL_CHECKED
symmcoll_status_t symmcoll_store_check(struct symmcoll_store *store,
    const char *const *keys, size_t nkeys, int *exist);

/*
 * Stores desired if the value is expected (0 bytes: also if the key is absent).
 * outcome  out, may be NULL: the case
 * value    out, may be NULL: desired if it was stored, the present value if it
 *          differs, expected if the key is absent; release with free()
 */
SYMMCOLL_CHECKED
symmcoll_status_t symmcoll_store_compare_set(struct symmcoll_store *store,
    const char *key, const void *expected, size_t expected_nbytes,
    const void *desired, size_t desired_nbytes,
    enum symmcoll_store_outcome *outcome, void **value, size_t *nbytes);

/* Appends bytes to a value, which is created empty if absent. */
SYMMCOLL_CHECKED
symmcoll_status_t symmcoll_store_append(struct symmcoll_store *store,
    const char *key, const void *value, size_t nbytes);

/*
 * Set or get several keys in one call.  keys, values and nbytes are arrays of
 * nkeys.
 *
 * multi_set sets all keys or none, atomically; in a store of the program one
 * after the other.  multi_get waits for all keys; after an error it returns no
 * value.
 * values  out: release each with free()
 * Errors: those of symmcoll_store_set() and symmcoll_store_get().
 */
SYMMCOLL_CHECKED
symmcoll_status_t symmcoll_store_multi_set(struct symmcoll_store *store,
    const char *const *keys, const void *const *values, const size_t *nbytes,
    size_t nkeys);
SYMMCOLL_CHECKED
symmcoll_status_t symmcoll_store_multi_get(struct symmcoll_store *store,
    const char *const *keys, void **values, size_t *nbytes, size_t nkeys);

/* Removes a key; removed (out, or NULL) is 1 if it existed, else 0. */
SYMMCOLL_CHECKED
symmcoll_status_t symmcoll_store_delete(
    struct symmcoll_store *store, const char *key, int *removed);

/*
 * Queues: a key may hold a queue in place of a value.  push appends a value,
 * and creates the queue if the key is absent; pop takes the first value, and
 * removes the key with the last one.  Each value is returned by one pop only.
 *
 * timeout  of pop, if the queue is empty: negative is the store's, 0 does not
 *          block
 * value    out: release with free(); a zero byte follows the value
 * length   out: 0 if the key is absent
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
 * Waits until count ranks have called it with the same key.  The key can be
 * used again, unless the call failed.
 *
 * rank     from 0 to count - 1, a different one in each call
 * timeout  negative is the store's, 0 does not block
 *
 * Errors: INVALID, MISMATCH (count), TIMEOUT (the detail names the missing
 * ranks).
 */
SYMMCOLL_CHECKED
symmcoll_status_t symmcoll_store_barrier(struct symmcoll_store *store,
    const char *key, int rank, int count, double timeout);

/* A change of a watched key, or the end of its watch. */
struct symmcoll_store_event {
    const char *key;   /* as passed to symmcoll_store_watch() */
    const void *value; /* the present value, and a zero byte; NULL: the key
                          is absent */
    size_t nbytes;     /* without that byte */
    symmcoll_status_t status; /* not OK: the watch has ended with this error,
                                 and symmcoll_last_error() has its detail */
};

/* A thread that watches a key. */
struct symmcoll_watch;

/*
 * Calls a function, in a thread of the watch, when the value of a key has
 * changed.  Changes after the return of this call are reported.  Of several
 * changes in quick succession only the last may be reported, and none if the
 * value is then the same as before.
 *
 * changed  may call any function for stores, also symmcoll_watch_free()
 * event    borrowed until changed returns; later releases may append members
 * watch    out: release with symmcoll_watch_free(), before or after the store
 *
 * hash and tcp stores are notified of changes.  The key is polled in a file, in
 * a store of the program, and for changes that other programs make at a server.
 *
 * Errors: INVALID (NULL; the key holds a queue, at the call or later), those of
 * reading the store, SYSTEM (a thread cannot be created), NO_MEMORY.
 * Source: torch.distributed.Store.watch_key.  Manual: symmcoll_store_watch(3).
 */
SYMMCOLL_CHECKED
symmcoll_status_t symmcoll_store_watch(struct symmcoll_store *store,
    const char *key,
    void (*changed)(const struct symmcoll_store_event *event, void *arg),
    void *arg, struct symmcoll_watch **watch);

/* Ends a watch; NULL is valid.  Waits until the function has returned, except
 * if the function makes this call; it is not called after that.  A tcp server
 * that does not answer while a connection is opened, and a file that stays
 * locked, may each delay it by 5 seconds. */
SYMMCOLL_API
void symmcoll_watch_free(struct symmcoll_watch *watch);

/*
 * Lists all keys, sorted by their bytes; in a view, those with its prefix,
 * without the prefix.
 * keys   out: count texts and a NULL; release all with one free(keys)
 */
SYMMCOLL_CHECKED
symmcoll_status_t symmcoll_store_list_keys(
    struct symmcoll_store *store, char ***keys, size_t *count);

/* Counts the keys, including those that the store keeps for itself. */
SYMMCOLL_CHECKED
symmcoll_status_t symmcoll_store_num_keys(
    struct symmcoll_store *store, size_t *count);

/* Statistics of one kind of call on a handle. */
struct symmcoll_store_counter {
    const char *name;  /* "set", "queue_pop", ...: for symmcoll_store_set() */
    uint64_t count;    /* completed calls, without those with bad arguments */
    uint64_t failures; /* of these, calls that returned an error */
    double mean;       /* of the duration, in seconds */
    double variance;   /* in seconds squared; 0 for less than two calls */
};

/*
 * Calls a function with the statistics of each kind of call on this handle;
 * clones and views have their own.  A barrier counts as the calls that it
 * consists of, a multi_get as its gets.
 *
 * counter  borrowed until each returns; later releases may append members
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
