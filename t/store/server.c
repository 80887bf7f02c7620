/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Tests the server of a tcp store: the contract of stores over it, redis-cli
 * as an independent client, and hostile clients.
 */
#include "t/store/certs.h"
#include "t/store/contract.h"
#include "t/store/raw.h"
#include "t/store/stranger.h"

#include <sys/resource.h>
#include <time.h>

static struct symmcoll_store_tcp_args args_at(const char *url, int serve)
{
    struct symmcoll_store_tcp_args args = SYMMCOLL_STORE_TCP_ARGS_INIT;

    args.url = url;
    args.serve = serve;
    args.timeout = 30;
    return args;
}

static struct symmcoll_store *open_at(const char *url, int serve)
{
    struct symmcoll_store_tcp_args args = args_at(url, serve);
    struct symmcoll_store *store = NULL;

    if (symmcoll_store_open_tcp(&args, &store) != SYMMCOLL_OK) {
        diag("%s", symmcoll_last_error());
        return NULL;
    }
    return store;
}

/* Returns the output of redis-cli on one line, with blanks for newlines. */
static const char *ask(int port, const char *command)
{
    static char text[1024];
    char shell[600];
    size_t used;
    FILE *pipe;

    snprintf(
        shell, sizeof shell, "redis-cli -p %d %s 2>/dev/null", port, command);
    pipe = popen(shell, "r");
    used = pipe != NULL ? fread(text, 1, sizeof text - 1, pipe) : 0;
    if (pipe != NULL)
        pclose(pipe);
    while (used > 0 && text[used - 1] == '\n')
        used--;
    text[used] = '\0';
    for (char *c = text; (c = strchr(c, '\n')) != NULL;)
        *c = ' ';
    return text;
}

static int answers(int port, const char *command, const char *expected)
{
    const char *found = ask(port, command);

    if (strcmp(found, expected) == 0)
        return 1;
    diag("%s: expected \"%s\", found \"%s\"", command, expected, found);
    return 0;
}

static int lives(int port, const char *key, int least, int most)
{
    char command[64];
    int seconds;

    snprintf(command, sizeof command, "ttl %s", key);
    seconds = atoi(ask(port, command));
    if (seconds < least || seconds > most)
        diag("%s: expected %d to %d, found %d", command, least, most, seconds);
    return seconds >= least && seconds <= most;
}

static void test_stranger(int port)
{
    if (!has_program("redis-cli")) {
        skip(6, "no redis-cli");
        return;
    }
    ok(answers(port, "ping", "PONG") && answers(port, "set k v", "OK") &&
            answers(port, "get k", "v") && answers(port, "get nothing", "") &&
            answers(port, "incrby n 7", "7") &&
            answers(port, "append k w", "2") && answers(port, "get k", "vw") &&
            answers(port, "strlen k", "2") &&
            answers(port, "mset a 1 b 2", "OK") &&
            answers(port, "mget a b c", "1 2") &&
            answers(port, "del a b c", "2") &&
            answers(port, "exists k n a", "2"),
        "redis-cli sets, reads and removes values");
    ok(answers(port, "rpush q one two", "2") && answers(port, "llen q", "2") &&
            answers(port, "lpop q", "one") && answers(port, "lpop q", "two") &&
            answers(port, "exists q", "0"),
        "and uses queues");
    /* Seconds may pass between two processes. */
    ok(answers(port, "set life x ex 1000", "OK") &&
            lives(port, "life", 900, 1000) &&
            answers(port, "expire life 500", "1") &&
            lives(port, "life", 400, 500) && answers(port, "ttl k", "-1") &&
            answers(port, "ttl none", "-2") &&
            answers(port, "set short x px 30", "OK") && usleep(60000) == 0 &&
            answers(port, "exists short", "0") &&
            answers(port, "expire life 0", "1") &&
            answers(port, "get life", ""),
        "keys expire");
    ok(answers(port, "set ab/1 x", "OK") && answers(port, "set 'a*' x", "OK") &&
            answers(port, "scan 0 match 'ab/*'", "0 ab/1") &&
            answers(port, "scan 0 match 'a\\*' count 1000", "0 a*") &&
            answers(port, "scan 0 match '[a-c]b?[^0-9]'", "0") &&
            answers(port, "scan 0 match '?b[^x]1'", "0 ab/1"),
        "keys are found by patterns");
    ok(strncmp(ask(port, "get"), "ERR wrong number of arguments", 29) == 0 &&
            strncmp(ask(port, "flushall"), "ERR unknown command", 19) == 0 &&
            strncmp(ask(port, "incrby k 1"), "ERR value is not", 16) == 0 &&
            strncmp(ask(port, "llen k"), "WRONGTYPE", 9) == 0 &&
            strncmp(ask(port, "exec"), "ERR EXEC without", 16) == 0,
        "what is wrong gets an error");
    ok(answers(port, "publish nobody hears", "0") &&
            strncmp(ask(port, "hello 3"), "NOPROTO", 7) == 0 &&
            strstr(ask(port, "hello 2"), "symmcoll") != NULL,
        "it publishes, and says what it is");
}

