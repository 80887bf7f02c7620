/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Memory of a device: physical allocations, which others can map, and the symmetric
 * memory of a rank, which is joined in groups.
 */
#ifndef SYMC_CUDA_MEMORY_H
#define SYMC_CUDA_MEMORY_H

#include "backend/backend.h"
#include "cuda/context.h"

#include <stdatomic.h>

/* Physical memory, and its mapping by this rank. */
struct symc_cuda_physical {
    CUmemGenericAllocationHandle handle;
    size_t nbytes;  /* a multiple of the device's granularity; 0: no memory */
    CUdeviceptr at; /* 0: it is not mapped */
    unsigned int types; /* of handles that others can import; 0: none */
};

/* Ways to share memory, in the order of the values of cuda.share. */
enum symc_cuda_share {
    SYMC_CUDA_SHARE_AUTO, /* by fabric handles if they work */
    SYMC_CUDA_SHARE_DESCRIPTOR,
    SYMC_CUDA_SHARE_FABRIC,
    SYMC_CUDA_SHARE_THREADS /* within this process only */
};

enum symc_cuda_share symc_cuda_share_of(
    const struct symc_settings *settings, bool threads);

/*
 * Creates physical memory of at least nbytes.  what: "a segment", in messages.
 * Errors: those of symc_cuda_fail(); NO_MEMORY (the size cannot be counted).
 */
symmcoll_status_t symc_cuda_physical_create(
    const struct symc_cuda_context *context, symc_cuda_fail_fn fail,
    enum symc_cuda_share share, size_t nbytes, const char *what,
    struct symc_cuda_physical *physical);

/* Reserves addresses for physical memory and maps it there. */
symmcoll_status_t symc_cuda_physical_map(
    const struct symc_cuda_context *context, symc_cuda_fail_fn fail,
    const char *what, struct symc_cuda_physical *physical);

/* Sets how this thread's calls interact with captures, and returns the previous mode.  In
 * the default mode, freeing memory while any stream of the process is captured is an
 * error, and ends that capture. */
CUstreamCaptureMode symc_cuda_relax(
    const struct symc_cuda *cuda, CUstreamCaptureMode mode);

/* Unmaps and releases physical memory; others' mappings stay.  Does nothing if zero. */
void symc_cuda_physical_free(
    struct symc_cuda_log *log, struct symc_cuda_physical *physical);

/* Maps memory at reserved addresses, for this rank's device to read and write; leaves
 * nothing mapped on an error. */
symmcoll_status_t symc_cuda_map(const struct symc_cuda_context *context,
    symc_cuda_fail_fn fail, CUdeviceptr at, size_t nbytes,
    CUmemGenericAllocationHandle handle, const char *what);

/* Zeroes memory, a multiple of 4 bytes, and waits for it.  The context must be
 * current. */
symmcoll_status_t symc_cuda_clear(const struct symc_cuda_context *context,
    symc_cuda_fail_fn fail, CUdeviceptr at, size_t nbytes, const char *what);

/* The memory that allocate() and import() return: see struct symc_memory_ops. */
struct symc_cuda_memory {
    struct symc_cuda_context context;
    struct symc_cuda_log log;
    bool threads;
    bool words;  /* see struct symc_memory_request */
    bool legacy; /* of cuMemAlloc(): there is no physical memory to map */
    struct symc_cuda_physical physical; /* at: 0 if the program has mapped it */
    CUipcMemHandle ipc;                 /* of a legacy allocation */
    CUmemoryPool pool;                  /* that it comes from; NULL: none */
    size_t offset;    /* of data, in the physical memory or the allocation */
    CUdeviceptr data; /* the rank's address of it */
    size_t nbytes;    /* as requested */
    _Atomic int uses; /* one by its owner, and one for each join */
};

symmcoll_status_t symc_cuda_memory_allocate(
    const struct symc_memory_request *request, void **memory, void **at);

/* ---- import.c ---- */

symmcoll_status_t symc_cuda_memory_import(
    const struct symc_memory_request *request, void *data, void **memory);

/* ---- for both ---- */

/* Creates a zeroed object and makes the device's context current until
 * symc_cuda_memory_end(), which returns the status and frees the object on an error. */
symmcoll_status_t symc_cuda_memory_begin(
    const struct symc_memory_request *request, struct symc_cuda_memory **memory,
    struct symc_cuda_entered *entered);
symmcoll_status_t symc_cuda_memory_end(symmcoll_status_t status,
    struct symc_cuda_memory *memory, struct symc_cuda_entered *entered);

/* extent() of struct symc_memory_ops. */
struct symc_extent symc_cuda_memory_extent(const void *memory);

/* Drops one use; the last one frees the memory. */
void symc_cuda_memory_free(void *memory);

#endif
