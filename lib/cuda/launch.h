/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The kernels of the folder kernels, from the side of the host: which there are, and how one is
 * started.  Starting one enqueues it on a stream; it neither allocates nor
 * synchronises.
 */
#ifndef SYMC_CUDA_LAUNCH_H
#define SYMC_CUDA_LAUNCH_H

#include "cuda/driver.h"
#include "kernels/args.h"

#include <symmcoll/types.h>

/* Kernels of one kind: one for each element type, or one for all. */
enum symc_kernel {
    SYMC_KERNEL_PACKETS,
    SYMC_KERNEL_ONE_SHOT,
    SYMC_KERNEL_TWO_SHOT,
    SYMC_KERNEL_REDUCE_SCATTER,
    SYMC_KERNEL_REDUCE_ROWS,
    SYMC_KERNEL_MULTIMEM_ONE_SHOT, /* of few types */
    SYMC_KERNEL_MULTIMEM_TWO_SHOT,
    SYMC_KERNEL_MULTIMEM_ALL_GATHER, /* from here on for all types */
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

/* Whether there is one of a kind for a type of elements. */
bool symc_kernel_has_type(enum symc_kernel kernel, enum symmcoll_dtype dtype);

/* The functions of all kernels in a context, by kind and element type; that of a
 * kind for all types is of type 0.  NULL: a type that is not reduced, or is as
 * another one. */
struct symc_kernels {
    const struct symc_cuda *cuda;
    symc_cuda_fail_fn fail;
    int device;
    CUfunction functions[SYMC_KERNEL_COUNT][SYMMCOLL_DTYPE_COUNT];
};

/* How much of the device a kernel is started on. */
struct symc_grid {
    uint32_t blocks;
    uint32_t threads; /* of a block */
};

/*
 * Load all kernels in the current context, to the last instruction: what is
 * loaded when it is first started may wait for the device, on which a kernel may
 * wait for this one.  fail is kept.
 * Errors: those of symc_cuda_fail(), with the kernel's name.
 */
symmcoll_status_t symc_kernels_load(const struct symc_cuda *cuda,
    symc_cuda_fail_fn fail, int device, struct symc_kernels *kernels);

/* The same of the kernels of one kind; the others stay as they are. */
symmcoll_status_t symc_kernels_load_kind(const struct symc_cuda *cuda,
    symc_cuda_fail_fn fail, int device, enum symc_kernel kind,
    struct symc_kernels *kernels);

/* The name of a kernel in the image, "symc_one_shot_f32"; into a buffer of
 * SYMC_KERNEL_NAME. */
#define SYMC_KERNEL_NAME 64
const char *symc_kernel_name(
    enum symc_kernel kernel, enum symmcoll_dtype dtype, char *buffer);

/*
 * Start one on a stream, in the current context.  args is the struct that the
 * kernel takes, and is copied.
 * Errors: those of symc_cuda_fail(), with the kernel's name.
 */
symmcoll_status_t symc_kernel_launch(const struct symc_kernels *kernels,
    enum symc_kernel kernel, enum symmcoll_dtype dtype, struct symc_grid grid,
    CUstream stream, const void *args);

#endif
