/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Tests the pages of symmetric memory: memory that already exists, huge pages,
 * and limits on files. The linker makes the library read /proc files through
 * the wrapper here, which sets the available memory.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "base/proc.h"
#include "segment/memory.h"
#include "symm_mem/backing.h"
#include "t/symm_mem/symm.h"

#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#define MIB ((size_t)1 << 20)

size_t __real_symc_proc_read(const char *path, char *text, size_t nbytes);
size_t __wrap_symc_proc_read(const char *path, char *text, size_t nbytes);
void __real_symc_proc_each_line(
    const char *path, bool (*take)(const char *line, void *arg), void *arg);
void __wrap_symc_proc_each_line(
    const char *path, bool (*take)(const char *line, void *arg), void *arg);

/* A file and its simulated contents. */
struct file {
    const char *path, *text;
};

/* A machine with 4 MiB available. */
static const struct file poor[] = {
    {"/proc/meminfo", "MemTotal: 9 kB\nMemAvailable: 4096 kB\n"},
    {"/proc/self/cgroup", ""},
    {NULL, NULL},
};

/* A control group with 10 MiB of 64 MiB left, and 3 more in a cache of files;
 * its parent has more. Version 2, and version 1. */
static const struct file groups_2[] = {
    {"/proc/meminfo", "MemTotal: 9 kB\nMemAvailable: 99999999 kB\n"},
    {"/proc/self/cgroup", "1:name=systemd:/\n0::/jobs/one\n"},
    {"/sys/fs/cgroup/jobs/one/memory.max", "67108864\n"},
    {"/sys/fs/cgroup/jobs/one/memory.current", "56623104\n"},
    {"/sys/fs/cgroup/jobs/one/memory.stat",
        "anon 5\ninactive_file 2097152\nactive_file 1048576\n"},
    {"/sys/fs/cgroup/jobs/memory.max", "104857600\n"},
    {"/sys/fs/cgroup/jobs/memory.current", "56623104\n"},
    {"/sys/fs/cgroup/jobs/memory.stat", "anon 5\n"},
    {"/sys/fs/cgroup/memory.max", "max\n"},
    {NULL, NULL},
};
static const struct file groups_1[] = {
    {"/proc/meminfo", "MemTotal: 9 kB\nMemAvailable: 99999999 kB\n"},
    {"/proc/self/cgroup", "4:cpu:/x\n3:memory:/jobs\n0::/\n"},
    {"/sys/fs/cgroup/memory/jobs/memory.limit_in_bytes",
        "9223372036854771712\n"},
    {"/sys/fs/cgroup/memory/memory.limit_in_bytes", "67108864\n"},
    {"/sys/fs/cgroup/memory/memory.usage_in_bytes", "56623104\n"},
    {"/sys/fs/cgroup/memory/memory.stat",
        "total_inactive_file 2097152\ntotal_active_file 1048576\n"},
    {NULL, NULL},
};

static const struct file groups_together[] = {
    {"/proc/meminfo", "MemTotal: 9 kB\nMemAvailable: 99999999 kB\n"},
    {"/proc/self/cgroup", "5:name=memory:/y\n3:hugetlb,memory,cpu:/jobs\n"},
    {"/sys/fs/cgroup/memory/jobs/memory.limit_in_bytes", "67108864\n"},
    {"/sys/fs/cgroup/memory/jobs/memory.usage_in_bytes", "53477376\n"},
    {NULL, NULL},
};

/* A control group without memory left; and a machine without information. */
static const struct file full[] = {
    {"/proc/meminfo", "MemTotal: 9 kB\nMemAvailable: 99999999 kB\n"},
    {"/proc/self/cgroup", "0::/jobs\n"},
    {"/sys/fs/cgroup/jobs/memory.max", "67108864\n"},
    {"/sys/fs/cgroup/jobs/memory.current", "67108864\n"},
    {NULL, NULL},
};
static const struct file unknown[] = {{NULL, NULL}};

static const struct file *_Atomic said; /* NULL: the machine's own files */

/* Returns the simulated text of a file; NULL: the file itself is read. */
static const char *find_text(const char *path)
{
    const struct file *file = atomic_load(&said);

    if (file == NULL || (strncmp(path, "/sys/fs/cgroup", 14) != 0 &&
                            strcmp(path, "/proc/meminfo") != 0 &&
                            strcmp(path, "/proc/self/cgroup") != 0))
        return NULL;
    while (file->path != NULL && strcmp(path, file->path) != 0)
        file++;
    return file->path != NULL ? file->text : "";
}

size_t __wrap_symc_proc_read(const char *path, char *text, size_t nbytes)
{
    const char *found = find_text(path);

    return found != NULL ? (size_t)snprintf(text, nbytes, "%s", found)
                         : __real_symc_proc_read(path, text, nbytes);
}

void __wrap_symc_proc_each_line(
    const char *path, bool (*take)(const char *line, void *arg), void *arg)
{
    const char *found = find_text(path);
    char line[SYMC_PROC_LINE];

    if (found == NULL) {
        __real_symc_proc_each_line(path, take, arg);
        return;
    }
    for (size_t length; *found != '\0'; found += length + 1) {
        length = strcspn(found, "\n"); /* each line has a value */
        memcpy(line, found, length);
        line[length] = '\0';
        if (!take(line, arg))
            return;
    }
}

