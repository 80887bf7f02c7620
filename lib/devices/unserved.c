/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Queries libcuda as the CUDA module does (cuda/find.c), but without its
 * headers.  A program may load libcuda at any time.  The loader's count of
 * loaded objects shows whether to search for it again.  The count is read only
 * for addresses in unknown pages: a call with host buffers costs one lookup per
 * buffer.
 */
#include "devices/unserved.h"

#include <dlfcn.h>
#include <link.h>
#include <string.h>

#define LIBRARY "libcuda.so.1"

/* CU_POINTER_ATTRIBUTE_MEMORY_TYPE, _IS_MANAGED and _DEVICE_ORDINAL; and
 * CU_MEMORYTYPE_DEVICE. */
#define MEMORY_TYPE 2
#define IS_MANAGED 8
#define DEVICE_ORDINAL 9
#define TYPE_DEVICE 2

/* cuPointerGetAttributes() */
typedef int (*get_attributes_fn)(
    unsigned int count, int *names, void **values, unsigned long long at);

_Atomic uintptr_t symc_unserved_pages[SYMC_UNSERVED_PAGES];

/* Global, as libcuda is. */
static struct {
    _Atomic(get_attributes_fn) get_attributes;
    _Atomic uint64_t searched; /* dlpi_adds at the last search */
} finder;

static int copy_adds(struct dl_phdr_info *info, size_t nbytes, void *adds)
{
    if (nbytes >= offsetof(struct dl_phdr_info, dlpi_subs))
        *(uint64_t *)adds = info->dlpi_adds;
    return 1; /* every object reports the same count */
}

/* Searches for libcuda.  Returns NULL if the process has not loaded it. */
static get_attributes_fn search(uint64_t adds)
{
    void *library = dlopen(LIBRARY, RTLD_NOW | RTLD_NOLOAD), *found = NULL;
    get_attributes_fn function = NULL;

    if (library != NULL)
        found = dlsym(library, "cuPointerGetAttributes");
    if (found == NULL) {
        if (library != NULL)
            dlclose(library);
        atomic_store_explicit(&finder.searched, adds, memory_order_relaxed);
        return NULL;
    }
    memcpy(&function, &found, sizeof(function));
    atomic_store_explicit(
        &finder.get_attributes, function, memory_order_release);
    for (int i = 0; i < SYMC_UNSERVED_PAGES; i++)
        atomic_store_explicit(&symc_unserved_pages[i], 0, memory_order_relaxed);
    return function;
}

/* Returns cuPointerGetAttributes() if the process has loaded libcuda,
 * otherwise NULL. */
static get_attributes_fn get_attributes(void)
{
    get_attributes_fn get =
        atomic_load_explicit(&finder.get_attributes, memory_order_acquire);
    uint64_t adds = 0;

    if (get != NULL)
        return get;
    (void)dl_iterate_phdr(copy_adds, &adds);
    return adds == atomic_load_explicit(&finder.searched, memory_order_relaxed)
               ? NULL
               : search(adds);
}

static void remember(const void *at)
{
    uintptr_t page = (uintptr_t)at / SYMC_UNSERVED_PAGE + 1;

    atomic_store_explicit(&symc_unserved_pages[page % SYMC_UNSERVED_PAGES],
        page, memory_order_relaxed);
}

bool symc_unserved_find(const void *at, int16_t *device)
{
    int names[] = {MEMORY_TYPE, IS_MANAGED, DEVICE_ORDINAL};
    unsigned int type = 0, managed = 0;
    int ordinal = 0;
    void *values[] = {&type, &managed, &ordinal};
    get_attributes_fn get;

    if (symc_unserved_is_hosts(at))
        return false;
    get = get_attributes();
    if (get == NULL) {
        remember(at);
        return false;
    }
    if (get(3, names, values, (uintptr_t)at) != 0 || type != TYPE_DEVICE ||
        managed != 0)
        return false;
    *device = (int16_t)ordinal;
    return true;
}
