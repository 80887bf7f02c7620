/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Tests the limits of a store's server: keys, values, transactions, channels,
 * clients and memory. A client that exceeds one gets an error or is
 * disconnected, and no other client is affected.
 */
#include "store/resp.h"
#include "store/server.h"
#include "t/store/helpers.h"
#include "t/store/raw.h"
#include "t/tap.h"
#include "t/world/faults.h"

#include <sys/resource.h>

#define MIB ((size_t)1 << 20)

static int port;

static long resident_kib(void)
{
    struct rusage usage;

    getrusage(RUSAGE_SELF, &usage);
    return usage.ru_maxrss;
}

/* Sends a part of a request: one string of nbytes bytes. */
static int send_text(int fd, size_t nbytes)
{
    static char bytes[17 << 20];
    char head[32];
    int n = snprintf(head, sizeof head, "$%zu\r\n", nbytes);

    if (bytes[0] == '\0')
        memset(bytes, 'b', sizeof bytes);
    return send_all(fd, head, (size_t)n) && send_all(fd, bytes, nbytes) &&
           send_all(fd, "\r\n", 2);
}

static int send_line(int fd, const char *line)
{
    return send_all(fd, line, strlen(line));
}

/* Reads the next line of a reply. Returns whether it begins with a text. */
static int replies(int fd, const char *text)
{
    char line[256];
    size_t used = 0;
    struct pollfd ready = {.fd = fd, .events = POLLIN};

    while (used < sizeof line - 1 && poll(&ready, 1, 10000) > 0 &&
           recv(fd, line + used, 1, 0) == 1 && line[used] != '\n')
        used++;
    line[used] = '\0';
    if (strncmp(line, text, strlen(text)) == 0)
        return 1;
    diag("expected \"%s\", found \"%s\"", text, line);
    return 0;
}

static int is_closed(int fd)
{
    struct pollfd ready = {.fd = fd, .events = POLLIN};
    char byte;

    return poll(&ready, 1, 10000) > 0 && recv(fd, &byte, 1, 0) <= 0;
}

static void test_sizes(void)
{
    int fd = dial(port);

    ok(send_line(fd, "*2\r\n$3\r\nGET\r\n") && send_text(fd, 5120) &&
            replies(fd, "$-1") && send_line(fd, "*2\r\n$3\r\nGET\r\n") &&
            send_text(fd, 5121) && replies(fd, "-ERR a key has"),
        "a key may have 5120 bytes and no more");
    ok(send_line(fd, "*3\r\n$3\r\nSET\r\n$1\r\nv\r\n") &&
            send_text(fd, 16 * MIB) && replies(fd, "+OK") &&
            send_line(fd, "*2\r\n$6\r\nSTRLEN\r\n$1\r\nv\r\n") &&
            replies(fd, ":16777216"),
        "a value may have 16 MiB");
    ok(send_line(fd, "*3\r\n$6\r\nAPPEND\r\n$1\r\nv\r\n") && send_text(fd, 1) &&
            replies(fd, "-ERR string exceeds"),
        "and no more by appending");
    ok(send_line(fd, "*3\r\n$3\r\nSET\r\n$1\r\nv\r\n$16777217\r\n") &&
            replies(fd, "-ERR Protocol error") && is_closed(fd),
        "who announces more is told and dropped");
    close(fd);
}

static void test_numbers(void)
{
    int fd = dial(port);

    ok(send_line(fd, "*3\r\n$3\r\nSET\r\n$1\r\nl\r\n$1\r\nx\r\n") &&
            replies(fd, "+OK") &&
            send_line(
                fd, "*3\r\n$6\r\nEXPIRE\r\n$1\r\nl\r\n$10\r\n1000000001\r\n") &&
            replies(fd, "-ERR value is not") &&
            send_line(fd, "*3\r\n$6\r\nEXPIRE\r\n$1\r\nl\r\n$19\r\n"
                          "9223372036854775807\r\n") &&
            replies(fd, "-ERR value is not") &&
            send_line(
                fd, "*3\r\n$6\r\nEXPIRE\r\n$1\r\nl\r\n$10\r\n1000000000\r\n") &&
            replies(fd, ":1"),
        "a key may live for 10^9 seconds and no more");
    close(fd);
}

/* Returns whether a reply or request is accepted by a parser that allows lists
 * of 10 parts. */
static int is_taken(const char *text)
{
    const struct symc_resp_limits limits = {
        .depth = 2, .items = 10, .bulk = 10, .nbytes = 1000};
    struct symc_reply *reply = NULL;
    struct symc_resp *resp;
    int good;

    if (symc_resp_create(&limits, &resp) != SYMMCOLL_OK)
        return -1;
    good = symc_resp_feed(resp, text, strlen(text)) == SYMMCOLL_OK &&
           symc_resp_next(resp, &reply) == SYMMCOLL_OK && reply != NULL;
    if (!good && strstr(symmcoll_last_error(), "too many parts") == NULL)
        good = -1;
    symc_reply_free(reply);
    symc_resp_free(resp);
    return good;
}

