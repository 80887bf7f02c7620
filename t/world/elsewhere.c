/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Tests a rank on another machine, which has no block here. Init still refuses
 * several machines, so a rank pretends that its peer's block is absent:
 * functions that read the block must do without it.
 */
#include "../ranks.h"
#include "../tap.h"

#include "group/group.h"

#include <symmcoll.h>

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

extern const struct symc_backend symc_host_backend;

#define RIGHT(condition) (right = say((condition), #condition) && right)

static bool say(bool holds, const char *what)
{
    if (!holds)
        diag("%s: %s", what, symmcoll_last_error());
    return holds;
}

/* Waits until another rank has failed the group. */
static int waits_for_the_end(struct symmcoll_group *group)
{
    while (symmcoll_group_error(group) == SYMMCOLL_OK)
        usleep(1000);
    return strstr(symmcoll_last_error(), "is on another machine") != NULL;
}

static void take_away(struct symmcoll_group *group, int peer)
{
    memset(&group->world->peers[peer].view, 0,
        sizeof(group->world->peers[peer].view));
    group->runner.members.failures[peer] = NULL;
    group->runner.doorbells[peer] = NULL;
}

static int does_without(struct symmcoll_group *group, int rank)
{
    struct symc_op op = {
        .kind = SYMC_BARRIER, .elem = 1, .seq = 1, .timeout_ns = 5};
    struct symc_failure note;
    const bool missing[2] = {false, true};
    size_t nbytes;
    char end[64];
    bool right = true;

    if (rank == 1)
        return waits_for_the_end(group);
    take_away(group, 1);
    usleep(100000); /* rounds of the monitor */
    RIGHT(symc_host_backend.probe(&group->runner.peers) ==
              SYMMCOLL_ERR_UNSUPPORTED &&
          strstr(symmcoll_last_error(), "found member 1 on another") != NULL);
    RIGHT(symc_liveness_state(&group->world->peers[1]) == SYMC_LIVENESS_ALIVE);
    RIGHT(!symc_liveness_format_end(&group->world->peers[1], end, sizeof(end)));
    RIGHT(symc_world_ring(group->world, 1, &nbytes) == NULL);
    RIGHT(symc_world_dump(group->world, 1, "/dev/null", 0, "why", NULL) ==
          SYMMCOLL_ERR_INVALID);
    RIGHT(!symc_members_failed(&group->runner.members));
    RIGHT(!symc_members_find_note(&group->runner.members, 1, &note));
    group->runner.core.wake(&group->runner, -1);
    RIGHT(!group->runner.core.failed(&group->runner, 1));
    /* The failure reaches the other rank through this rank's record. */
    RIGHT(group->runner.core.expire(&group->runner, &op, missing, NULL) ==
              SYMMCOLL_ERR_TIMEOUT &&
          strstr(symmcoll_last_error(), "is on another machine") != NULL);
    RIGHT(symmcoll_group_error(group) == SYMMCOLL_ERR_TIMEOUT);
    return right;
}

int main(void)
{
    const char *sanitizer = getenv("T_SANITIZER");

    /* The test removes the block while the monitor uses it, which no program
     * does. */
    if (sanitizer != NULL && strstr(sanitizer, "thread") != NULL)
        skip_all("ThreadSanitizer sees the test itself");
    plan(1);
    setenv("SYMMCOLL_HOST_WATCH", "5ms", 1);
    ok(ranks_run(2, does_without), "a peer without a block here is no crash");
    return done_testing();
}
