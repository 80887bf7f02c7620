/* SPDX-License-Identifier: BSD-3-Clause */
/* Tests the links between GPUs as reported by a fake NVML (fake_nvml.c). */
#include "t/ranks.h"
#include "t/tap.h"

#include "devices/nvml.h"

#include <symmcoll.h>

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int fails_as(symmcoll_status_t expected, const char *text)
{
    struct symmcoll_connectivity found = SYMMCOLL_CONNECTIVITY_INIT;
    symmcoll_status_t status =
        symmcoll_connectivity_detect(NULL, "nvlink", &found);
    int good = status == expected && found.values == NULL &&
               strstr(symmcoll_last_error(), text) != NULL;

    if (!good)
        diag("status %d: %s", status, symmcoll_last_error());
    symmcoll_connectivity_free(&found);
    return good;
}

/* Loads the fake, which the library then finds by its name for the rest of the
 * program. */
static int load_fake(const char *fault)
{
    static void *library;
    const char *folder = getenv("T_BUILDDIR");
    char path[4096];

    snprintf(path, sizeof(path), "%s/t/devices/.libs/" SYMC_NVML_LIBRARY,
        folder != NULL ? folder : ".");
    library = dlopen(path, RTLD_NOW | RTLD_GLOBAL);
    if (library == NULL)
        diag("%s", dlerror());
    return library != NULL && setenv("FAKE_NVML", fault, 1) == 0;
}

static int is_matrix(
    const struct symmcoll_connectivity *found, const int *expected)
{
    int good = found->count == 4 && strcmp(found->kind, "nvlink") == 0 &&
               strcmp(found->device, "gpu") == 0;

    for (int i = 0; good && i < found->count; i++)
        good = found->numbers[i] == i;
    for (int i = 0; good && i < found->count * found->count; i++) {
        good = found->values[i] == expected[i];
        if (!good)
            diag("row %d, column %d: expected %d, found %d", i / found->count,
                i % found->count, expected[i], found->values[i]);
    }
    return good;
}

static int detects(const char *fault, const int *expected)
{
    struct symmcoll_connectivity found = SYMMCOLL_CONNECTIVITY_INIT;
    int good;

    if (!load_fake(fault))
        return 0;
    if (symmcoll_connectivity_detect(NULL, "nvlink", &found) != SYMMCOLL_OK) {
        diag("%s", symmcoll_last_error());
        return 0;
    }
    good = is_matrix(&found, expected);
    symmcoll_connectivity_free(&found);
    return good;
}

static int counts_links(void)
{
    static const int expected[16] = {
        0, 4, 0, 0, 4, 0, 0, 0, 0, 0, 0, 6, 0, 0, 6, 0};

    return detects("", expected);
}

static int stays_silent(void)
{
    static const int expected[16] = {0};

    return detects("silent", expected);
}

static int describes_devices(void)
{
    struct symc_nvml nvml;
    int good = load_fake("") && symc_nvml_open(&nvml) == SYMMCOLL_OK;

    if (!good)
        return 0;
    good = nvml.count == 4 && strcmp(nvml.devices[1].name, "Fake GPU 1") == 0 &&
           nvml.devices[1].memory == (80ULL << 30) + 1 &&
           nvml.devices[2].capability == 90 && nvml.devices[3].links == 12 &&
           nvml.devices[0].to_switches == 0 &&
           strcmp(nvml.devices[2].uuid,
               "GPU-00000000-0000-0000-0000-000000000002") == 0;
    symc_nvml_close(&nvml);
    return good && nvml.devices == NULL;
}

static int has_no_device(void)
{
    return load_fake("none") &&
           fails_as(SYMMCOLL_ERR_UNSUPPORTED, "there is no device");
}

static int cannot_begin(void)
{
    return load_fake("broken") &&
           fails_as(SYMMCOLL_ERR_UNSUPPORTED, "Driver Not Loaded");
}

static int has_no_library(void)
{
    return fails_as(SYMMCOLL_ERR_UNSUPPORTED, SYMC_NVML_LIBRARY ":");
}

/* Returns whether this machine has NVML. */
static int is_installed(void)
{
    void *library = dlopen(SYMC_NVML_LIBRARY, RTLD_NOW | RTLD_LOCAL);

    if (library != NULL)
        dlclose(library);
    return library != NULL;
}

int main(void)
{
    plan(6);
    ok(process_run(counts_links),
        "links between GPUs are counted, through switches those of the one with "
        "fewer (S40)");
    ok(process_run(describes_devices), "the GPUs are described");
    ok(process_run(stays_silent),
        "of a GPU that does not tell there are none (S40)");
    ok(process_run(has_no_device), "without a GPU nvlink is unsupported (S40)");
    ok(process_run(cannot_begin),
        "where the driver is not loaded the error says so (S40)");
    if (is_installed())
        skip(1, "this machine has " SYMC_NVML_LIBRARY);
    else
        ok(process_run(has_no_library),
            "without a driver nvlink is unsupported, with the loader's reason "
            "(S40)");
    return done_testing();
}
