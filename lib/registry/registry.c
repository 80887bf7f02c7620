/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The built-in backends, listed by name: no constructors.
 */
#include "registry/registry.h"
#include "config/config.h"

#include <stdio.h>

extern const struct symc_backend symc_host_backend;
extern const struct symc_backend symc_fake_backend;

static const struct symc_backend *const builtin[] = {
    &symc_host_backend, &symc_fake_backend, NULL};

const struct symc_backend *const *symc_registry_builtin(void)
{
    return builtin;
}

struct symc_settings symc_registry_settings(const struct symc_config *config)
{
    return (struct symc_settings){.config = config,
        .get_bool = symc_config_get_bool,
        .get_int = symc_config_get_int,
        .get_size = symc_config_get_size,
        .get_time = symc_config_get_time};
}

static void enlarge(size_t *nbytes, size_t wanted)
{
    if (wanted > *nbytes)
        *nbytes = wanted;
}

struct symc_backend_layout symc_registry_layout(
    const struct symc_config *config, int size)
{
    struct symc_settings settings = symc_registry_settings(config);
    struct symc_backend_layout layout = {0};

    for (const struct symc_backend *const *at = builtin; *at != NULL; at++) {
        struct symc_backend_layout wanted = {0};

        if ((*at)->layout == NULL)
            continue;
        (*at)->layout(&settings, size, &wanted);
        enlarge(&layout.channel, wanted.channel);
        enlarge(&layout.staging, wanted.staging);
        enlarge(&layout.staging_least, wanted.staging_least);
    }
    return layout;
}

symmcoll_status_t symc_registry_choose(
    const struct symc_peers *peers, const struct symc_backend **backend)
{
    char reasons[SYMC_DETAIL_MAX / 2] = "";
    size_t used = 0;

    for (const struct symc_backend *const *at = builtin; *at != NULL; at++) {
        if ((*at)->probe(peers) == SYMMCOLL_OK) {
            *backend = *at;
            return SYMMCOLL_OK;
        }
        used += (size_t)snprintf(reasons + used, sizeof(reasons) - used, "%s%s",
            used == 0 ? "" : "; ", symmcoll_last_error());
        if (used >= sizeof(reasons))
            used = sizeof(reasons) - 1;
    }
    return symc_fail(SYMMCOLL_ERR_UNSUPPORTED,
        "group: no backend for %d ranks: %s", peers->size, reasons);
}
