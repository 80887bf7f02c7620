/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Tests ranks that are processes and join through a tcp store: at rank 0, at
 * the port in the environment, at a running server.
 */
#include "store/secret.h"
#include "t/ranks.h"
#include "t/store/certs.h"
#include "t/store/helpers.h"
#include "t/store/stranger.h"
#include "t/tap.h"

#include <sched.h>
#include <sys/stat.h>
#include <time.h>

#define RANKS 4

static char method[64];
static int port;

/* Returns the loopback address of this program and its ranks. No other test
 * uses it, so the names and ports derived from it are free. */
static const char *own_address(void)
{
    return getenv("MASTER_ADDR");
}

static void choose_method(void)
{
    snprintf(method, sizeof method, "tcp://%s:%d", own_address(), free_port());
}

/* Checks that every rank has a store with the keys that all have set. */
static int share_keys(struct symmcoll_world *world)
{
    struct symmcoll_store *store = symmcoll_world_store(world);
    char key[16];
    int good = store != NULL;

    snprintf(key, sizeof key, "r%d", symmcoll_world_rank(world));
    good = good && set_text(store, key, "here");
    for (int rank = 0; good && rank < symmcoll_world_size(world); rank++) {
        void *value = NULL;
        size_t nbytes;

        snprintf(key, sizeof key, "r%d", rank);
        good = symmcoll_store_get(store, key, &value, &nbytes) == SYMMCOLL_OK;
        free(value);
    }
    return good &&
           symmcoll_store_barrier(store, "end", symmcoll_world_rank(world),
               symmcoll_world_size(world), 60) == SYMMCOLL_OK;
}

static int sums(struct symmcoll_world *world)
{
    int one = 1, sum = 0;

    return symmcoll_all_reduce(symmcoll_world_group(world), &sum, &one, 1,
               SYMMCOLL_INT32, SYMMCOLL_SUM, NULL, NULL) == SYMMCOLL_OK &&
           sum == symmcoll_world_size(world);
}

/* Runs one world, or with arg two at once. Returns the exit status. */
static int run_worlds(int rank, int size, void *arg)
{
    struct symmcoll_init_args args = SYMMCOLL_INIT_ARGS_INIT;
    struct symmcoll_world *worlds[2] = {NULL, NULL};
    int count = arg != NULL ? 2 : 1, good = 1;

    if (method[0] != '\0')
        args.init_method = method;
    if (method[0] != '\0') {
        args.rank = rank;
        args.world_size = size;
    }
    for (int i = 0; i < count; i++) {
        args.name = i == 0 ? NULL : "second";
        if (symmcoll_init(&args, &worlds[i]) != SYMMCOLL_OK) {
            fprintf(stderr, "%s\n", symmcoll_last_error());
            return 1;
        }
        good &= sums(worlds[i]);
    }
    for (int i = 0; i < count; i++)
        good &= share_keys(worlds[i]);
    if (port != 0)
        good &= symmcoll_store_port(symmcoll_world_store(worlds[0])) == port;
    /* Rank 0 serves, so the other ranks leave first, as programs do that use
     * its store. */
    for (int i = count - 1; i >= 0; i--) {
        good &= symmcoll_barrier(symmcoll_world_group(worlds[i]), NULL, NULL) ==
                SYMMCOLL_OK;
        good &= symmcoll_finalize(worlds[i]) == SYMMCOLL_OK;
    }
    return !good;
}

static int all_fine(void *arg)
{
    int statuses[RANKS];
    int good = ranks_spawn(RANKS, run_worlds, arg, statuses);

    for (int i = 0; i < RANKS; i++)
        good = good && statuses[i] == 0;
    return good;
}

/* Returns the reply of the server at the port to a client without a
 * password. */
