/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Pools: allocations that are kept when they are freed, and reused for requests
 * of the same size.
 *
 * Each allocation counts its uses. A rendezvous is valid for one use; the next
 * use makes it a former one, which becomes valid again if every member still
 * has it (symm_rendezvous.c). So whether a rank takes part in a rendezvous
 * depends on its calls alone, and not on what its pool had left.
 */
#include "base/cancel.h"
#include "symm_mem/backing.h"
#include "symm_mem/share.h"
#include "symm_mem/symm_mem.h"

#include <stdio.h>
#include <stdlib.h>

/* Checks the arguments that all calls on a pool have. */
static symmcoll_status_t check(
    const char *where, const struct symmcoll_symm_pool *pool, const void *out)
{
    if (pool == NULL || out == NULL)
        return symc_fail(SYMMCOLL_ERR_INVALID,
            "%s: expected a pool%s, found NULL", where,
            pool == NULL ? "" : " and a place for what it returns");
    return symc_symm_check_call(where, pool->home->world, out);
}

/* ---- pools ---- */

/* Adds a new pool to the list; under the lock. */
static struct symmcoll_symm_pool *make(
    struct symc_symm *symm, const struct symmcoll_symm_args *args)
{
    struct symmcoll_symm_pool *made = symc_alloc(1, sizeof(*made));

    if (made == NULL)
        return NULL;
    *made = (struct symmcoll_symm_pool){.next = symm->pools,
        .home = symm,
        .pad_nbytes = args->pad,
        .device = args->device,
        .device_index = args->device_index};
    symm->pools = made;
    return made;
}

/* Checks that the device of a pool has memory, by allocating that of a pad for
 * a moment. */
static symmcoll_status_t try_device(struct symmcoll_world *world,
    const char *where, const struct symmcoll_symm_args *args)
{
    struct symc_allocation tried = {.fd = -1,
        .pad_nbytes = args->pad,
        .device = args->device,
        .device_index = args->device_index};
    symmcoll_status_t status;

    if (symc_allocation_is_host(&tried))
        return SYMMCOLL_OK;
    status = symc_device_backing_open(world, where, &tried);
    if (status == SYMMCOLL_OK)
        symc_device_backing_close(&tried);
    return status;
}

static symmcoll_status_t create(struct symmcoll_world *world,
    const struct symmcoll_symm_args *given, struct symmcoll_symm_pool **pool)
{
    static const char where[] = "symm_pool_create";
    struct symmcoll_symm_args args;
    struct symc_symm *symm;
    struct symmcoll_symm_pool *made;
    symmcoll_status_t status =
        symc_symm_read_args(where, world, pool, given, &args);

    if (status != SYMMCOLL_OK)
        return status;
    if (args.id != 0)
        return symc_fail(SYMMCOLL_ERR_INVALID,
            "%s: expected no id, found %lld: a pool has many allocations",
            where, (long long)args.id);
    status = try_device(world, where, &args);
    if (status != SYMMCOLL_OK)
        return status;
    symm = symc_symm_of(world);
    if (symm == NULL)
        return SYMMCOLL_ERR_NO_MEMORY;
    pthread_mutex_lock(&symm->lock);
    made = make(symm, &args);
    symc_symm_unlock(symm);
    if (made == NULL)
        return SYMMCOLL_ERR_NO_MEMORY;
    *pool = made;
    return SYMMCOLL_OK;
}

symmcoll_status_t symmcoll_symm_pool_create(struct symmcoll_world *world,
    const struct symmcoll_symm_args *args, struct symmcoll_symm_pool **pool)
{
    int cancel = symc_cancel_disable();
    symmcoll_status_t status = create(world, args, pool);

    symc_cancel_restore(cancel);
    return status;
}

/* Finds the world's default pool, or makes it. */
static symmcoll_status_t default_pool(
    struct symmcoll_world *world, struct symmcoll_symm_pool **pool)
{
    struct symmcoll_symm_args args;
    struct symc_symm *symm;
    struct symmcoll_symm_pool *found;
    symmcoll_status_t status =
        symc_symm_read_args("symm_default_pool", world, pool, NULL, &args);

