/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The internals of the bootstrap server.  Private to this directory.
 */
#ifndef SYMC_BOOTSTRAP_SERVER_H
#define SYMC_BOOTSTRAP_SERVER_H

#include "bootstrap/bootstrap.h"
#include "bootstrap/message.h"

enum symc_bootstrap_client_state {
    SYMC_BOOTSTRAP_CLIENT_NEW,     /* has sent nothing */
    SYMC_BOOTSTRAP_CLIENT_JOINED,  /* waits for the others */
    SYMC_BOOTSTRAP_CLIENT_SENDING, /* is being sent the ranks */
    SYMC_BOOTSTRAP_CLIENT_SENT     /* has yet to acknowledge the last batch */
};

struct symc_bootstrap_client {
    struct symc_bootstrap_client *next;
    struct symc_bootstrap_rendezvous *rendezvous;
    int fd;
    pid_t pid;
    enum symc_bootstrap_client_state state;
    struct symc_bootstrap_hello hello;
    int fds[SYMC_BOOTSTRAP_FDS];
    int sent;            /* ranks sent so far */
    int in_flight;       /* descriptors not acknowledged */
    bool unacknowledged; /* the latest batch */
    bool late;           /* its deadline has passed */
    bool own;            /* the server's own rank: symc_bootstrap_add() */
};

/* What a rank offered, kept until it has been sent to all: a rank that has
 * acknowledged and left is still to be sent to those that wait for their
 * answer. */
struct symc_bootstrap_held_offer {
    pid_t pid;
    uint64_t nbytes;
    uint64_t least;
    uint64_t address;
    int64_t inbox;
    int nfds;
    int fds[SYMC_BOOTSTRAP_FDS];
};

/* One set of ranks that join each other. */
struct symc_bootstrap_rendezvous {
    struct symc_bootstrap_rendezvous *next;
    char name[SYMC_BOOTSTRAP_NAME];
    int size;
    int joined;
    bool complete; /* all have joined: answers are sent */
    bool threads;  /* all of one process */
    struct symc_bootstrap_client **ranks;
    struct symc_bootstrap_held_offer *offers; /* of each rank, once complete */

    /* Ranks that had joined and left when their deadline had passed. */
    bool *gone;
    bool *missing; /* room for a list of ranks */

    /* After a failure: ranks that join late are informed once, too. */
    symmcoll_status_t failure; /* 0: none */
    char text[256];
    bool *informed;
};

struct symc_bootstrap_server {
    int listener;
    int epoll;
    int in_flight;    /* descriptors, to all clients */
    uint64_t refused; /* connections of other users */
    int64_t late_at;  /* since when a deadline has passed; 0: none has */
    struct symc_bootstrap_client *clients;
    struct symc_bootstrap_rendezvous *rendezvous_list;
    char **completed; /* names of completed rendezvous */
    size_t completed_count;
    struct symc_bootstrap_events events;
    bool serve_once; /* stop listening after one rendezvous */

    /* With serve_once: why a client could not be accepted, after which the
     * rendezvous cannot complete. */
    symmcoll_status_t failure;
    char text[256];
};

/* ---- client.c ---- */

void symc_bootstrap_close_fds(int *fds, int count);
void symc_bootstrap_drop_client(
    struct symc_bootstrap_server *server, struct symc_bootstrap_client *client);

/* Tell a client that its hello has been read: until then the end of the
 * connection says nothing about this server's job. */
void symc_bootstrap_acknowledge(const struct symc_bootstrap_client *client);

/* Tell a client that waits what for. */
void symc_bootstrap_say(
    const struct symc_bootstrap_client *client, const char *text);

/* Send an error and drop the client: because of others, or of the client. */
void symc_bootstrap_inform(struct symc_bootstrap_server *server,
    struct symc_bootstrap_client *client, symmcoll_status_t status,
    const char *text);
void symc_bootstrap_refuse(struct symc_bootstrap_server *server,
    struct symc_bootstrap_client *client, symmcoll_status_t status,
    const char *text);

/* "; 12 connections of other users were refused", or "": for an error that they
 * may explain. */
#define SYMC_BOOTSTRAP_REFUSED_TEXT 80
const char *symc_bootstrap_format_refused(
    const struct symc_bootstrap_server *server,
    char buffer[SYMC_BOOTSTRAP_REFUSED_TEXT]);

/* ---- listener.c ---- */

/* Bind a name and listen; wait until the deadline for the end of a server that
 * is ending and has the name.  Errors: INVALID (in use: by whom), SYSTEM. */
symmcoll_status_t symc_bootstrap_listen(
    const char *name, int64_t deadline_ns, int *listener);

/* Stop listening: a rank that connects from now on belongs to a later
 * rendezvous; refused, it tries again until the next server listens. */
void symc_bootstrap_stop_listening(struct symc_bootstrap_server *server);

/* ---- admission.c ---- */

/* Handle what a client has done: sent its hello, reported that its deadline has
 * passed, acknowledged a batch, closed.  These may release the client. */
void symc_bootstrap_admit(
    struct symc_bootstrap_server *server, struct symc_bootstrap_client *client);
void symc_bootstrap_give_up(
    struct symc_bootstrap_server *server, struct symc_bootstrap_client *client);
void symc_bootstrap_take_ack(
    struct symc_bootstrap_server *server, struct symc_bootstrap_client *client);
void symc_bootstrap_lose(
    struct symc_bootstrap_server *server, struct symc_bootstrap_client *client);

/* Tell a rank that waits who is missing, if it is the lowest that has joined: one
 * rank logs it for all. */
void symc_bootstrap_tell_missing(struct symc_bootstrap_server *server,
    const struct symc_bootstrap_client *client);

/* Fail the rendezvous in which a deadline has passed, once all that had been
 * sent by then has been read. */
void symc_bootstrap_fail_late(
    struct symc_bootstrap_server *server, bool all_read);

/* Inform all that have joined, and remember it for those that have not. */
void symc_bootstrap_fail_rendezvous(struct symc_bootstrap_server *server,
    struct symc_bootstrap_rendezvous *rendezvous, symmcoll_status_t status,
    const char *text);
void symc_bootstrap_drop_rendezvous(struct symc_bootstrap_server *server,
    struct symc_bootstrap_rendezvous *rendezvous);

/* ---- answer.c ---- */

/* Send what there is to send. */
void symc_bootstrap_send_all(struct symc_bootstrap_server *server);

#endif