static const char *ask_rank_0(void)
{
    static char text[64];
    struct sockaddr_in at = {
        .sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    ssize_t n = -1;

    inet_pton(AF_INET, own_address(), &at.sin_addr);
    if (connect(fd, (struct sockaddr *)&at, sizeof at) == 0 &&
        send(fd, "*1\r\n$4\r\nPING\r\n", 14, MSG_NOSIGNAL) == 14)
        n = recv(fd, text, sizeof text - 1, 0);
    text[n > 0 ? n : 0] = '\0';
    close(fd);
    return text;
}

/* Checks that a file exists that only its owner can read and write. */
static int is_private_file(const char *path)
{
    struct stat info;

    return lstat(path, &info) == 0 && S_ISREG(info.st_mode) &&
           (info.st_mode & 0777) == 0600 && info.st_uid == geteuid();
}

/* Runs a world in which rank 0 serves with a password in a file (arg). */
static int run_secret(int rank, int size, void *arg)
{
    struct symmcoll_world *world;
    char number[8];
    int good;

    (void)rank;
    (void)size;
    snprintf(number, sizeof number, "%d", port);
    setenv("MASTER_PORT", number, 1);
    setenv("SYMMCOLL_STORE_SERVE", "on", 1);
    if (symmcoll_init(NULL, &world) != SYMMCOLL_OK) {
        fprintf(stderr, "%s\n", symmcoll_last_error());
        return 1;
    }
    good = share_keys(world) && is_private_file(arg) &&
           strncmp(ask_rank_0(), "-NOAUTH", 7) == 0;
    if (!good)
        fprintf(stderr, "%d, \"%s\"\n", is_private_file(arg), ask_rank_0());
    good &= symmcoll_barrier(symmcoll_world_group(world), NULL, NULL) ==
            SYMMCOLL_OK;
    return !(symmcoll_finalize(world) == SYMMCOLL_OK && good);
}

static void test_secret(void)
{
    char folder[4096], path[SYMC_SECRET_PATH], url[64];
    const char stale[] = "0123456789abcdef0123456789abcdef";
    int statuses[RANKS], good, fd;

    snprintf(folder, sizeof folder, "/tmp/symmcoll-test-%ld", (long)getpid());
    port = free_port();
    snprintf(url, sizeof url, "redis://%s:%d", own_address(), port);
    good = mkdir(folder, 0700) == 0 &&
           setenv("XDG_RUNTIME_DIR", folder, 1) == 0 &&
           symc_secret_find(url, SYMC_NEVER, path) == SYMMCOLL_OK &&
           strncmp(path, folder, strlen(folder)) == 0;
    good = good && ranks_spawn(RANKS, run_secret, path, statuses);
    for (int i = 0; i < RANKS; i++)
        good = good && statuses[i] == 0;
    ok(good && access(path, F_OK) != 0,
        "rank 0 serves at a loopback address with a password, which a file "
        "passes on");
    fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    good = fd >= 0 && write(fd, stale, sizeof stale - 1) > 0;
    close(fd);
    good = good && ranks_spawn(RANKS, run_secret, path, statuses);
    for (int i = 0; i < RANKS; i++)
        good = good && statuses[i] == 0;
    ok(good && access(path, F_OK) != 0,
        "a file that an earlier run has left does no harm");
    ok(symc_secret_find("redis://192.0.2.1:1", SYMC_NEVER, path) ==
                SYMMCOLL_OK &&
            path[0] == '\0' &&
            symc_secret_find("redis://[::1]:1", SYMC_NEVER, path) ==
                SYMMCOLL_OK &&
            path[0] == '/',
        "there is none at another address");
    chmod(folder, 0755);
    ok(symc_secret_find(url, SYMC_NEVER, path) != SYMMCOLL_OK ||
            strncmp(path, folder, strlen(folder)) != 0,
        "nor in a folder that others may read");
    rmdir(folder);
    unsetenv("XDG_RUNTIME_DIR");
}

/* Runs with the environment of ranks_spawn(), which has rank and size. */
static int run_env(int rank, int size, void *arg)
{
    char number[8];

    snprintf(number, sizeof number, "%d", port);
    setenv("MASTER_PORT", number, 1);
    setenv("SYMMCOLL_STORE_SERVE", "on", 1);
    if (arg != NULL) {
        setenv("TORCHELASTIC_RUN_ID", "job", 1);
        port++;
    }
    return run_worlds(rank, size, NULL);
}

/* Runs with a port, a password and TLS from the settings. */
static int run_settings(int rank, int size, void *arg)
{
    const struct certs *certs = arg;
    char number[8];

    snprintf(number, sizeof number, "%d", port);
    setenv("SYMMCOLL_STORE_SERVE", "on", 1);
    setenv("SYMMCOLL_STORE_PORT", number, 1);
    setenv("SYMMCOLL_STORE_PASSWORD_FILE", certs->cert, 1);
    setenv("SYMMCOLL_STORE_TLS_CERT", certs->cert, 1);
    setenv("SYMMCOLL_STORE_TLS_KEY", certs->key, 1);
    setenv("SYMMCOLL_STORE_TLS_CA", certs->cert, 1);
    return run_worlds(rank, size, NULL);
}

static int refuse_password(int rank, int size, void *arg)
{
    struct symmcoll_world *world;

    (void)rank;
    (void)size;
    (void)arg;
    setenv("SYMMCOLL_STORE_URL", "redis://:sesame@127.0.0.1:1", 1);
    return !(symmcoll_init(NULL, &world) == SYMMCOLL_ERR_INVALID &&
             strstr(symmcoll_last_error(), "store.password_file") != NULL &&
             strstr(symmcoll_last_error(), "sesame") == NULL);
}

/* The highest port is one, but an agent that holds it leaves none after it.  No rank
 * serves there. */
static int miss_the_highest_port(int rank, int size, void *arg)
{
    struct symmcoll_init_args args = SYMMCOLL_INIT_ARGS_INIT;
    struct symmcoll_world *world;

    (void)arg;
    args.rank = rank + 1;
    args.world_size = size + 1;
    args.timeout = 1;
    setenv("MASTER_PORT", "65535", 1);
    setenv("SYMMCOLL_STORE_SERVE", "on", 1);
    if (symmcoll_init(&args, &world) != SYMMCOLL_ERR_TIMEOUT ||
        strstr(symmcoll_last_error(), ":65535") == NULL) {
        fprintf(stderr, "# %s\n", symmcoll_last_error());
        return 1;
    }
    setenv("TORCHELASTIC_RUN_ID", "job", 1);
    return symmcoll_init(&args, &world) != SYMMCOLL_ERR_INVALID ||
           strstr(symmcoll_last_error(), "MASTER_PORT") == NULL;
}

static int use_site(int rank, int size, void *arg)
{
    setenv("SYMMCOLL_STORE_URL", arg, 1);
    return run_worlds(rank, size, NULL);
}

/* Runs without a server: the errors of the other ranks have rank 0's name or
 * the address. */
static int miss_rank_0(int rank, int size, void *arg)
{
    struct symmcoll_init_args args = SYMMCOLL_INIT_ARGS_INIT;
    struct symmcoll_world *world;

    (void)arg;
    args.init_method = method;
    args.rank = rank + 1;
    args.world_size = size + 1;
    args.timeout = 0.3;
    return !(symmcoll_init(&args, &world) == SYMMCOLL_ERR_TIMEOUT &&
             strstr(symmcoll_last_error(), own_address()) != NULL);
}

/* Joins from a new network namespace; 77: none can be created. */
static int join_from_elsewhere(int rank, int size, void *arg)
{
    struct symmcoll_init_args args = SYMMCOLL_INIT_ARGS_INIT;
    struct symmcoll_world *world;
    struct stat info;
    char number[32];

    (void)arg;
    if (unshare(CLONE_NEWUSER | CLONE_NEWNET) != 0 ||
        stat("/proc/self/ns/net", &info) != 0)
        return 77;
    snprintf(number, sizeof number, "namespace %llu",
        (unsigned long long)info.st_ino);
    args.rank = rank + 1;
    args.world_size = size + 1;
    args.timeout = 0.3;
    return !(symmcoll_init(&args, &world) == SYMMCOLL_ERR_TIMEOUT &&
             strstr(symmcoll_last_error(), number) != NULL);
}

/* Rank 1 stops rank 0, which serves the store, and leaves. */
static int leave_a_stopped_server(int rank, int size, void *arg)
{
    struct symmcoll_init_args args = SYMMCOLL_INIT_ARGS_INIT;
    struct symmcoll_world *world;
    struct symmcoll_store *store;
    char text[24];
    void *value = NULL;
    size_t nbytes;
    time_t began;
    int good;

    (void)arg;
    args.init_method = method;
    args.rank = rank;
    args.world_size = size;
    if (symmcoll_init(&args, &world) != SYMMCOLL_OK)
        return 1;
    store = symmcoll_world_store(world);
    if (rank == 0) {
        snprintf(text, sizeof text, "%ld", (long)getpid());
        good = set_text(store, "pid", text);
        sleep(2);
        return !(good && symmcoll_finalize(world) == SYMMCOLL_OK);
    }
    if (symmcoll_store_get(store, "pid", &value, &nbytes) != SYMMCOLL_OK)
        return 1;
    kill((pid_t)atoi(value), SIGSTOP);
    began = time(NULL);
    good = symmcoll_finalize(world) == SYMMCOLL_OK && time(NULL) - began < 30;
    kill((pid_t)atoi(value), SIGCONT);
    free(value);
    return !good;
}

int main(void)
{
    int statuses[2] = {-1, -1};
    char url[64];
    struct certs certs = {"", ""};
    pid_t server;

    alarm(600);
    plan(15);
    ranks_environment();
    choose_method();
    ok(all_fine(NULL), "processes join through the store that rank 0 serves");
    choose_method();
    ok(all_fine(method), "two worlds of the same ranks share the server");
    choose_method();
    ok(ranks_spawn(1, miss_rank_0, NULL, statuses) && statuses[0] == 0,
        "without rank 0 the others time out with the address");
    choose_method();
    ok(ranks_spawn(2, leave_a_stopped_server, NULL, statuses) &&
            statuses[0] == 0 && statuses[1] == 0,
        "a server that is stopped does not keep finalize waiting");
    method[0] = '\0';
    port = free_port();
    ranks_spawn(1, join_from_elsewhere, NULL, statuses);
    if (statuses[0] == 77)
        skip(1, "no network namespace can be made here");
    else
        ok(statuses[0] == 0,
            "a rank that reaches no other one names its network namespace");
    ok(ranks_spawn(2, run_env, NULL, statuses) && statuses[0] == 0 &&
            statuses[1] == 0,
        "env:// has a store at MASTER_ADDR and MASTER_PORT where asked for");
    port = free_port();
    ok(ranks_spawn(2, run_env, &port, statuses) && statuses[0] == 0 &&
            statuses[1] == 0,
        "under torchrun, whose agent has that port, at the next one");
    test_secret();
    port = free_port();
    if (make_certs_for(own_address(), &certs))
        ok(ranks_spawn(2, run_settings, &certs, statuses) && statuses[0] == 0 &&
                statuses[1] == 0,
            "port, password and TLS of that store are settings");
    else
        skip(1, "no openssl");
    remove_certs(&certs);
    ok(ranks_spawn(1, refuse_password, NULL, statuses) && statuses[0] == 0,
        "a password in store.url is refused, and not repeated");
    ok(ranks_spawn(1, miss_the_highest_port, NULL, statuses) &&
            statuses[0] == 0,
        "MASTER_PORT may be 65535, but not where an agent holds that port");
    if (!has_program("redis-server")) {
        skip(1, "no redis-server");
        return done_testing();
    }
    port = free_port();
    server = start_stranger(port, NULL);
    snprintf(url, sizeof url, "redis://127.0.0.1:%d", port);
    ok(ranks_spawn(2, use_site, url, statuses) && statuses[0] == 0 &&
            statuses[1] == 0,
        "store.url lets env:// have a store at the site's own server");
    stop_program(server);
    return done_testing();
}
