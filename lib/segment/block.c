/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Blocks: sealed memfds, backed by memory before they are used, so that a full
 * machine is an error of a call and not a SIGBUS later.  No block has a name
 * that could outlive its process.
 */
#include "segment/block.h"

#include "base/proc.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#define PAGE ((size_t)4096)
#define SEALS (F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL)

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif

/* Read once: another process may be writing. */
#define GET(field) __atomic_load_n(&(field), __ATOMIC_RELAXED)

static size_t round_up(size_t nbytes)
{
    return (nbytes + PAGE - 1) / PAGE * PAGE;
}

/* A limit as text, for a message. */
static const char *format_limit(int resource, char *buffer)
{
    struct rlimit limit;

    if (getrlimit(resource, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) {
        strcpy(buffer, "unlimited");
        return buffer;
    }
    return symc_format_bytes(limit.rlim_cur, buffer);
}

/* Memory that the kernel can still provide, 0 where it is unknown. */
static size_t memory_available(void)
{
    static const char name[] = "\nMemAvailable:";
    char text[4096];
    const char *at;

    symc_proc_read("/proc/meminfo", text, sizeof(text));
    at = strstr(text, name);
    return at != NULL ? strtoul(at + strlen(name), NULL, 10) * 1024 : 0;
}

static symmcoll_status_t fail_no_memory(
    int error, const char *what, size_t nbytes, int resource, const char *name)
{
    char asked[32], available[32], limit[32];

    return symc_fail_errno(SYMMCOLL_ERR_NO_MEMORY, error,
        "%s: %s asked for, %s available on this machine, %s is %s", what,
        symc_format_bytes(nbytes, asked),
        symc_format_bytes(memory_available(), available), name,
        format_limit(resource, limit));
}

/* Growing a file past RLIMIT_FSIZE would raise SIGXFSZ: check first. */
static symmcoll_status_t check_file_limit(const char *what, size_t nbytes)
{
    struct rlimit limit;
    char asked[32], allowed[32];

    if (getrlimit(RLIMIT_FSIZE, &limit) != 0 ||
        limit.rlim_cur == RLIM_INFINITY || nbytes <= limit.rlim_cur)
        return SYMMCOLL_OK;
    return symc_fail(SYMMCOLL_ERR_NO_MEMORY,
        "%s: %s of shared memory asked for, RLIMIT_FSIZE is %s", what,
        symc_format_bytes(nbytes, asked),
        symc_format_bytes(limit.rlim_cur, allowed));
}

static symmcoll_status_t open_memfd(const char *name, int *fd)
{
    *fd = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING);
    return *fd >= 0 ? SYMMCOLL_OK : symc_fail_descriptor(errno, "block");
}

symmcoll_status_t symc_block_reserve(
    int fd, size_t offset, size_t nbytes, const char *what)
{
    symmcoll_status_t status = check_file_limit(what, offset + nbytes);
    size_t available;
    int error;

    if (status != SYMMCOLL_OK || nbytes == 0)
        return status;
    /* The kernel would fill the machine page by page and find out at the end,
     * by then at the cost of other processes. */
    available = memory_available();
    if (available > 0 && nbytes > available)
        return fail_no_memory(
            ENOMEM, what, nbytes, RLIMIT_FSIZE, "RLIMIT_FSIZE");
    do {
        error = fallocate(fd, 0, (off_t)offset, (off_t)nbytes) == 0 ? 0 : errno;
    } while (error == EINTR);
    if (error != 0)
        return fail_no_memory(
            error, what, nbytes, RLIMIT_FSIZE, "RLIMIT_FSIZE");
    return SYMMCOLL_OK;
}

