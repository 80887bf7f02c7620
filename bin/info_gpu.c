/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * GPUs: what operations on device memory need, why it is missing, and the
 * devices.  Building this needs neither CUDA nor NVML, and it is not linked
 * with them.
 */
#include "info.h"

#include "backend/module.h"
#include "devices/nvml.h"

#include <symmcoll.h>

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define DRIVER_LIBRARY "libcuda.so.1"
#define DRIVER_LEAST 12040 /* 1000 * major + 10 * minor, as in CUDA */
#define DRIVER_DEVICES_MAX 64

/* Values of enum CUdevice_attribute. */
#define ATTRIBUTE_MAJOR 75
#define ATTRIBUTE_MINOR 76
#define ATTRIBUTE_MULTICAST 132

/* A GPU, as reported by the driver or NVML. */
struct gpu {
    int ordinal; /* CUDA's; -1: not visible to this process */
    char name[96];
    char uuid[96];
    uint64_t memory;
    int capability; /* 90 for 9.0 */
    int multicast;  /* -1: unknown */
    int links;      /* -1: unknown */
};

/* The driver's functions; all return 0 or a CUresult. */
struct driver {
    void *library;
    int version;
    int (*find)(const char *name, void **function, int version, uint64_t flags,
        int *result);
    int (*init)(unsigned flags);
    int (*get_version)(int *version);
    int (*error_name)(int status, const char **name);
    int (*count)(int *count);
    int (*device)(int *device, int ordinal);
    int (*name)(char *name, int nbytes, int device);
    int (*uuid)(unsigned char uuid[16], int device);
    int (*memory)(size_t *nbytes, int device);
    int (*attribute)(int *value, int attribute, int device);
};

/* Everything that was found. */
struct gpus {
    char driver_detail[SYMC_DETAIL_MAX];
    char devices_detail[SYMC_DETAIL_MAX];
    char nvml_detail[SYMC_DETAIL_MAX];
    char cublaslt_detail[SYMC_DETAIL_MAX];
    bool driver, devices, nvml, cublaslt; /* available */
    struct symc_nvml known; /* from NVML; the first rows are these */
    struct gpu *gpu;
    int count;
};

/* ---- the driver ---- */

static void close_driver(struct driver *driver)
{
    if (driver->library != NULL)
        dlclose(driver->library);
}

static bool find_functions(struct driver *driver, char *detail, size_t nbytes)
{
    const struct {
        const char *name;
        int version;
        void *function;
    } wanted[] = {
        {"cuInit", 2000, &driver->init},
        {"cuDriverGetVersion", 2020, &driver->get_version},
        {"cuGetErrorName", 6000, &driver->error_name},
        {"cuDeviceGetCount", 2000, &driver->count},
        {"cuDeviceGet", 2000, &driver->device},
        {"cuDeviceGetName", 2000, &driver->name},
        {"cuDeviceGetUuid", 11040, &driver->uuid},
        {"cuDeviceTotalMem", 3020, &driver->memory},
        {"cuDeviceGetAttribute", 2000, &driver->attribute},
    };

    for (size_t i = 0; i < sizeof(wanted) / sizeof(*wanted); i++) {
        void *symbol = NULL;
        int result = -1;

        if (driver->find(
                wanted[i].name, &symbol, wanted[i].version, 0, &result) != 0 ||
            symbol == NULL) {
            snprintf(detail, nbytes, DRIVER_LIBRARY ": it has no %s",
                wanted[i].name);
            return false;
        }
        memcpy(wanted[i].function, &symbol, sizeof(symbol));
    }
    return true;
}

static bool open_driver(struct driver *driver, char *detail, size_t nbytes)
{
    void *symbol;

    *driver = (struct driver){
        .library = dlopen(DRIVER_LIBRARY, RTLD_NOW | RTLD_LOCAL)};
    if (driver->library == NULL) {
        snprintf(detail, nbytes, "no driver: %s", dlerror());
        return false;
    }
    symbol = dlsym(driver->library, "cuGetProcAddress_v2");
    if (symbol == NULL) {
        snprintf(detail, nbytes,
            DRIVER_LIBRARY ": too old: expected one for CUDA %d.%d or later",
            DRIVER_LEAST / 1000, DRIVER_LEAST % 1000 / 10);
        return false;
    }
    /* ISO C has no cast from an object pointer to a function pointer. */
    memcpy(&driver->find, &symbol, sizeof(symbol));
    if (!find_functions(driver, detail, nbytes))
        return false;
    if (driver->get_version(&driver->version) != 0 ||
        driver->version < DRIVER_LEAST) {
        snprintf(detail, nbytes,
            DRIVER_LIBRARY ": too old: expected one for CUDA %d.%d or later, "
                           "found %d.%d",
            DRIVER_LEAST / 1000, DRIVER_LEAST % 1000 / 10,
            driver->version / 1000, driver->version % 1000 / 10);
        return false;
    }
    snprintf(detail, nbytes, "CUDA %d.%d", driver->version / 1000,
        driver->version % 1000 / 10);
    return true;
}

