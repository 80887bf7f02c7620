/* SPDX-License-Identifier: BSD-3-Clause */
/* Stores in files, and those files. */
#ifndef T_STORE_FILE_UTIL_H
#define T_STORE_FILE_UTIL_H

#include "t/store/helpers.h"
#include "t/tap.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

static inline struct symmcoll_store *open_or_null(
    const char *path, int num_workers)
{
    struct symmcoll_store *store = NULL;

    if (symmcoll_store_open_file(path, num_workers, &store) != SYMMCOLL_OK) {
        diag("%s", symmcoll_last_error());
        return NULL;
    }
    return store;
}

/* Checks that opening is refused with INVALID and this text. */
static inline int refuses(const char *path, int num_workers, const char *text)
{
    struct symmcoll_store *store = NULL;
    symmcoll_status_t status =
        symmcoll_store_open_file(path, num_workers, &store);
    int good = failed_with(status, SYMMCOLL_ERR_INVALID, text);

    if (!good)
        diag("status %d: %s", (int)status, symmcoll_last_error());
    symmcoll_store_close(store);
    return good;
}

static inline int is_there(const char *path)
{
    return access(path, F_OK) == 0;
}

static inline long size_of(const char *path)
{
    struct stat info;

    return stat(path, &info) == 0 ? (long)info.st_size : -1;
}

static inline int write_bytes(
    const char *path, long offset, const void *bytes, size_t nbytes)
{
    int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    int good = fd >= 0 && pwrite(fd, bytes, nbytes, offset) == (ssize_t)nbytes;

    if (fd >= 0)
        close(fd);
    return good;
}

#endif
