/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Commands and replies over a non-blocking socket: every wait is a poll(2)
 * until the deadline, and send(2) raises no SIGPIPE.
 */
#include "store/link.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define CHUNK 16384
#define KEEP_ROOM 65536 /* largest buffer kept on an idle link */

struct symc_link {
    int fd;
    int end_fd; /* -1: none */
    bool broken;
    struct symc_tls *tls; /* NULL: none */
    struct symc_resp *resp;
    char *out; /* output; unsent from `sent` to `filled` */
    size_t sent, filled, room;
    char place[SYMC_PLACE_TEXT];
};

static const struct symc_resp_limits limits = {
    .depth = 3,
    .items = 1 << 20,
    .bulk = SYMC_STORE_VALUE_MAX,
    .nbytes = (size_t)8 * SYMC_STORE_VALUE_MAX,
};

static symmcoll_status_t fail_link(
    struct symc_link *link, int error, const char *what)
{
    link->broken = true;
    if (error == 0)
        return symc_fail(
            SYMMCOLL_ERR_SYSTEM, "tcp store: %s: %s", link->place, what);
    return symc_fail_errno(
        SYMMCOLL_ERR_SYSTEM, error, "tcp store: %s: %s", link->place, what);
}

/* Adds the address to a failure's detail, which TLS and the parser do not
 * know. */
static symmcoll_status_t name_place(
    const struct symc_link *link, symmcoll_status_t status)
{
    static const char store[] = "tcp store: ";
    const char *what = symmcoll_last_error();

    if (status == SYMMCOLL_OK || strstr(what, link->place) != NULL)
        return status;
    if (strncmp(what, store, sizeof(store) - 1) == 0)
        what += sizeof(store) - 1;
    return symc_error_amend(status, "%s%s: %s", store, link->place, what);
}

/* Adds bytes to the output. */
static symmcoll_status_t add_bytes(
    struct symc_link *link, const void *data, size_t nbytes)
{
    if (link->sent == link->filled)
        link->sent = link->filled = 0;
    if (nbytes > link->room - link->filled) {
        size_t room = 2 * (link->filled + nbytes);
        char *out = realloc(link->out, room);

        if (out == NULL)
            return symc_fail(
                SYMMCOLL_ERR_NO_MEMORY, "tcp store: no memory for a command");
        link->out = out;
        link->room = room;
    }
    if (nbytes > 0)
        memcpy(link->out + link->filled, data, nbytes);
    link->filled += nbytes;
    return SYMMCOLL_OK;
}

static symmcoll_status_t drain_tls(struct symc_link *link)
{
    char chunk[CHUNK];
    symmcoll_status_t status = SYMMCOLL_OK;
    size_t n;

    while (status == SYMMCOLL_OK &&
           (n = symc_tls_drain(link->tls, chunk, sizeof(chunk))) > 0)
        status = add_bytes(link, chunk, n);
    return status;
}

/* Sends what the socket accepts. */
static symmcoll_status_t flush(struct symc_link *link)
{
    while (link->sent < link->filled) {
        ssize_t n = send(link->fd, link->out + link->sent,
            link->filled - link->sent, MSG_NOSIGNAL | MSG_DONTWAIT);

        if (n >= 0)
            link->sent += (size_t)n;
        else if (errno == EAGAIN || errno == EWOULDBLOCK)
            return SYMMCOLL_OK;
        else if (errno != EINTR)
            return fail_link(link, errno, "sending");
    }
    if (link->room > KEEP_ROOM) {
        free(link->out);
        link->out = NULL;
        link->sent = link->filled = link->room = 0;
    }
    return SYMMCOLL_OK;
}

/* Passes plain text that TLS has decrypted to the parser. */
static symmcoll_status_t read_tls(struct symc_link *link)
{
    char chunk[CHUNK];
    symmcoll_status_t status = SYMMCOLL_OK;
    size_t n = 1;

    while (status == SYMMCOLL_OK && n > 0) {
        status = symc_tls_read(link->tls, chunk, sizeof(chunk), &n);
        if (status == SYMMCOLL_OK && n > 0)
            status = symc_resp_feed(link->resp, chunk, n);
    }
    return status;
}

