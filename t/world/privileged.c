/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Tests a program with rights that its caller lacks: a copy of this test that
 * is setuid root and started by another user. The caller's environment is
 * ignored, and no file is written that the caller could choose. An ordinary
 * process is careful in folders that all users share.
 */
#include "../tap.h"
#include "../trace/ring_util.h"

#include "backend/module.h"
#include "config/config.h"
#include "config/option.h"
#include "registry/registry.h"
#include "rendezvous/launcher.h"
#include "rendezvous/rendezvous.h"

#include <symmcoll.h>

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define CALLER 65534
#define TEXTS_LEAST 10 /* settings that are text */
#define VARIABLE_MAX (PATH_MAX + 128)

static const struct symc_trace_format format = {
    .version = "2.10", .backend_name = "nccl"};

static char base[PATH_MAX] = "/tmp/symmcoll-privileged-XXXXXX";
static char buffer[PATH_MAX + 64];

static const char *within(const char *name)
{
    snprintf(buffer, sizeof(buffer), "%s/%s", base, name);
    return buffer;
}

static bool exists(const char *name)
{
    struct stat info;

    return lstat(within(name), &info) == 0;
}

static symmcoll_status_t write_ring(const char *name)
{
    struct symc_trace_ring *ring = make_ring(4);
    symmcoll_status_t status =
        symc_trace_write(ring, symc_trace_nbytes(4), within(name), &format);

    free(ring);
    return status;
}

/* Checks that writing is refused with the expected owner of the folder and the
 * owner found. */
static bool refuses(const char *name)
{
    if (write_ring(name) == SYMMCOLL_ERR_INVALID &&
        strstr(symmcoll_last_error(), "expected a folder of root") != NULL &&
        strstr(symmcoll_last_error(), "found owner") != NULL &&
        strstr(symmcoll_last_error(), base) != NULL)
        return true;
    diag("%s: found \"%s\"", name, symmcoll_last_error());
    return false;
}

/* ---- inside the copy, each in a new process ---- */

static bool reads_no_launcher(void)
{
    int rank, size, local_rank;
    const char *launcher;

    symc_rendezvous_detect(&rank, &size, &local_rank, &launcher);
    return rank == -1 && size == -1 && local_rank == -1 && launcher == NULL &&
           symc_rendezvous_variable("SYMMCOLL_HUB") == NULL;
}

static bool init_says_why(void)
{
    struct symmcoll_world *world;

    return symmcoll_init(NULL, &world) == SYMMCOLL_ERR_INVALID &&
           strstr(symmcoll_last_error(), "reads no environment") != NULL;
}

static bool reads_no_settings(void)
{
    struct symc_config *config;
    bool good = symc_config_load(&config, NULL, NULL) == SYMMCOLL_OK &&
                strcmp(config->trace_dump_file, "") == 0;

    if (good)
        symc_config_free(config);
    return good && strcmp(symc_module_folder(), SYMC_MODULE_DIR) == 0;
}

/* Checks names of files, folders and libraries, each of which would be opened
 * or loaded with the rights that the caller lacks: all settings that are
 * text. */
static bool takes_no_names(void)
{
    struct symc_config *config;
    bool good = symc_config_load(&config, NULL, NULL) == SYMMCOLL_OK;
    int texts = 0;

    for (int i = 0; good && symc_options[i].key != NULL; i++) {
        const char *found;

        if (symc_options[i].type != SYMC_OPTION_TEXT)
            continue;
        texts++;
        found = symc_config_get_text(config, symc_options[i].key);
        good = strstr(found, base) == NULL;
        if (!good)
            diag("%s is %s", symc_options[i].key, found);
    }
    return good && texts > TEXTS_LEAST;
}

/* Checks that files named by NCCL's own variables are not read, nor those at
 * NCCL's default places. */
static bool looks_for_no_files_of_nccl(void)
{
    const struct symc_settings settings = symc_registry_settings(NULL);

    return settings.get_variable("NCCL_CONF_FILE") == NULL &&
           settings.get_variable("HOME") == NULL;
}

static bool has_no_cache(void)
{
    char path[PATH_MAX], none[] = "";
    struct symc_config config = {.trace_dump_file = none};

    return symc_trace_path(&config, "job_0", "default", 0, path,
               sizeof(path)) == SYMMCOLL_ERR_INVALID &&
           strstr(symmcoll_last_error(), "trace.dump_file") != NULL &&
           strstr(symmcoll_last_error(), "reads no environment") != NULL;
}

static bool dumps_nowhere_of_the_callers(void)
{
    return refuses("caller/trace_0") && refuses("link/trace_0") &&
           refuses("sticky/link/trace_0") && refuses("group/trace_0") &&
           refuses("caller/roots/trace_0");
}

