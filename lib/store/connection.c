/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * One client of the server: bytes in, requests, replies out.  A client that does
 * not read is not read from either, and one that says nothing makes room for
 * others.
 */
#include "store/serving.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#define SILENT_NS (10 * SYMC_NS_PER_S) /* until the first request */
#define BIG_NBYTES (1 << 20) /* pending of a client that may be dropped */

static const struct symc_resp_limits request_limits = {
    .depth = 1,
    .items = 65536,
    .bulk = SYMC_STORE_VALUE_MAX,
    .nbytes = (size_t)2 * SYMC_STORE_VALUE_MAX,
};

/* ---- life ---- */

static void free_client(struct symc_client *client)
{
    struct symc_server *server = client->server;

    symc_channel_leave_all(client);
    symc_command_forget(client);
    if (client->previous != NULL)
        client->previous->next = client->next;
    else
        server->first = client->next;
    if (client->next != NULL)
        client->next->previous = client->previous;
    else
        server->last = client->previous;
    server->nclients--;
    server->pending -= client->pending;
    symc_resp_free(client->resp);
    bufferevent_free(client->events);
    free(client);
}

/* At the end of each callback: nobody uses a client any more. */
static void drop_doomed(struct symc_server *server)
{
    struct symc_client *client = server->first, *next;

    if (!server->some_doomed)
        return;
    for (; client != NULL; client = next) {
        next = client->next;
        if (client->doomed)
            free_client(client);
    }
    server->some_doomed = false;
}

void symc_client_close_all(struct symc_server *server)
{
    for (struct symc_client *client = server->first, *next; client != NULL;
         client = next) {
        next = client->next;
        free_client(client);
    }
}

/* ---- requests ---- */

/* Count what is kept for this client; too much of all together ends it. */
static void count_pending(struct symc_client *client)
{
    struct symc_server *server = client->server;
    size_t pending = symc_resp_pending(client->resp) + client->queued_nbytes +
                     symc_client_out(client);

    server->pending += pending - client->pending;
    client->pending = pending;
    if (server->pending > SYMC_SERVER_PENDING_MAX && pending > BIG_NBYTES)
        symc_client_doom(client);
}

/* The next request, whose reply is put into the output; false: none is whole. */
static bool run_request(struct symc_client *client)
{
    struct symc_reply *request = NULL;

    if (symc_resp_next(client->resp, &request) != SYMMCOLL_OK) {
        symc_put_raw(client, "-ERR Protocol error\r\n");
        client->closing = true;
    }
    if (request == NULL)
        return false;
    client->spoke = true;
    symc_command_run(client, request);
    return true;
}

/* Run requests while there are whole ones and their replies are read.  Where it
 * stops for the replies' sake some are left, so that the output's end will call
 * it again. */
static void run_requests(struct symc_client *client)
{
    bool more = true;

    while (more && !client->closing && !client->doomed &&
           symc_client_out(client) < SYMC_SERVER_OUT_HIGH) {
        more = run_request(client);
        if (!more || symc_client_out(client) >= SYMC_SERVER_OUT_HIGH)
            symc_client_flush(client);
    }
    if (client->closing)
        symc_client_flush(client);
    if (client->closing || symc_client_out(client) >= SYMC_SERVER_OUT_HIGH)
        bufferevent_disable(client->events, EV_READ);
    count_pending(client);
    if (client->closing && symc_client_out(client) == 0)
        symc_client_doom(client);
}

static void read_some(struct bufferevent *events, void *arg)
{
    struct symc_client *client = arg;
    struct symc_server *server = client->server;
    struct evbuffer *in = bufferevent_get_input(events);
    struct evbuffer_iovec piece;

    while (!client->doomed && evbuffer_peek(in, -1, NULL, &piece, 1) > 0) {
        if (symc_resp_feed(client->resp, piece.iov_base, piece.iov_len) !=
            SYMMCOLL_OK)
            symc_client_doom(client);
        evbuffer_drain(in, piece.iov_len);
    }
    run_requests(client);
    drop_doomed(server);
}

/* All has been sent: go on with what was left unread. */
static void write_done(struct bufferevent *events, void *arg)
{
    struct symc_client *client = arg;
    struct symc_server *server = client->server;

    if (client->closing) {
        symc_client_doom(client);
    } else {
        if (server->tls == NULL)
            bufferevent_disable(events, EV_WRITE);
        run_requests(client);
        if (!client->closing && !client->doomed &&
            symc_client_out(client) < SYMC_SERVER_OUT_HIGH)
            bufferevent_enable(events, EV_READ);
    }
    drop_doomed(server);
}

static void end(struct bufferevent *events, short what, void *arg)
{
    struct symc_client *client = arg;
    struct symc_server *server = client->server;

    (void)events;
    if ((what & (BEV_EVENT_EOF | BEV_EVENT_ERROR | BEV_EVENT_TIMEOUT)) == 0)
        return; /* TLS is ready */
    symc_client_doom(client);
    drop_doomed(server);
}

/* ---- coming and going ---- */

/* The one that has been silent for the longest time, to make room. */
static bool drop_silent(struct symc_server *server)
{
    struct symc_client *client = server->first;

    while (client != NULL && client->spoke)
        client = client->next;
    if (client == NULL)
        return false;
    free_client(client);
    return true;
}

void symc_client_tick(struct symc_server *server, int64_t now_ns)
{
    struct symc_client *client;

    for (client = server->first; client != NULL; client = client->next)
        if (!client->spoke && now_ns - client->since_ns > SILENT_NS)
            symc_client_doom(client);
    drop_doomed(server);
}

static void refuse(int fd)
{
    static const char text[] = "-ERR max number of clients reached\r\n";

    /* Best effort: it is closed in any case. */
    (void)!send(fd, text, sizeof(text) - 1, MSG_NOSIGNAL | MSG_DONTWAIT);
    close(fd);
}

void symc_client_accept(struct symc_server *server, int fd)
{
    struct symc_client *client;
    int one = 1;

    if (server->nclients >= server->max_clients && !drop_silent(server)) {
        refuse(fd);
        return;
    }
    client = symc_alloc(1, sizeof(*client));
    if (client == NULL ||
        symc_resp_create(&request_limits, &client->resp) != SYMMCOLL_OK) {
        free(client);
        close(fd);
        return;
    }
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
    setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &one, sizeof(one));
    client->events = server->tls != NULL ? symc_server_tls_accept(server, fd)
                                         : bufferevent_socket_new(server->base,
                                               fd, BEV_OPT_CLOSE_ON_FREE);
    if (client->events == NULL) {
        symc_resp_free(client->resp);
        free(client);
        close(fd);
        return;
    }
    client->server = server;
    client->since_ns = symc_now_ns();
    client->entered = server->password[0] == '\0';
    client->previous = server->last;
    if (server->last != NULL)
        server->last->next = client;
    else
        server->first = client;
    server->last = client;
    server->nclients++;
    bufferevent_setcb(client->events, read_some, write_done, end, client);
    /* Without TLS replies are written where they are made. */
    if (server->tls == NULL)
        bufferevent_disable(client->events, EV_WRITE);
    bufferevent_enable(
        client->events, server->tls == NULL ? EV_READ : EV_READ | EV_WRITE);
}
