/* SPDX-License-Identifier: BSD-3-Clause */
/* A module of another interface version, which the loader must refuse. */
#include "backend/backend.h"
#include "backend/interface.h"

SYMMCOLL_API
extern const struct symc_backend symmcoll_backend;
const struct symc_backend symmcoll_backend = {
    .interface = SYMC_BACKEND_INTERFACE + 1, .name = "old_module"};
