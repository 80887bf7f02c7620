/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Tests files that a file store refuses or finds damaged: stale, foreign,
 * truncated, corrupted, locked, or full.
 */
#include "t/store/file_util.h"

#include "store/journal.h"

#include <sched.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/syscall.h>

/* ---- existing and invalid files ---- */

static const char *removed; /* at the next lock; NULL: none */

/* Replaces the C library's function. */
int flock(int fd, int operation)
{
    if (removed != NULL)
        unlink(removed);
    removed = NULL;
    return (int)syscall(SYS_flock, fd, operation);
}

static void test_removed(void)
{
    const char *path = scratch_path();
    struct symmcoll_store *before = open_or_null(path, 2), *one, *other;

    removed = path;
    one = open_or_null(path, 2);
    other = open_or_null(path, 2);
    ok(removed == NULL && is_there(path) && set_text(one, "k", "v") &&
            holds(other, "k", "v"),
        "a file that is removed between opening and locking is made anew");
    symmcoll_store_close(one);
    symmcoll_store_close(other);
    symmcoll_store_close(before);
}

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

/* Writes to a store's file that more workers have closed it than a long can
 * count. */
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
                SYMMCOLL_ERR_INVALID, "is damaged: its checksum differs"),
        "a damaged record is found and its place is named");
    ok(truncate(path, end - 1) == 0 &&
            failed_with(symmcoll_store_set(store, "k", "", 0),
                SYMMCOLL_ERR_INVALID, "it was cut off"),
        "a file that became shorter is found");
    unlink(path);
    ok(failed_with(symmcoll_store_set(store, "k", "", 0), SYMMCOLL_ERR_SYSTEM,
           "which existed when it was opened"),
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

    /* Like a process that is stopped in the middle of a call. */
    ok(fd >= 0 && flock(fd, LOCK_EX) == 0 &&
            symmcoll_store_set_timeout(store, 0) == SYMMCOLL_OK &&
            failed_with(symmcoll_store_set(store, "k", "", 0),
                SYMMCOLL_ERR_TIMEOUT, "another process has"),
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

/* Enters a new user namespace, in which this process may mount and own
 * files. */
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

/* Mounts 64 KiB on a directory, visible only to this process. */
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

int main(void)
{
    alarm(600);
    plan(22);
    test_removed();
    test_stale();
    test_foreign();
    test_damage();
    test_locked();
    test_no_room();
    return done_testing();
}
