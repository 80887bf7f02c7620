/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The measuring method, the same as in the programs that symmcoll-perf is
 * compared with: warm-up, then samples of enough calls in a row to take 20 us,
 * each after a barrier.  A sample's time is that of the slowest rank.
 */
#include "perf_device.h"

#include <stdlib.h>

#define BATCH_S 20e-6      /* approximate time of a sample of short calls */
#define MEASURABLE_S 50e-9 /* least believable estimate */
#define SHORT_S 1e-3       /* faster calls are estimated from ESTIMATE_CALLS */
#define LONG_S 0.3         /* one longer call is enough warm-up */
#define CAP_S 0.35         /* most time per point, with barriers */
#define ESTIMATE_CALLS 20
#define MIN_SAMPLES 3
#define PROBE_BATCHES 4
#define PROBE_CALLS 100
#define PROBE_BELOW_S 20e-6 /* slower barriers do not distinguish cores */

/* Estimates made before a case is timed. */
struct estimate {
    double barrier;
    double call;
};

symmcoll_status_t perf_probe(const struct perf_rank *rank, double *seconds)
{
    symmcoll_status_t status = SYMMCOLL_OK;
    double best = 1;

    for (int i = 0; i < PROBE_BATCHES; i++) {
        double start = perf_now(), each;

        for (int j = 0; j < PROBE_CALLS && status == SYMMCOLL_OK; j++)
            status = perf_wait_for_all(rank);
        each = (perf_now() - start) / PROBE_CALLS;
        if (each < best)
            best = each;
    }
    *seconds = best;
    return status;
}

/* Returns the seconds per call of calls in a row. */
static symmcoll_status_t time_calls(
    const struct perf_case *it, int calls, double *seconds)
{
    symmcoll_status_t (*run)(const struct perf_case *) = it->choice->op->run;
    symmcoll_status_t status = SYMMCOLL_OK;
    double start = perf_now();

    for (int i = 0; i < calls && status == SYMMCOLL_OK; i++) {
        perf_next_group(it->rank);
        status = run(it);
    }
    *seconds = (perf_now() - start) / calls;
    return status;
}

/* Times calls that all ranks begin together. */
static symmcoll_status_t wait_and_time(
    const struct perf_case *it, int calls, double *seconds)
{
    symmcoll_status_t status = perf_wait_for_all(it->rank);

    return status == SYMMCOLL_OK ? time_calls(it, calls, seconds) : status;
}

/* Warms up and estimates the time of a call, the same on all ranks. */
static symmcoll_status_t estimate_call(
    const struct perf_case *it, struct estimate *estimate)
{
    double both[2] = {0, 0};
    symmcoll_status_t status;

    /* Each group allocates its memory. */
    for (int i = 0; i <= it->rank->options->groups; i++) {
        perf_next_group(it->rank);
        status = it->choice->op->run(it);
        if (status != SYMMCOLL_OK)
            return status;
    }
    for (int i = 0; i < 3; i++) {
        double start = perf_now();

        status = perf_wait_for_all(it->rank);
        if (status != SYMMCOLL_OK)
            return status;
        both[0] = perf_now() - start;
        status = time_calls(it, 1, &both[1]);
        if (status != SYMMCOLL_OK)
            return status;
        /* All ranks must make the same decision. */
        status = perf_largest(it->rank, both, 2);
        if (status != SYMMCOLL_OK)
            return status;
        if (both[1] > LONG_S)
            break;
    }
    if (both[1] < SHORT_S) {
        status = wait_and_time(it, ESTIMATE_CALLS, &both[1]);
        if (status != SYMMCOLL_OK)
            return status;
        status = perf_largest(it->rank, &both[1], 1);
        if (status != SYMMCOLL_OK)
            return status;
    }
    estimate->barrier = both[0];
    estimate->call = both[1] > MEASURABLE_S ? both[1] : MEASURABLE_S;
    return SYMMCOLL_OK;
}

/* Returns how many samples fit into the time of a point. */
static int count_samples(
    const struct perf_case *it, const struct estimate *estimate, int calls)
{
    double wanted = it->rank->options->seconds;
    double cap = wanted > CAP_S ? wanted : CAP_S;
    double sample = calls * estimate->call;
    double samples = wanted / sample;

    if (samples > cap / (sample + estimate->barrier))
        samples = cap / (sample + estimate->barrier);
    if (samples > PERF_SAMPLES_MAX)
        return PERF_SAMPLES_MAX;
    return samples < MIN_SAMPLES ? MIN_SAMPLES : (int)samples;
}

symmcoll_status_t perf_measure(
    const struct perf_case *it, struct perf_figures *figures)
{
    double *times = it->rank->samples, probes[2] = {0, 0};
    struct estimate estimate;
    bool rewriting = perf_rewrites(it), probing;
    int calls = 1, parts = it->choice->op->parts, samples;
    symmcoll_status_t status;

    if (it->rank->device != NULL)
        return perf_events_measure(it, figures);
    status = estimate_call(it, &estimate);
    if (status != SYMMCOLL_OK)
        return status;
    probing = estimate.barrier < PROBE_BELOW_S;
    if (probing) {
        status = perf_probe(it->rank, &probes[0]);
        if (status != SYMMCOLL_OK)
            return status;
    }
    if (estimate.call < BATCH_S && !rewriting)
        calls = (int)(BATCH_S / estimate.call) + 1;
    samples = count_samples(it, &estimate, calls);
    for (int i = 0; i < samples; i++) {
        if (rewriting)
            perf_case_rewrite(it);
        status = wait_and_time(it, calls, &times[i]);
        if (status != SYMMCOLL_OK)
            return status;
    }
    status = perf_wait_for_all(it->rank);
    if (status == SYMMCOLL_OK && probing)
        status = perf_probe(it->rank, &probes[1]);
    if (status != SYMMCOLL_OK)
        return status;
    status = perf_largest(it->rank, times, (size_t)samples);
    if (status != SYMMCOLL_OK)
        return status;
    qsort(times, (size_t)samples, sizeof(*times), perf_compare_times);
    parts = parts > 0 ? parts : 1;
    figures->calls = (long)samples * calls * parts;
    figures->shortest = times[0] / parts;
    figures->median = times[samples / 2] / parts;
    figures->host = 0;
    figures->barrier = probes[0] > probes[1] ? probes[0] : probes[1];
    return SYMMCOLL_OK;
}
