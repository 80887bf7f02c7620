/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The bootstrap server: it collects one hello from each rank of a rendezvous
 * and then sends all offers to all ranks. It never blocks, trusts no message,
 * and drops an invalid client without harm to the others.
 */
#include "bootstrap/server.h"
#include "base/descriptor.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#define MAX_SILENT 256 /* most clients that have connected and sent nothing */

/* Limits of one call of symc_bootstrap_serve(), so that the caller can do other
 * work. */
#define SERVE_NS (INT64_C(5) * 1000 * 1000)
#define SERVE_MESSAGES 3 /* of one client: hello, GIVE_UP, end */
#define SERVE_ACCEPTS 64 /* accepted before clients are served again */

/* ---- messages of clients ---- */

static bool hello_is_sane(
    const struct symc_bootstrap_hello *hello, size_t nbytes)
{
    return nbytes == sizeof(*hello) && hello->magic == SYMC_BOOTSTRAP_MAGIC &&
           hello->kind == SYMC_BOOTSTRAP_HELLO && hello->size > 0 &&
           hello->size <= SYMC_RANKS_MAX && hello->rank >= 0 &&
           hello->rank < hello->size &&
           memchr(hello->name, '\0', sizeof(hello->name)) != NULL;
}

/* Returns whether the server only stays to inform late ranks of a failure. */
static bool is_going(const struct symc_bootstrap_server *server)
{
    const struct symc_bootstrap_rendezvous *at = server->rendezvous_list;

    while (at != NULL && at->failure != SYMMCOLL_OK)
        at = at->next;
    return server->serve_once && server->rendezvous_list != NULL && at == NULL;
}

/* Fails all rendezvous, since no more clients can be accepted. */
static symmcoll_status_t fail_full(
    struct symc_bootstrap_server *server, int error)
{
    struct symc_bootstrap_rendezvous *rendezvous, *next;
    char where[160], refused[SYMC_BOOTSTRAP_REFUSED_TEXT];
    symmcoll_status_t status;

    snprintf(where, sizeof(where),
        "init: the bootstrap server in process %d cannot accept one more "
        "rank%s",
        (int)getpid(), symc_bootstrap_format_refused(server, refused));
    status = symc_fail_descriptor(error, where);
    if (server->serve_once) {
        server->failure = status;
        snprintf(
            server->text, sizeof(server->text), "%s", symmcoll_last_error());
    }
    for (rendezvous = server->rendezvous_list; rendezvous != NULL;
         rendezvous = next) {
        next = rendezvous->next;
        if (!rendezvous->complete && rendezvous->failure == SYMMCOLL_OK)
            symc_bootstrap_fail_rendezvous(
                server, rendezvous, status, symmcoll_last_error());
    }
    return status;
}

/* Receives a client's message; the client may be freed afterwards. */
static void receive(
    struct symc_bootstrap_server *server, struct symc_bootstrap_client *client)
{
    struct symc_bootstrap_hello message;
    size_t nbytes = sizeof(message);
    int fds[SYMC_BOOTSTRAP_FDS], nfds = SYMC_BOOTSTRAP_FDS;
    int error = symc_bootstrap_message_receive(
        client->fd, &message, &nbytes, fds, &nfds);

