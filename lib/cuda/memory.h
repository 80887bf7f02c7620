/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Memory of a device: physical allocations, which others can map, and what a rank
 * has allocated to be joined in groups.
 */
#ifndef SYMC_CUDA_MEMORY_H
#define SYMC_CUDA_MEMORY_H

#include "backend/backend.h"
#include "cuda/context.h"

#include <stdatomic.h>

/* Physical memory, and where this rank has it mapped. */
struct symc_cuda_physical {
    CUmemGenericAllocationHandle handle;
    size_t
        nbytes; /* a multiple of the device's granularity; 0: there is none */
    CUdeviceptr at;     /* 0: it is not mapped */
    unsigned int types; /* of handles that others can import; 0: of none */
};

/* How memory is shared, and cuda.share in this order. */
enum symc_cuda_share {
    SYMC_CUDA_SHARE_AUTO, /* by fabric handles where that works */
    SYMC_CUDA_SHARE_DESCRIPTOR,
    SYMC_CUDA_SHARE_FABRIC,
    SYMC_CUDA_SHARE_THREADS /* with this process alone */
};

enum symc_cuda_share symc_cuda_share_of(
    const struct symc_settings *settings, bool threads);

/*
 * Create it, of at least so many bytes.  what: "a segment", in messages.
 * Errors: those of symc_cuda_fail(); NO_MEMORY (more than there can be).
 */
symmcoll_status_t symc_cuda_physical_create(
    const struct symc_cuda_context *context, symc_cuda_fail_fn fail,
    enum symc_cuda_share share, size_t nbytes, const char *what,
    struct symc_cuda_physical *physical);

/* Reserve addresses for it, and map it there. */
symmcoll_status_t symc_cuda_physical_map(
    const struct symc_cuda_context *context, symc_cuda_fail_fn fail,
    const char *what, struct symc_cuda_physical *physical);

/* Set how this thread's calls go with captures, and return how they did.  What frees
 * memory is an error in the default mode while any stream of the process is captured,
 * and ends that capture. */
CUstreamCaptureMode symc_cuda_relax(
    const struct symc_cuda *cuda, CUstreamCaptureMode mode);

/* Nothing if it is zero; what others have mapped stays. */
void symc_cuda_physical_free(
    struct symc_cuda_log *log, struct symc_cuda_physical *physical);

/* Map memory at reserved addresses, for this rank's device to read and write; all
 * of it or nothing. */
symmcoll_status_t symc_cuda_map(const struct symc_cuda_context *context,
    symc_cuda_fail_fn fail, CUdeviceptr at, size_t nbytes,
    CUmemGenericAllocationHandle handle, const char *what);

/* Zero it, a multiple of 4 bytes, and wait until it is.  In the context. */
symmcoll_status_t symc_cuda_clear(const struct symc_cuda_context *context,
    symc_cuda_fail_fn fail, CUdeviceptr at, size_t nbytes, const char *what);

/* What allocate() and import() make: see struct symc_memory_ops. */
struct symc_cuda_memory {
    struct symc_cuda_context context;
    struct symc_cuda_log log;
    bool threads;
    bool words;  /* see struct symc_memory_request */
    bool legacy; /* of cuMemAlloc(), so there is no physical memory to map */
    struct symc_cuda_physical
        physical;       /* at: 0 of what the caller has mapped */
    CUipcMemHandle ipc; /* of a legacy allocation */
    CUmemoryPool pool;  /* that it is of; NULL: of none */
    size_t offset;      /* of data, in the physical memory or the allocation */
    CUdeviceptr data;   /* where the rank has it */
    size_t nbytes;      /* that were asked for */
    _Atomic int uses;   /* by its owner, and one for each time it is joined */
};

symmcoll_status_t symc_cuda_memory_allocate(
    const struct symc_memory_request *request, void **memory, void **at);

/* ---- import.c ---- */

symmcoll_status_t symc_cuda_memory_import(
    const struct symc_memory_request *request, void *data, void **memory);

/* ---- for both ---- */

/* A new one, in the context of the device, until
 * symc_cuda_memory_end(); which returns the status, and frees it after an error. */
symmcoll_status_t symc_cuda_memory_begin(
    const struct symc_memory_request *request, struct symc_cuda_memory **memory,
    struct symc_cuda_entered *entered);
symmcoll_status_t symc_cuda_memory_end(symmcoll_status_t status,
    struct symc_cuda_memory *memory, struct symc_cuda_entered *entered);

/* See struct symc_memory_ops. */
struct symc_extent symc_cuda_memory_extent(const void *memory);

/* One use less. */
void symc_cuda_memory_free(void *memory);

#endif
