/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Tests the file store: the contract of stores, workers that start and end,
 * and ranks that join through it. file_faults.c tests invalid files.
 */
#include "t/ranks.h"
#include "t/store/contract.h"
#include "t/store/file_util.h"

#include <errno.h>
#include <pthread.h>
#include <sys/stat.h>

#define WORKERS 4

/* ---- workers ---- */

static void test_contract(void)
{
    const char *path = scratch_path();
    struct symmcoll_store *store = open_or_null(path, 1);
    size_t count = 0;

    if (!ok(store != NULL &&
                symmcoll_store_num_keys(store, &count) == SYMMCOLL_OK &&
                count == 1,
            "a new file store holds one key of its own"))
        exit(done_testing());
    check_contract(store);
    symmcoll_store_close(store);
    ok(!is_there(path), "the only worker removes the file");
}

static void test_last_one_out(void)
{
    const char *path = scratch_path();
    struct symmcoll_store *a = open_or_null(path, 2);
    struct symmcoll_store *clone = NULL;
    struct symmcoll_store *b;

    ok(set_text(a, "k", "v") && symmcoll_store_clone(a, &clone) == SYMMCOLL_OK,
        "a file store can be cloned");
    symmcoll_store_close(a);
    ok(holds(clone, "k", "v"), "the worker stays until its last handle closes");
    symmcoll_store_close(clone);
    ok(is_there(path), "the file stays while a worker is still to come");
    b = open_or_null(path, 2);
    ok(b != NULL && holds(b, "k", "v"),
        "a late worker finds what those before it left");
    symmcoll_store_close(b);
    ok(!is_there(path), "the last of all workers removes the file");
    b = open_or_null(path, 1);
    ok(b != NULL && is_absent(b, "k"), "then the path is good for a new store");
    symmcoll_store_close(b);

    path = scratch_path();
    symmcoll_store_close(open_or_null(path, 0));
    ok(is_there(path), "without a number of workers the file stays");
    unlink(path);
}

/* Reads at most nbytes bytes of a file. Returns their number. */
static size_t read_bytes(const char *path, char *bytes, size_t nbytes)
{
    FILE *file = fopen(path, "r");
    size_t n = file != NULL ? fread(bytes, 1, nbytes, file) : 0;

    if (file != NULL)
        fclose(file);
    return n;
}

/* Checks that a change does not modify earlier bytes, and that keys of a
 * program may have the names of the store's own. */
static void test_records(void)
{
    static char before[4096], after[4096];
    const char *path = scratch_path();
    struct symmcoll_store *store = open_or_null(path, 1);
    size_t was = read_bytes(path, before, sizeof before), is = 0;
    int removed = 0, good = set_text(store, "refcount/", "a");

    for (int i = 0; i < 3; i++) {
        is = read_bytes(path, after, sizeof after);
        good = good && is > was && memcmp(after, before, was) == 0;
        memcpy(before, after, is);
        was = is;
        if (i == 0)
            good = set_text(store, "cleanup/", "b") && good;
        else
            good = symmcoll_store_delete(store, "refcount/", &removed) ==
                       SYMMCOLL_OK &&
                   removed == (i == 1) && good;
    }
    ok(good && holds(store, "cleanup/", "b") && is_absent(store, "refcount/"),
        "changes are appended to a file as records (R18)");
    symmcoll_store_close(store);
    ok(!is_there(path), "a key of any name leaves the store's own alone (R18)");
}

static int work_on_file(const void *arg)
{
    struct symmcoll_store *store = open_or_null(arg, WORKERS);
    int64_t number = 0;
    char key[32];
    char text[32];
    int good = store != NULL &&
               symmcoll_store_add(store, "number", 1, &number) == SYMMCOLL_OK;

    for (int i = 0; good && i < 100; i++)
        good = symmcoll_store_add(store, "sum", number, NULL) == SYMMCOLL_OK;
    snprintf(key, sizeof key, "done/%d", (int)number);
    good = good && set_text(store, key, "x");
    for (int i = 1; good && i <= WORKERS; i++) {
        const char *name = text;

        snprintf(text, sizeof text, "done/%d", i);
        good = symmcoll_store_wait(store, &name, 1, 60) == SYMMCOLL_OK;
    }
    good = good && holds(store, "sum", "1000");
    symmcoll_store_close(store);
    return good;
}

static void test_processes(void)
{
    const char *path = scratch_path();
    pid_t pids[WORKERS];
    int good = 1;

    fflush(NULL);
    for (int i = 0; i < WORKERS; i++) {
        pids[i] = fork();
        if (pids[i] == 0) {
            alarm(600);
            exit(work_on_file(path) ? 0 : 1);
        }
    }
    for (int i = 0; i < WORKERS; i++) {
        int status = 1;

        good &= waitpid(pids[i], &status, 0) == pids[i] && status == 0;
    }
    ok(good, "processes' additions are all counted, and each sees the others");
    ok(!is_there(path), "the last of the processes removes the file");
}

static int close_inherited(const void *arg)
{
    struct symmcoll_store *store = *(struct symmcoll_store *const *)arg;
    int good = set_text(store, "from", "child");

    symmcoll_store_close(store);
    return good;
}

static void test_fork_and_directory(void)
{
    const char *path = scratch_path();
    struct symmcoll_store *store = open_or_null(path, 1);
    char here[4096];
    char name[64];

    ok(run_in_child(close_inherited, &store) && is_there(path) &&
            holds(store, "from", "child"),
        "a child after fork() uses the store but does not leave for its parent");
    symmcoll_store_close(store);

    if (getcwd(here, sizeof here) == NULL || chdir("/tmp") != 0) {
        skip(1, "the current directory cannot be changed");
        return;
    }
    snprintf(name, sizeof name, "/tmp/store-relative-%ld", (long)getpid());
    unlink(name);
    store = open_or_null(name + strlen("/tmp/"), 1);
    ok(chdir("/") == 0 && store != NULL && set_text(store, "k", "v") &&
            is_there(name),
        "a relative path stays the same when the directory changes");
    symmcoll_store_close(store);
    if (chdir(here) != 0)
        diag("%s: %s", here, strerror(errno));
}

