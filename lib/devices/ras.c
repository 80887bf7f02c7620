/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A client of NCCL's RAS service.  Client and service exchange lines: the
 * versions of the protocol, the time that the service may wait for other
 * processes, and the request, whose reply ends with the connection.  NCCL
 * itself is not called, because the rank may be stuck in a call of NCCL.
 */
#include "devices/ras.h"

#include "store/link.h"

#include <errno.h>
#include <netdb.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define DEFAULT_ADDRESS "localhost:28028"
#define LINE 128 /* most bytes of a line of the protocol */

struct question {
    struct symc_trace_ras *ras; /* out */
    const char *address;
    int64_t timeout_ns, deadline_ns;
    int fd;
};

const char *symc_trace_ras_find(void)
{
    const char *enabled = symc_variable_get("NCCL_RAS_ENABLE");
    const char *address = symc_variable_get("NCCL_RAS_ADDR");
    char *end;

    if (enabled != NULL && strtoll(enabled, &end, 0) == 0 && end != enabled)
        return NULL;
    return address != NULL && address[0] != '\0' ? address : DEFAULT_ADDRESS;
}

/* ---- errors ---- */

/* Records why the reply is incomplete; returns false. */
static bool fail(
    const struct question *question, const char *expected, const char *found)
{
    struct symc_trace_ras *ras = question->ras;

    snprintf(ras->error, sizeof(ras->error),
        "NCCL's RAS service at %.64s: expected %.48s, found %.48s",
        question->address, expected, found);
    return false;
}

static bool fail_late(const struct question *question, const char *expected)
{
    char found[48];

    snprintf(found, sizeof(found), "none within %.3g s",
        (double)question->timeout_ns / (double)SYMC_NS_PER_S);
    return fail(question, expected, found);
}

/* Replaces control and non-ASCII characters, because any process could listen
 * at the port and a terminal interprets some of them. */
static void clean(char *text, bool lines)
{
    for (; *text != '\0'; text++)
        if ((*text < ' ' || *text > '~') && !(lines && *text == '\n'))
            *text = '?';
}

/* ---- the connection ---- */

/* Parses "host:port" or "[host]:port". */
static bool parse(const char *address, struct symc_place *place)
{
    const char *colon = strrchr(address, ':');
    char *end;
    size_t length;
    long port;

    if (colon == NULL || colon == address)
        return false;
    port = strtol(colon + 1, &end, 10);
    length = (size_t)(colon - address);
    if (address[0] == '[' && length > 2 && colon[-1] == ']') {
        address++;
        length -= 2;
    }
    if (end == colon + 1 || *end != '\0' || port < 1 || port > 65535 ||
        length >= sizeof(place->host))
        return false;
    memcpy(place->host, address, length);
    place->host[length] = '\0';
    place->port = (int)port;
    return true;
}

/* Connects.  Returns 0 or an errno. */
static int dial(struct question *question, const struct symc_place *place)
{
    struct symc_addresses addresses = {.list = NULL};
    int error = EADDRNOTAVAIL;

    if (symc_resolve(place, false, question->deadline_ns, &addresses) !=
        SYMMCOLL_OK)
        return symc_now_ns() < question->deadline_ns ? error : ETIMEDOUT;
    for (const struct addrinfo *at = addresses.list; at != NULL && error != 0;
         at = at->ai_next)
        error = symc_dial_one(at, question->deadline_ns, &question->fd);
    symc_resolve_free(&addresses);
    return error;
}

/* Connects to the service.  NCCL listens only at the first address of
 * localhost, which may be IPv4 or IPv6. */
static bool reach(struct question *question)
{
    static const char *const loopback[] = {"127.0.0.1", "::1"};
    struct symc_place place = {.port = 0};
    int error = 0;
    bool local;

    if (!parse(question->address, &place))
        return fail(question, "a host, a colon and a port", "no such thing");
    local = strcmp(place.host, "localhost") == 0;
    for (size_t i = 0; i < (local ? 2 : 1); i++) {
        int found;

        if (local)
            snprintf(place.host, sizeof(place.host), "%s", loopback[i]);
        found = dial(question, &place);
        if (found == 0)
            return true;
        /* The IPv4 error is reported: IPv6 may not be available. */
        error = i == 0 ? found : error;
    }
    return error == ETIMEDOUT ? fail_late(question, "a connection")
                              : fail(question, "a connection", strerror(error));
}

