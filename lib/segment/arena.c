/* SPDX-License-Identifier: BSD-3-Clause */
/* The ranges of an arena, and the choice of its size. */
#include "segment/arena.h"

#include "base/proc.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/falloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>

/* Address space only: enough for a thousand groups with staging. */
#define USEFUL ((size_t)16 << 30)
/* Valgrind's tools keep state for each mapped byte, which takes minutes for
 * USEFUL. */
#define USEFUL_VALGRIND ((size_t)256 << 20)
/* The limit for all ranks together.  Threads map each arena once and reserve it
 * at once.  ThreadSanitizer covers only a part of the address space, and ends
 * the process if the kernel chooses an address outside. */
#ifdef __SANITIZE_THREAD__
#define USEFUL_ALL ((size_t)1 << 36)
#else
#define USEFUL_ALL ((size_t)1 << 40)
#endif

struct symc_range {
    struct symc_range *next;
    size_t offset;
    size_t nbytes;
};

/* ---- size ---- */

/* Returns the address space that this process may still map; SIZE_MAX: no
 * limit. */
static size_t address_space_left(void)
{
    struct rlimit limit;
    char text[64];
    unsigned long pages;
    size_t used;

    if (getrlimit(RLIMIT_AS, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY)
        return SIZE_MAX;
    if (symc_proc_read("/proc/self/statm", text, sizeof(text)) == 0 ||
        sscanf(text, "%lu", &pages) != 1)
        return 0;
    used = pages * SYMC_PAGE;
    return used < limit.rlim_cur ? limit.rlim_cur - used : 0;
}

/* Returns whether this process runs under valgrind, which preloads its library
 * into every process.  This needs no valgrind header. */
static bool is_under_valgrind(void)
{
    const char *loaded = symc_variable_get("LD_PRELOAD");

    return loaded != NULL && strstr(loaded, "/vgpreload_") != NULL;
}

/* Returns whether nbytes can be mapped: a tool may have reserved the
 * addresses. */
static bool is_mappable(size_t nbytes)
{
    void *at = mmap(NULL, nbytes, PROT_NONE,
        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

    if (at == MAP_FAILED)
        return false;
    munmap(at, nbytes);
    return true;
}

size_t symc_arena_choose_nbytes(size_t least, int ranks)
{
    size_t nbytes = USEFUL, count = (size_t)ranks;
    size_t space = address_space_left();
    struct rlimit files;

    if (is_under_valgrind())
        nbytes = USEFUL_VALGRIND;
    if (nbytes > USEFUL_ALL / count)
        nbytes = USEFUL_ALL / count;
    /* The other half is left to the program. */
    if (space != SIZE_MAX && nbytes > space / 2 / count)
        nbytes = space / 2 / count;
    if (getrlimit(RLIMIT_FSIZE, &files) == 0 && nbytes > files.rlim_cur)
        nbytes = files.rlim_cur;
    while (nbytes > least && !is_mappable(nbytes * count))
        nbytes /= 2;
    nbytes = nbytes / SYMC_PAGE * SYMC_PAGE;
    return nbytes > least ? nbytes : least;
}

/* ---- ranges ---- */

symmcoll_status_t symc_arena_init(
    struct symc_arena *arena, int fd, size_t first, size_t end)
{
    struct symc_range *all = NULL;

    if (first < end) {
        all = symc_alloc(1, sizeof(*all));
        if (all == NULL)
            return SYMMCOLL_ERR_NO_MEMORY;
        all->offset = first;
        all->nbytes = end - first;
    }
    *arena = (struct symc_arena){.fd = fd, .end = end, .free = all};
    return SYMMCOLL_OK;
}

void symc_arena_destroy(struct symc_arena *arena)
{
    while (arena->free != NULL) {
        struct symc_range *first = arena->free;

        arena->free = first->next;
        free(first);
    }
}

void symc_arena_trim(struct symc_arena *arena, size_t end)
{
    struct symc_range **at = &arena->free;

    arena->end = end;
    while (*at != NULL) {
        struct symc_range *range = *at;

        if (range->offset >= end) {
            *at = range->next;
            free(range);
            continue;
        }
        if (range->nbytes > end - range->offset)
            range->nbytes = end - range->offset;
        at = &range->next;
    }
}

static symmcoll_status_t fail_full(
    const struct symc_arena *arena, size_t nbytes)
{
    char asked[32], most[32], whole[32];
    size_t largest = 0;

    for (const struct symc_range *at = arena->free; at != NULL; at = at->next) {
        if (at->nbytes > largest)
            largest = at->nbytes;
    }
    return symc_fail(SYMMCOLL_ERR_NO_MEMORY,
        "segment: %s requested, at most %s left of an arena of %s (RLIMIT_AS "
        "and RLIMIT_FSIZE make it smaller)",
        symc_format_bytes(nbytes, asked), symc_format_bytes(largest, most),
        symc_format_bytes(arena->end, whole));
}

symmcoll_status_t symc_arena_take(
    struct symc_arena *arena, size_t nbytes, size_t *offset)
{
    size_t whole = symc_round_to_page(nbytes);
    struct symc_range **at = &arena->free;

    if (nbytes == 0 || whole < nbytes)
        return symc_fail(SYMMCOLL_ERR_INVALID,
            "segment: expected 1 byte or more, found %zu", nbytes);
    while (*at != NULL && (*at)->nbytes < whole)
        at = &(*at)->next;
    if (*at == NULL)
        return fail_full(arena, nbytes);

    struct symc_range *found = *at;
    *offset = found->offset;
    found->offset += whole;
    found->nbytes -= whole;
    if (found->nbytes == 0) {
        *at = found->next;
        free(found);
    }
    return SYMMCOLL_OK;
}

/* Adds a range to the free list and merges it with its neighbours. */
static bool enter(struct symc_arena *arena, size_t offset, size_t nbytes)
{
    struct symc_range *before = NULL, *after = arena->free, *made;

    while (after != NULL && after->offset < offset) {
        before = after;
        after = after->next;
    }
    if (before != NULL && before->offset + before->nbytes == offset) {
        before->nbytes += nbytes;
        if (after != NULL && before->offset + before->nbytes == after->offset) {
            before->nbytes += after->nbytes;
            before->next = after->next;
            free(after);
        }
        return true;
    }
    if (after != NULL && offset + nbytes == after->offset) {
        after->offset = offset;
        after->nbytes += nbytes;
        return true;
    }
    made = symc_alloc(1, sizeof(*made));
    if (made == NULL)
        return false;
    *made =
        (struct symc_range){.next = after, .offset = offset, .nbytes = nbytes};
    if (before != NULL)
        before->next = made;
    else
        arena->free = made;
    return true;
}

bool symc_arena_return(struct symc_arena *arena, size_t offset, size_t nbytes)
{
    size_t whole = symc_round_to_page(nbytes);
    int error;

    do {
        error = fallocate(arena->fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
                    (off_t)offset, (off_t)whole) == 0
                    ? 0
                    : errno;
    } while (error == EINTR);
    if (error != 0)
        return false;
    if (offset >= arena->end)
        return true; /* trimmed since */
    if (whole > arena->end - offset)
        whole = arena->end - offset;
    return enter(arena, offset, whole);
}
