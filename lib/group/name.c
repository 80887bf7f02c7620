/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What groups are called.
 */
#include "group/group.h"

#include <stdio.h>
#include <string.h>

/* A name with that of its world, for a process may have several.  Those of the
 * default world are as torch.distributed's. */
static void format_name(const struct symmcoll_world *world, const char *name,
    char *buffer, size_t nbytes)
{
    bool usual = strcmp(world->name, SYMC_WORLD_DEFAULT) == 0;

    snprintf(buffer, nbytes, "%s%s%s", usual ? "" : world->name,
        usual ? "" : "/", name);
}

void symc_group_plan_name(const struct symmcoll_world *world,
    struct symc_group_plan *plan, unsigned int number, const char *name)
{
    snprintf(plan->id, sizeof(plan->id), "%u", number);
    format_name(
        world, name != NULL ? name : plan->id, plan->name, sizeof(plan->name));
    if (number == 0)
        format_name(world, "default_pg", plan->desc, sizeof(plan->desc));
}
