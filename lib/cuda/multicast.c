/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Rank 0 creates a multicast object, and all members import it, so that each holds its
 * own handle.  Memory can be bound once all devices have been added, and used once all
 * members have bound theirs.  Each step therefore ends with a gather of its results, and
 * all members give up if one failed.
 */
#include "cuda/multicast.h"
#include "cuda/device_group.h"

#include <unistd.h>

#define AUTO 0 /* the index of "auto" among the values of cuda.multicast */

/* The data that each member contributes to the gather of a step. */
struct contribution {
    uint64_t nbytes;      /* of its memory */
    uint64_t granularity; /* of objects on its device */
    int32_t right;        /* the step succeeded */
    int32_t fd;           /* between threads: rank 0's descriptor */
};

bool symc_cuda_multicast_is_possible(const struct symc_cuda_group *group)
{
    const struct symc_cuda *cuda = group->cuda;
    const struct symc_settings *settings = group->core->settings;
    int has = 0;

    return settings->get_int(settings->config, "cuda.multicast") == AUTO &&
           cuda->multicast_create != NULL &&
           cuda->multicast_add_device != NULL &&
           cuda->multicast_bind_mem != NULL && cuda->multicast_unbind != NULL &&
           cuda->multicast_get_granularity != NULL &&
           cuda->device_get_attribute(&has,
               CU_DEVICE_ATTRIBUTE_MULTICAST_SUPPORTED,
               group->context.device) == CUDA_SUCCESS &&
           has != 0;
}

/* Returns whether a call of the driver succeeded; logs a failure. */
static bool has_succeeded(
    const struct symc_cuda_group *group, CUresult result, const char *call)
{
    const struct symc_core *core = group->core;
    char text[SYMC_DETAIL_MAX / 2];

    if (result != CUDA_SUCCESS)
        core->log(core->group, SYMC_LOG_INFO,
            "group %s goes without multicast: %s on device %d: %s", core->name,
            call, group->device,
            symc_cuda_describe(group->cuda, result, text, sizeof(text)));
    return result == CUDA_SUCCESS;
}

/* Gathers the results of a step; right (out): it succeeded on all members. */
static symmcoll_status_t gather_step(const struct symc_cuda_group *group,
    const struct contribution *mine, struct contribution *all, bool *right)
{
    const struct symc_core *core = group->core;
    symmcoll_status_t status =
        core->gather(core->group, mine, all, sizeof(*mine));

    *right = status == SYMMCOLL_OK;
    for (int r = 0; r < group->size && *right; r++)
        *right = all[r].right != 0;
    return status;
}

/* ---- the object ---- */

static CUmulticastObjectProp properties_of(
    const struct symc_cuda_group *group, size_t nbytes)
{
    return (CUmulticastObjectProp){.numDevices = (unsigned int)group->size,
        .size = nbytes,
        .handleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR};
}

/* A new object, which rank 0 keeps until all have imported it. */
struct made {
    CUmemGenericAllocationHandle object;
    bool created; /* object is valid */
    int fd;       /* -1: not exported */
};

static bool make(
    const struct symc_cuda_group *group, size_t nbytes, struct made *made)
{
    const struct symc_cuda *cuda = group->cuda;
    CUmulticastObjectProp properties = properties_of(group, nbytes);

    made->created =
        has_succeeded(group, cuda->multicast_create(&made->object, &properties),
            "cuMulticastCreate");
    return made->created &&
           has_succeeded(group,
               cuda->mem_export_to_shareable_handle(&made->fd, made->object,
                   CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0),
               "cuMemExportToShareableHandle");
}

static void release(struct symc_cuda_log *log, const struct made *made)
{
    if (made->fd >= 0)
        close(made->fd);
    if (made->created)
        symc_cuda_released(
            log, "cuMemRelease", log->cuda->mem_release(made->object));
}

/* Prepares this rank's data for the first gather; rank 0 creates the object (out). */
static struct contribution begin(
    const struct symc_cuda_group *group, size_t nbytes, struct made *made)
{
    CUmulticastObjectProp properties = properties_of(group, nbytes);
    size_t granularity = 1;
    struct contribution mine = {.nbytes = nbytes};

    mine.right = has_succeeded(group,
        group->cuda->multicast_get_granularity(
            &granularity, &properties, CU_MULTICAST_GRANULARITY_MINIMUM),
        "cuMulticastGetGranularity");
    mine.granularity = granularity;
    if (group->rank == 0 && mine.right)
        mine.right = nbytes % granularity == 0 && make(group, nbytes, made);
    mine.fd = made->fd;
    return mine;
}

/* Returns whether one object can hold the memory of all members. */
static bool fits(
    const struct symc_cuda_group *group, const struct contribution *all)
{
    for (int r = 0; r < group->size; r++) {
        if (all[r].nbytes != all[0].nbytes ||
            all[0].nbytes % all[r].granularity != 0)
            return false;
    }
    return true;
}

