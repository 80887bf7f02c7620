/* SPDX-License-Identifier: BSD-3-Clause */
/* Fused products of 8-bit floats, of threads that share a device. */
#ifndef T_GPU_EIGHTHS_H
#define T_GPU_EIGHTHS_H

/* Points of so many threads, both ways, every type and kind of scales, against
 * float64; skipped where the device does not multiply these. */
void gpu_test_eighths(int n);

#endif
