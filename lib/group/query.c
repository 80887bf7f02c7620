/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Queries of a group, its timeout, and its abort by a program.
 */
#include "group/group.h"

#include <math.h>

int symmcoll_group_rank(const struct symmcoll_group *group)
{
    return group == NULL ? -1 : group->runner.rank;
}

int symmcoll_group_size(const struct symmcoll_group *group)
{
    return group == NULL ? 0 : group->runner.size;
}

const char *symmcoll_group_name(const struct symmcoll_group *group)
{
    return group == NULL ? NULL : group->name;
}

struct symmcoll_world *symmcoll_group_world(const struct symmcoll_group *group)
{
    return group == NULL ? NULL : group->world;
}

int symmcoll_group_rank_of(const struct symmcoll_group *group, int global_rank)
{
    for (int r = 0; group != NULL && r < group->runner.size; r++) {
        if (group->runner.global[r] == global_rank)
            return r;
    }
    return -1;
}

int symmcoll_group_global_rank(const struct symmcoll_group *group, int rank)
{
    return group != NULL && rank >= 0 && rank < group->runner.size
               ? group->runner.global[rank]
               : -1;
}

uint64_t symmcoll_group_sequence(const struct symmcoll_group *group)
{
    if (group == NULL)
        return 0;
    return atomic_load_explicit(
        &group->runner.seq[SYMC_COUNT_COLLECTIVE], memory_order_relaxed);
}

symmcoll_status_t symmcoll_group_set_timeout(
    struct symmcoll_group *group, double timeout)
{
    symmcoll_status_t status;
    int64_t ns;

    if (group == NULL)
        return symc_fail(SYMMCOLL_ERR_INVALID,
            "group_set_timeout: expected a group, found NULL");
    status = symc_timeout_read(
        "group_set_timeout", timeout, group->first_timeout_ns, &ns);
    if (status == SYMMCOLL_OK)
        atomic_store(&group->runner.timeout_ns, ns);
    return status;
}

symmcoll_status_t symmcoll_group_set_stream(
    struct symmcoll_group *group, void *stream)
{
    if (group == NULL)
        return symc_fail(SYMMCOLL_ERR_INVALID,
            "group_set_stream: expected a group, found NULL");
    atomic_store(&group->runner.stream, stream);
    return SYMMCOLL_OK;
}

void *symmcoll_group_stream(const struct symmcoll_group *group)
{
    return group != NULL ? atomic_load(&group->runner.stream) : NULL;
}

void symmcoll_group_abort(struct symmcoll_group *group, const char *reason)
{
    char who[SYMC_RANK_TEXT];

    if (group == NULL || !symc_world_is_mine(group->world) ||
        !symc_group_is_member(group))
        return;
    symc_members_raise_one(&group->runner.members, SYMMCOLL_ERR_CANCELED, NULL,
        group->runner.rank, "%s aborted group %s%s%s",
        symc_format_rank(
            &group->runner.members.ranks, group->runner.rank, SYMC_NO_PID, who),
        group->name, reason != NULL ? ": " : "", reason != NULL ? reason : "");
}

symmcoll_status_t symmcoll_group_error(struct symmcoll_group *group)
{
    if (group == NULL)
        return symc_fail(
            SYMMCOLL_ERR_INVALID, "group_error: expected a group, found NULL");
    if (!symc_world_is_mine(group->world))
        return symc_fail(SYMMCOLL_ERR_INVALID,
            "group_error: expected the process that called init, found a fork "
            "of it");
    if (!symc_group_is_member(group))
        return symc_fail(SYMMCOLL_NOT_MEMBER,
            "group_error: rank %d is not in group %s", group->world->rank,
            group->name);
    if (!symc_members_failed(&group->runner.members))
        return SYMMCOLL_OK;
    return symc_members_status(&group->runner.members, NULL);
}

static const struct symmcoll_group_info no_info = SYMMCOLL_GROUP_INFO_INIT;
static const struct symc_sized info_kind = {.name = "info",
    .macro = "SYMMCOLL_GROUP_INFO_INIT",
    .defaults = &no_info,
    .nbytes = sizeof(no_info),
    .least = sizeof(no_info.size)};

symmcoll_status_t symmcoll_group_get_info(
    const struct symmcoll_group *group, struct symmcoll_group_info *info)
{
    struct symmcoll_group_info found = SYMMCOLL_GROUP_INFO_INIT;
    int64_t timeout;

    if (group == NULL || info == NULL)
        return symc_fail(SYMMCOLL_ERR_INVALID,
            "group_get_info: expected a group and an info, found NULL");
    timeout = atomic_load(&group->runner.timeout_ns);
    found.rank = group->runner.rank;
    found.nranks = group->runner.size;
    found.name = group->name;
    found.description = group->desc;
    found.tag = group->tag;
    if (symc_group_is_member(group))
        found.backend = group->runner.slots[SYMC_MEMORY_HOST].backend->name;
    found.timeout = timeout == SYMC_NEVER
                        ? (double)INFINITY
                        : (double)timeout / (double)SYMC_NS_PER_S;
    found.staging = group->runner.staging_nbytes;
    found.uid = group->uid;
    found.splits = atomic_load(&group->splits);
    return symc_sized_write(&info_kind, "group_get_info", &found, info);
}