/* ---- the steps ---- */

static bool import(const struct symc_cuda_group *group, int fd,
    struct symc_cuda_multicast *multicast)
{
    const struct symc_cuda *cuda = group->cuda;

    multicast->opened = has_succeeded(group,
        cuda->mem_import_from_shareable_handle(&multicast->object,
            (void *)(intptr_t)fd, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR),
        "cuMemImportFromShareableHandle");
    return multicast->opened &&
           has_succeeded(group,
               cuda->multicast_add_device(
                   multicast->object, group->context.device),
               "cuMulticastAddDevice");
}

/* Imports the object that rank 0 has sent to all members, and adds this rank's device. */
static symmcoll_status_t add(const struct symc_cuda_group *group,
    const struct contribution *all, struct symc_cuda_multicast *multicast,
    bool *right)
{
    const struct symc_core *core = group->core;
    int fds[SYMC_KERNEL_RANKS];
    symmcoll_status_t status;

    if (group->threads) {
        *right = import(group, all[0].fd, multicast);
        return SYMMCOLL_OK;
    }
    status =
        core->exchange(core->group, group->rank == 0 ? all[0].fd : -1, fds);
    if (status != SYMMCOLL_OK)
        return status;
    *right = import(group, fds[0], multicast);
    for (int r = 0; r < group->size; r++) {
        if (fds[r] >= 0)
            close(fds[r]);
    }
    return SYMMCOLL_OK;
}

static bool bind(const struct symc_cuda_group *group,
    const struct symc_cuda_physical *own, struct symc_cuda_multicast *multicast)
{
    CUresult result = group->cuda->multicast_bind_mem(
        multicast->object, 0, own->handle, 0, own->nbytes, 0);

    if (!has_succeeded(group, result, "cuMulticastBindMem"))
        return false;
    multicast->bound = group->context.device;
    multicast->nbytes = own->nbytes;
    return true;
}

static bool map(
    const struct symc_cuda_group *group, struct symc_cuda_multicast *multicast)
{
    const struct symc_cuda *cuda = group->cuda;
    CUdeviceptr at = 0;

    if (!has_succeeded(group,
            cuda->mem_address_reserve(&at, multicast->nbytes, 0, 0, 0),
            "cuMemAddressReserve"))
        return false;
    if (symc_cuda_map(&group->context, group->core->fail, at, multicast->nbytes,
            multicast->object, "a multicast object") != SYMMCOLL_OK) {
        (void)cuda->mem_address_free(at, multicast->nbytes);
        return false;
    }
    multicast->at = at;
    return true;
}

/* ---- opening and closing ---- */

static symmcoll_status_t open_steps(const struct symc_cuda_group *group,
    const struct symc_cuda_physical *own, struct contribution *mine,
    struct symc_cuda_multicast *multicast, bool *right)
{
    struct contribution all[SYMC_KERNEL_RANKS];
    symmcoll_status_t status = gather_step(group, mine, all, right);

    *right = *right && fits(group, all);
    if (!*right)
        return status;
    status = add(group, all, multicast, right);
    if (status != SYMMCOLL_OK)
        return status;
    mine->right = *right;
    status = gather_step(group, mine, all, right);
    if (!*right)
        return status;
    mine->right = bind(group, own, multicast) && map(group, multicast);
    return gather_step(group, mine, all, right);
}

symmcoll_status_t symc_cuda_multicast_open(const struct symc_cuda_group *group,
    struct symc_cuda_log *log, const struct symc_cuda_physical *own,
    struct symc_cuda_multicast *multicast)
{
    struct made made = {.fd = -1};
    bool right = false;
    struct contribution mine = begin(group, own->nbytes, &made);
    symmcoll_status_t status = open_steps(group, own, &mine, multicast, &right);

    release(log, &made);
    if (!right)
        symc_cuda_multicast_close(log, multicast);
    return status;
}

void symc_cuda_multicast_close(
    struct symc_cuda_log *log, struct symc_cuda_multicast *multicast)
{
    const struct symc_cuda *cuda = log->cuda;
    size_t nbytes = multicast->nbytes;

    if (nbytes != 0)
        symc_cuda_released(log, "cuMulticastUnbind",
            cuda->multicast_unbind(
                multicast->object, multicast->bound, 0, nbytes));
    if (multicast->at != 0) {
        symc_cuda_released(
            log, "cuMemUnmap", cuda->mem_unmap(multicast->at, nbytes));
        symc_cuda_released(log, "cuMemAddressFree",
            cuda->mem_address_free(multicast->at, nbytes));
    }
    if (multicast->opened)
        symc_cuda_released(
            log, "cuMemRelease", cuda->mem_release(multicast->object));
    *multicast = (struct symc_cuda_multicast){.at = 0};
}