/* Returns a memfd of nbytes bytes, `backed` of which have pages. */
static int make_memfd(size_t nbytes, size_t backed)
{
    int fd = memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING);

    if (fd >= 0 && ftruncate(fd, (off_t)nbytes) == 0 &&
        (backed == 0 || fallocate(fd, 0, 0, (off_t)backed) == 0) &&
        fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK) == 0)
        return fd;
    diag("no memfd");
    return -1;
}

/* Imports 16 MiB with all pages, none, and all but 3 MiB, while 4 MiB are
 * available. */
static int what_is_there_needs_no_memory(struct symmcoll_group *group, int rank)
{
    struct symmcoll_world *world = symmcoll_group_world(group);
    int whole = make_memfd(16 * MIB, 16 * MIB), none = make_memfd(16 * MIB, 0);
    int most = make_memfd(16 * MIB, 13 * MIB);
    struct symmcoll_symm *handle;
    char *data = NULL, *rest = NULL, *nothing = NULL;
    bool right;

    atomic_store(&said, poor);
    right = OK(symmcoll_symm_import(
                world, whole, 0, 16 * MIB, NULL, (void **)&data)) &&
            OK(symmcoll_symm_import(
                world, most, 0, 16 * MIB, NULL, (void **)&rest)) &&
            groups_said(rank,
                symmcoll_symm_import(
                    world, none, 0, 16 * MIB, NULL, (void **)&nothing),
                SYMMCOLL_ERR_NO_MEMORY, "4 MiB available") &&
            HOLDS(nothing == NULL) &&
            groups_said(rank,
                symmcoll_symm_alloc(world, 16 * MIB, NULL, (void **)&nothing),
                SYMMCOLL_ERR_NO_MEMORY, "4 MiB available") &&
            OK(symmcoll_symm_rendezvous(group, data, NULL, &handle)) &&
            OK(symmcoll_symm_barrier(handle, 0, -1));
    if (right)
        rest[16 * MIB - 1] = data[16 * MIB - 1] = 'x';
    close(whole);
    close(none);
    close(most);
    return right && OK(symmcoll_symm_free(world, rest)) &&
           part(group, data, handle);
}

/* Checks that 13 MiB are available. */
static bool is_limited(const struct file *files)
{
    bool group = false;
    size_t nbytes;

    atomic_store(&said, files);
    nbytes = symc_memory_available(&group);
    atomic_store(&said, NULL);
    if (nbytes != 13 * MIB)
        diag("%zu bytes are available", nbytes);
    return nbytes == 13 * MIB && group;
}

static int a_group_is_an_error(struct symmcoll_group *group, int rank)
{
    struct symmcoll_world *world = symmcoll_group_world(group);
    void *data = NULL, *some = NULL;
    bool right;

    atomic_store(&said, groups_2);
    right =
        groups_said(rank, symmcoll_symm_alloc(world, 16 * MIB, NULL, &data),
            SYMMCOLL_ERR_NO_MEMORY, "13 MiB available in its control group") &&
        HOLDS(data == NULL) &&
        OK(symmcoll_symm_alloc(world, 12 * MIB, NULL, &some));
    atomic_store(&said, NULL);
    return right && OK(symmcoll_symm_free(world, some));
}

/* Checks that no memory left differs from no information. */
static int a_full_group_is_an_error(struct symmcoll_group *group, int rank)
{
    struct symmcoll_world *world = symmcoll_group_world(group);
    void *data = NULL, *some = NULL;
    bool right;

    atomic_store(&said, full);
    right = groups_said(rank, symmcoll_symm_alloc(world, 16 * MIB, NULL, &data),
                SYMMCOLL_ERR_NO_MEMORY, "0 B available in its control group") &&
            HOLDS(data == NULL);
    atomic_store(&said, unknown);
    right = right && OK(symmcoll_symm_alloc(world, 16 * MIB, NULL, &some));
    atomic_store(&said, NULL);
    return right && OK(symmcoll_symm_free(world, some));
}

static int what_cannot_be_written_is_refused(
    struct symmcoll_group *group, int rank)
{
    int fd = make_memfd(MIB, MIB);
    void *data = NULL;
    bool right = HOLDS(fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE) == 0) &&
                 groups_said(rank,
                     symmcoll_symm_import(
                         symmcoll_group_world(group), fd, 0, MIB, NULL, &data),
                     SYMMCOLL_ERR_INVALID, "F_SEAL_WRITE");

    close(fd);
    return right && HOLDS(data == NULL);
}

