/* SPDX-License-Identifier: BSD-3-Clause */
/* Slabs of words, in a list of the process.  No driver call is made under its lock. */
#include "cuda/words.h"

#include <pthread.h>
#include <string.h>

#define GROUPS 16 /* of a slab */
#define APART 128 /* bytes: no two groups' words share a cache line */

struct slot {
    _Alignas(APART) struct symc_cuda_words words;
};

/* Lies at the beginning of the memory that it describes. */
struct slab {
    struct slab *next;
    CUcontext context;
    uintptr_t device; /* the slab's address for kernels */
    bool taken[GROUPS];
    struct slot slots[GROUPS];
};

static struct {
    pthread_mutex_t lock;
    struct slab *slabs;
} all = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* ---- with the lock held ---- */

static struct symc_cuda_words *take_of(struct slab *slab, uintptr_t *device)
{
    for (int i = 0; i < GROUPS; i++) {
        struct symc_cuda_words *words = &slab->slots[i].words;

        if (slab->taken[i])
            continue;
        slab->taken[i] = true;
        *device = slab->device + (uintptr_t)((char *)words - (char *)slab);
        return words;
    }
    return NULL;
}

static struct symc_cuda_words *take(CUcontext context, uintptr_t *device)
{
    struct symc_cuda_words *words = NULL;

    for (struct slab *slab = all.slabs; slab != NULL && words == NULL;
         slab = slab->next)
        if (slab->context == context)
            words = take_of(slab, device);
    return words;
}

static void give(CUcontext context, const struct symc_cuda_words *words)
{
    for (struct slab *slab = all.slabs; slab != NULL; slab = slab->next)
        for (int i = 0; i < GROUPS && slab->context == context; i++)
            if (&slab->slots[i].words == words)
                slab->taken[i] = false;
}

static bool is_used(CUcontext context)
{
    for (const struct slab *slab = all.slabs; slab != NULL; slab = slab->next)
        for (int i = 0; i < GROUPS && slab->context == context; i++)
            if (slab->taken[i])
                return true;
    return false;
}

/* Removes the slabs of a context from the list and returns them. */
static struct slab *take_out(CUcontext context)
{
    struct slab **at = &all.slabs, *out = NULL;

    while (*at != NULL) {
        struct slab *slab = *at;

        if (slab->context != context) {
            at = &slab->next;
            continue;
        }
        *at = slab->next;
        slab->next = out;
        out = slab;
    }
    return out;
}

/* ---- allocation ---- */

static struct slab *make_slab(
    const struct symc_cuda_context *context, struct symc_cuda_called *called)
{
    const struct symc_cuda *cuda = context->cuda;
    CUdeviceptr device = 0;
    void *at = NULL;
    struct slab *slab;

    *called = symc_cuda_called("cuMemHostAlloc",
        cuda->mem_host_alloc(&at, sizeof(*slab),
            CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP));
    if (called->result != CUDA_SUCCESS)
        return NULL;
    *called = symc_cuda_called("cuMemHostGetDevicePointer",
        cuda->mem_host_get_device_pointer(&device, at, 0));
    if (called->result != CUDA_SUCCESS) {
        (void)cuda->mem_free_host(at);
        return NULL;
    }
    slab = memset(at, 0, sizeof(*slab));
    slab->context = context->context;
    slab->device = (uintptr_t)device;
    return slab;
}

/* ---- the interface ---- */

struct symc_cuda_words *symc_cuda_words_take(
    const struct symc_cuda_context *context,
    struct symc_cuda_words **device_words, struct symc_cuda_called *called)
{
    struct symc_cuda_words *words;
    struct slab *slab;
    uintptr_t device = 0;

    *called = symc_cuda_called("cuMemHostAlloc", CUDA_SUCCESS);
    pthread_mutex_lock(&all.lock);
    words = take(context->context, &device);
    pthread_mutex_unlock(&all.lock);
    if (words == NULL) {
        slab = make_slab(context, called);
        if (slab == NULL)
            return NULL;
        words = take_of(slab, &device);
        pthread_mutex_lock(&all.lock);
        slab->next = all.slabs;
        all.slabs = slab;
        pthread_mutex_unlock(&all.lock);
    }
    memset(words, 0, sizeof(*words));
    *device_words = (struct symc_cuda_words *)device;
    return words;
}

void symc_cuda_words_give(const struct symc_cuda_context *context,
    struct symc_cuda_log *log, struct symc_cuda_words *words)
{
    struct slab *unused = NULL;

    if (words == NULL)
        return;
    pthread_mutex_lock(&all.lock);
    give(context->context, words);
    if (!is_used(context->context))
        unused = take_out(context->context);
    pthread_mutex_unlock(&all.lock);
    while (unused != NULL) {
        struct slab *next = unused->next;

        symc_cuda_released(
            log, "cuMemFreeHost", context->cuda->mem_free_host(unused));
        unused = next;
    }
}