    if (status != SYMMCOLL_OK)
        return status;
    symm = symc_symm_of(world);
    if (symm == NULL)
        return SYMMCOLL_ERR_NO_MEMORY;
    pthread_mutex_lock(&symm->lock);
    if (symm->default_pool == NULL)
        symm->default_pool = make(symm, &args);
    found = symm->default_pool;
    symc_symm_unlock(symm);
    if (found == NULL)
        return SYMMCOLL_ERR_NO_MEMORY;
    *pool = found;
    return SYMMCOLL_OK;
}

symmcoll_status_t symmcoll_symm_default_pool(
    struct symmcoll_world *world, struct symmcoll_symm_pool **pool)
{
    int cancel = symc_cancel_disable();
    symmcoll_status_t status = default_pool(world, pool);

    symc_cancel_restore(cancel);
    return status;
}

/* ---- allocating ---- */

static symmcoll_status_t allocate(const char *where,
    struct symmcoll_symm_pool *pool, size_t nbytes, void **data)
{
    const struct symc_symm_request request = {.where = where,
        .nbytes = nbytes,
        .args = {.size = sizeof(request.args),
            .pad = pool->pad_nbytes,
            .device = pool->device,
            .device_index = pool->device_index},
        .pool = pool};
    int cancel = symc_cancel_disable();
    symmcoll_status_t status =
        symc_symm_allocate(pool->home->world, &request, data);

    symc_cancel_restore(cancel);
    return status;
}

symmcoll_status_t symmcoll_symm_pool_alloc(
    struct symmcoll_symm_pool *pool, size_t nbytes, void **data)
{
    static const char where[] = "symm_pool_alloc";
    symmcoll_status_t status = check(where, pool, data);

    return status == SYMMCOLL_OK ? allocate(where, pool, nbytes, data) : status;
}

symmcoll_status_t symmcoll_symm_pool_alloc_tensor(
    struct symmcoll_symm_pool *pool, struct symmcoll_tensor *tensor)
{
    static const char where[] = "symm_pool_alloc_tensor";
    struct symmcoll_tensor made;
    size_t nbytes = 0;
    symmcoll_status_t status = check(where, pool, tensor);

    if (status != SYMMCOLL_OK)
        return status;
    status = symc_symm_read_tensor(where, tensor, &made, &nbytes);
    if (status != SYMMCOLL_OK)
        return status;
    status = symc_symm_check_same_place(
        where, &made, pool->device, pool->device_index);
    if (status != SYMMCOLL_OK)
        return status;
    status = allocate(where, pool, nbytes, &made.data);
    if (status != SYMMCOLL_OK)
        return status;
    return symc_symm_write_tensor(where, &made, tensor);
}

/* ---- statistics ---- */

symmcoll_status_t symmcoll_symm_pool_get_info(
    struct symmcoll_symm_pool *pool, struct symmcoll_symm_pool_info *info)
{
    static const struct symmcoll_symm_pool_info none =
        SYMMCOLL_SYMM_POOL_INFO_INIT;
    static const struct symc_sized kind = {.name = "info",
        .macro = "SYMMCOLL_SYMM_POOL_INFO_INIT",
        .defaults = &none,
        .nbytes = sizeof(none),
        .least = sizeof(none.size)};
    static const char where[] = "symm_pool_get_info";
    struct symmcoll_symm_pool_info found = SYMMCOLL_SYMM_POOL_INFO_INIT;
    int cancel = symc_cancel_disable();
    symmcoll_status_t status = check(where, pool, info);

    if (status == SYMMCOLL_OK) {
        pthread_mutex_lock(&pool->home->lock);
        for (const struct symc_allocation *at = pool->home->allocations;
             at != NULL; at = at->next) {
            if (at->pool != pool)
                continue;
            *(at->active ? &found.used : &found.freed) += 1;
            *(at->active ? &found.used_nbytes : &found.freed_nbytes) +=
                at->nbytes;
        }
        symc_symm_unlock(pool->home);
        status = symc_sized_write(&kind, where, &found, info);
    }
    symc_cancel_restore(cancel);
    return status;
}

/* ---- releasing ---- */

/* Returns a freed allocation that call `number` has not skipped; NULL: none.
 * Under the lock. */
static struct symc_allocation *find_freed(
    const struct symmcoll_symm_pool *pool, uint64_t number)
{
    struct symc_allocation *at = pool->home->allocations;

    while (
        at != NULL && (at->pool != pool || at->active || at->passed == number))
        at = at->next;
    return at;
}

