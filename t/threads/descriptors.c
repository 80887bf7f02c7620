/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Tests threads as ranks in a process with too few descriptors: any failed
 * open ends the run at once, with the limit.
 */
#include "t/tap.h"

#include <symmcoll.h>
#include <symmcoll/threads.h>

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#define RANKS 6
#define MOST 100 /* descriptors of one run */
/* The bound of one run, on a busy machine; less than timeouts.init. */
#define MAX_SECONDS 60

static symmcoll_status_t join_all(struct symmcoll_world *world, void *arg)
{
    (void)arg;
    return symmcoll_barrier(symmcoll_world_group(world), NULL, NULL);
}

static double now(void)
{
    struct timespec time;

    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + (double)time.tv_nsec / 1e9;
}

/* Runs with `more` more descriptors than are open. Checks that the run
 * succeeds, or fails with the limit. */
static bool run_with(int more, bool *succeeds)
{
    struct symmcoll_threads_args args = SYMMCOLL_THREADS_ARGS_INIT;
    struct rlimit before, limit;
    double began = now();
    int lowest = dup(0);
    symmcoll_status_t status;
    bool right;

    close(lowest);
    getrlimit(RLIMIT_NOFILE, &before);
    limit = before;
    limit.rlim_cur = (rlim_t)lowest + (rlim_t)more;
    setrlimit(RLIMIT_NOFILE, &limit);
    status = symmcoll_threads_run(RANKS, join_all, NULL, &args);
    setrlimit(RLIMIT_NOFILE, &before);
    *succeeds = status == SYMMCOLL_OK;
    right = *succeeds || (status == SYMMCOLL_ERR_SYSTEM &&
                             strstr(symmcoll_last_error(), "RLIMIT_NOFILE is"));
    if (!right || now() - began > MAX_SECONDS)
        diag("%d descriptors: %s after %.1f s: %s", more,
            symmcoll_status_name(status), now() - began, symmcoll_last_error());
    return right && now() - began <= MAX_SECONDS;
}

int main(void)
{
    bool right = true, succeeds = false;
    int more = 0;

    alarm(1500);
    setenv("SYMMCOLL_TIMEOUTS_INIT", "300s", 1);
    setenv("SYMMCOLL_TRACE_DUMP_ON_ERROR", "off", 1);
    plan(2);
    while (more < MOST && !succeeds && right)
        right = run_with(more++, &succeeds);
    ok(right, "a run with too few descriptors ends at once, with the limit");
    ok(succeeds, "with enough of them it succeeds (%d)", more - 1);
    return done_testing();
}
