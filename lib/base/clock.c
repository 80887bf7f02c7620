/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Clocks: monotonic and wall time in nanoseconds, deadlines, and the relation
 * of the processor's counter to them.
 */
#include "base/base.h"

#include <math.h>
#include <stdatomic.h>
#include <string.h>
#include <time.h>

static int64_t read_clock(clockid_t clock)
{
    struct timespec now;

    (void)clock_gettime(clock, &now); /* these clocks cannot fail */
    return (int64_t)now.tv_sec * SYMC_NS_PER_S + now.tv_nsec;
}

int64_t symc_now_ns(void)
{
    return read_clock(CLOCK_MONOTONIC);
}

int64_t symc_wall_ns(void)
{
    return read_clock(CLOCK_REALTIME);
}

int64_t symc_seconds_ns(double seconds)
{
    double ns = seconds * (double)SYMC_NS_PER_S;

    if (!(ns > 0)) /* NaN too */
        return 0;
    if (ns >= (double)SYMC_NEVER)
        return SYMC_NEVER;
    return ns < 1 ? 1 : (int64_t)ns;
}

symmcoll_status_t symc_timeout_read(
    const char *where, double seconds, int64_t setting_ns, int64_t *ns)
{
    if (isnan(seconds))
        return symc_fail(SYMMCOLL_ERR_INVALID,
            "%s: expected a timeout in seconds, found NaN", where);
    *ns = seconds < 0 ? setting_ns : symc_seconds_ns(seconds);
    return SYMMCOLL_OK;
}

/* One moment on two clocks. */
struct moment {
    uint64_t ticks;
    int64_t ns;
};

/*
 * Reads both clocks several times and keeps the reading with the least time
 * between its two readings of the counter: the others were interrupted.
 */
static struct moment take_moment(clockid_t clock)
{
    struct moment best = {0, 0};
    uint64_t least = UINT64_MAX;

    for (int i = 0; i < 16; i++) {
        uint64_t before = symc_ticks();
        int64_t ns = read_clock(clock);
        uint64_t width = symc_ticks() - before;

        if (width < least) {
            least = width;
            best.ticks = before + width / 2;
            best.ns = ns;
        }
    }
    return best;
}

#if defined(__aarch64__)

/* The architecture reports the rate of its counter. */
static double find_ns_per_tick(void)
{
    uint64_t frequency;

    __asm__("mrs %0, cntfrq_el0" : "=r"(frequency));
    return (double)SYMC_NS_PER_S / (double)frequency;
}

#else

#define MEASURE_NS INT64_C(1000000)

static double measure_ns_per_tick(void)
{
    struct moment first = take_moment(CLOCK_MONOTONIC);
    struct timespec pause = {0, MEASURE_NS};
    struct moment second;

    /* An interrupted sleep is repeated.  Its length does not matter, as both
     * clocks measure the same interval. */
    do {
        (void)nanosleep(&pause, NULL);
        second = take_moment(CLOCK_MONOTONIC);
    } while (second.ns - first.ns < MEASURE_NS || second.ticks == first.ticks);
    return (double)(second.ns - first.ns) /
           (double)(second.ticks - first.ticks);
}

/*
 * Returns the counter's rate, which is constant on a machine and therefore
 * stored.  Threads that measure it at the same time find equally good values.
 */
static double find_ns_per_tick(void)
{
    static _Atomic uint64_t remembered; /* the bits of a double; 0: none */
    uint64_t bits = atomic_load_explicit(&remembered, memory_order_relaxed);
    double ns_per_tick;

    if (bits == 0) {
        ns_per_tick = measure_ns_per_tick();
        memcpy(&bits, &ns_per_tick, sizeof(bits));
        atomic_store_explicit(&remembered, bits, memory_order_relaxed);
    }
    memcpy(&ns_per_tick, &bits, sizeof(ns_per_tick));
    return ns_per_tick;
}

#endif

void symc_tick_rate_measure(struct symc_tick_rate *rate)
{
    struct moment now;

    rate->ns_per_tick = find_ns_per_tick();
    now = take_moment(CLOCK_REALTIME);
    rate->ticks0 = now.ticks;
    rate->wall_ns = now.ns;
}

int64_t symc_tick_wall_ns(const struct symc_tick_rate *rate, uint64_t ticks)
{
    /* Signed: records may be older than the rate's measurement. */
    int64_t elapsed = (int64_t)(ticks - rate->ticks0);

    double ns = (double)elapsed * rate->ns_per_tick;
    int64_t wall_ns;

    /* A rate may come from a corrupt record; such times are out of range. */
    if (!(ns > -(double)SYMC_NEVER && ns < (double)SYMC_NEVER) ||
        __builtin_add_overflow(rate->wall_ns, (int64_t)ns, &wall_ns))
        return 0;
    return wall_ns;
}