static void test_parts(void)
{
    ok(is_taken("*2\r\n*4\r\n:1\r\n:1\r\n:1\r\n:1\r\n*4\r\n:1\r\n:1\r\n"
                ":1\r\n:1\r\n") == 1 &&
            is_taken("*2\r\n*4\r\n:1\r\n:1\r\n:1\r\n:1\r\n*5\r\n") == 0 &&
            is_taken("*10\r\n:1\r\n:1\r\n:1\r\n:1\r\n:1\r\n:1\r\n:1\r\n"
                     ":1\r\n:1\r\n:1\r\n") == 1 &&
            is_taken("*11\r\n") == 0,
        "parts of lists within lists count together");
}

static void test_transaction(void)
{
    int fd = dial(port), good = 1;

    good &= send_line(fd, "*1\r\n$5\r\nMULTI\r\n") && replies(fd, "+OK");
    for (int i = 0; i < 4; i++) {
        good &= send_line(fd, "*3\r\n$3\r\nSET\r\n$1\r\nt\r\n") &&
                send_text(fd, 16 * MIB);
        good &= replies(fd, i < 3 ? "+QUEUED" : "-OOM the transaction");
    }
    ok(good && send_line(fd, "*1\r\n$4\r\nEXEC\r\n") &&
            replies(fd, "-EXECABORT") &&
            send_line(fd, "*2\r\n$6\r\nEXISTS\r\n$1\r\nt\r\n") &&
            replies(fd, ":0"),
        "a transaction of more than 64 MiB is discarded");
    close(fd);
}

/* Sends requests for 5000 channels or keys, and ignores the replies. */
static int ask_for_many(int fd, const char *command)
{
    char line[128];

    for (int i = 0; i < 5000; i++) {
        int n = snprintf(line, sizeof line,
            "*2\r\n$%zu\r\n%s\r\n$8\r\nmany%04d\r\n", strlen(command), command,
            i);

        if (!send_all(fd, line, (size_t)n))
            return 0;
        if ((i & 255) == 255) {
            char replies[65536];

            while (recv(fd, replies, sizeof replies, MSG_DONTWAIT) > 0)
                continue;
        }
    }
    return 1;
}

/* Returns whether the line before the last reply, which is that to a PING, is
 * this. */
static int ends_with(int fd, const char *line, const char *pong)
{
    static char text[65536];
    struct pollfd ready = {.fd = fd, .events = POLLIN};
    size_t used = 0, length = strlen(pong);

    while (used < length || strcmp(text + used - length, pong) != 0) {
        ssize_t n = 0;

        if (used > sizeof text / 2) {
            memmove(text, text + used - 256, 256);
            used = 256;
        }
        if (poll(&ready, 1, 60000) > 0)
            n = recv(fd, text + used, sizeof text - 1 - used, 0);
        if (n <= 0)
            return 0;
        used += (size_t)n;
        text[used] = '\0';
    }
    used -= length;
    text[used] = '\0';
    length = strlen(line);
    return used >= length && strcmp(text + used - length, line) == 0;
}

static void test_lists(void)
{
    int channels = dial(port), keys;

    ok(ask_for_many(channels, "SUBSCRIBE") &&
            send_line(channels, "*1\r\n$4\r\nPING\r\n") &&
            ends_with(channels, "-ERR no room for more channels\r\n",
                "*2\r\n$4\r\npong\r\n$0\r\n\r\n"),
        "a client subscribes to 4096 channels and no more");
    /* Connected late, because a client that is silent for 10 s is
     * disconnected. */
    keys = dial(port);
    ok(ask_for_many(keys, "WATCH") && send_line(keys, "*1\r\n$4\r\nPING\r\n") &&
            ends_with(keys,
                "-OOM command not allowed when used memory > 'maxmemory'.\r\n",
                "+PONG\r\n"),
        "and watches 4096 keys");
    close(channels);
    close(keys);
}

/* Publishes large messages to subscribers that never read. */
static void test_publishing(struct symmcoll_store *store)
{
    int readers[32], fd = dial(port), good = 1;
    long before = resident_kib();

    for (int i = 0; i < 32; i++) {
        readers[i] = dial(port);
        good &=
            send_line(readers[i], "*2\r\n$9\r\nSUBSCRIBE\r\n$4\r\nloud\r\n");
        good &= replies(readers[i], "*3");
    }
    for (int i = 0; i < 4; i++)
        good &= send_line(fd, "*3\r\n$7\r\nPUBLISH\r\n$4\r\nloud\r\n") &&
                send_text(fd, 16 * MIB) && replies(fd, ":");
    ok(good && set_text(store, "k", "v") && holds(store, "k", "v") &&
            (SANITIZED || resident_kib() - before < 450000),
        "messages that nobody reads are kept up to 256 MiB in all");
    diag("resident memory grew by %ld KiB", resident_kib() - before);
    for (int i = 0; i < 32; i++)
        close(readers[i]);
    close(fd);
}

