/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Worlds with absent ranks, beside symmcoll_init() for real ones.
 */
#include "base/cancel.h"
#include "fake/fake.h"
#include "group/group.h"

#include <symmcoll/fake.h>

#include <math.h>
#include <stdlib.h>

static const struct symmcoll_fake_args default_args = SYMMCOLL_FAKE_ARGS_INIT;
static const struct symc_sized args_kind = {.name = "args",
    .macro = "SYMMCOLL_FAKE_ARGS_INIT",
    .defaults = &default_args,
    .nbytes = sizeof(default_args),
    .least = sizeof(default_args.size)};

static symmcoll_status_t check_args(const struct symmcoll_fake_args *args)
{
    if (args->world_size < 1 || args->world_size > SYMC_RANKS_MAX)
        return symc_fail(SYMMCOLL_ERR_INVALID,
            "fake_world: world_size: expected 1 to %d, found %d",
            SYMC_RANKS_MAX, args->world_size);
    if (args->rank < 0 || args->rank >= args->world_size)
        return symc_fail(SYMMCOLL_ERR_INVALID,
            "fake_world: rank: expected 0 to %d, found %d",
            args->world_size - 1, args->rank);
    if (!(args->latency >= 0) || !(args->bandwidth >= 0))
        return symc_fail(SYMMCOLL_ERR_INVALID,
            "fake_world: expected a latency and a bandwidth of 0 or more, found "
            "%g and %g",
            args->latency, args->bandwidth);
    return SYMMCOLL_OK;
}

static symmcoll_status_t make_world(
    const struct symmcoll_fake_args *given, struct symmcoll_world **world)
{
    struct symmcoll_init_args init = SYMMCOLL_INIT_ARGS_INIT;
    struct symmcoll_fake_args args;
    struct symc_fake *fake;
    symmcoll_status_t status;

    if (world == NULL)
        return symc_fail(SYMMCOLL_ERR_INVALID,
            "fake_world: expected a place for the world, found NULL");
    status = symc_sized_read(&args_kind, "fake_world", given, &args);
    if (status == SYMMCOLL_OK)
        status = check_args(&args);
    if (status != SYMMCOLL_OK)
        return status;
    fake = symc_alloc(1, sizeof(*fake));
    if (fake == NULL)
        return SYMMCOLL_ERR_NO_MEMORY;
    fake->latency = args.latency;
    fake->byte_time = args.bandwidth > 0 ? 1 / args.bandwidth : 0;
    init.rank = args.rank;
    init.world_size = args.world_size;
    init.name = args.name;
    status = symc_group_init(&init, fake, world);
    return status;
}

symmcoll_status_t symmcoll_fake_world(
    const struct symmcoll_fake_args *args, struct symmcoll_world **world)
{
    int cancel = symc_cancel_disable();
    symmcoll_status_t status = make_world(args, world);

    symc_cancel_restore(cancel);
    return status;
}

double symmcoll_fake_clock(const struct symmcoll_world *world)
{
    return world == NULL || world->fake == NULL
               ? (double)NAN
               : atomic_load(&world->fake->clock);
}

static symmcoll_status_t check_world(
    const char *where, const struct symmcoll_world *world)
{
    if (world != NULL && world->fake != NULL)
        return SYMMCOLL_OK;
    return symc_fail(SYMMCOLL_ERR_INVALID,
        "%s: expected a fake world, found %s", where,
        world == NULL ? "NULL" : "another");
}

symmcoll_status_t symmcoll_fake_advance(
    struct symmcoll_world *world, double seconds)
{
    symmcoll_status_t status = check_world("fake_advance", world);

    if (status != SYMMCOLL_OK)
        return status;
    if (!(seconds >= 0))
        return symc_fail(SYMMCOLL_ERR_INVALID,
            "fake_advance: expected 0 seconds or more, found %g", seconds);
    symc_fake_add_time(world->fake, seconds);
    return SYMMCOLL_OK;
}

symmcoll_status_t symmcoll_fake_set_error(
    struct symmcoll_world *world, symmcoll_status_t error)
{
    symmcoll_status_t status = check_world("fake_set_error", world);

    if (status != SYMMCOLL_OK)
        return status;
    if (error != SYMMCOLL_OK && (error > 0 || symmcoll_status_category(error) ==
                                                  SYMMCOLL_CATEGORY_NONE))
        return symc_fail(SYMMCOLL_ERR_INVALID,
            "fake_set_error: expected an error or OK, found %d", (int)error);
    atomic_store(&world->fake->error, error);
    return SYMMCOLL_OK;
}
