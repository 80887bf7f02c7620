/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Which backends a world may use, and which one serves what.
 */
#ifndef SYMC_REGISTRY_REGISTRY_H
#define SYMC_REGISTRY_REGISTRY_H

#include "backend/backend.h"
#include "devices/unserved.h"

#define SYMC_BACKENDS 16 /* that a world may use */

struct symc_registry {
    const struct symc_backend *backends[SYMC_BACKENDS]; /* falling priority */
    int count;
    /* Of these, who know memory that is not the host's, in the same order. */
    const struct symc_backend *finders[SYMC_BACKENDS];
    int finds; /* how many these are */
    /* There is no backend of device memory: what is there is refused. */
    bool unserved;
};

/* Whether an address is known to be the host's, for no backend has any other
 * memory. */
static inline bool symc_registry_is_hosts(
    const struct symc_registry *registry, const void *at)
{
    return !registry->unserved || symc_unserved_is_hosts(at);
}

/* The built-in backends, NULL at the end. */
const struct symc_backend *const *symc_registry_builtin(void);

/*
 * What the setting "backends" allows of those that are built in and those that
 * are modules, which are loaded.  Where it allows all, a module that cannot be
 * loaded is left out with a warning.
 * Errors: CONFIG (a name, and why there is no such backend).
 */
symmcoll_status_t symc_registry_open(struct symc_registry *registry,
    const struct symc_config *config, const struct symc_log *log);

/* The settings as backends see them. */
struct symc_settings symc_registry_settings(const struct symc_config *config);

/* What serves any of the backends of host memory. */
struct symc_backend_layout symc_registry_layout(
    const struct symc_registry *registry, const struct symc_config *config,
    int size);

/* The first backend of such memory that can serve such a group.  Errors:
 * UNSUPPORTED, with every backend's reason. */
symmcoll_status_t symc_registry_choose(const struct symc_registry *registry,
    enum symc_memory memory, const struct symc_peers *peers,
    const struct symc_backend **backend);

/* The first backend that has such memory of its own; NULL: none has. */
const struct symc_backend *symc_registry_memory(
    const struct symc_registry *registry, enum symc_memory memory);

/* The one that has memory of devices (out).  Errors: UNSUPPORTED (where: why there
 * is none for this device). */
symmcoll_status_t symc_registry_find_device(
    const struct symc_registry *registry, const char *where, int device,
    const struct symc_backend **backend);

/* A device (out, with what is done there) for one rank alone, until ops->close();
 * of the request, what open() reads but for fail.
 * Errors: those of open(), and UNSUPPORTED; each says where, and which device. */
symmcoll_status_t symc_registry_open_device(
    const struct symc_registry *registry, const char *where,
    struct symc_memory_request request, const struct symc_local_ops **ops,
    void **local);

/* The same of what multiplies there (out), with the settings. */
symmcoll_status_t symc_registry_open_compute(
    const struct symc_registry *registry, const struct symc_config *config,
    const char *where, struct symc_memory_request request,
    const struct symc_compute_ops **ops, void **compute);

/* The same of what copies messages there (out); the error does not say where, nor which
 * device. */
symmcoll_status_t symc_registry_open_transfer(
    const struct symc_registry *registry, struct symc_memory_request request,
    const struct symc_transfer_ops **ops, void **transfer);

/* Whether memory that is not the host's may be in this process by now; if not no
 * address need be looked for. */
bool symc_registry_is_other_present(const struct symc_registry *registry);

/* Whether a backend of such memory says that a stream is being captured. */
bool symc_registry_is_captured(const struct symc_registry *registry,
    enum symc_memory memory, void *stream);

/* Which memory an address is in, and on which device; the host's where no
 * backend knows it, nor the driver where there is none for devices. */
enum symc_memory symc_registry_find(
    const struct symc_registry *registry, const void *data, int16_t *device);

/* The same of a first byte.  whole (out): the same is known of all until the last, and
 * that symc_registry_is_one() is true of both. */
enum symc_memory symc_registry_find_whole(const struct symc_registry *registry,
    const void *first, const void *last, int16_t *device, bool *whole);

/* Where that device is SYMC_UNKNOWN_DEVICE: fail with the reason, DEVICE or
 * NO_MEMORY; where begins the detail. */
symmcoll_status_t symc_registry_refuse(
    const struct symc_registry *registry, const char *where, const void *data);

/* Whether two bytes are of one allocation, of which the first one is in memory that
 * is not the host's; also where no backend can tell. */
bool symc_registry_is_one(
    const struct symc_registry *registry, const void *first, const void *last);

#endif
