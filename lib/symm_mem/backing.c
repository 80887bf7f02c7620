/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Memory of an allocation. The arena serves small allocations only: its address
 * space is limited, and it has no huge pages.
 */
#include "symm_mem/backing.h"
#include "base/descriptor.h"
#include "config/config.h"
#include "segment/memory.h"
#include "symm_mem/share.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

/* The data is rounded up to this, so that it shares no cache line with the pad,
 * which peers write. */
#define DATA_ALIGN ((size_t)SYMC_FALSE_SHARING)

static const char what[] = "symmetric memory";

/* ---- the arena ---- */

/* Allocates data bytes and the pad after them in the arena. */
static symmcoll_status_t take_arena(struct symmcoll_world *world, size_t data,
    struct symc_allocation *allocation)
{
    size_t whole;
    symmcoll_status_t status;

    if (!symc_add(data, allocation->pad_nbytes, &whole) ||
        whole > PTRDIFF_MAX - SYMC_PAGE)
        return symc_fail(SYMMCOLL_ERR_NO_MEMORY,
            "%s: %zu bytes requested, which no memory has", what, data);
    status = symc_buffer_take(&world->segments, whole, &allocation->buffer);
    if (status != SYMMCOLL_OK)
        return status;
    allocation->data_at = allocation->buffer->offset;
    allocation->pad_at = allocation->buffer->offset + data;
    return SYMMCOLL_OK;
}

/* ---- memfds ---- */

/* Fills a new memfd of huge pages. Returns NULL, or the reason of a failure. */
static const char *fill_huge(int fd, size_t whole)
{
    /* Beyond the limit ftruncate() would end the process by SIGXFSZ. */
    if (symc_memory_check_limit(what, whole) != SYMMCOLL_OK)
        return "RLIMIT_FSIZE does not allow it";
    return ftruncate(fd, (off_t)whole) == 0 &&
                   fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW) == 0 &&
                   fallocate(fd, 0, 0, (off_t)whole) == 0
               ? NULL
               : strerror(errno);
}

/* Creates a memfd of huge pages and backs it; -1: the kernel has none left, and
 * the log has the reason. */
static int create_huge(
    const struct symmcoll_world *world, size_t nbytes, size_t *whole)
{
    size_t page = symc_memory_huge_page(NULL);
    const char *why;
    int fd;

    if (page == 0 || !symc_backing_round(nbytes, page, whole)) {
        symc_logf(&world->log, SYMC_LOG_WARN,
            "%s: the kernel has no huge pages: pages of %ld bytes are used",
            what, sysconf(_SC_PAGESIZE));
        return -1;
    }
    fd = symc_memory_memfd("symmcoll:symm", MFD_HUGETLB);
    why = fd < 0 ? strerror(errno) : fill_huge(fd, *whole);
    if (why == NULL)
        return fd;
    symc_logf(&world->log, SYMC_LOG_WARN,
        "%s: %zu bytes in huge pages of %zu bytes: %s: pages of %ld bytes are "
        "used (see /proc/sys/vm/nr_hugepages)",
        what, *whole, page, why, sysconf(_SC_PAGESIZE));
    if (fd >= 0)
        close(fd);
    return -1;
}

/* Creates a memfd for the data and maps it. */
static symmcoll_status_t take_memfd(struct symmcoll_world *world, size_t nbytes,
    struct symc_allocation *allocation)
{
    size_t whole = symc_round_to_page(nbytes);
    void *at = NULL;
    int fd = -1;
    symmcoll_status_t status = SYMMCOLL_OK;

    if (world->config->symm_mem_huge_pages)
        fd = create_huge(world, nbytes, &whole);
    if (fd < 0) {
        whole = symc_round_to_page(nbytes);
        status = symc_memory_create("symmcoll:symm", whole, what, &fd);
        if (status != SYMMCOLL_OK)
            return status;
        status = symc_memory_reserve(fd, 0, whole, what);
    }
    if (status == SYMMCOLL_OK)
        status = symc_memory_map(fd, whole, what, &at);
    if (status != SYMMCOLL_OK) {
        close(fd);
        return status;
    }
    symc_memory_populate(at, whole);
    allocation->fd = fd;
    allocation->data_at = 0;
    allocation->data = at;
    allocation->mapped = whole;
    return SYMMCOLL_OK;
}

