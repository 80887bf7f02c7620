/* SPDX-License-Identifier: BSD-3-Clause */
#include "cuda/nccl/nccl.h"

#include "cuda/library.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct entry {
    const char *name;
    int since;
    size_t offset;
};

#define ENTRY(member, name, since, type, args) \
    {#name, since, offsetof(struct symc_nccl, member)},

static const struct entry needed[] = {SYMC_NCCL_NEEDED(ENTRY)};
static const struct entry optional[] = {SYMC_NCCL_OPTIONAL(ENTRY)};

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

/* State of the process: NCCL is loaded once, and never unloaded. */
static struct {
    pthread_mutex_t lock;
    _Atomic(const struct symc_nccl *) loaded; /* the table, once complete */
    struct symc_nccl table;
    struct symc_library self;
} library = {.lock = PTHREAD_MUTEX_INITIALIZER,
    .self = {
        .name = SYMC_NCCL_LIBRARY, .title = "NCCL", .setting = "cuda.nccl"}};

const char *symc_nccl_format_version(int version, char *buffer)
{
    /* Up to 2.8 the major version is multiplied by 1000. */
    int major = version < 10000 ? 1000 : 10000;

    (void)snprintf(buffer, 32, "%d.%d.%d", version / major,
        version % major / 100, version % 100);
    return buffer;
}

/* Fills in one member; returns false if the library lacks the function. */
static bool find_entry(
    void *handle, const struct entry *entry, struct symc_nccl *table)
{
    return symc_library_find(
        handle, entry->name, (char *)table + entry->offset);
}

static symmcoll_status_t find_version(void *handle, struct symc_nccl *table)
{
    enum symc_nccl_result result;
    char found[32], least[32];

    if (!find_entry(handle, &needed[0], table))
        return symc_library_refuse(&library.self,
            "%s: expected NCCL, found no %s", table->path, needed[0].name);
    result = table->get_version(&table->version);
    if (result != SYMC_NCCL_SUCCESS)
        return symc_library_refuse(&library.self,
            "%s: expected the version of NCCL, found error %d of %s",
            table->path, (int)result, needed[0].name);
    if (table->version < SYMC_NCCL_LEAST)
        return symc_library_refuse(&library.self,
            "%s: expected NCCL %s or later, found %s", table->path,
            symc_nccl_format_version(SYMC_NCCL_LEAST, least),
            symc_nccl_format_version(table->version, found));
    return SYMMCOLL_OK;
}

static symmcoll_status_t fill_table(void *handle, struct symc_nccl *table)
{
    char found[32];

    for (size_t i = 0; i < COUNT(needed); i++)
        if (!find_entry(handle, &needed[i], table))
            return symc_library_refuse(&library.self,
                "%s: expected %s, found none in NCCL %s", table->path,
                needed[i].name,
                symc_nccl_format_version(table->version, found));
    for (size_t i = 0; i < COUNT(optional); i++)
        (void)find_entry(handle, &optional[i], table);
    return SYMMCOLL_OK;
}

/* Opens the library and fills the table.  Called with the lock held. */
static symmcoll_status_t load(const char *path, struct symc_nccl *table)
{
    void *handle = symc_library_open(&library.self, path);
    symmcoll_status_t status;

    if (handle == NULL)
        return SYMMCOLL_ERR_UNSUPPORTED;
    *table =
        (struct symc_nccl){.path = symc_library_path(&library.self, handle)};
    status = find_version(handle, table);
    if (status == SYMMCOLL_OK)
        status = fill_table(handle, table);
    if (status != SYMMCOLL_OK)
        return status;
    atomic_store_explicit(&library.loaded, table, memory_order_release);
    return SYMMCOLL_OK;
}

symmcoll_status_t symc_nccl_load(
    symc_nccl_fail_fn fail, const char *path, const struct symc_nccl **nccl)
{
    char reason[SYMC_DETAIL_MAX];
    symmcoll_status_t status = SYMMCOLL_OK;

    pthread_mutex_lock(&library.lock);
    *nccl = atomic_load_explicit(&library.loaded, memory_order_acquire);
    if (*nccl == NULL) {
        status = load(path, &library.table);
        memcpy(reason, library.self.reason, sizeof(reason));
    }
    if (status == SYMMCOLL_OK)
        *nccl = &library.table;
    pthread_mutex_unlock(&library.lock);
    if (status == SYMMCOLL_OK || fail == NULL)
        return status;
    return fail(status, "%s", reason);
}

bool symc_nccl_optional(const struct symc_nccl *nccl, int index,
    struct symc_nccl_function *function)
{
    void *found;

    if (index < 0 || (size_t)index >= COUNT(optional))
        return false;
    memcpy(&found, (const char *)nccl + optional[index].offset, sizeof(found));
    *function = (struct symc_nccl_function){
        optional[index].name, optional[index].since, found != NULL};
    return true;
}

/* ---- configs ---- */

/* Returns the bytes of a config that a library of a version reads. */
static size_t get_config_size(int version)
{
    if (version >= SYMC_NCCL_CODE(2, 28, 0))
        return sizeof(struct symc_nccl_config);
    if (version >= SYMC_NCCL_CODE(2, 27, 0))
        return offsetof(struct symc_nccl_config, channels_per_net_peer);
    return offsetof(struct symc_nccl_config, comm_name);
}

void symc_nccl_config_init(
    const struct symc_nccl *nccl, struct symc_nccl_config *config)
{
    const int none = SYMC_NCCL_UNDEFINED;
    int version =
        nccl->version < SYMC_NCCL_KNOWN ? nccl->version : SYMC_NCCL_KNOWN;

    *config = (struct symc_nccl_config){.size = get_config_size(version),
        .magic = (uint32_t)SYMC_NCCL_CONFIG_MAGIC,
        .version = (uint32_t)version,
        .blocking = none,
        .cga_cluster_size = none,
        .min_ctas = none,
        .max_ctas = none,
        .split_share = none,
        .traffic_class = none,
        .collnet_enable = none,
        .cta_policy = none,
        .shrink_share = none,
        .nvls_ctas = none,
        .channels_per_net_peer = none,
        .nvlink_centric_sched = none};
}
