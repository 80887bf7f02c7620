/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Handling of failures on the monitor's thread: writes flight recorders, then
 * ends the process if the settings say so.
 */
#include "world/world.h"

#include <limits.h>
#include <stdlib.h>
#include <unistd.h>

#define FAILED "a group failed" /* reason in a rank's own record */

/* Returns the dump flags for records written after a failure. */
static uint32_t find_flags(const struct symmcoll_world *world)
{
    return world->config->trace_only_active ? SYMMCOLL_TRACE_ONLY_ACTIVE : 0;
}

/* Writes a rank's record to its usual path (out, PATH_MAX bytes). */
static symmcoll_status_t write_for(
    const struct symmcoll_world *world, int rank, const char *why, char *path)
{
    symmcoll_status_t status = symc_trace_path(
        world->config, world->job, world->name, rank, path, PATH_MAX);

    if (status != SYMMCOLL_OK)
        return status;
    return symc_world_dump(world, rank, path, find_flags(world), why, NULL);
}

/* Writes a rank's record unless that has been done.  Returns whether it was
 * written now. */
static bool dump_for(struct symmcoll_world *world, int rank, const char *why)
{
    struct symc_block *block = world->peers[rank].view.block;
    char path[PATH_MAX];
    symmcoll_status_t status;

    if (block == NULL || atomic_exchange(&block->dumped, 1) != 0)
        return false;
    status = write_for(world, rank, why, path);
    symc_logf(&world->log, SYMC_LOG_WARN, "%s: flight recorder of rank %d: %s",
        why, rank, status == SYMMCOLL_OK ? path : symmcoll_last_error());
    return status == SYMMCOLL_OK;
}

static bool wants_dumps(const struct symmcoll_world *world)
{
    return world->config->trace_dump_on_error && world->trace.capacity > 0;
}

/*
 * Writes the records of dead ranks, unless a launcher does.  Any surviving rank
 * writes them once its own is written, for all the dead, because the rank about
 * to write for the first may be among the last.
 */
void symc_world_dump_dead(struct symmcoll_world *world)
{
    if (!wants_dumps(world) || world->rendezvous.server[0] != '\0')
        return;
    for (int r = 0; r < world->size; r++) {
        if (world->monitor.dead[r])
            (void)dump_for(world, r, "the rank died");
    }
}

/* Lists the ranks that this rank's failed groups were missing. */
static void list_the_stuck(struct symmcoll_world *world, bool *stuck)
{
    pthread_mutex_lock(&world->lock);
    for (struct symc_members *members = world->members; members != NULL;
         members = members->next) {
        const struct symc_failure *record = &members->own;

        if (atomic_load(&members->stopped) == 0 ||
            symc_members_was_late(members))
            continue;
        for (int r = 0; r < members->size && r < SYMC_FAILURE_RANKS; r++) {
            if (symc_failure_is_late(record, r))
                stuck[members->global[r]] = true;
        }
    }
    pthread_mutex_unlock(&world->lock);
}

/* Writes the records of ranks that were missing in a timeout and do not write
 * themselves; a rank that arrives writes its own, or the launcher does when it
 * ends them. */
void symc_world_dump_stuck(struct symmcoll_world *world)
{
    bool *stuck;

    if (!wants_dumps(world) || world->rendezvous.server[0] != '\0')
        return;
    stuck = symc_alloc((size_t)world->size, sizeof(*stuck));
    if (stuck == NULL)
        return;
    list_the_stuck(world, stuck);
    for (int r = 0; r < world->size; r++) {
        if (stuck[r])
            (void)dump_for(world, r, "the rank did not come");
    }
    free(stuck);
}

static bool are_over(struct symmcoll_world *world)
{
    bool over = true;

    pthread_mutex_lock(&world->lock);
    for (struct symc_members *members = world->members; members != NULL;
         members = members->next)
        over =
            over && (atomic_load(&members->stopped) == 0 ||
                        members->is_over == NULL || members->is_over(members));
    pthread_mutex_unlock(&world->lock);
    return over;
}

/* Waits until the works of failed groups and their callbacks have ended, at
 * most timeouts.finalize. */
static void await_works(struct symmcoll_world *world)
{
    int64_t until =
        symc_deadline_ns(symc_now_ns(), world->config->timeouts_finalize);

    while (symc_now_ns() < until) {
        bool over = are_over(world);

        if (world->origin->drain_callbacks(
                world->origin, symc_now_ns() + SYMC_NS_PER_S / 100) &&
            over)
            return;
        atomic_fetch_add_explicit(
            &world->monitor.beats, 1, memory_order_relaxed);
        usleep(1000);
    }
}

/* Ends the process after a failure if errors.async_handling says so. */
static void end_process(struct symmcoll_world *world)
{
    int64_t mode = world->config->errors_async_handling;

    if (mode != SYMC_ASYNC_TEAR_DOWN && mode != SYMC_ASYNC_SKIP_CLEAN_UP)
        return;
    if (mode == SYMC_ASYNC_TEAR_DOWN)
        await_works(world);
    symc_world_dump_stuck(world);
    symc_logf(&world->log, SYMC_LOG_ERROR,
        "a group failed and errors.async_handling is %d: the process ends",
        (int)mode);
    abort();
}

/* Writes the record after failures, and schedules those of missing ranks. */
static void write_failures(struct symmcoll_world *world, int64_t *stuck_at)
{
    struct symc_monitor *monitor = &world->monitor;
    bool written = wants_dumps(world) && dump_for(world, world->rank, FAILED);

    symc_world_dump_dead(world);
    *stuck_at = symc_now_ns() + world->config->trace_dump_grace / 2;
    if (written && atomic_load(&monitor->stopping) == 0)
        symc_world_query_ras(world, find_flags(world), FAILED);
}

/* Writes the records of raised failures.  Once all are written, ends the
 * process if errors.async_handling says so. */
void symc_world_handle_failures(struct symmcoll_world *world, int64_t *stuck_at)
{
    struct symc_monitor *monitor = &world->monitor;
    uint32_t due = atomic_load(&monitor->dumps_due);

    if (due != monitor->dumps_seen) {
        monitor->dumps_seen = due;
        write_failures(world, stuck_at);
    }
    if (symc_world_queries_ras(world, false) ||
        monitor->dumps_seen == atomic_load(&monitor->dumps_done))
        return;
    atomic_store(&monitor->dumps_done, monitor->dumps_seen);
    symc_word_wake(&monitor->dumps_done);
    end_process(world);
}
