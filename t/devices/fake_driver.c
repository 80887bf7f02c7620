/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A libcuda.so.1 for symmcoll-info: the functions that it calls without a
 * context. Two GPUs, which are the last two of the fake NVML in reverse order;
 * the first of them supports multicast. FAKE_DRIVER changes that:
 *
 *   none    there is no GPU
 *   hidden  CUDA_VISIBLE_DEVICES is empty
 *   old     the driver is for CUDA 11.4
 *   dull    the GPUs are too old
 */
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define GPUS 2

static int is_set(const char *fault)
{
    const char *set = getenv("FAKE_DRIVER");

    return set != NULL && strcmp(set, fault) == 0;
}

static int init(unsigned flags)
{
    return flags != 0 ? 1 : is_set("none") ? 100 : 0;
}

static int get_version(int *version)
{
    *version = is_set("old") ? 11040 : 13000;
    return 0;
}

static int error_name(int status, const char **name)
{
    *name = status == 100 ? "CUDA_ERROR_NO_DEVICE" : NULL;
    return *name == NULL ? 1 : 0;
}

static int get_count(int *count)
{
    *count = is_set("hidden") ? 0 : GPUS;
    return 0;
}

static int get_device(int *device, int ordinal)
{
    if (ordinal >= GPUS)
        return 101;
    *device = 3 - ordinal;
    return 0;
}

static int get_name(char *name, int nbytes, int device)
{
    snprintf(name, (size_t)nbytes, "Driver's GPU %d", device);
    return 0;
}

static int get_uuid(unsigned char uuid[16], int device)
{
    memset(uuid, 0, 16);
    uuid[15] = (unsigned char)device;
    return 0;
}

static int get_memory(size_t *nbytes, int device)
{
    *nbytes = ((size_t)80 << 30) - (size_t)device;
    return 0;
}

static int get_attribute(int *value, int attribute, int device)
{
    switch (attribute) {
    case 75:
        *value = is_set("dull") ? 7 : 9;
        return 0;
    case 76:
        *value = 0;
        return 0;
    case 132:
        *value = device == 3;
        return 0;
    default:
        return 1;
    }
}

static const struct {
    const char *name;
    void (*function)(void); /* instead of its own type */
} entries[] = {
    {"cuInit", (void (*)(void))init},
    {"cuDriverGetVersion", (void (*)(void))get_version},
    {"cuGetErrorName", (void (*)(void))error_name},
    {"cuDeviceGetCount", (void (*)(void))get_count},
    {"cuDeviceGet", (void (*)(void))get_device},
    {"cuDeviceGetName", (void (*)(void))get_name},
    {"cuDeviceGetUuid", (void (*)(void))get_uuid},
    {"cuDeviceTotalMem", (void (*)(void))get_memory},
    {"cuDeviceGetAttribute", (void (*)(void))get_attribute},
};

int cuGetProcAddress_v2(
    const char *name, void **found, int version, uint64_t flags, int *result);
int cuGetProcAddress_v2(
    const char *name, void **found, int version, uint64_t flags, int *result)
{
    (void)version;
    (void)flags;
    for (size_t i = 0; i < sizeof(entries) / sizeof(*entries); i++) {
        if (strcmp(name, entries[i].name) == 0) {
            memcpy(found, &entries[i].function, sizeof(*found));
            *result = 0;
            return 0;
        }
    }
    *result = 1;
    return 500;
}