static bool dumps_among_its_own(void)
{
    struct stat info;

    umask(0);
    return write_ring("roots/trace_0") == SYMMCOLL_OK &&
           stat(within("roots/trace_0"), &info) == 0 &&
           (info.st_mode & 07777) == 0600 && info.st_uid == 0 &&
           write_ring("to-roots/trace_1") == SYMMCOLL_OK &&
           write_ring("roots/../sticky/trace_2") == SYMMCOLL_OK &&
           exists("sticky/trace_2");
}

static bool relative_paths_are_checked(void)
{
    struct symc_trace_ring *ring = make_ring(4);
    bool good = chdir(within("caller")) == 0 &&
                symc_trace_write(ring, symc_trace_nbytes(4), "trace_0",
                    &format) == SYMMCOLL_ERR_INVALID &&
                strstr(symmcoll_last_error(), "expected a folder") != NULL;

    free(ring);
    return good;
}

static bool stores_nowhere_of_the_callers(void)
{
    struct symmcoll_store *store;
    bool good =
        symmcoll_store_open_file(within("caller/store"), 1, &store) ==
            SYMMCOLL_ERR_INVALID &&
        strstr(symmcoll_last_error(), "expected a folder of root") != NULL &&
        symmcoll_store_open_file(within("sticky/file"), 1, &store) ==
            SYMMCOLL_ERR_INVALID &&
        strstr(symmcoll_last_error(), "expected a file of root") != NULL &&
        symmcoll_store_open_file(within("sticky/dangling"), 1, &store) ==
            SYMMCOLL_ERR_SYSTEM &&
        !exists("roots/made") &&
        symmcoll_store_open_file(within("roots/store"), 1, &store) ==
            SYMMCOLL_OK;

    if (good)
        symmcoll_store_close(store);
    return good;
}

static const struct {
    const char *sentence;
    bool (*holds)(void);
} points[] = {
    {"a setuid program reads no launcher's variable", reads_no_launcher},
    {"init says that it reads no environment", init_says_why},
    {"a setuid program reads no setting from its caller", reads_no_settings},
    {"nor a name of a file, a folder or a library", takes_no_names},
    {"nor looks where NCCL's variables say", looks_for_no_files_of_nccl},
    {"a setuid program takes no cache folder from its caller", has_no_cache},
    {"a setuid program writes through no folder that its caller can change",
        dumps_nowhere_of_the_callers},
    {"it writes into folders of its own, for itself alone",
        dumps_among_its_own},
    {"a setuid program checks the current folder", relative_paths_are_checked},
    {"a setuid program opens no file store of its caller's",
        stores_nowhere_of_the_callers},
};

#define POINTS (sizeof(points) / sizeof(points[0]))
#define NAMES 3 /* the number of the point about names */

enum {
    HOLDS = 0,
    HOLDS_NOT = 1,
    NOT_PRIVILEGED = 77
};

/* ---- outside ---- */

static bool copy_program(const char *to)
{
    int in = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
    int out = open(to, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0700);
    char block[65536];
    ssize_t n = -1;
    bool good = in >= 0 && out >= 0;

    while (good && (n = read(in, block, sizeof(block))) > 0)
        good = write(out, block, (size_t)n) == n;
    good = good && n == 0 && fchmod(out, 04755) == 0;
    if (in >= 0)
        close(in);
    if (out >= 0)
        close(out);
    return good;
}

static bool make_folder(const char *name, mode_t mode, uid_t owner)
{
    return mkdir(within(name), 0700) == 0 && chmod(buffer, mode) == 0 &&
           chown(buffer, owner, (gid_t)-1) == 0;
}

/* Creates a link of the caller to another name in the base folder. */
static bool make_link(const char *target, const char *name, uid_t owner)
{
    char to[PATH_MAX + 64];

    snprintf(to, sizeof(to), "%s/%s", base, target);
    return symlink(to, within(name)) == 0 &&
           lchown(buffer, owner, (gid_t)-1) == 0;
}

/* Creates a file of settings that the caller's variable names. */
static bool make_settings(void)
{
    FILE *file = fopen(within("caller/conf"), "w");

    return file != NULL &&
           fprintf(file, "fused: { blas = \"%s/caller/blas\"; };\n", base) >
               0 &&
           fclose(file) == 0;
}

static bool make_folders(void)
{
    int fd;

    if (!make_folder("caller", 0755, CALLER) ||
        !make_folder("caller/roots", 0755, 0) ||
        !make_folder("roots", 0755, 0) || !make_folder("group", 0775, 0) ||
        !make_folder("sticky", 01777, 0) || !make_link("caller", "link", 0) ||
        !make_link("roots", "to-roots", 0) ||
        !make_link("roots", "sticky/link", CALLER) ||
        !make_link("roots/made", "sticky/dangling", CALLER) ||
        !make_folder("sticky/caller", 0755, CALLER))
        return false;
    fd = open(within("sticky/file"), O_WRONLY | O_CREAT | O_CLOEXEC, 0666);
    return fd >= 0 && fchown(fd, CALLER, (gid_t)-1) == 0 && close(fd) == 0 &&
           make_settings();
}