symmcoll_status_t symc_backing_map(const char *where, const char *peer, int fd,
    uint64_t offset, size_t nbytes, void **at)
{
    int seals = fcntl(fd, F_GET_SEALS);
    struct stat found;

    if (seals < 0 || (seals & F_SEAL_SHRINK) == 0)
        return symc_fail(SYMMCOLL_ERR_INVALID,
            "%s: %sexpected a memfd that is sealed against shrinking "
            "(F_SEAL_SHRINK), found %s",
            where, peer, seals < 0 ? "no memfd" : "one that is not");
    if ((seals & (F_SEAL_WRITE | F_SEAL_FUTURE_WRITE)) != 0)
        return symc_fail(SYMMCOLL_ERR_INVALID,
            "%s: %sexpected a memfd that can be written, found one that is "
            "sealed against it (F_SEAL_WRITE)",
            where, peer);
    if (fstat(fd, &found) != 0 || found.st_size < 0 ||
        offset > (uint64_t)found.st_size ||
        nbytes > (uint64_t)found.st_size - offset)
        return symc_fail(SYMMCOLL_ERR_INVALID,
            "%s: %sexpected a memfd of %zu bytes from byte %llu on, found one "
            "of %lld bytes",
            where, peer, nbytes, (unsigned long long)offset,
            (long long)found.st_size);
    return symc_memory_map_part(fd, offset, nbytes, what, at);
}

/* Maps the caller's memfd and duplicates its descriptor. */
static symmcoll_status_t import(const char *where,
    const struct symc_backing_source *source,
    struct symc_allocation *allocation)
{
    size_t page = symc_memory_page(source->fd), whole;
    void *at = NULL;
    symmcoll_status_t status;
    int fd;

    if (source->fd < 0 || source->nbytes == 0 || source->offset % page != 0 ||
        !symc_backing_round(source->nbytes, page, &whole))
        return symc_fail(SYMMCOLL_ERR_INVALID,
            "%s: expected a descriptor, 1 byte or more, and an offset that is "
            "a multiple of %zu, found %d, %zu and %llu",
            where, page, source->fd, source->nbytes,
            (unsigned long long)source->offset);
    /* A file of huge pages consists of whole pages; another file need not. */
    if (page == (size_t)sysconf(_SC_PAGESIZE))
        whole = source->nbytes;
    status =
        symc_backing_map(where, "", source->fd, source->offset, whole, &at);
    if (status != SYMMCOLL_OK)
        return status;
    status = symc_memory_complete(source->fd, source->offset, whole, what);
    if (status != SYMMCOLL_OK)
        goto unmap;
    fd = fcntl(source->fd, F_DUPFD_CLOEXEC, SYMC_DESCRIPTOR_LEAST);
    if (fd < 0) {
        status = symc_fail_descriptor(errno, where);
        goto unmap;
    }
    allocation->fd = fd;
    allocation->data_at = source->offset;
    allocation->data = at;
    allocation->mapped = whole;
    return SYMMCOLL_OK;

unmap:
    munmap(at, whole);
    return status;
}

/* ---- choosing the memory ---- */

/* Returns whether memory of that size comes from a memfd instead of the
 * arena. */
static bool wants_memfd(const struct symmcoll_world *world, size_t nbytes)
{
    size_t page;

    if (nbytes == 0 || nbytes >= world->config->symm_mem_memfd_min)
        return nbytes > 0;
    page = world->config->symm_mem_huge_pages ? symc_memory_huge_page(NULL) : 0;
    return page > 0 && nbytes >= page;
}

symmcoll_status_t symc_backing_open(struct symmcoll_world *world,
    const char *where, const struct symc_backing_source *source,
    struct symc_allocation *allocation)
{
    bool memfd = source->imported || wants_memfd(world, source->nbytes);
    size_t data = 0, data_at, largest = PTRDIFF_MAX - SYMC_PAGE;
    symmcoll_status_t status = SYMMCOLL_OK;

    if (source->nbytes > largest ||
        !symc_backing_round(source->nbytes, DATA_ALIGN, &data))
        return symc_fail(SYMMCOLL_ERR_NO_MEMORY,
            "%s: %zu bytes requested, which no memory has", where,
            source->nbytes);
    if (!memfd) {
        status = take_arena(world, data, allocation);
        /* the arena has no addresses or no memory left: the memfd's error says
         * which */

        memfd = status == SYMMCOLL_ERR_NO_MEMORY && source->nbytes > 0;
        if (!memfd)
            return status;
    }
    status = source->imported ? import(where, source, allocation)
                              : take_memfd(world, source->nbytes, allocation);
    if (status != SYMMCOLL_OK)
        return status;
    data_at = allocation->data_at;
    status = take_arena(world, 0, allocation);
    allocation->data_at = data_at;
    if (status == SYMMCOLL_OK)
        return SYMMCOLL_OK;
    munmap(allocation->data, allocation->mapped);
    close(allocation->fd);
    allocation->fd = -1;
    return status;
}

/* ---- releasing ---- */

void symc_allocation_drop(struct symc_allocation *allocation)
{
    if (--allocation->users > 0)
        return;
    if (allocation->fd >= 0) {
        munmap(allocation->data, allocation->mapped);
        close(allocation->fd);
    }
    if (allocation->backend != NULL)
        symc_left_memory(
            allocation->home, allocation->backend->mem, allocation->memory);
    else
        symc_buffer_drop(
            &allocation->home->world->segments, allocation->buffer);
    free(allocation);
}
