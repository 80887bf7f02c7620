/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Checks of a program's request for new groups on this rank;
 * symmcoll_group_create().
 */
#include "base/cancel.h"
#include "group/group.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct symmcoll_group_args default_args = SYMMCOLL_GROUP_ARGS_INIT;
static const struct symc_sized args_kind = {.name = "args",
    .macro = "SYMMCOLL_GROUP_ARGS_INIT",
    .defaults = &default_args,
    .nbytes = sizeof(default_args),
    .least = sizeof(default_args.size)};

/* ---- arguments ---- */

/* Checks that a UTF-8 text has no control characters; bytes of other characters
 * are never in their range. */
static bool is_printable(const char *text)
{
    while ((unsigned char)*text >= ' ' && *text != 0x7f)
        text++;
    return *text == '\0';
}

static symmcoll_status_t check_name(const char *where, const char *name)
{
    char shown[2 * SYMC_GROUP_NAME];

    if (name == NULL)
        return SYMMCOLL_OK;
    if (!is_printable(name)) {
        snprintf(shown, sizeof(shown), "%s", name);
        symc_make_printable(shown);
        return symc_fail(SYMMCOLL_ERR_INVALID,
            "%s: expected a name without control characters, found '%s'", where,
            shown);
    }
    if (name[0] == '\0' || strlen(name) >= SYMC_GROUP_NAME)
        return symc_fail(SYMMCOLL_ERR_INVALID,
            "%s: expected a name of 1 to %d bytes, found %zu: '%.64s'", where,
            SYMC_GROUP_NAME - 1, strlen(name), name);
    return SYMMCOLL_OK;
}

/* Checks a tag: printable and without the prefixes "user:" and "ptd:", which
 * symmcoll_group_get_info() returns. */
static symmcoll_status_t check_tag(const char *where, const char *tag)
{
    char shown[2 * SYMC_GROUP_TAG];

    if (tag == NULL ||
        (tag[0] != '\0' && strlen(tag) < SYMC_GROUP_TAG && is_printable(tag) &&
            strncmp(tag, "user:", 5) != 0 && strncmp(tag, "ptd:", 4) != 0))
        return SYMMCOLL_OK;
    snprintf(shown, sizeof(shown), "%s", tag);
    symc_make_printable(shown);
    return symc_fail(SYMMCOLL_ERR_INVALID,
        "%s: expected a tag of 1 to %d bytes without control characters that "
        "begins with neither user: nor ptd:, found '%.64s'",
        where, SYMC_GROUP_TAG - 1, shown);
}

static symmcoll_status_t check_flags(
    enum symc_kind kind, const struct symmcoll_group_args *args)
{
    const uint32_t known = SYMMCOLL_GROUP_LOCAL | SYMMCOLL_GROUP_UNSORTED;
    const char *where = symc_kind_name(kind);

    if ((args->flags & ~known) != 0)
        return symc_fail(SYMMCOLL_ERR_INVALID,
            "%s: expected flags of enum symmcoll_group_flags, found 0x%x",
            where, args->flags);
    if (args->flags != 0 && kind == SYMC_SPLIT_GROUP)
        return symc_fail(SYMMCOLL_ERR_UNSUPPORTED,
            "%s: expected flags of 0, for colors and keys of all members choose "
            "ranks and order, found 0x%x",
            where, args->flags);
    if ((args->flags & SYMMCOLL_GROUP_UNSORTED) != 0 && args->tag != NULL)
        return symc_fail(SYMMCOLL_ERR_INVALID,
            "%s: expected no tag with SYMMCOLL_GROUP_UNSORTED, for a group with "
            "a tag is found by its members in any order, found '%s'",
            where, args->tag);
    return SYMMCOLL_OK;
}

/* Checks the parent and the calling thread. */
static symmcoll_status_t check_call(
    enum symc_kind kind, struct symmcoll_group *parent)
{
    const char *where = symc_kind_name(kind);

