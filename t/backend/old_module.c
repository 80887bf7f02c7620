/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A module of another interface, which the loader must refuse.
 */
#include "backend/backend.h"

SYMMCOLL_API
extern const struct symc_backend symmcoll_backend;
const struct symc_backend symmcoll_backend = {
    .abi = SYMC_BACKEND_ABI + 1, .name = "old_module"};
