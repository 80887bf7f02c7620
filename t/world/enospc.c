/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A machine that is full, for limits.c, which is linked with this fallocate()
 * in place of the C library's: it fails with ENOSPC for what reaches beyond
 * ENOSPC_ABOVE bytes of a file, where that is set.
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
/* Its name where a library's flags ask for large offsets, as hiredis's do. */
int fallocate64(int fd, int mode, off64_t offset, off64_t nbytes)
    __attribute__((alias("fallocate")));
#endif