    if (error == EAGAIN)
        return;
    if (error == EMFILE && client->state == SYMC_BOOTSTRAP_CLIENT_NEW) {
        symc_bootstrap_close_fds(fds, nfds);
        symc_bootstrap_refuse(server, client, SYMMCOLL_ERR_SYSTEM,
            "init: the bootstrap server has no descriptor left: RLIMIT_NOFILE "
            "is too low for this number of ranks");
        /* With a valid hello it is one of the expected ranks. */
        if (hello_is_sane(&message, nbytes))
            (void)fail_full(server, error);
        return;
    }
    if (error != 0) {
        symc_bootstrap_close_fds(fds, nfds);
        symc_bootstrap_lose(server, client);
        return;
    }
    if (client->state == SYMC_BOOTSTRAP_CLIENT_NEW &&
        hello_is_sane(&message, nbytes)) {
        client->hello = message;
        client->hello.nfds = (uint32_t)nfds;
        memcpy(client->fds, fds, sizeof(fds));
        symc_bootstrap_admit(server, client);
        return;
    }
    symc_bootstrap_close_fds(fds, nfds);
    if (client->state == SYMC_BOOTSTRAP_CLIENT_NEW &&
        nbytes == sizeof(message) && message.magic == SYMC_BOOTSTRAP_MAGIC &&
        message.kind == SYMC_BOOTSTRAP_PROBE && !is_going(server))
        symc_bootstrap_acknowledge(client);
    if (client->state == SYMC_BOOTSTRAP_CLIENT_NEW ||
        nbytes != sizeof(message) || message.magic != SYMC_BOOTSTRAP_MAGIC)
        symc_bootstrap_lose(server, client);
    else if (client->unacknowledged && message.kind == SYMC_BOOTSTRAP_ACK)
        symc_bootstrap_take_ack(server, client);
    else if (client->state == SYMC_BOOTSTRAP_CLIENT_JOINED &&
             message.kind == SYMC_BOOTSTRAP_GIVE_UP)
        symc_bootstrap_give_up(server, client);
    else if (client->state == SYMC_BOOTSTRAP_CLIENT_JOINED &&
             message.kind == SYMC_BOOTSTRAP_MISSING)
        symc_bootstrap_send_missing(server, client);
}

/* Drops the client that has been silent longest, if more than `most` are
 * silent; else returns false. */
static bool drop_silent(struct symc_bootstrap_server *server, int most)
{
    struct symc_bootstrap_client *oldest = NULL;
    int count = 0;
    char first;

    for (struct symc_bootstrap_client *at = server->clients; at != NULL;
         at = at->next) {
        /* This process's own rank sends its hello later. */
        if (at->state != SYMC_BOOTSTRAP_CLIENT_NEW || at->own)
            continue;
        oldest = at; /* the newest is at the head */
        count++;
    }
    if (count <= most)
        return false;
    /* Its hello may have arrived since, and wait to be received. */
    if (recv(oldest->fd, &first, 1, MSG_PEEK | MSG_DONTWAIT) > 0)
        receive(server, oldest);
    else
        symc_bootstrap_drop_client(server, oldest);
    return true;
}

/* Adds a connection, or closes it; 0 or an errno. */
static int add_client(
    struct symc_bootstrap_server *server, int fd, pid_t pid, bool own)
{
    struct epoll_event event = {.events = EPOLLIN};
    struct symc_bootstrap_client *client = symc_alloc(1, sizeof(*client));

    event.data.ptr = client;
    if (client == NULL ||
        epoll_ctl(server->epoll, EPOLL_CTL_ADD, fd, &event) != 0) {
        int error = errno;

        free(client);
        close(fd);
        return error;
    }
    client->fd = fd;
    client->pid = pid;
    client->own = own;
    client->next = server->clients;
    server->clients = client;
    drop_silent(server, MAX_SILENT);
    return 0;
}

/* Accepts a client; false: none waits, or it could not be accepted. */
static bool accept_client(struct symc_bootstrap_server *server)
{
    uid_t uid;
    pid_t pid;
    int fd = symc_descriptor_raise(
        accept4(server->listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK));

    if (fd < 0 && (errno == EMFILE || errno == ENFILE)) {
        int error = errno;
        bool room = drop_silent(server, 0);

        errno = error;
        return room;
    }
    if (fd < 0)
        return errno == ECONNABORTED || errno == EINTR;
    if (symc_bootstrap_message_peer(fd, &uid, &pid) == 0 &&
        symc_bootstrap_message_is_trusted(fd, uid, pid)) {
        (void)add_client(
            server, fd, pid, false); /* a client that was not added retries */
        return true;
    }
    server->refused++;
    close(fd);
    return true;
}

/* Accepts some of the waiting connections. False: one could not be accepted,
 * and errno has the reason. */
static bool welcome_some(struct symc_bootstrap_server *server)
{
    int count = 0;

    while (
        count < SERVE_ACCEPTS && server->listener >= 0 && accept_client(server))
        count++;
    return count == SERVE_ACCEPTS || server->listener < 0 || errno == EAGAIN;
}

