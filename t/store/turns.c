/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Tests the fairness of a store's server: no client delays the others,
 * whatever it requests. The server is a separate process, which is stopped
 * while requests are sent, so that it finds all of them at once.
 */
#include "store/command.h"
#include "t/store/apart.h"
#include "t/store/helpers.h"
#include "t/store/raw.h"
#include "t/tap.h"

#define MIB ((size_t)1 << 20)

static struct server server;

/* An encoded request. */
struct request {
    char *bytes;
    size_t nbytes, room;
};

static void add_bytes(struct request *request, const char *bytes, size_t nbytes)
{
    if (request->room - request->nbytes < nbytes) {
        request->room = 2 * (request->nbytes + nbytes);
        request->bytes = realloc(request->bytes, request->room);
    }
    if (request->bytes == NULL)
        abort();
    memcpy(request->bytes + request->nbytes, bytes, nbytes);
    request->nbytes += nbytes;
}

static void add_text(struct request *request, const char *text, size_t nbytes)
{
    char head[32];
    size_t n = (size_t)snprintf(head, sizeof head, "$%zu\r\n", nbytes);

    add_bytes(request, head, n);
    add_bytes(request, text, nbytes);
    add_bytes(request, "\r\n", 2);
}

/* Adds words up to a NULL, each of them a part. */
static void add_request(struct request *request, const char *const *words)
{
    char head[32];
    size_t count = 0, n;

    while (words[count] != NULL)
        count++;
    n = (size_t)snprintf(head, sizeof head, "*%zu\r\n", count);
    add_bytes(request, head, n);
    for (size_t i = 0; i < count; i++)
        add_text(request, words[i], strlen(words[i]));
}
#define REQUEST(request, ...) \
    add_request(request, (const char *const[]){__VA_ARGS__, NULL})

static int send_request(int fd, struct request *request)
{
    int good = send_all(fd, request->bytes, request->nbytes);

    free(request->bytes);
    *request = (struct request){.bytes = NULL};
    return good;
}

/* Reads one line, without its end; "": none arrived. */
static const char *take_line(int fd)
{
    static char line[256];
    struct pollfd ready = {.fd = fd, .events = POLLIN};
    size_t used = 0;

    while (used < sizeof line - 1 && poll(&ready, 1, 60000) > 0 &&
           recv(fd, line + used, 1, 0) == 1 && line[used] != '\n')
        used++;
    line[used > 0 && line[used - 1] == '\r' ? used - 1 : used] = '\0';
    return line;
}

/* Checks that the next line begins with a text. */
static int replies(int fd, const char *text)
{
    const char *line = take_line(fd);

    if (strncmp(line, text, strlen(text)) == 0)
        return 1;
    diag("expected \"%s\", found \"%s\"", text, line);
    return 0;
}

/* Reads and discards nbytes bytes. */
static int skip_bytes(int fd, size_t nbytes)
{
    static char bytes[65536];

    while (nbytes > 0) {
        ssize_t n =
            recv(fd, bytes, nbytes < sizeof bytes ? nbytes : sizeof bytes, 0);

        if (n <= 0)
            return 0;
        nbytes -= (size_t)n;
    }
    return 1;
}

/* Sets a key to nbytes bytes of 'a'. */
static int set_large(int fd, const char *key, size_t nbytes)
{
    char *value = malloc(nbytes + 1);
    struct request set = {.bytes = NULL};

    if (value == NULL)
        abort();
    memset(value, 'a', nbytes);
    value[nbytes] = '\0';
    REQUEST(&set, "SET", key, value);
    free(value);
    return send_request(fd, &set) && replies(fd, "+OK");
}

/* Checks that a client with one small request gets its reply before a client
 * that sent many large ones: both end with a message on a channel. */
