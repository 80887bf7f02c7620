/* SPDX-License-Identifier: BSD-3-Clause */
/* Fused products of 8-bit floats, by threads that share a device. */
#ifndef T_GPU_EIGHTHS_H
#define T_GPU_EIGHTHS_H

/* Runs points with n threads, both operations, every type and kind of scales,
 * against float64; skipped if the device does not multiply these types. */
void gpu_test_eighths(int n);

#endif
