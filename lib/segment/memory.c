/* SPDX-License-Identifier: BSD-3-Clause */
/* Creates, checks, maps and reserves sealed memfds. */
#include "segment/memory.h"

#include "base/descriptor.h"
#include "base/proc.h"
#include "segment/arena.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#define SEALS (F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL)

#define LITTLE ((size_t)1 << 20)

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif

#ifndef MFD_NOEXEC_SEAL
#define MFD_NOEXEC_SEAL 0x0008U
#endif

/* If AMPLE times as much is available as is needed, concurrent allocations of
 * other ranks cannot exhaust it. */
#define AMPLE 64

/* Formats a resource limit for a message. */
static const char *format_limit(int resource, char *buffer)
{
    struct rlimit limit;

    if (getrlimit(resource, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) {
        strcpy(buffer, "unlimited");
        return buffer;
    }
    return symc_format_bytes(limit.rlim_cur, buffer);
}

/* Returns the number that follows a name in a text, or 0 if it is not there. */
static size_t find_number(const char *text, const char *name)
{
    const char *at = strstr(text, name);

    return at != NULL ? strtoul(at + strlen(name), NULL, 10) : 0;
}

size_t symc_memory_huge_page(size_t *free_pages)
{
    char text[4096];

    symc_proc_read("/proc/meminfo", text, sizeof(text));
    if (free_pages != NULL)
        *free_pages = find_number(text, "\nHugePages_Free:");
    return find_number(text, "\nHugepagesize:") * 1024;
}

static symmcoll_status_t fail_no_memory(
    int error, const char *what, size_t nbytes, int resource, const char *name)
{
    char asked[32], available[32] = "an unknown amount", limit[32];
    bool group;
    size_t left = symc_memory_available(&group);

    if (left != SIZE_MAX)
        symc_format_bytes(left, available);
    return symc_fail_errno(SYMMCOLL_ERR_NO_MEMORY, error,
        "%s: %s requested, %s available %s, %s is %s", what,
        symc_format_bytes(nbytes, asked), available,
        group ? "in its control group" : "on this machine", name,
        format_limit(resource, limit));
}

symmcoll_status_t symc_memory_check_limit(const char *what, size_t nbytes)
{
    struct rlimit limit;
    char asked[32], allowed[32];

    if (getrlimit(RLIMIT_FSIZE, &limit) != 0 ||
        limit.rlim_cur == RLIM_INFINITY || nbytes <= limit.rlim_cur)
        return SYMMCOLL_OK;
    return symc_fail(SYMMCOLL_ERR_NO_MEMORY,
        "%s: %s of shared memory requested, RLIMIT_FSIZE is %s", what,
        symc_format_bytes(nbytes, asked),
        symc_format_bytes(limit.rlim_cur, allowed));
}

int symc_memory_memfd(const char *name, unsigned more)
{
    unsigned flags = MFD_CLOEXEC | MFD_ALLOW_SEALING | more;
    int fd = symc_descriptor_raise(memfd_create(name, flags | MFD_NOEXEC_SEAL));

    /* Linux before 6.3 does not have the flag. */
    return fd < 0 && errno == EINVAL
               ? symc_descriptor_raise(memfd_create(name, flags))
               : fd;
}

symmcoll_status_t symc_memory_create(
    const char *name, size_t nbytes, const char *what, int *fd)
{
    symmcoll_status_t status = symc_memory_check_limit(what, nbytes);
    int made;

    if (status != SYMMCOLL_OK)
        return status;
    made = symc_memory_memfd(name, 0);
    if (made < 0)
        return symc_fail_descriptor(errno, what);
    if (ftruncate(made, (off_t)nbytes) != 0)
        status =
            fail_no_memory(errno, what, nbytes, RLIMIT_FSIZE, "RLIMIT_FSIZE");
    else if (fcntl(made, F_ADD_SEALS, SEALS) != 0)
        status = symc_fail_errno(SYMMCOLL_ERR_SYSTEM, errno, "%s: seals", what);
    if (status != SYMMCOLL_OK) {
        close(made);
        return status;
    }
    *fd = made;
    return SYMMCOLL_OK;
}

symmcoll_status_t symc_memory_check(
    int fd, size_t nbytes, const char *what, int rank)
{
    int seals = fcntl(fd, F_GET_SEALS);
    struct stat found;

    if (seals < 0 || (seals & SEALS) != SEALS)
        return symc_fail(SYMMCOLL_ERR_INVALID,
            "%s: rank %d: expected a sealed memfd, found seals %d", what, rank,
            seals);
    if (fstat(fd, &found) != 0 || (size_t)found.st_size != nbytes)
        return symc_fail(SYMMCOLL_ERR_INVALID,
            "%s: rank %d: expected %zu bytes, found %lld", what, rank, nbytes,
            (long long)found.st_size);
    return SYMMCOLL_OK;
}

symmcoll_status_t symc_memory_map_part(
    int fd, uint64_t offset, size_t nbytes, const char *what, void **at)
{
    /* Under mlockall(MCL_FUTURE) an accessible mapping is backed at once, to
     * its end. */
    void *made = mmap(NULL, nbytes, PROT_NONE, MAP_SHARED, fd, (off_t)offset);

    if (made == MAP_FAILED)
        return fail_no_memory(errno, what, nbytes, RLIMIT_AS, "RLIMIT_AS");
    if (mprotect(made, nbytes, PROT_READ | PROT_WRITE) != 0) {
        int error = errno;

        munmap(made, nbytes);
        return fail_no_memory(error, what, nbytes, RLIMIT_AS, "RLIMIT_AS");
    }
    /* A forked child has no monitor thread and must not use the memory. */
    madvise(made, nbytes, MADV_DONTFORK);
    *at = made;
    return SYMMCOLL_OK;
}

symmcoll_status_t symc_memory_map(
    int fd, size_t nbytes, const char *what, void **at)
{
    return symc_memory_map_part(fd, 0, nbytes, what, at);
}

/* Returns whether fallocate() is denied by a system call filter or by the file
 * system, which does not imply a lack of memory. */
static bool is_denied(int error)
{
    return error == EPERM || error == EACCES || error == ENOSYS ||
           error == EOPNOTSUPP;
}

/* Backs a part of a file by touching its pages; their contents remain.  Returns
 * 0 or an errno. */
static int touch(int fd, uint64_t offset, size_t nbytes)
{
    size_t page = symc_memory_page(fd);
    uint64_t begin = offset - offset % page;
    size_t length = (size_t)(offset - begin) + nbytes;
    char *at = mmap(
        NULL, length, PROT_READ | PROT_WRITE, MAP_SHARED, fd, (off_t)begin);
    int error = 0;

    if (at == MAP_FAILED)
        return errno;
    if (madvise(at, length, MADV_POPULATE_WRITE) != 0)
        error = errno;
    /* Linux before 5.14 does not have MADV_POPULATE_WRITE. */
    if (error == EINVAL || is_denied(error)) {
        for (size_t i = 0; i < length; i += page)
            (void)__atomic_fetch_or(at + i, 0, __ATOMIC_RELAXED);
        error = 0;
    }
    munmap(at, length);
    return error;
}

/* Backs a part of a file, with fallocate() if that is permitted.  Returns 0
 * or an errno. */
static int allocate(int fd, uint64_t offset, size_t nbytes)
{
    int error;

    do {
        error = fallocate(fd, 0, (off_t)offset, (off_t)nbytes) == 0 ? 0 : errno;
    } while (error == EINTR);
    return is_denied(error) ? touch(fd, offset, nbytes) : error;
}

/* Backs a part of a file, of which `missing` bytes are not backed yet.  The
 * file is long enough. */
static symmcoll_status_t back(
    int fd, uint64_t offset, size_t nbytes, size_t missing, const char *what)
{
    size_t available = SIZE_MAX;
    bool group = false;
    int error, lock = -1;

    /* Without this check the kernel would fill the machine page by page and
     * fail at the end, at the cost of other processes; in a control group it
     * would kill one of its processes.  Small requests are frequent, and
     * reading the available memory would take longer than they do. */
    if (missing >= LITTLE)
        available = symc_memory_available(&group);
    /* Without the lock, ranks that check at the same time would all count the
     * same free memory. */
    if (group && missing <= available && missing > available / AMPLE) {
        lock = symc_memory_lock();
        available = symc_memory_available(&group);
    }
    error = missing > available ? ENOMEM : allocate(fd, offset, nbytes);
    if (lock >= 0) {
        (void)flock(lock, LOCK_UN); /* a forked child may also have the
                                       descriptor */
        close(lock);
    }
    if (missing > available)
        return fail_no_memory(
            error, what, missing, RLIMIT_FSIZE, "RLIMIT_FSIZE");
    if (error != 0)
        return fail_no_memory(
            error, what, nbytes, RLIMIT_FSIZE, "RLIMIT_FSIZE");
    return SYMMCOLL_OK;
}

symmcoll_status_t symc_memory_reserve(
    int fd, size_t offset, size_t nbytes, const char *what)
{
    symmcoll_status_t status = symc_memory_check_limit(what, offset + nbytes);

    if (status != SYMMCOLL_OK || nbytes == 0)
        return status;
    return back(fd, offset, nbytes, nbytes, what);
}

symmcoll_status_t symc_memory_complete(
    int fd, uint64_t offset, size_t nbytes, const char *what)
{
    struct stat found;
    size_t there = 0;

    /* Parts outside these bytes count as well: if that makes `missing` too
     * small, the kernel detects the lack. */
    if (fstat(fd, &found) == 0 && found.st_blocks > 0)
        there = (size_t)found.st_blocks * 512;
    return back(fd, offset, nbytes, nbytes > there ? nbytes - there : 0, what);
}

size_t symc_memory_page(int fd)
{
    struct statfs found;

    /* On tmpfs, st_blksize may be the size of huge pages that the file could
     * have. */
    if (fstatfs(fd, &found) == 0 && found.f_type == HUGETLBFS_MAGIC &&
        found.f_bsize > 0)
        return (size_t)found.f_bsize;
    return (size_t)sysconf(_SC_PAGESIZE);
}

void symc_memory_populate(void *part, size_t nbytes)
{
    madvise(part, symc_round_to_page(nbytes), MADV_POPULATE_WRITE);
}
