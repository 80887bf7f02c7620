/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Ends a rank when its launcher has died.  The kernel kills the launcher's own
 * children with it (PR_SET_PDEATHSIG), but if the launcher has started a
 * wrapper such as a shell, only the wrapper dies.  So each rank's monitor
 * watches the launcher too.
 */
#include "segment/liveness.h"
#include "world/world.h"

#include <poll.h>
#include <signal.h>
#include <unistd.h>

void symc_world_watch_launcher(struct symmcoll_world *world)
{
    world->launcher_inode = symc_liveness_pidfd_inode(world->launcher);
}

void symc_world_end_orphan(const struct symmcoll_world *world)
{
    struct pollfd polled = {.fd = world->launcher, .events = POLLIN};

    if (world->launcher < 0 || poll(&polled, 1, 0) != 1 ||
        (polled.revents & POLLIN) == 0 ||
        !symc_liveness_is_pidfd(world->launcher, world->launcher_inode))
        return;
    symc_logf(&world->log, SYMC_LOG_ERROR,
        "the launcher has died: process %d ends, as all its ranks do",
        (int)getpid());
    (void)kill(getpid(), SIGKILL);
}
