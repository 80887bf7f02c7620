/* SPDX-License-Identifier: BSD-3-Clause */
/* Files in memory, each with its device in its name. */
#include "t/cuda/fake/physical.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

int fake_make_file(int device, size_t nbytes)
{
    char name[32];
    int fd;

    (void)snprintf(name, sizeof(name), "fake-cuda:%d:", device);
    fd = memfd_create(name, MFD_CLOEXEC);
    if (fd >= 0 && ftruncate(fd, (off_t)nbytes) == 0)
        return fd;
    if (fd >= 0)
        (void)close(fd);
    return -1;
}

bool fake_read_file(int fd, int *device, size_t *nbytes)
{
    char path[64], name[64];
    struct stat info;
    ssize_t length;

    (void)snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
    length = readlink(path, name, sizeof(name) - 1);
    if (length < 0 || fstat(fd, &info) != 0)
        return false;
    name[length] = '\0';
    *nbytes = (size_t)info.st_size;
    return sscanf(name, "/memfd:fake-cuda:%d:", device) == 1;
}
