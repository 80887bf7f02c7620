/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Allocation of symmetric memory: local to a rank, and backed by memory at
 * once.
 *
 * The signal pad follows the data on a cache line of its own, since peers write
 * it. It lies in the arena, whichever host memory the data is in; the pads of
 * device memory belong to the share (device_backing.c).
 */
#include "base/cancel.h"
#include "config/config.h"
#include "symm_mem/backing.h"
#include "symm_mem/share.h"
#include "symm_mem/symm_mem.h"

#include <stdlib.h>

#define PAD_LEAST ((size_t)16)
#define PAD_MOST ((size_t)1 << 24)

static const struct symmcoll_symm_args default_args = SYMMCOLL_SYMM_ARGS_INIT;
static const struct symc_sized args_kind = {.name = "args",
    .macro = "SYMMCOLL_SYMM_ARGS_INIT",
    .defaults = &default_args,
    .nbytes = sizeof(default_args),
    .least = sizeof(default_args.size)};

/* ---- the list of allocations; under the lock ---- */

static struct symc_allocation *find_id(struct symc_symm *symm, int64_t id)
{
    struct symc_allocation *at = symm->allocations;

    while (at != NULL && (id == 0 || at->id != id))
        at = at->next;
    return at;
}

/* Returns an allocation of a pool that can be reused; NULL: none. Takes the
 * oldest one, so that ranks that free the same allocations in different orders
 * reuse the same one. */
static struct symc_allocation *find_freed(struct symc_symm *symm,
    const struct symmcoll_symm_pool *pool, size_t nbytes)
{
    struct symc_allocation *found = NULL;

    for (struct symc_allocation *at = symm->allocations; at != NULL;
         at = at->next) {
        if (at->pool == pool && !at->active && at->nbytes == nbytes &&
            (found == NULL || at->number < found->number) &&
            !symc_shares_have_handle(symm, at) &&
            !symc_allocation_is_busy(symm, at))
            found = at;
    }
    return found;
}

static void enlist(struct symc_symm *symm, struct symc_allocation *allocation)
{
    allocation->next = symm->allocations;
    symm->allocations = allocation;
}

/* ---- allocating ---- */

symmcoll_status_t symc_symm_check_call(
    const char *where, const struct symmcoll_world *world, const void *out)
{
    if (world == NULL || out == NULL)
        return symc_fail(SYMMCOLL_ERR_INVALID,
            "%s: expected a world and a place for the address, found NULL",
            where);
    if (!symc_world_is_mine(world))
        return symc_fail(SYMMCOLL_ERR_INVALID,
            "%s: expected the process that called init, found a fork of it",
            where);
    return SYMMCOLL_OK;
}

symmcoll_status_t symc_symm_read_args(const char *where,
    const struct symmcoll_world *world, const void *out,
    const struct symmcoll_symm_args *given, struct symmcoll_symm_args *args)
{
    symmcoll_status_t status = symc_symm_check_call(where, world, out);

    if (status != SYMMCOLL_OK)
        return status;
    status = symc_sized_read(&args_kind, where, given, args);
    if (status != SYMMCOLL_OK)
        return status;
    if (args->pad == 0)
        args->pad = world->config->symm_mem_pad;
    if (args->pad < PAD_LEAST || args->pad > PAD_MOST ||
        args->pad % PAD_LEAST != 0)
        return symc_fail(SYMMCOLL_ERR_INVALID,
            "%s: expected a signal pad of %zu to %zu bytes, a multiple of %zu, "
            "found %zu",
            where, PAD_LEAST, PAD_MOST, PAD_LEAST, args->pad);
    if (args->id < 0)
        return symc_fail(SYMMCOLL_ERR_INVALID,
            "%s: expected an id of 0 or more, found %lld", where,
            (long long)args->id);
    return symc_symm_check_place(where, args->device, args->device_index);
}

