/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Operations on device memory in symmcoll-perf: the driver, the expected
 * contents of buffers, times by events, and the best settings.
 */
#ifndef SYMC_BIN_PERF_DEVICE_H
#define SYMC_BIN_PERF_DEVICE_H

#include "perf.h"

/* ---- perf_driver.c: the CUDA driver and devices.  Functions that return false
 * or NULL have printed a message.  ---- */

struct perf_device;

/* Loads the driver and checks that device `first` exists.  Returns an enum
 * perf_exit.  perf_driver_close() must be called in any case. */
int perf_driver_open(struct perf_driver **driver, int first);
void perf_driver_close(struct perf_driver *driver);

/* Returns whether all devices support multicast and there is one per rank. */
bool perf_driver_has_multicast(const struct perf_driver *driver, int ranks);

/* Opens a rank's device for the calling thread, with a stream. */
struct perf_device *perf_device_open(
    const struct perf_options *options, int rank);
void perf_device_close(struct perf_device *device);
const char *perf_device_name(const struct perf_device *device);
int perf_device_ordinal(const struct perf_device *device);
void *perf_device_stream(const struct perf_device *device);

void *perf_device_allocate(const struct perf_device *device, size_t nbytes);
void perf_device_free(const struct perf_device *device, void *memory);
/* Copies in stream order, also to and from the host. */
bool perf_device_copy(const struct perf_device *device, void *to,
    const void *from, size_t nbytes);
/* Waits until the stream is empty. */
bool perf_device_wait(const struct perf_device *device);

/* Records event 0 or 1; returns the time between them when both have
 * completed. */
bool perf_device_mark(const struct perf_device *device, int event);
bool perf_device_elapsed(const struct perf_device *device, double *seconds);

/* ---- perf_mirror.c ---- */

/* Opens a rank's host copy of its device buffers: random data on both.  Returns
 * false after a message. */
bool perf_mirror_open(struct perf_rank *rank, size_t nbytes);
void perf_mirror_close(struct perf_rank *rank);

/* As perf_case_check(): compares all bytes with the host's operation; an
 * unordered operation must only end. */
int perf_mirror_check(struct perf_case *it, symmcoll_status_t *status);

/* As perf_case_rewrite(), in the stream.  Returns false after a message. */
bool perf_mirror_rewrite(const struct perf_case *it);

/* ---- perf_events.c ---- */

/* As perf_measure(), by events of the stream and by the host's clock. */
symmcoll_status_t perf_events_measure(
    const struct perf_case *it, struct perf_figures *figures);

/* ---- perf_thresholds.c ---- */

#define PERF_RESULTS_MAX 32

/* Results of all_reduce for --thresholds, by size. */
struct perf_results {
    int ranks; /* 0: nothing was measured */
    int count;
    struct {
        size_t nbytes;
        struct perf_figures figures;
    } of[PERF_RESULTS_MAX];
};

/* Measures with these options, and the settings in the environment, in a world
 * of that name.  Returns an enum perf_exit. */
typedef int (*perf_run_fn)(
    const struct perf_options *options, const char *name);

/* Measures on all ranks and prints on rank 0. Returns an enum perf_exit. */
int perf_thresholds(const struct perf_options *options, perf_run_fn run);

/* ---- perf_place.c: --device and related options ---- */

/* Parses "cuda" or "cuda:3". Returns false after a message. */
bool perf_parse_device(struct perf_options *options, const char *text);

/* Checks that the options go together, and completes them.  Returns false after
 * a message. */
bool perf_finish_device(struct perf_options *options);

#endif
