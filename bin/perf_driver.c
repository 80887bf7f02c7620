/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The CUDA driver in symmcoll-perf: memory, a stream and events of each rank's
 * device.  It is loaded on demand; building this needs neither CUDA nor its
 * headers.
 */
#include "perf_device.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LIBRARY "libcuda.so.1"
#define STREAM_NON_BLOCKING 1
#define NAME_MAX_NBYTES 96
#define MULTICAST_SUPPORTED 132 /* device attribute */

/* All functions return 0 or a CUresult. */
struct perf_driver {
    void *library;
    int count; /* number of devices */
    int (*init)(unsigned flags);
    int (*error_name)(int result, const char **name);
    int (*device_count)(int *count);
    int (*device_get)(int *device, int ordinal);
    int (*device_name)(char *name, int nbytes, int device);
    int (*device_attribute)(int *value, int attribute, int device);
    int (*retain)(void **context, int device);
    int (*release)(int device);
    int (*set_current)(void *context);
    int (*alloc)(uint64_t *at, size_t nbytes);
    int (*free)(uint64_t at);
    int (*copy)(uint64_t to, uint64_t from, size_t nbytes, void *stream);
    int (*stream_create)(void **stream, unsigned flags);
    int (*stream_destroy)(void *stream);
    int (*stream_wait)(void *stream);
    int (*event_create)(void **event, unsigned flags);
    int (*event_destroy)(void *event);
    int (*event_record)(void *event, void *stream);
    int (*event_elapsed)(float *ms, void *begin, void *end);
};

struct perf_device {
    const struct perf_driver *driver;
    int ordinal;
    int device;
    char name[NAME_MAX_NBYTES];
    void *context;
    void *stream;
    void *events[2];
};

/* ---- the driver ---- */

/* Returns a function, or its second version if only that exists. */
static void *find_function(const struct perf_driver *driver, const char *name)
{
    void *symbol = dlsym(driver->library, name);
    char second[PERF_NAME_MAX];

    snprintf(second, sizeof(second), "%s_v2", name);
    return symbol != NULL ? symbol : dlsym(driver->library, second);
}

static bool find_functions(struct perf_driver *driver)
{
    const struct {
        const char *name;
        void *function;
    } wanted[] = {
        {"cuInit", &driver->init},
        {"cuGetErrorName", &driver->error_name},
        {"cuDeviceGetCount", &driver->device_count},
        {"cuDeviceGet", &driver->device_get},
        {"cuDeviceGetName", &driver->device_name},
        {"cuDeviceGetAttribute", &driver->device_attribute},
        {"cuDevicePrimaryCtxRetain", &driver->retain},
        {"cuDevicePrimaryCtxRelease_v2", &driver->release},
        {"cuCtxSetCurrent", &driver->set_current},
        {"cuMemAlloc_v2", &driver->alloc},
        {"cuMemFree_v2", &driver->free},
        {"cuMemcpyAsync", &driver->copy},
        {"cuStreamCreate", &driver->stream_create},
        {"cuStreamDestroy_v2", &driver->stream_destroy},
        {"cuStreamSynchronize", &driver->stream_wait},
        {"cuEventCreate", &driver->event_create},
        {"cuEventDestroy_v2", &driver->event_destroy},
        {"cuEventRecord", &driver->event_record},
        {"cuEventElapsedTime", &driver->event_elapsed},
    };

    for (size_t i = 0; i < sizeof(wanted) / sizeof(*wanted); i++) {
        void *symbol = find_function(driver, wanted[i].name);

        if (symbol == NULL) {
            fprintf(stderr,
                "symmcoll-perf: --device: " LIBRARY ": it has no %s\n",
                wanted[i].name);
            return false;
        }
        /* ISO C has no cast from an object pointer to a function pointer. */
        memcpy(wanted[i].function, &symbol, sizeof(symbol));
    }
    return true;
}

/* Returns true if a call has succeeded; otherwise prints its error. */
static bool is_good(
    const struct perf_driver *driver, int ordinal, const char *what, int result)
{
    const char *name = NULL;

    if (result == 0)
        return true;
    if (driver->error_name(result, &name) != 0 || name == NULL)
        name = "an unknown error";
    if (ordinal < 0)
        fprintf(stderr, "symmcoll-perf: --device: %s: error %d, %s\n", what,
            result, name);
    else
        fprintf(stderr, "symmcoll-perf: device %d: %s: error %d, %s\n", ordinal,
            what, result, name);
    return false;
}

static int check_devices(const struct perf_driver *driver, int first)
{
    if (driver->count == 0) {
        fputs("symmcoll-perf: --device: expected a device, found none: CUDA "
              "shows none to this process\n",
            stderr);
        return PERF_FAILED;
    }
    if (first < driver->count)
        return PERF_PASSED;
    fprintf(stderr,
        "symmcoll-perf: --device: expected a number from 0 to %d, found "
        "cuda:%d\n",
        driver->count - 1, first);
    return PERF_USAGE;
}

