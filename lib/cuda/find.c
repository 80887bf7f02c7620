/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Every call looks up its buffers here, also in processes without CUDA.
 * A program may load libcuda at any time, so its absence cannot be cached for ever; but
 * the loader appends each new object to its list.  While this module, which is never
 * unloaded, is the last of that list, nothing has been loaded since the latest search;
 * the check costs one load and one comparison.  Otherwise the loader's count of objects
 * shows whether to search again.
 */
#include "cuda/find.h"
#include "backend/backend.h"
#include "cuda/driver.h"

#include <dlfcn.h>
#include <errno.h>
#include <link.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#define PAGES 256 /* entries of the cache of readable pages */
#define PAGE_BITS 12

/* State of the process, as libcuda is. */
static struct {
    _Atomic(PFN_cuPointerGetAttributes_v7000) get_attributes;
    _Atomic(struct link_map *) own; /* this module; NULL before a search */
    _Atomic uint64_t searched;      /* dlpi_adds at the latest search */
    _Atomic int device;             /* the device found last */
    _Atomic bool has_found;         /* a device was ever found */
    _Atomic int failed;             /* the driver's latest error */
} finder;

static int copy_adds(struct dl_phdr_info *info, size_t nbytes, void *adds)
{
    if (nbytes >= offsetof(struct dl_phdr_info, dlpi_subs))
        *(uint64_t *)adds = info->dlpi_adds;
    return 1; /* the count is the same in all of them */
}

/* Returns how many objects the loader has ever loaded. */
static uint64_t count_loaded(void)
{
    uint64_t adds = 0;

    (void)dl_iterate_phdr(copy_adds, &adds);
    return adds;
}

/* Returns whether this module is the last of the loader's list.  The loader wrote the
 * entry earlier, under its locks, which ThreadSanitizer does not see. */
__attribute__((no_sanitize("thread"))) static bool is_last(
    const struct link_map *own)
{
    return __atomic_load_n(&own->l_next, __ATOMIC_RELAXED) == NULL;
}

/* Returns whether nothing has been loaded since the latest search. */
static bool is_searched(void)
{
    struct link_map *own =
        atomic_load_explicit(&finder.own, memory_order_acquire);

    if (own == NULL)
        return false;
    if (is_last(own))
        return true;
    return count_loaded() ==
           atomic_load_explicit(&finder.searched, memory_order_relaxed);
}

static PFN_cuPointerGetAttributes_v7000 search(void)
{
    PFN_cuPointerGetAttributes_v7000 function = NULL;
    struct link_map *own = NULL;
    Dl_info info;
    uint64_t adds = count_loaded();
    void *found, *library = dlopen(SYMC_CUDA_LIBRARY, RTLD_NOW | RTLD_NOLOAD);

    if (library != NULL) {
        /* Every driver has this function in one version.  A driver that is too old
         * is reported by symc_cuda_load(), not here. */
        found = dlsym(library, "cuPointerGetAttributes");
        memcpy(&function, &found, sizeof(function));
        atomic_store_explicit(
            &finder.get_attributes, function, memory_order_release);
        return function;
    }
    if (dladdr1(&finder, &info, (void **)&own, RTLD_DL_LINKMAP) == 0)
        return NULL;
    atomic_store_explicit(&finder.searched, adds, memory_order_relaxed);
    atomic_store_explicit(&finder.own, own, memory_order_release);
    return NULL;
}

/* Returns NULL if the process has no libcuda. */
static PFN_cuPointerGetAttributes_v7000 get_attributes(void)
{
    PFN_cuPointerGetAttributes_v7000 get =
        atomic_load_explicit(&finder.get_attributes, memory_order_acquire);

    return get == NULL && !is_searched() ? search() : get;
}

bool symc_cuda_is_present(void)
{
    return get_attributes() != NULL;
}

/* Returns whether this process can read the byte at data.  The kernel reads the new
 * signal mask before it rejects the invalid operation -1. */
static bool is_readable(const void *data)
{
    const void *word = (const char *)data - (uintptr_t)data % sizeof(uint64_t);

    return syscall(SYS_rt_sigprocmask, -1, word, NULL, sizeof(uint64_t)) == 0 ||
           errno != EFAULT;
}

/* Returns is_readable(), with a cache of pages found readable, so that a call on host
 * memory makes no system call.  A cached page that was unmapped since counts as host
 * memory, as it would without the check. */
static bool was_readable(const void *data)
{
    static _Atomic uintptr_t pages[PAGES]; /* of all threads; 0: empty */
    uintptr_t page = ((uintptr_t)data >> PAGE_BITS) + 1;
    _Atomic uintptr_t *known = &pages[page % PAGES];

    if (atomic_load_explicit(known, memory_order_relaxed) == page)
        return true;
    if (!is_readable(data))
        return false;
    atomic_store_explicit(known, page, memory_order_relaxed);
    return true;
}

/* Returns whether memory is unknown to the driver and unreadable on the host, as device
 * memory is after it was freed.  Checked only once a device was found. */
static bool is_lost(unsigned int type, const void *data)
{
    return type == 0 && data != NULL &&
           atomic_load_explicit(&finder.has_found, memory_order_relaxed) &&
           !was_readable(data);
}

static void note(int device)
{
    if (atomic_load_explicit(&finder.device, memory_order_relaxed) != device)
        atomic_store_explicit(&finder.device, device, memory_order_relaxed);
    if (!atomic_load_explicit(&finder.has_found, memory_order_relaxed))
        atomic_store_explicit(&finder.has_found, true, memory_order_relaxed);
}

/* Returns whether a query failed but may succeed later: the context is not broken, and
 * the driver did not reject the address.  In a process that has used no device memory
 * yet, a failed query means host memory. */
