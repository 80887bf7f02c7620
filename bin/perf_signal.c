/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Signals and barriers of symmetric memory, in the group of all ranks.
 */
#include "perf.h"

static bool is_chosen(const struct perf_options *options)
{
    for (int i = 0; i < options->nchoices; i++) {
        if (options->choices[i].op->signals)
            return true;
    }
    return false;
}

int perf_signals_join(struct perf_rank *rank)
{
    void *data;
    symmcoll_status_t status;

    if (!is_chosen(rank->options))
        return PERF_PASSED;
    status = symmcoll_symm_alloc(rank->world, 0, NULL, &data);
    if (status == SYMMCOLL_OK)
        status =
            symmcoll_symm_rendezvous(rank->all, data, NULL, &rank->signals);
    return status == SYMMCOLL_OK
               ? PERF_PASSED
               : perf_report(rank, "joining symmetric memory", status);
}

/* Sends a signal there and back. */
symmcoll_status_t perf_run_signal(const struct perf_case *it)
{
    struct symmcoll_symm *symm = it->rank->signals;
    int other = 1 - it->rank->rank;
    symmcoll_status_t status = it->rank->rank == 0
                                   ? symmcoll_symm_put_signal(symm, 1, 0, -1)
                                   : SYMMCOLL_OK;

    if (status == SYMMCOLL_OK)
        status = symmcoll_symm_wait_signal(symm, other, 0, -1);
    if (status == SYMMCOLL_OK && it->rank->rank == 1)
        status = symmcoll_symm_put_signal(symm, 0, 0, -1);
    return status;
}

symmcoll_status_t perf_run_symm_barrier(const struct perf_case *it)
{
    return symmcoll_symm_barrier(it->rank->signals, 0, -1);
}