static void *make_folder_later(void *path)
{
    usleep(100000);
    return mkdir(path, 0700) == 0 ? path : NULL;
}

static int takes_from_queue(const void *path)
{
    struct symmcoll_store *store = open_or_null(path, 2);
    int good = pops(store, "q", "one") && has_length(store, "q", 1);

    symmcoll_store_close(store);
    return good;
}

static void test_late_and_queued(void)
{
    char folder[4200], path[4300];
    struct symmcoll_store *store = NULL;
    pthread_t thread;
    void *made = NULL;

    snprintf(folder, sizeof folder, "%s.d", scratch_path());
    snprintf(path, sizeof path, "%s/store", folder);
    /* Opened for two seconds; repeated, because a busy machine may take
     * longer. */
    for (int i = 0; i < 5 && store == NULL; i++) {
        rmdir(folder);
        pthread_create(&thread, NULL, make_folder_later, folder);
        if (symmcoll_store_open_file(path, 2, &store) != SYMMCOLL_OK)
            store = NULL;
        pthread_join(thread, &made);
    }
    ok(store != NULL && set_text(store, "k", "v"),
        "a folder that another process makes meanwhile is waited for (R19)");
    ok(made != NULL &&
            symmcoll_store_queue_push(store, "q", "one", 3) == SYMMCOLL_OK &&
            symmcoll_store_queue_push(store, "q", "two", 3) == SYMMCOLL_OK &&
            run_in_child(takes_from_queue, path) && pops(store, "q", "two") &&
            is_absent(store, "q"),
        "processes share a queue");
    symmcoll_store_close(store);
    unlink(path);
    rmdir(folder);
}

/* ---- a store in use by a world ---- */

/* A thread that checks a key continuously. */
struct watch {
    struct symmcoll_store *store;
    _Atomic int stop;
    int checks, wrong;
};

static void *check_often(void *arg)
{
    const char *key = "watched";
    struct watch *watch = arg;
    int exist = 0;

    do {
        if (symmcoll_store_check(watch->store, &key, 1, &exist) !=
                SYMMCOLL_OK ||
            exist != 1)
            watch->wrong++;
        watch->checks++;
    } while (!watch->stop);
    return NULL;
}

/* Joins through the store, runs operations, and finalizes while the thread
 * checks. */
static int use_watched(int rank, int size, struct watch *watch)
{
    struct symmcoll_init_args args = SYMMCOLL_INIT_ARGS_INIT;
    struct symmcoll_world *world;
    int right;

    args.store = watch->store;
    args.rank = rank;
    args.world_size = size;
    if (symmcoll_init(&args, &world) != SYMMCOLL_OK) {
        diag("rank %d: %s", rank, symmcoll_last_error());
        return 0;
    }
    right = symmcoll_world_rank(world) == rank &&
            symmcoll_world_size(world) == size;
    for (int i = 0; i < 200 && right; i++)
        right = symmcoll_barrier(symmcoll_world_group(world), NULL, NULL) ==
                SYMMCOLL_OK;
    return symmcoll_finalize(world) == SYMMCOLL_OK && right;
}

static int work_while_watched(int rank, int size, void *arg)
{
    struct watch watch = {.store = open_or_null(arg, size)};
    pthread_t thread;
    int right;

    if (watch.store == NULL || !set_text(watch.store, "watched", "x") ||
        pthread_create(&thread, NULL, check_often, &watch) != 0)
        return 1;
    right = use_watched(rank, size, &watch);
    usleep(20000); /* also when the world is gone */
    watch.stop = 1;
    pthread_join(thread, NULL);
    right = right && watch.checks > 0 && watch.wrong == 0;
    symmcoll_store_close(watch.store);
    return right ? 0 : 1;
}

static void test_watched(void)
{
    int statuses[2] = {1, 1};
    char path[4096];

    snprintf(path, sizeof path, "%s", scratch_path());
    ok(ranks_spawn(2, work_while_watched, path, statuses) && statuses[0] == 0 &&
            statuses[1] == 0 && !is_there(path),
        "a thread may check keys while ranks join through the store and work "
        "(R22)");
}

/* Runs one world after the other, each with its own file. */
static int work_twice(int rank, int size, void *arg)
{
    int right = 1;

    for (int i = 0; i < 2; i++) {
        struct watch unwatched = {.store = NULL};
        char path[4200];

        snprintf(path, sizeof path, "%s.%d", (const char *)arg, i);
        unwatched.store = open_or_null(path, size);
        right = unwatched.store != NULL &&
                use_watched(rank, size, &unwatched) && right;
        symmcoll_store_close(unwatched.store);
    }
    return right ? 0 : 1;
}

static void test_two_worlds(void)
{
    int statuses[2] = {1, 1};
    char path[4096];

    snprintf(path, sizeof path, "%s", scratch_path());
    ok(ranks_spawn(2, work_twice, path, statuses) && statuses[0] == 0 &&
            statuses[1] == 0,
        "after a world has ended there may be one on another file (R23)");
}

int main(void)
{
    alarm(600);
    plan(CONTRACT_POINTS + 19);
    test_contract();
    test_last_one_out();
    test_records();
    test_processes();
    test_fork_and_directory();
    test_late_and_queued();
    test_watched();
    test_two_worlds();
    return done_testing();
}
