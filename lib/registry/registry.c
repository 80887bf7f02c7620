/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The backends of a world: built-in ones, listed by name without constructors,
 * and modules in the library's folder.
 */
#include "registry/registry.h"
#include "backend/module.h"
#include "config/config.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

extern const struct symc_backend symc_host_backend;
extern const struct symc_backend symc_fake_backend;

static const struct symc_backend *const builtin[] = {
    &symc_host_backend, &symc_fake_backend, NULL};

const struct symc_backend *const *symc_registry_builtin(void)
{
    return builtin;
}

/* ---- the list of backends ---- */

/* Adds a backend after those of its priority. */
static symmcoll_status_t add(
    struct symc_registry *registry, const struct symc_backend *backend)
{
    int at = registry->count;

    for (int i = 0; i < registry->count; i++) {
        if (registry->backends[i] == backend)
            return SYMMCOLL_OK;
    }
    if (registry->count == SYMC_BACKENDS)
        return symc_fail(SYMMCOLL_ERR_CONFIG,
            "backends: expected %d at most, found %s as well", SYMC_BACKENDS,
            backend->name);
    for (; at > 0 && registry->backends[at - 1]->priority < backend->priority;
         at--)
        registry->backends[at] = registry->backends[at - 1];
    registry->backends[at] = backend;
    registry->count++;
    return SYMMCOLL_OK;
}

/* Collects the backends with find(), and checks for one of device memory. */
static void list_finders(struct symc_registry *registry)
{
    registry->unserved = true;
    for (int i = 0; i < registry->count; i++) {
        if (registry->backends[i]->memory == SYMC_MEMORY_DEVICE)
            registry->unserved = false;
        if (registry->backends[i]->find != NULL)
            registry->finders[registry->finds++] = registry->backends[i];
    }
}

static const struct symc_backend *find_builtin(const char *name)
{
    for (const struct symc_backend *const *at = builtin; *at != NULL; at++) {
        if (strcmp((*at)->name, name) == 0)
            return *at;
    }
    return NULL;
}

static symmcoll_status_t add_named(
    struct symc_registry *registry, const char *name)
{
    const struct symc_backend *backend = find_builtin(name);

    if (backend == NULL && symc_module_load(name, &backend) != SYMMCOLL_OK)
        return symc_fail(SYMMCOLL_ERR_CONFIG,
            "backends: expected names of backends, found '%.64s': %s", name,
            symmcoll_last_error());
    return add(registry, backend);
}

static symmcoll_status_t add_listed(
    struct symc_registry *registry, const char *list)
{
    symmcoll_status_t status = SYMMCOLL_OK;
    char *names = symc_strdup(list), *rest = NULL;

    if (names == NULL)
        return SYMMCOLL_ERR_NO_MEMORY;
    for (char *name = strtok_r(names, ", ", &rest);
         name != NULL && status == SYMMCOLL_OK;
         name = strtok_r(NULL, ", ", &rest))
        status = add_named(registry, name);
    free(names);
    return status;
}

/* Adds the modules of the folder in the order of their names. */
static void add_installed(
    struct symc_registry *registry, const struct symc_log *log)
{
    struct dirent **entries;
    int count = scandir(symc_module_folder(), &entries, NULL, alphasort);

    for (int i = 0; i < count; i++) {
        const struct symc_backend *backend;
        char name[sizeof(entries[i]->d_name)];

        if (symc_module_name(entries[i]->d_name, name, sizeof(name)) &&
            (symc_module_load(name, &backend) != SYMMCOLL_OK ||
                add(registry, backend) != SYMMCOLL_OK))
            symc_logf(log, SYMC_LOG_WARN, "%s", symmcoll_last_error());
        free(entries[i]);
    }
    if (count >= 0)
        free(entries);
}

symmcoll_status_t symc_registry_open(struct symc_registry *registry,
    const struct symc_config *config, const struct symc_log *log)
{
    symmcoll_status_t status = SYMMCOLL_OK;

    *registry = (struct symc_registry){.count = 0};
    if (config->backends[0] != '\0') {
        status = add_listed(registry, config->backends);
    } else {
        for (const struct symc_backend *const *at = builtin; *at != NULL; at++)
            add(registry, *at);
        add_installed(registry, log);
    }
    list_finders(registry);
    return status;
}

