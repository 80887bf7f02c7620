/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Tests the files of dumps: their place, dumps that cannot be written, and
 * files of a writer that dies.
 */
#include "t/trace/dump_util.h"

#include "trace/out.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static int truncated_ring_is_refused(void)
{
    struct symc_trace_ring *ring = make_ring(4);
    int good = 1;

    record(ring, 0, 1, 4);
    for (size_t nbytes = 0; nbytes < symc_trace_nbytes(4); nbytes += 64)
        good = good && symc_trace_write(ring, nbytes, path, &newer) ==
                           SYMMCOLL_ERR_INVALID;
    free(ring);
    return good && folder_holds(false);
}

static int unwritable_is_named(void)
{
    struct symc_trace_ring *ring = make_ring(4);
    char bad[96];
    int good;

    snprintf(bad, sizeof(bad), "%s/no/such/folder", folder);
    good = symc_trace_write(ring, symc_trace_nbytes(4), bad, &newer) ==
               SYMMCOLL_ERR_SYSTEM &&
           strstr(symmcoll_last_error(), bad) != NULL &&
           strstr(symmcoll_last_error(), strerror(ENOENT)) != NULL;
    good = good &&
           symc_trace_write(ring, symc_trace_nbytes(4), folder, &newer) ==
               SYMMCOLL_ERR_SYSTEM &&
           strstr(symmcoll_last_error(), strerror(EISDIR)) != NULL;
    good = good && folder_holds(false);
    free(ring);
    return good;
}

/* Kills a child in the middle of a dump. */
static bool leave_temporary(void)
{
    pid_t child = fork();
    int status;

    if (child == 0) {
        static struct symc_trace_out out;

        (void)symc_trace_out_open(&out, path);
        kill(getpid(), SIGKILL);
    }
    return child > 0 && waitpid(child, &status, 0) == child &&
           WIFSIGNALED(status);
}

static int leftovers_of_the_dead_go(void)
{
    struct symc_trace_ring *ring = make_ring(4);
    int good = leave_temporary() && folder_counts() == 1 && leave_temporary() &&
               leave_temporary() && folder_counts() == 1 &&
               dump(ring, 4, &newer) && folder_holds(true);

    unlink(path);
    free(ring);
    return good;
}

/* Creates a file of that age in the folder. */
static bool make_file(const char *name, int days)
{
    struct timespec times[2] = {{.tv_sec = time(NULL) - days * 86400 - 60},
        {.tv_sec = time(NULL) - days * 86400 - 60}};
    char file[160];
    int fd;

    snprintf(file, sizeof(file), "%s/%s", folder, name);
    fd = open(file, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    return fd >= 0 && futimens(fd, times) == 0 && close(fd) == 0;
}

/* Removes a file of the folder; false: it does not exist. */
static bool remove_file(const char *name)
{
    char file[160];

    snprintf(file, sizeof(file), "%s/%s", folder, name);
    return unlink(file) == 0;
}

static int files_of_others_stay(void)
{
    static const char *const others[] = {"trace_2.tmp", "notes.7-1-1-0.tmp",
        "trace_2.0123456789abcdef-1-1-0.tmp~",
        "trace_2.0123456789abcdeF-1-1-0.tmp",
        "trace_2.0123456789abcdef-1-1.tmp", "0123456789abcdef-1-1-0.tmp"};
    const char *young = "trace_1.0123456789abcdef-1-1-0.tmp";
    const char *old = "trace_2.0123456789abcdef-1-1-0.tmp";
    struct symc_trace_ring *ring = make_ring(4);
    struct symc_trace_out out;
    char living[96];
    int good = make_file(young, 0) && make_file(old, 1);

    for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++)
        good = make_file(others[i], 3) && good;
    snprintf(living, sizeof(living), "%s/trace_9", folder);
    good = good && symc_trace_out_open(&out, living) == SYMMCOLL_OK &&
           dump(ring, 4, &newer) && symc_trace_out_close(&out) == SYMMCOLL_OK &&
           remove_file("trace_9") && remove_file(young) && !remove_file(old);
    for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++)
        good = remove_file(others[i]) && good;
    good = good && folder_holds(true);
    unlink(path);
    free(ring);
    return good;
}

