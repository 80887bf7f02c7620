/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Tests queries of NCCL's RAS service, with a stand-in for it in a thread of
 * this process, which answers as the service does or misbehaves.
 */
#include "devices/ras.h"
#include "t/tap.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define SOON_NS (SYMC_NS_PER_S / 5)  /* for what does not answer */
#define LATE_NS (10 * SYMC_NS_PER_S) /* for what does, and as a bound */
#define ANSWER "NCCL version 2.28.9\n\nCommunicators...\n  4 ranks  OK\n"

/* The stand-in's answers to each line that it receives. NULL: it closes the
 * connection; "": it sends nothing, and waits for the client to close. */
struct script {
    const char *version, *limit, *answer;
    size_t nbytes; /* of the answer; 0: strlen() */
    bool endless;  /* it repeats its answer */
    bool slow;     /* with a pause before each byte */
    bool stays;    /* it does not close the connection after its answer */
};

static const struct script right = {
    .version = "SERVER PROTOCOL 2\n", .limit = "OK\n", .answer = ANSWER};

static struct {
    struct script script;
    int listener, port;
    char heard[256];
} server;

static struct symc_trace_ras ras;
static int64_t took_ns;

/* ---- the stand-in ---- */

static int hears_line(int fd)
{
    size_t used = strlen(server.heard);
    char byte = 0;

    while (byte != '\n' && used < sizeof(server.heard) - 1) {
        if (recv(fd, &byte, 1, 0) != 1)
            return 0;
        server.heard[used++] = byte;
    }
    return 1;
}

static int says(int fd, const char *data, size_t nbytes)
{
    size_t piece = server.script.slow ? 1 : nbytes;

    for (size_t at = 0; at < nbytes; at += piece) {
        if (server.script.slow)
            usleep(5000);
        if (send(fd, data + at, piece, MSG_NOSIGNAL) != (ssize_t)piece)
            return 0;
    }
    return 1;
}

/* Sends an answer. Returns whether to read another line. */
static int replies(int fd, const char *line)
{
    char byte;

    if (line == NULL)
        return 0;
    if (line[0] != '\0')
        return says(fd, line, strlen(line));
    while (recv(fd, &byte, 1, 0) > 0)
        continue;
    return 0;
}

static void answer(int fd)
{
    const struct script *script = &server.script;
    size_t nbytes = script->nbytes;
    char byte;

    if (!hears_line(fd) || !replies(fd, script->version) || !hears_line(fd) ||
        !replies(fd, script->limit) || !hears_line(fd) ||
        script->answer == NULL)
        return;
    nbytes = nbytes > 0 ? nbytes : strlen(script->answer);
    while (says(fd, script->answer, nbytes) && script->endless)
        continue;
    while (script->stays && recv(fd, &byte, 1, 0) > 0)
        continue;
}

static void *serve(void *unused)
{
    int fd = accept(server.listener, NULL, NULL);

    (void)unused;
    if (fd >= 0) {
        answer(fd);
        close(fd);
    }
    return NULL;
}