/* Returns whether a client of an event still exists: a message of another
 * client may have dropped it. */
static bool is_client(const struct symc_bootstrap_server *server,
    const struct symc_bootstrap_client *client)
{
    const struct symc_bootstrap_client *at = server->clients;

    while (at != NULL && at != client)
        at = at->next;
    return at != NULL;
}

symmcoll_status_t symc_bootstrap_serve(struct symc_bootstrap_server *server)
{
    struct epoll_event events[32];
    int64_t until = symc_now_ns() + SERVE_NS;
    int count;

    do {
        count = epoll_wait(server->epoll, events, 32, 0);
        for (int i = 0; i < count; i++) {
            struct symc_bootstrap_client *client = events[i].data.ptr;

            if (client == NULL && !welcome_some(server))
                return fail_full(server, errno);
            if (client == NULL)
                continue;
            /* A rank that has joined, given up and left has sent all of that
             * before its hello counts. A dropped client is looked up here, not
             * read. */
            /* NOLINTNEXTLINE(clang-analyzer-unix.Malloc) */
            for (int n = 0; n < SERVE_MESSAGES && is_client(server, client);
                 n++)
                receive(server, client);
        }
        symc_bootstrap_send_all(server);
    } while (count > 0 && symc_now_ns() < until);
    symc_bootstrap_fail_late(server, count == 0);
    return SYMMCOLL_OK;
}

/* ---- opening and closing ---- */

symmcoll_status_t symc_bootstrap_open_until(const char *name,
    const struct symc_bootstrap_events *events, int64_t deadline_ns,
    struct symc_bootstrap_server **server)
{
    struct epoll_event event = {.events = EPOLLIN};
    struct symc_bootstrap_server *made = symc_alloc(1, sizeof(*made));
    symmcoll_status_t status;

    if (made == NULL)
        return SYMMCOLL_ERR_NO_MEMORY;
    status = symc_bootstrap_listen(name, deadline_ns, &made->listener);
    if (status != SYMMCOLL_OK)
        goto free_server;
    made->epoll = symc_descriptor_raise(epoll_create1(EPOLL_CLOEXEC));
    if (made->epoll < 0 ||
        epoll_ctl(made->epoll, EPOLL_CTL_ADD, made->listener, &event) != 0) {
        status = symc_fail_descriptor(errno, "bootstrap server: epoll");
        goto close_listener;
    }
    if (events != NULL)
        made->events = *events;
    *server = made;
    return SYMMCOLL_OK;

close_listener:
    close(made->listener);
    if (made->epoll >= 0)
        close(made->epoll);
free_server:
    free(made);
    return status;
}

symmcoll_status_t symc_bootstrap_open(const char *name,
    const struct symc_bootstrap_events *events,
    struct symc_bootstrap_server **server)
{
    return symc_bootstrap_open_until(name, events, 0, server);
}

void symc_bootstrap_close(struct symc_bootstrap_server *server)
{
    if (server == NULL)
        return;
    while (server->clients != NULL)
        symc_bootstrap_drop_client(server, server->clients);
    while (server->rendezvous_list != NULL)
        symc_bootstrap_drop_rendezvous(server, server->rendezvous_list);
    for (size_t i = 0; i < server->completed_count; i++)
        free(server->completed[i]);
    free(server->completed);
    close(server->epoll);
    symc_bootstrap_stop_listening(server);
    free(server);
}

symmcoll_status_t symc_bootstrap_add(
    struct symc_bootstrap_server *server, int fd)
{
    int error = add_client(server, fd, getpid(), true);

    return error == 0 ? SYMMCOLL_OK
                      : symc_fail_descriptor(error, "bootstrap server: epoll");
}

void symc_bootstrap_serve_once(struct symc_bootstrap_server *server)
{
    server->serve_once = true;
}

int symc_bootstrap_fd(const struct symc_bootstrap_server *server)
{
    return server->epoll;
}

bool symc_bootstrap_is_listening(const struct symc_bootstrap_server *server)
{
    return server->listener >= 0;
}
