/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Reading files of /proc.
 */
#ifndef SYMC_BASE_PROC_H
#define SYMC_BASE_PROC_H

#include "base/base.h"

#include <sys/types.h>

/*
 * Reads a file of /proc as text, as much as fits with a terminating zero.
 * Returns the bytes read, or 0 with errno set and an empty text.
 *
 * It never blocks, even if another thread of the program closes the descriptor
 * and opens a pipe or a socket with its number.
 */
size_t symc_proc_read(const char *path, char *text, size_t nbytes);

/*
 * Calls take() with each line of such a file, without the newline and cut to
 * SYMC_PROC_LINE - 1 bytes, until it returns false.  Needs less than a page of
 * stack.
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
    int exit;       /* as from waitpid(), set early in its exit; 0 before */
    bool exiting;   /* its exit has begun */
};

/* Reads the fields.  Returns false with errno set on failure: ENOENT or ESRCH
 * if the process does not exist, EBADMSG if the format is unknown. */
bool symc_proc_stat_read(pid_t pid, struct symc_proc_stat *stat);

#endif
