/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A rank that its launcher leaves behind.  The kernel ends the launcher's own
 * children with it (PR_SET_PDEATHSIG), but where the launcher has started a
 * wrapper, such as a shell, that is the wrapper alone.  So the monitor of each
 * rank watches the launcher too.
 */
#include "world/world.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

void symc_world_watch_launcher(struct symmcoll_world *world)
{
    struct stat info;

    if (world->launcher >= 0 && fstat(world->launcher, &info) == 0)
        world->launcher_inode = info.st_ino;
}

/* Whether the descriptor still is what it was: a program that closes those it
 * does not know may by now have something else under its number. */
static bool is_launcher(const struct symmcoll_world *world)
{
    struct stat info;

    return fstat(world->launcher, &info) == 0 &&
           info.st_ino == world->launcher_inode &&
           (syscall(SYS_pidfd_send_signal, world->launcher, 0, NULL, 0) == 0 ||
               errno != EBADF);
}

void symc_world_end_orphan(const struct symmcoll_world *world)
{
    struct pollfd polled = {.fd = world->launcher, .events = POLLIN};

    if (world->launcher < 0 || poll(&polled, 1, 0) != 1 ||
        (polled.revents & POLLIN) == 0 || !is_launcher(world))
        return;
    symc_logf(&world->log, SYMC_LOG_ERROR,
        "the launcher has died: process %d ends, as all its ranks do",
        (int)getpid());
    (void)kill(getpid(), SIGKILL);
}
