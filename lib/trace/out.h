/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A file that appears complete or not at all: it is written as a temporary file
 * in the same folder, which is renamed at the end.
 */
#ifndef SYMC_TRACE_OUT_H
#define SYMC_TRACE_OUT_H

#include "trace/trace.h"

#include <limits.h>
#include <signal.h>

struct symc_trace_out {
    const char *path;
    const char *name; /* within path */
    int folder;       /* that has it */
    int fd;
    int error; /* the first errno; 0: none */
    size_t used;
    bool limit_was_blocked; /* SIGXFSZ, before */
    bool limit_was_pending;
    sigset_t mask;                /* of signals, before */
    char temporary[NAME_MAX + 1]; /* the name until then */
    char buffer[8192];
};

/* Errors: INVALID (path is not a regular file; others could choose where it
 * leads, see symc_folder_open()), SYSTEM. */
symmcoll_status_t symc_trace_out_open(
    struct symc_trace_out *out, const char *path);

/* Put the file in place, or remove it and say why.  Errors: SYSTEM. */
symmcoll_status_t symc_trace_out_close(struct symc_trace_out *out);

/* The name of a temporary file of this process beside name; false where it does
 * not fit. */
bool symc_trace_temporary_name(
    const char *name, int number, char *buffer, size_t nbytes);

/* Remove the temporary files in a folder whose writers, processes of the same
 * user, are dead. */
void symc_trace_remove_leftovers(int folder);

/* Note a failure of the writer's own; the first one counts. */
void symc_trace_out_fail(struct symc_trace_out *out, int error);

/* Bytes, fewer than the buffer has.  A failure is kept until
 * symc_trace_out_close(). */
void symc_trace_out_put(
    struct symc_trace_out *out, const void *data, size_t nbytes);

/* The same with text. */
void symc_trace_out_format(struct symc_trace_out *out, const char *format, ...)
    SYMC_PRINTF(2, 3);

#endif
