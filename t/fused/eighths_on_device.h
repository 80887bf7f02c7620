/* SPDX-License-Identifier: BSD-3-Clause */
/* Fused products of 8-bit floats in device memory. */
#ifndef T_FUSED_EIGHTHS_ON_DEVICE_H
#define T_FUSED_EIGHTHS_ON_DEVICE_H

#include "t/fused/eighths.h"

/* Runs one operation on the rank's device, and checks its results in memory of
 * the library; if repeated, in memory of the caller that is filled with NaN,
 * each time with the same bits. */
int eighths_gather_on_device(
    struct symmcoll_group *group, int rank, const struct eighths *test);
int eighths_scatter_on_device(
    struct symmcoll_group *group, int rank, const struct eighths *test);

#endif
