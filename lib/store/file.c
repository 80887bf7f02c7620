/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The file store: a table in a file that every rank can open, also over NFS.
 *
 * Each call opens the file, locks it with flock(2) (shared to read, exclusive
 * to write), reads the new records and closes it (file_access.c).  Waiting
 * polls every 10 ms.  file_roll.c registers the workers that open and close the
 * store.
 */
#include "store/file.h"
#include "base/cancel.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define POLL_NS INT64_C(10000000)

static void sleep_ns(int64_t ns)
{
    struct timespec time = {.tv_nsec = (long)ns};

    if (ns > 0)
        nanosleep(&time, NULL);
}

/* ---- operations ---- */

static void name_key(const char *key, char name[SYMC_STORE_KEY_MAX + 2])
{
    name[0] = '/';
    memcpy(name + 1, key, strlen(key) + 1);
}

static symmcoll_status_t edit_file(
    void *table, const char *key, struct symc_edit *edit, int64_t deadline_ns)
{
    struct symc_file *file = table;
    char name[SYMC_STORE_KEY_MAX + 2];
    struct symc_change change = {.what = SYMC_KEEP};
    struct symc_record record = {.key = name};
    symmcoll_status_t status;
    int fd;

    name_key(key, name);
    pthread_mutex_lock(&file->lock);
    status = symc_file_begin(file, true, deadline_ns, &fd);
    if (status != SYMMCOLL_OK)
        goto unlock;
    status = symc_edit_apply(
        edit, key, symc_map_look(&file->journal.map, name), &change);
    if (status == SYMMCOLL_OK && change.what != SYMC_KEEP) {
        record.what = change.what;
        record.value = &change.value;
        status = symc_journal_append(&file->journal, fd, &record, 1);
    }
    free(change.value.data);
    symc_file_end(fd);
unlock:
    pthread_mutex_unlock(&file->lock);
    return status;
}

static symmcoll_status_t find_file(void *table, const char *key,
    int64_t deadline_ns, bool *found, struct symc_bytes *value)
{
    struct symc_file *file = table;
    char name[SYMC_STORE_KEY_MAX + 2];
    symmcoll_status_t status;
    int fd;

    name_key(key, name);
    pthread_mutex_lock(&file->lock);
    status = symc_file_begin(file, false, deadline_ns, &fd);
    if (status != SYMMCOLL_OK)
        goto unlock;
    symc_file_end(fd);
    status = symc_item_copy(
        key, symc_map_look(&file->journal.map, name), found, value);
unlock:
    pthread_mutex_unlock(&file->lock);
    return status;
}

static symmcoll_status_t find_missing(struct symc_file *file,
    const char *const *keys, size_t nkeys, int64_t deadline_ns, size_t *missing)
{
    char name[SYMC_STORE_KEY_MAX + 2];
    symmcoll_status_t status;
    int fd;

    pthread_mutex_lock(&file->lock);
    status = symc_file_begin(file, false, deadline_ns, &fd);
    if (status != SYMMCOLL_OK)
        goto unlock;
    symc_file_end(fd);
    for (*missing = 0; *missing < nkeys; ++*missing) {
        name_key(keys[*missing], name);
        if (!symc_map_has(&file->journal.map, name))
            break;
    }
unlock:
    pthread_mutex_unlock(&file->lock);
    return status;
}

static symmcoll_status_t wait_file(void *table, const char *const *keys,
    size_t nkeys, int64_t until_ns, int64_t deadline_ns, size_t *missing)
{
    for (;;) {
        symmcoll_status_t status =
            find_missing(table, keys, nkeys, deadline_ns, missing);
        int64_t left;

        if (status != SYMMCOLL_OK || *missing == nkeys)
            return status;
        left = until_ns - symc_now_ns();
        if (left <= 0)
            return SYMMCOLL_OK;
        sleep_ns(left < POLL_NS ? left : POLL_NS);
    }
}

static symmcoll_status_t count_file(
    void *table, int64_t deadline_ns, size_t *count)
{
    struct symc_file *file = table;
    symmcoll_status_t status;
    int fd;

    pthread_mutex_lock(&file->lock);
    status = symc_file_begin(file, false, deadline_ns, &fd);
    if (status == SYMMCOLL_OK) {
        symc_file_end(fd);
        *count = file->journal.map.count;
    }
    pthread_mutex_unlock(&file->lock);
    return status;
}

static symmcoll_status_t set_all_file(void *table,
    const struct symc_pair *pairs, size_t npairs, int64_t deadline_ns)
{
    struct symc_file *file = table;
    char(*names)[SYMC_STORE_KEY_MAX + 2] = symc_alloc(npairs, sizeof(*names));
    struct symc_record *records = symc_alloc(npairs, sizeof(*records));
    symmcoll_status_t status = SYMMCOLL_ERR_NO_MEMORY;
    int fd;

    if (names == NULL || records == NULL)
        goto free_records;
    for (size_t i = 0; i < npairs; i++) {
        name_key(pairs[i].key, names[i]);
        records[i] = (struct symc_record){names[i], SYMC_PUT, &pairs[i].value};
    }
    pthread_mutex_lock(&file->lock);
    status = symc_file_begin(file, true, deadline_ns, &fd);
    if (status == SYMMCOLL_OK) {
        status = symc_journal_append(&file->journal, fd, records, npairs);
        symc_file_end(fd);
    }
    pthread_mutex_unlock(&file->lock);
free_records:
    free(records);
    free(names);
    return status;
}