    if (parent == NULL)
        return symc_fail(SYMMCOLL_ERR_INVALID,
            "%s: expected a group to make others of, found NULL", where);
    if (*parent->alive == SYMC_GROUP_OUTSIDE)
        return symc_group_refuse(parent, kind);
    if (*parent->alive != 1)
        return symc_fail(SYMMCOLL_ERR_INVALID,
            "%s: expected the process that called init, found a fork of it",
            where);
    if (symc_queue_in_callback(parent->runner.queue))
        return symc_callbacks_refuse(where);
    return SYMMCOLL_OK;
}

symmcoll_status_t symc_group_args_read(enum symc_kind kind,
    struct symmcoll_group *parent, const struct symmcoll_group_args *args,
    struct symmcoll_group_args *copy, struct symc_group_options *options)
{
    const char *where = symc_kind_name(kind);
    symmcoll_status_t status = check_call(kind, parent);
    int64_t timeout;

    if (status != SYMMCOLL_OK)
        return status;
    status = symc_sized_read(&args_kind, where, args, copy);
    if (status != SYMMCOLL_OK)
        return status;
    status = check_name(where, copy->name);
    if (status != SYMMCOLL_OK)
        return status;
    status = check_tag(where, copy->tag);
    if (status != SYMMCOLL_OK)
        return status;
    status = check_flags(kind, copy);
    if (status != SYMMCOLL_OK)
        return status;
    if (copy->description != NULL &&
        strlen(copy->description) >= SYMC_GROUP_DESC)
        return symc_fail(SYMMCOLL_ERR_INVALID,
            "%s: expected a description of at most %d bytes, found %zu", where,
            SYMC_GROUP_DESC - 1, strlen(copy->description));
    timeout = parent == parent->world->all
                  ? parent->world->config->timeouts_collective
                  : atomic_load(&parent->runner.timeout_ns);
    *options = (struct symc_group_options){.kind = kind,
        .where = where,
        .name = copy->name,
        .desc = copy->description,
        .staging = copy->staging,
        .tag = copy->tag,
        .unsorted = (copy->flags & SYMMCOLL_GROUP_UNSORTED) != 0};
    return symc_timeout_read(
        where, copy->timeout, timeout, &options->timeout_ns);
}

symmcoll_status_t symc_group_check_ranks(
    const char *where, const int *ranks, int nranks, int size)
{
    bool listed[SYMC_RANKS_MAX] = {false};

    for (int i = 0; i < nranks; i++) {
        if (ranks[i] < 0 || ranks[i] >= size)
            return symc_fail(SYMMCOLL_ERR_INVALID,
                "%s: expected ranks of 0 to %d, found %d", where, size - 1,
                ranks[i]);
        if (listed[ranks[i]])
            return symc_fail(SYMMCOLL_ERR_INVALID,
                "%s: expected each rank once, found %d twice", where, ranks[i]);
        listed[ranks[i]] = true;
    }
    return SYMMCOLL_OK;
}

/* ---- one group ---- */

/* Stores the members: ascending, or in the given order if unsorted. */
static void order_ranks(
    const struct symmcoll_group_args *args, int count, int size, int *ranks)
{
    bool listed[SYMC_RANKS_MAX] = {false};
    const int *given = args->ranks;
    int n = 0;

    if (given != NULL && (args->flags & SYMMCOLL_GROUP_UNSORTED) != 0) {
        memcpy(ranks, given, (size_t)count * sizeof(*ranks));
        return;
    }
    for (int i = 0; given != NULL && i < count; i++)
        listed[given[i]] = true;
    for (int r = 0; r < size; r++) {
        if (listed[r] || given == NULL)
            ranks[n++] = r;
    }
}

symmcoll_status_t symc_group_create_by_members(struct symmcoll_world *world,
    const struct symmcoll_group_args *args,
    const struct symc_partition *partition,
    const struct symc_group_options *options, struct symmcoll_group **made)
{
    int64_t wait_ns;
    symmcoll_status_t status = symc_timeout_read(
        options->where, args->timeout, world->config->timeouts_init, &wait_ns);

    *made = NULL;
    if (status != SYMMCOLL_OK)
        return status;
    return options->tag != NULL ? symc_group_find_or_create_local(
                                      world, partition, options, wait_ns, made)
                                : symc_group_create_local(
                                      world, partition, options, wait_ns, made);
}

/* Reports to the other members that this rank has no memory for the call.
 * Local calls must name the group, so its ranks are on the stack. */