static int device_is_not_replaced(void)
{
    struct symc_trace_ring *ring = make_ring(4);
    struct stat info;
    int good = mkfifo(path, 0600) == 0 &&
               symc_trace_write(ring, symc_trace_nbytes(4), path, &newer) ==
                   SYMMCOLL_ERR_INVALID &&
               lstat(path, &info) == 0 && S_ISFIFO(info.st_mode);

    unlink(path);
    free(ring);
    return good;
}

/* Runs in a child, which the signal would kill. */
static int limit_is_an_error(void)
{
    int status = -1;
    pid_t child = fork();

    if (child == 0) {
        struct symc_trace_ring *ring = make_ring(256);
        struct rlimit limit = {4096, 4096};
        sigset_t pending;
        bool good;

        record(ring, 0, 1, 256);
        setrlimit(RLIMIT_FSIZE, &limit);
        good = symc_trace_write(ring, symc_trace_nbytes(256), path, &newer) ==
                   SYMMCOLL_ERR_SYSTEM &&
               strstr(symmcoll_last_error(), path) != NULL &&
               strstr(symmcoll_last_error(), strerror(EFBIG)) != NULL;
        sigpending(&pending);
        _exit(good && sigismember(&pending, SIGXFSZ) == 0 ? 0 : 1);
    }
    return child > 0 && waitpid(child, &status, 0) == child && status == 0 &&
           folder_holds(false);
}

static bool write_line(const char *name, const char *line)
{
    FILE *file = fopen(name, "w");

    return file != NULL && fputs(line, file) >= 0 && fclose(file) == 0;
}

/* Enters a mount namespace; for users other than root also a user namespace,
 * in which this user must be mapped to own files. */
static bool enter_namespace(void)
{
    char users[32], groups[32];

    if (unshare(CLONE_NEWNS) == 0)
        return true;
    snprintf(users, sizeof(users), "0 %ld 1", (long)geteuid());
    snprintf(groups, sizeof(groups), "0 %ld 1", (long)getegid());
    return unshare(CLONE_NEWUSER | CLONE_NEWNS) == 0 &&
           write_line("/proc/self/setgroups", "deny") &&
           write_line("/proc/self/uid_map", users) &&
           write_line("/proc/self/gid_map", groups);
}

/*
 * Writes a dump to a new file system with one page, in a child with its own
 * mount namespace. Returns 0 if that is not permitted, -1 if the dump went
 * wrong.
 */
static int full_disk_is_an_error(void)
{
    enum {
        NOT_ALLOWED = 77
    };
    int status = -1;
    pid_t child = fork();

    if (child == 0) {
        struct symc_trace_ring *ring = make_ring(256);
        bool good;

        record(ring, 0, 1, 256);
        if (!enter_namespace() ||
            mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0 ||
            mount("none", folder, "tmpfs", 0, "size=4096") != 0)
            _exit(NOT_ALLOWED);
        good = symc_trace_write(ring, symc_trace_nbytes(256), path, &newer) ==
                   SYMMCOLL_ERR_SYSTEM &&
               strstr(symmcoll_last_error(), path) != NULL &&
               strstr(symmcoll_last_error(), strerror(ENOSPC)) != NULL;
        _exit(good && folder_holds(false) ? 0 : 1);
    }
    if (child < 0 || waitpid(child, &status, 0) != child)
        return -1;
    if (WIFEXITED(status) && WEXITSTATUS(status) == NOT_ALLOWED)
        return 0;
    return status == 0 ? 1 : -1;
}