static void format_error(const struct driver *driver, const char *what,
    int refused, char *detail, size_t nbytes)
{
    const char *name = NULL;

    if (driver->error_name(refused, &name) != 0 || name == NULL)
        name = "an unknown error";
    snprintf(detail, nbytes, "%s: error %d, %s", what, refused, name);
}

/* Formats a UUID as NVML does. */
static void format_uuid(char *text, size_t nbytes, const unsigned char *uuid)
{
    size_t used = (size_t)snprintf(text, nbytes, "GPU");

    for (int i = 0; i < 16; i++) {
        bool first = i == 0 || i == 4 || i == 6 || i == 8 || i == 10;

        used += (size_t)snprintf(
            text + used, nbytes - used, first ? "-%02x" : "%02x", uuid[i]);
    }
}

/* Reads a device; values that the driver does not report stay empty. */
static void read_device(
    const struct driver *driver, int ordinal, struct gpu *gpu)
{
    unsigned char uuid[16];
    size_t memory = 0;
    int device = 0, major = 0, minor = 0;

    *gpu = (struct gpu){.ordinal = ordinal, .multicast = -1, .links = -1};
    if (driver->device(&device, ordinal) != 0)
        return;
    if (driver->name(gpu->name, sizeof(gpu->name), device) != 0)
        gpu->name[0] = '\0';
    if (driver->uuid(uuid, device) == 0)
        format_uuid(gpu->uuid, sizeof(gpu->uuid), uuid);
    if (driver->memory(&memory, device) == 0)
        gpu->memory = memory;
    if (driver->attribute(&major, ATTRIBUTE_MAJOR, device) == 0 &&
        driver->attribute(&minor, ATTRIBUTE_MINOR, device) == 0)
        gpu->capability = major * 10 + minor;
    if (driver->attribute(&gpu->multicast, ATTRIBUTE_MULTICAST, device) != 0)
        gpu->multicast = -1;
}

/* ---- all GPUs ---- */

/* Adds a GPU of the driver.  If NVML has it too, they are merged, with the
 * links from NVML. */
static void add_gpu(struct gpus *gpus, const struct gpu *gpu)
{
    for (int i = 0; i < gpus->known.count; i++) {
        if (gpu->uuid[0] != '\0' &&
            strcasecmp(gpus->known.devices[i].uuid, gpu->uuid) == 0) {
            int links = gpus->gpu[i].links;

            gpus->gpu[i] = *gpu;
            gpus->gpu[i].links = links;
            return;
        }
    }
    gpus->gpu[gpus->count++] = *gpu;
}

static void read_nvml(struct gpus *gpus)
{
    gpus->nvml = symc_nvml_open(&gpus->known) == SYMMCOLL_OK;
    snprintf(gpus->nvml_detail, sizeof(gpus->nvml_detail), "%s",
        gpus->nvml ? SYMC_NVML_LIBRARY : symmcoll_last_error());
    gpus->gpu = symc_alloc(
        (size_t)gpus->known.count + DRIVER_DEVICES_MAX, sizeof(*gpus->gpu));
    if (gpus->gpu == NULL) {
        fputs("symmcoll-info: no memory\n", stderr);
        exit(1);
    }
    for (int i = 0; i < gpus->known.count; i++) {
        const struct symc_nvml_device *device = &gpus->known.devices[i];
        struct gpu *gpu = &gpus->gpu[gpus->count++];

        *gpu = (struct gpu){.ordinal = -1,
            .memory = device->memory,
            .capability = device->capability,
            .multicast = -1,
            .links = device->links};
        memcpy(gpu->name, device->name, sizeof(gpu->name));
        memcpy(gpu->uuid, device->uuid, sizeof(gpu->uuid));
    }
}

static bool is_old(const struct gpu *gpu)
{
    return gpu->capability < SYMC_CUDA_ARCH_LEAST;
}

static void describe_devices(struct gpus *gpus, int count, int old)
{
    if (count == old)
        snprintf(gpus->devices_detail, sizeof(gpus->devices_detail),
            "too old: expected compute capability %d.%d or later",
            SYMC_CUDA_ARCH_LEAST / 10, SYMC_CUDA_ARCH_LEAST % 10);
    else
        snprintf(gpus->devices_detail, sizeof(gpus->devices_detail), "%d",
            count - old);
    gpus->devices = count > old;
}

