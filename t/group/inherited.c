/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Tests the settings that a group inherits from its parent, and its backends.
 */
#include "../tap.h"

#include "group/group.h"

#include <stdlib.h>

static int dropped;

static void drop(void *made)
{
    dropped += made == &dropped;
}

static const struct symc_admin_ops admin = {.drop = drop};
static const struct symc_backend parents = {.name = "one", .admin = &admin};
static const struct symc_backend other = {.name = "two"};

int main(void)
{
    struct symmcoll_group *group = calloc(1, sizeof(*group));

    if (group == NULL)
        exit(1);
    group->runner.inherited = (struct symc_inherited){&parents, &dropped};
    group->runner.opened = &other;
    ok(symc_run_inherit(&group->runner) == NULL &&
            group->runner.inherited.made == &dropped,
        "a slot that another backend opens inherits nothing");
    symc_group_drop_inherited(group);
    symc_group_drop_inherited(group);
    ok(dropped == 1 && group->runner.inherited.made == NULL,
        "what was not taken is dropped once, by the backend that made it");
    group->runner.inherited = (struct symc_inherited){&parents, &dropped};
    group->runner.opened = &parents;
    ok(symc_run_inherit(&group->runner) == &dropped &&
            symc_run_inherit(&group->runner) == NULL,
        "a slot of the same backend takes it, once");
    symc_group_drop_inherited(group);
    ok(dropped == 1, "what was taken is not dropped");
    free(group);
    return done_testing();
}