static int open_port(bool listens)
{
    struct sockaddr_in at = {
        .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t nbytes = sizeof(at);

    server.listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (server.listener < 0 ||
        bind(server.listener, (struct sockaddr *)&at, sizeof(at)) != 0 ||
        (listens && listen(server.listener, 4) != 0) ||
        getsockname(server.listener, (struct sockaddr *)&at, &nbytes) != 0)
        return 0;
    server.port = ntohs(at.sin_port);
    return 1;
}

/* ---- the client ---- */

static void ask_at(const char *address, int64_t timeout_ns)
{
    int64_t began = symc_now_ns();

    symc_trace_ras_query(address, timeout_ns, &ras);
    took_ns = symc_now_ns() - began;
}

static void ask_port(const char *host, int64_t timeout_ns)
{
    char address[64];

    snprintf(address, sizeof(address), "%s:%d", host, server.port);
    ask_at(address, timeout_ns);
}

/* Queries a stand-in with this script. */
static int ask(const struct script *script, int64_t timeout_ns)
{
    pthread_t thread;

    server.script = *script;
    memset(server.heard, 0, sizeof(server.heard));
    if (!open_port(true) || pthread_create(&thread, NULL, serve, NULL) != 0)
        return 0;
    ask_port("localhost", timeout_ns);
    pthread_join(thread, NULL);
    close(server.listener);
    return 1;
}

/* Checks the result of the query: its text, and the end of its error (NULL:
 * none). */
static int found(const char *text, const char *error)
{
    size_t skipped = 0;

    if (error != NULL && strlen(ras.error) > strlen(error))
        skipped = strlen(ras.error) - strlen(error);
    if (strcmp(ras.text, text) == 0 &&
        strcmp(ras.error + skipped, error != NULL ? error : "") == 0)
        return took_ns < LATE_NS;
    diag("found '%.200s' and '%s' after %.3f s", ras.text, ras.error,
        (double)took_ns / 1e9);
    return 0;
}

/* ---- the tests ---- */

static void test_answers(void)
{
    struct script other = right;

    ok(ask(&right, LATE_NS) && found(ANSWER, NULL),
        "the answer is there, with all its lines");
    ok(strcmp(server.heard, "CLIENT PROTOCOL 2\nTIMEOUT 5\nVERBOSE STATUS\n") ==
            0,
        "the service waits for half of the time for other processes");
    other.version = "SERVER PROTOCOL 7\n";
    ok(ask(&other, LATE_NS) && found(ANSWER, NULL),
        "one of another version of the protocol is asked all the same");
    other.answer = "a\tb\033[2J\r\n\0c\x80\xff~\x7f";
    other.nbytes = 14;
    ok(ask(&other, LATE_NS) && found("a?b?[2J?\n?c??~", NULL),
        "what no line of text has is replaced");
    other = right;
    other.slow = true;
    ok(ask(&other, LATE_NS) && found(ANSWER, NULL), "lines may come in pieces");
}

static void test_silence(void)
{
    struct script script = right;
    bool good;

    good = open_port(true);
    ask_port("127.0.0.1", SOON_NS);
    ok(good &&
            found("", "expected \"SERVER PROTOCOL \", found none within 0.2 s"),
        "a service that never takes a connection is left in time");
    close(server.listener);
    script.version = "";
    ok(ask(&script, SOON_NS) &&
            found("", "expected \"SERVER PROTOCOL \", found none within 0.2 s"),
        "and one that does not say its version");
    script = right;
    script.limit = "";
    ok(ask(&script, SOON_NS) &&
            found("", "expected \"OK\", found none within 0.2 s"),
        "and one that does not take the limit");
    script = right;
    script.stays = true;
    ok(ask(&script, SOON_NS) &&
            found(ANSWER,
                "expected the end of its answer, found none within 0.2 s"),
        "of one that does not end its answer what it has said is there");
}

static void test_endless(void)
{
    struct script script = right;

    script.endless = true;
    ok(ask(&script, LATE_NS) && strlen(ras.text) == SYMC_TRACE_RAS_MOST &&
            strncmp(ras.text, ANSWER, strlen(ANSWER)) == 0 &&
            strstr(ras.error, "expected 64 KiB at most, found more") != NULL,
        "of an answer without end 64 KiB are there");
    script.slow = true;
    ok(ask(&script, SOON_NS) && strlen(ras.text) < SYMC_TRACE_RAS_MOST &&
            strstr(ras.error, "found none within 0.2 s") != NULL &&
            took_ns < LATE_NS,
        "one that comes byte by byte ends in time, too");
    script = right;
    script.version = "SERVER PROTOCOL 2";
    script.limit = "";
    ok(ask(&script, SOON_NS) && ras.text[0] == '\0' &&
            strstr(ras.error, "found none within 0.2 s") != NULL,
        "and a line that does not end");
}

static void test_ends(void)
{
    struct script script = {.version = NULL};

    ok(ask(&script, LATE_NS) &&
            strstr(ras.error, "\"SERVER PROTOCOL \"") != NULL &&
            found("", ras.error),
        "one that closes the connection at once is told");
    script.version = right.version;
    ok(ask(&script, LATE_NS) && strstr(ras.error, "\"OK\"") != NULL &&
            found("", ras.error),
        "and one that does after its version");
    script.limit = right.limit;
    ok(ask(&script, LATE_NS) && found("", "expected an answer, found none"),
        "and one that does before its answer");
}

static void test_rubbish(void)
{
    struct script script = right;

    script.version = "SSH-2.0-OpenSSH_9.2\033]0;\r\n";
    ok(ask(&script, LATE_NS) &&
            found("", "expected \"SERVER PROTOCOL \", found "
                      "SSH-2.0-OpenSSH_9.2?]0;?"),
        "another service is told by what it says, without what it means to "
        "terminals");
    script.version = right.version;
    script.limit = "ERROR: TIMEOUT\n";
    ok(ask(&script, LATE_NS) &&
            found("", "expected \"OK\", found ERROR: TIMEOUT"),
        "and one that refuses the limit");
}

static void test_addresses(void)
{
    static const char *const bad[] = {
        "", ":28028", "localhost", "localhost:", "localhost:ras", "[::1]"};
    bool refused = open_port(false);

    ask_port("127.0.0.1", LATE_NS);
    ok(refused && found("", "expected a connection, found Connection refused"),
        "where nobody listens that is told at once");
    ask_port("localhost", LATE_NS);
    ok(found("", "expected a connection, found Connection refused"),
        "and under the name localhost");
    ask_port("[127.0.0.1]", LATE_NS);
    ok(found("", "expected a connection, found Connection refused"),
        "an address may stand in brackets");
    close(server.listener);
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        ask_at(bad[i], LATE_NS);
        refused = found("", "expected a host, a colon and a port, found no "
                            "such thing") &&
                  refused;
    }
    ok(refused, "what is no address is told");
}

static int is_at(const char *enable, const char *address, const char *expected)
{
    const char *at;

    unsetenv("NCCL_RAS_ENABLE");
    unsetenv("NCCL_RAS_ADDR");
    if (enable != NULL)
        setenv("NCCL_RAS_ENABLE", enable, 1);
    if (address != NULL)
        setenv("NCCL_RAS_ADDR", address, 1);
    at = symc_trace_ras_find();
    return expected == NULL ? at == NULL
                            : at != NULL && strcmp(at, expected) == 0;
}

static void test_variables(void)
{
    ok(is_at(NULL, NULL, "localhost:28028") &&
            is_at("1", "", "localhost:28028"),
        "the service is at NCCL's default address");
    ok(is_at(NULL, "10.0.0.7:4000", "10.0.0.7:4000"),
        "or where NCCL_RAS_ADDR says");
    ok(is_at("0", NULL, NULL) && is_at("0", "10.0.0.7:4000", NULL),
        "NCCL_RAS_ENABLE=0 turns it off");
}

int main(void)
{
    alarm(120);
    test_answers();
    test_silence();
    test_endless();
    test_ends();
    test_rubbish();
    test_addresses();
    test_variables();
    return done_testing();
}