static void read_devices(const struct driver *driver, struct gpus *gpus)
{
    int count = 0, old = 0, refused = driver->init(0);

    if (refused == 0)
        refused = driver->count(&count);
    if (refused != 0) {
        format_error(driver, "initialisation", refused, gpus->devices_detail,
            sizeof(gpus->devices_detail));
        return;
    }
    if (count == 0) {
        snprintf(gpus->devices_detail, sizeof(gpus->devices_detail),
            "CUDA shows none to this process");
        return;
    }
    for (int i = 0; i < count && i < DRIVER_DEVICES_MAX; i++) {
        struct gpu gpu;

        read_device(driver, i, &gpu);
        old += is_old(&gpu);
        add_gpu(gpus, &gpu);
    }
    describe_devices(gpus, count, old);
}

static void read_all(struct gpus *gpus)
{
    struct driver driver;

    *gpus = (struct gpus){.devices_detail = "there is no driver to ask"};
    read_nvml(gpus);
    gpus->driver =
        open_driver(&driver, gpus->driver_detail, sizeof(gpus->driver_detail));
    if (gpus->driver)
        read_devices(&driver, gpus);
    close_driver(&driver);
}

/* ---- tables ---- */

static const char *const support_columns[] = {
    "part", "available", "detail", NULL};

static void add_part(struct info_table *table, const char *name, bool available,
    const char *text)
{
    info_text(table, name);
    info_flag(table, available);
    info_text(table, text);
}

static void add_support(
    struct info_out *out, const struct gpus *gpus, const struct info_nccl *nccl)
{
    const struct symc_backend *backend;
    struct info_table table;
    bool loaded = symc_module_load("cuda", &backend) == SYMMCOLL_OK;

    info_table_begin(&table, "gpu_support", support_columns);
    add_part(&table, "module", loaded, loaded ? NULL : symmcoll_last_error());
    add_part(&table, "driver", gpus->driver, gpus->driver_detail);
    add_part(&table, "devices", gpus->devices, gpus->devices_detail);
    add_part(&table, "nvml", gpus->nvml, gpus->nvml_detail);
    add_part(&table, "nccl", nccl->available, nccl->detail);
    add_part(&table, "cublaslt", gpus->cublaslt, gpus->cublaslt_detail);
    info_table_end(&table, out);
}

static void add_known(struct info_table *table, int number)
{
    if (number < 0)
        info_none(table);
    else
        info_number(table, number);
}

static const char *const gpus_columns[] = {"gpu", "cuda", "name",
    "memory_bytes", "compute_capability", "uuid", "multicast", "nvlinks",
    "reason", NULL};

/* Adds the row of a GPU, with the reason why it cannot be used. */
static void add_row(struct info_table *table, int row, const struct gpu *gpu)
{
    info_number(table, row);
    add_known(table, gpu->ordinal);
    info_text(table, gpu->name[0] != '\0' ? gpu->name : NULL);
    info_number(table, (long long)gpu->memory);
    info_format(table, "%d.%d", gpu->capability / 10, gpu->capability % 10);
    info_text(table, gpu->uuid[0] != '\0' ? gpu->uuid : NULL);
    if (gpu->multicast < 0)
        info_none(table);
    else
        info_flag(table, gpu->multicast > 0);
    add_known(table, gpu->links);
    if (is_old(gpu))
        info_format(table, "compute capability is not %d.%d or later",
            SYMC_CUDA_ARCH_LEAST / 10, SYMC_CUDA_ARCH_LEAST % 10);
    else
        info_text(table,
            gpu->ordinal < 0 ? "CUDA does not show it to this process" : NULL);
}

static const char *const links_columns[] = {"gpu", "other", "nvlinks", NULL};

static void add_links(struct info_out *out, const struct symc_nvml *known)
{
    struct info_table table;

    info_table_begin(&table, "gpu_links", links_columns);
    for (int i = 0; i < known->count; i++) {
        for (int j = i + 1; j < known->count; j++) {
            info_number(&table, i);
            info_number(&table, j);
            info_number(&table, known->links[i * known->count + j]);
        }
    }
    info_table_end(&table, out);
}

void info_add_gpus(struct info_out *out, const struct symc_config *config)
{
    struct gpus gpus;
    struct info_nccl nccl;
    struct info_table table;

    read_all(&gpus);
    info_find_nccl(config, &nccl);
    gpus.cublaslt = info_find_cublaslt(
        config, gpus.cublaslt_detail, sizeof(gpus.cublaslt_detail));
    add_support(out, &gpus, &nccl);
    info_table_begin(&table, "gpus", gpus_columns);
    for (int i = 0; i < gpus.count; i++)
        add_row(&table, i, &gpus.gpu[i]);
    info_table_end(&table, out);
    add_links(out, &gpus.known);
    info_add_nccl(out, &nccl);
    symc_nvml_close(&gpus.known);
    free(gpus.gpu);
}
