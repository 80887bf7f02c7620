/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The bootstrap: the ranks of one machine exchange the descriptors of their
 * arenas through a server, which runs in the launcher or else in rank 0. A rank
 * that has received all descriptors does not need the server any more: later
 * descriptors go from rank to rank (inbox.h), so the server handles nothing but
 * the start of worlds.
 *
 * One server serves several rendezvous, identified by name, one after another
 * or at once. Both sides check SO_PEERCRED: processes of other users are
 * refused, and so are connections that do not follow the protocol.
 */
#ifndef SYMC_BOOTSTRAP_BOOTSTRAP_H
#define SYMC_BOOTSTRAP_BOOTSTRAP_H

#include "base/base.h"
#include "base/progress.h"
#include "segment/peer.h"

/* ---- server side, for the launcher and for rank 0 ---- */

struct symc_bootstrap_server;

/* Events for the launcher; any may be NULL.  Called from
 * symc_bootstrap_serve(). */
struct symc_bootstrap_events {
    /* All ranks of a rendezvous have joined. blocks are memfds of `size` ranks,
     * borrowed; pids are theirs. */
    void (*joined)(const char *rendezvous, int size, const int *blocks,
        const pid_t *pids, void *arg);
    /* A process was sent an error of its rendezvous that it had not caused. */
    void (*failed)(
        pid_t pid, symmcoll_status_t status, const char *text, void *arg);
    void *arg;
};

/*
 * Listens on an abstract socket. name has no leading zero byte.
 * Errors: INVALID (in use; names the owner), SYSTEM.
 */
symmcoll_status_t symc_bootstrap_open(const char *name,
    const struct symc_bootstrap_events *events,
    struct symc_bootstrap_server **server);
void symc_bootstrap_close(struct symc_bootstrap_server *server);

/* Listens like symc_bootstrap_open(). If a bootstrap server that is ending
 * still holds the name, such as that of a killed process, waits for its end
 * until the deadline. */
symmcoll_status_t symc_bootstrap_open_until(const char *name,
    const struct symc_bootstrap_events *events, int64_t deadline_ns,
    struct symc_bootstrap_server **server);

/* Adds a connection from this process, which bypasses the socket's queue; takes
 * fd. Errors: SYSTEM. */
symmcoll_status_t symc_bootstrap_add(
    struct symc_bootstrap_server *server, int fd);

/* Makes the server stop listening after one complete rendezvous; for rank 0. */
void symc_bootstrap_serve_once(struct symc_bootstrap_server *server);

/* Returns an epoll descriptor that is readable when symc_bootstrap_serve() has
 * work. */
int symc_bootstrap_fd(const struct symc_bootstrap_server *server);

/*
 * Handles the messages of clients, without waiting, for a few milliseconds at
 * most; if some are left, symc_bootstrap_fd() stays readable.
 * Errors: SYSTEM (no descriptor for another client; incomplete rendezvous have
 * failed).
 */
symmcoll_status_t symc_bootstrap_serve(struct symc_bootstrap_server *server);

/* Returns whether the server still accepts ranks. */
bool symc_bootstrap_is_listening(const struct symc_bootstrap_server *server);

/* Returns whether a rank of a complete rendezvous has not acknowledged its
 * answer, or a rank of a failed rendezvous has not been informed. */
bool symc_bootstrap_busy(const struct symc_bootstrap_server *server);

/* Returns whether a rank of a complete rendezvous of threads has neither
 * acknowledged its answer nor closed its connection. Until then it is open
 * whether the others have borrowed its block. */
bool symc_bootstrap_answers_threads(const struct symc_bootstrap_server *server);

/* Returns whether a rendezvous has been completed since the server was
 * opened. */
bool symc_bootstrap_is_complete(
    const struct symc_bootstrap_server *server, const char *rendezvous);

/* Fails all incomplete rendezvous that a rank has joined or is expected in:
 * waiting ranks get PEER with the text. For a launcher that has lost a
 * child. */
void symc_bootstrap_fail_rank(
    struct symc_bootstrap_server *server, int rank, const char *text);

/* Formats the ranks missing from a rendezvous; "" if it is unknown or none is
 * missing. */
void symc_bootstrap_missing(const struct symc_bootstrap_server *server,
    const char *rendezvous, char *buffer, size_t nbytes);

/* ---- joining side ---- */

struct symc_bootstrap_args {
    const char *server; /* NULL: rank 0 serves `name` */
    const char *name;
    int rank;
    int size;
    int64_t deadline_ns;
    struct symc_progress *progress; /* progress lines of the wait; NULL: none */
    /* Out unless NULL: a pidfd of the serving process, which the caller closes
     * even on failure; -1: none. */
    int *server_pidfd;
    /* Out unless NULL: true if the rendezvous has failed on this rank, but
     * threads of this process may have borrowed what it offered. That has to
     * stay for good, since no message reports when they return it. */
    bool *lent;
    /* Returns whether another rank has failed, so that waiting is pointless.
     * Called several times a second. NULL: no such check. */
    bool (*ended)(void *arg);
    void *arg;
};

/* The resources that a rank offers to the others. */
struct symc_bootstrap_offer {
    int fds[3]; /* -1: none; borrowed when sent, owned when received */
    pid_t pid;
    size_t nbytes;
    size_t least;  /* bytes of the arena that every rank needs */
    void *address; /* valid only in the same process */
    int inbox;     /* number of a descriptor; valid only in the same process */
};

/*
 * Exchanges offers. all[r] (out, an array of size) is the offer of rank r, with
 * descriptors of this process's own unless the ranks are its threads.
 *
 * Errors: TIMEOUT (names the missing ranks), PEER (names the dead rank),
 * INVALID (two ranks of one number, sizes that differ, processes and threads
 * mixed), NO_MEMORY, SYSTEM.
 */
symmcoll_status_t symc_bootstrap_exchange(
    const struct symc_bootstrap_args *args,
    const struct symc_bootstrap_offer *mine, struct symc_bootstrap_offer *all,
    bool *threads);

/*
 * Joins a rendezvous: exchanges the arenas and maps as much of each as the
 * smallest one has, and at least its first `least` bytes. peers is an array of
 * size, filled on success with this rank included. threads (out): all ranks are
 * threads of this process. On failure the arena stays the caller's, which
 * unmaps it unless args->lent; the sending end of the inbox is taken in any
 * case.
 */
struct symc_bootstrap_own {
    struct symc_block_view view;
    int fd; /* of the arena */
    size_t least;
    int inbox; /* sending end, from symc_bootstrap_inbox_open(); -1: none */
};
symmcoll_status_t symc_bootstrap_join(const struct symc_bootstrap_args *args,
    const struct symc_bootstrap_own *own, struct symc_peer *peers,
    bool *threads);

/* Unmaps and closes the blocks of the peers and of this rank. */
void symc_bootstrap_leave(struct symc_peer *peers, int size);

#endif