/* Checks that the allocation of an id can be used again. */
static symmcoll_status_t check_id(const struct symc_allocation *found,
    const struct symc_symm_request *request)
{
    const struct symmcoll_symm_args *args = &request->args;
    const char *where = request->where;
    char expected[SYMC_SYMM_PLACE], wanted[SYMC_SYMM_PLACE];

    if (found->active)
        return symc_fail(SYMMCOLL_ERR_INVALID,
            "%s: expected an id that is not in use, found %lld, whose %zu "
            "bytes have not been freed",
            where, (long long)args->id, found->nbytes);
    if (found->nbytes != request->nbytes || found->pad_nbytes != args->pad)
        return symc_fail(SYMMCOLL_ERR_INVALID,
            "%s: expected %zu bytes and a pad of %zu bytes for id %lld, as "
            "before, found %zu and %zu",
            where, found->nbytes, found->pad_nbytes, (long long)args->id,
            request->nbytes, args->pad);
    if (found->device != args->device ||
        found->device_index != args->device_index)
        return symc_fail(SYMMCOLL_ERR_INVALID,
            "%s: expected %s for id %lld, as before, found %s", where,
            symc_symm_format_place(
                found->device, found->device_index, expected),
            (long long)args->id,
            symc_symm_format_place(args->device, args->device_index, wanted));
    if (found->stuck)
        return symc_fail(SYMMCOLL_ERR_DEVICE,
            "%s: expected the memory of id %lld to be out of use, found that a "
            "group which had joined it was released before device %d had let "
            "go of it",
            where, (long long)args->id, found->device_index);
    return SYMMCOLL_OK;
}

/* Allocates the memory of an id again; *data stays NULL if the id is new.
 * Handles on the memory may have been used since it was freed, so the
 * operations that they enqueued are awaited, as before a free. */
static symmcoll_status_t reuse_id(struct symc_symm *symm,
    const struct symc_symm_request *request, void **data)
{
    uint64_t number = ++symm->awaits;
    struct symc_allocation *found;
    symmcoll_status_t status;

    do { /* the wait releases the lock: another thread may take the id */
        found = find_id(symm, request->args.id);
        if (found == NULL)
            return SYMMCOLL_OK;
        status = check_id(found, request);
        if (status == SYMMCOLL_OK)
            status = symc_allocation_await(symm, found, number, request->where);
    } while (status == SYMMCOLL_IN_PROGRESS);
    if (status != SYMMCOLL_OK)
        return status;
    found->active = true;
    symc_shares_revive(symm, found);
    *data = found->data;
    return SYMMCOLL_OK;
}

/* Finds an allocation of the id or of the pool to reuse, or checks memory to
 * register; *data stays NULL if memory has to be allocated. */
static symmcoll_status_t reuse(struct symc_symm *symm,
    const struct symc_symm_request *request, void **data)
{
    struct symc_allocation *found;

    if (request->own != NULL)
        return symc_symm_check_own(symm, request);
    if (request->pool == NULL)
        return reuse_id(symm, request, data);
    found = find_freed(symm, request->pool, request->nbytes);
    if (found == NULL)
        return SYMMCOLL_OK;
    found->active = true;
    found->uses++;
    *data = found->data;
    return SYMMCOLL_OK;
}

/* Backs a listed allocation with memory for data and pad. Not under the lock,
 * since large memory takes long. */
static symmcoll_status_t back(const struct symc_symm_request *request,
    const struct symc_backing_source *source, struct symc_allocation *made)
{
    struct symc_symm *symm = made->home;
    struct symmcoll_world *world = symm->world;
    struct symc_allocation backed = {.fd = -1,
        .nbytes = made->nbytes,
        .pad_nbytes = made->pad_nbytes,
        .device = made->device,
        .device_index = made->device_index,
        .own = made->own,
        .near = made->near};
    symmcoll_status_t status =
        symc_allocation_is_host(made)
            ? symc_backing_open(world, request->where, source, &backed)
            : symc_device_backing_open(world, request->where, &backed);

    pthread_mutex_lock(&symm->lock);
    if (status == SYMMCOLL_OK) {
        made->buffer = backed.buffer;
        made->data_at = backed.data_at;
        made->pad_at = backed.pad_at;
        made->fd = backed.fd;
        made->mapped = backed.mapped;
        made->backend = backed.backend;
        made->memory = backed.memory;
        made->data = backed.data != NULL
                         ? backed.data
                         : (char *)world->own.block + made->data_at;
    } else {
        symc_allocation_delist(made);
    }
    symc_symm_unlock(symm);
    return status;
}

