/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Descriptors of the library are 3 or above.  A process may run with standard input,
 * output or error closed; the next descriptor then has that number, and a program that
 * prints would write to a socket or to shared memory of the library.
 */
#ifndef SYMC_BASE_DESCRIPTOR_H
#define SYMC_BASE_DESCRIPTOR_H

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#define SYMC_DESCRIPTOR_LEAST 3

/*
 * Returns a descriptor that was just opened, or, if it is below 3, a copy of it that is
 * not, and closes it; the copy is closed at exec, as all are.  Every call that opens one
 * is the argument of a call of this function.  -1 stays -1, with errno, and is returned
 * where no descriptor is free.
 */
static inline int symc_descriptor_raise(int fd)
{
    int raised, error;

    if (fd < 0 || fd >= SYMC_DESCRIPTOR_LEAST)
        return fd;
    raised = fcntl(fd, F_DUPFD_CLOEXEC, SYMC_DESCRIPTOR_LEAST);
    /* The limit on descriptors, as a call that opens one says it. */
    error = errno == EINVAL ? EMFILE : errno;
    close(fd);
    if (raised < 0)
        errno = error;
    return raised;
}

/* Likewise for several, of which all are open.  Returns 0, or an errno; then all are
 * closed. */
int symc_descriptor_raise_all(int *fds, int count);

/* Opens a file for reading; NULL with errno. */
static inline FILE *symc_descriptor_read_file(const char *path)
{
    int fd = symc_descriptor_raise(open(path, O_RDONLY | O_CLOEXEC));
    FILE *file = fd >= 0 ? fdopen(fd, "r") : NULL;
    int error = errno;

    if (file == NULL && fd >= 0)
        close(fd);
    errno = error;
    return file;
}

/*
 * Keeps the numbers below 3 that are free in use, by descriptors that can neither be
 * read nor written, while a function of another library opens what the library cannot
 * raise.  Not for long: the program may want to open its standard streams.
 */
struct symc_descriptor_guard {
    int fds[SYMC_DESCRIPTOR_LEAST];
    int count;
};
void symc_descriptor_guard_begin(struct symc_descriptor_guard *guard);
void symc_descriptor_guard_end(struct symc_descriptor_guard *guard);

#endif
