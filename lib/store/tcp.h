/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The shared part of the tcp store's files: tcp_links.c, tcp_request.c, tcp_read.c
 * and tcp_edit.c, tcp_watch.c and tcp_renew.c, tcp.c.
 *
 * A user's key K is PREFIX/K at the server, where PREFIX is symmcoll:JOB: ; the
 * store's own keys have no slash after PREFIX.  A change or a deletion of a key
 * publishes on the key's channel in the same transaction; waits and watches
 * subscribe to that channel.
 */
#ifndef SYMC_STORE_TCP_H
#define SYMC_STORE_TCP_H

#include "store/link.h"
#include "store/secret.h"

#include <pthread.h>
#include <sys/types.h>

#define SYMC_JOB_MAX 255                    /* bytes */
#define SYMC_TCP_PREFIX (SYMC_JOB_MAX + 16) /* "symmcoll:JOB:" with its zero */
#define SYMC_TCP_KEY (SYMC_TCP_PREFIX + SYMC_STORE_KEY_MAX + 2)
#define SYMC_TCP_VERSION "1" /* of the layout of keys and channels */
#define SYMC_TCP_LINKS 8     /* idle connections that are kept */
/* interval at which a wait reads again */
#define SYMC_TCP_REREAD_NS (10 * SYMC_NS_PER_S)
/* timeout of a watch's replies */
#define SYMC_TCP_ANSWER_NS (5 * SYMC_NS_PER_S)
#define SYMC_TCP_LIFE "86400" /* seconds until an unused key expires */

struct symc_renewal;

struct symc_tcp {
    pthread_mutex_t lock; /* of all that changes */
    size_t handles;
    pid_t pid; /* a child after fork() has its own connections */
    struct symc_link *links[SYMC_TCP_LINKS];
    size_t nlinks;
    /* Of this process; NULL: none.  A child after fork() frees its copy without
     * locking it: the lock may be held by a thread that the child does not
     * have. */
    struct symc_renewal *renewal;
    struct symc_place place;
    char prefix[SYMC_TCP_PREFIX];
    int num_workers; /* 0: unknown */
    bool joined;
    struct symc_server *server;         /* of this process; NULL: none */
    char secret_path[SYMC_SECRET_PATH]; /* of its password; "": no file */
};

/* A key at the server. */
struct symc_tcp_key {
    char text[SYMC_TCP_KEY];
    size_t nbytes;
};

/* ---- tcp_links.c ---- */

void symc_tcp_name(
    const struct symc_tcp *tcp, const char *key, struct symc_tcp_key *name);
struct symc_arg symc_tcp_arg(const struct symc_tcp_key *name);

/* Returns the deadline of a reply for a call's deadline: later if that has passed or
 * is near, so that the server can reply, and never unlimited. */
int64_t symc_tcp_grace(int64_t deadline_ns);

/* Takes a connection for one call.  It must be returned with symc_tcp_give(),
 * in any state. */
symmcoll_status_t symc_tcp_take(
    struct symc_tcp *tcp, int64_t deadline_ns, struct symc_link **link);
void symc_tcp_give(struct symc_tcp *tcp, struct symc_link *link);
void symc_tcp_close_links(struct symc_tcp *tcp);

/* Checks a reply's type; converts an error reply, or one of another type, to a
 * status. */
symmcoll_status_t symc_tcp_check(const char *key,
    const struct symc_reply *reply, enum symc_reply_type expected);

/* ---- tcp_request.c ---- */

/* The state of a call about one key. */
struct symc_tcp_call {
    struct symc_tcp *tcp;
    struct symc_link *link;
    const char *key; /* the user's key */
    struct symc_tcp_key name;
    int64_t deadline_ns; /* of each reply */
};

/* Begins a call: sets the key's name and takes a connection. symc_tcp_end()
 * must be called once if it succeeds. */
symmcoll_status_t symc_tcp_begin(struct symc_tcp *tcp, const char *key,
    int64_t deadline_ns, struct symc_tcp_call *call);
void symc_tcp_end(const struct symc_tcp_call *call);

/* A command about the call's key without further arguments. */
struct symc_tcp_question {
    const char *command; /* "GET" */
    bool text;           /* its reply is a value or none; otherwise a number */
    /* Reports a key of the other kind; NULL: both kinds are valid. */
    symmcoll_status_t (*refuse)(const char *where, const char *key);
};

