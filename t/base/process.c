/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Tests names of processes when /proc cannot be read because no descriptor is
 * free: the error has the limit, and no process is taken for dead.
 */
#include "t/tap.h"

#include "base/process.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

/* The call of getpid(), counted from 1, that takes the last descriptor,
 * between two files that the library reads. 0: none. */
static int taking_call;
static int calls;
static int taken = -1;

/* Replaces the C library's function. */
pid_t getpid(void)
{
    if (++calls == taking_call)
        taken = dup(0);
    return (pid_t)syscall(SYS_getpid);
}

/* Leaves this number of descriptors free, and one less after a call of
 * getpid(). */
static void leave_free(int count, int call, struct rlimit *before)
{
    int lowest = dup(0);
    struct rlimit limit;

    close(lowest);
    getrlimit(RLIMIT_NOFILE, before);
    limit = *before;
    limit.rlim_cur = (rlim_t)lowest + (rlim_t)count;
    setrlimit(RLIMIT_NOFILE, &limit);
    calls = 0;
    taking_call = call;
}

static void undo(const struct rlimit *before)
{
    setrlimit(RLIMIT_NOFILE, before);
    taking_call = 0;
    if (taken >= 0)
        close(taken);
    taken = -1;
}

static bool names_the_limit(const char *file)
{
    const char *detail = symmcoll_last_error();

    if (strstr(detail, file) != NULL && strstr(detail, "RLIMIT_NOFILE is"))
        return true;
    diag("expected %s and the limit, found: %s", file, detail);
    return false;
}

/* Checks the error of the name with this number of descriptors. */
static bool name_fails(int count, int call, const char *file)
{
    char name[SYMC_PROCESS_NAME];
    struct rlimit before;
    symmcoll_status_t status;

    leave_free(count, call, &before);
    status = symc_process_name(name);
    undo(&before);
    return status == SYMMCOLL_ERR_SYSTEM && names_the_limit(file);
}

/* Checks the state found for a process with this number of descriptors. */
static bool find_fails(const char *name, int count, int call, const char *file)
{
    struct rlimit before;
    enum symc_process_state state;

    leave_free(count, call, &before);
    state = symc_process_find(name, NULL);
    undo(&before);
    return state == SYMC_PROCESS_UNREAD && names_the_limit(file);
}

/* Starts a process that waits until it is killed, and returns its name; -1:
 * failed. */
static pid_t start_process(char name[SYMC_PROCESS_NAME])
{
    int fds[2];
    pid_t pid;

    if (pipe(fds) != 0)
        return -1;
    pid = fork();
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (symc_process_name(name) != SYMMCOLL_OK ||
            write(fds[1], name, SYMC_PROCESS_NAME) != SYMC_PROCESS_NAME)
            _exit(1);
        for (;;)
            pause();
    }
    close(fds[1]);
    if (read(fds[0], name, SYMC_PROCESS_NAME) != SYMC_PROCESS_NAME)
        name[0] = '\0';
    close(fds[0]);
    return pid;
}

int main(void)
{
    char name[SYMC_PROCESS_NAME] = "", stat[32];
    pid_t pid;

    alarm(600);
    plan(5);
    pid = start_process(name);
    if (pid <= 0) {
        diag("no process");
        return 1;
    }
    snprintf(stat, sizeof(stat), "/proc/%ld/stat", (long)pid);
    ok(name_fails(0, 0, "boot_id"), "a name without descriptors has the limit");
    ok(name_fails(1, 1, "/stat"), "also where the last one goes in between");
    ok(find_fails(name, 0, 0, "boot_id"),
        "without descriptors nobody is taken for gone");
    ok(find_fails(name, 1, 2, stat), "also where the last one goes in between");
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
    ok(symc_process_find(name, &pid) == SYMC_PROCESS_GONE,
        "with one it is found to be gone");
    return done_testing();
}
