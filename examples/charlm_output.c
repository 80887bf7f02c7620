/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Files written at the end but opened before the training, so that a bad path
 * is an error at once.
 */
#include "charlm.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

int charlm_open_output(
    const char *path, struct charlm_output *output, char *error)
{
    const int flags = O_WRONLY | O_CLOEXEC;

    output->path = path;
    output->fd = open(path, flags | O_CREAT | O_EXCL, 0666);
    output->made = output->fd >= 0;
    if (output->fd < 0 && errno == EEXIST)
        output->fd = open(path, flags);
    if (output->fd < 0)
        return charlm_fail(error, "cannot write %s: %s", path, strerror(errno));
    return 0;
}

int charlm_write_output(const struct charlm_output *output, const void *data,
    size_t nbytes, char *error)
{
    const char *bytes = data;

    while (nbytes > 0) {
        ssize_t n = write(output->fd, bytes, nbytes);

        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return charlm_fail(
                error, "cannot write %s: %s", output->path, strerror(errno));
        bytes += n;
        nbytes -= (size_t)n;
    }
    return 0;
}

int charlm_truncate_output(const struct charlm_output *output, char *error)
{
    struct stat st;

    /* Only regular files have a length; /dev/stdout may not be one. */
    if (fstat(output->fd, &st) == 0 && S_ISREG(st.st_mode) &&
        ftruncate(output->fd, 0) != 0)
        return charlm_fail(
            error, "cannot cut %s: %s", output->path, strerror(errno));
    return 0;
}

void charlm_close_output(struct charlm_output *output)
{
    struct stat st;

    if (output->fd < 0)
        return;
    /* Removes a file that was created by this run and not written. */
    if (output->made && fstat(output->fd, &st) == 0 && st.st_size == 0)
        unlink(output->path);
    close(output->fd);
    output->fd = -1;
}
