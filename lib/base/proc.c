/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Reads files of /proc with pread(), which fails on pipes, sockets and
 * terminals.  A program that closes all descriptors, as daemons do, while this
 * runs in another thread may open one of those with the same number, and a
 * read() would block for ever.
 */
#include "base/proc.h"
#include "base/descriptor.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define PF_EXITING 0x4u /* of the kernel's flags of a task */

static size_t read_all(int fd, char *text, size_t nbytes)
{
    size_t used = 0;
    ssize_t got;

    do {
        got = pread(fd, text + used, nbytes - 1 - used, (off_t)used);
        used += got > 0 ? (size_t)got : 0;
    } while (used < nbytes - 1 && (got > 0 || (got < 0 && errno == EINTR)));
    return used;
}

size_t symc_proc_read(const char *path, char *text, size_t nbytes)
{
    int fd =
        symc_descriptor_raise(open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK));
    size_t used = 0;
    int error;

    if (fd >= 0) {
        errno = 0;
        used = read_all(fd, text, nbytes);
        error = errno;
        close(fd);
        errno = error;
    }
    text[used] = '\0';
    return used;
}

void symc_proc_each_line(
    const char *path, bool (*take)(const char *line, void *arg), void *arg)
{
    char line[SYMC_PROC_LINE];
    int fd =
        symc_descriptor_raise(open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK));
    size_t used = 0, length, taken;
    off_t at = 0;
    bool rest = false; /* in a line whose first bytes have been passed on */
    ssize_t got;

    while (fd >= 0) {
        const char *newline;

        do
            got = pread(fd, line + used, sizeof(line) - 1 - used, at);
        while (got < 0 && errno == EINTR);
        used += got > 0 ? (size_t)got : 0;
        at += got > 0 ? got : 0;
        if (used == 0)
            break;
        newline = memchr(line, '\n', used);
        length = newline != NULL ? (size_t)(newline - line) : used;
        taken = newline != NULL ? length + 1 : length;
        line[length] = '\0';
        if (!rest && !take(line, arg))
            break;
        rest = newline == NULL;
        used -= taken;
        memmove(line, line + taken, used);
    }
    if (fd >= 0)
        close(fd);
}

bool symc_proc_stat_read(pid_t pid, struct symc_proc_stat *stat)
{
    char path[32], text[1024];
    const char *rest, *last;
    unsigned int flags;

    snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
    errno = ESRCH;
    if (pid <= 0 || symc_proc_read(path, text, sizeof(text)) == 0)
        return false;
    /* The fields after the name, which may contain any character. */
    rest = strrchr(text, ')');
    last = strrchr(text, ' ');
    if (rest != NULL && last > rest &&
        sscanf(rest,
            ") %c %d %d %*s %*s %*s %u %*s %*s %*s %*s %*s %*s %*s %*s "
            "%*s %*s %*s %*s %" SCNu64,
            &stat->state, &stat->parent, &stat->group, &flags,
            &stat->start) == 5 &&
        sscanf(last, " %d", &stat->exit) == 1) {
        stat->exiting = (flags & PF_EXITING) != 0;
        return true;
    }
    errno = EBADMSG;
    return false;
}