int perf_driver_open(struct perf_driver **driver, int first)
{
    struct perf_driver *opened = calloc(1, sizeof(*opened));

    *driver = opened;
    if (opened == NULL) {
        fputs("symmcoll-perf: --device: no memory\n", stderr);
        return PERF_FAILED;
    }
    opened->library = dlopen(LIBRARY, RTLD_NOW | RTLD_LOCAL);
    if (opened->library == NULL) {
        fprintf(
            stderr, "symmcoll-perf: --device: no CUDA driver: %s\n", dlerror());
        return PERF_FAILED;
    }
    if (!find_functions(opened) ||
        !is_good(opened, -1, "cuInit", opened->init(0)) ||
        !is_good(opened, -1, "cuDeviceGetCount",
            opened->device_count(&opened->count)))
        return PERF_FAILED;
    return check_devices(opened, first);
}

bool perf_driver_has_multicast(const struct perf_driver *driver, int ranks)
{
    for (int i = 0; i < driver->count; i++) {
        int device, has = 0;

        if (driver->device_get(&device, i) != 0 ||
            driver->device_attribute(&has, MULTICAST_SUPPORTED, device) != 0 ||
            has == 0)
            return false;
    }
    return ranks <= driver->count;
}

/* The library stays loaded: it has its own threads and must not be unloaded. */
void perf_driver_close(struct perf_driver *driver)
{
    free(driver);
}

/* ---- a rank's device ---- */

static bool say(const struct perf_device *device, const char *what, int result)
{
    return is_good(device->driver, device->ordinal, what, result);
}

static bool open_context(struct perf_device *device)
{
    const struct perf_driver *driver = device->driver;

    if (!say(device, "cuDeviceGet",
            driver->device_get(&device->device, device->ordinal)) ||
        !say(device, "cuDeviceGetName",
            driver->device_name(
                device->name, (int)sizeof(device->name), device->device)))
        return false;
    if (!say(device, "cuDevicePrimaryCtxRetain",
            driver->retain(&device->context, device->device))) {
        device->context = NULL;
        return false;
    }
    return say(device, "cuCtxSetCurrent", driver->set_current(device->context));
}

static bool open_stream(struct perf_device *device)
{
    const struct perf_driver *driver = device->driver;

    if (!say(device, "cuStreamCreate",
            driver->stream_create(&device->stream, STREAM_NON_BLOCKING))) {
        device->stream = NULL;
        return false;
    }
    for (int i = 0; i < 2; i++) {
        if (!say(device, "cuEventCreate",
                driver->event_create(&device->events[i], 0))) {
            device->events[i] = NULL;
            return false;
        }
    }
    return true;
}

struct perf_device *perf_device_open(
    const struct perf_options *options, int rank)
{
    const struct perf_driver *driver = options->driver;
    struct perf_device *device = calloc(1, sizeof(*device));

    if (device == NULL) {
        fputs("symmcoll-perf: --device: no memory\n", stderr);
        return NULL;
    }
    device->driver = driver;
    device->ordinal = options->share
                          ? options->first_device
                          : (options->first_device + rank) % driver->count;
    if (open_context(device) && open_stream(device))
        return device;
    perf_device_close(device);
    return NULL;
}

void perf_device_close(struct perf_device *device)
{
    if (device == NULL)
        return;
    for (int i = 0; i < 2; i++)
        if (device->events[i] != NULL)
            device->driver->event_destroy(device->events[i]);
    if (device->stream != NULL)
        device->driver->stream_destroy(device->stream);
    if (device->context != NULL) {
        device->driver->set_current(NULL);
        device->driver->release(device->device);
    }
    free(device);
}

const char *perf_device_name(const struct perf_device *device)
{
    return device->name;
}

int perf_device_ordinal(const struct perf_device *device)
{
    return device->ordinal;
}

void *perf_device_stream(const struct perf_device *device)
{
    return device->stream;
}

/* ---- memory ---- */

void *perf_device_allocate(const struct perf_device *device, size_t nbytes)
{
    uint64_t at = 0;
    char what[64];

    snprintf(what, sizeof(what), "cuMemAlloc of %zu bytes", nbytes);
    if (!say(device, what, device->driver->alloc(&at, nbytes)))
        return NULL;
    return (void *)(uintptr_t)at;
}

void perf_device_free(const struct perf_device *device, void *memory)
{
    if (memory != NULL)
        say(device, "cuMemFree",
            device->driver->free((uint64_t)(uintptr_t)memory));
}

bool perf_device_copy(
    const struct perf_device *device, void *to, const void *from, size_t nbytes)
{
    return nbytes == 0 ||
           say(device, "cuMemcpyAsync",
               device->driver->copy((uint64_t)(uintptr_t)to,
                   (uint64_t)(uintptr_t)from, nbytes, device->stream));
}

bool perf_device_wait(const struct perf_device *device)
{
    return say(device, "cuStreamSynchronize",
        device->driver->stream_wait(device->stream));
}

/* ---- times ---- */

bool perf_device_mark(const struct perf_device *device, int event)
{
    return say(device, "cuEventRecord",
        device->driver->event_record(device->events[event], device->stream));
}

bool perf_device_elapsed(const struct perf_device *device, double *seconds)
{
    float ms = 0;

    if (!say(device, "cuEventElapsedTime",
            device->driver->event_elapsed(
                &ms, device->events[0], device->events[1])))
        return false;
    *seconds = (double)ms / 1e3;
    return true;
}
