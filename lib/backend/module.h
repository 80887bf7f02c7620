/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Backends in modules: symmcoll_NAME.so in the library's folder, loaded on
 * first use and never unloaded.
 */
#ifndef SYMC_BACKEND_MODULE_H
#define SYMC_BACKEND_MODULE_H

#include "backend/backend.h"

/* Returns the folder of modules: SYMMCOLL_MODULE_DIR, or where they are
 * installed. */
const char *symc_module_folder(void);

/* Gets the NAME of symmcoll_NAME.so.  Returns false for other files. */
bool symc_module_name(const char *file, char *name, size_t nbytes);

/*
 * Loads a module by name, as "cuda".
 *
 * Errors: INVALID (not a name), UNSUPPORTED (the file, with the loader's error;
 * or another interface).
 */
symmcoll_status_t symc_module_load(
    const char *name, const struct symc_backend **backend);

#endif
