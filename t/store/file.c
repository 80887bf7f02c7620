/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The file store: the contract of stores, workers that come and go, and files
 * that are stale, foreign, cut off, damaged, locked or out of room.
 */
#include "t/ranks.h"
#include "t/store/contract.h"

#include "store/journal.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>

#define WORKERS 4

static struct symmcoll_store *open_or_null(const char *path, int num_workers)
{
    struct symmcoll_store *store = NULL;

    if (symmcoll_store_open_file(path, num_workers, &store) != SYMMCOLL_OK) {
        diag("%s", symmcoll_last_error());
        return NULL;
    }
    return store;
}

/* Whether opening is refused with INVALID and this text. */
static int refuses(const char *path, int num_workers, const char *text)
{
    struct symmcoll_store *store = NULL;
    symmcoll_status_t status =
        symmcoll_store_open_file(path, num_workers, &store);
    int good = failed_with(status, SYMMCOLL_ERR_INVALID, text);

    if (!good)
        diag("status %d: %s", (int)status, symmcoll_last_error());
    symmcoll_store_close(store);
    return good;
}

static int is_there(const char *path)
{
    return access(path, F_OK) == 0;
}

static long size_of(const char *path)
{
    struct stat info;

    return stat(path, &info) == 0 ? (long)info.st_size : -1;
}

static int write_bytes(
    const char *path, long offset, const void *bytes, size_t nbytes)
{
    int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    int good = fd >= 0 && pwrite(fd, bytes, nbytes, offset) == (ssize_t)nbytes;

    if (fd >= 0)
        close(fd);
    return good;
}

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
            alarm(120);
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

/* ---- what is not a new file ---- */

static int open_and_die(const void *arg)
{
    struct symmcoll_store *store = open_or_null(arg, 2);

    return store != NULL && raise(SIGKILL);
}

static int open_briefly(const void *arg)
{
    struct symmcoll_store *store = open_or_null(arg, 2);

    symmcoll_store_close(store);
    return store != NULL;
}

static int is_refused_as_full(const void *arg)
{
    return refuses(arg, 2, "all its 2 workers have opened");
}

/* Say in a store's file that more workers have closed it than a long counts. */
static bool say_all_have_closed(const char *path)
{
    char most[] = "9223372036854775807";
    const struct symc_bytes count = {most, sizeof most - 1};
    const struct symc_record record = {"cleanup/", SYMC_PUT, &count};
    struct symc_journal journal = {.path = path};
    int fd = open(path, O_RDWR | O_CLOEXEC);
    bool good = fd >= 0 && symc_journal_open(&journal, fd, 2) == SYMMCOLL_OK &&
                symc_journal_append(&journal, fd, &record, 1) == SYMMCOLL_OK;

    symc_journal_clear(&journal);
    if (fd >= 0)
        close(fd);
    return good;
}

static void test_stale(void)
{
    const char *path = scratch_path();
    struct symmcoll_store *store;

    run_in_child(open_and_die, path);
    ok(is_there(path) && refuses(path, 2, "did not close before it ended"),
        "a file whose worker was killed is refused as stale");
    unlink(path);

    path = scratch_path();
    store = open_or_null(path, 2);
    ok(run_in_child(open_briefly, path) &&
            run_in_child(is_refused_as_full, path),
        "a file that all its workers have opened is refused");
    symmcoll_store_close(store);

    path = scratch_path();
    store = open_or_null(path, 2);
    ok(say_all_have_closed(path) && run_in_child(is_refused_as_full, path),
        "a damaged number of workers does not overflow");
    symmcoll_store_close(store);
    unlink(path);

    path = scratch_path();
    store = open_or_null(path, 2);
    ok(refuses(path, 3, "expected a store for 3 workers, found one for 2"),
        "a file for another number of workers is refused with both numbers");
    symmcoll_store_close(store);
    unlink(path);
}

