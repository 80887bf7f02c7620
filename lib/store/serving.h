/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The shared part of the server's files: replies.c, channels.c, the commands,
 * connection.c, server.c and server_tls.c.  All of it runs in the server's
 * thread.
 */
#ifndef SYMC_STORE_SERVING_H
#define SYMC_STORE_SERVING_H

#include "store/map.h"
#include "store/resp.h"
#include "store/server.h"

#include <event2/buffer.h>
#include <event2/bufferevent.h>
#include <event2/event.h>
#include <event2/event_struct.h>
#include <event2/listener.h>
#include <pthread.h>

#define SYMC_SERVER_KEY_MAX 5120             /* bytes, with a job's name */
#define SYMC_SERVER_QUEUED_MAX (64 << 20)    /* bytes of one transaction */
#define SYMC_SERVER_TURN (4 << 20)           /* work before other clients run */
#define SYMC_SERVER_EXEC_WORK (256u << 20)   /* of one transaction */
#define SYMC_SERVER_REQUEST_WORK 4096        /* of the smallest request */
#define SYMC_SERVER_OUT_HIGH (1 << 20)       /* above it requests wait */
#define SYMC_SERVER_OUT_MAX (64 << 20)       /* above it a client is dropped */
#define SYMC_SERVER_REPLY_MAX (32 << 20)     /* of one command */
#define SYMC_SERVER_PENDING_MAX (256u << 20) /* of all clients together */
/* watches of a client, also channels */
#define SYMC_SERVER_WATCHES_MAX 4096
#define SYMC_SERVER_INPUT 65536 /* bytes of one read */

struct symc_watch {
    struct symc_watch *next;
    uint64_t version;
    char key[];
};

struct symc_client {
    struct symc_server *server;
    struct symc_client *next, *previous;
    int fd;
    struct event readable, writable; /* without TLS */
    struct event again;              /* continues after other clients have
                                        run */
    struct bufferevent *tls;         /* NULL: none */
    struct evbuffer *out;            /* replies to be sent; tls may own it */
    struct symc_resp *resp;
    int64_t since_ns;
    size_t pending; /* its part of the server's pending */
    bool spoke;     /* has sent a complete request */
    bool entered;   /* authenticated, or no password is needed */
    bool closing;   /* to be closed when its output has been sent */
    bool doomed;    /* to be freed at the end of the callback */
    bool multi, spoiled;
    struct symc_reply **queued; /* requests of a transaction */
    size_t nqueued, queued_room, queued_nbytes;
    struct symc_watch *watches;
    void *subscriptions; /* tree */
    size_t nwatches, nsubscriptions;
    size_t kept; /* bytes of watches and subscriptions */
};

struct symc_server {
    struct event_base *base;
    struct evconnlistener *listener;
    struct event *wake, *tick, *accept_again;
    int wake_fd, port;
    int listen_fd;   /* -1: none */
    int taken_flags; /* previous flags of a socket that was passed in; -1:
                        none */
    pthread_t thread;
    void *tls; /* SSL_CTX; NULL: none */
    char password[SYMC_SECRET_MAX];
    char path[256]; /* of its socket; "": not a path */
    size_t max_clients, max_memory;
    struct symc_map map;
    void *channels; /* tree */
    struct symc_client *first, *last;
    size_t nclients, pending;
    bool some_doomed;
    char input[SYMC_SERVER_INPUT]; /* bytes just read */
    /* Work done for clients, in units of about one byte copied; only
     * differences matter. */
    size_t work;
};

/* ---- replies.c ---- */

void symc_put_text(struct symc_client *client, const void *data, size_t nbytes);
void symc_put_raw(struct symc_client *client, const char *text);
void symc_put_number(struct symc_client *client, char type, int64_t number);
size_t symc_client_out(const struct symc_client *client);

/* Sends what the socket accepts at once: waiting for it to become writable
 * would cost two system calls and an iteration of the event loop per reply. */
void symc_client_flush(struct symc_client *client);

/* Enables or disables reading requests of a client. */
void symc_client_listen(struct symc_client *client, bool listen);

/* Updates the memory that is counted for a client.  If the total is too large,
 * the client with the most is dropped. */
void symc_client_count(struct symc_client *client);

/* Marks a client to be freed at the end of the callback. */
void symc_client_doom(struct symc_client *client);

/* ---- channels.c ---- */

/* Subscribes a client.  Errors: NO_MEMORY, INVALID (too many); without a
 * detail. */
symmcoll_status_t symc_channel_subscribe(
    struct symc_client *client, const char *name);
void symc_channel_unsubscribe(struct symc_client *client, const char *name);
void symc_channel_leave_all(struct symc_client *client);
/* Returns one of a client's channels, borrowed, or NULL. */
const char *symc_channel_first(const struct symc_client *client);
/* Sends a message to the subscribers of a channel.  Returns their number. */
size_t symc_channel_publish(struct symc_client *publisher, const char *name,
    const void *data, size_t nbytes);

/* ---- commands.c ---- */

/* Runs one request, which is taken. */
void symc_command_run(struct symc_client *client, struct symc_reply *request);
void symc_command_forget(struct symc_client *client);

/* ---- connection.c ---- */

void symc_client_accept(struct symc_server *server, int fd);
void symc_client_tick(struct symc_server *server, int64_t now_ns);
void symc_client_close_all(struct symc_server *server);

/* ---- server_tls.c ---- */

symmcoll_status_t symc_server_tls_open(
    const struct symc_place *place, void **tls);
void symc_server_tls_close(void *tls);
struct bufferevent *symc_server_tls_accept(struct symc_server *server, int fd);

#endif
