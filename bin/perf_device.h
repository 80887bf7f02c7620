/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Operations on device memory, as symmcoll-perf has them: the driver, what should
 * be in the buffers, times by events, and which settings are best.
 */
#ifndef SYMC_BIN_PERF_DEVICE_H
#define SYMC_BIN_PERF_DEVICE_H

#include "perf.h"

/* ---- perf_driver.c: the CUDA driver, and devices.  What returns false or NULL
 * has said why. ---- */

struct perf_device;

/* Load it, and look whether there is a device of that number; enum perf_exit.
 * To be closed in any case. */
int perf_driver_open(struct perf_driver **driver, int first);
void perf_driver_close(struct perf_driver *driver);

/* Whether all devices have multicast, one for each rank. */
bool perf_driver_has_multicast(const struct perf_driver *driver, int ranks);

/* Make a rank's device that of the calling thread, with a stream. */
struct perf_device *perf_device_open(
    const struct perf_options *options, int rank);
void perf_device_close(struct perf_device *device);
const char *perf_device_name(const struct perf_device *device);
int perf_device_ordinal(const struct perf_device *device);
void *perf_device_stream(const struct perf_device *device);

void *perf_device_allocate(const struct perf_device *device, size_t nbytes);
void perf_device_free(const struct perf_device *device, void *memory);
/* In the stream's order, to and from the host too. */
bool perf_device_copy(const struct perf_device *device, void *to,
    const void *from, size_t nbytes);
/* Until all that is in the stream has ended. */
bool perf_device_wait(const struct perf_device *device);

/* Record event 0 or 1; and, when both are over, the time between them. */
bool perf_device_mark(const struct perf_device *device, int event);
bool perf_device_elapsed(const struct perf_device *device, double *seconds);

/* ---- perf_mirror.c ---- */

/* For a rank whose buffers are on a device: data that are random, on both, and
 * what the device has, on the host.  False after a message. */
bool perf_mirror_open(struct perf_rank *rank, size_t nbytes);
void perf_mirror_close(struct perf_rank *rank);

/* As perf_case_check(): the same bytes as the host's operation, everywhere; but of
 * one that is unordered, only that it ends. */
int perf_mirror_check(struct perf_case *it, symmcoll_status_t *status);

/* As perf_case_rewrite(), in the stream; false after a message. */
bool perf_mirror_rewrite(const struct perf_case *it);

/* ---- perf_events.c ---- */

/* As perf_measure(), by events of the stream, and by the host's clock. */
symmcoll_status_t perf_events_measure(
    const struct perf_case *it, struct perf_figures *figures);

/* ---- perf_thresholds.c ---- */

#define PERF_RESULTS_MAX 32

/* What --thresholds compares: of all_reduce, at each size. */
struct perf_results {
    int ranks; /* 0: nothing was measured */
    int count;
    struct {
        size_t nbytes;
        struct perf_figures figures;
    } of[PERF_RESULTS_MAX];
};

/* Measures with these options, and the settings of the environment, in a world
 * of that name; enum perf_exit. */
typedef int (*perf_run_fn)(
    const struct perf_options *options, const char *name);

/* Measure on all ranks, and print on rank 0; enum perf_exit. */
int perf_thresholds(const struct perf_options *options, perf_run_fn run);

/* ---- perf_place.c: --device and what belongs to it ---- */

/* "cuda", "cuda:3"; false after a message. */
bool perf_parse_device(struct perf_options *options, const char *text);

/* Whether the options go together; completes them.  False after a message. */
bool perf_finish_device(struct perf_options *options);

#endif
