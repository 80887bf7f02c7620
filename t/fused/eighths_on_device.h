/* SPDX-License-Identifier: BSD-3-Clause */
/* Fused products of 8-bit floats in device memory. */
#ifndef T_FUSED_EIGHTHS_ON_DEVICE_H
#define T_FUSED_EIGHTHS_ON_DEVICE_H

#include "t/fused/eighths.h"

/* One operation, on the rank's device: whether results are right, which are in memory
 * of the library; or where it is repeated in the caller's, over NaN, each time with
 * the same bits. */
int eighths_gather_on_device(
    struct symmcoll_group *group, int rank, const struct eighths *test);
int eighths_scatter_on_device(
    struct symmcoll_group *group, int rank, const struct eighths *test);

#endif