/* ---- calls to backends ---- */

struct symc_settings symc_registry_settings(const struct symc_config *config)
{
    return (struct symc_settings){.config = config,
        .get_bool = symc_config_get_bool,
        .get_int = symc_config_get_int,
        .get_size = symc_config_get_size,
        .get_time = symc_config_get_time,
        .get_text = symc_config_get_text,
        .get_variable = symc_variable_get};
}

static void enlarge(size_t *nbytes, size_t wanted)
{
    if (wanted > *nbytes)
        *nbytes = wanted;
}

struct symc_backend_layout symc_registry_layout(
    const struct symc_registry *registry, const struct symc_config *config,
    int size)
{
    struct symc_settings settings = symc_registry_settings(config);
    struct symc_backend_layout layout = {0};

    for (int i = 0; i < registry->count; i++) {
        const struct symc_backend *backend = registry->backends[i];
        struct symc_backend_layout wanted = {0};

        if (backend->layout == NULL || backend->memory != SYMC_MEMORY_HOST)
            continue;
        backend->layout(&settings, size, &wanted);
        enlarge(&layout.channel, wanted.channel);
        enlarge(&layout.staging, wanted.staging);
        enlarge(&layout.staging_least, wanted.staging_least);
    }
    return layout;
}

symmcoll_status_t symc_registry_choose(const struct symc_registry *registry,
    enum symc_memory memory, const struct symc_peers *peers,
    const struct symc_backend **backend)
{
    char reasons[SYMC_DETAIL_MAX / 2] = "";
    size_t used = 0;

    for (int i = 0; i < registry->count; i++) {
        const struct symc_backend *found = registry->backends[i];

        if (found->memory != memory)
            continue;
        if (found->probe(peers) == SYMMCOLL_OK) {
            *backend = found;
            return SYMMCOLL_OK;
        }
        used += (size_t)snprintf(reasons + used, sizeof(reasons) - used, "%s%s",
            used == 0 ? "" : "; ", symmcoll_last_error());
        if (used >= sizeof(reasons))
            used = sizeof(reasons) - 1;
    }
    return symc_fail(SYMMCOLL_ERR_UNSUPPORTED,
        "group: no backend of %s for %d ranks%s%s", symc_memory_name(memory),
        peers->size, used > 0 ? ": " : "", reasons);
}

const struct symc_backend *symc_registry_memory(
    const struct symc_registry *registry, enum symc_memory memory)
{
    for (int i = 0; i < registry->count; i++) {
        const struct symc_backend *backend = registry->backends[i];

        if (backend->memory == memory && backend->mem != NULL)
            return backend;
    }
    return NULL;
}

symmcoll_status_t symc_registry_find_device(
    const struct symc_registry *registry, const char *where, int device,
    const struct symc_backend **backend)
{
    *backend = symc_registry_memory(registry, SYMC_MEMORY_DEVICE);
    if (*backend != NULL)
        return SYMMCOLL_OK;
    return symc_fail(SYMMCOLL_ERR_UNSUPPORTED,
        "%s: expected a backend with memory of CUDA device %d, found none: "
        "module cuda is not installed, or the setting backends leaves it out",
        where, device);
}

symmcoll_status_t symc_registry_open_device(
    const struct symc_registry *registry, const char *where,
    struct symc_memory_request request, const struct symc_local_ops **ops,
    void **local)
{
    const int device = request.device;
    const struct symc_backend *backend;
    symmcoll_status_t status =
        symc_registry_find_device(registry, where, device, &backend);

    request.fail = symc_fail;
    if (status != SYMMCOLL_OK)
        return status;
    *ops = backend->local;
    if (*ops == NULL)
        return symc_fail(SYMMCOLL_ERR_UNSUPPORTED,
            "%s: expected a backend that allocates and copies on device %d, "
            "found %s",
            where, device, backend->name);
    status = (*ops)->open(&request, local);
    if (status == SYMMCOLL_OK)
        return status;
    return symc_error_prefix(status, "%s: device %d", where, device);
}