static symmcoll_status_t map_block(
    int fd, size_t nbytes, struct symc_block **block)
{
    void *at = mmap(NULL, nbytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

    if (at == MAP_FAILED)
        return fail_no_memory(errno, "block: address space for a rank", nbytes,
            RLIMIT_AS, "RLIMIT_AS");
    /* A forked child has no monitor and must not use the block. */
    madvise(at, nbytes, MADV_DONTFORK);
    *block = at;
    return SYMMCOLL_OK;
}

static struct symc_block_layout lay_out(const struct symc_block_sizes *sizes)
{
    struct symc_block_layout layout = {.trace_nbytes = sizes->trace,
        .group_nbytes = sizes->group,
        .staging_nbytes = sizes->staging};

    layout.trace_offset = round_up(sizeof(struct symc_block));
    layout.group_offset = layout.trace_offset + round_up(sizes->trace);
    layout.staging_offset = layout.group_offset + round_up(sizes->group);
    layout.nbytes = layout.staging_offset + round_up(sizes->staging);
    return layout;
}

symmcoll_status_t symc_block_create(const char *world, int rank, int size,
    const struct symc_block_sizes *sizes, struct symc_block_view *view, int *fd)
{
    struct symc_block_layout layout = lay_out(sizes);
    size_t nbytes = layout.nbytes, staging = layout.staging_offset;
    char name[96];
    struct symc_block *made;

    symmcoll_status_t status = check_file_limit("block", nbytes);
    if (status != SYMMCOLL_OK)
        return status;
    snprintf(name, sizeof(name), "symmcoll:%s:%d", world, rank);
    status = open_memfd(name, fd);
    if (status != SYMMCOLL_OK)
        return status;
    if (ftruncate(*fd, (off_t)nbytes) != 0) {
        status = fail_no_memory(
            errno, "block", nbytes, RLIMIT_FSIZE, "RLIMIT_FSIZE");
        goto close_fd;
    }
    status = symc_block_reserve(*fd, 0, staging, "block");
    if (status != SYMMCOLL_OK)
        goto close_fd;
    if (fcntl(*fd, F_ADD_SEALS, SEALS) != 0) {
        status = symc_fail_errno(SYMMCOLL_ERR_SYSTEM, errno, "block: seals");
        goto close_fd;
    }
    status = map_block(*fd, nbytes, &made);
    if (status != SYMMCOLL_OK)
        goto close_fd;
    symc_block_populate(made, staging);
    made->magic = SYMC_BLOCK_MAGIC;
    made->rank = (uint32_t)rank;
    made->size = (uint32_t)size;
    made->pid = (int32_t)getpid();
    made->layout = layout;
    snprintf(made->world, sizeof(made->world), "%s", world);
    atomic_init(&made->liveness, SYMC_LIVENESS_NONE);
    /* Last, with release order: a thread that is given the address reads it. */
    atomic_store_explicit(&made->users, (uint32_t)size, memory_order_release);
    *view = (struct symc_block_view){made, layout};
    return SYMMCOLL_OK;

close_fd:
    close(*fd);
    *fd = -1;
    return status;
}

static struct symc_block_layout copy_layout(
    const struct symc_block_layout *layout)
{
    return (struct symc_block_layout){.nbytes = GET(layout->nbytes),
        .trace_offset = GET(layout->trace_offset),
        .trace_nbytes = GET(layout->trace_nbytes),
        .group_offset = GET(layout->group_offset),
        .group_nbytes = GET(layout->group_nbytes),
        .staging_offset = GET(layout->staging_offset),
        .staging_nbytes = GET(layout->staging_nbytes)};
}

/* Whether a part begins on a page after the head and ends in the block. */
static bool part_fits(
    const struct symc_block_layout *layout, uint64_t offset, uint64_t nbytes)
{
    return offset >= sizeof(struct symc_block) && offset % PAGE == 0 &&
           offset <= layout->nbytes && nbytes <= layout->nbytes - offset;
}

symmcoll_status_t symc_block_borrow(struct symc_block *block, int rank,
    size_t nbytes, struct symc_block_view *view)
{
    const struct symc_block head = {.magic = GET(block->magic),
        .rank = GET(block->rank),
        .layout = copy_layout(&block->layout)};
    const struct symc_block_layout *layout = &head.layout;

    if (head.magic != SYMC_BLOCK_MAGIC || head.rank != (uint32_t)rank ||
        layout->nbytes != nbytes)
        return symc_fail(SYMMCOLL_ERR_INVALID,
            "block: expected rank %d with %zu bytes, found rank %u with %llu "
            "bytes%s",
            rank, nbytes, head.rank, (unsigned long long)layout->nbytes,
            head.magic == SYMC_BLOCK_MAGIC ? "" : " of another version");
    if (!part_fits(layout, layout->trace_offset, layout->trace_nbytes) ||
        !part_fits(layout, layout->group_offset, layout->group_nbytes) ||
        !part_fits(layout, layout->staging_offset, layout->staging_nbytes))
        return symc_fail(SYMMCOLL_ERR_INVALID,
            "block: rank %d: expected all parts on pages within %zu bytes, "
            "found one outside",
            rank, nbytes);
    *view = (struct symc_block_view){block, *layout};
    return SYMMCOLL_OK;
}

symmcoll_status_t symc_block_map(
    int fd, int rank, size_t nbytes, struct symc_block_view *view)
{
    int seals = fcntl(fd, F_GET_SEALS);
    struct stat found;
    struct symc_block *mapped;

    if (seals < 0 || (seals & SEALS) != SEALS)
        return symc_fail(SYMMCOLL_ERR_INVALID,
            "block: rank %d: expected a sealed memfd, found seals %d", rank,
            seals);
    if (fstat(fd, &found) != 0 || (size_t)found.st_size != nbytes ||
        nbytes < sizeof(struct symc_block))
        return symc_fail(SYMMCOLL_ERR_INVALID,
            "block: rank %d: expected %zu bytes, found %lld", rank, nbytes,
            (long long)found.st_size);

    symmcoll_status_t status = map_block(fd, nbytes, &mapped);
    if (status != SYMMCOLL_OK)
        return status;
    status = symc_block_borrow(mapped, rank, nbytes, view);
    if (status != SYMMCOLL_OK)
        munmap(mapped, nbytes);
    return status;
}

void symc_block_unmap(struct symc_block_view *view)
{
    if (view->block != NULL)
        munmap(view->block, view->layout.nbytes);
    view->block = NULL;
}

void symc_block_populate(void *part, size_t nbytes)
{
    madvise(part, round_up(nbytes), MADV_POPULATE_WRITE);
}
