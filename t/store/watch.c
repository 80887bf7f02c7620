/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Tests watched keys, in every kind of store: which changes are reported and
 * which are not, how a watch ends, and that it reports nothing afterwards.
 */
#include "t/store/helpers.h"
#include "t/store/stranger.h"
#include "t/store/table.h"

#include <sched.h>
#include <time.h>

/* The reports of a watch. */
struct told {
    pthread_mutex_t lock; /* all below */
    pthread_cond_t more;
    int calls;
    symmcoll_status_t status;
    char key[32];
    char value[64]; /* "-": absent */
    char detail[256];
    /* Further actions of the function. */
    struct symmcoll_watch **ends; /* the watch to end; NULL: none */
    int blocks;                   /* until the lock's owner clears it */
    int left;
};

static void init_told(struct told *told)
{
    *told = (struct told){.status = SYMMCOLL_OK};
    pthread_mutex_init(&told->lock, NULL);
    pthread_cond_init(&told->more, NULL);
}

static void note(const struct symmcoll_store_event *event, void *arg)
{
    struct told *told = arg;

    pthread_mutex_lock(&told->lock);
    told->calls++;
    told->status = event->status;
    snprintf(told->key, sizeof(told->key), "%s", event->key);
    snprintf(told->value, sizeof(told->value), "%.*s",
        event->value != NULL ? (int)event->nbytes : 1,
        event->value != NULL ? (const char *)event->value : "-");
    if (event->status != SYMMCOLL_OK)
        snprintf(
            told->detail, sizeof(told->detail), "%s", symmcoll_last_error());
    if (told->ends != NULL)
        symmcoll_watch_free(*told->ends);
    pthread_cond_broadcast(&told->more);
    while (told->blocks)
        pthread_cond_wait(&told->more, &told->lock);
    pthread_mutex_unlock(&told->lock);
    /* A watch that did not wait for the function's end would fail here. */
    for (int i = 0; i < 1000; i++)
        sched_yield();
    pthread_mutex_lock(&told->lock);
    told->left++;
    pthread_cond_broadcast(&told->more);
    pthread_mutex_unlock(&told->lock);
}

/* Waits until a value has been reported. Returns how often the function was
 * called. The program's alarm ends an endless wait. */
static int await_value(struct told *told, const char *value)
{
    int calls;

    pthread_mutex_lock(&told->lock);
    while (strcmp(told->value, value) != 0 && told->status == SYMMCOLL_OK)
        pthread_cond_wait(&told->more, &told->lock);
    calls = strcmp(told->value, value) == 0 ? told->calls : -1;
    pthread_mutex_unlock(&told->lock);
    return calls;
}

static symmcoll_status_t await_end(struct told *told)
{
    symmcoll_status_t status;

    pthread_mutex_lock(&told->lock);
    while (told->status == SYMMCOLL_OK)
        pthread_cond_wait(&told->more, &told->lock);
    status = told->status;
    pthread_mutex_unlock(&told->lock);
    return status;
}

/* Waits until the function has returned once: it is not called any more once
 * its watch has ended, and its data may be freed. */
static void await_left(struct told *told)
{
    pthread_mutex_lock(&told->lock);
    while (told->left == 0)
        pthread_cond_wait(&told->more, &told->lock);
    pthread_mutex_unlock(&told->lock);
}

static int count_calls(struct told *told)
{
    int calls;

    pthread_mutex_lock(&told->lock);
    calls = told->calls;
    pthread_mutex_unlock(&told->lock);
    return calls;
}

/* ---- every kind of store ---- */

static void changes_are_told(
    struct symmcoll_store *store, const char *kind, bool deletes)
{
    struct told told;
    struct symmcoll_watch *watch = NULL;
    int64_t sum;

    init_told(&told);
    ok(symmcoll_store_watch(store, "k", note, &told, &watch) == SYMMCOLL_OK &&
            set_text(store, "k", "one") && await_value(&told, "one") == 1 &&
            strcmp(told.key, "k") == 0 && set_text(store, "k", "two") &&
            await_value(&told, "two") == 2,
        "%s: a watched key that is set is told, with its value (R12)", kind);
    ok(symmcoll_store_append(store, "k", "!", 1) == SYMMCOLL_OK &&
            await_value(&told, "two!") == 3 &&
            symmcoll_store_compare_set(store, "k", "two!", 4, "7", 1, NULL,
                NULL, NULL) == SYMMCOLL_OK &&
            await_value(&told, "7") == 4 &&
            symmcoll_store_add(store, "k", 5, &sum) == SYMMCOLL_OK &&
            await_value(&told, "12") == 5,
        "%s: whatever changes it is told (R12)", kind);
    ok(set_text(store, "other", "x") && set_text(store, "k", "12") &&
            set_text(store, "k", "last") && await_value(&told, "last") == 6,
        "%s: another key, and the same value again, are no change (R12)", kind);
    if (deletes)
        ok(symmcoll_store_delete(store, "k", NULL) == SYMMCOLL_OK &&
                await_value(&told, "-") == 7 && set_text(store, "k", "") &&
                await_value(&told, "") == 8,
            "%s: that it was deleted is told, and is no empty value (R12)",
            kind);
    symmcoll_watch_free(watch);
}

