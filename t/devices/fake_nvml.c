/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A libnvidia-ml.so.1 for tests: four GPUs. The first two have four links to
 * each other, the others six and twelve links to switches. FAKE_NVML changes
 * that:
 *
 *   none    there is no GPU
 *   broken  initialisation fails
 *   silent  a GPU reports neither its name nor its links
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define GPUS 4

struct pci {
    char bus_id_legacy[16];
    unsigned domain, bus, device;
    unsigned device_id, subsystem_id;
    char bus_id[32];
};

struct memory {
    unsigned long long total, free, used;
};

static int numbers[GPUS] = {0, 1, 2, 3};

static int is_set(const char *fault)
{
    const char *set = getenv("FAKE_NVML");

    return set != NULL && strcmp(set, fault) == 0;
}

int nvmlInit_v2(void);
int nvmlInit_v2(void)
{
    return is_set("broken") ? 9 : 0;
}

int nvmlShutdown(void);
int nvmlShutdown(void)
{
    return 0;
}

const char *nvmlErrorString(int status);
const char *nvmlErrorString(int status)
{
    return status == 9 ? "Driver Not Loaded" : "Unknown Error";
}

int nvmlDeviceGetCount_v2(unsigned *count);
int nvmlDeviceGetCount_v2(unsigned *count)
{
    *count = is_set("none") ? 0 : GPUS;
    return 0;
}

int nvmlDeviceGetHandleByIndex_v2(unsigned index, void **device);
int nvmlDeviceGetHandleByIndex_v2(unsigned index, void **device)
{
    if (index >= GPUS)
        return 2;
    *device = &numbers[index];
    return 0;
}

/* Fills in a link's other end, the letters of which differ in case. */
static void fill_pci(struct pci *pci, int number, const char *format)
{
    memset(pci, 0, sizeof(*pci));
    snprintf(pci->bus_id, sizeof(pci->bus_id), format, number);
}

int nvmlDeviceGetPciInfo_v3(const int *device, struct pci *pci);
int nvmlDeviceGetPciInfo_v3(const int *device, struct pci *pci)
{
    fill_pci(pci, *device, "00000000:A%d:00.0");
    return 0;
}

int nvmlDeviceGetName(const int *device, char *name, unsigned nbytes);
int nvmlDeviceGetName(const int *device, char *name, unsigned nbytes)
{
    if (is_set("silent"))
        return 3;
    snprintf(name, nbytes, "Fake GPU %d", *device);
    return 0;
}

int nvmlDeviceGetUUID(const int *device, char *uuid, unsigned nbytes);
int nvmlDeviceGetUUID(const int *device, char *uuid, unsigned nbytes)
{
    snprintf(
        uuid, nbytes, "GPU-00000000-0000-0000-0000-00000000000%d", *device);
    return 0;
}

int nvmlDeviceGetMemoryInfo(const int *device, struct memory *memory);
int nvmlDeviceGetMemoryInfo(const int *device, struct memory *memory)
{
    memory->total = (80ULL << 30) + (unsigned long long)*device;
    memory->free = memory->total;
    memory->used = 0;
    return 0;
}

/* Returns the compute capability; the last device is too old. */
int nvmlDeviceGetCudaComputeCapability(
    const int *device, int *major, int *minor);
int nvmlDeviceGetCudaComputeCapability(
    const int *device, int *major, int *minor)
{
    *major = *device == 3 ? 7 : 9;
    *minor = 0;
    return 0;
}

/* Returns the links of each device; one more is down. */
static unsigned count_links(int device)
{
    static const unsigned links[GPUS] = {4, 4, 6, 12};

    return is_set("silent") ? 0 : links[device];
}

int nvmlDeviceGetNvLinkState(
    const int *device, unsigned link, unsigned *active);
int nvmlDeviceGetNvLinkState(const int *device, unsigned link, unsigned *active)
{
    if (link > count_links(*device))
        return 2;
    *active = link < count_links(*device);
    return 0;
}

int nvmlDeviceGetNvLinkRemoteDeviceType(
    const int *device, unsigned link, int *type);
int nvmlDeviceGetNvLinkRemoteDeviceType(
    const int *device, unsigned link, int *type)
{
    (void)link;
    *type = *device < 2 ? 0 : 2;
    return 0;
}

int nvmlDeviceGetNvLinkRemotePciInfo_v2(
    const int *device, unsigned link, struct pci *pci);
int nvmlDeviceGetNvLinkRemotePciInfo_v2(
    const int *device, unsigned link, struct pci *pci)
{
    (void)link;
    fill_pci(pci, 1 - *device, "00000000:a%d:00.0");
    return 0;
}
