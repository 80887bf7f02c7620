/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Blocks: their layout, and the checks of another rank's block.  A block has no
 * name in a file system, so nothing outlives its process.
 */
#include "segment/block.h"

#include "segment/arena.h"
#include "segment/memory.h"

#include <stdio.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

/* Reads a field once: another process may be writing it. */
#define GET(field) __atomic_load_n(&(field), __ATOMIC_RELAXED)

static struct symc_block_layout lay_out(size_t trace_nbytes)
{
    struct symc_block_layout layout = {.trace_nbytes = trace_nbytes};

    layout.trace_offset = symc_round_to_page(sizeof(struct symc_block));
    layout.nbytes = layout.trace_offset + symc_round_to_page(trace_nbytes);
    return layout;
}

size_t symc_block_nbytes(size_t trace_nbytes)
{
    return lay_out(trace_nbytes).nbytes;
}

/* Excludes the arena beyond the block from core dumps: it is large and has
 * users' data. */
static void spare_core_dumps(const struct symc_block_view *view)
{
    size_t nbytes = view->layout.nbytes;

    if (view->mapped > nbytes)
        madvise(
            (char *)view->block + nbytes, view->mapped - nbytes, MADV_DONTDUMP);
}

symmcoll_status_t symc_block_create(const char *world, int rank, int size,
    size_t trace_nbytes, size_t backed, size_t nbytes,
    struct symc_block_view *view, int *fd)
{
    const struct symc_block_layout layout = lay_out(trace_nbytes);
    char name[96];
    void *at;
    struct symc_block *made;
    symmcoll_status_t status;

    snprintf(name, sizeof(name), "symmcoll:%s:%d", world, rank);
    backed += layout.trace_offset;
    if (nbytes < layout.nbytes)
        nbytes = layout.nbytes;
    status = symc_memory_create(name, nbytes, "block", fd);
    if (status != SYMMCOLL_OK)
        return status;
    status = symc_memory_reserve(*fd, 0, backed, "block");
    if (status != SYMMCOLL_OK)
        goto close_fd;
    status =
        symc_memory_map(*fd, nbytes, "block: address space for a rank", &at);
    if (status != SYMMCOLL_OK)
        goto close_fd;
    symc_memory_populate(at, backed);
    made = at;
    made->magic = SYMC_BLOCK_MAGIC;
    made->rank = (uint32_t)rank;
    made->size = (uint32_t)size;
    made->pid = (int32_t)getpid();
    made->layout = layout;
    snprintf(made->world, sizeof(made->world), "%s", world);
    atomic_init(&made->liveness, SYMC_LIVENESS_NONE);
    /* The last store, with release order, for the threads that get the block's
     * address. */
    atomic_store_explicit(&made->users, (uint32_t)size, memory_order_release);
    *view = (struct symc_block_view){
        .block = made, .mapped = nbytes, .layout = layout};
    spare_core_dumps(view);
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
        .trace_nbytes = GET(layout->trace_nbytes)};
}

/* Checks that the recorder begins on a page after the head and ends in the
 * block, and that the block is whole pages of the arena. */
static bool layout_fits(const struct symc_block_layout *layout, size_t mapped)
{
    return layout->nbytes <= mapped && layout->nbytes % SYMC_PAGE == 0 &&
           layout->trace_offset >= sizeof(struct symc_block) &&
           layout->trace_offset % SYMC_PAGE == 0 &&
           layout->trace_offset <= layout->nbytes &&
           layout->trace_nbytes <= layout->nbytes - layout->trace_offset;
}

/* Checks that the first segment is not empty and begins on a page after the
 * block. */
static bool first_fits(const struct symc_offer *first,
    const struct symc_block_layout *layout, size_t mapped)
{
    return first->nbytes > 0 && first->offset >= layout->nbytes &&
           first->offset % SYMC_PAGE == 0 && first->offset <= mapped &&
           first->nbytes <= mapped - first->offset;
}

symmcoll_status_t symc_block_borrow(struct symc_block *block, int rank,
    size_t mapped, struct symc_block_view *view)
{
    const struct symc_block_layout layout = copy_layout(&block->layout);
    const struct symc_offer first = {.offset = GET(block->first.offset),
        .nbytes = GET(block->first.nbytes),
        .generation = GET(block->first.generation)};
    uint64_t magic = GET(block->magic);
    uint32_t found = GET(block->rank);

    if (magic != SYMC_BLOCK_MAGIC || found != (uint32_t)rank)
        return symc_fail(SYMMCOLL_ERR_INVALID,
            "block: expected rank %d, found rank %u%s", rank, found,
            magic == SYMC_BLOCK_MAGIC ? "" : " of another version");
    if (!layout_fits(&layout, mapped))
        return symc_fail(SYMMCOLL_ERR_INVALID,
            "block: rank %d: expected all parts on pages within %zu bytes, "
            "found one outside",
            rank, mapped);
    *view = (struct symc_block_view){
        .block = block, .mapped = mapped, .layout = layout};
    if (first_fits(&first, &layout, mapped))
        view->first = first;
    return SYMMCOLL_OK;
}

/* Reads from the head where the block and its first segment end.  Returns
 * nbytes if the head is not valid: symc_block_borrow() then reports it. */
static size_t find_end(int fd, size_t nbytes)
{
    struct symc_block head;
    size_t end;

    if (pread(fd, &head, offsetof(struct symc_block, world), 0) !=
        offsetof(struct symc_block, world))
        return nbytes;
    end = head.layout.nbytes;
    if (first_fits(&head.first, &head.layout, nbytes))
        end = head.first.offset + head.first.nbytes;
    return end >= sizeof(struct symc_block) && end <= nbytes ? end : nbytes;
}

symmcoll_status_t symc_block_map(int fd, int rank, size_t nbytes, size_t mapped,
    struct symc_block_view *view)
{
    symmcoll_status_t status = symc_memory_check(fd, nbytes, "block", rank);
    void *at;

    if (status != SYMMCOLL_OK)
        return status;
    if (mapped == 0)
        mapped = find_end(fd, nbytes);
    if (nbytes < sizeof(struct symc_block) || mapped > nbytes)
        return symc_fail(SYMMCOLL_ERR_INVALID,
            "block: rank %d: expected %zu bytes or more, found %zu", rank,
            mapped > sizeof(struct symc_block) ? mapped
                                               : sizeof(struct symc_block),
            nbytes);
    status =
        symc_memory_map(fd, mapped, "block: address space for a rank", &at);
    if (status != SYMMCOLL_OK)
        return status;
    status = symc_block_borrow(at, rank, mapped, view);
    if (status != SYMMCOLL_OK)
        munmap(at, mapped);
    else
        spare_core_dumps(view);
    return status;
}

void symc_block_unmap(struct symc_block_view *view)
{
    if (view->block != NULL)
        munmap(view->block, view->mapped);
    view->block = NULL;
}
