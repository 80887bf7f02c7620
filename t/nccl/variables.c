/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Tests NCCL's variables in the places where NCCL reads them: the environment,
 * the user's file, and that of the machine, which are files of this test.
 */
#include "cuda/nccl/nccl.h"
#include "t/tap.h"

#include <pwd.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define BLOCKING "NCCL_COMM_BLOCKING"
#define NEW 23004 /* versions */
#define USUAL 22809
#define OLDEST 22203

static char folder[] = "/tmp/nccl.XXXXXX";
static char machine[64], own[64], home[64], named[64]; /* paths */
static char text[SYMC_DETAIL_MAX];

/* Replace the system's functions, by --wrap; open() has a second name for
 * large files. */
int __wrap_open(const char *path, int flags, ...);
int __wrap_open64(const char *path, int flags, ...);
extern int __real_open(const char *path, int flags, ...);
int __wrap_getpwuid_r(uid_t uid, struct passwd *entry, char *buffer,
    size_t nbytes, struct passwd **found);

int __wrap_open(const char *path, int flags, ...)
{
    return __real_open(
        strcmp(path, "/etc/nccl.conf") == 0 ? machine : path, flags);
}

int __wrap_open64(const char *path, int flags, ...)
{
    return __wrap_open(path, flags);
}

int __wrap_getpwuid_r(uid_t uid, struct passwd *entry, char *buffer,
    size_t nbytes, struct passwd **found)
{
    (void)buffer;
    (void)nbytes;
    entry->pw_dir = folder;
    *found = uid == getuid() ? entry : NULL;
    return 0;
}

static const char *get(const char *name)
{
    return getenv(name);
}

static symmcoll_status_t keep(symmcoll_status_t status, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    (void)vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    return status;
}

static void store(const char *path, const char *lines)
{
    FILE *file = fopen(path, "w");

    if (file == NULL || fputs(lines, file) < 0 || fclose(file) != 0) {
        diag("cannot write %s", path);
        exit(1);
    }
}

static void forget(void)
{
    (void)unlink(machine);
    (void)unlink(own);
    (void)unlink(named);
    unsetenv(BLOCKING);
    unsetenv("NCCL_CONF_FILE");
}

static int is_allowed(int version)
{
    const struct symc_nccl nccl = {.version = version};

    return symc_nccl_check_variables(NULL, &nccl, get) == SYMMCOLL_OK;
}

/* Checks a refusal with the beginning of its detail; path NULL: it names no
 * file. */
static int is_refused(int version, const char *path, int line)
{
    const struct symc_nccl nccl = {.version = version};
    char expected[256] = "";

    if (path != NULL)
        (void)snprintf(expected, sizeof(expected), "%s:%d: ", path, line);
    (void)strcat(expected, BLOCKING ": expected it unset or 0, found 1, of ");
    if (symc_nccl_check_variables(keep, &nccl, get) == SYMMCOLL_ERR_CONFIG &&
        strncmp(text, expected, strlen(expected)) == 0)
        return 1;
    diag("expected '%s', found '%s'", expected, text);
    return 0;
}

static int in_environment(void)
{
    int right = is_allowed(USUAL);

    setenv(BLOCKING, "1", 1);
    right = is_refused(USUAL, NULL, 0) && right;
    setenv(BLOCKING, "0", 1);
    store(own, BLOCKING "=1\n");
    store(machine, BLOCKING "=1\n");
    return is_allowed(USUAL) && right;
}

static int in_file_of_user(void)
{
    int right;

    store(own, "NCCL_DEBUG=WARN\n\n" BLOCKING "=1\n" BLOCKING "=0\n");
    right = is_refused(USUAL, own, 3);
    store(own, BLOCKING "=0\n" BLOCKING "=1\n");
    store(machine, BLOCKING "=1\n");
    return is_allowed(USUAL) && right;
}

static int in_file_of_machine(void)
{
    int right;

    store(machine, BLOCKING "=1\r\n");
    right = is_refused(USUAL, "/etc/nccl.conf", 1);
    store(own, "NCCL_DEBUG=WARN");
    return is_refused(USUAL, "/etc/nccl.conf", 1) && right;
}

static int in_named_file(void)
{
    int right;

    store(own, BLOCKING "=1\n");
    store(named, BLOCKING "=0\n");
    setenv("NCCL_CONF_FILE", named, 1);
    right = is_allowed(USUAL) && is_refused(OLDEST, own, 1);
    store(named, "# a comment\n" BLOCKING "=1");
    right = is_refused(USUAL, named, 2) && right;
    setenv("NCCL_CONF_FILE", "", 1);
    return is_refused(USUAL, own, 1) && right;
}

static int in_home(void)
{
    char path[80];
    int right;

    (void)snprintf(path, sizeof(path), "%s/.nccl.conf", home);
    setenv("HOME", home, 1);
    store(path, BLOCKING "=1\n");
    right = is_allowed(USUAL) && is_refused(NEW, path, 1);
    unsetenv("HOME");
    right = is_allowed(NEW) && right;
    (void)unlink(path);
    return right;
}

static int other_lines(void)
{
    store(own, "#" BLOCKING "=1\n " BLOCKING "=1\n" BLOCKING " =1\n" BLOCKING
               "\nNCCL_COMM_BLOCKING_=1\n" BLOCKING "=2\n");
    return is_allowed(USUAL) && is_allowed(NEW);
}

int main(void)
{
    static const struct {
        int (*run)(void);
        const char *what;
    } points[] = {
        {in_environment, "the environment counts, whatever a file has"},
        {in_file_of_user, "then the user's file does, and its first line"},
        {in_file_of_machine, "then that of the machine"},
        {in_named_file,
            "NCCL_CONF_FILE names another one for the user's, from 2.23 on"},
        {in_home, "NCCL 2.30 finds the user's by HOME"},
        {other_lines, "lines of which NCCL makes another variable do not"}};
    const size_t count = sizeof(points) / sizeof(*points);

    if (mkdtemp(folder) == NULL)
        return 1;
    (void)snprintf(machine, sizeof(machine), "%s/machine", folder);
    (void)snprintf(own, sizeof(own), "%s/.nccl.conf", folder);
    (void)snprintf(named, sizeof(named), "%s/named", folder);
    (void)snprintf(home, sizeof(home), "%s/home", folder);
    (void)mkdir(home, 0700);
    for (size_t i = 0; i < count; i++) {
        forget();
        ok(points[i].run(), "%s", points[i].what);
    }
    forget();
    (void)rmdir(home);
    (void)rmdir(folder);
    return done_testing();
}