static void test_server(void)
{
    struct symc_place place = {.host = "127.0.0.1"};
    struct symc_server_args args = {.place = &place,
        .deadline_ns = SYMC_NEVER,
        .max_clients = 2,
        .max_memory = MIB};
    struct symc_server *server;
    static const char ping[] = "*1\r\n$4\r\nPING\r\n";
    int fds[3];

    if (symc_server_start(&args, &server) != SYMMCOLL_OK) {
        skip(3, "%s", symmcoll_last_error());
        return;
    }
    for (int i = 0; i < 2; i++) {
        fds[i] = dial(symc_server_port(server));
        if (!send_line(fds[i], ping) || !replies(fds[i], "+PONG"))
            diag("client %d gets no answer", i);
    }
    fds[2] = dial(symc_server_port(server));
    ok(replies(fds[2], "-ERR max number of clients") && is_closed(fds[2]),
        "a client too many is told and dropped");
    ok(send_line(fds[0], ping) && replies(fds[0], "+PONG"), "the others stay");
    ok(send_line(fds[0], "*3\r\n$3\r\nSET\r\n$1\r\na\r\n") &&
            send_text(fds[0], 2 * MIB) && replies(fds[0], "+OK") &&
            send_line(fds[0], "*3\r\n$3\r\nSET\r\n$1\r\nb\r\n") &&
            send_text(fds[0], 1) && replies(fds[0], "-OOM") &&
            send_line(fds[0], "*2\r\n$3\r\nDEL\r\n$1\r\na\r\n") &&
            replies(fds[0], ":1") &&
            send_line(fds[0], "*3\r\n$3\r\nSET\r\n$1\r\nb\r\n") &&
            send_text(fds[0], 1) && replies(fds[0], "+OK"),
        "a table that is full takes no value until one is removed");
    for (int i = 0; i < 3; i++)
        close(fds[i]);
    symc_server_stop(server);
}

/* Clients without the password take neither connections nor memory from those
 * with it. */
static void test_strangers(void)
{
    static const char ping[] = "*1\r\n$4\r\nPING\r\n";
    static const char auth[] = "*2\r\n$4\r\nAUTH\r\n$6\r\nsesame\r\n";
    struct symc_place place = {.host = "127.0.0.1", .password = "sesame"};
    struct symc_server_args args = {
        .place = &place, .deadline_ns = SYMC_NEVER, .max_clients = 2};
    struct symc_server *server;
    int fds[3], good = 1;

    if (symc_server_start(&args, &server) != SYMMCOLL_OK) {
        skip(2, "%s", symmcoll_last_error());
        return;
    }
    for (int i = 0; i < 2; i++) {
        fds[i] = dial(symc_server_port(server));
        good &= send_line(fds[i], ping) && replies(fds[i], "-NOAUTH");
    }
    fds[2] = dial(symc_server_port(server));
    ok(good && send_line(fds[2], auth) && replies(fds[2], "+OK") &&
            is_closed(fds[0]) && send_line(fds[1], ping) &&
            replies(fds[1], "-NOAUTH"),
        "clients without the password make room, the oldest first");
    ok(send_line(fds[1], "*2\r\n$4\r\nAUTH\r\n$16385\r\n") &&
            replies(fds[1], "-ERR Protocol error") && is_closed(fds[1]) &&
            send_line(fds[2], "*3\r\n$3\r\nSET\r\n$1\r\na\r\n") &&
            send_text(fds[2], 2 * MIB) && replies(fds[2], "+OK"),
        "and may send 16 KiB, those with it more");
    for (int i = 0; i < 3; i++)
        close(fds[i]);
    symc_server_stop(server);
}

int main(void)
{
    struct symmcoll_store_tcp_args args = SYMMCOLL_STORE_TCP_ARGS_INIT;
    struct symmcoll_store *store;

    alarm(600);
    plan(15);
    args.url = "redis://127.0.0.1:0";
    args.serve = 1;
    if (symmcoll_store_open_tcp(&args, &store) != SYMMCOLL_OK)
        return 1;
    port = symmcoll_store_port(store);
    test_sizes();
    test_numbers();
    test_parts();
    test_transaction();
    test_lists();
    test_publishing(store);
    symmcoll_store_close(store);
    test_server();
    test_strangers();
    return done_testing();
}
