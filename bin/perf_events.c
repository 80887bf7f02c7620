/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Measurement of operations on device memory.  They are enqueued in a row
 * between two events of the stream, whose difference is the device's time.  The
 * host's time is from the first call until the stream is empty.
 */
#include "perf_device.h"

#include <stdlib.h>

#define BATCH_S 1e-3 /* approximate time of a sample of short calls */
#define CALLS_MAX 200
#define ESTIMATE_CALLS 20
#define WARM_CALLS 5
#define MEASURABLE_S 1e-7
#define LONG_S 0.3 /* one longer call is enough warm-up */
#define SAMPLES_MAX (PERF_SAMPLES_MAX / 2)
#define MIN_SAMPLES 3

/* Times of one call. */
struct times {
    double device, host;
};

static symmcoll_status_t call(const struct perf_case *it, int calls)
{
    symmcoll_status_t status = SYMMCOLL_OK;

    for (int i = 0; i < calls && status == SYMMCOLL_OK; i++) {
        perf_next_group(it->rank);
        status = it->choice->op->run(it);
    }
    return status;
}

/* Times calls in a row.  If the driver fails, a message has been printed, and
 * the other ranks notice when this one is missing. */
static symmcoll_status_t time_calls(
    const struct perf_case *it, int calls, struct times *times)
{
    const struct perf_device *device = it->rank->device;
    symmcoll_status_t status = perf_wait_for_all(it->rank);
    bool right, rewriting = perf_rewrites(it);
    double start;

    if (status != SYMMCOLL_OK)
        return status;
    right = !rewriting || perf_mirror_rewrite(it);
    start = perf_now();
    right = right && perf_device_mark(device, 0);
    status = call(it, calls);
    right = right && perf_device_mark(device, 1);
    right = perf_device_wait(device) && right;
    times->host = (perf_now() - start) / calls;
    right = right && perf_device_elapsed(device, &times->device);
    times->device /= calls;
    if (status != SYMMCOLL_OK)
        return status;
    return right ? SYMMCOLL_OK : SYMMCOLL_ERR_DEVICE;
}

/* Times calls.  The host's seconds are the largest of all ranks. */
static symmcoll_status_t time_on_all(
    const struct perf_case *it, int calls, struct times *times)
{
    symmcoll_status_t status = time_calls(it, calls, times);

    return status == SYMMCOLL_OK ? perf_largest(it->rank, &times->host, 1)
                                 : status;
}

/* Estimates the seconds of a call, the same on all ranks. */
static symmcoll_status_t estimate(const struct perf_case *it, double *seconds)
{
    struct times times = {0, 0};
    symmcoll_status_t status;

    for (int i = 0; i < WARM_CALLS; i++) {
        status = time_on_all(it, 1, &times);
        if (status != SYMMCOLL_OK)
            return status;
        if (times.host > LONG_S)
            break;
    }
    if (times.host < BATCH_S && !perf_rewrites(it)) {
        status = time_on_all(it, ESTIMATE_CALLS, &times);
        if (status != SYMMCOLL_OK)
            return status;
    }
    *seconds = times.host > MEASURABLE_S ? times.host : MEASURABLE_S;
    return SYMMCOLL_OK;
}

static int count_samples(const struct perf_case *it, double sample)
{
    double samples = it->rank->options->seconds / sample;
    const int most = SAMPLES_MAX;

    if (samples > most)
        return most;
    return samples < MIN_SAMPLES ? MIN_SAMPLES : (int)samples;
}

static void sort(double *times, int samples)
{
    qsort(times, (size_t)samples, sizeof(*times), perf_compare_times);
}

symmcoll_status_t perf_events_measure(
    const struct perf_case *it, struct perf_figures *figures)
{
    double *device = it->rank->samples, *host = device + SAMPLES_MAX, seconds;
    symmcoll_status_t status = estimate(it, &seconds);
    int calls = 1, samples;

    if (status != SYMMCOLL_OK)
        return status;
    if (!perf_rewrites(it) && seconds < BATCH_S)
        calls = BATCH_S / seconds < CALLS_MAX ? (int)(BATCH_S / seconds) + 1
                                              : CALLS_MAX;
    samples = count_samples(it, calls * seconds);
    for (int i = 0; i < samples; i++) {
        struct times times = {0, 0};

        status = time_calls(it, calls, &times);
        if (status != SYMMCOLL_OK)
            return status;
        device[i] = times.device;
        host[i] = times.host;
    }
    status = perf_largest(it->rank, device, (size_t)samples);
    if (status != SYMMCOLL_OK)
        return status;
    status = perf_largest(it->rank, host, (size_t)samples);
    if (status != SYMMCOLL_OK)
        return status;
    sort(device, samples);
    sort(host, samples);
    *figures = (struct perf_figures){.calls = (long)samples * calls,
        .shortest = device[0],
        .median = device[samples / 2],
        .host = host[samples / 2]};
    return SYMMCOLL_OK;
}
