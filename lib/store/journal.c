/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Reads and writes the log of a file store: header, records and their
 * checksums.
 */
#include "store/journal.h"
#include "base/descriptor.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#define JOURNAL_VERSION 1

/* One byte more for the "/" before the user's key. */
#define NAME_MAX_BYTES (SYMC_STORE_KEY_MAX + 1)

struct header {
    char magic[16];
    uint32_t version;
    int32_t num_workers;
    uint64_t generation;
};

static const char header_magic[16] = "symmcoll store\n";

struct record {
    uint32_t sum; /* over the rest of the record, key and value */
    uint32_t kind;
    uint32_t key_nbytes; /* the key follows, without a zero byte */
    uint32_t nbytes;     /* the value follows the key */
};

enum {
    RECORD_PUT = 1,
    RECORD_REMOVE = 2,
    RECORD_PUSH = 3,
    RECORD_POP = 4
};

/* FNV-1a: detects damage, not attacks. */
static uint32_t sum_bytes(uint32_t sum, const void *data, size_t nbytes)
{
    const unsigned char *bytes = data;

    for (size_t i = 0; i < nbytes; i++)
        sum = (sum ^ bytes[i]) * UINT32_C(16777619);
    return sum;
}

static uint32_t sum_record(
    const struct record *record, const void *key, const void *value)
{
    uint32_t sum = sum_bytes(UINT32_C(2166136261), &record->kind,
        sizeof *record - offsetof(struct record, kind));

    sum = sum_bytes(sum, key, record->key_nbytes);
    return sum_bytes(sum, value, record->nbytes);
}

/* ---- writing ---- */

static symmcoll_status_t fail_write(const struct symc_journal *journal,
    int error, size_t nbytes, int64_t offset)
{
    return symc_fail_errno(SYMMCOLL_ERR_SYSTEM, error,
        "file store: writing %zu bytes at offset %" PRId64 " of %s", nbytes,
        offset, journal->path);
}

/*
 * Checks the limit on file sizes before a write: beyond it the kernel would
 * send SIGXFSZ, which kills the process.
 */
static symmcoll_status_t check_file_limit(
    const struct symc_journal *journal, size_t nbytes, int64_t offset)
{
    struct rlimit limit;

    if (getrlimit(RLIMIT_FSIZE, &limit) != 0 ||
        limit.rlim_cur == RLIM_INFINITY ||
        (uint64_t)offset + nbytes <= limit.rlim_cur)
        return SYMMCOLL_OK;
    return symc_fail(SYMMCOLL_ERR_SYSTEM,
        "file store: writing %zu bytes at offset %" PRId64
        " of %s: RLIMIT_FSIZE allows files of %" PRIu64 " bytes",
        nbytes, offset, journal->path, (uint64_t)limit.rlim_cur);
}

/* Writes all bytes or none: truncates the file again after a failure. */
static symmcoll_status_t write_at(const struct symc_journal *journal, int fd,
    const void *data, size_t nbytes, int64_t offset)
{
    symmcoll_status_t status = check_file_limit(journal, nbytes, offset);
    size_t done = 0;

    if (status != SYMMCOLL_OK)
        return status;
    while (done < nbytes) {
        ssize_t n = pwrite(fd, (const char *)data + done, nbytes - done,
            (off_t)(offset + (int64_t)done));

        if (n > 0) {
            done += (size_t)n;
        } else if (n == 0 || errno != EINTR) {
            int error = n == 0 ? ENOSPC : errno;

            /* If this also fails, readers treat the rest as an incomplete
             * record. */
            if (ftruncate(fd, (off_t)offset) != 0)
                error = errno;
            return fail_write(journal, error, nbytes, offset);
        }
    }
    return SYMMCOLL_OK;
}

symmcoll_status_t symc_journal_create(
    struct symc_journal *journal, int fd, int num_workers)
{
    struct header header = {
        .version = JOURNAL_VERSION, .num_workers = num_workers};
    symmcoll_status_t status;

    memcpy(header.magic, header_magic, sizeof header.magic);
    if (getrandom(&header.generation, sizeof header.generation, 0) !=
        sizeof header.generation)
        return symc_fail_errno(
            SYMMCOLL_ERR_SYSTEM, errno, "file store: random number");
    status = write_at(journal, fd, &header, sizeof header, 0);
    if (status != SYMMCOLL_OK)
        return status;
    journal->generation = header.generation;
    journal->end = sizeof header;
    return SYMMCOLL_OK;
}

/* Returns the bytes of a change's value, 0 if it has none. */
static size_t count_value(const struct symc_record *change)
{
    return change->what == SYMC_PUT || change->what == SYMC_PUSH
               ? change->value->nbytes
               : 0;
}

