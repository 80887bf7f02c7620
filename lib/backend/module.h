/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Backends in modules: symmcoll_NAME.so under the library's folder, loaded when
 * first wanted and never unloaded.
 */
#ifndef SYMC_BACKEND_MODULE_H
#define SYMC_BACKEND_MODULE_H

#include "backend/backend.h"

/* The folder of modules: SYMMCOLL_MODULE_DIR, else where they are installed. */
const char *symc_module_folder(void);

/* The NAME of symmcoll_NAME.so; false for other files. */
bool symc_module_name(const char *file, char *name, size_t nbytes);

/*
 * Load a module by name ("cuda").
 * Errors: UNSUPPORTED (the file, and what the loader said; or another
 * interface).
 */
symmcoll_status_t symc_module_load(
    const char *name, const struct symc_backend **backend);

#endif
