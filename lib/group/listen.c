/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * symmcoll_group_notify() and symmcoll_group_unnotify().
 */
#include "group/group.h"

/* Checks the arguments of both calls. */
static symmcoll_status_t check(
    const char *where, struct symmcoll_group *group, symmcoll_operation_fn fn)
{
    if (group == NULL || fn == NULL)
        return symc_fail(SYMMCOLL_ERR_INVALID,
            "%s: expected a group and a function, found NULL", where);
    if (!symc_group_is_member(group)) {
        symc_fail(SYMMCOLL_NOT_MEMBER, "%s: rank %d is not in group %s", where,
            group->world->rank, group->name);
        return SYMMCOLL_NOT_MEMBER;
    }
    if (*group->alive != 1)
        return symc_fail(SYMMCOLL_ERR_INVALID,
            "%s: expected the process that called init, found a fork of it",
            where);
    return SYMMCOLL_OK;
}

symmcoll_status_t symmcoll_group_notify(
    struct symmcoll_group *group, symmcoll_operation_fn fn, void *arg)
{
    symmcoll_status_t status = check("group_notify", group, fn);

    return status == SYMMCOLL_OK ? symc_run_listen(&group->runner, fn, arg)
                                 : status;
}

symmcoll_status_t symmcoll_group_unnotify(
    struct symmcoll_group *group, symmcoll_operation_fn fn, void *arg)
{
    symmcoll_status_t status = check("group_unnotify", group, fn);

    return status == SYMMCOLL_OK ? symc_run_unlisten(&group->runner, fn, arg)
                                 : status;
}
