/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The log that is the content of a file store.  The caller holds the file's
 * lock: shared for reading, exclusive otherwise.
 *
 * The file is a header followed by records, one for each change of a key, in
 * the byte order of the machine.  Records are never rewritten.  An incomplete
 * last record of a killed writer is skipped by readers and truncated by the
 * next writer.
 */
#ifndef SYMC_STORE_JOURNAL_H
#define SYMC_STORE_JOURNAL_H

#include "store/map.h"

#include <stdint.h>

struct symc_journal {
    const char *path;    /* for messages; borrowed */
    uint64_t generation; /* random; distinguishes this file from others */
    int64_t end;         /* offset after the last complete record read */
    struct symc_map map; /* the table after those records */
};

/* Creates the header of a new file.  Errors: SYSTEM. */
symmcoll_status_t symc_journal_create(
    struct symc_journal *journal, int fd, int num_workers);

/* Checks the header of a file that another worker created, and applies all its
 * records.  fd is open already and stays the caller's.  Errors: INVALID (not
 * such a file, of another format, for another number of workers, truncated,
 * damaged), NO_MEMORY, SYSTEM. */
symmcoll_status_t symc_journal_open(
    struct symc_journal *journal, int fd, int num_workers);

/* Applies the records written since the last call.  Errors: INVALID (another
 * file, truncated, damaged), NO_MEMORY, SYSTEM. */
symmcoll_status_t symc_journal_read(struct symc_journal *journal, int fd);

/* One change of a batch: `what` and value as in struct symc_change. */
struct symc_record {
    const char *key;
    int what;
    const struct symc_bytes *value; /* PUT, PUSH */
};

/* Writes changes, all or none, and applies them.  To be called after
 * symc_journal_read() under the same lock.  Errors: INVALID, NO_MEMORY,
 * SYSTEM. */
symmcoll_status_t symc_journal_append(struct symc_journal *journal, int fd,
    const struct symc_record *records, size_t nrecords);

void symc_journal_clear(struct symc_journal *journal);

#endif