static void watches_end(struct symmcoll_store *store, const char *kind)
{
    struct told told, other;
    struct symmcoll_watch *watch = NULL, *second = NULL;
    int calls;

    init_told(&told);
    init_told(&other);
    ok(symmcoll_store_watch(store, "e", note, &told, &watch) == SYMMCOLL_OK &&
            symmcoll_store_watch(store, "e", note, &other, &second) ==
                SYMMCOLL_OK &&
            set_text(store, "e", "one") && await_value(&told, "one") == 1 &&
            await_value(&other, "one") == 1,
        "%s: a key may be watched twice (R12)", kind);
    symmcoll_watch_free(watch);
    calls = count_calls(&told);
    ok(set_text(store, "e", "two") && await_value(&other, "two") == 2 &&
            count_calls(&told) == calls && told.left == calls,
        "%s: a watch that has ended tells nothing (R12)", kind);
    symmcoll_watch_free(second);

    init_told(&told);
    told.ends = &watch;
    init_told(&other);
    ok(symmcoll_store_watch(store, "e", note, &told, &watch) == SYMMCOLL_OK &&
            symmcoll_store_watch(store, "e", note, &other, &second) ==
                SYMMCOLL_OK &&
            set_text(store, "e", "three") && await_value(&told, "three") == 1 &&
            await_value(&other, "three") == 1 && set_text(store, "e", "four") &&
            await_value(&other, "four") == 2 && count_calls(&told) == 1,
        "%s: its own function may end it, after one change (R12)", kind);
    await_left(&told);
    symmcoll_watch_free(second);
}

static void check_watching(
    struct symmcoll_store *store, const char *kind, bool deletes)
{
    changes_are_told(store, kind, deletes);
    watches_end(store, kind);
}

/* ---- other ends of a watch ---- */

static void queues_are_refused(struct symmcoll_store *store, const char *kind)
{
    struct told told;
    struct symmcoll_watch *watch = NULL;

    init_told(&told);
    ok(symmcoll_store_watch(store, "q", note, &told, &watch) == SYMMCOLL_OK &&
            symmcoll_store_queue_push(store, "q", "v", 1) == SYMMCOLL_OK &&
            await_end(&told) == SYMMCOLL_ERR_INVALID &&
            strstr(told.detail, "\"q\": expected a value, found a queue") !=
                NULL,
        "%s: a key that becomes a queue ends its watch (R12)", kind);
    symmcoll_watch_free(watch);
    watch = NULL;
    ok(failed_with(symmcoll_store_watch(store, "q", note, &told, &watch),
           SYMMCOLL_ERR_INVALID, "found a queue") &&
            watch == NULL,
        "%s: a queue cannot be watched (R12)", kind);
}

static void arguments_are_checked(struct symmcoll_store *store)
{
    struct symmcoll_watch *watch = NULL;
    struct told told;

    init_told(&told);
    ok(failed_with(symmcoll_store_watch(NULL, "k", note, &told, &watch),
           SYMMCOLL_ERR_INVALID, "store_watch: store is NULL") &&
            failed_with(symmcoll_store_watch(store, NULL, note, &told, &watch),
                SYMMCOLL_ERR_INVALID, "key is NULL") &&
            failed_with(symmcoll_store_watch(store, "k", NULL, &told, &watch),
                SYMMCOLL_ERR_INVALID, "changed is NULL") &&
            failed_with(symmcoll_store_watch(store, "k", note, &told, NULL),
                SYMMCOLL_ERR_INVALID, "watch is NULL") &&
            watch == NULL,
        "what is missing of a watch is named");
    symmcoll_watch_free(NULL);
}

struct ending {
    struct told *told;
    struct symmcoll_watch *watch;
    int left; /* returns of the function when the watch had been freed */
};

static void *end_watch(void *arg)
{
    struct ending *ending = arg;

    symmcoll_watch_free(ending->watch);
    pthread_mutex_lock(&ending->told->lock);
    ending->left = ending->told->left;
    pthread_mutex_unlock(&ending->told->lock);
    return NULL;
}

