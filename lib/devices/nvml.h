/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The GPUs of this machine and the links between them, from NVML, the
 * management library of NVIDIA's driver, which is loaded at run time and never
 * linked with.
 */
#ifndef SYMC_DEVICES_NVML_H
#define SYMC_DEVICES_NVML_H

#include "base/base.h"

#define SYMC_NVML_LIBRARY "libnvidia-ml.so.1"

struct symc_nvml_device {
    char name[96];
    char uuid[96];   /* "GPU-" and five hexadecimal numbers */
    char bus_id[32]; /* "00000000:18:00.0", in any case */
    uint64_t memory; /* bytes */
    int capability;  /* 90 for 9.0 */
    int links;       /* active NVLinks, to any other end */
    int to_switches; /* those of them to NVSwitches */
};

struct symc_nvml {
    int count; /* in NVML's order: that of the PCI bus */
    struct symc_nvml_device *devices;
    int *links; /* count * count: number of links between two devices */
};

/*
 * Reads all properties.  A link to a switch leads to every device with such a
 * link: two devices have as many links between them as the one with fewer has.
 *
 * Errors: UNSUPPORTED (there is no NVML, with the loader's reason, or no
 * device), NO_MEMORY, SYSTEM (with NVML's error).
 */
symmcoll_status_t symc_nvml_open(struct symc_nvml *nvml);
void symc_nvml_close(struct symc_nvml *nvml);

#endif