static int is_overtaken(struct request *large)
{
    int listener = dial(server.port), one = dial(server.port),
        other = dial(server.port);
    struct request word = {.bytes = NULL};
    int good;

    REQUEST(&word, "SUBSCRIBE", "words");
    good = send_request(listener, &word) && replies(listener, "*3") &&
           skip_bytes(
               listener, strlen("$9\r\nsubscribe\r\n$5\r\nwords\r\n:1\r\n"));
    REQUEST(large, "PUBLISH", "words", "large");
    REQUEST(&word, "PUBLISH", "words", "small");
    /* One read returns all of it. */
    if (large->nbytes > SYMC_SERVER_INPUT)
        diag("%zu bytes are too many", large->nbytes);
    good = good && large->nbytes <= SYMC_SERVER_INPUT;
    pause_server(&server);
    good = send_request(one, large) && send_request(other, &word) && good;
    kill(server.pid, SIGCONT);
    good = good && replies(listener, "*3") &&
           skip_bytes(
               listener, strlen("$7\r\nmessage\r\n$5\r\nwords\r\n$5\r\n")) &&
           replies(listener, "small");
    close(listener);
    close(one);
    close(other);
    return good;
}

static void test_turns(void)
{
    struct request request = {.bytes = NULL};
    char text[5001], pattern[2502] = "*";
    int fd = dial(server.port), good;

    memset(text, 'a', sizeof text - 1);
    text[sizeof text - 1] = '\0';
    memset(pattern + 1, 'a', sizeof pattern - 3);
    pattern[sizeof pattern - 2] = 'b';
    pattern[sizeof pattern - 1] = '\0';
    good = set_large(fd, text, 1) && set_large(fd, "long", 15 * MIB);
    for (int i = 0; i < 20; i++)
        REQUEST(&request, "SCAN", "0", "MATCH", pattern);
    ok(good && is_overtaken(&request), "patterns hold up no other client");
    for (int i = 0; i < 50; i++)
        REQUEST(&request, "APPEND", "long", "x");
    ok(is_overtaken(&request), "nor do changes of a large value");
    for (int i = 0; i < 2000; i++)
        REQUEST(&request, "INCR", "n");
    for (int i = 0; i < 1000; i++)
        REQUEST(&request, "SCAN", "0");
    ok(is_overtaken(&request), "nor do many small requests");
    close(fd);
}

/* ---- transactions ---- */

/* Reads the replies to EXEC. Returns their number; failed (out): those that
 * begin with the error. */
static int take_replies(int fd, const char *error, int *failed)
{
    int count = atoi(take_line(fd) + 1);

    *failed = 0;
    for (int i = 0; i < count; i++) {
        const char *line = take_line(fd);

        *failed += strncmp(line, error, strlen(error)) == 0;
        if (line[0] == '$' && !skip_bytes(fd, (size_t)atoi(line + 1) + 2))
            return 0;
    }
    return count;
}

/* Sends MULTI, the same command several times, and EXEC. */
static int run_many(int fd, int times, const char *const *words)
{
    struct request request = {.bytes = NULL};
    int good;

    REQUEST(&request, "MULTI");
    for (int i = 0; i < times; i++)
        add_request(&request, words);
    REQUEST(&request, "EXEC");
    good = send_request(fd, &request) && replies(fd, "+OK");
    for (int i = 0; good && i < times; i++)
        good = replies(fd, "+QUEUED");
    return good;
}

static void test_transactions(void)
{
    static const char *const get[] = {"GET", "value", NULL};
    static const char *const append[] = {"APPEND", "value", "x", NULL};
    int fd = dial(server.port), failed = 0, good;

    good = set_large(fd, "value", 8 * MIB) && run_many(fd, 100, get) &&
           take_replies(fd, "-OOM the transaction", &failed) == 100;
    ok(good && failed >= 92 && failed < 100,
        "a transaction has 64 MiB of replies at most");
    good = run_many(fd, 100, append) &&
           take_replies(fd, "-OOM the transaction", &failed) == 100;
    ok(good && failed > 50 && failed < 100, "and does no more work than that");
    good = run_many(fd, 3, append) &&
           take_replies(fd, "-OOM the transaction", &failed) == 3;
    ok(good && failed == 0, "which begins anew with the next one");
    close(fd);
}

