/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * One memory pool per device, of the process and never destroyed.  An allocation from a
 * device's default pool may get an internal dependency on the work before a free on
 * another stream.  If that work is a kernel that waits for another rank, and that rank
 * uses its streams in the other order, both ranks deadlock.  This pool therefore
 * disallows such reuse.
 */
#include "cuda/local.h"

#include <pthread.h>

#define DEVICES 256

static struct {
    pthread_mutex_t lock;
    CUmemoryPool of[DEVICES]; /* NULL: not made yet */
} pools = {.lock = PTHREAD_MUTEX_INITIALIZER};

static struct symc_cuda_called make(
    const struct symc_cuda *cuda, CUdevice device, CUmemoryPool *pool)
{
    const CUmemPoolProps properties = {
        .allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
        .handleTypes = CU_MEM_HANDLE_TYPE_NONE,
        .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = device}};
    int allowed = 0;
    struct symc_cuda_called called = symc_cuda_called(
        "cuMemPoolCreate", cuda->mem_pool_create(pool, &properties));

    if (called.result != CUDA_SUCCESS)
        return called;
    called = symc_cuda_called("cuMemPoolSetAttribute",
        cuda->mem_pool_set_attribute(*pool,
            CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES, &allowed));
    if (called.result != CUDA_SUCCESS)
        (void)cuda->mem_pool_destroy(*pool);
    return called;
}

struct symc_cuda_called symc_cuda_pool_of(
    const struct symc_cuda_context *context, CUmemoryPool *pool)
{
    struct symc_cuda_called called =
        symc_cuda_called("cuMemPoolCreate", CUDA_SUCCESS);
    const CUdevice device = context->device;

    if (device < 0 || device >= DEVICES) {
        called.result = CUDA_ERROR_INVALID_DEVICE;
        return called;
    }
    pthread_mutex_lock(&pools.lock);
    if (pools.of[device] == NULL) {
        called = make(context->cuda, device, pool);
        if (called.result == CUDA_SUCCESS)
            pools.of[device] = *pool;
    }
    *pool = pools.of[device];
    pthread_mutex_unlock(&pools.lock);
    return called;
}
