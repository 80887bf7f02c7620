/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The workers of a file store.
 *
 * Every worker adds the name of its process under WORKERS when it opens the
 * store and removes it when it closes, so that the last one can remove the
 * file, and so that the file of a dead run can be distinguished from that of a
 * live one.
 */
#include "store/file.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Bookkeeping keys; users' keys begin with a slash. */
#define WORKERS "refcount/" /* a line for each open worker: its process */
#define FINISHED "cleanup/" /* number of workers that have closed, in decimal */

/* More than any run has; adding the open workers does not overflow. */
#define FINISHED_MAX (LONG_MAX / 2)

/* A summary of the list of workers. */
struct roll {
    size_t open;     /* workers that have the store open */
    const char *own; /* this worker's line; NULL: none */
    pid_t gone;      /* one that died without closing it; 0: none */
};

/* Reads the list of workers. */
static struct roll call_roll(struct symc_file *file)
{
    const struct symc_bytes *lines = symc_map_find(&file->journal.map, WORKERS);
    size_t length = strlen(file->worker);
    struct roll roll = {0, NULL, 0};
    const char *end;

    if (lines == NULL)
        return roll;
    for (const char *line = lines->data; (end = strchr(line, '\n')) != NULL;
         line = end + 1) {
        pid_t pid;

        roll.open++;
        if ((size_t)(end - line) == length &&
            memcmp(line, file->worker, length) == 0)
            roll.own = line;
        else if (symc_process_find(line, &pid) == SYMC_PROCESS_GONE)
            roll.gone = pid;
    }
    return roll;
}

/* Returns how many workers have closed, limited to FINISHED_MAX, because a
 * damaged file may have any number. */
static long get_finished(struct symc_file *file)
{
    const struct symc_bytes *text = symc_map_find(&file->journal.map, FINISHED);
    long count = text != NULL ? strtol(text->data, NULL, 10) : 0;

    return count < 0 ? 0 : count > FINISHED_MAX ? FINISHED_MAX : count;
}

/*
 * Returns INVALID for a file of another run: a worker died without closing it,
 * or all its workers have opened it already.  A process that has it open may
 * open it again, once for each of its threads.
 */
static symmcoll_status_t refuse_stale(struct symc_file *file)
{
    struct roll roll = call_roll(file);
    long joined = (long)roll.open + get_finished(file);

    if (roll.gone != 0)
        return symc_fail(SYMMCOLL_ERR_INVALID,
            "store_open_file: %s: expected a new file, found one that process "
            "%ld opened and did not close before it ended: remove what is left "
            "of that run, or use another path",
            file->path, (long)roll.gone);
    if (file->num_workers > 0 && joined >= file->num_workers &&
        roll.own == NULL)
        return symc_fail(SYMMCOLL_ERR_INVALID,
            "store_open_file: %s: expected a new file, found one that all its "
            "%d workers have opened: remove what is left of that run, or use "
            "another path",
            file->path, file->num_workers);
    return SYMMCOLL_OK;
}

/* Adds this worker to the list. */
static symmcoll_status_t enter_worker(struct symc_file *file, int fd)
{
    const struct symc_bytes *before =
        symc_map_find(&file->journal.map, WORKERS);
    struct symc_bytes after;
    const struct symc_record record = {WORKERS, SYMC_PUT, &after};
    symmcoll_status_t status;
    char *text;
    int length = asprintf(&text, "%s%s\n",
        before != NULL ? (const char *)before->data : "", file->worker);

    if (length < 0)
        return symc_fail(SYMMCOLL_ERR_NO_MEMORY,
            "store_open_file: no memory for the list of workers");
    after.data = text;
    after.nbytes = (size_t)length;
    status = symc_journal_append(&file->journal, fd, &record, 1);
    free(text);
    return status;
}

/* Creates or checks the locked file, then registers this worker.  removed
 * (out): the last worker of an earlier run removed the file between opening and
 * locking; nothing is done then. */
static symmcoll_status_t join_locked(
    struct symc_file *file, int fd, bool *removed)
{
    struct stat info;
    symmcoll_status_t status;

