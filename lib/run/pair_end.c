/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Waits for the sends and receives of a group: by works, and by its release.
 */
#include "run/runner.h"

/* ---- functions for the queue ---- */

void symc_run_await_pairs(
    void *context, const _Atomic uint64_t *word, int64_t until_ns)
{
    struct symc_runner *runner = context;
    struct symc_pairs *pairs = runner->world->pairs;

    if (until_ns == 0)
        symc_pairs_glance(pairs);
    else
        symc_pairs_await(pairs, word, until_ns);
}

void symc_run_wake_pairs(void *context)
{
    struct symc_runner *runner = context;

    symc_pairs_wake(runner->world->pairs);
}

/* ---- release ---- */

bool symc_run_drain_pairs(struct symc_runner *runner, int64_t deadline_ns)
{
    struct symc_pairs *pairs = runner->world->pairs;

    while (atomic_load(&runner->paired) > 0) {
        static const _Atomic uint64_t never;
        int64_t now = symc_now_ns(), nap = now + SYMC_NS_PER_S / 1000;

        if (now >= deadline_ns)
            return false;
        symc_pairs_await(pairs, &never, nap);
    }
    return true;
}