/* Reuses an allocation or makes one. source->nbytes equals request->nbytes. */
static symmcoll_status_t allocate(struct symmcoll_world *world,
    const struct symc_symm_request *request,
    const struct symc_backing_source *source, void **data)
{
    struct symc_symm *symm = symc_symm_of(world);
    struct symc_allocation *made = symc_alloc(1, sizeof(*made));
    void *reused = NULL;
    symmcoll_status_t status = SYMMCOLL_ERR_NO_MEMORY;

    if (symm == NULL || made == NULL)
        goto free_struct;
    *made = (struct symc_allocation){.home = symm,
        .id = request->args.id,
        .active = true,
        .pool = request->pool,
        .users = 1,
        .nbytes = request->nbytes,
        .pad_nbytes = request->args.pad,
        .device = request->args.device,
        .device_index = request->args.device_index,
        .own = request->own,
        .near = request->near,
        .fd = -1};
    pthread_mutex_lock(&symm->lock);
    status = reuse(symm, request, &reused);
    if (status != SYMMCOLL_OK || reused != NULL)
        goto unlock;
    if (made->pool != NULL)
        made->number = ++made->pool->count;
    enlist(symm, made); /* so that no other thread takes its id */
    symc_symm_unlock(symm);
    status = back(request, source, made);
    if (status != SYMMCOLL_OK)
        goto free_struct;
    *data = made->data;
    return SYMMCOLL_OK;

unlock:
    symc_symm_unlock(symm);
    if (status == SYMMCOLL_OK)
        *data = reused;
free_struct:
    free(made);
    return status;
}

symmcoll_status_t symc_symm_allocate(struct symmcoll_world *world,
    const struct symc_symm_request *request, void **data)
{
    const struct symc_backing_source source = {
        .nbytes = request->nbytes, .fd = -1};

    return allocate(world, request, &source, data);
}

symmcoll_status_t symc_symm_allocate_near(struct symmcoll_world *world,
    size_t nbytes, const struct symmcoll_symm_args *args, struct symc_near near,
    void **data)
{
    struct symc_symm_request request = {
        .where = "symm_alloc", .nbytes = nbytes, .near = near};
    int cancel = symc_cancel_disable();
    symmcoll_status_t status =
        symc_symm_read_args(request.where, world, data, args, &request.args);

    if (status == SYMMCOLL_OK)
        status = symc_symm_allocate(world, &request, data);
    symc_cancel_restore(cancel);
    return status;
}

symmcoll_status_t symmcoll_symm_alloc(struct symmcoll_world *world,
    size_t nbytes, const struct symmcoll_symm_args *args, void **data)
{
    return symc_symm_allocate_near(
        world, nbytes, args, (struct symc_near){.memory = NULL}, data);
}

/* Imports memory like symmcoll_symm_import(), with cancellation disabled. */
static symmcoll_status_t import(struct symmcoll_world *world,
    const struct symc_backing_source *source,
    const struct symmcoll_symm_args *given, void **data)
{
    struct symc_symm_request request = {
        .where = "symm_import", .nbytes = source->nbytes};
    symmcoll_status_t status =
        symc_symm_read_args(request.where, world, data, given, &request.args);

    if (status != SYMMCOLL_OK)
        return status;
    if (request.args.id != 0)
        return symc_fail(SYMMCOLL_ERR_INVALID,
            "%s: expected no id, found %lld: the memory is the caller's",
            request.where, (long long)request.args.id);
    if (request.args.device != SYMMCOLL_HOST)
        return symc_fail(SYMMCOLL_ERR_INVALID,
            "%s: expected host memory, as a memfd is, found memory of CUDA "
            "device %d",
            request.where, request.args.device_index);
    if (source->nbytes > PTRDIFF_MAX)
        return symc_fail(SYMMCOLL_ERR_INVALID,
            "%s: expected bytes that a memfd has, found %zu", request.where,
            source->nbytes);
    return allocate(world, &request, source, data);
}

