/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Tests the tcp store with an independent server: the contract of stores over
 * redis-server, its users and passwords, and servers that are not Redis.
 */
#include "t/attempts.h"
#include "t/store/certs.h"
#include "t/store/contract.h"
#include "t/store/stranger.h"

#include <pthread.h>
#include <sys/stat.h>

static char url[128];
static int port;

static struct symmcoll_store_tcp_args args_for(const char *job)
{
    struct symmcoll_store_tcp_args args = SYMMCOLL_STORE_TCP_ARGS_INIT;

    args.url = url;
    args.job = job;
    args.timeout = 30;
    return args;
}

static struct symmcoll_store *open_job(const char *job, int num_workers)
{
    struct symmcoll_store_tcp_args args = args_for(job);
    struct symmcoll_store *store = NULL;

    args.num_workers = num_workers;
    if (symmcoll_store_open_tcp(&args, &store) != SYMMCOLL_OK) {
        diag("%s", symmcoll_last_error());
        return NULL;
    }
    return store;
}

/* Returns the output of redis-cli for a command to the server, without its
 * newline. */
static const char *ask(const char *command)
{
    static char line[256];
    char shell[512];
    FILE *pipe;

    snprintf(shell, sizeof shell, "redis-cli -p %d -a sesame %s 2>/dev/null",
        port, command);
    pipe = popen(shell, "r");
    line[0] = '\0';
    if (pipe != NULL && fgets(line, sizeof line, pipe) != NULL)
        line[strcspn(line, "\n")] = '\0';
    if (pipe != NULL)
        pclose(pipe);
    return line;
}

static int refuses_url(const char *bad, const char *text)
{
    struct symmcoll_store_tcp_args args = SYMMCOLL_STORE_TCP_ARGS_INIT;
    struct symmcoll_store *store = NULL;

    args.url = bad;
    args.timeout = 0.2;
    return symmcoll_store_open_tcp(&args, &store) == SYMMCOLL_ERR_INVALID &&
           strstr(symmcoll_last_error(), text) != NULL &&
           strstr(symmcoll_last_error(), "sesame") == NULL;
}

static void test_arguments(void)
{
    struct symmcoll_store_tcp_args args = SYMMCOLL_STORE_TCP_ARGS_INIT;
    struct symmcoll_store *store = NULL;
    char long_job[300];

    ok(refuses_url("http://host", "another scheme") &&
            refuses_url("redis://", "no host") &&
            refuses_url("redis://:sesame@host:x", "a port") &&
            refuses_url("redis://u:sesame%zz@host", "user or password") &&
            refuses_url("redis://[::1", "bracket") &&
            refuses_url("redis://[::1]x", "bracket") &&
            refuses_url("redis://h/17x", "a database"),
        "a malformed URL is refused, and not repeated");
    memset(long_job, 'j', sizeof long_job);
    long_job[sizeof long_job - 1] = '\0';
    args.url = "redis://127.0.0.1:1";
    args.job = long_job;
    ok(failed_with(symmcoll_store_open_tcp(&args, &store), SYMMCOLL_ERR_INVALID,
           "job: expected 1 to 255 bytes, found 299") &&
            symmcoll_store_open_tcp(&args, NULL) == SYMMCOLL_ERR_INVALID &&
            symmcoll_store_open_tcp(NULL, &store) == SYMMCOLL_ERR_INVALID,
        "the arguments are checked");
    args.job = NULL;
    args.timeout = 1;
    ok(failed_with(symmcoll_store_open_tcp(&args, &store), SYMMCOLL_ERR_TIMEOUT,
           "127.0.0.1:1: Connection refused"),
        "a server that does not come is a timeout that names it");
    args.url = "redis://no-such-host.invalid";
    args.timeout = 20;
    ok(symmcoll_store_open_tcp(&args, &store) != SYMMCOLL_OK &&
            strstr(symmcoll_last_error(), "no-such-host.invalid") != NULL,
        "a host without an address is named");
}

/* A listener that answers every connection with a text, or not at all. */
struct impostor {
    int fd;
    int port;
    const char *says;
};

