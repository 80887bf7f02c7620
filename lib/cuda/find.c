/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * This is asked in every call, in processes without CUDA, too.
 * A program may load libcuda at any time, so "there is none" cannot be kept for
 * ever; but the loader appends what it loads to its list of objects.  While this
 * module, which is never unloaded, is the last of that list, nothing has been
 * loaded since it was last searched, and that is one load and one comparison.
 * Else the loader's count of objects says whether to search again.
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

#define PAGES 256 /* that are remembered */
#define PAGE_BITS 12

/* Of the process, as libcuda is. */
static struct {
    _Atomic(PFN_cuPointerGetAttributes_v7000) get_attributes;
    _Atomic(struct link_map *) own; /* this module; NULL before a search */
    _Atomic uint64_t searched;      /* dlpi_adds at the latest search */
    _Atomic int device;             /* the one that was found last */
    _Atomic bool has_found;         /* one ever was */
    _Atomic int failed;             /* the latest error of the driver's */
} finder;

static int copy_adds(struct dl_phdr_info *info, size_t nbytes, void *adds)
{
    if (nbytes >= offsetof(struct dl_phdr_info, dlpi_subs))
        *(uint64_t *)adds = info->dlpi_adds;
    return 1; /* the count is the same in all of them */
}

/* How many objects the loader has ever loaded. */
static uint64_t count_loaded(void)
{
    uint64_t adds = 0;

    (void)dl_iterate_phdr(copy_adds, &adds);
    return adds;
}

/* The loader's locks order this after its writing of the entry, which
 * ThreadSanitizer does not see. */
__attribute__((no_sanitize("thread"))) static bool is_last(
    const struct link_map *own)
{
    return __atomic_load_n(&own->l_next, __ATOMIC_RELAXED) == NULL;
}

/* Whether the latest search has seen all that is loaded. */
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
        /* It has this one in one version, in every driver; one that is too old
         * for symc_cuda_load() shall be named there. */
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

/* NULL: the process has no libcuda. */
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

/* Whether this process can read the byte there.  The kernel reads a signal mask
 * before it refuses what is to be done with it. */
static bool is_readable(const void *data)
{
    const void *word = (const char *)data - (uintptr_t)data % sizeof(uint64_t);

    return syscall(SYS_rt_sigprocmask, -1, word, NULL, sizeof(uint64_t)) == 0 ||
           errno != EFAULT;
}

/* The same, of a page that has been read before without asking the kernel again: a
 * call on host memory costs no system call.  A page that has gone since is taken for
 * the host's, as without this. */
static bool was_readable(const void *data)
{
    static _Atomic uintptr_t pages[PAGES]; /* of all threads; 0: none */
    uintptr_t page = ((uintptr_t)data >> PAGE_BITS) + 1;
    _Atomic uintptr_t *known = &pages[page % PAGES];

    if (atomic_load_explicit(known, memory_order_relaxed) == page)
        return true;
    if (!is_readable(data))
        return false;
    atomic_store_explicit(known, page, memory_order_relaxed);
    return true;
}

/* Memory that the driver does not know, and the host cannot read: as that of a
 * device is when it has been freed.  A process that has had none is not asked. */
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

/* Whether the driver could not say what an address is, but may the next time: no
 * context is broken, and it is not that it does not know the address.  What the host
 * has remains the host's in a process that has nothing else. */
static bool has_failed(CUresult result)
{
    return result != CUDA_ERROR_INVALID_VALUE &&
           result != CUDA_ERROR_INVALID_CONTEXT &&
           result != CUDA_ERROR_INVALID_DEVICE && !symc_cuda_is_fatal(result) &&
           atomic_load_explicit(&finder.has_found, memory_order_relaxed);
}

/* What the driver says of an address. */
struct answer {
    CUresult result;
    unsigned int type, managed;
    int ordinal;
    /* Where the allocation is, or the addresses that were reserved at once; and what
     * is mapped there by one call. */
    CUdeviceptr range, mapping;
    size_t range_nbytes, mapping_nbytes;
};

#define BASIC 3 /* attributes that every driver has */

static struct answer ask(PFN_cuPointerGetAttributes_v7000 get, const void *data,
    unsigned int attributes)
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

/* Whether it is a device's, as symc_cuda_find(). */
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
        /* A context that a kernel has broken answers nothing else any more.
         * What is not the host's must not be read by it. */
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
    answer = ask(get, data, BASIC);
    return judge(&answer, data, device);
}

static bool has(CUdeviceptr begin, size_t nbytes, const void *at)
{
    return (uintptr_t)at >= begin && (uintptr_t)at - begin < nbytes;
}

/* Allocations may be parts of one mapping, and mappings of one reservation, which has
 * addresses that nothing is mapped at: so both are asked for.  A driver that does not
 * know the one says that the value is wrong. */
bool symc_cuda_find_whole(
    const void *first, const void *last, int16_t *device, bool *whole)
{
    PFN_cuPointerGetAttributes_v7000 get = get_attributes();
    struct answer answer;

    *whole = false;
    if (get == NULL)
        return false;
    answer = ask(get, first, BASIC + 4);
    if (answer.result == CUDA_ERROR_INVALID_VALUE)
        answer = ask(get, first, BASIC);
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

/* The driver says it of the allocation, and not of what is mapped there: what a
 * program has mapped piece by piece in addresses of one reservation is one. */
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
