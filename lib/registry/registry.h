/* SPDX-License-Identifier: BSD-3-Clause */
/* The backends that a world may use, and the choice of one for each purpose. */
#ifndef SYMC_REGISTRY_REGISTRY_H
#define SYMC_REGISTRY_REGISTRY_H

#include "backend/backend.h"
#include "devices/unserved.h"

#define SYMC_BACKENDS 16 /* limit for one world */

struct symc_registry {
    const struct symc_backend
        *backends[SYMC_BACKENDS]; /* by falling priority */
    int count;
    /* Those of them with find(), in the same order. */
    const struct symc_backend *finders[SYMC_BACKENDS];
    int finds; /* number of finders */
    /* There is no backend for device memory: buffers there are refused. */
    bool unserved;
};

/* Returns whether an address is known to be host memory because no backend has
 * any other memory. */
static inline bool symc_registry_is_hosts(
    const struct symc_registry *registry, const void *at)
{
    return !registry->unserved || symc_unserved_is_hosts(at);
}

/* Returns the built-in backends, with NULL at the end. */
const struct symc_backend *const *symc_registry_builtin(void);

/*
 * Builds the list of backends that the setting "backends" allows, and loads
 * those that are modules.  If the setting allows all, a module that cannot be
 * loaded is omitted with a warning.
 *
 * Errors: CONFIG (a name, and why there is no such backend), NO_MEMORY.
 */
symmcoll_status_t symc_registry_open(struct symc_registry *registry,
    const struct symc_config *config, const struct symc_log *log);

/* Returns the settings in the form that backends read. */
struct symc_settings symc_registry_settings(const struct symc_config *config);

/* Returns a layout that is large enough for each backend of host memory. */
struct symc_backend_layout symc_registry_layout(
    const struct symc_registry *registry, const struct symc_config *config,
    int size);

/* Chooses the first backend of a kind of memory that can serve a group.
 * Errors: UNSUPPORTED, with every backend's reason. */
symmcoll_status_t symc_registry_choose(const struct symc_registry *registry,
    enum symc_memory memory, const struct symc_peers *peers,
    const struct symc_backend **backend);

/* Returns the first backend that allocates memory of a kind, or NULL. */
const struct symc_backend *symc_registry_memory(
    const struct symc_registry *registry, enum symc_memory memory);

/* Finds the backend that allocates device memory.  `where` begins the message.
 * Errors: UNSUPPORTED. */
symmcoll_status_t symc_registry_find_device(
    const struct symc_registry *registry, const char *where, int device,
    const struct symc_backend **backend);

/* Opens a device for one rank; ops and local (out) are valid until
 * ops->close().  The request has what open() reads, except fail.  Errors: those
 * of open(), and UNSUPPORTED; each begins with `where` and the device. */
symmcoll_status_t symc_registry_open_device(
    const struct symc_registry *registry, const char *where,
    struct symc_memory_request request, const struct symc_local_ops **ops,
    void **local);

/* As symc_registry_open_device(), for products on a device, with the
 * settings. */
symmcoll_status_t symc_registry_open_compute(
    const struct symc_registry *registry, const struct symc_config *config,
    const char *where, struct symc_memory_request request,
    const struct symc_compute_ops **ops, void **compute);

/* As symc_registry_open_device(), for copies of messages; errors have neither
 * `where` nor, in general, the device. */
symmcoll_status_t symc_registry_open_transfer(
    const struct symc_registry *registry, struct symc_memory_request request,
    const struct symc_transfer_ops **ops, void **transfer);

/* Returns whether this process may have memory other than the host's by now; if
 * not, addresses need no lookup. */
bool symc_registry_is_other_present(const struct symc_registry *registry);

/* Returns whether a backend of a kind of memory reports that a stream is being
 * captured. */
bool symc_registry_is_captured(const struct symc_registry *registry,
    enum symc_memory memory, void *stream);

/* Returns the memory that an address is in, and its device; host memory if
 * neither a backend nor, without a backend for devices, the driver knows it. */
enum symc_memory symc_registry_find(
    const struct symc_registry *registry, const void *data, int16_t *device);

/* As symc_registry_find(), for the first byte of a range. whole (out): the
 * result holds for all bytes up to the last, and symc_registry_is_one() is true
 * for both. */
enum symc_memory symc_registry_find_whole(const struct symc_registry *registry,
    const void *first, const void *last, int16_t *device, bool *whole);

/* Fails with the reason why the device is SYMC_UNKNOWN_DEVICE: DEVICE or
 * NO_MEMORY.  `where` begins the detail. */
symmcoll_status_t symc_registry_refuse(
    const struct symc_registry *registry, const char *where, const void *data);

/* Returns whether two bytes, of which the first is not in host memory, are in
 * one allocation; true if no backend can determine it. */
bool symc_registry_is_one(
    const struct symc_registry *registry, const void *first, const void *last);

#endif
