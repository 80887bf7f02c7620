/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The fake driver for programs that are not linked with it: loaded when the
 * test requests it.
 */
#ifndef T_CUDA_LOADED_H
#define T_CUDA_LOADED_H

#include "t/cuda/fake/fake.h"
#include "t/segment/child.h"
#include "t/tap.h"

#include <dlfcn.h>
#include <limits.h>

/* Loads a shared object of the build folder; NULL: failed, with a line in the
 * log. */
static inline void *load_built(const char *name)
{
    const char *folder = getenv("T_BUILDDIR");
    char path[PATH_MAX];
    void *library;

    (void)snprintf(
        path, sizeof(path), "%s/%s", folder != NULL ? folder : ".", name);
    library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (library == NULL)
        diag("%s", dlerror());
    return library;
}

/* Functions of the fake driver that tests call in addition to the library's
 * own table. */
struct loaded {
    void *library;
    bool (*configure)(const char *settings);
    uint64_t (*calls)(const char *name);
    void (*break_context)(int device, CUresult error);
    CUresult (*alloc)(CUdeviceptr *address, size_t nbytes);
    CUresult (*alloc_managed)(
        CUdeviceptr *address, size_t nbytes, unsigned int flags);
    CUresult (*release)(CUdeviceptr address);
    CUresult (*host_register)(void *at, size_t nbytes, unsigned int flags);
    CUresult (*host_unregister)(void *at);
};

static inline int load_symbol(
    const struct loaded *loaded, const char *name, void *function)
{
    void *found = dlsym(loaded->library, name);

    memcpy(function, &found, sizeof(found));
    return found != NULL;
}

/* Loads the fake driver into this process by its path; its name is then
 * found. */
static inline int load_fake(struct loaded *loaded)
{
    loaded->library = load_built("t/cuda/fake/.libs/libcuda.so.1");
    return loaded->library != NULL &&
           load_symbol(loaded, "fake_configure", &loaded->configure) &&
           load_symbol(loaded, "fake_calls", &loaded->calls) &&
           load_symbol(loaded, "fake_break", &loaded->break_context) &&
           load_symbol(loaded, "cuMemAlloc_v2", &loaded->alloc) &&
           load_symbol(loaded, "cuMemAllocManaged", &loaded->alloc_managed) &&
           load_symbol(loaded, "cuMemFree_v2", &loaded->release) &&
           load_symbol(
               loaded, "cuMemHostRegister_v2", &loaded->host_register) &&
           load_symbol(loaded, "cuMemHostUnregister", &loaded->host_unregister);
}

#endif
