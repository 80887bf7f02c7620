/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Dumps on request: the monitor reads one FIFO per rank; anything written to it
 * requests a dump of the rank's record.
 */
#include "base/descriptor.h"
#include "world/world.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* reads of 4 KiB per round: the capacity of a pipe */
#define READS 16
#define PAUSE_NS SYMC_NS_PER_S /* least time between two requested dumps */

/* Returns 0 if a process reads the FIFO, ENXIO if none does, or another error
 * of open(). */
static int find_reader(int folder, const char *name)
{
    int fd = symc_descriptor_raise(
        openat(folder, name, O_WRONLY | O_NONBLOCK | O_CLOEXEC | O_NOFOLLOW));

    if (fd < 0)
        return errno;
    close(fd);
    return 0;
}

/* Creates the FIFO. One left by an earlier run is replaced unless a process
 * reads it (EBUSY). The folder has been checked: no other user can replace
 * files there. */
static int make_fifo(int folder, const char *name)
{
    struct stat old;
    int error;

    if (fstatat(folder, name, &old, AT_SYMLINK_NOFOLLOW) == 0) {
        if (!S_ISFIFO(old.st_mode) || old.st_uid != geteuid())
            return EEXIST;
        error = find_reader(folder, name);
        if (error != ENXIO)
            return error == 0 ? EBUSY : error;
        if (unlinkat(folder, name, 0) != 0)
            return errno;
    }
    return mkfifoat(folder, name, 0600) == 0 ? 0 : errno;
}

/* Creates and opens the FIFO for reading and writing, so that it never reaches
 * end of file when a writer closes it. */
static int open_fifo(int folder, const char *name, int *fd)
{
    struct stat made;
    int error = make_fifo(folder, name);

    if (error != 0)
        return error;
    *fd = symc_descriptor_raise(
        openat(folder, name, O_RDWR | O_NONBLOCK | O_CLOEXEC | O_NOFOLLOW));
    if (*fd < 0) {
        error = errno;
        goto unlink_fifo;
    }
    if (fstat(*fd, &made) != 0) {
        error = errno;
        goto close_fifo;
    }
    if (S_ISFIFO(made.st_mode) && made.st_uid == geteuid())
        return 0;
    close(*fd);
    return EEXIST; /* another user's: it is kept */

close_fifo:
    close(*fd);
unlink_fifo:
    (void)unlinkat(folder, name, 0);
    return error;
}

static symmcoll_status_t open_pipe(
    struct symmcoll_world *world, struct symc_dump_pipe *pipe)
{
    const char *name;
    symmcoll_status_t status = symc_trace_pipe_path(world->config, world->name,
        world->rank, pipe->path, sizeof(pipe->path));
    int error;

    if (status == SYMMCOLL_OK)
        status = symc_folder_open(pipe->path, &pipe->folder, &name);
    if (status != SYMMCOLL_OK)
        return status;
    error = open_fifo(pipe->folder, name, &pipe->fd);
    pipe->name = name;
    if (error == 0)
        return SYMMCOLL_OK;
    close(pipe->folder);
    pipe->fd = -1;
    if (error == EBUSY)
        return symc_fail(SYMMCOLL_ERR_INVALID,
            "%s: expected a FIFO without a reader or nothing, found that of "
            "another process",
            pipe->path);
    return error == EEXIST
               ? symc_fail(SYMMCOLL_ERR_INVALID,
                     "%s: expected a FIFO of this user or nothing, found "
                     "something else",
                     pipe->path)
               : symc_fail_errno(SYMMCOLL_ERR_SYSTEM, error, "%s", pipe->path);
}

void symc_world_open_pipe(struct symmcoll_world *world)
{
    struct symc_dump_pipe *pipe = &world->monitor.pipe;

    pipe->fd = -1;
    if (world->config->trace_dump_pipe[0] == '\0')
        return;
    if (world->trace.capacity == 0) {
        symc_logf(&world->log, SYMC_LOG_WARN,
            "trace.dump_pipe: there are no dumps on request: "
            "trace.buffer_size is 0");
        return;
    }
    if (open_pipe(world, pipe) != SYMMCOLL_OK)
        symc_logf(&world->log, SYMC_LOG_WARN,
            "trace.dump_pipe: there are no dumps on request: %s",
            symmcoll_last_error());
}

/* Reads what was written.  Returns whether there was anything.  The number of
 * reads is bounded so that an endless writer cannot hold the monitor; the rest
 * is left to the next round. */
static bool drain(int fd)
{
    char bytes[4096];
    bool any = false;

    for (int i = 0; i < READS && read(fd, bytes, sizeof(bytes)) > 0; i++)
        any = true;
    return any;
}

void symc_world_read_pipe(struct symmcoll_world *world)
{
    struct symc_dump_pipe *pipe = &world->monitor.pipe;
    char path[PATH_MAX];
    symmcoll_status_t status;
    int64_t now;

    if (pipe->fd < 0)
        return;
    pipe->requested = drain(pipe->fd) || pipe->requested;
    if (!pipe->requested)
        return;
    now = symc_now_ns();
    if (now < pipe->next_ns)
        return;
    pipe->requested = false;
    pipe->next_ns = now + PAUSE_NS;
    status = symc_trace_path(world->config, world->job, world->name,
        world->rank, path, sizeof(path));
    if (status == SYMMCOLL_OK)
        status =
            symc_world_dump(world, world->rank, path, 0, "on request", NULL);
    symc_logf(&world->log,
        status == SYMMCOLL_OK ? SYMC_LOG_INFO : SYMC_LOG_WARN,
        "on request: flight recorder of rank %d: %s", world->rank,
        status == SYMMCOLL_OK ? path : symmcoll_last_error());
}

void symc_world_close_pipe(struct symmcoll_world *world)
{
    struct symc_dump_pipe *pipe = &world->monitor.pipe;
    struct stat mine, named;

    if (pipe->fd < 0)
        return;
    /* A later world of this rank may have created its own. */
    if (fstat(pipe->fd, &mine) == 0 &&
        fstatat(pipe->folder, pipe->name, &named, AT_SYMLINK_NOFOLLOW) == 0 &&
        mine.st_ino == named.st_ino && mine.st_dev == named.st_dev)
        (void)unlinkat(pipe->folder, pipe->name, 0);
    close(pipe->fd);
    close(pipe->folder);
    pipe->fd = -1;
}