/* Waits until the socket is ready.  Returns false at the deadline. */
static bool await(const struct question *question, short events)
{
    struct pollfd ready = {.fd = question->fd, .events = events};

    for (;;) {
        int64_t left = question->deadline_ns - symc_now_ns();

        if (left <= 0)
            return false;
        if (poll(&ready, 1, (int)(left / 1000000) + 1) > 0)
            return true;
    }
}

static bool send_line(const struct question *question, const char *line)
{
    size_t nbytes = strlen(line);

    while (nbytes > 0) {
        ssize_t n;

        if (!await(question, POLLOUT))
            return fail_late(question, "that it reads");
        n = send(question->fd, line, nbytes, MSG_NOSIGNAL);
        if (n >= 0) {
            line += n;
            nbytes -= (size_t)n;
        } else if (errno != EAGAIN && errno != EINTR) {
            return fail(question, "that it reads", strerror(errno));
        }
    }
    return true;
}

/* Receives bytes.  Returns their number, 0 at the end, -1 on failure. */
static ssize_t receive(const struct question *question, const char *expected,
    char *buffer, size_t nbytes)
{
    while (await(question, POLLIN)) {
        ssize_t n = recv(question->fd, buffer, nbytes, 0);

        /* A zero byte would hide what follows it. */
        for (ssize_t i = 0; i < n; i++)
            if (buffer[i] == '\0')
                buffer[i] = '?';
        if (n >= 0)
            return n;
        if (errno != EAGAIN && errno != EINTR) {
            (void)fail(question, expected, strerror(errno));
            return -1;
        }
    }
    (void)fail_late(question, expected);
    return -1;
}

/* Sends a line, and receives one that must begin with `expected`. */
static bool exchange(
    const struct question *question, const char *line, const char *expected)
{
    char found[LINE] = "", said[LINE];
    size_t used = 0;

    snprintf(said, sizeof(said), "\"%s\"", expected);
    if (!send_line(question, line))
        return false;
    while (used < sizeof(found) - 1 && strchr(found, '\n') == NULL) {
        ssize_t n =
            receive(question, said, found + used, sizeof(found) - 1 - used);

        if (n < 0)
            return false;
        if (n == 0)
            return fail(question, said, "the end of the connection");
        used += (size_t)n;
        found[used] = '\0';
    }
    if (strncmp(found, expected, strlen(expected)) == 0)
        return true;
    found[strcspn(found, "\n")] = '\0';
    clean(found, false);
    return fail(question, said, found);
}

/* Receives the reply up to the end of the connection. */
static bool receive_all(const struct question *question)
{
    static const char expected[] = "the end of its answer";
    char *text = question->ras->text;
    size_t used = 0;
    ssize_t n;
    char more;

    while (used < SYMC_TRACE_RAS_MOST) {
        n = receive(
            question, expected, text + used, SYMC_TRACE_RAS_MOST - used);
        if (n <= 0)
            return n == 0;
        used += (size_t)n;
    }
    n = receive(question, expected, &more, 1);
    return n > 0 ? fail(question, "64 KiB at most", "more") : n == 0;
}

/* Returns how many whole seconds the service may wait for other processes: half
 * of the timeout, so that its reply arrives in time. */
static long find_limit(int64_t timeout_ns)
{
    int64_t seconds = timeout_ns / SYMC_NS_PER_S / 2;

    return seconds < 1 ? 1 : (long)seconds;
}

void symc_trace_ras_query(
    const char *address, int64_t timeout_ns, struct symc_trace_ras *ras)
{
    struct question question = {.ras = ras,
        .address = address,
        .timeout_ns = timeout_ns,
        .deadline_ns = symc_deadline_ns(symc_now_ns(), timeout_ns),
        .fd = -1};
    char limit[LINE];

    memset(ras, 0, sizeof(*ras));
    snprintf(limit, sizeof(limit), "TIMEOUT %ld\n", find_limit(timeout_ns));
    if (reach(&question) &&
        exchange(&question, "CLIENT PROTOCOL 2\n", "SERVER PROTOCOL ") &&
        exchange(&question, limit, "OK") &&
        send_line(&question, "VERBOSE STATUS\n") && receive_all(&question) &&
        ras->text[0] == '\0')
        (void)fail(&question, "an answer", "none");
    clean(ras->text, true);
    clean(ras->error, false);
    if (question.fd >= 0)
        close(question.fd);
}
