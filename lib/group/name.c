/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Names of groups.
 */
#include "base/digest.h"
#include "group/group.h"

#include <stdio.h>
#include <string.h>

/* Formats a name with its world's, as a process may have several worlds.  Names
 * in the default world are torch.distributed's. */
static void format_name(const struct symmcoll_world *world, const char *name,
    char *buffer, size_t nbytes)
{
    bool usual = strcmp(world->name, SYMC_WORLD_DEFAULT) == 0;

    snprintf(buffer, nbytes, "%s%s%s", usual ? "" : world->name,
        usual ? "" : "/", name);
}

/* Formats a group's number; a text that does not fit is replaced by its
 * digest. */
static void format_id(
    const struct symmcoll_group *parent, unsigned int number, char *id)
{
    char whole[SYMC_GROUP_ID + 16];
    struct symc_digest digest = SYMC_DIGEST_INIT;

    if (parent == NULL || parent == parent->world->all)
        snprintf(whole, sizeof(whole), "%u", number);
    else
        snprintf(whole, sizeof(whole), "%s.%u", parent->id, number);
    if (strlen(whole) < SYMC_GROUP_ID) {
        memcpy(id, whole, strlen(whole) + 1);
        return;
    }
    symc_digest_add(&digest, "group", whole);
    snprintf(id, SYMC_GROUP_ID, "%016llx", (unsigned long long)digest.a);
}

void symc_group_plan_name(const struct symmcoll_world *world,
    const struct symmcoll_group *parent, struct symc_group_plan *plan,
    unsigned int number, const char *name)
{
    char child[SYMC_TRACE_NAME + 16] = "";

    format_id(parent, number, plan->id);
    if (parent != NULL && parent != world->all)
        snprintf(child, sizeof(child), "%s.%u", parent->name, number);
    if (name != NULL || child[0] == '\0' || strlen(child) >= SYMC_TRACE_NAME)
        format_name(world, name != NULL ? name : plan->id, plan->name,
            sizeof(plan->name));
    else
        memcpy(plan->name, child, strlen(child) + 1);
    if (plan->tag[0] == '\0')
        snprintf(plan->tag, sizeof(plan->tag), "ptd:%s", plan->name);
    if (parent == NULL)
        format_name(world, "default_pg", plan->desc, sizeof(plan->desc));
}