static void test_foreign(void)
{
    const char *path = scratch_path();
    struct symmcoll_store *store = NULL;

    ok(write_bytes(path, 0, "#!/bin/sh\n", 10) &&
            refuses(path, 1, "expected a new file or a store") &&
            size_of(path) == 10,
        "a file of something else is refused and not touched");
    unlink(path);
    path = scratch_path();
    ok(write_bytes(path, 0, "symmcoll store\n", 16) &&
            refuses(path, 1, "header of 32 bytes, found 16: it is cut off"),
        "a file cut off within its header is refused");
    ok(write_bytes(path, 16, "\0\0\0\2\0\0\0\0\0\0\0\0\0\0\0\0", 16) &&
            refuses(path, 1, "expected format 1, found"),
        "a file of another format is refused");
    unlink(path);
    path = scratch_path();
    ok(write_bytes(path, 0, "", 0) && (store = open_or_null(path, 1)) != NULL &&
            set_text(store, "k", "v"),
        "an empty file is as good as none");
    symmcoll_store_close(store);

    ok(refuses("/dev/null", 1, "expected a regular file") &&
            refuses("", 1, "empty text") && refuses(NULL, 1, "path is NULL"),
        "a device, an empty path and NULL are refused");
    ok(failed_with(symmcoll_store_open_file("/nonexistent/store", 1, &store),
           SYMMCOLL_ERR_SYSTEM, "/nonexistent/store: No such file"),
        "a directory that is not there is named");
    path = scratch_path();
    if (geteuid() == 0) {
        skip(1, "root may read everything");
        return;
    }
    ok(write_bytes(path, 0, "", 0) && chmod(path, 0) == 0 &&
            failed_with(symmcoll_store_open_file(path, 1, &store),
                SYMMCOLL_ERR_SYSTEM, "Permission denied"),
        "a file without permission is named");
    unlink(path);
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
    pthread_create(&thread, NULL, make_folder_later, folder);
    ok(symmcoll_store_open_file(path, 2, &store) == SYMMCOLL_OK &&
            set_text(store, "k", "v"),
        "a folder that another process makes meanwhile is waited for");
    pthread_join(thread, &made);
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

static void test_damage(void)
{
    static const char torn[] = "\1\2\3\4\1\0\0\0\4\0\0\0\0\1\0\0/to";
    const char *path = scratch_path();
    struct symmcoll_store *store = open_or_null(path, 2);
    struct symmcoll_store *other;
    long end;

    set_text(store, "k", "before");
    end = size_of(path);
    ok(write_bytes(path, end, torn, sizeof torn - 1) &&
            holds(store, "k", "before"),
        "what a killed writer left of a record does not disturb readers");
    other = open_or_null(path, 2);
    ok(other != NULL && holds(other, "k", "before") &&
            set_text(other, "k", "after") && holds(store, "k", "after"),
        "the next writer cuts it off");
    end = size_of(path);
    ok(set_text(store, "k", "damaged") &&
            write_bytes(path, size_of(path) - 1, "D", 1) &&
            failed_with(symmcoll_store_set(other, "k", "", 0),
                SYMMCOLL_ERR_INVALID, "is damaged: its sum differs"),
        "a damaged record is found and its place is named");
    ok(truncate(path, end - 1) == 0 &&
            failed_with(symmcoll_store_set(store, "k", "", 0),
                SYMMCOLL_ERR_INVALID, "it was cut off"),
        "a file that became shorter is found");
    unlink(path);
    ok(failed_with(symmcoll_store_set(store, "k", "", 0), SYMMCOLL_ERR_SYSTEM,
           "which was there when it was opened"),
        "a file that was removed under its workers is found");
    symmcoll_store_close(other);
    other = open_or_null(path, 2);
    ok(other != NULL &&
            failed_with(symmcoll_store_set(store, "k", "", 0),
                SYMMCOLL_ERR_INVALID, "found another one in its place"),
        "another store in its place is found");
    symmcoll_store_close(store);
    symmcoll_store_close(other);
    unlink(path);
}

/* ---- limits ---- */

static void test_locked(void)
{
    const char *path = scratch_path();
    struct symmcoll_store *store = open_or_null(path, 1);
    int fd = open(path, O_RDWR | O_CLOEXEC);

    /* As a process does that is stopped in the middle of a call. */
    ok(fd >= 0 && flock(fd, LOCK_EX) == 0 &&
            symmcoll_store_set_timeout(store, 0) == SYMMCOLL_OK &&
            failed_with(symmcoll_store_set(store, "k", "", 0),
                SYMMCOLL_ERR_TIMEOUT, "keeps"),
        "a file that stays locked is a timeout, not a hang");
    close(fd);
    ok(set_text(store, "k", "v"), "and good again when the lock is released");
    symmcoll_store_close(store);
}

static int runs_into_file_limit(const void *arg)
{
    struct symmcoll_store *store = open_or_null(arg, 1);
    struct rlimit limit;
    char big[1000] = "";
    int good = set_text(store, "k", "v");

    if (getrlimit(RLIMIT_FSIZE, &limit) != 0)
        return 0;
    limit.rlim_cur = (rlim_t)size_of(arg) + 100;
    good = good && setrlimit(RLIMIT_FSIZE, &limit) == 0 &&
           failed_with(symmcoll_store_set(store, "big", big, sizeof big),
               SYMMCOLL_ERR_SYSTEM, "RLIMIT_FSIZE allows files of") &&
           holds(store, "k", "v") && is_absent(store, "big") &&
           set_text(store, "k", "w") && holds(store, "k", "w");
    symmcoll_store_close(store);
    return good && !is_there(arg);
}

static int write_text(const char *path, const char *text)
{
    int fd = open(path, O_WRONLY | O_CLOEXEC);
    int good =
        fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text);

    if (fd >= 0)
        close(fd);
    return good;
}