static void test_memory(void)
{
    struct request request = {.bytes = NULL};
    char *value = malloc(MIB + 1);
    int fd, failed = 0, good;

    if (value == NULL || !start_server(&server, 2 * MIB)) {
        skip(1, "%s", symmcoll_last_error());
        return;
    }
    memset(value, 'a', MIB);
    value[MIB] = '\0';
    fd = dial(server.port);
    REQUEST(&request, "MULTI");
    REQUEST(&request, "SET", "a", value);
    REQUEST(&request, "SET", "b", value);
    REQUEST(&request, "SET", "c", value);
    REQUEST(&request, "SET", "d", value);
    REQUEST(&request, "DEL", "a");
    REQUEST(&request, "EXEC");
    good = send_request(fd, &request) && replies(fd, "+OK");
    for (int i = 0; i < 5; i++)
        good = good && replies(fd, "+QUEUED");
    ok(good && take_replies(fd, "-OOM command", &failed) == 5 && failed == 2,
        "a command of a transaction that finds the table full fails");
    close(fd);
    free(value);
    stop_server(&server);
}

static int is_closed(int fd)
{
    struct pollfd ready = {.fd = fd, .events = POLLIN};
    char byte;

    return poll(&ready, 1, 60000) > 0 && recv(fd, &byte, 1, 0) <= 0;
}

/* Clients that keep more memory than the server may use: the largest is
 * disconnected. */
static void test_largest(void)
{
    struct request request = {.bytes = NULL};
    size_t sizes[18];
    int fds[18], good = 1;

    /* Slightly less than 256 MiB in 16 of them, slightly more with a small
     * one. */
    for (int i = 0; i < 18; i++) {
        char *value;

        sizes[i] = i == 7 ? 16 * MIB : i < 17 ? 15 * MIB : MIB;
        value = calloc(1, sizes[i] + 1);
        if (value == NULL)
            abort();
        memset(value, 'a', sizes[i]);
        fds[i] = dial(server.port);
        REQUEST(&request, "MULTI");
        REQUEST(&request, "SET", "unused", value);
        free(value);
        good &= send_request(fds[i], &request) && replies(fds[i], "+OK") &&
                replies(fds[i], "+QUEUED");
    }
    ok(good, "clients may keep 256 MiB together");
    for (int i = 0; i < 4; i++) {
        static char value[MIB + 1];

        memset(value, 'a', MIB);
        REQUEST(&request, "SET", "unused", value);
        good &= send_request(fds[17], &request) && replies(fds[17], "+QUEUED");
    }
    REQUEST(&request, "DISCARD");
    ok(good && is_closed(fds[7]) && send_request(fds[17], &request) &&
            replies(fds[17], "+OK"),
        "beyond that the one with the most is dropped");
    for (int i = 0; i < 18; i++)
        close(fds[i]);
}

/* ---- patterns ---- */

static int matches(const char *pattern, const char *text)
{
    struct symc_glob *glob = symc_glob_create(pattern);
    int good = glob != NULL && symc_glob_match(glob, text) &&
               /* Repeated, with the same result. */
               symc_glob_match(glob, text);

    free(glob);
    return good;
}

