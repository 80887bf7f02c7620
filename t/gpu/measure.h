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

/* The time from begin_span() to end_span() on a stream. */
struct span {
    const struct symc_cuda *cuda;
    CUevent events[2];
    CUstream stream;
};
void open_span(struct span *span, const struct symc_cuda *cuda);
void begin_span(const struct span *span);
void end_span(const struct span *span);
/* Returns the microseconds on the device, when the stream has ended. */
double measure_span(const struct span *span);
void close_span(const struct span *span);

/* Prints a line of the table: a name, and a number with its unit; also to the
 * file T_GPU_LIMITS. */
void tell(const char *what, double value, const char *unit);

/* Loads and launches a kernel that does nothing. */
CUfunction load_empty(const struct symc_cuda *cuda);
void launch_empty(
    const struct symc_cuda *cuda, CUfunction function, CUstream stream);

/* Returns the bytes of a medium-sized buffer, for which there is enough
 * memory. */
size_t medium(void);

/* Fills with random bits that are floats of moderate size. */
void fill_random(float *device, size_t count, int rank);

/* Returns the gigabytes a second that are copied, with as many read. */
double bandwidth(const struct symc_cuda *cuda, size_t nbytes);

#endif