static void end_waits_for_the_function(struct symmcoll_store *store)
{
    struct told told;
    struct ending ending = {.told = &told};
    pthread_t thread;

    init_told(&told);
    told.blocks = 1;
    if (symmcoll_store_watch(store, "b", note, &told, &ending.watch) !=
            SYMMCOLL_OK ||
        !set_text(store, "b", "now") || await_value(&told, "now") != 1)
        diag("%s", symmcoll_last_error());
    pthread_create(&thread, NULL, end_watch, &ending);
    sched_yield();
    pthread_mutex_lock(&told.lock);
    told.blocks = 0;
    pthread_cond_broadcast(&told.more);
    pthread_mutex_unlock(&told.lock);
    pthread_join(thread, NULL);
    ok(ending.left == 1,
        "a watch that is freed waits for its function to return (R12)");
}

static void store_may_be_closed(void)
{
    struct symmcoll_store *store = NULL, *clone = NULL;
    struct symmcoll_watch *watch = NULL;
    struct told told;

    init_told(&told);
    if (symmcoll_store_create_hash(&store) != SYMMCOLL_OK ||
        symmcoll_store_clone(store, &clone) != SYMMCOLL_OK ||
        symmcoll_store_watch(store, "k", note, &told, &watch) != SYMMCOLL_OK)
        diag("%s", symmcoll_last_error());
    symmcoll_store_close(store);
    ok(set_text(clone, "k", "v") && await_value(&told, "v") == 1,
        "a watch goes on when its handle has been closed (R12)");
    symmcoll_store_close(clone);
    symmcoll_watch_free(watch);
}

static int free_in_child(const void *arg)
{
    struct symmcoll_watch *const *watch = arg;

    symmcoll_watch_free(*watch);
    return 1;
}

static void check_hash(void)
{
    struct symmcoll_store *store = NULL, *view = NULL;
    struct symmcoll_watch *watch = NULL;
    struct told told;

    if (symmcoll_store_create_hash(&store) != SYMMCOLL_OK ||
        symmcoll_store_create_prefix(store, "p", &view) != SYMMCOLL_OK)
        diag("%s", symmcoll_last_error());
    check_watching(store, "hash", true);
    queues_are_refused(store, "hash");
    check_watching(view, "view", true);
    arguments_are_checked(store);
    end_waits_for_the_function(store);
    init_told(&told);
    ok(symmcoll_store_watch(store, "f", note, &told, &watch) == SYMMCOLL_OK &&
            run_in_child(free_in_child, &watch) && set_text(store, "f", "v") &&
            await_value(&told, "v") == 1,
        "a fork may free its copy, and leaves the watch alone (R12)");
    symmcoll_watch_free(watch);
    symmcoll_store_close(view);
    symmcoll_store_close(store);
}

static void check_file(void)
{
    struct symmcoll_store *store = NULL;

    if (symmcoll_store_open_file(scratch_path(), 1, &store) != SYMMCOLL_OK)
        diag("%s", symmcoll_last_error());
    check_watching(store, "file", true);
    queues_are_refused(store, "file");
    symmcoll_store_close(store);
}

static void check_user(void)
{
    struct table table;
    struct symmcoll_store_functions functions = least(&table);
    struct symmcoll_store *store = open_store(&functions);
    struct symmcoll_watch *watch = NULL;
    struct told told;

    check_watching(store, "user", false);
    init_told(&told);
    if (symmcoll_store_watch(store, "s", note, &told, &watch) != SYMMCOLL_OK)
        diag("%s", symmcoll_last_error());
    table.status = SYMMCOLL_ERR_SYSTEM;
    ok(await_end(&told) == SYMMCOLL_ERR_SYSTEM &&
            strstr(told.detail, "the program's get returned") != NULL,
        "a store that fails ends its watches, with its error (R12)");
    table.status = SYMMCOLL_OK;
    symmcoll_watch_free(watch);
    symmcoll_store_close(store);
}