static symmcoll_status_t length_file(
    void *table, const char *key, int64_t deadline_ns, size_t *length)
{
    struct symc_file *file = table;
    char name[SYMC_STORE_KEY_MAX + 2];
    symmcoll_status_t status;
    int fd;

    name_key(key, name);
    pthread_mutex_lock(&file->lock);
    status = symc_file_begin(file, false, deadline_ns, &fd);
    if (status == SYMMCOLL_OK) {
        symc_file_end(fd);
        status = symc_item_length(
            key, symc_map_look(&file->journal.map, name), length);
    }
    pthread_mutex_unlock(&file->lock);
    return status;
}

static symmcoll_status_t list_file(void *table, const char *prefix,
    int64_t deadline_ns, struct symc_names *names)
{
    struct symc_file *file = table;
    char name[SYMC_STORE_KEY_MAX + 2];
    symmcoll_status_t status;
    int fd;

    name_key(prefix, name);
    pthread_mutex_lock(&file->lock);
    status = symc_file_begin(file, false, deadline_ns, &fd);
    if (status == SYMMCOLL_OK) {
        symc_file_end(fd);
        names->skip++; /* the slash */
        status = symc_map_list(&file->journal.map, name, names);
    }
    pthread_mutex_unlock(&file->lock);
    return status;
}

/* ---- handles ---- */

static void share_file(void *table)
{
    struct symc_file *file = table;

    pthread_mutex_lock(&file->lock);
    file->handles++;
    pthread_mutex_unlock(&file->lock);
}

static void free_file(struct symc_file *file)
{
    symc_journal_clear(&file->journal);
    pthread_mutex_destroy(&file->lock);
    free(file->path);
    free(file);
}

static void close_file(void *table)
{
    struct symc_file *file = table;
    bool last;

    pthread_mutex_lock(&file->lock);
    last = --file->handles == 0;
    if (last && file->pid == getpid())
        symc_file_leave(file);
    pthread_mutex_unlock(&file->lock);
    if (last)
        free_file(file);
}

static const struct symc_store_ops file_ops = {
    .kind = "file",
    .share = share_file,
    .close = close_file,
    .edit = edit_file,
    .find = find_file,
    .wait = wait_file,
    .count = count_file,
    .set_all = set_all_file,
    .length = length_file,
    .list = list_file,
};

static symmcoll_status_t make_absolute(const char *path, char **absolute)
{
    char *directory = NULL;
    int length;

    if (path[0] == '/') {
        *absolute = symc_strdup(path);
        return *absolute != NULL ? SYMMCOLL_OK : SYMMCOLL_ERR_NO_MEMORY;
    }
    directory = getcwd(NULL, 0);
    if (directory == NULL)
        return symc_fail_errno(SYMMCOLL_ERR_SYSTEM, errno,
            "store_open_file: %s: the current directory", path);
    length = asprintf(absolute, "%s/%s", directory, path);
    free(directory);
    if (length < 0)
        return symc_fail(
            SYMMCOLL_ERR_NO_MEMORY, "store_open_file: no memory for the path");
    return SYMMCOLL_OK;
}

static symmcoll_status_t open_file(const char *path, int num_workers,
    int64_t deadline_ns, struct symmcoll_store **store)
{
    struct symc_file *file;
    symmcoll_status_t status;

    if (path == NULL || store == NULL)
        return symc_fail(SYMMCOLL_ERR_INVALID, "store_open_file: %s is NULL",
            path == NULL ? "path" : "store");
    if (path[0] == '\0')
        return symc_fail(SYMMCOLL_ERR_INVALID,
            "store_open_file: expected a path, found an empty text");
    file = symc_alloc(1, sizeof *file);
    if (file == NULL)
        return SYMMCOLL_ERR_NO_MEMORY;
    pthread_mutex_init(&file->lock, NULL);
    file->handles = 1;
    file->num_workers = num_workers > 0 ? num_workers : 0;
    file->pid = getpid();
    status = symc_process_name(file->worker);
    if (status == SYMMCOLL_OK)
        status = make_absolute(path, &file->path);
    file->journal.path = file->path;
    if (status == SYMMCOLL_OK)
        status = symc_file_join(file, deadline_ns);
    if (status != SYMMCOLL_OK) {
        free_file(file);
        return status;
    }
    return symc_store_create(&file_ops, file, store);
}

symmcoll_status_t symc_store_open_file(const char *path, int num_workers,
    int64_t deadline_ns, struct symmcoll_store **store)
{
    int cancel = symc_cancel_disable();
    symmcoll_status_t status = open_file(path, num_workers, deadline_ns, store);

    symc_cancel_restore(cancel);
    return status;
}

symmcoll_status_t symmcoll_store_open_file(
    const char *path, int num_workers, struct symmcoll_store **store)
{
    return symc_store_open_file(path, num_workers, SYMC_NEVER, store);
}