/* Enter a new namespace of users, in which this one may mount and own files. */
static int become_root(void)
{
    char users[32];
    char groups[32];

    snprintf(users, sizeof users, "0 %ld 1", (long)geteuid());
    snprintf(groups, sizeof groups, "0 %ld 1", (long)getegid());
    return unshare(CLONE_NEWUSER | CLONE_NEWNS) == 0 &&
           write_text("/proc/self/setgroups", "deny") &&
           write_text("/proc/self/uid_map", users) &&
           write_text("/proc/self/gid_map", groups);
}

/* Mount 64 KiB on a directory, seen by this process only. */
static int mount_small(const void *directory)
{
    if (unshare(CLONE_NEWNS) != 0 && !become_root())
        return 0;
    return mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0 &&
           mount("none", directory, "tmpfs", 0, "size=64k") == 0;
}

static int runs_out_of_room(const void *directory)
{
    static char big[200000];
    char path[4200];
    struct symmcoll_store *store;
    int good;

    if (!mount_small(directory))
        return 0;
    snprintf(path, sizeof path, "%s/store", (const char *)directory);
    store = open_or_null(path, 1);
    good = store != NULL && set_text(store, "k", "v") &&
           failed_with(symmcoll_store_set(store, "big", big, sizeof big),
               SYMMCOLL_ERR_SYSTEM, "No space left on device") &&
           strstr(symmcoll_last_error(), "writing 2000") != NULL &&
           holds(store, "k", "v") && is_absent(store, "big") &&
           set_text(store, "k", "w") && holds(store, "k", "w");
    symmcoll_store_close(store);
    return good && !is_there(path);
}

static void test_no_room(void)
{
    const char *path = scratch_path();

    ok(run_in_child(runs_into_file_limit, path),
        "the limit on file sizes is an error that names it, and the file stays "
        "good");
    unlink(path);
    path = scratch_path();
    if (mkdir(path, 0700) != 0 || !run_in_child(mount_small, path))
        skip(1, "no small file system can be mounted here");
    else
        ok(run_in_child(runs_out_of_room, path),
            "a full disk is an error that names what was to be written, and "
            "the file stays good");
    rmdir(path);
}

/* ---- a store in use by a world ---- */

/* A thread that checks a key all the time. */
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

/* Join through the store, work, and finalize while the thread checks. */
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
        "a thread may check keys while ranks join through the store and work");
}

int main(void)
{
    alarm(300);
    plan(CONTRACT_POINTS + 37);
    test_contract();
    test_last_one_out();
    test_processes();
    test_fork_and_directory();
    test_stale();
    test_foreign();
    test_late_and_queued();
    test_damage();
    test_locked();
    test_no_room();
    test_watched();
    return done_testing();
}