/* Creates the caller's environment: a file of settings, and a value for each
 * setting that is text. */
static char **make_environment(void)
{
    static char *const plain[] = {"XDG_CACHE_HOME=/tmp", "RANK=0",
        "WORLD_SIZE=1", "LOCAL_RANK=0", "SYMMCOLL_HUB=x", "MASTER_ADDR=x",
        "MASTER_PORT=1", "SYMMCOLL_MODULE_DIR=/tmp"};
    static const char *const named[] = {
        "HOME", "SYMMCOLL_CONF", "NCCL_CONF_FILE"};
    const size_t plains = sizeof(plain) / sizeof(*plain);
    const size_t names = sizeof(named) / sizeof(*named);
    char **made =
        calloc(plains + names + (size_t)symc_option_count() + 1, sizeof(*made));
    size_t n = plains;

    memcpy(made, plain, sizeof(plain));
    for (size_t i = 0; i < names; i++) {
        made[n] = malloc(VARIABLE_MAX);
        snprintf(made[n++], VARIABLE_MAX, "%s=%s/caller%s", named[i], base,
            i == 0 ? "" : "/conf");
    }
    for (int i = 0; symc_options[i].key != NULL; i++) {
        char variable[SYMC_KEY_MAX];

        if (symc_options[i].type != SYMC_OPTION_TEXT)
            continue;
        made[n] = malloc(VARIABLE_MAX);
        snprintf(made[n++], VARIABLE_MAX, "%s=%s/caller/t",
            symc_option_variable(&symc_options[i], variable), base);
    }
    return made;
}

/* Runs a point in the copy as the caller would; or as root, the rights of
 * which it then has. */
static int run_copy(size_t point, bool by_caller)
{
    char number[24], program[PATH_MAX + 64];
    char *arguments[] = {program, number, base, NULL};
    int status = -1;
    pid_t child;

    snprintf(number, sizeof(number), "%zu", point);
    snprintf(program, sizeof(program), "%s/copy", base);
    fflush(NULL);
    child = fork();
    if (child == 0) {
        if (by_caller && (setgroups(0, NULL) != 0 || setgid(CALLER) != 0 ||
                             setuid(CALLER) != 0))
            _exit(NOT_PRIVILEGED);
        execve(program, arguments, make_environment());
        diag("exec of %s: %s", program, strerror(errno));
        _exit(HOLDS_NOT);
    }
    if (child < 0 || waitpid(child, &status, 0) != child || !WIFEXITED(status))
        return HOLDS_NOT;
    return WEXITSTATUS(status);
}

/* Uses _exit(): a leak sanitizer cannot trace a privileged process. */
static _Noreturn void be_the_copy(const char *number, const char *folder)
{
    size_t point = strtoul(number, NULL, 10);
    bool holds;

    if (geteuid() != 0)
        _exit(NOT_PRIVILEGED);
    snprintf(base, sizeof(base), "%s", folder);
    holds = point < POINTS && points[point].holds();
    if (!holds)
        diag("last error: %s", symmcoll_last_error());
    _exit(holds ? HOLDS : HOLDS_NOT);
}

int main(int argc, char **argv)
{
    char command[PATH_MAX + 16];

    if (argc == 3)
        be_the_copy(argv[1], argv[2]);
    if (geteuid() != 0)
        skip_all("only root can make a program that is setuid root");
    if (mkdtemp(base) == NULL || chmod(base, 0755) != 0)
        return 1;
    plan(POINTS + 4);
    ok(make_folders() && copy_program(within("copy")), "a copy is setuid root");
    for (size_t i = 0; i < POINTS; i++) {
        int found = run_copy(i, true);

        if (found == NOT_PRIVILEGED)
            skip(1, "%s: programs cannot be setuid here", points[i].sentence);
        else
            ok(found == HOLDS, "%s", points[i].sentence);
    }
    ok(run_copy(NAMES, false) == HOLDS_NOT,
        "else the environment names files and libraries");
    ok(refuses("sticky/caller/trace_0") && refuses("sticky/link/trace_0") &&
            !exists("sticky/caller/trace_0") && !exists("roots/trace_9"),
        "another user's folder or link in a shared folder is not gone through");
    ok(write_ring("caller/trace_0") == SYMMCOLL_OK &&
            write_ring("sticky/trace_3") == SYMMCOLL_OK &&
            write_ring("link/trace_1") == SYMMCOLL_OK,
        "else an ordinary process writes where it is told");
    snprintf(command, sizeof(command), "rm -rf %s", base);
    return system(command) == 0 ? done_testing() : 1;
}
