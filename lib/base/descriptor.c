/* SPDX-License-Identifier: BSD-3-Clause */
/* Keeps the library's descriptors away from the numbers of standard streams. */
#include "base/descriptor.h"

int symc_descriptor_raise_all(int *fds, int count)
{
    int error = 0;

    for (int i = 0; i < count; i++) {
        fds[i] = symc_descriptor_raise(fds[i]);
        if (fds[i] < 0)
            error = errno;
    }
    for (int i = 0; error != 0 && i < count; i++) {
        if (fds[i] >= 0)
            close(fds[i]);
        fds[i] = -1;
    }
    return error;
}

void symc_descriptor_guard_begin(struct symc_descriptor_guard *guard)
{
    guard->count = 0;
    while (guard->count < SYMC_DESCRIPTOR_LEAST) {
        int fd = open("/", O_PATH | O_CLOEXEC);

        if (fd >= SYMC_DESCRIPTOR_LEAST)
            close(fd);
        if (fd < 0 || fd >= SYMC_DESCRIPTOR_LEAST)
            return;
        guard->fds[guard->count++] = fd;
    }
}

void symc_descriptor_guard_end(struct symc_descriptor_guard *guard)
{
    while (guard->count > 0)
        close(guard->fds[--guard->count]);
}
