/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * symmcoll_group_create(): what is asked for, checked on this rank.
 */
#include "base/cancel.h"
#include "group/group.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

static const struct symmcoll_group_args default_args = SYMMCOLL_GROUP_ARGS_INIT;
static const struct symc_sized args_kind = {.name = "args",
    .macro = "SYMMCOLL_GROUP_ARGS_INIT",
    .defaults = &default_args,
    .nbytes = sizeof(default_args),
    .least = sizeof(default_args.size)};

/* A name of a number alone could be that of a later group. */
static symmcoll_status_t check_name(const char *name)
{
    const char *at = name;

    if (name == NULL)
        return SYMMCOLL_OK;
    while (isdigit((unsigned char)*at) || *at == '.')
        at++;
    if (*at == '\0' || strlen(name) >= SYMC_GROUP_NAME)
        return symc_fail(SYMMCOLL_ERR_INVALID,
            "group_create: expected a name of 1 to %d bytes that is not a "
            "number, found '%.64s'",
            SYMC_GROUP_NAME - 1, name);
    return SYMMCOLL_OK;
}

/* The members in the order of the world, in an array to be freed. */
static symmcoll_status_t read_ranks(
    const struct symmcoll_world *world, const int *given, int count, int *ranks)
{
    bool listed[SYMC_RANKS_MAX] = {false};
    int n = 0;

    for (int i = 0; i < count; i++) {
        if (given[i] < 0 || given[i] >= world->size)
            return symc_fail(SYMMCOLL_ERR_INVALID,
                "group_create: expected ranks of 0 to %d, found %d",
                world->size - 1, given[i]);
        if (listed[given[i]])
            return symc_fail(SYMMCOLL_ERR_INVALID,
                "group_create: expected each rank once, found %d twice",
                given[i]);
        listed[given[i]] = true;
    }
    for (int r = 0; r < world->size; r++) {
        if (listed[r] || given == NULL)
            ranks[n++] = r;
    }
    return SYMMCOLL_OK;
}

static symmcoll_status_t check_args(const struct symmcoll_world *world,
    const struct symmcoll_group_args *args, struct symc_group_options *options)
{
    const char *desc =
        args->description != NULL ? args->description : "undefined";
    symmcoll_status_t status = check_name(args->name);

    if (status != SYMMCOLL_OK)
        return status;
    if (args->ranks != NULL && (args->nranks < 1 || args->nranks > world->size))
        return symc_fail(SYMMCOLL_ERR_INVALID,
            "group_create: expected 1 to %d ranks, found %d", world->size,
            args->nranks);
    if (strlen(desc) >= SYMC_GROUP_DESC)
        return symc_fail(SYMMCOLL_ERR_INVALID,
            "group_create: expected a description of at most %d bytes, found "
            "%zu",
            SYMC_GROUP_DESC - 1, strlen(desc));
    if ((args->flags & ~(uint32_t)SYMMCOLL_GROUP_LOCAL) != 0)
        return symc_fail(SYMMCOLL_ERR_INVALID,
            "group_create: expected flags of enum symmcoll_group_flags, found "
            "0x%x",
            args->flags);
    if ((args->flags & SYMMCOLL_GROUP_LOCAL) != 0)
        return symc_fail(SYMMCOLL_ERR_UNSUPPORTED,
            "group_create: SYMMCOLL_GROUP_LOCAL is not supported in this "
            "release");
    *options = (struct symc_group_options){.name = args->name, .desc = desc};
    return symc_timeout_read("group_create", args->timeout,
        world->config->timeouts_collective, &options->timeout_ns);
}

static symmcoll_status_t create(struct symmcoll_world *world,
    const struct symmcoll_group_args *args, struct symmcoll_group **group)
{
    struct symc_group_options options;
    struct symc_partition partition = {.count = 1};
    struct symmcoll_group *made;
    int size = args->ranks != NULL ? args->nranks : world->size;
    symmcoll_status_t status = check_args(world, args, &options);
    int *ranks;

    if (status != SYMMCOLL_OK)
        return status;
    ranks = symc_alloc((size_t)size, sizeof(*ranks));
    if (ranks == NULL)
        return SYMMCOLL_ERR_NO_MEMORY;
    partition.sizes = &size;
    partition.ranks = ranks;
    status =
        read_ranks(world, args->ranks, args->ranks != NULL ? size : 0, ranks);
    if (status == SYMMCOLL_OK)
        status = symc_groups_create(world->all, &partition, &options, &made);
    free(ranks);
    if (status == SYMMCOLL_OK)
        *group = made;
    return status;
}

/* The world, and the thread. */
static symmcoll_status_t check_call(
    struct symmcoll_world *world, struct symmcoll_group *const *group)
{
    if (world == NULL || group == NULL)
        return symc_fail(SYMMCOLL_ERR_INVALID,
            "group_create: expected a world and a place for the group, found "
            "NULL");
    if (!symc_world_is_mine(world))
        return symc_fail(SYMMCOLL_ERR_INVALID,
            "group_create: expected the process that called init, found a fork "
            "of it");
    if (symc_callbacks_inside_queue(
            &world->origin->callbacks, world->all->queue))
        return symc_fail(SYMMCOLL_ERR_INVALID,
            "group_create: expected no blocking call on the callback thread, "
            "in a callback of the same group");
    return SYMMCOLL_OK;
}

symmcoll_status_t symmcoll_group_create(struct symmcoll_world *world,
    const struct symmcoll_group_args *args, struct symmcoll_group **group)
{
    int cancel = symc_cancel_disable();
    symmcoll_status_t status = check_call(world, group);
    struct symmcoll_group_args read;

    if (status == SYMMCOLL_OK)
        status = symc_sized_read(&args_kind, "group_create", args, &read);
    if (status == SYMMCOLL_OK)
        status = create(world, &read, group);
    symc_cancel_restore(cancel);
    return status;
}
