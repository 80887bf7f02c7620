/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The shared part of the file store's sources: file_access.c, file_roll.c and
 * file.c, each of which calls only those named before it.
 */
#ifndef SYMC_STORE_FILE_H
#define SYMC_STORE_FILE_H

#include "base/process.h"
#include "store/journal.h"

#include <pthread.h>
#include <sys/types.h>

struct symc_file {
    pthread_mutex_t lock; /* of the members below that change */
    size_t handles;
    struct symc_journal journal;
    char *path;      /* absolute: the program may change its directory */
    int num_workers; /* 0: the file is never removed */
    pid_t pid;       /* a child after fork() does not leave for its parent */
    char worker[SYMC_PROCESS_NAME];
};

/* ---- file_access.c ---- */

/* Locks an open file; waits at least five seconds, even if the deadline is
 * earlier.  Errors: TIMEOUT, SYSTEM. */
symmcoll_status_t symc_file_lock(
    const char *path, int fd, bool exclusive, int64_t deadline_ns);

/* Opens a file that another process may be creating: retries while it does not
 * exist, because of its folder or over NFS, until the deadline and for at most
 * two seconds.  Returns -1 with errno set on failure. */
int symc_file_open(const char *path, int flags, int64_t deadline_ns);

/* Begins one access to the file: opens and locks it and reads its new records.
 * Needs the mutex.  Errors: TIMEOUT (the lock), INVALID (the file), SYSTEM. */
symmcoll_status_t symc_file_begin(
    struct symc_file *file, bool exclusive, int64_t deadline_ns, int *fd);
void symc_file_end(int fd);

/* ---- file_roll.c ---- */

/* Creates the file or checks the existing one, and registers this worker.
 * Errors: INVALID (stale, foreign, damaged), TIMEOUT (the lock), SYSTEM. */
symmcoll_status_t symc_file_join(struct symc_file *file, int64_t deadline_ns);

/* Removes this worker's entry; the last worker removes the file.  If this
 * fails, the next run finds the file stale. */
symmcoll_status_t symc_file_leave(struct symc_file *file);

#endif
