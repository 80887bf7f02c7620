/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The kernels of the folder kernels, as the host sees them: the list of kernels, their
 * loading and their launch.  A launch enqueues a kernel on a stream; it neither allocates
 * nor synchronises.
 */
#ifndef SYMC_CUDA_LAUNCH_H
#define SYMC_CUDA_LAUNCH_H

#include "cuda/driver.h"
#include "kernels/args.h"

#include <symmcoll/types.h>

/* Kinds of kernels: a kind has one kernel per element type, or one for all types. */
enum symc_kernel {
    SYMC_KERNEL_PACKETS,
    SYMC_KERNEL_ONE_SHOT,
    SYMC_KERNEL_TWO_SHOT,
    SYMC_KERNEL_REDUCE_SCATTER,
    SYMC_KERNEL_REDUCE_ROWS,
    SYMC_KERNEL_MULTIMEM_ONE_SHOT, /* for few types */
    SYMC_KERNEL_MULTIMEM_TWO_SHOT,
    SYMC_KERNEL_MULTIMEM_ALL_GATHER, /* from here on: one for all types */
    SYMC_KERNEL_PULL,
    SYMC_KERNEL_EXCHANGE,
    SYMC_KERNEL_PLAN,
    SYMC_KERNEL_PLAN_RUN,
    SYMC_KERNEL_PUSH_ROWS,
    SYMC_KERNEL_BARRIER,
    SYMC_KERNEL_PUT_SIGNAL,
    SYMC_KERNEL_WAIT_SIGNAL,
    SYMC_KERNEL_SIGNAL_BARRIER,
    SYMC_KERNEL_WAIT32,
    SYMC_KERNEL_WRITE32,
    SYMC_KERNEL_FILL32,
    SYMC_KERNEL_NAN_SCAN,
    SYMC_KERNEL_TO_F16, /* from float32 */
    SYMC_KERNEL_TO_BF16,
    SYMC_KERNEL_FROM_F16, /* to float32 */
    SYMC_KERNEL_FROM_BF16,
    SYMC_KERNEL_FLATTEN,
    SYMC_KERNEL_UNFLATTEN,
    SYMC_KERNEL_COUNT
};

/* Returns whether a kind has a kernel for an element type. */
bool symc_kernel_has_type(enum symc_kernel kernel, enum symmcoll_dtype dtype);

/* The functions of all kernels in a context, by kind and element type.  A kind with one
 * kernel for all types has it at type 0.  NULL: the type is not reduced, or is reduced as
 * another type. */
struct symc_kernels {
    const struct symc_cuda *cuda;
    symc_cuda_fail_fn fail;
    int device;
    CUfunction functions[SYMC_KERNEL_COUNT][SYMMCOLL_DTYPE_COUNT];
};

/* The dimensions of a launch. */
struct symc_grid {
    uint32_t blocks;
    uint32_t threads; /* of a block */
};

/*
 * Loads all kernels completely into the current context.  A kernel that is loaded lazily,
 * at its first launch, may wait for the device, where another kernel may be waiting for
 * this one.  Keeps fail.
 * Errors: those of symc_cuda_fail(), with the kernel's name.
 */
symmcoll_status_t symc_kernels_load(const struct symc_cuda *cuda,
    symc_cuda_fail_fn fail, int device, struct symc_kernels *kernels);

/* Loads the kernels of one kind as symc_kernels_load() does; leaves the others alone. */
symmcoll_status_t symc_kernels_load_kind(const struct symc_cuda *cuda,
    symc_cuda_fail_fn fail, int device, enum symc_kernel kind,
    struct symc_kernels *kernels);

/*
 * Launches a kernel on a stream of the current context.  args is the kernel's argument
 * struct, and is copied.
 * Errors: those of symc_cuda_fail(), with the kernel's name.
 */
symmcoll_status_t symc_kernel_launch(const struct symc_kernels *kernels,
    enum symc_kernel kernel, enum symmcoll_dtype dtype, struct symc_grid grid,
    CUstream stream, const void *args);

#endif
