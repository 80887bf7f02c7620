/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * NVML, through its documented interface.  None of its headers are included, so
 * that this builds on a machine without the CUDA toolkit.
 */
#include "devices/nvml.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define LINKS_MAX 64      /* per device; a call beyond its last link fails */
#define LINK_TO_GPU 0     /* NVML_NVLINK_DEVICE_TYPE_GPU */
#define LINK_TO_SWITCH 2  /* NVML_NVLINK_DEVICE_TYPE_SWITCH */
#define NVML_NO_DEVICES 6 /* NVML_ERROR_NOT_FOUND */

typedef void *device_t;

/* nvmlPciInfo_t */
struct pci {
    char bus_id_legacy[16];
    unsigned domain, bus, device;
    unsigned device_id, subsystem_id;
    char bus_id[32];
};

/* nvmlMemory_t */
struct memory {
    unsigned long long total, free, used;
};

/* All return 0 or an nvmlReturn_t, except error(), which returns its text. */
struct functions {
    int (*init)(void);
    int (*shutdown)(void);
    const char *(*error)(int status);
    int (*count)(unsigned *count);
    int (*handle)(unsigned index, device_t *device);
    int (*pci)(device_t device, struct pci *pci);
    int (*name)(device_t device, char *name, unsigned nbytes);
    int (*uuid)(device_t device, char *uuid, unsigned nbytes);
    int (*memory)(device_t device, struct memory *memory);
    int (*capability)(device_t device, int *major, int *minor);
    int (*link_state)(device_t device, unsigned link, unsigned *active);
    int (*link_type)(device_t device, unsigned link, int *type);
    int (*link_pci)(device_t device, unsigned link, struct pci *pci);
};

struct session {
    void *library;
    struct functions call;
};

/* ---- the library ---- */

static symmcoll_status_t find_functions(struct session *session)
{
    struct functions *call = &session->call;
    const struct {
        const char *name;
        void *function;
    } wanted[] = {
        {"nvmlInit_v2", &call->init},
        {"nvmlShutdown", &call->shutdown},
        {"nvmlErrorString", &call->error},
        {"nvmlDeviceGetCount_v2", &call->count},
        {"nvmlDeviceGetHandleByIndex_v2", &call->handle},
        {"nvmlDeviceGetPciInfo_v3", &call->pci},
        {"nvmlDeviceGetName", &call->name},
        {"nvmlDeviceGetUUID", &call->uuid},
        {"nvmlDeviceGetMemoryInfo", &call->memory},
        {"nvmlDeviceGetCudaComputeCapability", &call->capability},
        {"nvmlDeviceGetNvLinkState", &call->link_state},
        {"nvmlDeviceGetNvLinkRemoteDeviceType", &call->link_type},
        {"nvmlDeviceGetNvLinkRemotePciInfo_v2", &call->link_pci},
    };

    for (size_t i = 0; i < sizeof(wanted) / sizeof(*wanted); i++) {
        void *symbol = dlsym(session->library, wanted[i].name);

        if (symbol == NULL)
            return symc_fail(SYMMCOLL_ERR_UNSUPPORTED,
                SYMC_NVML_LIBRARY ": it has no %s: the driver is too old",
                wanted[i].name);
        /* ISO C has no cast from an object pointer to a function pointer. */
        memcpy(wanted[i].function, &symbol, sizeof(symbol));
    }
    return SYMMCOLL_OK;
}

static symmcoll_status_t fail(const struct session *session,
    symmcoll_status_t status, const char *what, int refused)
{
    const char *text = session->call.error(refused);

    return symc_fail(status, SYMC_NVML_LIBRARY ": %s: error %d, %s", what,
        refused, text != NULL ? text : "unknown");
}

static symmcoll_status_t open_session(struct session *session)
{
    symmcoll_status_t status;
    int refused;

    session->library = dlopen(SYMC_NVML_LIBRARY, RTLD_NOW | RTLD_LOCAL);
    if (session->library == NULL)
        return symc_fail(SYMMCOLL_ERR_UNSUPPORTED, "no NVML: %s", dlerror());
    status = find_functions(session);
    if (status != SYMMCOLL_OK)
        goto close_library;
    refused = session->call.init();
    if (refused == 0)
        return SYMMCOLL_OK;
    /* The driver's kernel module is not loaded, or has another release. */
    status = fail(session, SYMMCOLL_ERR_UNSUPPORTED, "initialisation", refused);
close_library:
    dlclose(session->library);
    return status;
}

static void close_session(struct session *session)
{
    session->call.shutdown();
    dlclose(session->library);
}

/* ---- a device ---- */