static int old_dump_survives_a_failure(void)
{
    struct symc_trace_ring *ring = make_ring(256);
    int status = -1;
    pid_t child;
    int good;

    record(ring, 0, 1, 1);
    good = dump(ring, 256, &newer);
    record(ring, 0, 2, 256);
    child = fork();
    if (child == 0) {
        struct rlimit limit = {4096, 4096};

        setrlimit(RLIMIT_FSIZE, &limit);
        _exit(symc_trace_write(ring, symc_trace_nbytes(256), path, &newer) ==
                      SYMMCOLL_ERR_SYSTEM
                  ? 0
                  : 1);
    }
    good = good && child > 0 && waitpid(child, &status, 0) == child &&
           status == 0 && read_text() && json_is_valid(text) &&
           json_is(text, "entries/1", NULL) && folder_holds(true);
    unlink(path);
    free(ring);
    return good;
}

static symmcoll_status_t find_path(
    const char *prefix, const char *world, char *made, size_t nbytes)
{
    char copy[64];
    struct symc_config config = {.trace_dump_file = copy};

    snprintf(copy, sizeof(copy), "%s", prefix);
    return symc_trace_path(&config, "run/1_0", world, 3, made, nbytes);
}

static int paths_are_made(void)
{
    char expected[128];
    char made[128];
    struct stat info;
    int good;

    good =
        find_path("/x/trace_", "default", made, sizeof(made)) == SYMMCOLL_OK &&
        strcmp(made, "/x/trace_3") == 0 &&
        find_path("/x/trace_", "a/b", made, sizeof(made)) == SYMMCOLL_OK &&
        strcmp(made, "/x/trace_3.a_b") == 0 &&
        find_path("/x/trace_", "a/b", made, 14) == SYMMCOLL_ERR_INVALID &&
        find_path("/x/trace_", "default", made, 8) == SYMMCOLL_ERR_INVALID;
    setenv("XDG_CACHE_HOME", folder, 1);
    snprintf(
        expected, sizeof(expected), "%s/symmcoll/trace_run_1_0_rank_3", folder);
    good = good &&
           find_path("", "default", made, sizeof(made)) == SYMMCOLL_OK &&
           strcmp(made, expected) == 0;
    unsetenv("XDG_CACHE_HOME");
    setenv("HOME", folder, 1);
    snprintf(expected, sizeof(expected),
        "%s/.cache/symmcoll/trace_run_1_0_rank_3", folder);
    good = good &&
           find_path("", "default", made, sizeof(made)) == SYMMCOLL_OK &&
           strcmp(made, expected) == 0;
    *strrchr(expected, '/') = '\0';
    good = good && stat(expected, &info) == 0 && S_ISDIR(info.st_mode);
    unsetenv("HOME");
    return good &&
           find_path("", "default", made, sizeof(made)) == SYMMCOLL_ERR_INVALID;
}

/* Returns the lowest free descriptor. */
static int free_descriptor(void)
{
    int fd = dup(STDIN_FILENO);

    close(fd);
    return fd;
}

int main(void)
{
    int full, lowest = free_descriptor();

    plan(11);
    if (!make_folder())
        return 1;
    ok(truncated_ring_is_refused(), "a truncated ring is refused");
    ok(unwritable_is_named(), "an unwritable path is named with its reason");
    ok(leftovers_of_the_dead_go(),
        "the next dump removes what killed writers have left");
    ok(files_of_others_stay(),
        "but not what living ones write, nor what others have called so");
    ok(device_is_not_replaced(), "what is no regular file is not replaced");
    ok(limit_is_an_error(), "a limit on file sizes is an error, not the end");
    full = full_disk_is_an_error();
    if (full == 0)
        skip(1, "mounting a small file system is not allowed here");
    else
        ok(full == 1, "a full disk is an error");
    ok(old_dump_survives_a_failure(), "a failed dump leaves the old one");
    ok(folder_holds(false), "failures leave no temporary file");
    ok(free_descriptor() == lowest, "and no descriptor");
    ok(paths_are_made(), "the default path is made, with its folder");
    return remove_folder() ? done_testing() : 1;
}