/* Receives available bytes; got is false if there were none. */
static symmcoll_status_t take(struct symc_link *link, bool shaking, bool *got)
{
    char chunk[CHUNK];
    ssize_t n = recv(link->fd, chunk, sizeof(chunk), MSG_DONTWAIT);
    symmcoll_status_t status;

    *got = false;
    if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR))
        return SYMMCOLL_OK;
    if (n < 0)
        return fail_link(link, errno, "receiving");
    if (n == 0)
        return fail_link(link, 0, "the server closed the connection");
    *got = true;
    if (link->tls == NULL)
        return symc_resp_feed(link->resp, chunk, (size_t)n);
    status = symc_tls_feed(link->tls, chunk, (size_t)n);
    return status != SYMMCOLL_OK || shaking ? status : read_tls(link);
}

/* Waits until the socket is ready.  Returns TIMEOUT without a detail. */
static symmcoll_status_t wait_ready(
    const struct symc_link *link, int64_t deadline_ns)
{
    struct pollfd ready[] = {{.fd = link->fd, .events = POLLIN},
        {.fd = link->end_fd, .events = POLLIN}};
    int64_t left = deadline_ns - symc_now_ns();

    if (left <= 0)
        return SYMMCOLL_ERR_TIMEOUT;
    if (link->sent < link->filled)
        ready[0].events |= POLLOUT;
    /* Rounded up, and in pieces that fit in an int. */
    left = left / 1000000 + 1;
    poll(ready, 2, left > 1000000 ? 1000000 : (int)left);
    return ready[1].revents != 0 ? SYMMCOLL_ERR_TIMEOUT : SYMMCOLL_OK;
}

void symc_link_end_by(struct symc_link *link, int fd)
{
    link->end_fd = fd;
}

static symmcoll_status_t shake_hands(
    struct symc_link *link, int64_t deadline_ns)
{
    bool done = false, got;

    for (;;) {
        symmcoll_status_t status = symc_tls_shake(link->tls, &done);

        if (status == SYMMCOLL_OK)
            status = drain_tls(link);
        if (status == SYMMCOLL_OK)
            status = flush(link);
        if (status != SYMMCOLL_OK || (done && link->sent == link->filled))
            return status;
        status = wait_ready(link, deadline_ns);
        if (status == SYMMCOLL_ERR_TIMEOUT)
            return symc_fail(status,
                "tcp store: timeout: no answer from %s to the TLS handshake",
                link->place);
        status = take(link, true, &got);
        if (status != SYMMCOLL_OK)
            return status;
    }
}

/* ---- commands ---- */

symmcoll_status_t symc_link_send(
    struct symc_link *link, const struct symc_arg *args, size_t nargs)
{
    char *text = NULL;
    size_t nbytes = 0;
    symmcoll_status_t status = symc_resp_format(args, nargs, &text, &nbytes);

    if (status != SYMMCOLL_OK) {
        symc_link_break(link); /* a transaction may be open */
        return status;
    }
    if (link->tls == NULL) {
        status = add_bytes(link, text, nbytes);
    } else {
        status = symc_tls_write(link->tls, text, nbytes);
        if (status == SYMMCOLL_OK)
            status = drain_tls(link);
    }
    explicit_bzero(text, nbytes < CHUNK ? nbytes : 0); /* may have a password */
    free(text);
    if (status != SYMMCOLL_OK)
        link->broken = true;
    return name_place(link, status);
}

symmcoll_status_t symc_link_poll(
    struct symc_link *link, int64_t deadline_ns, struct symc_reply **reply)
{
    symmcoll_status_t status;

    *reply = NULL;
    for (;;) {
        bool got = false;

        status = flush(link);
        if (status != SYMMCOLL_OK)
            break;
        status = symc_resp_next(link->resp, reply);
        if (status != SYMMCOLL_OK)
            break;
        if (*reply != NULL)
            return SYMMCOLL_OK;
        status = take(link, false, &got);
        if (status != SYMMCOLL_OK)
            break;
        if (!got && wait_ready(link, deadline_ns) == SYMMCOLL_ERR_TIMEOUT)
            return SYMMCOLL_OK;
    }
    link->broken = true;
    return name_place(link, status);
}

symmcoll_status_t symc_link_receive(
    struct symc_link *link, int64_t deadline_ns, struct symc_reply **reply)
{
    symmcoll_status_t status = symc_link_poll(link, deadline_ns, reply);