symmcoll_status_t symmcoll_symm_import(struct symmcoll_world *world, int fd,
    uint64_t offset, size_t nbytes, const struct symmcoll_symm_args *given,
    void **data)
{
    const struct symc_backing_source source = {
        .nbytes = nbytes, .fd = fd, .offset = offset, .imported = true};
    int cancel = symc_cancel_disable();
    symmcoll_status_t status = import(world, &source, given, data);

    symc_cancel_restore(cancel);
    return status;
}

/* ---- freeing ---- */

/* Returns the reason why an address cannot be freed, as the end of a sentence;
 * "": none. */
static const char *judge(
    const struct symc_allocation *found, const void *data, bool own)
{
    if (found == NULL)
        return ", which is none";
    if (found->data != data)
        return ", which is inside of an allocation";
    if (found->workspace)
        return ", a group's workspace, which the group frees";
    if (own == (found->own != NULL))
        return "";
    return own ? ", which symm_free releases"
               : ", the program's own memory: symm_deregister releases it";
}

/* Finds the allocation that begins at data. Errors: INVALID. */
static symmcoll_status_t find_data(struct symc_symm *symm, const char *where,
    void *data, bool own, struct symc_allocation **allocation)
{
    struct symc_allocation *found = symc_allocation_find(symm, data);
    const char *wrong = judge(found, data, own);

    *allocation = found;
    if (wrong[0] == '\0')
        return SYMMCOLL_OK;
    return symc_fail(SYMMCOLL_ERR_INVALID,
        "%s: expected an address that %s, found %p%s", where,
        own ? "has been registered" : "symm_alloc or symm_import has returned",
        data, wrong);
}

/* Frees an allocation. A wait releases the lock, and another thread may free
 * the allocation then, so each round looks it up again. */
static symmcoll_status_t free_data(
    struct symc_symm *symm, const char *where, void *data, bool own)
{
    uint64_t number = ++symm->awaits;
    struct symc_allocation *found;
    symmcoll_status_t status;

    symc_shares_reap(symm);
    do {
        status = find_data(symm, where, data, own, &found);
        if (status == SYMMCOLL_OK)
            status = symc_allocation_await(symm, found, number, where);
    } while (status == SYMMCOLL_IN_PROGRESS);
    if (status != SYMMCOLL_OK)
        return status;
    found->active = false;
    if (symc_allocation_is_kept(found))
        symc_shares_free(symm, found, true);
    else
        symc_allocation_release(found, true);
    return SYMMCOLL_OK;
}

symmcoll_status_t symc_symm_return(
    struct symmcoll_world *world, const char *where, void *data, bool own)
{
    int cancel;
    struct symc_symm *symm;
    symmcoll_status_t status;

    if (data == NULL)
        return SYMMCOLL_OK;
    cancel = symc_cancel_disable();
    status = symc_symm_check_call(where, world, data);
    symm = status == SYMMCOLL_OK ? symc_symm_of(world) : NULL;
    if (symm != NULL) {
        pthread_mutex_lock(&symm->lock);
        status = free_data(symm, where, data, own);
        symc_symm_unlock(symm);
    } else if (status == SYMMCOLL_OK) {
        status = SYMMCOLL_ERR_NO_MEMORY;
    }
    symc_cancel_restore(cancel);
    return status;
}

symmcoll_status_t symmcoll_symm_free(struct symmcoll_world *world, void *data)
{
    return symc_symm_return(world, "symm_free", data, false);
}

int symmcoll_symm_is_symmetric(
    struct symmcoll_world *world, const void *address)
{
    struct symc_symm *symm;
    bool found;

    if (world == NULL || address == NULL || !symc_world_is_mine(world))
        return 0;
    symm = symc_symm_of(world);
    if (symm == NULL)
        return 0;
    pthread_mutex_lock(&symm->lock);
    found = symc_allocation_find(symm, address) != NULL;
    symc_symm_unlock(symm);
    return found;
}
