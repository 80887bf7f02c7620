/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Tests a tcp store over a local socket: which processes may connect, and the
 * lifetime of the socket's file (R33); and processes with different versions
 * (R34).
 */
#include "store/tcp.h"
#include "t/store/helpers.h"
#include "t/store/stranger.h"
#include "t/tap.h"

#include <errno.h>
#include <pthread.h>
#include <sys/stat.h>
#include <sys/un.h>

static char path[4096], url[4200];

static symmcoll_status_t open_within(
    double seconds, const char *place, int serve, struct symmcoll_store **store)
{
    struct symmcoll_store_tcp_args args = SYMMCOLL_STORE_TCP_ARGS_INIT;

    args.url = place;
    args.serve = serve;
    args.timeout = seconds;
    return symmcoll_store_open_tcp(&args, store);
}

static symmcoll_status_t open_at(
    const char *place, int serve, struct symmcoll_store **store)
{
    return open_within(30, place, serve, store);
}

static int refuses(const char *bad, const char *text)
{
    struct symmcoll_store *store;

    return failed_with(open_at(bad, 0, &store), SYMMCOLL_ERR_INVALID, text) &&
           strstr(symmcoll_last_error(), "sesame") == NULL;
}

/* Leaves the file of a socket without a listener. */
static int leave_socket(void)
{
    struct sockaddr_un at = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    int bound;

    snprintf(at.sun_path, sizeof at.sun_path, "%.100s", path);
    bound = bind(fd, (struct sockaddr *)&at, sizeof at) == 0;
    close(fd);
    return bound;
}

static int leave_file(void)
{
    FILE *file = fopen(path, "w");

    return file != NULL && fputs("mine", file) >= 0 && fclose(file) == 0;
}

static void test_urls(void)
{
    char longest[256] = "unix:///";

    memset(longest + 8, 'p', 120);
    ok(refuses("unix://", "no path from the root") &&
            refuses("unix://:sesame@host", "no path") &&
            refuses("unix:///", "no path") &&
            refuses("unix:///a?db=x", "a database") &&
            refuses("unix:///a?x", "a database") &&
            refuses(longest, "more than 107 bytes") &&
            refuses("unix://u:sesame%zz@/a", "user or password"),
        "a malformed path is refused, and not repeated");
}

static void test_socket(void)
{
    struct symmcoll_store *store = NULL, *other = NULL;
    struct stat info;
    mode_t mask = umask(0);
    char place[4300];

    ok(failed_with(
           open_within(0.5, url, 0, &store), SYMMCOLL_ERR_TIMEOUT, path),
        "a socket that is not there yet is waited for until the timeout");
    ok(open_at(url, 1, &store) == SYMMCOLL_OK && stat(path, &info) == 0 &&
            S_ISSOCK(info.st_mode) && (info.st_mode & 0777) == 0600 &&
            symmcoll_store_port(store) == 0,
        "its file is the user's alone, whatever the umask says");
    umask(mask);
    ok(open_at(url, 0, &other) == SYMMCOLL_OK && set_text(other, "k", "v") &&
            holds(store, "k", "v"),
        "processes of this machine share the store");
    symmcoll_store_close(other);
    ok(failed_with(open_at(url, 1, &other), SYMMCOLL_ERR_SYSTEM,
           "Address already in use") &&
            holds(store, "k", "v"),
        "a socket at which somebody listens is left alone");
    if (has_program("redis-cli")) {
        snprintf(place, sizeof place,
            "redis-cli -s %s get symmcoll:default:/k | grep -qx v", path);
        ok(system(place) == 0, "redis-cli reads from it");
    } else {
        skip(1, "no redis-cli");
    }
    symmcoll_store_close(store);
    ok(access(path, F_OK) != 0, "the file goes with the server");
    ok(leave_socket() && access(path, F_OK) == 0 &&
            open_at(url, 1, &store) == SYMMCOLL_OK && set_text(store, "k", "v"),
        "what a server that was killed has left is replaced");
    symmcoll_store_close(store);
    ok(leave_file() &&
            failed_with(open_at(url, 1, &store), SYMMCOLL_ERR_SYSTEM, path) &&
            stat(path, &info) == 0 && info.st_size == 4,
        "another file is not");
    unlink(path);
    snprintf(place, sizeof place, "unix://:sesame@%s", path);
    ok(open_at(place, 1, &store) == SYMMCOLL_OK &&
            failed_with(open_at(url, 0, &other), SYMMCOLL_ERR_INVALID,
                "user or password") &&
            open_at(place, 0, &other) == SYMMCOLL_OK,
        "it may have a password");
    symmcoll_store_close(other);
    symmcoll_store_close(store);
}