static void *impersonate(void *arg)
{
    struct impostor *impostor = arg;
    int fd = accept(impostor->fd, NULL, NULL);

    if (fd >= 0 && impostor->says != NULL &&
        send(fd, impostor->says, strlen(impostor->says), MSG_NOSIGNAL) < 0)
        close(impostor->fd);
    return (void *)(intptr_t)fd;
}

static int finds(const char *says, symmcoll_status_t status, const char *text)
{
    struct symmcoll_store_tcp_args args = SYMMCOLL_STORE_TCP_ARGS_INIT;
    struct symmcoll_store *store = NULL;
    struct sockaddr_in at = {.sin_family = AF_INET};
    struct impostor impostor = {.says = says, .port = free_port()};
    char place[64], named[32];
    pthread_t thread;
    void *fd;
    int one = 1, good;

    impostor.fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    at.sin_port = htons((uint16_t)impostor.port);
    at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    setsockopt(impostor.fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    if (bind(impostor.fd, (struct sockaddr *)&at, sizeof at) != 0 ||
        listen(impostor.fd, 1) != 0) {
        close(impostor.fd);
        return 0;
    }
    pthread_create(&thread, NULL, impersonate, &impostor);
    snprintf(
        place, sizeof place, "redis://:sesame@127.0.0.1:%d", impostor.port);
    args.url = place;
    /* Only a silent server is waited for. */
    args.timeout = says != NULL ? 60 : 1;
    snprintf(named, sizeof named, "127.0.0.1:%d", impostor.port);
    good = failed_with(symmcoll_store_open_tcp(&args, &store), status, text) &&
           strstr(symmcoll_last_error(), named) != NULL &&
           strstr(symmcoll_last_error(), "sesame") == NULL;
    if (!good)
        diag("%s", symmcoll_last_error());
    pthread_join(thread, &fd);
    close((int)(intptr_t)fd);
    close(impostor.fd);
    return good;
}

static void test_impostors(void)
{
    ok(finds("HTTP/1.1 400 Bad Request\r\n\r\n", SYMMCOLL_ERR_INVALID,
           "expected the Redis protocol"),
        "a server of another protocol is told, and where it is");
    ok(finds("*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n", SYMMCOLL_ERR_INVALID,
           "nested too deeply"),
        "lists within lists without end are refused");
    ok(finds("*2000000000\r\n", SYMMCOLL_ERR_INVALID, "too many parts"),
        "a list that is announced as huge is refused");
    ok(finds("$1073741824\r\nx", SYMMCOLL_ERR_INVALID, "a text is too long"),
        "a text that is announced as huge is refused");
    ok(finds(NULL, SYMMCOLL_ERR_TIMEOUT, "no answer from"),
        "a server that says nothing is a timeout");
    ok(finds("-ERR invalid password\r\n", SYMMCOLL_ERR_INVALID,
           "refused AUTH: ERR invalid password"),
        "a refused password is told, and not which it was");
}

static bool waits_for_workers(double seconds, void *arg)
{
    struct symmcoll_store_tcp_args args;
    struct symmcoll_store *store = NULL;
    char text[64], job[32];

    (void)arg;
    snprintf(
        text, sizeof text, "1 of 3 workers opened it within %g s", seconds);
    snprintf(job, sizeof job, "late%g", seconds);
    args = args_for(job);
    args.num_workers = 3;
    args.wait_workers = 1;
    args.timeout = seconds;
    return failed_with(
        symmcoll_store_open_tcp(&args, &store), SYMMCOLL_ERR_TIMEOUT, text);
}

static void test_workers(void)
{
    struct symmcoll_store *one = open_job("workers", 2);
    struct symmcoll_store *two = open_job("workers", 2);
    struct symmcoll_store *other = open_job("another", 1);
    struct symmcoll_store *third = NULL;
    struct symmcoll_store_tcp_args args = args_for("workers");
    size_t count = 99;

    ok(one != NULL && two != NULL && set_text(one, "k", "v") &&
            holds(two, "k", "v") && is_absent(other, "k"),
        "jobs have keys of their own");
    args.num_workers = 2;
    ok(failed_with(symmcoll_store_open_tcp(&args, &third), SYMMCOLL_ERR_INVALID,
           "found one more"),
        "one worker more than was said is refused");
    ok(strcmp(ask("get symmcoll:workers:/k"), "v") == 0 &&
            atoi(ask("ttl symmcoll:workers:/k")) > 86000,
        "keys carry job and prefix, and live for a day");
    symmcoll_store_close(one);
    ok(holds(two, "k", "v"), "they stay while a worker has them open");
    symmcoll_store_close(two);
    ok(strcmp(ask("exists symmcoll:workers:/k symmcoll:workers:init/"), "0") ==
            0,
        "the last worker removes the keys of its job");
    ok(set_text(other, "a*b", "") && set_text(other, "a?b", "") &&
            symmcoll_store_num_keys(other, &count) == SYMMCOLL_OK && count == 2,
        "and those of no other, whatever their names are like");
    symmcoll_store_close(other);

    ok(attempts_hold(waits_for_workers, 0.2, NULL),
        "who waits for workers is told how many came");
}

static int child_uses_it(const void *arg)
{
    struct symmcoll_store *store = (struct symmcoll_store *)(uintptr_t)arg;
    int good = set_text(store, "child", "c") && holds(store, "child", "c");

    symmcoll_store_close(store);
    return good;
}

static void *wait_for_key(void *arg)
{
    const char *const key = "told/later";

    return symmcoll_store_wait(arg, &key, 1, 60) == SYMMCOLL_OK ? arg : NULL;
}

static void test_clients(void)
{
    struct symmcoll_store *store = open_job("clients", 1);
    pthread_t thread;
    void *result = NULL;

    ok(run_in_child(child_uses_it, store) && holds(store, "child", "c"),
        "a child after fork has a connection of its own");
    pthread_create(&thread, NULL, wait_for_key, store);
    usleep(50000);
    ok(set_text(store, "while", "waiting") && holds(store, "while", "waiting"),
        "a call that waits does not hold up another one");
    ok(set_text(store, "told/later", ""), "what it waits for is set");
    pthread_join(thread, &result);
    ok(result == store, "and it returns");
    ask("client kill type normal skipme yes");
    ok(set_text(store, "after", "a kill"),
        "a connection that the server closed is opened again");
    symmcoll_store_close(store);
}

static void test_passwords(void)
{
    struct symmcoll_store_tcp_args args = args_for("p");
    struct symmcoll_store *store = NULL;
    char place[64];
    const char *path = scratch_path();
    FILE *file = fopen(path, "w");
    int before, after;

    snprintf(place, sizeof place, "redis://127.0.0.1:%d", port);
    args.url = place;
    ok(failed_with(symmcoll_store_open_tcp(&args, &store), SYMMCOLL_ERR_INVALID,
           "refused access to this user or password"),
        "a server that wants a password is told");
    if (file != NULL) {
        fputs("sesame\n", file);
        fclose(file);
    }
    args.password_file = path;
    before = dup(STDIN_FILENO);
    close(before);
    ok(symmcoll_store_open_tcp(&args, &store) == SYMMCOLL_OK &&
            set_text(store, "k", "v"),
        "a password is read from a file");
    symmcoll_store_close(store);
    after = dup(STDIN_FILENO);
    close(after);
    ok(after == before, "which is closed again");
    unlink(path);
    ok(failed_with(symmcoll_store_open_tcp(&args, &store), SYMMCOLL_ERR_SYSTEM,
           "password file"),
        "a file that is not there is named");
}

/* Several requests are sent at once: if the first is refused, the replies to
 * the others must not be taken for those to the next call. */
static void test_refusals(void)
{
    struct symmcoll_store_tcp_args args = args_for("r");
    struct symmcoll_store *store = NULL;
    const char *const keys[] = {"a", "b", "c"};
    char command[256], place[64];
    void *value = NULL;
    size_t nbytes = 0;

    snprintf(command, sizeof command,
        "redis-cli -p %d -a sesame --no-auth-warning ACL SETUSER limited on "
        "'>pw' '~*' '&*' +@all -exists >/dev/null",
        port);
    snprintf(place, sizeof place, "redis://limited:pw@127.0.0.1:%d", port);
    args.url = place;
    ok(system(command) == 0 &&
            symmcoll_store_open_tcp(&args, &store) == SYMMCOLL_OK &&
            set_text(store, "k", "v") &&
            failed_with(symmcoll_store_wait(store, keys, 3, 1),
                SYMMCOLL_ERR_INVALID,
                "refused access to this user or password") &&
            symmcoll_store_get(store, "k", &value, &nbytes) == SYMMCOLL_OK &&
            nbytes == 1,
        "after commands that are refused a store is usable");
    free(value);
    symmcoll_store_close(store);
}

static void test_tls(void)
{
    struct symmcoll_store_tcp_args args = args_for("t");
    struct symmcoll_store *store = NULL;
    struct certs certs = {"", ""};
    int tls_port = free_port();
    char number[8], place[64], named[64];
    const char *const more[] = {"--tls-port", number, "--tls-cert-file",
        certs.cert, "--tls-key-file", certs.key, "--tls-ca-cert-file",
        certs.cert, "--requirepass", "sesame", NULL};
    pid_t server;
    char *big;

    if (!make_certs(&certs)) {
        skip(4, "no openssl");
        return;
    }
    snprintf(number, sizeof number, "%d", tls_port);
    snprintf(place, sizeof place, "rediss://:sesame@127.0.0.1:%d", tls_port);
    args.url = place;
    args.tls_ca = certs.cert;
    args.tls_cert = certs.cert;
    args.tls_key = certs.key;
    server = start_stranger(0, more);
    big = calloc(1, 3 << 20);
    if (!ok(symmcoll_store_open_tcp(&args, &store) == SYMMCOLL_OK &&
                set_text(store, "k", "v") && holds(store, "k", "v") &&
                symmcoll_store_set(store, "big", big, 3 << 20) == SYMMCOLL_OK &&
                symmcoll_store_append(store, "big", "x", 1) == SYMMCOLL_OK,
            "a store opens over TLS and moves small and large values"))
        diag("%s", symmcoll_last_error());
    free(big);
    symmcoll_store_close(store);
    args.tls_ca = NULL;
    snprintf(named, sizeof named, "tcp store: 127.0.0.1:%d: TLS: ", tls_port);
    ok(failed_with(symmcoll_store_open_tcp(&args, &store), SYMMCOLL_ERR_INVALID,
           "certificate: self-signed") &&
            strncmp(symmcoll_last_error(), named, strlen(named)) == 0,
        "a certificate that no authority has signed is refused, and whose");
    args.tls_ca = certs.cert;
    snprintf(place, sizeof place, "rediss://:sesame@localhost:%d", tls_port);
    ok(failed_with(symmcoll_store_open_tcp(&args, &store), SYMMCOLL_ERR_INVALID,
           "certificate: hostname mismatch"),
        "a certificate for another host is refused");
    args.tls_ca = "/no/such/file";
    ok(failed_with(symmcoll_store_open_tcp(&args, &store), SYMMCOLL_ERR_INVALID,
           "/no/such/file"),
        "a file of authorities that is not there is named");
    stop_program(server);
    remove_certs(&certs);
}

int main(void)
{
    static const char *const more[] = {"--requirepass", "sesame", NULL};
    struct symmcoll_store *store = NULL;
    pid_t server;
    size_t count = 99;

    alarm(600);
    plan(11 + CONTRACT_POINTS + 2 + 20);
    if (!has_program("redis-server") || !has_program("redis-cli")) {
        skip(11 + CONTRACT_POINTS + 2 + 19, "no redis-server");
        return done_testing();
    }
    test_arguments();
    test_impostors();
    port = free_port();
    snprintf(url, sizeof url, "redis://:sesame@127.0.0.1:%d", port);
    server = start_stranger(port, more);
    store = open_job("contract", 1);
    if (!ok(store != NULL, "a store opens at redis-server, which starts up")) {
        stop_program(server);
        return done_testing();
    }
    ok(symmcoll_store_num_keys(store, &count) == SYMMCOLL_OK && count == 0 &&
            symmcoll_store_set_timeout(store, 300) == SYMMCOLL_OK,
        "it is empty");
    check_contract(store);
    symmcoll_store_close(store);
    test_workers();
    test_clients();
    test_passwords();
    test_refusals();
    stop_program(server);
    test_tls();
    return done_testing();
}