/* Writes a record to a batch in memory.  Returns the end of the record. */
static char *put_record(char *at, const struct symc_record *change)
{
    static const uint32_t kinds[] = {
        [SYMC_PUT] = RECORD_PUT,
        [SYMC_REMOVE] = RECORD_REMOVE,
        [SYMC_PUSH] = RECORD_PUSH,
        [SYMC_POP] = RECORD_POP,
    };
    struct record record = {
        .kind = kinds[change->what],
        .key_nbytes = (uint32_t)strlen(change->key),
        .nbytes = (uint32_t)count_value(change),
    };
    const void *value = record.nbytes > 0 ? change->value->data : NULL;

    record.sum = sum_record(&record, change->key, value);
    at = mempcpy(at, &record, sizeof record);
    at = mempcpy(at, change->key, record.key_nbytes);
    return record.nbytes > 0 ? mempcpy(at, value, record.nbytes) : at;
}

/* Removes the records of a call that fails after it has written them; the
 * file is locked.  The table is cleared as well: the next call reads the
 * whole file. */
static void take_back(struct symc_journal *journal, int fd, int64_t before)
{
    if (ftruncate(fd, (off_t)before) == 0 && journal->end > before) {
        symc_map_clear(&journal->map);
        journal->end = sizeof(struct header);
    }
}

symmcoll_status_t symc_journal_append(struct symc_journal *journal, int fd,
    const struct symc_record *records, size_t nrecords)
{
    const int64_t before = journal->end;
    struct stat info;
    symmcoll_status_t status;
    size_t nbytes = 0;
    char *batch;
    char *at;

    for (size_t i = 0; i < nrecords; i++)
        nbytes += sizeof(struct record) + strlen(records[i].key) +
                  count_value(&records[i]);
    at = batch = symc_alloc(nbytes, 1);
    if (batch == NULL)
        return SYMMCOLL_ERR_NO_MEMORY;
    for (size_t i = 0; i < nrecords; i++)
        at = put_record(at, &records[i]);

    if (fstat(fd, &info) != 0 || (info.st_size > journal->end &&
                                     ftruncate(fd, (off_t)journal->end) != 0)) {
        status = symc_fail_errno(SYMMCOLL_ERR_SYSTEM, errno,
            "file store: cutting a torn record off %s", journal->path);
        goto free_batch;
    }
    status = write_at(journal, fd, batch, nbytes, journal->end);
    /* This rank's own records are read back like all others. */
    if (status == SYMMCOLL_OK) {
        status = symc_journal_read(journal, fd);
        if (status != SYMMCOLL_OK)
            take_back(journal, fd, before);
    }
free_batch:
    free(batch);
    return status;
}

/* ---- reading ---- */

static symmcoll_status_t read_header(
    const struct symc_journal *journal, int fd, struct header *header)
{
    ssize_t n = pread(fd, header, sizeof *header, 0);
    size_t known;

    if (n < 0)
        return symc_fail_errno(SYMMCOLL_ERR_SYSTEM, errno,
            "file store: reading %s", journal->path);
    known = (size_t)n < sizeof header->magic ? (size_t)n : sizeof header->magic;
    if (memcmp(header->magic, header_magic, known) != 0)
        return symc_fail(SYMMCOLL_ERR_INVALID,
            "file store: %s: expected a new file or a store, found something "
            "else",
            journal->path);
    if ((size_t)n < sizeof *header)
        return symc_fail(SYMMCOLL_ERR_INVALID,
            "file store: %s: expected a header of %zu bytes, found %zd: it is "
            "cut off",
            journal->path, sizeof *header, n);
    return SYMMCOLL_OK;
}

symmcoll_status_t symc_journal_open(
    struct symc_journal *journal, int fd, int num_workers)
{
    struct header header;
    symmcoll_status_t status = read_header(journal, fd, &header);

    if (status != SYMMCOLL_OK)
        return status;
    if (header.version != JOURNAL_VERSION)
        return symc_fail(SYMMCOLL_ERR_INVALID,
            "file store: %s: expected format %d, found %" PRIu32
            ": another release or byte order wrote it",
            journal->path, JOURNAL_VERSION, header.version);
    if (header.num_workers != num_workers)
        return symc_fail(SYMMCOLL_ERR_INVALID,
            "file store: %s: expected a store for %d workers, found one for "
            "%" PRId32,
            journal->path, num_workers, header.num_workers);
    journal->generation = header.generation;
    journal->end = sizeof header;
    return symc_journal_read(journal, fd);
}

static symmcoll_status_t fail_damage(
    const struct symc_journal *journal, const char *what)
{
    return symc_fail(SYMMCOLL_ERR_INVALID,
        "file store: %s: the record at offset %" PRId64 " is damaged: %s",
        journal->path, journal->end, what);
}

