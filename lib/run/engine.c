/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Creation and release of the threads that a world and its works share.
 */
#include "run/engine.h"

#include "base/thread.h"

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

_Static_assert(sizeof(struct symc_engine) % SYMC_FALSE_SHARING == 0,
    "aligned_alloc() wants a multiple");

static bool drain_callbacks(struct symc_origin *origin, int64_t deadline_ns)
{
    struct symc_engine *engine = (struct symc_engine *)origin;

    return symc_callbacks_drain(&engine->callbacks, NULL, deadline_ns);
}

static void init_attendant(struct symc_attendant *attendant)
{
    pthread_mutex_init(&attendant->lock, NULL);
    symc_condition_init(&attendant->changed);
    symc_condition_init(&attendant->left);
}

static void destroy_attendant(struct symc_attendant *attendant)
{
    pthread_cond_destroy(&attendant->left);
    pthread_cond_destroy(&attendant->changed);
    pthread_mutex_destroy(&attendant->lock);
}

symmcoll_status_t symc_engine_create(struct symc_engine **engine)
{
    struct symc_engine *made = aligned_alloc(SYMC_FALSE_SHARING, sizeof(*made));
    symmcoll_status_t status;

    if (made == NULL)
        return symc_fail(
            SYMMCOLL_ERR_NO_MEMORY, "init: %zu bytes requested", sizeof(*made));
    memset(made, 0, sizeof(*made));
    status = make_mark(&made->origin.alive);
    if (status != SYMMCOLL_OK) {
        free(made);
        return status;
    }
    made->origin.drain_callbacks = drain_callbacks;
    symc_callbacks_init(&made->callbacks);
    symc_pool_init(&made->pool);
    init_attendant(&made->attendant);
    atomic_init(&made->holders, 1);
    *engine = made;
    return SYMMCOLL_OK;
}

void symc_engine_release(struct symc_engine *engine)
{
    /* Acquire: the last holder must see the other holders' writes. */
    if (atomic_fetch_sub_explicit(&engine->holders, 1, memory_order_acq_rel) >
        1)
        return;
    symc_callbacks_destroy(&engine->callbacks);
    symc_pool_destroy(&engine->pool);
    destroy_attendant(&engine->attendant);
    munmap(
        (void *)(uintptr_t)engine->origin.alive, (size_t)sysconf(_SC_PAGESIZE));
    free(engine);
}
