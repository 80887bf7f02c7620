/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Creation and release of what a world and its works share.
 */
#include "work/origin.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* Maps a word that the kernel clears in forked children. */
static symmcoll_status_t make_mark(const uint32_t **alive)
{
    size_t nbytes = (size_t)sysconf(_SC_PAGESIZE);
    uint32_t *mark = mmap(NULL, nbytes, PROT_READ | PROT_WRITE,
        MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    if (mark == MAP_FAILED)
        return symc_fail_errno(
            SYMMCOLL_ERR_NO_MEMORY, errno, "init: %zu bytes", nbytes);
    madvise(mark, nbytes, MADV_WIPEONFORK);
    *mark = 1;
    *alive = mark;
    return SYMMCOLL_OK;
}

_Static_assert(sizeof(struct symc_origin) % SYMC_FALSE_SHARING == 0,
    "aligned_alloc() wants a multiple");

symmcoll_status_t symc_origin_create(struct symc_origin **origin)
{
    struct symc_origin *made = aligned_alloc(SYMC_FALSE_SHARING, sizeof(*made));
    symmcoll_status_t status;

    if (made == NULL)
        return symc_fail(
            SYMMCOLL_ERR_NO_MEMORY, "init: %zu bytes asked for", sizeof(*made));
    memset(made, 0, sizeof(*made));
    status = make_mark(&made->alive);
    if (status != SYMMCOLL_OK) {
        free(made);
        return status;
    }
    symc_callbacks_init(&made->callbacks);
    symc_pool_init(&made->pool);
    symc_attendant_init(&made->attendant);
    atomic_init(&made->holders, 1);
    *origin = made;
    return SYMMCOLL_OK;
}

void symc_origin_release(struct symc_origin *origin)
{
    /* Acquire: the last holder must see the other holders' writes. */
    if (atomic_fetch_sub_explicit(&origin->holders, 1, memory_order_acq_rel) >
        1)
        return;
    symc_callbacks_destroy(&origin->callbacks);
    symc_pool_destroy(&origin->pool);
    symc_attendant_destroy(&origin->attendant);
    munmap((void *)(uintptr_t)origin->alive, (size_t)sysconf(_SC_PAGESIZE));
    free(origin);
}
