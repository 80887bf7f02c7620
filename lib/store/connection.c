/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * One client of the server: input, requests, output.  A client that does not
 * read its replies is not read from either, and one that sends no request, or
 * no password, is dropped in favour of others.
 */
#include "store/serving.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

/* time until a request and the password */
#define UNKNOWN_NS (10 * SYMC_NS_PER_S)

static const struct symc_resp_limits request_limits = {
    .depth = 1,
    .items = 65536,
    .bulk = SYMC_STORE_VALUE_MAX,
    .nbytes = (size_t)2 * SYMC_STORE_VALUE_MAX,
};

/* Limits before authentication, for AUTH and HELLO. */
static const struct symc_resp_limits stranger_limits = {
    .depth = 1,
    .items = 10,
    .bulk = 16384,
    .nbytes = 65536,
};

/* ---- life ---- */

/* Frees what symc_client_accept() has made. */
static void free_connection(struct symc_client *client)
{
    event_del(&client->again);
    if (client->tls != NULL) {
        bufferevent_free(client->tls);
    } else {
        if (client->out != NULL) {
            event_del(&client->readable);
            event_del(&client->writable);
            evbuffer_free(client->out);
        }
        close(client->fd);
    }
    symc_resp_free(client->resp);
    free(client);
}

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
    free_connection(client);
}

/* Frees marked clients at the end of each callback, when no client is in
 * use. */
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

/* Runs the next request, which replies to the output.  Returns false if there
 * is no complete one. */
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
    symc_client_count(client); /* the request is no longer pending */
    symc_command_run(client, request);
    symc_resp_set_limits(
        client->resp, client->entered ? &request_limits : &stranger_limits);
    return true;
}

/* Continues after the other clients have run. */
static void yield(struct symc_client *client)
{
    static const struct timeval at_once = {0};

    symc_client_flush(client);
    symc_client_listen(client, false);
    event_add(&client->again, &at_once);
}

/* Runs complete requests while the client reads its replies and has not used up
 * its share of work.  If it stops before the last one, the end of the output or
 * the next turn calls it again. */
static void run_requests(struct symc_client *client)
{
    const struct symc_server *server = client->server;
    size_t begun = server->work;
    bool more = true, over = false;

    while (more && !over && !client->closing && !client->doomed &&
           symc_client_out(client) < SYMC_SERVER_OUT_HIGH) {
        more = run_request(client);
        over = server->work - begun > SYMC_SERVER_TURN;
        if (!more || symc_client_out(client) >= SYMC_SERVER_OUT_HIGH)
            symc_client_flush(client);
    }
    if (client->closing)
        symc_client_flush(client);
    if (client->closing || symc_client_out(client) >= SYMC_SERVER_OUT_HIGH)
        symc_client_listen(client, false);
    else if (over && !client->doomed)
        yield(client);
    symc_client_count(client);
    if (client->closing && symc_client_out(client) == 0)
        symc_client_doom(client);
}

/* Parses input of a client. */
static void take_input(
    struct symc_client *client, const void *data, size_t nbytes)
{
    if (symc_resp_feed(client->resp, data, nbytes) != SYMMCOLL_OK)
        symc_client_doom(client);
}

/* Runs the remaining requests; resumes reading if there are none. */
static void go_on(struct symc_client *client)
{
    run_requests(client);
    if (!client->closing && !client->doomed &&
        symc_client_out(client) < SYMC_SERVER_OUT_HIGH &&
        !event_pending(&client->again, EV_TIMEOUT, NULL))
        symc_client_listen(client, true);
}

/* Continues, or closes the client, after all output has been sent. */
static void sent_all(struct symc_client *client)
{
    if (client->closing)
        symc_client_doom(client);
    else
        go_on(client);
}

/* Continues after the other clients have run. */
static void take_turn(int fd, short what, void *arg)
{
    struct symc_client *client = arg;
    struct symc_server *server = client->server;

    (void)fd;
    (void)what;
    if (!client->doomed && !client->closing)
        go_on(client);
    drop_doomed(server);
}

/* ---- the socket, without TLS ---- */

static void read_ready(int fd, short what, void *arg)
{
    struct symc_client *client = arg;
    struct symc_server *server = client->server;
    ssize_t n = recv(fd, server->input, sizeof(server->input), MSG_DONTWAIT);

    (void)what;
    if (n > 0) {
        take_input(client, server->input, (size_t)n);
        run_requests(client);
    } else if (n == 0 || (errno != EAGAIN && errno != EINTR)) {
        symc_client_doom(client);
    }
    drop_doomed(server);
}

