/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The log that a file store consists of.  The caller holds the file's lock:
 * shared for reading, exclusive for the rest.
 *
 * The file is a header and then records, one for each change of a key, in the
 * byte order of the machine.  Nothing is ever rewritten.  An incomplete last
 * record of a killed writer is skipped by readers and truncated by the next
 * writer.
 */
#ifndef SYMC_STORE_JOURNAL_H
#define SYMC_STORE_JOURNAL_H

#include "store/map.h"

#include <stdint.h>

struct symc_journal {
    const char *path;    /* for messages; borrowed */
    uint64_t generation; /* random; tells this file from another one */
    int64_t end;         /* after the last whole record read */
    struct symc_map map; /* the table after the records up to there */
};

/* Begin a new file.  Errors: SYSTEM. */
symmcoll_status_t symc_journal_create(
    struct symc_journal *journal, int fd, int num_workers);

/* Begin with a file that another worker created.
 * Errors: INVALID (not such a file, cut off, for other workers), SYSTEM. */
symmcoll_status_t symc_journal_open(
    struct symc_journal *journal, int fd, int num_workers);

/* Apply the records written since the last time.
 * Errors: INVALID (another file, cut off, damaged), NO_MEMORY, SYSTEM. */
symmcoll_status_t symc_journal_read(struct symc_journal *journal, int fd);

/* One change of a batch: enum and value as in struct symc_change. */
struct symc_record {
    const char *key;
    int what;
    const struct symc_bytes *value; /* PUT, PUSH */
};

/* Write changes, all or none, and apply them.  To be called after
 * symc_journal_read() under the same lock.  Errors: NO_MEMORY, SYSTEM. */
symmcoll_status_t symc_journal_append(struct symc_journal *journal, int fd,
    const struct symc_record *records, size_t nrecords);

void symc_journal_clear(struct symc_journal *journal);

#endif