symmcoll_status_t symc_registry_open_compute(
    const struct symc_registry *registry, const struct symc_config *config,
    const char *where, struct symc_memory_request request,
    const struct symc_compute_ops **ops, void **compute)
{
    const struct symc_settings settings = symc_registry_settings(config);
    const int device = request.device;
    const struct symc_backend *backend;
    symmcoll_status_t status =
        symc_registry_find_device(registry, where, device, &backend);

    request.settings = &settings;
    request.fail = symc_fail;
    if (status != SYMMCOLL_OK)
        return status;
    *ops = backend->compute;
    if (*ops == NULL)
        return symc_fail(SYMMCOLL_ERR_UNSUPPORTED,
            "%s: expected a backend that multiplies matrices on device %d, "
            "found %s",
            where, device, backend->name);
    status = (*ops)->open(&request, compute);
    if (status == SYMMCOLL_OK)
        return status;
    return symc_error_prefix(status, "%s: device %d", where, device);
}

symmcoll_status_t symc_registry_open_transfer(
    const struct symc_registry *registry, struct symc_memory_request request,
    const struct symc_transfer_ops **ops, void **transfer)
{
    const struct symc_backend *backend =
        symc_registry_memory(registry, SYMC_MEMORY_DEVICE);

    request.fail = symc_fail;
    *ops = backend != NULL ? backend->transfer : NULL;
    return *ops != NULL
               ? (*ops)->open(&request, transfer)
               : symc_fail(SYMMCOLL_ERR_UNSUPPORTED,
                     "expected a backend that copies messages of device memory, "
                     "found %s",
                     backend != NULL ? backend->name : "none");
}

bool symc_registry_is_other_present(const struct symc_registry *registry)
{
    if (registry->unserved)
        return true;
    for (int i = 0; i < registry->finds; i++) {
        const struct symc_backend *backend = registry->finders[i];

        if (backend->is_present == NULL || backend->is_present())
            return true;
    }
    return false;
}

bool symc_registry_is_captured(
    const struct symc_registry *registry, enum symc_memory memory, void *stream)
{
    for (int i = 0; i < registry->count; i++) {
        const struct symc_backend *backend = registry->backends[i];

        if (backend->memory == memory && backend->is_captured != NULL &&
            backend->is_captured(stream))
            return true;
    }
    return false;
}

/* Finds the memory of an address range; with last NULL, only of the first
 * byte. */
static enum symc_memory find(const struct symc_registry *registry,
    const void *first, const void *last, int16_t *device, bool *whole)
{
    *whole = false;
    *device = 0;
    for (int i = 0; i < registry->finds; i++) {
        const struct symc_backend *backend = registry->finders[i];

        if (last != NULL && backend->find_whole != NULL
                ? backend->find_whole(first, last, device, whole)
                : backend->find(first, device))
            return backend->memory;
    }
    return registry->unserved && symc_unserved_find(first, device)
               ? SYMC_MEMORY_DEVICE
               : SYMC_MEMORY_HOST;
}

enum symc_memory symc_registry_find(
    const struct symc_registry *registry, const void *data, int16_t *device)
{
    bool whole;

    return find(registry, data, NULL, device, &whole);
}

enum symc_memory symc_registry_find_whole(const struct symc_registry *registry,
    const void *first, const void *last, int16_t *device, bool *whole)
{
    return find(registry, first, last, device, whole);
}

symmcoll_status_t symc_registry_refuse(
    const struct symc_registry *registry, const char *where, const void *data)
{
    for (int i = 0; i < registry->finds; i++) {
        if (registry->finders[i]->refuse != NULL)
            return registry->finders[i]->refuse(symc_fail, where, data);
    }
    return symc_fail(SYMMCOLL_ERR_DEVICE,
        "%s: expected a driver that says where %p is, found none", where, data);
}

bool symc_registry_is_one(
    const struct symc_registry *registry, const void *first, const void *last)
{
    for (int i = 0; i < registry->finds; i++) {
        const struct symc_backend *backend = registry->finders[i];

        if (backend->is_one != NULL && !backend->is_one(first, last))
            return false;
    }
    return true;
}
