/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Groups found by tag and members, or created if there is none.
 */
#include "base/cancel.h"
#include "group/group.h"

#include <stdlib.h>
#include <string.h>

/* A copy of a call's ranks, all ranks for NULL; to be freed. */
struct listed {
    int *ranks;
    int count;
};

static symmcoll_status_t list_ranks(const char *where,
    const struct symmcoll_world *world, const int *given, int count,
    struct listed *listed)
{
    symmcoll_status_t status;

    listed->count = given != NULL ? count : world->size;
    status = symc_group_check_count(where, world, listed->count);
    if (status == SYMMCOLL_OK && given != NULL)
        status = symc_group_check_ranks(where, given, count, world->size);
    if (status != SYMMCOLL_OK)
        return status;
    listed->ranks = symc_alloc((size_t)listed->count, sizeof(*listed->ranks));
    if (listed->ranks == NULL)
        return SYMMCOLL_ERR_NO_MEMORY;
    for (int i = 0; i < listed->count; i++)
        listed->ranks[i] = given != NULL ? given[i] : i;
    return SYMMCOLL_OK;
}

struct symmcoll_group *symmcoll_group_find(
    struct symmcoll_world *world, const char *tag, const int *ranks, int nranks)
{
    struct listed listed;
    struct symmcoll_group *found;

    if (world == NULL ||
        list_ranks("group_find", world, ranks, nranks, &listed) != SYMMCOLL_OK)
        return NULL;
    found = symc_group_find_tag(world, tag, listed.ranks, listed.count, false);
    free(listed.ranks);
    return found;
}

/* Returns the start of this rank's run, or -1 if it is in none. */
static int find_run(
    const struct symmcoll_world *world, const struct listed *listed, int nrun)
{
    for (int i = 0; i < listed->count; i++) {
        if (listed->ranks[i] == world->rank)
            return i / nrun * nrun;
    }
    return -1;
}

/* Creates the groups in a fake world, which has no other ranks to agree
 * with. */
static symmcoll_status_t create_runs(struct symmcoll_world *world,
    const struct symmcoll_group_args *args, const struct listed *listed,
    int nrun, struct symmcoll_group **group)
{
    struct symmcoll_lists lists = {listed->ranks, NULL, listed->count / nrun};
    int *sizes = symc_alloc((size_t)lists.count, sizeof(*sizes));
    symmcoll_status_t status;

    if (sizes == NULL)
        return SYMMCOLL_ERR_NO_MEMORY;
    for (int i = 0; i < lists.count; i++)
        sizes[i] = nrun;
    lists.sizes = sizes;
    status = symmcoll_group_split_lists(world->all, &lists, args, group, NULL);
    free(sizes);
    return status;
}

static int compare_ranks(const void *a, const void *b)
{
    const int *first = a, *second = b;

    return (*first > *second) - (*first < *second);
}

/* Creates a run's group by a call of its members alone. */
static symmcoll_status_t create_run(struct symmcoll_world *world,
    const char *tag, const struct listed *listed, int run, int nrun,
    struct symmcoll_group **group)
{
    struct symmcoll_group_args args = SYMMCOLL_GROUP_ARGS_INIT, copy;
    struct symc_group_options options;
    struct symc_partition partition = {1, &nrun, listed->ranks + run};
    symmcoll_status_t status;

    args.tag = strncmp(tag, "user:", 5) == 0 ? tag + 5 : tag;
    args.description = "undefined";
    if (world->fake != NULL)
        return create_runs(world, &args, listed, nrun, group);
    status = symc_group_args_read(
        SYMC_FIND_GROUP, world->all, &args, &copy, &options);
    if (status != SYMMCOLL_OK)
        return status;
    qsort(listed->ranks + run, (size_t)nrun, sizeof(*listed->ranks),
        compare_ranks);
    return symc_group_find_or_create_local(
        world, &partition, &options, world->config->timeouts_init, group);
}

static symmcoll_status_t find_or_create(struct symmcoll_world *world,
    const char *tag, const struct listed *listed, int nrun,
    struct symmcoll_group **group)
{
    static const char where[] = "group_find_or_create";
    int run;

    if (nrun < 1 || listed->count % nrun != 0)
        return symc_fail(SYMMCOLL_ERR_INVALID,
            "%s: expected runs of a divisor of %d ranks, found %d", where,
            listed->count, nrun);
    run = find_run(world, listed, nrun);
    if (run < 0)
        return symc_fail(SYMMCOLL_ERR_INVALID,
            "%s: expected this rank, %d, among the ranks", where, world->rank);
    *group = symc_group_find_tag(world, tag, listed->ranks + run, nrun, true);
    if (*group != NULL)
        return SYMMCOLL_OK;
    if (tag == NULL || tag[0] == '\0' || strncmp(tag, "ptd:", 4) == 0)
        return symc_fail(SYMMCOLL_ERR_INVALID,
            "%s: expected a group of these ranks or a tag to make one with, "
            "found '%.64s'",
            where, tag != NULL ? tag : "");
    return create_run(world, tag, listed, run, nrun, group);
}

symmcoll_status_t symmcoll_group_find_or_create(struct symmcoll_world *world,
    const char *tag, const int *ranks, int nranks, int nrun,
    struct symmcoll_group **group)
{
    int cancel = symc_cancel_disable();
    struct listed listed = {NULL, 0};
    struct symmcoll_group *found = NULL;
    symmcoll_status_t status;

    if (world == NULL || group == NULL)
        status = symc_fail(SYMMCOLL_ERR_INVALID,
            "group_find_or_create: expected a world and a place for the group, "
            "found NULL");
    else
        status =
            list_ranks("group_find_or_create", world, ranks, nranks, &listed);
    if (status == SYMMCOLL_OK)
        status = find_or_create(world, tag, &listed, nrun, &found);
    if (status == SYMMCOLL_OK)
        *group = found;
    free(listed.ranks);
    symc_cancel_restore(cancel);
    return status;
}
