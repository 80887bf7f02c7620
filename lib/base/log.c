/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Log lines on standard error, for events that no call can return, as in the
 * monitor thread.
 */
#include "base/base.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define LINE_MAX_NBYTES 1024

static const char *name_level(enum symc_log_level level)
{
    switch (level) {
    case SYMC_LOG_ERROR:
        return "error";
    case SYMC_LOG_WARN:
        return "warning";
    case SYMC_LOG_INFO:
        return "info";
    default:
        return "debug";
    }
}

/* Writes a line in one write(), so that lines of several ranks do not mix.  The
 * loop is for short writes, which happen only on a full pipe. */
static void write_line(const char *line, size_t nbytes)
{
    while (nbytes > 0) {
        ssize_t written = write(STDERR_FILENO, line, nbytes);

        if (written < 0 && errno == EINTR)
            continue;
        if (written <= 0)
            return; /* a failure cannot be reported */
        line += written;
        nbytes -= (size_t)written;
    }
}

void symc_logf(const struct symc_log *log, enum symc_log_level level,
    const char *format, ...)
{
    int saved = errno;
    char line[LINE_MAX_NBYTES];
    size_t room = sizeof(line) - 1; /* the newline has its own byte */
    size_t length;
    int head;
    int body;
    va_list args;

    if (level == SYMC_LOG_OFF || level > log->level)
        return;
    if (log->rank >= 0)
        head = snprintf(line, room, "symmcoll [rank %d]: %s: ", log->rank,
            name_level(level));
    else
        head = snprintf(line, room, "symmcoll: %s: ", name_level(level));
    va_start(args, format);
    body = vsnprintf(line + head, room - (size_t)head, format, args);
    va_end(args);
    length = (size_t)head + (body > 0 ? (size_t)body : 0);
    if (length >= room) {
        length = room - 1;
        memcpy(line + length - 3, "...", 3);
    }
    for (size_t i = (size_t)head; i < length; i++) {
        if (line[i] == '\n' || line[i] == '\r')
            line[i] = ' ';
    }
    line[length] = '\n';
    write_line(line, length + 1);
    errno = saved;
}