static bool has_failed(CUresult result)
{
    return result != CUDA_ERROR_INVALID_VALUE &&
           result != CUDA_ERROR_INVALID_CONTEXT &&
           result != CUDA_ERROR_INVALID_DEVICE && !symc_cuda_is_fatal(result) &&
           atomic_load_explicit(&finder.has_found, memory_order_relaxed);
}

/* The attributes of an address. */
struct answer {
    CUresult result;
    unsigned int type, managed;
    int ordinal;
    /* The extent of the allocation or of the reservation of addresses, and of the
     * mapping by one call in it. */
    CUdeviceptr range, mapping;
    size_t range_nbytes, mapping_nbytes;
};

#define BASIC 3 /* attributes that every driver has */

static struct answer query(PFN_cuPointerGetAttributes_v7000 get,
    const void *data, unsigned int attributes)
{
    static const CUpointer_attribute all[] = {CU_POINTER_ATTRIBUTE_MEMORY_TYPE,
        CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, CU_POINTER_ATTRIBUTE_IS_MANAGED,
        CU_POINTER_ATTRIBUTE_RANGE_START_ADDR, CU_POINTER_ATTRIBUTE_RANGE_SIZE,
        CU_POINTER_ATTRIBUTE_MAPPING_BASE_ADDR,
        CU_POINTER_ATTRIBUTE_MAPPING_SIZE};
    CUpointer_attribute names[sizeof(all) / sizeof(all[0])];
    struct answer answer = {.type = 0};
    void *values[] = {&answer.type, &answer.ordinal, &answer.managed,
        &answer.range, &answer.range_nbytes, &answer.mapping,
        &answer.mapping_nbytes};

    memcpy(names, all, sizeof(names));
    answer.result =
        get(attributes, names, values, (CUdeviceptr)(uintptr_t)data);
    return answer;
}

/* Decides from the attributes, as symc_cuda_find(). */
static bool judge(
    const struct answer *answer, const void *data, int16_t *device)
{
    int ordinal = answer->ordinal;

    if (answer->result == CUDA_ERROR_NOT_INITIALIZED)
        return false;
    if (answer->result != CUDA_SUCCESS && has_failed(answer->result)) {
        atomic_store_explicit(
            &finder.failed, (int)answer->result, memory_order_relaxed);
        *device = SYMC_UNKNOWN_DEVICE;
        return true;
    }
    if (answer->result != CUDA_SUCCESS) {
        /* A context that a kernel has broken answers every query with an error.
         * Memory that the host cannot read must not pass as the host's. */
        if (is_readable(data))
            return false;
        ordinal = atomic_load_explicit(&finder.device, memory_order_relaxed);
    } else if (answer->type != CU_MEMORYTYPE_DEVICE || answer->managed != 0) {
        if (!is_lost(answer->type, data))
            return false;
        *device = SYMC_NO_DEVICE;
        return true;
    }
    note(ordinal);
    *device = (int16_t)ordinal;
    return true;
}

bool symc_cuda_find(const void *data, int16_t *device)
{
    PFN_cuPointerGetAttributes_v7000 get = get_attributes();
    struct answer answer;

    if (get == NULL)
        return false;
    answer = query(get, data, BASIC);
    return judge(&answer, data, device);
}

static bool has(CUdeviceptr begin, size_t nbytes, const void *at)
{
    return (uintptr_t)at >= begin && (uintptr_t)at - begin < nbytes;
}

/* Queries the extents of both allocation and mapping: several allocations may share a
 * mapping, and a reservation may hold several mappings with unmapped addresses between
 * them.  A driver that does not know the attributes returns CUDA_ERROR_INVALID_VALUE. */
bool symc_cuda_find_whole(
    const void *first, const void *last, int16_t *device, bool *whole)
{
    PFN_cuPointerGetAttributes_v7000 get = get_attributes();
    struct answer answer;

    *whole = false;
    if (get == NULL)
        return false;
    answer = query(get, first, BASIC + 4);
    if (answer.result == CUDA_ERROR_INVALID_VALUE)
        answer = query(get, first, BASIC);
    *whole = answer.result == CUDA_SUCCESS &&
             answer.type == CU_MEMORYTYPE_DEVICE && answer.managed == 0 &&
             has(answer.range, answer.range_nbytes, last) &&
             has(answer.mapping, answer.mapping_nbytes, last);
    return judge(&answer, first, device);
}

symmcoll_status_t symc_cuda_refuse(
    symmcoll_status_t (*fail)(
        symmcoll_status_t status, const char *format, ...),
    const char *where, const void *data)
{
    const CUresult result =
        (CUresult)atomic_load_explicit(&finder.failed, memory_order_relaxed);
    const struct symc_cuda *cuda = symc_cuda_loaded();

    if (cuda != NULL)
        return symc_cuda_fail(cuda, fail, result, -1,
            "%s: cuPointerGetAttributes of %p", where, data);
    return fail(symc_cuda_status(result),
        "%s: cuPointerGetAttributes of %p: CUDA error %d", where, data,
        (int)result);
}

/* Queries the range and not the mapping, so that memory mapped piece by piece in one
 * reservation counts as one. */
bool symc_cuda_is_one(const void *first, const void *last)
{
    CUpointer_attribute name = CU_POINTER_ATTRIBUTE_RANGE_START_ADDR;
    CUdeviceptr begin = 0;
    void *value = &begin;
    PFN_cuPointerGetAttributes_v7000 get = get_attributes();

    return get == NULL ||
           get(1, &name, &value, (CUdeviceptr)(uintptr_t)last) !=
               CUDA_SUCCESS ||
           begin <= (CUdeviceptr)(uintptr_t)first;
}
