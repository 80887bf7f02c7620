/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Opens folders in which files are written.
 *
 * A folder is opened one component at a time, from the root or the current
 * folder, and each component is checked on the open descriptor, so that it
 * cannot be replaced between check and use.
 */
#include "base/base.h"
#include "base/descriptor.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define LINKS_MAX 40 /* the kernel's limit */

struct walk {
    const char *path; /* for messages */
    int fd;           /* the folder reached; -1: none yet */
    struct stat info; /* of that folder */
    int links;        /* symbolic links followed */
    bool privileged;
};

static symmcoll_status_t walk_path(struct walk *walk, const char *path);

/* Returns whether users other than root and this process's user can add entries
 * to the folder.  Members of the folder's group count only for a privileged
 * process: otherwise the folder's owner has chosen them, often by a umask of
 * 002. */
static bool others_write(const struct walk *walk)
{
    return (walk->info.st_mode &
               (walk->privileged ? S_IWGRP | S_IWOTH : S_IWOTH)) != 0;
}

static bool is_ours(uid_t owner)
{
    return owner == 0 || owner == geteuid();
}

static symmcoll_status_t refuse(
    const struct walk *walk, const char *component, const struct stat *found)
{
    return symc_fail(SYMMCOLL_ERR_INVALID,
        "%s: %.64s: expected a folder of root or of user %ld that no others "
        "can change, found owner %ld and mode %04o",
        walk->path, component, (long)geteuid(), (long)found->st_uid,
        (unsigned)(found->st_mode & 07777));
}

/* Checks that the walk may enter a component found in the current folder. */
static symmcoll_status_t judge(
    const struct walk *walk, const char *component, const struct stat *found)
{
    bool planted = walk->fd >= 0 && others_write(walk) &&
                   strcmp(component, "..") != 0 && !is_ours(found->st_uid) &&
                   (walk->privileged || found->st_uid != walk->info.st_uid);
    bool foreign = walk->privileged && !is_ours(found->st_uid);
    struct walk next = {.info = *found, .privileged = walk->privileged};

    /* The mode of a symbolic link has no meaning. */
    if (walk->privileged && S_ISDIR(found->st_mode) && others_write(&next) &&
        (found->st_mode & S_ISVTX) == 0)
        foreign = true;
    return planted || foreign ? refuse(walk, component, found) : SYMMCOLL_OK;
}

/* Makes an opened folder the current one; takes fd. */
static symmcoll_status_t go_to(struct walk *walk, const char *component, int fd)
{
    struct stat info;
    symmcoll_status_t status;

    if (fstat(fd, &info) != 0)
        status = symc_fail_errno(SYMMCOLL_ERR_SYSTEM, errno, "%s", walk->path);
    else
        status = judge(walk, component, &info);
    if (status != SYMMCOLL_OK) {
        close(fd);
        return status;
    }
    if (walk->fd >= 0)
        close(walk->fd);
    walk->fd = fd;
    walk->info = info;
    return SYMMCOLL_OK;
}

/* Follows a component that could not be opened as a folder, if it is a symbolic
 * link. */
static symmcoll_status_t follow(
    struct walk *walk, const char *component, int error)
{
    char target[PATH_MAX];
    struct stat info;
    symmcoll_status_t status = SYMMCOLL_OK;
    ssize_t length = -1;
    int fd = -1;

    if (error == ENOTDIR || error == ELOOP)
        fd = symc_descriptor_raise(
            openat(walk->fd, component, O_PATH | O_NOFOLLOW | O_CLOEXEC));
    if (fd >= 0 && fstat(fd, &info) == 0 && S_ISLNK(info.st_mode)) {
        length = readlinkat(fd, "", target, sizeof(target) - 1);
        status = judge(walk, component, &info);
    }
    if (fd >= 0)
        close(fd);
    if (status != SYMMCOLL_OK)
        return status;
    if (length <= 0 || ++walk->links > LINKS_MAX)
        return symc_fail_errno(SYMMCOLL_ERR_SYSTEM,
            walk->links > LINKS_MAX ? ELOOP : error, "%s", walk->path);
    target[length] = '\0';
    return walk_path(walk, target);
}

/* Starts a walk at the root or at the current folder. */
static symmcoll_status_t begin(struct walk *walk, const char *folder)
{
    int fd =
        symc_descriptor_raise(open(folder, O_PATH | O_DIRECTORY | O_CLOEXEC));

    if (fd < 0)
        return symc_fail_errno(SYMMCOLL_ERR_SYSTEM, errno, "%s", walk->path);
    if (walk->fd >= 0)
        close(walk->fd);
    walk->fd = -1;
    return go_to(walk, folder, fd);
}

/* Continues a walk through the components of a path. */
static symmcoll_status_t walk_path(struct walk *walk, const char *path)
{
    symmcoll_status_t status = SYMMCOLL_OK;

    if (path[0] == '/' || walk->fd < 0)
        status = begin(walk, path[0] == '/' ? "/" : ".");
    while (status == SYMMCOLL_OK) {
        char component[NAME_MAX + 1];
        size_t length;
        int fd;

        path += strspn(path, "/");
        length = strcspn(path, "/");
        if (length == 0)
            break;
        if (length > NAME_MAX)
            return symc_fail_errno(
                SYMMCOLL_ERR_SYSTEM, ENAMETOOLONG, "%s", walk->path);
        memcpy(component, path, length);
        component[length] = '\0';
        path += length;
        if (strcmp(component, ".") == 0)
            continue;
        fd = symc_descriptor_raise(openat(walk->fd, component,
            O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
        status = fd >= 0 ? go_to(walk, component, fd)
                         : follow(walk, component, errno);
    }
    return status;
}

symmcoll_status_t symc_folder_open(const char *path, int *fd, const char **name)
{
    struct walk walk = {
        .path = path, .fd = -1, .privileged = symc_process_is_privileged()};
    const char *slash = strrchr(path, '/');
    char folder[PATH_MAX];
    symmcoll_status_t status;

    *name = slash != NULL ? slash + 1 : path;
    if ((size_t)(*name - path) >= sizeof(folder))
        return symc_fail_errno(
            SYMMCOLL_ERR_SYSTEM, ENAMETOOLONG, "%.256s", path);
    snprintf(folder, sizeof(folder), "%.*s", (int)(*name - path), path);
    status = walk_path(&walk, folder);
    if (status != SYMMCOLL_OK) {
        if (walk.fd >= 0)
            close(walk.fd);
        return status;
    }
    *fd = walk.fd;
    return SYMMCOLL_OK;
}
