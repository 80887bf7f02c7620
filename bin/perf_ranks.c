/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Functions of all parts of symmcoll-perf: the clock, agreement of the ranks,
 * messages.
 */
#include "perf.h"

#include <stdio.h>
#include <time.h>

double perf_now(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

symmcoll_status_t perf_wait_for_all(const struct perf_rank *rank)
{
    return symmcoll_barrier(rank->all, NULL, NULL);
}

symmcoll_status_t perf_largest(
    const struct perf_rank *rank, double *values, size_t count)
{
    return symmcoll_all_reduce(rank->all, values, values, count,
        SYMMCOLL_FLOAT64, SYMMCOLL_MAX, NULL, NULL);
}

int perf_compare_times(const void *left, const void *right)
{
    double a = *(const double *)left, b = *(const double *)right;

    return (a > b) - (a < b);
}

int perf_report(
    const struct perf_rank *rank, const char *what, symmcoll_status_t status)
{
    fprintf(stderr, "symmcoll-perf: rank %d of %d: %s: %s: %s\n", rank->rank,
        rank->size, what, symmcoll_status_name(status), symmcoll_last_error());
    return PERF_FAILED;
}
