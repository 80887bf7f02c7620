/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * One access to the file of a file store: opening, locking, reading new
 * records.
 */
#include "base/descriptor.h"
#include "store/file.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/file.h>
#include <time.h>
#include <unistd.h>

#define LOCK_POLL_NS 1000000
/* A lock is held for microseconds unless its holder is stopped.  A call that
 * must not wait for a key still waits this long for the lock. */
#define LOCK_WAIT_MIN_NS (5 * SYMC_NS_PER_S)

/* Over NFS a file that another machine has just created may appear late. */
#define APPEAR_WAIT_NS (2 * SYMC_NS_PER_S)
#define APPEAR_POLL_NS 10000000

symmcoll_status_t symc_file_lock(
    const char *path, int fd, bool exclusive, int64_t deadline_ns)
{
    const struct timespec pause = {.tv_nsec = LOCK_POLL_NS};
    int64_t at_least = symc_now_ns() + LOCK_WAIT_MIN_NS;

    if (deadline_ns < at_least)
        deadline_ns = at_least;
    while (flock(fd, (exclusive ? LOCK_EX : LOCK_SH) | LOCK_NB) != 0) {
        if (errno != EWOULDBLOCK && errno != EINTR)
            return symc_fail_errno(
                SYMMCOLL_ERR_SYSTEM, errno, "file store: locking %s", path);
        if (symc_now_ns() >= deadline_ns)
            return symc_fail(SYMMCOLL_ERR_TIMEOUT,
                "file store: timeout: another process has %s locked", path);
        nanosleep(&pause, NULL);
    }
    return SYMMCOLL_OK;
}

/* Returns O_NOFOLLOW in a privileged process, where another user could have put
 * a link in the file's place; otherwise 0. */
static int no_links(void)
{
    return symc_process_is_privileged() ? O_NOFOLLOW : 0;
}

int symc_file_open(const char *path, int flags, int64_t deadline_ns)
{
    const struct timespec pause = {.tv_nsec = APPEAR_POLL_NS};
    int64_t at_most = symc_now_ns() + APPEAR_WAIT_NS;
    int fd =
        symc_descriptor_raise(open(path, flags | O_CLOEXEC | no_links(), 0600));

    if (deadline_ns > at_most)
        deadline_ns = at_most;
    while (fd < 0 && errno == ENOENT && symc_now_ns() < deadline_ns) {
        nanosleep(&pause, NULL);
        fd = symc_descriptor_raise(
            open(path, flags | O_CLOEXEC | no_links(), 0600));
    }
    return fd;
}

symmcoll_status_t symc_file_begin(
    struct symc_file *file, bool exclusive, int64_t deadline_ns, int *fd)
{
    symmcoll_status_t status;

    *fd = symc_file_open(file->path, O_RDWR, deadline_ns);
    if (*fd < 0)
        return symc_fail_errno(SYMMCOLL_ERR_SYSTEM, errno,
            "file store: %s, which existed when it was opened", file->path);
    status = symc_file_lock(file->path, *fd, exclusive, deadline_ns);
    if (status == SYMMCOLL_OK)
        status = symc_journal_read(&file->journal, *fd);
    if (status != SYMMCOLL_OK)
        close(*fd);
    return status;
}

void symc_file_end(int fd)
{
    /* Closing releases the lock. */
    close(fd);
}