static void test_patterns(void)
{
    char text[301], pattern[303];

    ok(matches("", "") && !matches("", "a") && matches("*", "") &&
            matches("**", "abc") && matches("a*c", "ac") &&
            matches("a*c", "abcbc") && !matches("a*c", "abcb") &&
            matches("*b*d*", "abcde") && !matches("*d*b*", "abcde"),
        "a star matches any bytes, and none");
    ok(matches("?", "x") && !matches("?", "") && !matches("?", "xy") &&
            matches("a?*", "ab") && !matches("a?*", "a"),
        "a question mark matches one byte");
    ok(matches("[abc]", "b") && !matches("[abc]", "d") &&
            matches("x[a-c]y", "xby") && !matches("x[a-c]y", "xdy") &&
            matches("[^a-c]", "d") && !matches("[^a-c]", "b") &&
            matches("[\\]]", "]") && matches("[a-]", "-") &&
            matches("[\x80-\xff]", "\xc3") && matches("[a", "a") &&
            matches("[?", "?") && !matches("[?", "x"),
        "a set matches one of its bytes");
    ok(matches("a\\*", "a*") && !matches("a\\*", "ab") &&
            matches("\\?\\[", "?[") && matches("a\\", "a\\"),
        "a backslash takes the meaning of the next one away");
    memset(text, 'a', sizeof text - 1);
    text[sizeof text - 1] = '\0';
    snprintf(pattern, sizeof pattern, "*%s", text);
    ok(matches(text, text) && matches(pattern, text) &&
            !matches(pattern, text + 1) && !matches(text + 1, text) &&
            !matches(text, text + 64),
        "a pattern may be longer than a word has bits");
}

/* Lists all keys with SCAN, with a change after each part. Returns how many of
 * the first 5000 were found. */
static int scan_all(int fd)
{
    static char met[5000];
    struct request request = {.bytes = NULL};
    char cursor[24] = "0", key[32];
    int count = 0;

    do {
        int parts;

        REQUEST(&request, "SCAN", cursor, "MATCH", "k*", "COUNT", "37");
        if (!send_request(fd, &request) || !replies(fd, "*2") ||
            !replies(fd, "$"))
            return -1;
        snprintf(cursor, sizeof cursor, "%.20s", take_line(fd));
        parts = atoi(take_line(fd) + 1);
        if (parts > 37)
            return -1;
        for (int i = 0; i < parts; i++) {
            int number;

            take_line(fd);
            number = atoi(take_line(fd) + 1);
            if (number >= 0 && number < 5000 && !met[number]) {
                met[number] = 1;
                count++;
            }
        }
        /* Other keys are created and removed at the same time, which moves
         * keys. */
        snprintf(key, sizeof key, "old%s", cursor);
        REQUEST(&request, "SET", key, "x");
        snprintf(key, sizeof key, "gone%d", parts * 100 + count % 100);
        REQUEST(&request, "DEL", key);
        if (!send_request(fd, &request) || !replies(fd, "+OK") ||
            !replies(fd, ":"))
            return -1;
    } while (strcmp(cursor, "0") != 0);
    return count;
}

static void test_scan(void)
{
    struct request request = {.bytes = NULL};
    char key[24];
    int fd, good;

    for (int i = 0; i < 5000; i++) {
        snprintf(key, sizeof key, "gone%d", i);
        REQUEST(&request, "SET", key, "x");
        snprintf(key, sizeof key, "k%d", i);
        REQUEST(&request, "SET", key, "x");
    }
    fd = dial(server.port); /* a client that is silent for long is
                             * disconnected */
    good = send_request(fd, &request);
    for (int i = 0; i < 10000; i++)
        good = good && replies(fd, "+OK");
    ok(good && scan_all(fd) == 5000,
        "SCAN meets every key that stays, in parts");
    REQUEST(&request, "SCAN", "x");
    REQUEST(&request, "SCAN", "0", "COUNT", "0");
    REQUEST(&request, "SCAN", "0", "MATCH");
    ok(send_request(fd, &request) && replies(fd, "-ERR syntax") &&
            replies(fd, "-ERR syntax") && replies(fd, "-ERR syntax"),
        "and refuses what it does not understand");
    close(fd);
}

int main(void)
{
    alarm(600);
    plan(16);
    test_patterns();
    test_memory();
    if (!start_server(&server, 0)) {
        skip(10, "%s", symmcoll_last_error());
        return done_testing();
    }
    test_turns();
    test_transactions();
    test_largest();
    test_scan();
    stop_server(&server);
    return done_testing();
}