static __attribute__((noinline)) symmcoll_status_t refuse(
    struct symmcoll_world *world, const struct symmcoll_group_args *args,
    const struct symc_group_options *options, int size)
{
    struct symc_group_options refusing = *options;
    struct symmcoll_group *none;
    int ranks[SYMC_RANKS_MAX];
    const struct symc_partition partition = {
        .count = 1, .sizes = &size, .ranks = ranks};

    if ((args->flags & SYMMCOLL_GROUP_LOCAL) == 0)
        return symc_groups_refuse(world->all, options, SYMMCOLL_ERR_NO_MEMORY);
    order_ranks(args, size, world->size, ranks);
    refusing.refused = SYMMCOLL_ERR_NO_MEMORY;
    return symc_group_create_by_members(
        world, args, &partition, &refusing, &none);
}

symmcoll_status_t symc_group_check_length(
    const char *where, const int *sizes, int list, int *sum, int size)
{
    if (sizes[list] < 1)
        return symc_fail(SYMMCOLL_ERR_INVALID,
            "%s: expected one rank or more in list %d, found %d", where, list,
            sizes[list]);
    if (sizes[list] > size - *sum)
        return symc_fail(SYMMCOLL_ERR_INVALID,
            "%s: expected no more ranks in all lists than there are, which is "
            "%d, found %lld up to list %d",
            where, size, (long long)*sum + sizes[list], list);
    *sum += sizes[list];
    return SYMMCOLL_OK;
}

symmcoll_status_t symc_group_check_count(
    const char *where, const struct symmcoll_world *world, int count)
{
    if (count < 1)
        return symc_fail(SYMMCOLL_ERR_INVALID,
            "%s: expected one rank or more, found %d", where, count);
    if (count > world->size)
        return symc_fail(SYMMCOLL_ERR_INVALID,
            "%s: expected no more ranks than the world has, which is %d, found "
            "%d",
            where, world->size, count);
    return SYMMCOLL_OK;
}

static symmcoll_status_t create(struct symmcoll_world *world,
    const struct symmcoll_group_args *args,
    const struct symc_group_options *options, struct symmcoll_group **group)
{
    struct symc_partition partition = {.count = 1};
    struct symmcoll_group *made;
    int size = args->ranks != NULL ? args->nranks : world->size;
    symmcoll_status_t status;
    int *ranks;

    status = symc_group_check_count("group_create", world, size);
    if (status != SYMMCOLL_OK)
        return status;
    if (args->ranks != NULL) {
        status = symc_group_check_ranks(
            "group_create", args->ranks, size, world->size);
        if (status != SYMMCOLL_OK)
            return status;
    }
    partition.sizes = &size;
    ranks = symc_alloc((size_t)size, sizeof(*ranks));
    if (ranks == NULL)
        return refuse(world, args, options, size);
    order_ranks(args, size, world->size, ranks);
    partition.ranks = ranks;
    if ((args->flags & SYMMCOLL_GROUP_LOCAL) != 0)
        status = symc_group_create_by_members(
            world, args, &partition, options, &made);
    else
        status = symc_groups_create(world->all, &partition, options, &made);
    free(ranks);
    if (status == SYMMCOLL_OK || status == SYMMCOLL_NOT_MEMBER)
        *group = made; /* NULL for a rank that is not in a local group */
    return status;
}

symmcoll_status_t symmcoll_group_create(struct symmcoll_world *world,
    const struct symmcoll_group_args *args, struct symmcoll_group **group)
{
    int cancel = symc_cancel_disable();
    struct symmcoll_group_args copy;
    struct symc_group_options options = {0};
    symmcoll_status_t status;

    if (world == NULL || group == NULL)
        status = symc_fail(SYMMCOLL_ERR_INVALID,
            "group_create: expected a world and a place for the group, found "
            "NULL");
    else
        status = symc_group_args_read(
            SYMC_CREATE_GROUP, world->all, args, &copy, &options);
    if (status == SYMMCOLL_OK) {
        options.outside = true;
        options.reuse = options.tag != NULL;
        if (options.desc == NULL)
            options.desc = "undefined";
        status = create(world, &copy, &options, group);
    }
    symc_cancel_restore(cancel);
    return status;
}