struct symc_tcp_answer {
    bool found;              /* a value, or a number above 0 */
    struct symc_bytes value; /* owned by the caller */
    int64_t number;
};

/* Sends a command and receives its reply; `where` is the public call, for
 * messages. */
symmcoll_status_t symc_tcp_request(const struct symc_tcp_call *call,
    const struct symc_tcp_question *question, const char *where,
    struct symc_tcp_answer *answer);

/* Receives and frees the next reply; only an error reply matters. */
symmcoll_status_t symc_tcp_expect(const struct symc_tcp_call *call);

/* Sends a command and receives its reply, of which only an error matters. */
symmcoll_status_t symc_tcp_order(const struct symc_tcp_call *call,
    const struct symc_arg *args, size_t nargs);

/* Returns whether a reply reports a key of the other kind. */
bool symc_tcp_is_wrong_type(const struct symc_reply *reply);

/* Commands that the server runs in one transaction.  A failure is kept until
 * the end. */
struct symc_tcp_batch {
    const struct symc_tcp_call *call;
    size_t count;
    symmcoll_status_t status;
};

void symc_tcp_batch_begin(
    struct symc_tcp_batch *batch, const struct symc_tcp_call *call);
void symc_tcp_batch_add(
    struct symc_tcp_batch *batch, const struct symc_arg *args, size_t nargs);

/* Runs the transaction. list (out) has one reply per command, or is NULL if a
 * watched key has changed; nothing has been run then. */
symmcoll_status_t symc_tcp_batch_run(
    struct symc_tcp_batch *batch, struct symc_reply **list);

/* ---- tcp_read.c ---- */

symmcoll_status_t symc_tcp_find(void *table, const char *key,
    int64_t deadline_ns, bool *found, struct symc_bytes *value);
symmcoll_status_t symc_tcp_wait(void *table, const char *const *keys,
    size_t nkeys, int64_t until_ns, int64_t deadline_ns, size_t *missing);
symmcoll_status_t symc_tcp_count(
    void *table, int64_t deadline_ns, size_t *count);
symmcoll_status_t symc_tcp_length(
    void *table, const char *key, int64_t deadline_ns, size_t *length);
symmcoll_status_t symc_tcp_list(void *table, const char *prefix,
    int64_t deadline_ns, struct symc_names *names);

/* Lists every key with a prefix, by its name at the server, each once. */
symmcoll_status_t symc_tcp_scan(const struct symc_tcp_call *call,
    const char *prefix, struct symc_names *names);

/* Runs a command about a key and subscribes to the key's channel in one
 * transaction. list (out): the replies to both. */
symmcoll_status_t symc_tcp_subscribe(const struct symc_tcp_call *call,
    const char *command, struct symc_reply **list);
symmcoll_status_t symc_tcp_unsubscribe(const struct symc_tcp_call *call);

/* ---- tcp_watch.c ---- */

symmcoll_status_t symc_tcp_await_change(void *table, const char *key,
    const struct symc_bytes *before, const struct symc_stop *stop,
    struct symc_bytes *now);

/* ---- tcp_edit.c ---- */

symmcoll_status_t symc_tcp_edit(
    void *table, const char *key, struct symc_edit *edit, int64_t deadline_ns);
symmcoll_status_t symc_tcp_set_all(void *table, const struct symc_pair *pairs,
    size_t npairs, int64_t deadline_ns);

/* Adds to one of the store's own counters. */
symmcoll_status_t symc_tcp_add_own(struct symc_tcp *tcp, const char *name,
    int64_t amount, int64_t deadline_ns, int64_t *sum);

/* ---- tcp_renew.c ---- */

/* Removes each key of the job, or sets its expiry to a day from now. */
symmcoll_status_t symc_tcp_for_each(
    struct symc_tcp *tcp, bool remove, int64_t deadline_ns);

/* Start a thread that prolongs the life of all keys at intervals; stop it,
 * where NULL is valid. */
symmcoll_status_t symc_renewal_start(
    struct symc_tcp *tcp, int64_t every_ns, struct symc_renewal **renewal);
void symc_renewal_stop(struct symc_renewal *renewal);

/* Changes the interval and returns after `rounds` further rounds.  For tests,
 * which cannot wait for hours. */
void symc_renewal_every(
    struct symc_renewal *renewal, int64_t every_ns, uint64_t rounds);

#endif
