/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Tests deadlines, and the processor's counter against the wall clock. No time
 * is measured here: the clocks are compared with readings before and after.
 */
#include "../tap.h"

#include "base/base.h"

#include <math.h>

/* Checks a deadline against the clock before and after its creation. */
static int deadline_is_between(double seconds, int64_t ns)
{
    int64_t before = symc_now_ns();
    int64_t deadline =
        symc_deadline_ns(symc_now_ns(), symc_seconds_ns(seconds));
    int64_t after = symc_now_ns();

    return deadline >= before + ns && deadline <= after + ns;
}

static int monotonic_clock_does_not_go_back(void)
{
    int64_t last = symc_now_ns();

    for (int i = 0; i < 10000; i++) {
        int64_t now = symc_now_ns();

        if (now < last)
            return 0;
        last = now;
    }
    return 1;
}

static int rate_converts(void)
{
    const struct symc_tick_rate rate = {1000, 5000000, 0.5};

    return symc_tick_wall_ns(&rate, 1000) == 5000000 &&
           symc_tick_wall_ns(&rate, 3000) == 5001000 &&
           symc_tick_wall_ns(&rate, 0) == 4999500;
}

/* Checks rates from a damaged record. */
static int corrupt_rate_is_no_time(void)
{
    const struct symc_tick_rate late = {0, INT64_MAX, 1};
    const struct symc_tick_rate early = {UINT64_MAX / 2, INT64_MIN, 1};
    const struct symc_tick_rate steep = {0, 0, 1e300};
    /* 2^63 ns at tick 2^20. */
    const struct symc_tick_rate large = {0, 0, 0x1p43};
    const struct symc_tick_rate none = {0, 5, NAN};

    return symc_tick_wall_ns(&late, 1000) == 0 &&
           symc_tick_wall_ns(&early, 1000) == 0 &&
           symc_tick_wall_ns(&steep, 1000) == 0 &&
           symc_tick_wall_ns(&large, 1 << 20) == 0 &&
           symc_tick_wall_ns(&large, (1 << 20) - 1) > 0 &&
           symc_tick_wall_ns(&none, 1000) == 0;
}

/* Checks that the counter read now shows a wall time within the reads around
 * it; a thousandth of the distance to the measurement is allowed as its
 * error. */
static int counter_agrees_with_wall_clock(void)
{
    struct symc_tick_rate rate;
    int64_t before;
    int64_t found;
    int64_t after;
    int64_t slack;

    symc_tick_rate_measure(&rate);
    before = symc_wall_ns();
    found = symc_tick_wall_ns(&rate, symc_ticks());
    after = symc_wall_ns();
    slack = (after - rate.wall_ns) / 1000 + 10000;
    diag("%.6f ns a tick; wall time %lld ns after the first read of %lld",
        rate.ns_per_tick, (long long)(found - before),
        (long long)(after - before));
    return rate.ns_per_tick > 0 && found >= before - slack &&
           found <= after + slack;
}

static int second_measurement_agrees(void)
{
    struct symc_tick_rate first;
    struct symc_tick_rate second;

    symc_tick_rate_measure(&first);
    symc_tick_rate_measure(&second);
    return second.ticks0 > first.ticks0 &&
           fabs(second.ns_per_tick / first.ns_per_tick - 1) < 1e-3;
}

int main(void)
{
    plan(12);
    ok(monotonic_clock_does_not_go_back(), "the clock does not go back");
    ok(deadline_is_between(0, 0), "no time is now");
    ok(deadline_is_between(2.5, 2500000000), "2.5 s are 2.5 s from now");
    ok(deadline_is_between(-1, 0), "a negative time is now");
    ok(deadline_is_between(NAN, 0), "what is no number is now");
    ok(symc_seconds_ns(INFINITY) == SYMC_NEVER &&
            symc_deadline_ns(symc_now_ns(), SYMC_NEVER) == SYMC_NEVER,
        "infinity never comes");
    ok(symc_seconds_ns(1e12) == SYMC_NEVER &&
            symc_deadline_ns(symc_now_ns(), SYMC_NEVER - 1) == SYMC_NEVER,
        "nor does what would overflow");
    ok(symc_seconds_ns(1e-300) == 1, "the shortest time is not none");
    ok(rate_converts(),
        "ticks before and after a measurement have a wall time");
    ok(corrupt_rate_is_no_time(), "what no clock can show is no time");
    ok(counter_agrees_with_wall_clock(), "the counter tells wall time");
    ok(second_measurement_agrees(), "the counter's rate is a constant");
    return done_testing();
}