/* ---- bad clients ---- */

static int is_refused(int port, const char *data)
{
    const char *reply = reply_to(port, data, strlen(data));

    if (strncmp(reply, "-ERR Protocol error", 19) == 0)
        return 1;
    diag("\"%.40s\" got \"%s\"", data, reply);
    return 0;
}

static long resident_kib(void)
{
    struct rusage usage;

    getrusage(RUSAGE_SELF, &usage);
    return usage.ru_maxrss;
}

/* Sends a gigabyte in one string, until the server closes the connection. */
static size_t send_gigabyte(int port, const char *head)
{
    static char chunk[1 << 20];
    int fd = dial(port);
    size_t sent = 0;

    send_all(fd, head, strlen(head));
    while (sent < (size_t)1 << 30 && send_all(fd, chunk, sizeof chunk))
        sent += sizeof chunk;
    close(fd);
    return sent;
}

/* Requests a large value repeatedly and reads no reply. */
static int never_read(int port, int commands)
{
    static const char get[] = "*2\r\n$3\r\nGET\r\n$3\r\nbig\r\n";
    int fd = dial(port);

    for (int i = 0; i < commands; i++)
        if (send(fd, get, sizeof get - 1, MSG_NOSIGNAL | MSG_DONTWAIT) < 0)
            break;
    return fd;
}

static void test_bad_clients(struct symmcoll_store *store, int port)
{
    static char big[8 << 20];
    int silent[50], readers[4], half;
    long before;
    size_t sent;

    ok(is_refused(port, "GET / HTTP/1.1\r\n\r\n") &&
            is_refused(port, "*1\r\n*1\r\n$4\r\nPING\r\n") &&
            is_refused(port, "*2000000000\r\n") &&
            is_refused(port, "*1\r\n$99999999999\r\n") &&
            is_refused(port, "*1\r\n$-5\r\n") &&
            is_refused(port, "+hello\r\n") &&
            is_refused(port, "\x16\x03\x01\x02\x01\x01"),
        "rubbish is refused, and its connection closed");
    half = dial(port);
    ok(send_all(half, "*2\r\n$3\r\nGET\r\n$5\r\nab", 20) &&
            set_text(store, "while", "half") && holds(store, "while", "half"),
        "half a request keeps nobody waiting");
    close(half);
    before = resident_kib();
    sent = send_gigabyte(port, "*1\r\n$1073741824\r\n");
    sent += send_gigabyte(port, "*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$16000000\r\n");
    sent += send_gigabyte(port, "*50000\r\n");
    ok(sent < (size_t)200 << 20 && resident_kib() - before < 300000 &&
            holds(store, "while", "half"),
        "a gigabyte is not taken in");
    diag("%zu MiB were sent, resident memory grew by %ld KiB", sent >> 20,
        resident_kib() - before);

    memset(big, 'b', sizeof big);
    before = resident_kib();
    for (int i = 0; i < 4; i++) {
        int fd = dial(port);
        char head[64];
        int n = snprintf(head, sizeof head,
            "*3\r\n$3\r\nSET\r\n$3\r\nbig\r\n$%zu\r\n", sizeof big);

        send_all(fd, head, (size_t)n);
        send_all(fd, big, sizeof big);
        send_all(fd, "\r\n", 2);
        close(fd);
        readers[i] = never_read(port, 1000);
    }
    ok(set_text(store, "while", "unread") && holds(store, "while", "unread") &&
            resident_kib() - before < 200000,
        "a client that never reads costs one reply and nobody's time");
    for (int i = 0; i < 4; i++)
        close(readers[i]);
    for (int i = 0; i < 50; i++)
        silent[i] = dial(port);
    ok(set_text(store, "while", "silent") && holds(store, "while", "silent"),
        "clients that say nothing do not disturb others");
    for (int i = 0; i < 50; i++)
        close(silent[i]);
}