/* A call that releases the freed allocations of a pool. */
struct release {
    const char *where;
    uint64_t number;
    bool expired;            /* a wait has timed out: do not wait again */
    struct symc_error first; /* first error, or OK */
};

/* Skips an allocation that cannot be released. */
static void pass(struct release *release, struct symc_allocation *freed,
    symmcoll_status_t status)
{
    freed->passed = release->number;
    release->expired = release->expired || status == SYMMCOLL_ERR_TIMEOUT;
    if (release->first.status == SYMMCOLL_OK)
        symc_error_keep(&release->first, status);
}

/* Releases an allocation once no device uses it. Only the first wait may use up
 * the timeout: after that, allocations that a device still uses are skipped
 * without a wait. */
static void release_one(struct symc_symm *symm, struct release *release,
    struct symc_allocation *freed)
{
    symmcoll_status_t status = SYMMCOLL_OK;

    freed->users++; /* another thread may release it during the wait */
    if (!release->expired)
        status =
            symc_allocation_await(symm, freed, release->number, release->where);
    else if (symc_allocation_is_busy(symm, freed))
        status = SYMMCOLL_ERR_TIMEOUT;
    if (status == SYMMCOLL_OK)
        symc_allocation_release(freed, true);
    else if (status != SYMMCOLL_IN_PROGRESS)
        pass(release, freed, status);
    symc_allocation_drop(freed);
}

/* Releases the freed allocations of a pool once no device uses them. One that
 * stays in use does not keep the others. The lock is released during waits.
 * Returns the first error, as symmcoll_symm_free() does; some allocations are
 * left then. */
static symmcoll_status_t release(
    const struct symmcoll_symm_pool *pool, const char *where)
{
    struct symc_symm *symm = pool->home;
    struct release all = {.where = where, .number = ++symm->awaits};
    struct symc_allocation *freed;

    symc_shares_reap(symm);
    while ((freed = find_freed(pool, all.number)) != NULL)
        release_one(symm, &all, freed);
    return symc_error_return(&all.first);
}

/* Detaches the allocations that are not freed from the pool. Under the lock. */
static void let_go(const struct symmcoll_symm_pool *pool)
{
    for (struct symc_allocation *at = pool->home->allocations; at != NULL;
         at = at->next) {
        if (at->pool == pool)
            at->pool = NULL;
    }
}

symmcoll_status_t symmcoll_symm_pool_trim(struct symmcoll_symm_pool *pool)
{
    static const char where[] = "symm_pool_trim";
    int cancel = symc_cancel_disable();
    symmcoll_status_t status = check(where, pool, pool);

    if (status == SYMMCOLL_OK) {
        pthread_mutex_lock(&pool->home->lock);
        status = release(pool, where);
        symc_symm_unlock(pool->home);
    }
    symc_cancel_restore(cancel);
    return status;
}

static symmcoll_status_t free_pool(struct symmcoll_symm_pool *pool)
{
    static const char where[] = "symm_pool_free";
    struct symc_symm *symm = pool->home;
    struct symmcoll_symm_pool **at = &symm->pools;
    symmcoll_status_t status = check(where, pool, pool);

    if (status != SYMMCOLL_OK)
        return status;
    pthread_mutex_lock(&symm->lock);
    if (pool == symm->default_pool) {
        symc_symm_unlock(symm);
        return symc_fail(SYMMCOLL_ERR_INVALID,
            "%s: expected a pool of symm_pool_create, found the default pool: "
            "symm_pool_trim releases what it keeps",
            where);
    }
    status = release(pool, where);
    if (status != SYMMCOLL_OK) {
        symc_symm_unlock(symm);
        return status;
    }
    let_go(pool);
    while (*at != pool)
        at = &(*at)->next;
    *at = pool->next;
    symc_symm_unlock(symm);
    free(pool);
    return SYMMCOLL_OK;
}

symmcoll_status_t symmcoll_symm_pool_free(struct symmcoll_symm_pool *pool)
{
    int cancel;
    symmcoll_status_t status;

    if (pool == NULL)
        return SYMMCOLL_OK;
    cancel = symc_cancel_disable();
    status = free_pool(pool);
    symc_cancel_restore(cancel);
    return status;
}
