/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * File descriptors of the library are 3 or above.  A process may run with
 * standard input, output or error closed; the next descriptor then gets that
 * number, and a program that prints would write to the library's socket or
 * shared memory.
 */
#ifndef SYMC_BASE_DESCRIPTOR_H
#define SYMC_BASE_DESCRIPTOR_H

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#define SYMC_DESCRIPTOR_LEAST 3

/*
 * Moves a newly opened descriptor to 3 or above, if it is below: returns a copy
 * of it and closes the original.  The copy is close-on-exec.  Every call that
 * opens a descriptor is the argument of a call of this function.  Returns -1
 * for -1, with errno unchanged, and if no descriptor is free.
 */
static inline int symc_descriptor_raise(int fd)
{
    int raised, error;

    if (fd < 0 || fd >= SYMC_DESCRIPTOR_LEAST)
        return fd;
    raised = fcntl(fd, F_DUPFD_CLOEXEC, SYMC_DESCRIPTOR_LEAST);
    /* The error of an open() call at the limit on descriptors. */
    error = errno == EINVAL ? EMFILE : errno;
    close(fd);
    if (raised < 0)
        errno = error;
    return raised;
}

/* As symc_descriptor_raise(), for several open descriptors.  Returns 0, or an
 * errno after closing all of them. */
int symc_descriptor_raise_all(int *fds, int count);

/* Opens a file for reading.  Returns NULL with errno set on failure. */
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
 * Occupies the free descriptors below 3 with descriptors that cannot be read or
 * written, while a function of another library opens one that cannot be raised.
 * Use it only briefly: the program may want to open its standard streams.
 */
struct symc_descriptor_guard {
    int fds[SYMC_DESCRIPTOR_LEAST];
    int count;
};
void symc_descriptor_guard_begin(struct symc_descriptor_guard *guard);
void symc_descriptor_guard_end(struct symc_descriptor_guard *guard);

#endif
