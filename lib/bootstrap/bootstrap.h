/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The bootstrap: the ranks of one machine exchange the descriptors of their
 * arenas through a server, in the launcher or else in rank 0.  Once a rank has
 * received everybody's descriptors it does not need the server any more: what
 * is exchanged later goes from rank to rank, see inbox.h, so that all the
 * server sees is the start of worlds.
 *
 * One server serves several rendezvous, identified by name, one after another
 * or at once.  Both sides check SO_PEERCRED: another user's process is refused,
 * and so is anything that does not speak the protocol.
 */
#ifndef SYMC_BOOTSTRAP_BOOTSTRAP_H
#define SYMC_BOOTSTRAP_BOOTSTRAP_H

#include "base/base.h"
#include "base/progress.h"
#include "segment/peer.h"

/* ---- the serving side, for the launcher and for rank 0 ---- */

struct symc_bootstrap_server;

/* Events for the launcher; any may be NULL.  Called from
 * symc_bootstrap_serve(). */
struct symc_bootstrap_events {
    /* All ranks of a rendezvous have joined. blocks are memfds of `size` ranks,
     * borrowed; pids are theirs. */
    void (*joined)(const char *rendezvous, int size, const int *blocks,
        const pid_t *pids, void *arg);
    /* A process is told that its rendezvous has failed, by no fault of its
     * own. */
    void (*failed)(
        pid_t pid, symmcoll_status_t status, const char *text, void *arg);
    void *arg;
};

/*
 * Listen on an abstract socket.  name has no leading zero byte.
 * Errors: INVALID (in use: by whom), SYSTEM.
 */
symmcoll_status_t symc_bootstrap_open(const char *name,
    const struct symc_bootstrap_events *events,
    struct symc_bootstrap_server **server);
void symc_bootstrap_close(struct symc_bootstrap_server *server);

/* The same, but if a bootstrap server that is ending still has the name, such
 * as that of a killed process, wait for its end until the deadline. */
symmcoll_status_t symc_bootstrap_open_until(const char *name,
    const struct symc_bootstrap_events *events, int64_t deadline_ns,
    struct symc_bootstrap_server **server);

/* Add a connection of this process without the queue of the socket; fd is
 * taken.  Errors: SYSTEM. */
symmcoll_status_t symc_bootstrap_add(
    struct symc_bootstrap_server *server, int fd);

/* For a server in rank 0: stop listening once one rendezvous is complete. */
void symc_bootstrap_serve_once(struct symc_bootstrap_server *server);

/* A descriptor that becomes readable when symc_bootstrap_serve() has work
 * (epoll). */
int symc_bootstrap_fd(const struct symc_bootstrap_server *server);

/*
 * Handle what clients have sent, without waiting, for a few milliseconds at
 * most; if more is left symc_bootstrap_fd() stays readable.  Errors: SYSTEM (no
 * descriptor for another client: incomplete rendezvous have failed).
 */
symmcoll_status_t symc_bootstrap_serve(struct symc_bootstrap_server *server);

/* Whether it still accepts ranks. */
bool symc_bootstrap_is_listening(const struct symc_bootstrap_server *server);

/* Whether any rank of a complete rendezvous has an answer in flight that it has
 * not acknowledged, or one of a failed rendezvous has not been informed. */
bool symc_bootstrap_busy(const struct symc_bootstrap_server *server);

/* Returns whether a rank of a complete rendezvous of threads has neither
 * acknowledged its answer nor closed its connection.  Until then it cannot
 * know whether the others have borrowed its block. */
bool symc_bootstrap_answers_threads(const struct symc_bootstrap_server *server);

/* Whether all ranks of the rendezvous have joined since the server was
 * opened. */
bool symc_bootstrap_is_complete(
    const struct symc_bootstrap_server *server, const char *rendezvous);

/* Fail all incomplete rendezvous that rank has joined or that expect it: ranks
 * that wait get PEER with the text.  For a launcher whose child died. */
void symc_bootstrap_fail_rank(
    struct symc_bootstrap_server *server, int rank, const char *text);

/* The ranks that have not joined a rendezvous, as text for a message; "" when
 * it is unknown, or none is missing. */
void symc_bootstrap_missing(const struct symc_bootstrap_server *server,
    const char *rendezvous, char *buffer, size_t nbytes);

/* ---- the joining side ---- */

struct symc_bootstrap_args {
    const char *server; /* NULL: rank 0 serves `name` */
    const char *name;
    int rank;
    int size;
    int64_t deadline_ns;
    struct symc_progress *progress; /* of the wait; NULL: no lines */
    /* Out unless NULL: a pidfd of the process that serves, the caller's to
     * close whether or not the rendezvous succeeds; -1 where there is none. */
    int *server_pidfd;
    /* Out unless NULL: true where the rendezvous has failed on this rank, but
     * threads of this process may have borrowed what it offered, which then
     * stays for good: no message says when they have returned it. */
    bool *lent;
    /* Whether another rank has failed, so that nobody needs to wait; asked
     * several times a second.  NULL: it is not known. */
    bool (*ended)(void *arg);
    void *arg;
};

/* What one rank offers to the others of a rendezvous. */
struct symc_bootstrap_offer {
    int fds[3]; /* -1: none.  Borrowed when sent, owned when received */
    pid_t pid;
    size_t nbytes;
    size_t least;  /* of them, that every rank needs */
    void *address; /* valid in the same process only */
    int inbox;     /* a number of a descriptor; likewise */
};

/*
 * Exchange offers: all[r] (out, an array of size) is what rank r offered, with
 * descriptors of our own unless the ranks are threads of this process.
 *
 * Errors: TIMEOUT (who is missing), PEER (who died), INVALID (two ranks of one
 * number, sizes that differ, processes and threads mixed), NO_MEMORY, SYSTEM.
 */
symmcoll_status_t symc_bootstrap_exchange(
    const struct symc_bootstrap_args *args,
    const struct symc_bootstrap_offer *mine, struct symc_bootstrap_offer *all,
    bool *threads);

/*
 * Join a rendezvous: exchange arenas and map them, of each as much as the
 * smallest has, and its first `least` bytes in any case.  peers is an array of
 * size, filled on success, the own entry included; threads (out) says whether
 * all ranks are threads of this process.  On failure the own arena remains the
 * caller's, which unmaps it unless args->lent; the way to the own inbox is
 * taken in any case.
 */
struct symc_bootstrap_own {
    struct symc_block_view view;
    int fd; /* of the arena */
    size_t least;
    int inbox; /* of symc_bootstrap_inbox_open(); -1: none */
};
symmcoll_status_t symc_bootstrap_join(const struct symc_bootstrap_args *args,
    const struct symc_bootstrap_own *own, struct symc_peer *peers,
    bool *threads);

/* Leave: unmap and close the peers' blocks, and the own one. */
void symc_bootstrap_leave(struct symc_peer *peers, int size);

#endif