    if (fstat(fd, &info) != 0)
        return symc_fail_errno(
            SYMMCOLL_ERR_SYSTEM, errno, "store_open_file: %s", file->path);
    *removed = info.st_nlink == 0;
    if (*removed)
        return SYMMCOLL_OK;
    if (!S_ISREG(info.st_mode))
        return symc_fail(SYMMCOLL_ERR_INVALID,
            "store_open_file: %s: expected a regular file, found another kind",
            file->path);
    if (symc_process_is_privileged() && info.st_uid != 0 &&
        info.st_uid != geteuid())
        return symc_fail(SYMMCOLL_ERR_INVALID,
            "store_open_file: %s: expected a file of root or of user %ld, "
            "found one of user %ld",
            file->path, (long)geteuid(), (long)info.st_uid);
    status = info.st_size == 0
                 ? symc_journal_create(&file->journal, fd, file->num_workers)
                 : symc_journal_open(&file->journal, fd, file->num_workers);
    if (status != SYMMCOLL_OK)
        return status;
    status = refuse_stale(file);
    return status == SYMMCOLL_OK ? enter_worker(file, fd) : status;
}

/*
 * Checks that in a privileged process the path leads only through folders of
 * its own user and root, so that no other user can replace what is opened
 * later.
 */
static symmcoll_status_t check_folder(struct symc_file *file)
{
    symmcoll_status_t status;
    const char *name;
    int folder;

    if (!symc_process_is_privileged())
        return SYMMCOLL_OK;
    status = symc_folder_open(file->path, &folder, &name);
    if (status != SYMMCOLL_OK)
        return symc_error_prefix(status, "store_open_file");
    close(folder);
    return SYMMCOLL_OK;
}

symmcoll_status_t symc_file_join(struct symc_file *file, int64_t deadline_ns)
{
    symmcoll_status_t status = check_folder(file);
    bool removed;

    if (status != SYMMCOLL_OK)
        return status;
    do {
        int fd = symc_file_open(file->path, O_RDWR | O_CREAT, deadline_ns);

        if (fd < 0)
            return symc_fail_errno(
                SYMMCOLL_ERR_SYSTEM, errno, "store_open_file: %s", file->path);
        removed = false;
        status = symc_file_lock(file->path, fd, true, deadline_ns);
        if (status == SYMMCOLL_OK)
            status = join_locked(file, fd, &removed);
        close(fd);
    } while (removed);
    return status;
}

/* Copies the list of workers without this worker's line. */
static symmcoll_status_t strike_own_line(
    struct symc_file *file, const struct roll *roll, struct symc_bytes *lines)
{
    const struct symc_bytes *before =
        symc_map_find(&file->journal.map, WORKERS);
    size_t head = (size_t)(roll->own - (const char *)before->data);
    size_t skip = strlen(file->worker) + 1;
    symmcoll_status_t status =
        symc_bytes_copy(before->data, before->nbytes, lines);

    if (status != SYMMCOLL_OK)
        return status;
    lines->nbytes -= skip;
    memmove((char *)lines->data + head, roll->own + skip, lines->nbytes - head);
    return SYMMCOLL_OK;
}

/* Removes this worker from the list in the locked file; the last worker
 * removes the file. */
static symmcoll_status_t leave_locked(struct symc_file *file, int fd)
{
    struct roll roll = call_roll(file);
    struct symc_bytes lines;
    struct symc_bytes finished;
    char number[24];
    const struct symc_record records[] = {
        {WORKERS, SYMC_PUT, &lines}, {FINISHED, SYMC_PUT, &finished}};
    long count = get_finished(file) + 1;
    symmcoll_status_t status;

    if (roll.own == NULL)
        return SYMMCOLL_OK;
    if (file->num_workers > 0 && roll.open == 1 && count >= file->num_workers) {
        if (unlink(file->path) != 0)
            return symc_fail_errno(SYMMCOLL_ERR_SYSTEM, errno,
                "store_close: removing %s", file->path);
        return SYMMCOLL_OK;
    }
    finished.data = number;
    finished.nbytes = (size_t)snprintf(number, sizeof number, "%ld", count);
    status = strike_own_line(file, &roll, &lines);
    if (status != SYMMCOLL_OK)
        return status;
    status = symc_journal_append(&file->journal, fd, records, 2);
    free(lines.data);
    return status;
}

symmcoll_status_t symc_file_leave(struct symc_file *file)
{
    int fd;
    symmcoll_status_t status = symc_file_begin(file, true, 0, &fd);

    if (status != SYMMCOLL_OK)
        return status;
    status = leave_locked(file, fd);
    symc_file_end(fd);
    return status;
}
