/* SPDX-License-Identifier: BSD-3-Clause */
#include "cuda/library.h"

#include <dlfcn.h>
#include <link.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

symmcoll_status_t symc_library_refuse(
    struct symc_library *library, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    (void)vsnprintf(library->reason, sizeof(library->reason), format, args);
    va_end(args);
    return SYMMCOLL_ERR_UNSUPPORTED;
}

void *symc_library_open(struct symc_library *library, const char *path)
{
    void *handle = dlopen(library->name, RTLD_NOW | RTLD_NOLOAD);

    if (handle != NULL)
        return handle;
    if (path[0] == '\0') {
        (void)symc_library_refuse(library,
            "no %s: expected the name of a library, found an empty %s",
            library->title, library->setting);
        return NULL;
    }
    handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (handle == NULL)
        (void)symc_library_refuse(library,
            "no %s: expected the library that %s names, found none: %s",
            library->title, library->setting, dlerror());
    return handle;
}

const char *symc_library_path(const struct symc_library *library, void *handle)
{
    struct link_map *map = NULL;

    return dlinfo(handle, RTLD_DI_LINKMAP, &map) == 0 ? map->l_name
                                                      : library->name;
}

bool symc_library_find(void *handle, const char *name, void *function)
{
    void *found = dlsym(handle, name);

    /* ISO C has no cast from an object pointer to a function pointer. */
    memcpy(function, &found, sizeof(found));
    return found != NULL;
}
