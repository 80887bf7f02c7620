/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Internals of the bootstrap server. Private to this directory.
 */
#ifndef SYMC_BOOTSTRAP_SERVER_H
#define SYMC_BOOTSTRAP_SERVER_H

#include "bootstrap/bootstrap.h"
#include "bootstrap/message.h"

enum symc_bootstrap_client_state {
    SYMC_BOOTSTRAP_CLIENT_NEW,     /* has sent nothing */
    SYMC_BOOTSTRAP_CLIENT_JOINED,  /* waits for the other ranks */
    SYMC_BOOTSTRAP_CLIENT_SENDING, /* receives the ranks, in batches */
    SYMC_BOOTSTRAP_CLIENT_SENT     /* has not acknowledged the last batch */
};

struct symc_bootstrap_client {
    struct symc_bootstrap_client *next;
    struct symc_bootstrap_rendezvous *rendezvous;
    int fd;
    pid_t pid;
    enum symc_bootstrap_client_state state;
    struct symc_bootstrap_hello hello;
    int fds[SYMC_BOOTSTRAP_FDS];
    int sent;            /* number of ranks sent */
    int in_flight;       /* descriptors not acknowledged */
    bool unacknowledged; /* of the last batch */
    bool late;           /* its deadline has passed */
    bool own;            /* the server's own rank; see symc_bootstrap_add() */
};

/* The offer of a rank, kept until it has been sent to all: a rank may
 * acknowledge and leave before others have received its offer. */
struct symc_bootstrap_held_offer {
    pid_t pid;
    uint64_t nbytes;
    uint64_t least;
    uint64_t address;
    int64_t inbox;
    int nfds;
    int fds[SYMC_BOOTSTRAP_FDS];
};

/* A set of ranks that join each other. */
struct symc_bootstrap_rendezvous {
    struct symc_bootstrap_rendezvous *next;
    char name[SYMC_BOOTSTRAP_NAME];
    int size;
    int joined;
    bool complete; /* all have joined: answers are sent */
    bool threads;  /* all ranks are threads of one process */
    struct symc_bootstrap_client **ranks;
    struct symc_bootstrap_held_offer *offers; /* of each rank, once complete */

    /* Ranks that had joined and have left because their deadline passed. */
    bool *gone;
    bool *missing; /* buffer for a list of ranks */

    /* After a failure: each rank is informed once, even if it joins late. */
    symmcoll_status_t failure; /* 0: none */
    char text[256];
    bool *informed;
};

struct symc_bootstrap_server {
    int listener;
    int epoll;
    int in_flight;    /* descriptors in flight to all clients */
    uint64_t refused; /* number of refused connections of other users */
    /* time at which a deadline was reported to have passed; 0: none */
    int64_t late_at;
    struct symc_bootstrap_client *clients;
    struct symc_bootstrap_rendezvous *rendezvous_list;
    char **completed; /* names of completed rendezvous */
    size_t completed_count;
    struct symc_bootstrap_events events;
    bool serve_once; /* stop listening after one complete rendezvous */

    /* With serve_once: the reason why a client could not be accepted. No
     * rendezvous can complete after that. */
    symmcoll_status_t failure;
    char text[256];
};

/* ---- client.c ---- */

void symc_bootstrap_close_fds(int *fds, int count);
void symc_bootstrap_drop_client(
    struct symc_bootstrap_server *server, struct symc_bootstrap_client *client);

/* Informs a client that its hello has been read. Until then the end of the
 * connection need not mean that the server of this job has failed. */
void symc_bootstrap_acknowledge(const struct symc_bootstrap_client *client);

/* Sends a waiting client a text about the missing ranks. */
void symc_bootstrap_say(
    const struct symc_bootstrap_client *client, const char *text);

/* Sends an error that the client has not caused, and drops the client. */
void symc_bootstrap_inform(struct symc_bootstrap_server *server,
    struct symc_bootstrap_client *client, symmcoll_status_t status,
    const char *text);
/* Sends an error that the client has caused, and drops the client. */
void symc_bootstrap_refuse(struct symc_bootstrap_server *server,
    struct symc_bootstrap_client *client, symmcoll_status_t status,
    const char *text);

/* Formats "; 12 connections of other users were refused", or "", for an error
 * that they may explain. */
#define SYMC_BOOTSTRAP_REFUSED_TEXT 80
const char *symc_bootstrap_format_refused(
    const struct symc_bootstrap_server *server,
    char buffer[SYMC_BOOTSTRAP_REFUSED_TEXT]);

/* ---- listener.c ---- */

/* Binds a name and listens. Waits until the deadline for the end of a server
 * that is ending and holds the name. Errors: INVALID (in use; names the owner),
 * SYSTEM. */
symmcoll_status_t symc_bootstrap_listen(
    const char *name, int64_t deadline_ns, int *listener);

/* Stops listening. A rank that connects from now on belongs to a later
 * rendezvous; it is refused, and retries until the next server listens. */
void symc_bootstrap_stop_listening(struct symc_bootstrap_server *server);

/* ---- admission.c ---- */

/* Handle the messages of a client: its hello, the report that its deadline has
 * passed, the acknowledgement of a batch, and the end of its connection. They
 * may free the client. */
void symc_bootstrap_admit(
    struct symc_bootstrap_server *server, struct symc_bootstrap_client *client);
void symc_bootstrap_give_up(
    struct symc_bootstrap_server *server, struct symc_bootstrap_client *client);
void symc_bootstrap_take_ack(
    struct symc_bootstrap_server *server, struct symc_bootstrap_client *client);
void symc_bootstrap_lose(
    struct symc_bootstrap_server *server, struct symc_bootstrap_client *client);

/* Sends a waiting rank the missing ranks, if it is the lowest one that has
 * joined: one rank logs them for all. */
void symc_bootstrap_send_missing(struct symc_bootstrap_server *server,
    const struct symc_bootstrap_client *client);

/* Fails the rendezvous in which a deadline has passed, after all messages sent
 * by then have been read. */
void symc_bootstrap_fail_late(
    struct symc_bootstrap_server *server, bool all_read);

/* Fails a rendezvous: informs all ranks that have joined, and later those that
 * have not. */
void symc_bootstrap_fail_rendezvous(struct symc_bootstrap_server *server,
    struct symc_bootstrap_rendezvous *rendezvous, symmcoll_status_t status,
    const char *text);
void symc_bootstrap_drop_rendezvous(struct symc_bootstrap_server *server,
    struct symc_bootstrap_rendezvous *rendezvous);

/* ---- answer.c ---- */

/* Sends the next batches that can be sent. */
void symc_bootstrap_send_all(struct symc_bootstrap_server *server);

#endif
