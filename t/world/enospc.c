/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A machine without free memory, for limits.c, which is linked with this
 * fallocate() instead of the C library's: it fails with ENOSPC beyond
 * ENOSPC_ABOVE bytes of a file, if that is set.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

int fallocate(int fd, int mode, off_t offset, off_t nbytes)
{
    const char *text = getenv("ENOSPC_ABOVE");

    if (text != NULL && offset + nbytes > strtoll(text, NULL, 10)) {
        errno = ENOSPC;
        return -1;
    }
    return (int)syscall(SYS_fallocate, fd, mode, offset, nbytes);
}

#ifndef __USE_FILE_OFFSET64
/* The name of the function if a library's flags select large offsets, as
 * hiredis's do. */
int fallocate64(int fd, int mode, off64_t offset, off64_t nbytes)
    __attribute__((alias("fallocate")));
#endif
