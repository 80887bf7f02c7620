/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Processes that ranks leave behind.  They become children of symmcoll-run,
 * which ends them, but not the children of a shell that has executed
 * symmcoll-run.
 */
#include "run.h"

#include "base/proc.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define SWEEP_SECONDS 2 /* time for killed processes to end */

bool run_sweep_begin(struct run_job *job)
{
    siginfo_t info;

    while (waitpid(-1, NULL, WNOHANG) > 0)
        ;
    job->shares_children =
        waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) == 0;
    return prctl(PR_SET_CHILD_SUBREAPER, 1) == 0;
}

/* Returns whether a process has this job's mark in its environment. */
static bool has_mark(const struct run_job *job, pid_t pid)
{
    size_t nbytes = 256 * 1024, n;
    char *text = malloc(nbytes);
    char path[32], mark[sizeof(job->id) + 16];
    bool found = false;

    if (text == NULL)
        return false;
    snprintf(mark, sizeof(mark), "SYMMCOLL_JOB=%s", job->id);
    snprintf(path, sizeof(path), "/proc/%d/environ", (int)pid);
    n = symc_proc_read(path, text, nbytes);
    for (size_t at = 0; at < n && !found; at += strlen(text + at) + 1)
        found = strcmp(text + at, mark) == 0;
    free(text);
    return found;
}

/*
 * Returns whether a child comes from a rank.  Without earlier children, every
 * child does.  Otherwise it is in a rank's process group or has inherited this
 * job's name; a child of the shell that executed us, or an orphan of one, has
 * neither.
 */
static bool is_ours(const struct run_job *job, pid_t pid, pid_t group)
{
    if (job->files.ends != NULL && pid == job->files.writer)
        return false;
    if (!job->shares_children)
        return true;
    for (int i = 0; i < job->options->ranks; i++)
        if (job->ranks[i].pid > 0 && job->ranks[i].pid == group)
            return true;
    return has_mark(job, pid);
}

/* Kills the children that come from ranks.  Returns their number, with zombies,
 * whose own children will be reparented to this process. */
static int kill_children(const struct run_job *job)
{
    DIR *all = opendir("/proc");
    struct dirent *entry;
    int found = 0;

    if (all == NULL)
        return 0;
    while ((entry = readdir(all)) != NULL) {
        pid_t pid = (pid_t)atoi(entry->d_name);
        struct symc_proc_stat stat;

        if (!symc_proc_stat_read(pid, &stat) || stat.parent != getpid() ||
            !is_ours(job, pid, stat.group))
            continue;
        found++;
        (void)kill(pid, SIGKILL);
    }
    closedir(all);
    return found;
}

void run_sweep(struct run_job *job)
{
    int64_t deadline =
        symc_deadline_ns(symc_now_ns(), symc_seconds_ns(SWEEP_SECONDS));

    for (int i = 0; i < job->options->ranks; i++)
        if (job->ranks[i].running)
            run_send_signal(&job->ranks[i], SIGKILL);
    for (;;) {
        const struct timespec pause = {0, 1000000};
        pid_t pid;

        while ((pid = waitpid(-1, NULL, WNOHANG)) > 0)
            ;
        if (pid < 0 || kill_children(job) == 0)
            return;
        (void)nanosleep(&pause, NULL);
        /* A process stuck in the kernel is left there. */
        if (symc_now_ns() > deadline) {
            run_say(job->err, "processes of the ranks are left behind: they "
                              "do not end, not even by SIGKILL");
            return;
        }
    }
}