/* Checks that the limit is an error and not SIGXFSZ, also with huge pages. */
static int a_limit_on_files_is_an_error(struct symmcoll_group *group, int rank)
{
    struct rlimit limit = {0};
    void *data = NULL;

    limit.rlim_cur = MIB;
    limit.rlim_max = RLIM_INFINITY;
    return HOLDS(getrlimit(RLIMIT_FSIZE, &limit) == 0) &&
           (limit.rlim_cur = MIB, true) &&
           HOLDS(setrlimit(RLIMIT_FSIZE, &limit) == 0) &&
           groups_said(rank,
               symmcoll_symm_alloc(
                   symmcoll_group_world(group), 64 * MIB, NULL, &data),
               SYMMCOLL_ERR_NO_MEMORY, "RLIMIT_FSIZE is 1 MiB") &&
           HOLDS(data == NULL);
}

static int sizes_are_rounded_up(void)
{
    size_t rounded = 0;

    return symc_backing_round(1, 4096, &rounded) && rounded == 4096 &&
           symc_backing_round(4096, 4096, &rounded) && rounded == 4096 &&
           symc_backing_round(2 * MIB + 1, 2 * MIB, &rounded) &&
           rounded == 4 * MIB && symc_backing_round(0, 64, &rounded) &&
           rounded == 0 && !symc_backing_round(SIZE_MAX, 64, &rounded) &&
           !symc_backing_round(SIZE_MAX - 62, 64, &rounded) &&
           symc_backing_round(SIZE_MAX - 63, 64, &rounded) &&
           rounded == SIZE_MAX - 63 && !symc_backing_round(1, 0, &rounded);
}

static void pages_are_known(void)
{
    int usual = make_memfd(MIB, 0);
    int huge =
        memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING | MFD_HUGETLB);

    ok(symc_memory_page(usual) == (size_t)sysconf(_SC_PAGESIZE) &&
            symc_memory_page(-1) == (size_t)sysconf(_SC_PAGESIZE),
        "a memfd has pages of the usual size");
    if (huge < 0)
        skip(1, "the kernel has no huge pages");
    else
        ok(symc_memory_page(huge) > (size_t)sysconf(_SC_PAGESIZE),
            "one of huge pages has larger ones");
    close(usual);
    if (huge >= 0)
        close(huge);
}

/* Imports less than a huge page of a memfd of huge pages. */
static int huge_pages_are_imported(struct symmcoll_group *group, int rank)
{
    struct symmcoll_world *world = symmcoll_group_world(group);
    int size = symmcoll_group_size(group), peer = (rank + 1) % size;
    int fd =
        memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING | MFD_HUGETLB);
    size_t page = symc_memory_page(fd);
    struct symmcoll_symm *handle;
    char *data, *theirs;
    bool right =
        HOLDS(ftruncate(fd, (off_t)(2 * page)) == 0) &&
        HOLDS(fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK) == 0) &&
        groups_said(rank,
            symmcoll_symm_import(world, fd, 4096, 100, NULL, (void **)&data),
            SYMMCOLL_ERR_INVALID, "an offset that is a multiple of") &&
        OK(symmcoll_symm_import(
            world, fd, page, page - 5, NULL, (void **)&data)) &&
        OK(symmcoll_symm_rendezvous(group, data, NULL, &handle)) &&
        OK(symmcoll_symm_buffer(handle, peer, 9, 1, (void **)&theirs)) &&
        (theirs[0] = (char)('a' + rank), true) &&
        OK(symmcoll_symm_barrier(handle, 0, -1)) &&
        HOLDS(data[9] == 'a' + (rank + size - 1) % size);

    close(fd);
    return right && part(group, data, handle);
}

/* Returns whether the machine has huge pages for two ranks. */
static bool has_huge_pages(void)
{
    int fd =
        memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING | MFD_HUGETLB);
    bool has =
        fd >= 0 && fallocate(fd, 0, 0, (off_t)(4 * symc_memory_page(fd))) == 0;

    if (fd >= 0)
        close(fd);
    return has;
}

int main(void)
{
    plan(16);
    groups_both(2, what_is_there_needs_no_memory,
        "an import asks the machine for what is not there yet only");
    ok(is_limited(groups_1) && is_limited(groups_2),
        "the limit of a control group leaves less, but for its cache of files");
    ok(is_limited(groups_together),
        "so does that of one with other controllers at its side");
    groups_both(
        1, a_group_is_an_error, "and is an error, before it is reached");
    groups_both(1, a_full_group_is_an_error,
        "and is an error where nothing is left, not where nothing is known");
    groups_both(2, what_cannot_be_written_is_refused,
        "a memfd that is sealed against writing is refused");
    ok(ranks_run(1, a_limit_on_files_is_an_error), "RLIMIT_FSIZE is an error");
    setenv("SYMMCOLL_SYMM_MEM_HUGE_PAGES", "on", 1);
    ok(ranks_run(1, a_limit_on_files_is_an_error),
        "and so it is where huge pages are asked for");
    unsetenv("SYMMCOLL_SYMM_MEM_HUGE_PAGES");
    ok(process_run(sizes_are_rounded_up),
        "sizes are rounded up to pages, and none wraps around");
    pages_are_known();
    if (has_huge_pages())
        ok(ranks_run(2, huge_pages_are_imported),
            "a part of a memfd of huge pages is imported");
    else
        skip(1, "too few huge pages are reserved");
    return done_testing();
}