/* Reads a device's properties.  Those that NVML does not report stay empty. */
static symmcoll_status_t read_device(const struct session *session,
    device_t handle, struct symc_nvml_device *device)
{
    const struct functions *call = &session->call;
    struct memory memory = {0};
    struct pci pci = {.bus_id = ""};
    int major = 0, minor = 0;
    int refused = call->pci(handle, &pci);

    if (refused != 0)
        return fail(session, SYMMCOLL_ERR_SYSTEM, "place of a device", refused);
    snprintf(device->bus_id, sizeof(device->bus_id), "%.*s",
        (int)sizeof(pci.bus_id), pci.bus_id);
    if (call->name(handle, device->name, sizeof(device->name)) != 0)
        device->name[0] = '\0';
    if (call->uuid(handle, device->uuid, sizeof(device->uuid)) != 0)
        device->uuid[0] = '\0';
    if (call->memory(handle, &memory) == 0)
        device->memory = memory.total;
    if (call->capability(handle, &major, &minor) == 0)
        device->capability = major * 10 + minor;
    return SYMMCOLL_OK;
}

static int find_device(const struct symc_nvml *nvml, const char *bus_id)
{
    for (int i = 0; i < nvml->count; i++)
        if (strncasecmp(nvml->devices[i].bus_id, bus_id,
                sizeof(nvml->devices[i].bus_id)) == 0)
            return i;
    return -1;
}

/* Counts a device's links by their other end.  Links to no device of this
 * machine count only for the device itself. */
static void read_links(const struct session *session, device_t handle,
    struct symc_nvml *nvml, int index)
{
    const struct functions *call = &session->call;
    struct symc_nvml_device *device = &nvml->devices[index];

    for (unsigned link = 0; link < LINKS_MAX; link++) {
        struct pci pci = {.bus_id = ""};
        unsigned active = 0;
        int type = -1, other = -1;

        if (call->link_state(handle, link, &active) != 0)
            return;
        if (active == 0)
            continue;
        device->links++;
        if (call->link_type(handle, link, &type) != 0)
            continue;
        if (type == LINK_TO_SWITCH)
            device->to_switches++;
        if (type == LINK_TO_GPU && call->link_pci(handle, link, &pci) == 0)
            other = find_device(nvml, pci.bus_id);
        if (other >= 0 && other != index)
            nvml->links[index * nvml->count + other]++;
    }
}

/* Adds the links through switches, assuming that all switches are connected. */
static void add_switched_links(struct symc_nvml *nvml)
{
    for (int i = 0; i < nvml->count; i++) {
        for (int j = 0; j < nvml->count; j++) {
            int own = nvml->devices[i].to_switches;
            int other = nvml->devices[j].to_switches;

            if (i != j)
                nvml->links[i * nvml->count + j] += own < other ? own : other;
        }
    }
}

/* ---- all devices ---- */

static symmcoll_status_t read_all(
    const struct session *session, struct symc_nvml *nvml, device_t *handles)
{
    for (int i = 0; i < nvml->count; i++) {
        int refused = session->call.handle((unsigned)i, &handles[i]);
        symmcoll_status_t status;

        if (refused != 0)
            return fail(session, SYMMCOLL_ERR_SYSTEM, "a device", refused);
        status = read_device(session, handles[i], &nvml->devices[i]);
        if (status != SYMMCOLL_OK)
            return status;
    }
    for (int i = 0; i < nvml->count; i++)
        read_links(session, handles[i], nvml, i);
    add_switched_links(nvml);
    return SYMMCOLL_OK;
}

static symmcoll_status_t read_machine(
    const struct session *session, struct symc_nvml *nvml)
{
    unsigned count = 0;
    int refused = session->call.count(&count);
    device_t *handles;
    symmcoll_status_t status = SYMMCOLL_ERR_NO_MEMORY;

    if (refused != 0 && refused != NVML_NO_DEVICES)
        return fail(session, SYMMCOLL_ERR_SYSTEM, "number of devices", refused);
    if (refused != 0 || count == 0)
        return symc_fail(
            SYMMCOLL_ERR_UNSUPPORTED, SYMC_NVML_LIBRARY ": there is no device");
    nvml->count = (int)count;
    handles = symc_alloc(count, sizeof(*handles));
    nvml->devices = symc_alloc(count, sizeof(*nvml->devices));
    nvml->links = symc_alloc((size_t)count * count, sizeof(*nvml->links));
    if (handles != NULL && nvml->devices != NULL && nvml->links != NULL)
        status = read_all(session, nvml, handles);
    free(handles);
    if (status != SYMMCOLL_OK)
        symc_nvml_close(nvml);
    return status;
}

symmcoll_status_t symc_nvml_open(struct symc_nvml *nvml)
{
    struct session session;
    symmcoll_status_t status = open_session(&session);

    *nvml = (struct symc_nvml){.count = 0};
    if (status != SYMMCOLL_OK)
        return status;
    status = read_machine(&session, nvml);
    close_session(&session);
    return status;
}

void symc_nvml_close(struct symc_nvml *nvml)
{
    free(nvml->devices);
    free(nvml->links);
    *nvml = (struct symc_nvml){.count = 0};
}