    if (status != SYMMCOLL_OK || *reply != NULL)
        return status;
    link->broken = true;
    return symc_fail(SYMMCOLL_ERR_TIMEOUT,
        "tcp store: timeout: no answer from %s", link->place);
}

symmcoll_status_t symc_link_request(struct symc_link *link,
    const struct symc_arg *args, size_t nargs, int64_t deadline_ns,
    struct symc_reply **reply)
{
    symmcoll_status_t status = symc_link_send(link, args, nargs);

    *reply = NULL;
    return status == SYMMCOLL_OK ? symc_link_receive(link, deadline_ns, reply)
                                 : status;
}

bool symc_link_is_good(struct symc_link *link)
{
    struct pollfd ready = {.fd = link->fd, .events = POLLIN};

    /* Between commands the server sends nothing, so readable means closed. */
    return !link->broken && poll(&ready, 1, 0) == 0;
}

void symc_link_break(struct symc_link *link)
{
    link->broken = true;
}

/* ---- opening ---- */

/* Sends one command of the login, which the server must accept. */
static symmcoll_status_t log_in(struct symc_link *link,
    const struct symc_arg *args, size_t nargs, int64_t deadline_ns)
{
    struct symc_reply *reply;
    symmcoll_status_t status =
        symc_link_request(link, args, nargs, deadline_ns, &reply);

    if (status != SYMMCOLL_OK)
        return status;
    if (reply->type == SYMC_REPLY_ERROR) {
        symc_make_printable(reply->text);
        status =
            symc_fail(SYMMCOLL_ERR_INVALID, "tcp store: %s refused %s: %.200s",
                link->place, (const char *)args[0].data, reply->text);
    }
    symc_reply_free(reply);
    return status;
}

/* Logs in and selects the database. */
static symmcoll_status_t enter(
    struct symc_link *link, const struct symc_place *place, int64_t deadline_ns)
{
    char number[16];
    struct symc_arg args[3] = {SYMC_ARG("AUTH")};
    size_t nargs = 1;
    symmcoll_status_t status;

    if (place->password[0] != '\0') {
        if (place->user[0] != '\0')
            args[nargs++] = (struct symc_arg){place->user, strlen(place->user)};
        args[nargs++] =
            (struct symc_arg){place->password, strlen(place->password)};
        status = log_in(link, args, nargs, deadline_ns);
        if (status != SYMMCOLL_OK)
            return status;
    }
    if (place->database == 0)
        return SYMMCOLL_OK;
    args[0] = SYMC_ARG("SELECT");
    args[1].data = number;
    args[1].nbytes =
        (size_t)snprintf(number, sizeof(number), "%d", place->database);
    return log_in(link, args, 2, deadline_ns);
}

symmcoll_status_t symc_link_open(const struct symc_place *place, bool retry,
    int64_t deadline_ns, struct symc_link **out)
{
    struct symc_link *link = symc_alloc(1, sizeof(*link));
    symmcoll_status_t status;

    if (link == NULL)
        return SYMMCOLL_ERR_NO_MEMORY;
    link->fd = link->end_fd = -1;
    symc_place_text(place, link->place);
    status = symc_resp_create(&limits, &link->resp);
    if (status != SYMMCOLL_OK)
        goto close_link;
    status = symc_dial(place, retry, deadline_ns, &link->fd);
    if (status != SYMMCOLL_OK)
        goto close_link;
    if (place->tls) {
        status = symc_tls_open(place, &link->tls);
        if (status == SYMMCOLL_OK)
            status = shake_hands(link, deadline_ns);
        if (status != SYMMCOLL_OK)
            goto close_link;
    }
    status = enter(link, place, deadline_ns);
    if (status != SYMMCOLL_OK)
        goto close_link;
    *out = link;
    return SYMMCOLL_OK;

close_link:
    status = name_place(link, status);
    symc_link_close(link);
    return status;
}

void symc_link_close(struct symc_link *link)
{
    if (link == NULL)
        return;
    symc_tls_close(link->tls);
    symc_resp_free(link->resp);
    if (link->fd >= 0)
        close(link->fd);
    free(link->out);
    free(link);
}
