/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Multicast objects of the fake driver: the devices added and the memory
 * bound. Their addresses cannot be read or written, because the host lacks the
 * instructions.
 */
#include "t/cuda/fake/physical.h"

#include <sys/mman.h>
#include <unistd.h>

/* ---- state shared by all processes ---- */

bool fake_join_team(struct fake_physical *object)
{
    void *at = mmap(NULL, sizeof(*object->team), PROT_READ | PROT_WRITE,
        MAP_SHARED, object->fd, 0);

    object->team = at != MAP_FAILED ? at : NULL;
    return at != MAP_FAILED;
}

void fake_leave_team(struct fake_physical *object)
{
    (void)munmap(object->team, sizeof(*object->team));
}

static size_t granularity(void)
{
    return fake.settings.coarse != 0 ? fake.settings.coarse
                                     : fake.settings.granularity;
}

static bool is_granular(size_t nbytes)
{
    return nbytes % granularity() == 0;
}

/* ---- making ---- */

static bool is_possible(const CUmulticastObjectProp *properties)
{
    return properties->numDevices > 0 && properties->size > 0 &&
           is_granular(properties->size);
}

FAKE_API CUresult cuMulticastGetGranularity(size_t *nbytes,
    const CUmulticastObjectProp *properties,
    CUmulticastGranularity_flags option)
{
    CUresult result = fake_enter(__func__, FAKE_INIT);

    (void)properties;
    if (result == CUDA_SUCCESS && !fake.settings.multicast)
        result = CUDA_ERROR_NOT_SUPPORTED;
    if (result == CUDA_SUCCESS)
        *nbytes = option == CU_MULTICAST_GRANULARITY_MINIMUM
                      ? granularity()
                      : 16 * granularity();
    return result;
}

FAKE_API CUresult cuMulticastCreate(CUmemGenericAllocationHandle *handle,
    const CUmulticastObjectProp *properties)
{
    struct fake_physical made = {.nbytes = 0};
    CUresult result = fake_enter(__func__, FAKE_INIT | FAKE_UNSAFE);

    if (result != CUDA_SUCCESS)
        return result;
    if (!fake.settings.multicast)
        return CUDA_ERROR_NOT_SUPPORTED;
    if (!is_possible(properties))
        return CUDA_ERROR_INVALID_VALUE;
    made.nbytes = properties->size;
    made.properties.requestedHandleTypes =
        (CUmemAllocationHandleType)properties->handleTypes;
    made.fd = fake_make_file(FAKE_MULTICAST, made.nbytes);
    if (made.fd < 0)
        return CUDA_ERROR_OUT_OF_MEMORY;
    if (!fake_join_team(&made)) {
        (void)close(made.fd);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    atomic_store(&made.team->wanted, properties->numDevices);
    fake_lock();
    *handle = (uintptr_t)fake_add_physical(&made);
    fake_unlock();
    return CUDA_SUCCESS;
}

/* ---- devices ---- */

static uint32_t bit_of(int device)
{
    return UINT32_C(1) << device;
}

static bool is_whole(const struct fake_team *team)
{
    return (uint32_t)__builtin_popcount(atomic_load(&team->added)) ==
           atomic_load(&team->wanted);
}

FAKE_API CUresult cuMulticastAddDevice(
    CUmemGenericAllocationHandle handle, CUdevice device)
{
    CUresult result = fake_enter(__func__, FAKE_INIT);
    struct fake_physical *object;

    if (result != CUDA_SUCCESS)
        return result;
    if (device < 0 || device >= fake.settings.devices)
        return CUDA_ERROR_INVALID_DEVICE;
    fake_lock();
    object = fake_find_physical(handle);
    if (object == NULL || object->team == NULL || is_whole(object->team) ||
        (atomic_fetch_or(&object->team->added, bit_of(device)) &
            bit_of(device)) != 0)
        result = CUDA_ERROR_INVALID_VALUE;
    fake_unlock();
    return result;
}

/* ---- memory ---- */

/* Called with the lock. */
static CUresult bind(
    struct fake_physical *object, struct fake_physical *memory, size_t nbytes)
{
    int device = memory->properties.location.id;

    /* Sharing the object must not give access to memory that is itself not
     * shareable. */
    if ((object->imported || object->properties.requestedHandleTypes != 0) &&
        memory->properties.requestedHandleTypes == 0)
        return CUDA_ERROR_INVALID_VALUE;
    /* Each member must know that all members have added their devices. */
    if (!is_whole(object->team))
        return CUDA_ERROR_ILLEGAL_STATE;
    if ((atomic_load(&object->team->added) & bit_of(device)) == 0)
        return CUDA_ERROR_INVALID_DEVICE;
    if (object->bound != NULL ||
        (atomic_fetch_or(&object->team->bound, bit_of(device)) &
            bit_of(device)) != 0)
        return CUDA_ERROR_INVALID_VALUE;
    object->bound = memory;
    object->bound_nbytes = nbytes;
    memory->bindings++;
    return CUDA_SUCCESS;
}

FAKE_API CUresult cuMulticastBindMem(CUmemGenericAllocationHandle handle,
    size_t at, CUmemGenericAllocationHandle memory, size_t from, size_t nbytes,
    unsigned long long flags)
{
    CUresult result = fake_enter(__func__, FAKE_INIT | FAKE_UNSAFE);
    struct fake_physical *object, *bound;

    if (result != CUDA_SUCCESS)
        return result;
    fake_lock();
    object = fake_find_physical(handle);
    bound = fake_find_physical(memory);
    if (flags != 0 || at != 0 || from != 0 || nbytes == 0 ||
        !is_granular(nbytes) || object == NULL || object->team == NULL ||
        bound == NULL || bound->team != NULL || nbytes > object->nbytes ||
        nbytes > bound->nbytes)
        result = CUDA_ERROR_INVALID_VALUE;
    else
        result = bind(object, bound, nbytes);
    fake_unlock();
    return result;
}

FAKE_API CUresult cuMulticastUnbind(CUmemGenericAllocationHandle handle,
    CUdevice device, size_t at, size_t nbytes)
{
    CUresult result = fake_enter(__func__, FAKE_INIT);
    struct fake_physical *object;

    if (result != CUDA_SUCCESS)
        return result;
    fake_lock();
    object = fake_find_physical(handle);
    if (object == NULL || object->bound == NULL || at != 0 ||
        nbytes != object->bound_nbytes ||
        object->bound->properties.location.id != device) {
        result = CUDA_ERROR_INVALID_VALUE;
    } else {
        atomic_fetch_and(&object->team->bound, ~bit_of(device));
        object->bound->bindings--;
        object->bound = NULL;
    }
    fake_unlock();
    return result;
}
