/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Tensors for the tests of fused operations in device memory, and these
 * operations on them.
 */
#ifndef T_FUSED_ON_DEVICE_H
#define T_FUSED_ON_DEVICE_H

#include "t/blas/fake_cublaslt.h"
#include "t/cuda/members.h"
#include "t/fused/gathered.h"
#include "t/fused/scattered.h"

/* Prepares, in main before all ranks, device_begin() and the stand-in for
 * cuBLASLt (on_device_begin.c). rows: the number of rows from which on each
 * product is of one rank's part. */
void on_device_begin(const char *rows);

/* Returns the counters of the stand-in; NULL before a product has loaded it. */
struct fake_cublaslt *on_device_cublaslt(void);

/* Copy a tensor to a device, with the same strides, and back. The copies are
 * freed by on_device_free(), and free(data). */
struct symmcoll_tensor on_device(
    const struct symmcoll_tensor *host, int device);
struct symmcoll_tensor on_host(const struct symmcoll_tensor *device);
void on_device_free(struct symmcoll_tensor *tensor);

/* Run one operation on the rank's device, and check its results in memory of
 * the library; if repeated, in memory of the caller that is filled with NaN,
 * each time with the same bits. */
int gathered_on_device(
    struct symmcoll_group *group, int rank, const struct gathered *test);
int scattered_on_device(
    struct symmcoll_group *group, int rank, const struct scattered *test);

#endif