static void write_ready(int fd, short what, void *arg)
{
    struct symc_client *client = arg;
    struct symc_server *server = client->server;
    int n = evbuffer_write(client->out, fd);

    (void)what;
    if (n < 0 && errno != EAGAIN && errno != EINTR) {
        symc_client_doom(client);
    } else if (symc_client_out(client) == 0) {
        event_del(&client->writable);
        sent_all(client);
    } else {
        symc_client_count(client);
    }
    drop_doomed(server);
}

/* ---- the socket, with TLS ---- */

static void read_tls(struct bufferevent *events, void *arg)
{
    struct symc_client *client = arg;
    struct symc_server *server = client->server;
    struct evbuffer *in = bufferevent_get_input(events);
    struct evbuffer_iovec piece;

    while (!client->doomed && evbuffer_peek(in, -1, NULL, &piece, 1) > 0) {
        take_input(client, piece.iov_base, piece.iov_len);
        evbuffer_drain(in, piece.iov_len);
    }
    run_requests(client);
    drop_doomed(server);
}

static void write_tls(struct bufferevent *events, void *arg)
{
    struct symc_client *client = arg;
    struct symc_server *server = client->server;

    (void)events;
    sent_all(client);
    drop_doomed(server);
}

static void end_tls(struct bufferevent *events, short what, void *arg)
{
    struct symc_client *client = arg;
    struct symc_server *server = client->server;

    (void)events;
    if ((what & (BEV_EVENT_EOF | BEV_EVENT_ERROR | BEV_EVENT_TIMEOUT)) == 0)
        return; /* the handshake is complete */
    symc_client_doom(client);
    drop_doomed(server);
}

/* ---- accepting and dropping ---- */

/* Returns whether a client has sent a request, and the password if one is
 * needed. */
static bool is_known(const struct symc_client *client)
{
    return client->spoke && client->entered;
}

/* Drops the client that has been unknown for the longest time, to make room. */
static bool drop_unknown(struct symc_server *server)
{
    struct symc_client *client = server->first;

    while (client != NULL && is_known(client))
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
        if (!is_known(client) && now_ns - client->since_ns > UNKNOWN_NS)
            symc_client_doom(client);
    drop_doomed(server);
}

static void refuse(int fd)
{
    static const char text[] = "-ERR max number of clients reached\r\n";

    /* Best effort: the socket is closed in any case. */
    (void)!send(fd, text, sizeof(text) - 1, MSG_NOSIGNAL | MSG_DONTWAIT);
    close(fd);
}

/* Registers a client with the event loop.  Returns false without memory. */
static bool attach(struct symc_client *client)
{
    struct symc_server *server = client->server;

    if (server->tls != NULL) {
        client->tls = symc_server_tls_accept(server, client->fd);
        if (client->tls == NULL)
            return false;
        client->out = bufferevent_get_output(client->tls);
        bufferevent_setcb(client->tls, read_tls, write_tls, end_tls, client);
        bufferevent_enable(client->tls, EV_READ | EV_WRITE);
        return true;
    }
    client->out = evbuffer_new();
    if (client->out == NULL)
        return false;
    event_assign(&client->readable, server->base, client->fd,
        EV_READ | EV_PERSIST, read_ready, client);
    event_assign(&client->writable, server->base, client->fd,
        EV_WRITE | EV_PERSIST, write_ready, client);
    return event_add(&client->readable, NULL) == 0;
}

static void append_client(
    struct symc_server *server, struct symc_client *client)
{
    client->previous = server->last;
    if (server->last != NULL)
        server->last->next = client;
    else
        server->first = client;
    server->last = client;
    server->nclients++;
}

void symc_client_accept(struct symc_server *server, int fd)
{
    struct symc_client *client;
    int one = 1;

    if (server->nclients >= server->max_clients && !drop_unknown(server)) {
        refuse(fd);
        return;
    }
    client = symc_alloc(1, sizeof(*client));
    if (client == NULL) {
        close(fd);
        return;
    }
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
    setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &one, sizeof(one));
    client->fd = fd;
    client->server = server;
    client->since_ns = symc_now_ns();
    client->entered = server->password[0] == '\0';
    evtimer_assign(&client->again, server->base, take_turn, client);
    if (symc_resp_create(client->entered ? &request_limits : &stranger_limits,
            &client->resp) != SYMMCOLL_OK ||
        !attach(client)) {
        free_connection(client);
        return;
    }
    append_client(server, client);
}
