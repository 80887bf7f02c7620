/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A tcp store as its files share it: tcp_links.c, tcp_ask.c, then tcp_read.c
 * and tcp_edit.c, then tcp.c.
 *
 * A user's key K is PREFIX/K at the server, where PREFIX is symmcoll:JOB: ; the
 * store's own keys have no slash there.  What changes or
 * deletes a key tells the key's channel in the same transaction; a wait and a
 * watch subscribe to that.
 */
#ifndef SYMC_STORE_TCP_H
#define SYMC_STORE_TCP_H

#include "store/link.h"
#include "store/secret.h"

#include <pthread.h>
#include <sys/types.h>

#define SYMC_JOB_MAX 255                    /* bytes */
#define SYMC_TCP_PREFIX (SYMC_JOB_MAX + 16) /* "symmcoll:JOB:", zero included */
#define SYMC_TCP_KEY (SYMC_TCP_PREFIX + SYMC_STORE_KEY_MAX + 2)
#define SYMC_TCP_VERSION "1" /* of what the keys and channels mean */
#define SYMC_TCP_LINKS 8     /* connections that are kept for the next call */
#define SYMC_TCP_ASK_NS (10 * SYMC_NS_PER_S)   /* a wait asks again after it */
#define SYMC_TCP_ANSWER_NS (5 * SYMC_NS_PER_S) /* for a watch's connection */
#define SYMC_TCP_LIFE "86400" /* seconds after which an unused key goes */

struct symc_renewal;

struct symc_tcp {
    pthread_mutex_t lock; /* all that changes */
    size_t handles;
    pid_t pid; /* a child after fork() has connections of its own */
    struct symc_link *links[SYMC_TCP_LINKS];
    size_t nlinks;
    /* Of this process; NULL: none.  A child after fork() frees its copy, as it
     * is: its lock may be held by the thread that the child does not have. */
    struct symc_renewal *renewal;
    struct symc_place place;
    char prefix[SYMC_TCP_PREFIX];
    int num_workers; /* 0: not said */
    bool joined;
    struct symc_server *server;         /* of this process; NULL: none */
    char secret_path[SYMC_SECRET_PATH]; /* of its password; "": no file */
};

/* A key as the server knows it. */
struct symc_tcp_key {
    char text[SYMC_TCP_KEY];
    size_t nbytes;
};

/* ---- tcp_links.c ---- */

void symc_tcp_name(
    const struct symc_tcp *tcp, const char *key, struct symc_tcp_key *name);
struct symc_arg symc_tcp_arg(const struct symc_tcp_key *name);

/* The deadline of an answer by that of its call: a little later if that is over,
 * so that a server can answer, and never for ever. */
int64_t symc_tcp_grace(int64_t deadline_ns);

/* A connection for one call; give it back, whatever became of it. */
symmcoll_status_t symc_tcp_take(
    struct symc_tcp *tcp, int64_t deadline_ns, struct symc_link **link);
void symc_tcp_give(struct symc_tcp *tcp, struct symc_link *link);
void symc_tcp_close_links(struct symc_tcp *tcp);

/* Turn an error reply into a status; a reply of another type than expected is
 * an error, too. */
symmcoll_status_t symc_tcp_check(const char *key,
    const struct symc_reply *reply, enum symc_reply_type expected);

/* ---- tcp_ask.c ---- */

/* What a call about one key needs at the server. */
struct symc_tcp_call {
    struct symc_tcp *tcp;
    struct symc_link *link;
    const char *key; /* as the user calls it */
    struct symc_tcp_key name;
    int64_t deadline_ns; /* for each answer */
};

/* Begin a call: name the key, take a connection.  End it, once, if that
 * succeeded. */
symmcoll_status_t symc_tcp_begin(struct symc_tcp *tcp, const char *key,
    int64_t deadline_ns, struct symc_tcp_call *call);
void symc_tcp_end(const struct symc_tcp_call *call);

/* A command about the call's key that has no further arguments. */
struct symc_tcp_question {
    const char *command; /* "GET" */
    bool text;           /* its answer: a value or nothing, else a number */
    /* Refuse a key of the other kind; NULL: both kinds will do. */
    symmcoll_status_t (*refuse)(const char *where, const char *key);
};

struct symc_tcp_answer {
    bool found;              /* a value, or a number above 0 */
    struct symc_bytes value; /* the caller's */
    int64_t number;
};

/* where: the public call, for messages. */
symmcoll_status_t symc_tcp_ask(const struct symc_tcp_call *call,
    const struct symc_tcp_question *question, const char *where,
    struct symc_tcp_answer *answer);

/* The next reply, which is freed: only an error of the server counts. */
symmcoll_status_t symc_tcp_expect(const struct symc_tcp_call *call);

/* A command without an answer that matters. */
symmcoll_status_t symc_tcp_order(const struct symc_tcp_call *call,
    const struct symc_arg *args, size_t nargs);

/* Whether a reply says that a key holds the other kind. */
bool symc_tcp_is_wrong_type(const struct symc_reply *reply);

/* Commands that the server runs in one step.  A failure is kept until the
 * end. */
struct symc_tcp_batch {
    const struct symc_tcp_call *call;
    size_t count;
    symmcoll_status_t status;
};

void symc_tcp_batch_begin(
    struct symc_tcp_batch *batch, const struct symc_tcp_call *call);
void symc_tcp_batch_add(
    struct symc_tcp_batch *batch, const struct symc_arg *args, size_t nargs);

/* Run them.  list (out) has a reply for each, and is NULL where a watched key
 * has changed, in which case nothing has been run. */
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

/* Every key with a prefix, as the server knows it, each once. */
symmcoll_status_t symc_tcp_scan(const struct symc_tcp_call *call,
    const char *prefix, struct symc_names *names);

/* Run a command about a key and subscribe to the key's channel, in one step.
 * list (out): the command's reply, and the subscription's. */
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

/* Add to one of the store's own counters. */
symmcoll_status_t symc_tcp_add_own(struct symc_tcp *tcp, const char *name,
    int64_t amount, int64_t deadline_ns, int64_t *sum);

/* ---- tcp_renew.c ---- */

/* Remove each key of the job, or have it live for another day. */
symmcoll_status_t symc_tcp_for_each(
    struct symc_tcp *tcp, bool remove, int64_t deadline_ns);

/* Prolong all lives at times, until it is stopped; NULL is fine then. */
symmcoll_status_t symc_renewal_start(
    struct symc_tcp *tcp, int64_t every_ns, struct symc_renewal **renewal);
void symc_renewal_stop(struct symc_renewal *renewal);

/* From now on as often as this; return after so many more times.  For tests,
 * which cannot wait for hours. */
void symc_renewal_every(
    struct symc_renewal *renewal, int64_t every_ns, uint64_t rounds);

#endif
