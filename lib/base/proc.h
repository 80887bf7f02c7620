/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Reading files of /proc.
 */
#ifndef SYMC_BASE_PROC_H
#define SYMC_BASE_PROC_H

#include "base/base.h"

#include <sys/types.h>

/*
 * Read such a file as text, as far as it fits with a zero after it.  Returns
 * the bytes read; 0, with errno set and text "", where there are none.
 *
 * It never waits, even if another thread of the program closes the descriptor
 * and opens a pipe or a socket that has its number.
 */
size_t symc_proc_read(const char *path, char *text, size_t nbytes);

/*
 * Calls take() with each line of such a file, of a line its first
 * SYMC_PROC_LINE - 1 bytes, without the newline, until it returns false.  Needs
 * less than a page of stack.
 */
#define SYMC_PROC_LINE 512
void symc_proc_each_line(
    const char *path, bool (*take)(const char *line, void *arg), void *arg);

/* Fields of /proc/PID/stat. */
struct symc_proc_stat {
    char state; /* 'R', 'T', 'Z' ... */
    pid_t parent;
    pid_t group;    /* process group */
    uint64_t start; /* in clock ticks since boot; with the pid, an identity */
    int exit;       /* as of waitpid(), early in its end; 0 before */
};

/* False, with errno set, where the file cannot be read: ENOENT or ESRCH where the
 * process is gone, EBADMSG where it is not as described. */
bool symc_proc_stat_read(pid_t pid, struct symc_proc_stat *stat);

#endif
