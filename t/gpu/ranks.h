/* SPDX-License-Identifier: BSD-3-Clause */
/* Points of ranks that share a device. */
#ifndef T_GPU_RANKS_H
#define T_GPU_RANKS_H

#include "t/ranks.h"
#include "t/tap.h"

/* Runs level 1: threads of one process. */
static inline void on_threads(int n, rank_fn body, const char *what)
{
    ok(threads_run(n, body), "%s (%d threads)", what, n);
}

/* Runs level 2: processes. */
static inline void on_processes(int n, rank_fn body, const char *what)
{
    ok(ranks_run(n, body), "%s (%d processes)", what, n);
}

#endif
