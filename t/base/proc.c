/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Tests files of the kernel, and descriptors that a program has closed and
 * whose numbers were reused.
 */
#include "../tap.h"

#include "base/proc.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

static int whole_file_is_read(void)
{
    static char text[64 * 1024];
    char *pages =
        mmap(NULL, 128 * 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    size_t used;

    /* A line for each page: more than the kernel returns at once. */
    for (size_t i = 0; i < 128; i += 2)
        mprotect(pages + i * 4096, 4096, PROT_READ);
    used = symc_proc_read("/proc/self/maps", text, sizeof(text));
    munmap(pages, 128 * 4096);
    return used > 4096 && strlen(text) == used &&
           strstr(text, "[stack]") != NULL;
}

static int reading_ends_at_the_buffer(void)
{
    char text[16];

    memset(text, 'x', sizeof(text));
    return symc_proc_read("/proc/version", text, 8) == 7 &&
           strcmp(text, "Linux v") == 0 && text[8] == 'x';
}

static int missing_file_is_told(void)
{
    char text[8] = "old";

    return symc_proc_read("/proc/none", text, sizeof(text)) == 0 &&
           errno == ENOENT && text[0] == '\0';
}

/* Uses a pipe with data and an open other end, for which a second read() would
 * block. */
static int pipe_is_not_waited_for(void)
{
    char path[32], text[64];
    int fds[2];
    size_t used;

    if (pipe(fds) != 0 || write(fds[1], "x", 1) != 1)
        return 0;
    snprintf(path, sizeof(path), "/proc/self/fd/%d", fds[0]);
    used = symc_proc_read(path, text, sizeof(text));
    close(fds[0]);
    close(fds[1]);
    return used == 0 && text[0] == '\0';
}

static int own_process_is_described(void)
{
    struct symc_proc_stat stat, again;

    prctl(PR_SET_NAME, "a) T 1 (b");
    return symc_proc_stat_read(getpid(), &stat) &&
           symc_proc_stat_read(getpid(), &again) && stat.state == 'R' &&
           stat.parent == getppid() && stat.group == getpgrp() &&
           stat.start != 0 && stat.start == again.start && stat.exit == 0;
}

/* Checks the status of a process that was killed and has not been waited
 * for. */
static int zombie_has_its_status(void)
{
    struct symc_proc_stat stat = {0};
    siginfo_t info;
    pid_t pid = fork();
    bool found;

    if (pid == 0) {
        raise(SIGKILL);
        _exit(0);
    }
    waitid(P_PID, (id_t)pid, &info, WEXITED | WNOWAIT);
    found = symc_proc_stat_read(pid, &stat);
    waitpid(pid, NULL, 0);
    return found && stat.state == 'Z' && stat.parent == getpid() &&
           WIFSIGNALED(stat.exit) && WTERMSIG(stat.exit) == SIGKILL &&
           !symc_proc_stat_read(pid, &stat);
}

int main(void)
{
    plan(6);
    alarm(600);
    ok(whole_file_is_read(), "a file of many pages is read as a whole");
    ok(reading_ends_at_the_buffer(), "reading ends where the buffer does");
    ok(missing_file_is_told(), "a missing file is told by errno");
    ok(pipe_is_not_waited_for(), "a pipe is not waited for");
    ok(own_process_is_described(), "a process of any name is described");
    ok(zombie_has_its_status(), "a zombie has its exit status, then is gone");
    return done_testing();
}