/* Opens a thousand connections in a process with enough descriptors. */
static int flood(const void *arg)
{
    const int *port = arg;
    struct rlimit files = {4096, 4096};
    int fds[1500], n = 0;

    setrlimit(RLIMIT_NOFILE, &files);
    for (int i = 0; i < 1500; i++)
        if ((fds[n] = dial(*port)) >= 0)
            n++;
    sleep(1);
    while (n > 0)
        close(fds[--n]);
    return 1;
}

static void test_flood(void)
{
    struct rlimit files, low;
    struct symmcoll_store *store, *late;
    char url[64];
    int port, good = 1;
    pid_t pid;

    getrlimit(RLIMIT_NOFILE, &files);
    low = files;
    low.rlim_cur = 300;
    setrlimit(RLIMIT_NOFILE, &low);
    store = open_at("redis://127.0.0.1:0", 1);
    port = symmcoll_store_port(store);
    snprintf(url, sizeof url, "redis://127.0.0.1:%d", port);
    fflush(NULL);
    pid = fork();
    if (pid == 0) {
        files.rlim_cur = files.rlim_max;
        setrlimit(RLIMIT_NOFILE, &files);
        alarm(600);
        _exit(flood(&port) ? 0 : 1);
    }
    usleep(300000);
    for (int i = 0; i < 50; i++)
        good &= set_text(store, "k", "v") && holds(store, "k", "v");
    late = open_at(url, 0);
    ok(good && late != NULL && holds(late, "k", "v"),
        "silent clients without number do not keep others out");
    symmcoll_store_close(late);
    waitpid(pid, NULL, 0);
    symmcoll_store_close(store);
    setrlimit(RLIMIT_NOFILE, &files);
}

/* ---- permissions and addresses ---- */

static void test_entry(void)
{
    struct symmcoll_store_tcp_args args = args_at("redis://127.0.0.2:0", 1);
    struct symmcoll_store *store = NULL, *other = NULL;
    char url[96];
    int port;

    ok(symmcoll_store_open_tcp(&args, &store) == SYMMCOLL_OK &&
            (port = symmcoll_store_port(store)) > 0 && dial(port) < 0 &&
            symmcoll_store_port(NULL) == 0,
        "it is bound to the address that was asked for and to no other");
    snprintf(
        url, sizeof url, "redis://127.0.0.2:%d", symmcoll_store_port(store));
    args = args_at(url, 1);
    ok(failed_with(symmcoll_store_open_tcp(&args, &other), SYMMCOLL_ERR_SYSTEM,
           "Address already in use"),
        "a port that is in use is an error that names it");
    symmcoll_store_close(store);
    args.url = "redis://192.0.2.1:0";
    ok(failed_with(symmcoll_store_open_tcp(&args, &other), SYMMCOLL_ERR_SYSTEM,
           "192.0.2.1"),
        "and so is an address of another machine");

    store = open_at("redis://[::1]:0", 1);
    if (store == NULL) {
        skip(1, "no IPv6");
    } else {
        snprintf(url, sizeof url, "redis://localhost:%d",
            symmcoll_store_port(store));
        args = args_at(url, 0);
        ok(symmcoll_store_open_tcp(&args, &other) == SYMMCOLL_OK &&
                set_text(store, "k", "v") && holds(other, "k", "v"),
            "localhost is ::1 where 127.0.0.1 does not answer");
        symmcoll_store_close(other);
        symmcoll_store_close(store);
    }
    store = open_at("redis://:sesame@127.0.0.1:0", 1);
    port = symmcoll_store_port(store);
    snprintf(url, sizeof url, "redis://127.0.0.1:%d", port);
    args = args_at(url, 0);
    ok(set_text(store, "k", "v") &&
            failed_with(symmcoll_store_open_tcp(&args, &other),
                SYMMCOLL_ERR_INVALID, "user or password"),
        "a server with a password wants it");
    snprintf(url, sizeof url, "redis://:sesam@127.0.0.1:%d", port);
    ok(failed_with(symmcoll_store_open_tcp(&args, &other), SYMMCOLL_ERR_INVALID,
           "WRONGPASS"),
        "and no other");
    snprintf(url, sizeof url, "redis://default:sesame@127.0.0.1:%d", port);
    ok(symmcoll_store_open_tcp(&args, &other) == SYMMCOLL_OK &&
            holds(other, "k", "v"),
        "who has it enters");
    if (has_program("redis-cli"))
        ok(answers(port, "--no-auth-warning -a sesame ping", "PONG") &&
                strncmp(ask(port, "get k"), "NOAUTH", 6) == 0,
            "redis-cli too");
    else
        skip(1, "no redis-cli");
    symmcoll_store_close(store);
    ok(symmcoll_store_set(other, "k", "", 0) == SYMMCOLL_ERR_SYSTEM,
        "when the server has gone calls fail");
    symmcoll_store_close(other);
}

