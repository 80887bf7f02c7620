/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A file that appears complete or not at all: it is written under a temporary
 * name in the same folder and renamed at the end.
 */
#ifndef SYMC_TRACE_OUT_H
#define SYMC_TRACE_OUT_H

#include "trace/trace.h"

#include <limits.h>
#include <signal.h>

struct symc_trace_out {
    const char *path;
    const char *name; /* last component of path */
    int folder;       /* the folder of that name */
    int fd;
    int error; /* the first errno; 0: none */
    size_t used;
    bool limit_was_blocked; /* SIGXFSZ was blocked before */
    bool limit_was_pending;
    sigset_t mask;                /* the thread's earlier signal mask */
    char temporary[NAME_MAX + 1]; /* name until the rename */
    char buffer[8192];
};

/* Opens a temporary file for path. Errors: INVALID (path exists and is not a
 * regular file, or an untrusted user could redirect it, see
 * symc_folder_open()), SYSTEM. */
symmcoll_status_t symc_trace_out_open(
    struct symc_trace_out *out, const char *path);

/* Renames the file into place, or removes it on failure. Errors: SYSTEM. */
symmcoll_status_t symc_trace_out_close(struct symc_trace_out *out);

/* Formats the name of this process's temporary file number `number` for name.
 * Returns false if it does not fit. */
bool symc_trace_temporary_name(
    const char *name, int number, char *buffer, size_t nbytes);

/* Removes temporary files of this user from a folder if their writers have
 * ended. */
void symc_trace_remove_leftovers(int folder);

/* Records an error of the caller; the first error is kept. */
void symc_trace_out_fail(struct symc_trace_out *out, int error);

/* Writes up to sizeof(buffer) bytes. An error is kept until
 * symc_trace_out_close(). */
void symc_trace_out_put(
    struct symc_trace_out *out, const void *data, size_t nbytes);

/* Writes formatted text, up to 511 bytes. */
void symc_trace_out_format(struct symc_trace_out *out, const char *format, ...)
    SYMC_PRINTF(2, 3);

#endif
