/* SPDX-License-Identifier: BSD-3-Clause */
#include "cuda/cublaslt/cublaslt.h"

#include "cuda/library.h"

#include <pthread.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

struct entry {
    const char *name;
    size_t offset;
};

#define ENTRY(member, name, type, args) \
    {#name, offsetof(struct symc_cublaslt, member)},

static const struct entry entries[] = {SYMC_CUBLASLT_FUNCTIONS(ENTRY)};

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

/* State of the process: the library is loaded once, and never unloaded. */
static struct {
    pthread_mutex_t lock;
    bool loaded; /* the table is complete */
    struct symc_cublaslt table;
    struct symc_library self;
} library = {.lock = PTHREAD_MUTEX_INITIALIZER,
    .self = {.name = SYMC_CUBLASLT_LIBRARY,
        .title = "cuBLASLt",
        .setting = "cuda.cublaslt"}};

const char *symc_cublaslt_format_version(size_t version, char *buffer)
{
    /* 120901 is 12.9.1, and 130100 is 13.1.0; up to 10.2 the factors were smaller. */
    (void)snprintf(buffer, 32, "%zu.%zu.%zu", version / 10000,
        version % 10000 / 100, version % 100);
    return buffer;
}

/* Fills in one member; returns false if the library lacks the function. */
static bool find_entry(
    void *handle, const struct entry *entry, struct symc_cublaslt *table)
{
    return symc_library_find(
        handle, entry->name, (char *)table + entry->offset);
}

static symmcoll_status_t fill_table(void *handle, struct symc_cublaslt *table)
{
    char found[32];

    if (!find_entry(handle, &entries[0], table))
        return symc_library_refuse(&library.self,
            "%s: expected cuBLASLt, found no %s", table->path, entries[0].name);
    table->version = table->get_version();
    symc_cublaslt_format_version(table->version, found);
    if (table->version / 10000 != SYMC_CUBLASLT_MAJOR)
        return symc_library_refuse(&library.self,
            "%s: expected cuBLASLt %d, found %s", table->path,
            SYMC_CUBLASLT_MAJOR, found);
    for (size_t i = 1; i < COUNT(entries); i++)
        if (!find_entry(handle, &entries[i], table))
            return symc_library_refuse(&library.self,
                "%s: expected %s, found none in cuBLASLt %s", table->path,
                entries[i].name, found);
    return SYMMCOLL_OK;
}

/* Opens the library and fills the table.  Called with the lock held. */
static symmcoll_status_t load(const char *path, struct symc_cublaslt *table)
{
    void *handle = symc_library_open(&library.self, path);
    symmcoll_status_t status;

    if (handle == NULL)
        return SYMMCOLL_ERR_UNSUPPORTED;
    *table = (struct symc_cublaslt){
        .path = symc_library_path(&library.self, handle)};
    status = fill_table(handle, table);
    if (status != SYMMCOLL_OK)
        return status;
    library.loaded = true;
    return SYMMCOLL_OK;
}

symmcoll_status_t symc_cublaslt_load(symc_cublaslt_fail_fn fail,
    const char *path, const struct symc_cublaslt **cublaslt)
{
    char reason[SYMC_DETAIL_MAX];
    symmcoll_status_t status = SYMMCOLL_OK;

    *cublaslt = NULL;
    pthread_mutex_lock(&library.lock);
    if (!library.loaded) {
        status = load(path, &library.table);
        memcpy(reason, library.self.reason, sizeof(reason));
    }
    if (status == SYMMCOLL_OK)
        *cublaslt = &library.table;
    pthread_mutex_unlock(&library.lock);
    if (status == SYMMCOLL_OK || fail == NULL)
        return status;
    return fail(status, "%s", reason);
}
