/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Tests waiting for keys, in every kind of store: which events end a wait and
 * which do not, and a wait of a client that ends (R9, R14, R30, R44, R45).
 */
#include "t/store/helpers.h"
#include "t/tap.h"

#include <pthread.h>
#include <signal.h>

struct wait {
    struct symmcoll_store *store;
    const char *const *keys;
    size_t nkeys;
    double timeout;
    symmcoll_status_t status;
};

static void *run_wait(void *arg)
{
    struct wait *wait = arg;

    wait->status = symmcoll_store_wait(
        wait->store, wait->keys, wait->nkeys, wait->timeout);
    return NULL;
}

/* Waits while another thread changes the store with a function. */
static symmcoll_status_t wait_while(struct symmcoll_store *store,
    const char *const *keys, size_t nkeys, double timeout,
    int (*act)(struct symmcoll_store *store))
{
    struct symmcoll_store *clone = NULL;
    struct wait wait = {.keys = keys, .nkeys = nkeys, .timeout = timeout};
    pthread_t thread;

    if (symmcoll_store_clone(store, &clone) != SYMMCOLL_OK)
        return SYMMCOLL_ERR_INTERNAL;
    wait.store = clone;
    pthread_create(&thread, NULL, run_wait, &wait);
    usleep(30000);
    if (!act(store))
        diag("%s", symmcoll_last_error());
    pthread_join(thread, NULL);
    symmcoll_store_close(clone);
    return wait.status;
}

static int fail_to_compare(struct symmcoll_store *store)
{
    enum symmcoll_store_outcome outcome = SYMMCOLL_STORE_CREATED;

    return symmcoll_store_compare_set(store, "cas", "x", 1, "y", 1, &outcome,
               NULL, NULL) == SYMMCOLL_OK &&
           outcome == SYMMCOLL_STORE_ABSENT;
}

static int set_twice(struct symmcoll_store *store)
{
    return set_text(store, "twice", "") && usleep(30000) == 0 &&
           set_text(store, "other", "");
}

static int set_and_delete(struct symmcoll_store *store)
{
    return set_text(store, "first", "") &&
           symmcoll_store_delete(store, "last", NULL) == SYMMCOLL_OK &&
           usleep(30000) == 0 && set_text(store, "last", "");
}

static int push_last(struct symmcoll_store *store)
{
    return symmcoll_store_queue_push(store, "queue", "", 0) == SYMMCOLL_OK;
}

static int push_nothing(struct symmcoll_store *store)
{
    (void)store;
    return 1;
}

static void check_waits(struct symmcoll_store *store, const char *kind)
{
    const char *cas = "cas", *queue = "queue", *never = "never";
    const char *twice[] = {"twice", "twice", "other", "twice"};
    const char *pair[] = {"first", "last"};

    ok(wait_while(store, &cas, 1, 0.2, fail_to_compare) ==
                SYMMCOLL_ERR_TIMEOUT &&
            is_absent(store, "cas"),
        "%s: a compare_set that stores nothing ends no wait", kind);
    ok(wait_while(store, twice, 4, 60, set_twice) == SYMMCOLL_OK,
        "%s: a key may be listed twice in a wait", kind);
    ok(wait_while(store, pair, 2, 60, set_and_delete) == SYMMCOLL_OK,
        "%s: a wait goes on where a key is deleted, until it is set", kind);
    ok(wait_while(store, &queue, 1, 60, push_last) == SYMMCOLL_OK,
        "%s: a push ends a wait", kind);
    ok(wait_while(store, &never, 1, 0.05, push_nothing) ==
                SYMMCOLL_ERR_TIMEOUT &&
            set_text(store, "after", "x") && holds(store, "after", "x"),
        "%s: after a wait that timed out the store is as good as before", kind);
}

/* Starts a process that reads a URL and waits for a key there, to be killed.
 * It is created before this process has threads. */
static pid_t start_waiter(int *fd)
{
    const char *key = "killed";
    int ends[2];
    pid_t pid;

    if (pipe(ends) != 0)
        return -1;
    fflush(NULL);
    pid = fork();
    if (pid == 0) {
        struct symmcoll_store_tcp_args args = SYMMCOLL_STORE_TCP_ARGS_INIT;
        struct symmcoll_store *own;
        char url[64] = "";

        alarm(600);
        close(ends[1]);
        args.url = url;
        if (read(ends[0], url, sizeof url - 1) <= 0 ||
            symmcoll_store_open_tcp(&args, &own) != SYMMCOLL_OK ||
            !set_text(own, "waits", ""))
            _exit(1);
        _exit(symmcoll_store_wait(own, &key, 1, 60) == SYMMCOLL_OK ? 0 : 1);
    }
    close(ends[0]);
    *fd = ends[1];
    return pid;
}

static void check_killed(
    struct symmcoll_store *store, const char *url, pid_t pid, int fd)
{
    const char *key = "waits";

    ok(write(fd, url, strlen(url)) == (ssize_t)strlen(url) &&
            symmcoll_store_wait(store, &key, 1, 60) == SYMMCOLL_OK &&
            usleep(30000) == 0 && kill(pid, SIGKILL) == 0 &&
            waitpid(pid, NULL, 0) == pid && set_text(store, "killed", "x") &&
            holds(store, "killed", "x"),
        "tcp: the wait of a client that was killed is forgotten");
}

int main(void)
{
    struct symmcoll_store_tcp_args args = SYMMCOLL_STORE_TCP_ARGS_INIT;
    struct symmcoll_store *store = NULL;
    symmcoll_status_t status;
    char url[64];
    int fd = -1;
    pid_t pid = start_waiter(&fd);

    alarm(600);
    plan(5 + 5 + 6);
    if (symmcoll_store_create_hash(&store) == SYMMCOLL_OK)
        check_waits(store, "hash");
    symmcoll_store_close(store);
    if (symmcoll_store_open_file(scratch_path(), 1, &store) == SYMMCOLL_OK)
        check_waits(store, "file");
    symmcoll_store_close(store);
    args.url = "redis://127.0.0.1:0";
    args.serve = 1;
    status = symmcoll_store_open_tcp(&args, &store);
    if (status == SYMMCOLL_ERR_UNSUPPORTED) {
        skip(6, "no server in this build");
        close(fd);
        waitpid(pid, NULL, 0);
        return done_testing();
    }
    snprintf(
        url, sizeof url, "redis://127.0.0.1:%d", symmcoll_store_port(store));
    check_waits(store, "tcp");
    check_killed(store, url, pid, fd);
    close(fd);
    symmcoll_store_close(store);
    return done_testing();
}
