/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Helpers to measure on a device: medians of samples, times by events, lines
 * of a table, memory with random numbers.
 */
#ifndef T_GPU_MEASURE_H
#define T_GPU_MEASURE_H

#include "t/cuda/members.h"
#include "t/gpu/gpu.h"

#define SAMPLES 41
#define LAUNCHES 100 /* in a row, of a sample */

/* median() sorts the n samples; now() returns seconds of the host's clock. */
double median(double *samples, int n);
double now(void);

/* From begin_span() to end_span() on a stream. */
struct span {
    const struct symc_cuda *cuda;
    CUevent events[2];
    CUstream stream;
};
void open_span(struct span *span, const struct symc_cuda *cuda);
void begin_span(const struct span *span);
void end_span(const struct span *span);
/* Microseconds on the device, when the stream has ended. */
double measure_span(const struct span *span);
void close_span(const struct span *span);

/* A line of the table: what, and a number with its unit; in the file that
 * T_GPU_LIMITS names, too. */
void tell(const char *what, double value, const char *unit);

/* A kernel that does nothing. */
CUfunction load_empty(const struct symc_cuda *cuda);
void launch_empty(
    const struct symc_cuda *cuda, CUfunction function, CUstream stream);

/* Bytes of a buffer of medium size, of which there is memory for some. */
size_t medium(void);

/* Random bits that are floats of no great size. */
void fill_random(float *device, size_t count, int rank);

/* Gigabytes a second that are copied, and as many read. */
double bandwidth(const struct symc_cuda *cuda, size_t nbytes);

#endif
