/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the sources of the file store share: file_access.c, file_roll.c and
 * file.c, where each calls only those named before it.
 */
#ifndef SYMC_STORE_FILE_H
#define SYMC_STORE_FILE_H

#include "base/process.h"
#include "store/journal.h"

#include <pthread.h>
#include <sys/types.h>

struct symc_file {
    pthread_mutex_t lock; /* all below that changes */
    size_t handles;
    struct symc_journal journal;
    char *path;      /* absolute: a program may change its directory */
    int num_workers; /* 0: the file stays */
    pid_t pid;       /* a child after fork() does not leave for its parent */
    char worker[SYMC_PROCESS_NAME];
};

/* ---- file_access.c ---- */

/* Lock an open file; waits at least five seconds, even after the deadline.
 * Errors: TIMEOUT, SYSTEM. */
symmcoll_status_t symc_file_lock(
    const char *path, int fd, bool exclusive, int64_t deadline_ns);

/* O_NOFOLLOW where another user could have put a link in the file's place. */
int symc_file_no_links(void);

/* Open a file that another process may just be creating: wait for a folder of
 * its path, and over NFS for the file, until the deadline and for two seconds at
 * most.  -1 and errno where that fails. */
int symc_file_open(const char *path, int flags, int64_t deadline_ns);

/* Begin one access to the file: open and lock it, read its new records; the
 * mutex is held.  Errors: TIMEOUT (the lock), INVALID (the file), SYSTEM. */
symmcoll_status_t symc_file_begin(
    struct symc_file *file, bool exclusive, int64_t deadline_ns, int *fd);
void symc_file_end(int fd);

/* ---- file_roll.c ---- */

/* Begin the file, or check what is there, and enter this worker.
 * Errors: INVALID (stale, foreign, damaged), TIMEOUT (the lock), SYSTEM. */
symmcoll_status_t symc_file_join(struct symc_file *file, int64_t deadline_ns);

/* Remove this worker's entry; the last worker removes the file.  Where that
 * fails the next run finds the file stale. */
symmcoll_status_t symc_file_leave(struct symc_file *file);

#endif