static void test_stranger(void)
{
    const char *const more[] = {"--unixsocket", path, NULL};
    struct symmcoll_store *store = NULL;
    pid_t server;

    if (!has_program("redis-server")) {
        skip(1, "no redis-server");
        return;
    }
    server = start_stranger(0, more);
    for (int i = 0; i < 1000 && access(path, F_OK) != 0; i++)
        usleep(50000);
    ok(open_at(url, 0, &store) == SYMMCOLL_OK && set_text(store, "k", "v") &&
            holds(store, "k", "v"),
        "redis-server serves at such a socket, too");
    symmcoll_store_close(store);
    stop_program(server);
    unlink(path);
}

/* Joins a store in which a process of another version was first. */
static void test_versions(void)
{
    struct symmcoll_store *store = NULL, *other = NULL;
    struct symc_tcp_call call = {.tcp = NULL};
    static const char name[] = "symmcoll:default:version/";
    int stored = 0;

    if (open_at(url, 1, &store) == SYMMCOLL_OK &&
        symc_tcp_begin(store->table, "", symc_now_ns(), &call) == SYMMCOLL_OK) {
        stored = symc_tcp_order(&call,
                     (struct symc_arg[]){
                         SYMC_ARG("SET"), SYMC_ARG(name), SYMC_ARG("2\n")},
                     3) == SYMMCOLL_OK;
        symc_tcp_end(&call);
    }
    ok(stored && failed_with(open_at(url, 0, &other), SYMMCOLL_ERR_UNSUPPORTED,
                     "this process has version 1, the first one of job "
                     "\"symmcoll:default:\" has \"2?\""),
        "a process that speaks another version is told both");
    symmcoll_store_close(store);
}

/* ---- a server that accepts late ---- */

#define WAITING 64

static void *accept_late(void *arg)
{
    const int *listener = arg;
    const struct timespec pause = {.tv_nsec = 100000000};

    nanosleep(&pause, NULL);
    for (int i = 0; i < WAITING; i++) {
        int fd = accept(*listener, NULL, NULL);

        if (fd < 0)
            break;
        close(fd);
    }
    return NULL;
}

/* Fills the queue of connections; a further one waits, too, even if an absent
 * server would not be waited for. */
static int full_is_waited_for(void)
{
    struct symc_place place = {.local = true};
    struct sockaddr_un at = {.sun_family = AF_UNIX};
    int listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    int waiting[WAITING], count = 0, fd = -1, right;
    pthread_t thread;

    snprintf(at.sun_path, sizeof at.sun_path, "%.100s", path);
    snprintf(place.host, sizeof place.host, "%.100s", path);
    unlink(path);
    if (bind(listener, (struct sockaddr *)&at, sizeof at) != 0 ||
        listen(listener, 1) != 0) {
        close(listener);
        return 0;
    }
    while (count < WAITING) {
        waiting[count] = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0);
        if (connect(waiting[count++], (struct sockaddr *)&at, sizeof at) != 0)
            break;
    }
    right = count < WAITING &&
            failed_with(symc_dial(&place, false, symc_now_ns() + 1, &fd),
                SYMMCOLL_ERR_TIMEOUT, path) &&
            pthread_create(&thread, NULL, accept_late, &listener) == 0;
    if (right) {
        right = symc_dial(&place, false, symc_now_ns() + 20 * SYMC_NS_PER_S,
                    &fd) == SYMMCOLL_OK;
        close(fd);
        shutdown(listener, SHUT_RDWR);
        pthread_join(thread, NULL);
    }
    while (count > 0)
        close(waiting[--count]);
    close(listener);
    unlink(path);
    return right;
}

int main(void)
{
    struct symmcoll_store *store;

    alarm(600);
    /* The path of a socket must be short. */
    snprintf(path, sizeof path, "/tmp/symmcoll-local-%ld", (long)getpid());
    snprintf(url, sizeof url, "unix://%s", path);
    plan(13);
    test_urls();
    ok(full_is_waited_for(),
        "a server of this machine with many connections to accept is waited "
        "for (R27)");
    if (open_at(url, 1, &store) == SYMMCOLL_ERR_UNSUPPORTED) {
        skip(11, "no server in this build");
        return done_testing();
    }
    symmcoll_store_close(store);
    test_socket();
    test_stranger();
    test_versions();
    unlink(path);
    return done_testing();
}