static void test_tls(void)
{
    struct symmcoll_store_tcp_args args = args_at("rediss://127.0.0.1:0", 1);
    struct symmcoll_store *store = NULL, *other = NULL;
    struct certs certs = {"", ""};
    char url[64], shell[20000];
    int port;

    if (!make_certs(&certs)) {
        skip(5, "no openssl");
        return;
    }
    ok(failed_with(symmcoll_store_open_tcp(&args, &store), SYMMCOLL_ERR_INVALID,
           "expected tls_cert"),
        "TLS needs a certificate");
    args.tls_cert = certs.cert;
    args.tls_key = certs.key;
    args.tls_ca = certs.cert;
    if (!ok(symmcoll_store_open_tcp(&args, &store) == SYMMCOLL_OK &&
                set_text(store, "k", "v") && holds(store, "k", "v"),
            "it serves over TLS"))
        diag("%s", symmcoll_last_error());
    port = symmcoll_store_port(store);
    snprintf(url, sizeof url, "redis://127.0.0.1:%d", port);
    args = args_at(url, 0);
    args.timeout = 3;
    ok(symmcoll_store_open_tcp(&args, &other) != SYMMCOLL_OK,
        "and not without");
    snprintf(url, sizeof url, "rediss://127.0.0.1:%d", port);
    args.tls_ca = certs.cert;
    ok(symmcoll_store_open_tcp(&args, &other) != SYMMCOLL_OK,
        "who has no certificate is refused where authorities are named");
    snprintf(shell, sizeof shell,
        "--tls --cacert %s --cert %s --key %s get "
        "symmcoll:default:/k",
        certs.cert, certs.cert, certs.key);
    if (has_program("redis-cli") && strlen(shell) < 500)
        ok(answers(port, shell, "v"), "redis-cli reads over TLS");
    else
        skip(1, "no redis-cli");
    symmcoll_store_close(store);
    remove_certs(&certs);
}

int main(void)
{
    struct symmcoll_store *store = NULL;
    size_t count = 99;
    int port;

    alarm(600);
    signal(SIGPIPE, SIG_DFL);
    plan(1 + CONTRACT_POINTS + 1 + 6 + 5 + 1 + 9 + 5);
    store = open_at("redis://127.0.0.1:0", 1);
    if (!ok(store != NULL &&
                symmcoll_store_num_keys(store, &count) == SYMMCOLL_OK &&
                count == 0 &&
                symmcoll_store_set_timeout(store, 300) == SYMMCOLL_OK,
            "a store that is served here is empty"))
        return done_testing();
    check_contract(store);
    port = symmcoll_store_port(store);
    ok(port > 0, "it has a port");
    test_stranger(port);
    test_bad_clients(store, port);
    symmcoll_store_close(store);
    test_flood();
    test_entry();
    test_tls();
    return done_testing();
}
