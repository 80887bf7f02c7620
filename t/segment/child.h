/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Children for tests of segments: plain processes and threads, without a
 * world.
 */
#ifndef T_SEGMENT_CHILD_H
#define T_SEGMENT_CHILD_H

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <symmcoll.h>

/* Checks that a call failed with a status and with a text in its detail. */
static inline int failed_with(
    symmcoll_status_t status, symmcoll_status_t expected, const char *text)
{
    if (status == expected && strstr(symmcoll_last_error(), text) != NULL)
        return 1;
    fprintf(stderr, "# expected %s with '%s', found %s: %s\n",
        symmcoll_status_name(expected), text, symmcoll_status_name(status),
        symmcoll_last_error());
    return 0;
}

typedef int (*child_fn)(void *arg);

/* Starts a process that runs body and ends with status 0 if it is true. */
static inline pid_t start_child(child_fn body, void *arg)
{
    pid_t parent = getpid();
    pid_t pid;

    fflush(NULL);
    pid = fork();
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (getppid() != parent)
            _exit(1);
        alarm(600);
        dup2(STDERR_FILENO, STDOUT_FILENO);
        exit(body(arg) ? 0 : 1);
    }
    return pid;
}

/* Wait for one; whether its body was true. */
static inline int end_child(pid_t pid)
{
    int status = -1;

    return pid > 0 && waitpid(pid, &status, 0) == pid && WIFEXITED(status) &&
           WEXITSTATUS(status) == 0;
}

static inline int run_child(child_fn body, void *arg)
{
    return end_child(start_child(body, arg));
}

#endif
