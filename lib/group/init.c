/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * symmcoll_init() and symmcoll_finalize(): a world and its first group.  They
 * are in this module because a world, one layer below, does not depend on
 * groups.
 */
#include "base/cancel.h"
#include "group/release.h"
#include "run/work.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

static const struct symmcoll_init_args default_args = SYMMCOLL_INIT_ARGS_INIT;
static const struct symc_sized args_kind = {.name = "args",
    .macro = "SYMMCOLL_INIT_ARGS_INIT",
    .defaults = &default_args,
    .nbytes = sizeof(default_args),
    .least = sizeof(default_args.size)};

/* Opens the group of all ranks from the offers in their blocks' headers. */
static symmcoll_status_t open_all(struct symmcoll_world *world)
{
    struct symc_group_plan plan = {.size = world->size,
        .rank = world->rank,
        .timeout_ns = world->config->timeouts_collective};
    int *global = symc_alloc((size_t)world->size, sizeof(*global));
    struct symc_offer *offers =
        symc_alloc((size_t)world->size, sizeof(*offers));
    symmcoll_status_t status = SYMMCOLL_ERR_NO_MEMORY;

    if (global != NULL && offers != NULL) {
        for (int r = 0; r < world->size; r++) {
            global[r] = r;
            offers[r] = world->peers[r].view.first;
        }
        plan.global = global;
        symc_group_plan_name(world, NULL, &plan, 0, NULL);
        status =
            symc_group_open(world, &plan, &world->first, offers, &world->all);
    }
    free(offers);
    free(global);
    return status;
}

static void close_world(struct symmcoll_world *world, bool orderly)
{
    struct symc_engine *engine = symc_engine_of(world);

    symc_engine_stop(engine);
    symc_world_close(world, orderly);
    symc_engine_release(engine);
}

symmcoll_status_t symc_group_init(const struct symmcoll_init_args *args,
    struct symc_fake *fake, struct symmcoll_world **world)
{
    struct symc_engine *engine;
    struct symmcoll_world *made;
    symmcoll_status_t status = symc_engine_create(&engine);

    if (status != SYMMCOLL_OK) {
        free(fake);
        return status;
    }
    status = symc_world_open(args, fake, &engine->origin, &made);
    if (status != SYMMCOLL_OK) {
        symc_engine_release(engine);
        return status;
    }
    status = open_all(made);
    if (status != SYMMCOLL_OK) {
        struct symc_error error;

        symc_error_keep(&error, status); /* closing may fail as well */
        close_world(made, false);
        return symc_error_return(&error);
    }
    symc_logf(&made->log, SYMC_LOG_INFO,
        "world '%s': rank %d of %d (%s), backend %s, started by %s", made->name,
        made->rank, made->size, made->threads ? "threads" : "processes",
        made->all->runner.slots[SYMC_MEMORY_HOST].backend->name,
        made->rendezvous.launcher);
    *world = made;
    return SYMMCOLL_OK;
}

static symmcoll_status_t init(
    const struct symmcoll_init_args *given, struct symmcoll_world **world)
{
    struct symmcoll_init_args args;
    symmcoll_status_t status;

    if (world == NULL)
        return symc_fail(SYMMCOLL_ERR_INVALID,
            "init: expected a place for the world, found NULL");
    status = symc_sized_read(&args_kind, "init", given, &args);
    if (status != SYMMCOLL_OK)
        return status;
    return symc_group_init(&args, NULL, world);
}

symmcoll_status_t symmcoll_init(
    const struct symmcoll_init_args *args, struct symmcoll_world **world)
{
    int cancel = symc_cancel_disable();
    symmcoll_status_t status = init(args, world);

    symc_cancel_restore(cancel);
    return status;
}

static symmcoll_status_t finalize(struct symmcoll_world *world)
{
    struct symmcoll_group *inside;
    struct symc_error first;
    symmcoll_status_t status;
    bool stands;

    if (world == NULL)
        return SYMMCOLL_OK;
    if (!symc_world_is_mine(world))
        return symc_fail(SYMMCOLL_ERR_INVALID,
            "finalize: expected the process that called init, found a fork "
            "of it");
    if (symc_callbacks_inside(&symc_engine_of(world)->callbacks))
        return symc_fail(SYMMCOLL_ERR_INVALID,
            "finalize: expected another thread than the callback thread");
    inside = symc_group_find_caller(world);
    if (inside != NULL)
        return symc_fail(SYMMCOLL_ERR_INVALID,
            "finalize: expected no function that a call of group %s has "
            "called",
            inside->name);
    symc_logf(&world->log, SYMC_LOG_DEBUG,
        "finalize: after %" PRIu64 " operations of group %s",
        symmcoll_group_sequence(world->all), world->all->name);
    status = symc_groups_drain(world, &stands);
    if (stands)
        return status;
    symc_error_keep(&first, status);
    symc_callbacks_stop(&symc_engine_of(world)->callbacks);
    symc_world_end_extensions(world);
    /* the newest first, the world's last, then groups still in use by a
     * backend */
    do {
        status = world->groups != NULL ? symc_group_end(world->groups)
                                       : symc_groups_close_left(world);
        if (first.status == SYMMCOLL_OK)
            symc_error_keep(&first, status);
    } while (world->groups != NULL || world->left != NULL);
    close_world(world, true);
    return symc_error_return(&first);
}

symmcoll_status_t symmcoll_finalize(struct symmcoll_world *world)
{
    int cancel = symc_cancel_disable();
    symmcoll_status_t status = finalize(world);

    symc_cancel_restore(cancel);
    return status;
}
