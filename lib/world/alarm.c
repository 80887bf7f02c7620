/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Requests to the monitor: to check at once, and to write the recorder after a
 * failure, which callers wait for.
 */
#include "world/world.h"

#include <limits.h>
#include <linux/futex.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

void symc_word_sleep(_Atomic uint32_t *word, uint32_t value, int64_t ns)
{
    struct timespec time = {
        .tv_sec = ns / SYMC_NS_PER_S, .tv_nsec = ns % SYMC_NS_PER_S};

    syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, value, &time, NULL, 0);
}

void symc_word_wake(_Atomic uint32_t *word)
{
    syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, INT_MAX, NULL, NULL, 0);
}

void symc_world_alarm(struct symmcoll_world *world)
{
    struct symc_monitor *monitor = &world->monitor;

    atomic_fetch_add(&monitor->alarm, 1);
    symc_word_wake(&monitor->alarm);
}

void symc_world_expect_dump(struct symmcoll_world *world)
{
    atomic_fetch_add(&world->monitor.dumps_due, 1);
}

void symc_world_await_dump(struct symmcoll_world *world)
{
    struct symc_monitor *monitor = &world->monitor;
    int64_t until = symc_now_ns() + world->config->trace_dump_grace;
    uint32_t due = atomic_load(&monitor->dumps_due);

    for (;;) {
        uint32_t done = atomic_load(&monitor->dumps_done);
        int64_t left = until - symc_now_ns();

        if ((int32_t)(done - due) >= 0 || left <= 0)
            return;
        symc_word_sleep(&monitor->dumps_done, done, left);
    }
}
