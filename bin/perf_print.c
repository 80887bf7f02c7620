/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Standard output of symmcoll-perf: a table, or with --tsv the columns that
 * bench/compare and the programs compared with share.
 */
#include "perf_device.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* A barrier of two ranks with a core each is one crossing of a cache line: 55
 * to 120 ns within a last-level cache, 240 ns and more between two. */
#define NEAR_BELOW_S 180e-9
#define AWAKE_BELOW_S 2e-6 /* above it a rank slept or lost its core */

/* Returns the widest vector unit of the processor. */
static const char *processor_simd(void)
{
#if defined(__x86_64__) || defined(__i386__)
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw"))
        return "AVX-512";
    if (__builtin_cpu_supports("avx2"))
        return "AVX2";
    return "SSE2";
#elif defined(__aarch64__)
    return "NEON";
#else
    return "no vector unit known";
#endif
}

static const char *judge_cores(const struct perf_rank *rank, double barrier)
{
    if (rank->size == 1)
        return "one rank alone: nothing crosses";
    if (barrier >= AWAKE_BELOW_S)
        return rank->size > sysconf(_SC_NPROCESSORS_ONLN)
                   ? "more ranks than processors"
                   : "ranks share processors, or had to be woken";
    if (rank->size > 2)
        return "near and far cores are distinguished with 2 ranks only";
    return barrier < NEAR_BELOW_S
               ? "near cores (they share a last-level cache)"
               : "far cores (they do not share a last-level cache)";
}

bool perf_flush(void)
{
    if (fflush(stdout) == 0)
        return true;
    fprintf(stderr, "symmcoll-perf: standard output: %s\n", strerror(errno));
    return false;
}

static void flush_or_end(void)
{
    if (!perf_flush())
        exit(PERF_FAILED);
}

static void print_device_head(
    const struct perf_rank *rank, const char *provider)
{
    const struct perf_options *options = rank->options;

    printf("symmcoll-perf %s: %d rank%s (%s), %s, %s, %s cuda:%d (%s)\n\n",
        symmcoll_version(), rank->size, rank->size == 1 ? "" : "s",
        rank->size == 1 ? "alone" : provider,
        symmcoll_dtype_name(options->dtype), symmcoll_op_name(options->reduce),
        options->share ? "all on" : "rank 0 on",
        perf_device_ordinal(rank->device), perf_device_name(rank->device));
    if (!options->check_only)
        printf("%-24s %10s %12s %8s %11s %11s %9s %9s %11s\n", "operation",
            "bytes", "count", "calls", "min us", "median us", "GB/s",
            "bus GB/s", "host us");
    flush_or_end();
}

void perf_print_head(const struct perf_rank *rank, double barrier)
{
    const struct perf_options *options = rank->options;
    const char *provider = rank->threads ? "threads" : "processes";

    if (options->tsv)
        return;
    if (rank->device != NULL) {
        print_device_head(rank, provider);
        return;
    }
    printf("symmcoll-perf %s: %d rank%s (%s), %s, %s, %s%s\n",
        symmcoll_version(), rank->size, rank->size == 1 ? "" : "s",
        rank->size == 1 ? "alone" : provider,
        symmcoll_dtype_name(options->dtype), symmcoll_op_name(options->reduce),
        processor_simd(), options->symmetric ? ", symmetric buffers" : "");
    printf(
        "barrier %.3f us: %s\n\n", barrier * 1e6, judge_cores(rank, barrier));
    if (!options->check_only)
        printf("%-24s %10s %12s %8s %11s %11s %9s %9s %10s\n", "operation",
            "bytes", "count", "calls", "min us", "median us", "GB/s",
            "bus GB/s", "barrier us");
    flush_or_end();
}

const char *perf_format_size(size_t nbytes, char *buffer, size_t size)
{
    static const char *const units[] = {"B", "KiB", "MiB", "GiB"};
    size_t unit = 0;

    for (; unit < 3 && nbytes >= 1024 && nbytes % 1024 == 0; unit++)
        nbytes /= 1024;
    snprintf(buffer, size, "%zu %s", nbytes, units[unit]);
    return buffer;
}

void perf_print_row(const struct perf_options *options, const char *name,
    int ranks, size_t nbytes, double bus_factor,
    const struct perf_figures *figures)
{
    double bandwidth = (double)nbytes / figures->median / 1e9;

    printf("%s\t%s\t%d\t%zu\t%ld\t%.3f\t%.3f\t%.4f\t%.4f\t%.3f", options->peer,
        name, ranks, nbytes, figures->calls, figures->shortest * 1e6,
        figures->median * 1e6, bandwidth, bandwidth * bus_factor,
        figures->barrier * 1e6);
    if (options->device)
        printf("\t%.3f", figures->host * 1e6);
    putchar('\n');
}

void perf_print_figures(
    const struct perf_case *it, const struct perf_figures *figures)
{
    const struct perf_options *options = it->rank->options;
    const struct perf_op *op = it->choice->op;
    double bandwidth = (double)it->nbytes / figures->median / 1e9;
    double bus = bandwidth * op->bus_factor(it->rank->size);
    char size[32];

    if (options->tsv) {
        perf_print_row(options, it->choice->name, it->rank->size, it->nbytes,
            op->bus_factor(it->rank->size), figures);
    } else {
        printf("%-24s %10s %12zu %8ld %11.3f %11.3f %9.3f %9.3f %*.3f\n",
            it->choice->name, perf_format_size(it->nbytes, size, sizeof(size)),
            it->count, figures->calls, figures->shortest * 1e6,
            figures->median * 1e6, bandwidth, bus,
            it->rank->device != NULL ? 11 : 10,
            (it->rank->device != NULL ? figures->host : figures->barrier) *
                1e6);
    }
    flush_or_end();
}

void perf_print_checked(
    const struct perf_rank *rank, const struct perf_choice *choice, int cases)
{
    if (rank->options->results != NULL || rank->options->tsv ||
        !rank->options->check_only)
        return;
    printf("%-24s %d case%s, all elements right\n", choice->name, cases,
        cases == 1 ? "" : "s");
    flush_or_end();
}