static void check_tcp(void)
{
    struct symmcoll_store_tcp_args args = SYMMCOLL_STORE_TCP_ARGS_INIT;
    struct symmcoll_store *server = NULL, *store = NULL;
    struct symmcoll_watch *watch = NULL;
    struct told told;
    char url[64], place[64];
    symmcoll_status_t status;
    int ends;

    args.url = "redis://127.0.0.1:0";
    args.serve = 1;
    args.timeout = 30;
    if (symmcoll_store_open_tcp(&args, &server) == SYMMCOLL_ERR_UNSUPPORTED) {
        skip(10, "built without hiredis or libevent");
        return;
    }
    snprintf(
        url, sizeof(url), "redis://127.0.0.1:%d", symmcoll_store_port(server));
    args.url = url;
    args.serve = 0;
    if (symmcoll_store_open_tcp(&args, &store) != SYMMCOLL_OK)
        diag("%s", symmcoll_last_error());
    check_watching(store, "tcp", true);
    queues_are_refused(store, "tcp");
    init_told(&told);
    if (symmcoll_store_watch(store, "s", note, &told, &watch) != SYMMCOLL_OK)
        diag("%s", symmcoll_last_error());
    snprintf(place, sizeof(place),
        "tcp store: 127.0.0.1:%d: ", symmcoll_store_port(server));
    symmcoll_store_close(server);
    status = await_end(&told);
    /* The connection is closed or reset, or a new one is refused. */
    ends = status == SYMMCOLL_ERR_SYSTEM &&
           strncmp(told.detail, place, strlen(place)) == 0;
    if (!ends)
        diag("%s: %s", symmcoll_status_name(status), told.detail);
    ok(ends, "tcp: a server that ends ends its watches (R12)");
    symmcoll_watch_free(watch);
    symmcoll_store_close(store);
}

/* ---- a server that hangs ---- */

/* Starts a process that serves. Returns its port, 0: failed. */
static pid_t start_server(int *port)
{
    struct symmcoll_store_tcp_args args = SYMMCOLL_STORE_TCP_ARGS_INIT;
    struct symmcoll_store *server = NULL;
    int ends[2];
    pid_t pid, parent = getpid();

    *port = 0;
    if (pipe(ends) != 0)
        return 0;
    fflush(NULL);
    pid = fork();
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        args.url = "redis://127.0.0.1:0";
        args.serve = 1;
        if (getppid() != parent ||
            symmcoll_store_open_tcp(&args, &server) != SYMMCOLL_OK)
            _exit(1);
        *port = symmcoll_store_port(server);
        if (write(ends[1], port, sizeof(*port)) != sizeof(*port))
            _exit(1);
        for (;;)
            pause();
    }
    close(ends[1]);
    if (read(ends[0], port, sizeof(*port)) != sizeof(*port))
        *port = 0;
    close(ends[0]);
    return pid;
}

/* Returns how long it takes to free a watch while the server is stopped. */
static double free_while_stopped(struct symmcoll_store *store, pid_t server)
{
    struct symmcoll_watch *watch = NULL;
    struct timespec from, to;
    struct told told;

    init_told(&told);
    if (symmcoll_store_watch(store, "h", note, &told, &watch) != SYMMCOLL_OK)
        diag("%s", symmcoll_last_error());
    /* Lets the watch wait; otherwise it would end at once. */
    usleep(100000);
    kill(server, SIGSTOP);
    waitpid(server, NULL, WUNTRACED);
    clock_gettime(CLOCK_MONOTONIC, &from);
    symmcoll_watch_free(watch);
    clock_gettime(CLOCK_MONOTONIC, &to);
    kill(server, SIGCONT);
    return (double)(to.tv_sec - from.tv_sec) +
           (double)(to.tv_nsec - from.tv_nsec) / 1e9;
}

static void server_may_hang(pid_t server, int port)
{
    struct symmcoll_store_tcp_args args = SYMMCOLL_STORE_TCP_ARGS_INIT;
    struct symmcoll_store *store = NULL;
    double least = 1e9;
    char url[64];

    if (port == 0) {
        skip(1, "built without hiredis or libevent");
        return;
    }
    snprintf(url, sizeof(url), "redis://127.0.0.1:%d", port);
    args.url = url;
    if (symmcoll_store_open_tcp(&args, &store) != SYMMCOLL_OK)
        diag("%s", symmcoll_last_error());
    /* The least of several times, since this process may be descheduled. */
    for (int i = 0; i < 3 && least >= 4; i++) {
        double seconds = free_while_stopped(store, server);

        least = seconds < least ? seconds : least;
    }
    diag("%g s", least);
    /* A server has 5 s to answer. */
    ok(least < 4, "tcp: a server that hangs does not hold the end up (R12)");
    symmcoll_store_close(store);
}

int main(void)
{
    int port;
    pid_t server = start_server(&port); /* while there is one thread */

    alarm(300);
    plan(7 * 5 - 1 + 2 * 3 + 1 + 1 + 1 + 1 + 1 + 1 + 1);
    check_hash();
    check_file();
    check_user();
    check_tcp();
    server_may_hang(server, port);
    stop_program(server);
    store_may_be_closed();
    return done_testing();
}
