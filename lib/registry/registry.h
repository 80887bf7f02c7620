/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The list of backends, and the choice of one for a group.
 */
#ifndef SYMC_REGISTRY_REGISTRY_H
#define SYMC_REGISTRY_REGISTRY_H

#include "backend/backend.h"

/* The built-in backends, the highest priority first, NULL at the end. */
const struct symc_backend *const *symc_registry_builtin(void);

/* The settings as backends see them. */
struct symc_settings symc_registry_settings(const struct symc_config *config);

/* What serves any of the built-in backends. */
struct symc_backend_layout symc_registry_layout(
    const struct symc_config *config, int size);

/* The first backend that can serve such a group.  Errors: UNSUPPORTED, with
 * every backend's reason. */
symmcoll_status_t symc_registry_choose(
    const struct symc_peers *peers, const struct symc_backend **backend);

#endif
