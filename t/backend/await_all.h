/* SPDX-License-Identifier: BSD-3-Clause */
/* A point where all ranks of a test wait for each other without a call of the
 * library, so that no operation is left that a later failure could end. */
#ifndef T_BACKEND_AWAIT_ALL_H
#define T_BACKEND_AWAIT_ALL_H

#include "modules.h"

#include <sched.h>
#include <sys/mman.h>

/* The number of ranks that have arrived in this run, in memory shared by
 * processes. */
static _Atomic int *here;

/* Makes the memory; before any rank starts. */
static inline void share_here(void)
{
    here = mmap(NULL, sizeof(*here), PROT_READ | PROT_WRITE,
        MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (here == MAP_FAILED)
        skip_all("no shared memory");
}

/* Waits, once in a run, until all ranks have called and are in no call: an
 * operation that all have begun may still end with the failure that follows. */
static inline int await_all(const struct symmcoll_group *group)
{
    atomic_fetch_add(here, 1);
    while (atomic_load(here) < symmcoll_group_size(group))
        sched_yield();
    return 1;
}

/* Runs a body that awaits all once, on processes and on threads. */
static inline void on_each(int n, rank_fn body, const char *what)
{
    atomic_store(here, 0);
    ok(ranks_run(n, body), "%s, %d processes", what, n);
    atomic_store(here, 0);
    ok(threads_run(n, body), "%s, %d threads", what, n);
}

#endif
