/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Measures how long backward takes.  In host memory the host's clock measures it.  On a
 * device calls return before the device has executed what they enqueue, so events in the
 * stream mark begin and end.  They are read when the device has passed them; until then
 * no other backward is measured.  stats.c sums the measured times.
 */
#include "ddp/reducer.h"

#define FIRST_PASSES 10 /* these all enter the sums */
#define DEFAULT_RATE 100

symmcoll_status_t symc_times_open(
    const struct symmcoll_reducer *reducer, int rate)
{
    if (rate < 0)
        return symc_fail(SYMMCOLL_ERR_INVALID,
            "reducer: stats_rate: expected 1 or more, or 0 for %d, found %d",
            DEFAULT_RATE, rate);
    reducer->timing->rate = rate > 0 ? (uint64_t)rate : DEFAULT_RATE;
    return SYMMCOLL_OK;
}

/* Adds the times of a pass to the sums, if it counts. */
static void add_times(struct symc_timing *timing, int64_t backward_ns,
    int64_t comm_ns, int64_t overlap_ns)
{
    struct symc_sums *sums = &timing->sums;

    timing->npasses++;
    if (timing->npasses > FIRST_PASSES && timing->npasses % timing->rate != 0)
        return;
    if (overlap_ns > comm_ns)
        overlap_ns = comm_ns;
    sums->measured++;
    sums->backward_ns += backward_ns;
    sums->comm_ns += comm_ns;
    sums->overlap_ns += overlap_ns > 0 ? overlap_ns : 0;
}

static void set_times(const struct symmcoll_reducer *reducer,
    int64_t backward_ns, int64_t comm_ns, int64_t exposed_ns,
    int64_t overlap_ns)
{
    const double ns = 1e-9;

    reducer->timing->times = (struct symmcoll_reducer_times){
        .size = sizeof(struct symmcoll_reducer_times),
        .backward = ns * (double)backward_ns,
        .comm = ns * (double)comm_ns,
        .exposed = ns * (double)exposed_ns,
    };
    add_times(reducer->timing, backward_ns, comm_ns, overlap_ns);
}

void symc_times_drop(const struct symmcoll_reducer *reducer)
{
    struct symc_timing *timing = reducer->timing;

    for (int i = 0; i < SYMC_MOMENTS; i++) {
        if (timing->marks[i] != NULL)
            symc_site_unmark(reducer->site, timing->marks[i]);
        timing->marks[i] = NULL;
    }
    timing->measures = timing->pending = false;
}

/* Reads the times of the measured backward.  Returns IN_PROGRESS if the device
 * has not finished it. */
static symmcoll_status_t read_marks(const struct symmcoll_reducer *reducer)
{
    void *const *marks = reducer->timing->marks;
    int64_t backward = 0, comm = 0, exposed = 0;
    symmcoll_status_t status = symc_site_elapsed(reducer->site,
        marks[SYMC_MOMENT_LAUNCH], marks[SYMC_MOMENT_END], &comm);

    if (status != SYMMCOLL_OK)
        return status;
    status = symc_site_elapsed(reducer->site, marks[SYMC_MOMENT_BEGIN],
        marks[SYMC_MOMENT_FINISH], &backward);
    if (status != SYMMCOLL_OK)
        return status;
    status = symc_site_elapsed(reducer->site, marks[SYMC_MOMENT_FINISH],
        marks[SYMC_MOMENT_END], &exposed);
    if (status != SYMMCOLL_OK)
        return status;
    set_times(reducer, backward, comm, exposed, comm - exposed);
    return SYMMCOLL_OK;
}

void symc_times_take(const struct symmcoll_reducer *reducer)
{
    if (!reducer->timing->pending ||
        read_marks(reducer) == SYMMCOLL_IN_PROGRESS)
        return;
    symc_times_drop(reducer);
}

/* Marks a moment on the device's stream.  If that fails, the backward is not
 * measured, which is no error. */
static void mark(
    const struct symmcoll_reducer *reducer, enum symc_moment moment)
{
    struct symc_timing *timing = reducer->timing;

    if (moment == SYMC_MOMENT_BEGIN) {
        symc_times_take(reducer);
        if (!timing->pending)
            symc_times_drop(reducer); /* the backward has failed */
        timing->measures = !timing->pending;
    }
    if (!timing->measures)
        return;
    (void)symc_site_mark(reducer->site, &timing->marks[moment]);
    if (timing->marks[moment] == NULL)
        symc_times_drop(reducer);
    else if (moment == SYMC_MOMENT_END) {
        timing->measures = false;
        timing->pending = true;
    }
}

void symc_times_note(
    const struct symmcoll_reducer *reducer, enum symc_moment moment)
{
    int64_t *ns = reducer->timing->ns;

    if (reducer->site != NULL) {
        mark(reducer, moment);
        return;
    }
    ns[moment] = symc_now_ns();
    if (moment == SYMC_MOMENT_END)
        set_times(reducer, ns[SYMC_MOMENT_FINISH] - ns[SYMC_MOMENT_BEGIN],
            reducer->done_ns - ns[SYMC_MOMENT_LAUNCH],
            ns[SYMC_MOMENT_END] - ns[SYMC_MOMENT_FINISH],
            ns[SYMC_MOMENT_FINISH] - ns[SYMC_MOMENT_LAUNCH]);
}