/* Applies one complete record. */
static symmcoll_status_t apply_record(struct symc_journal *journal,
    const struct record *record, const char *key, struct symc_bytes *value)
{
    if (record->sum != sum_record(record, key, value->data))
        return fail_damage(journal, "its checksum differs");
    if (record->kind == RECORD_REMOVE) {
        symc_map_remove(&journal->map, key);
        return SYMMCOLL_OK;
    }
    if (record->kind == RECORD_PUT || record->kind == RECORD_PUSH) {
        struct symc_bytes taken = *value;

        value->data = NULL;
        return record->kind == RECORD_PUT
                   ? symc_map_put(&journal->map, key, taken)
                   : symc_map_push(&journal->map, key, taken);
    }
    if (record->kind == RECORD_POP) {
        if (symc_map_pop(&journal->map, key))
            return SYMMCOLL_OK;
        return fail_damage(journal, "the queue that it pops does not exist");
    }
    return fail_damage(journal, "its kind is unknown");
}

/*
 * Reads the record at journal->end.  whole (out) is false if the file ends
 * within it: its writer was killed, and the record is ignored.
 */
static symmcoll_status_t read_record(
    struct symc_journal *journal, FILE *file, int64_t size, bool *whole)
{
    char key[NAME_MAX_BYTES + 1];
    struct record record;
    struct symc_bytes value = {NULL, 0};
    int64_t left = size - journal->end;
    int64_t nbytes;
    symmcoll_status_t status = SYMMCOLL_OK;

    *whole = false;
    if (left < (int64_t)sizeof record)
        return SYMMCOLL_OK;
    if (fread(&record, sizeof record, 1, file) != 1)
        goto fail_read;
    if (record.key_nbytes > NAME_MAX_BYTES ||
        record.nbytes > SYMC_STORE_VALUE_MAX)
        return fail_damage(journal, "its lengths are out of range");
    nbytes = (int64_t)sizeof record + record.key_nbytes + record.nbytes;
    if (left < nbytes)
        return SYMMCOLL_OK;
    value.nbytes = record.nbytes;
    value.data = symc_alloc(value.nbytes + 1, 1);
    if (value.data == NULL)
        return SYMMCOLL_ERR_NO_MEMORY;
    if (fread(key, 1, record.key_nbytes, file) != record.key_nbytes ||
        fread(value.data, 1, value.nbytes, file) != value.nbytes)
        goto fail_read;
    key[record.key_nbytes] = '\0';
    status = apply_record(journal, &record, key, &value);
    if (status == SYMMCOLL_OK) {
        journal->end += nbytes;
        *whole = true;
    }
    free(value.data);
    return status;

fail_read:
    free(value.data);
    return symc_fail_errno(SYMMCOLL_ERR_SYSTEM, errno != 0 ? errno : EIO,
        "file store: reading %s at offset %" PRId64, journal->path,
        journal->end);
}

/* Reads the records from journal->end up to the size of the file. */
static symmcoll_status_t read_tail(
    struct symc_journal *journal, int fd, int64_t size)
{
    symmcoll_status_t status = SYMMCOLL_OK;
    bool whole = true;
    /* fclose() closes the copy; the lock stays with fd */
    int copy = fcntl(fd, F_DUPFD_CLOEXEC, SYMC_DESCRIPTOR_LEAST);
    FILE *file = copy >= 0 ? fdopen(copy, "r") : NULL;

    if (file == NULL || fseeko(file, (off_t)journal->end, SEEK_SET) != 0) {
        status = symc_fail_errno(SYMMCOLL_ERR_SYSTEM, errno,
            "file store: reading %s", journal->path);
        goto close_file;
    }
    errno = 0;
    while (status == SYMMCOLL_OK && whole && journal->end < size)
        status = read_record(journal, file, size, &whole);
close_file:
    if (file != NULL)
        fclose(file);
    else if (copy >= 0)
        close(copy);
    return status;
}

symmcoll_status_t symc_journal_read(struct symc_journal *journal, int fd)
{
    struct header header;
    struct stat info;
    symmcoll_status_t status = read_header(journal, fd, &header);

    if (status != SYMMCOLL_OK)
        return status;
    if (header.generation != journal->generation)
        return symc_fail(SYMMCOLL_ERR_INVALID,
            "file store: %s: expected the store that was opened, found "
            "another one in its place",
            journal->path);
    if (fstat(fd, &info) != 0)
        return symc_fail_errno(
            SYMMCOLL_ERR_SYSTEM, errno, "file store: %s", journal->path);
    if (info.st_size < journal->end)
        return symc_fail(SYMMCOLL_ERR_INVALID,
            "file store: %s: expected at least %" PRId64
            " bytes, found %" PRId64 ": it was cut off",
            journal->path, journal->end, (int64_t)info.st_size);
    if (info.st_size == journal->end)
        return SYMMCOLL_OK;
    return read_tail(journal, fd, info.st_size);
}

void symc_journal_clear(struct symc_journal *journal)
{
    symc_map_clear(&journal->map);
}
