/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The monitor thread holds this rank's liveness word, checks its peers' words
 * every few milliseconds, fails the groups of dead ranks, and writes flight
 * recorders.  The heartbeat thread watches the monitor and does nothing that
 * could hang.
 */
#include "base/thread.h"
#include "world/world.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Wait for the exit status of a dead rank. */
#define EXIT_STATUS_WAIT_NS (INT64_C(50) * 1000 * 1000)

/* Time for the monitor to report a death, including that wait. */
#define DEATH_WAIT_NS (4 * EXIT_STATUS_WAIT_NS)

/* Approximate time to check one peer; see find_period(). */
#define LOOK_NS INT64_C(150)
#define SHARE 20

#define PULSE_NS (INT64_C(200) * 1000 * 1000) /* period of the heartbeat */

/* ---- deaths ---- */

/* Finds peers that have died since the last check, by their liveness words,
 * which show it first, and their processes. */
static bool find_dead(struct symmcoll_world *world, bool *found)
{
    bool any = false;

    if (found == NULL) /* the caller had no memory for the array */
        return false;
    symc_liveness_find_ended(
        world->peers, world->size, world->monitor.polled, found);
    for (int r = 0; r < world->size; r++) {
        enum symc_liveness_state state = symc_liveness_state(&world->peers[r]);

        found[r] = r != world->rank && !world->monitor.dead[r] &&
                   (state == SYMC_LIVENESS_DEAD ||
                       (state == SYMC_LIVENESS_ALIVE && found[r]));
        any = any || found[r];
    }
    return any;
}

/* Formats "rank 2 (pid 123) killed by SIGKILL in all_reduce seq 17 of group 0".
 * placed: with the position, which is omitted if the cause is known. */
static void describe_dead(const struct symc_members *members, int member,
    bool placed, char *buffer, size_t nbytes)
{
    const struct symmcoll_world *world = members->world;
    int rank = members->global[member];
    char end[96], position[SYMC_TRACE_POSITION] = "", name[SYMC_RANK_TEXT];
    size_t ring_nbytes;
    const struct symc_trace_ring *ring =
        symc_world_ring(world, rank, &ring_nbytes);

    symc_liveness_format_end(&world->peers[rank], end, sizeof(end));
    if (placed)
        symc_trace_position(
            ring, ring_nbytes, NULL, position, sizeof(position));
    snprintf(buffer, nbytes, "%s %s%s%s",
        symc_format_rank(&members->ranks, member, world->peers[rank].pid, name),
        end, placed ? " " : "", position);
}

/* Waits a moment until the parents of dead ranks have stored their exit
 * status. */
static void await_exit_status(
    const struct symmcoll_world *world, const bool *dead, int64_t until)
{
    char ignored[96];

    for (;;) {
        bool all = true;

        for (int r = 0; r < world->size; r++)
            all = all && (!dead[r] || symc_liveness_format_end(&world->peers[r],
                                          ignored, sizeof(ignored)));
        if (all || symc_now_ns() >= until)
            return;
        usleep(1000);
    }
}

/* Returns whether a rank has ended because an operation failed on all ranks of
 * a group, and copies its note; false if it was killed in a later operation.
 * Without a note, a rank that exited by itself has most likely done so because
 * one of its groups failed. */
static bool find_reason(const struct symmcoll_world *world, int rank,
    const struct symc_failure *published, struct symc_failure *note)
{
    char end[96], position[SYMC_TRACE_POSITION];
    size_t nbytes;
    const struct symc_trace_ring *ring = symc_world_ring(world, rank, &nbytes);

    symc_liveness_format_end(&world->peers[rank], end, sizeof(end));
    if (symc_failure_read_note(published, note)) {
        symc_trace_position(ring, nbytes, NULL, position, sizeof(position));
        return strncmp(end, "killed by ", 10) != 0 ||
               strncmp(position, "in ", 3) != 0;
    }
    return (strncmp(end, "exited ", 7) == 0 ||
               strcmp(end, "killed by SIGABRT") == 0 ||
               symc_liveness_has_left(world->peers[rank].view.block)) &&
           symc_failure_find_cause(world, rank, note);
}

/* Fails a group with dead members.  A failure that a dead rank has published is
 * named as the reason, because ranks exit after a failed operation. */
static void fail_group(struct symc_members *members, const bool *dead)
{
    char text[SYMC_FAILURE_TEXT] = "", reason[SYMC_FAILURE_TEXT + 8] = "";
    bool ranks[SYMC_RANKS_MAX];
    struct symc_failure note;
    int64_t earliest = INT64_MAX;
    size_t used = 0;

    if (symc_members_failed(members))
        return;
    /* Two passes: ranks that exited after a failed operation come last, with
     * one common reason. */
    for (int i = 0; i < 2 * members->size && used < sizeof(text) - 1; i++) {
        int r = i % members->size;
        char one[96 + SYMC_RANK_TEXT + SYMC_TRACE_POSITION];
        bool noted;

        if (!dead[members->global[r]])
            continue;
        noted = find_reason(
            members->world, members->global[r], members->failures[r], &note);
        if (noted != (i >= members->size))
            continue;
        describe_dead(members, r, !noted, one, sizeof(one));
        used += (size_t)snprintf(text + used, sizeof(text) - used, "%s%s",
            used == 0 ? "" : "; ", one);
        if (noted && note.at_ns < earliest) {
            earliest = note.at_ns;
            snprintf(reason, sizeof(reason), " after %s", note.text);
        }
    }
    if (used == 0)
        return;
    for (int r = 0; r < members->size; r++)
        ranks[r] = dead[members->global[r]];
    symc_members_raise(
        members, SYMMCOLL_ERR_PEER, NULL, ranks, "%s%s", text, reason);
}

void symc_monitor_describe_end(
    const struct symmcoll_world *world, int rank, char *buffer, size_t nbytes)
{
    const struct symc_peer *peer = &world->peers[rank];
    int64_t until = symc_now_ns() + EXIT_STATUS_WAIT_NS;
    char end[96];
    struct symc_failure note;
    bool noted;

    if (symc_liveness_state(peer) == SYMC_LIVENESS_LEFT) {
        snprintf(end, sizeof(end), "has %s", symc_liveness_name_left(peer));
    } else {
        while (!symc_liveness_format_end(peer, end, sizeof(end)) &&
               symc_now_ns() < until)
            usleep(1000);
    }
    noted = find_reason(world, rank, NULL, &note);
    snprintf(buffer, nbytes, "%s%s%s", end, noted ? " after " : "",
        noted ? note.text : "");
}

static bool has_dead(const struct symc_members *members)
{
    const struct symmcoll_world *world = members->world;
    bool dead = false;

    for (int r = 0; r < members->size; r++)
        dead = dead ||
               (r != members->rank &&
                   symc_liveness_state(&world->peers[members->global[r]]) ==
                       SYMC_LIVENESS_DEAD);
    return dead;
}

bool symc_monitor_reports_death(struct symc_members *members)
{
    struct symmcoll_world *world = members->world;
    int64_t until = symc_now_ns() + DEATH_WAIT_NS;

    if (has_dead(members))
        symc_world_alarm(world);
    while (!symc_members_failed(members)) {
        if (!has_dead(members) || symc_now_ns() >= until)
            return false;
        usleep(500);
    }
    return true;
}

/* Fails the present groups; groups listed later are checked when they are
 * listed. */
static void fail_groups_of(struct symmcoll_world *world, const bool *dead)
{
    pthread_mutex_lock(&world->lock);
    for (int r = 0; r < world->size; r++)
        world->monitor.dead[r] = world->monitor.dead[r] || dead[r];
    for (struct symc_members *members = world->members; members != NULL;
         members = members->next)
        fail_group(members, dead);
    pthread_mutex_unlock(&world->lock);
}

void symc_monitor_enlist(
    struct symmcoll_world *world, struct symc_members *members)
{
    fail_group(members, world->monitor.dead);
}

/*
 * Returns whether a rank has ended in order: with status 0, with no operation
 * in flight, and without a failure.  Only an operation that needs it misses it.
 */
static bool has_ended_in_order(const struct symmcoll_world *world, int rank)
{
    const struct symc_peer *peer = &world->peers[rank];
    const struct symc_trace_ring *ring;
    size_t nbytes;

    if (!symc_liveness_has_exited_0(peer) ||
        atomic_load(&peer->view.block->failures) > 0)
        return false;
    ring = symc_world_ring(world, rank, &nbytes);
    return symc_trace_is_idle(ring, nbytes);
}

/* Removes ranks that have ended in order from the dead, and wakes this rank's
 * threads that may be waiting for them. */
static void set_ended(struct symmcoll_world *world, bool *dead)
{
    bool any = false;

    for (int r = 0; r < world->size; r++) {
        if (!dead[r] || !has_ended_in_order(world, r))
            continue;
        symc_liveness_set_ended(&world->peers[r]);
        dead[r] = false;
        any = true;
    }
    if (!any)
        return;
    pthread_mutex_lock(&world->lock);
    for (struct symc_members *members = world->members; members != NULL;
         members = members->next)
        symc_doorbell_wake(members->doorbells[members->rank]);
    symc_doorbell_wake(symc_block_doorbell(world->own.block));
    pthread_mutex_unlock(&world->lock);
}

static void report_deaths(struct symmcoll_world *world, bool *dead)
{
    bool *later = symc_alloc((size_t)world->size, sizeof(bool));
    int64_t until = symc_now_ns() + EXIT_STATUS_WAIT_NS;

    await_exit_status(world, dead, until);
    /* Other ranks may have died at the same time: report them together. */
    if (find_dead(world, later)) {
        for (int r = 0; r < world->size; r++)
            dead[r] = dead[r] || later[r];
        await_exit_status(world, dead, until);
    }
    free(later);
    set_ended(world, dead);
    fail_groups_of(world, dead);
}

/* ---- failures of live ranks ---- */

/* Returns whether any rank has failed a group since the last check: one load
 * per rank, whatever the number of groups. */
static bool has_news(struct symmcoll_world *world)
{
    bool news = false;

    for (int r = 0; r < world->size; r++) {
        const struct symc_block *block = world->peers[r].view.block;
        uint32_t failures;

        if (block == NULL)
            continue; /* a peer on another machine */
        failures = atomic_load_explicit(&block->failures, memory_order_acquire);
        news = news || failures != world->monitor.failures[r];
        world->monitor.failures[r] = failures;
    }
    return news;
}

/* Adopts failures of other ranks.  Groups listed later are checked when they
 * are listed. */
static void look_at_failures(struct symmcoll_world *world)
{
    if (!has_news(world))
        return;
    pthread_mutex_lock(&world->lock);
    for (struct symc_members *members = world->members; members != NULL;
         members = members->next)
        symc_members_failed(members);
    pthread_mutex_unlock(&world->lock);
}

/* ---- threads ---- */

/* Returns the time between two checks of the peers: host.watch, or more if the
 * monitors of all ranks together would take more than 1/SHARE of the
 * processors, which joining ranks need. */
static int64_t find_period(const struct symmcoll_world *world)
{
    int64_t processors = sysconf(_SC_NPROCESSORS_ONLN);
    int64_t looks = (int64_t)world->size * world->size;
    int64_t least = looks * LOOK_NS * SHARE / (processors > 0 ? processors : 1);

    return least > world->config->host_watch ? least
                                             : world->config->host_watch;
}

static void watch(struct symmcoll_world *world, bool *dead)
{
    struct symc_monitor *monitor = &world->monitor;
    int64_t period = find_period(world), stuck_at = 0;

    while (atomic_load(&monitor->stopping) == 0) {
        uint32_t alarm = atomic_load(&monitor->alarm);

        atomic_fetch_add_explicit(&monitor->beats, 1, memory_order_relaxed);
        bool died = find_dead(world, dead);
        if (died)
            report_deaths(world, dead);
        symc_world_end_orphan(world);
        look_at_failures(world);
        symc_world_handle_failures(world, &stuck_at);
        symc_world_read_pipe(world);
        if (died)
            symc_world_dump_dead(world);
        if (stuck_at != 0 && symc_now_ns() >= stuck_at) {
            stuck_at = 0;
            symc_world_dump_stuck(world);
        }
        symc_word_sleep(&monitor->alarm, alarm, period);
    }
    /* Writes the record of the last failure, also for ranks that cannot write
     * it. */
    (void)symc_world_queries_ras(world, true);
    symc_world_handle_failures(world, &stuck_at);
    if (stuck_at != 0)
        symc_world_dump_stuck(world);
}

static void *run_monitor(void *arg)
{
    struct symmcoll_world *world = arg;
    struct symc_monitor *monitor = &world->monitor;
    bool *dead = symc_alloc((size_t)world->size, sizeof(bool));
    symmcoll_status_t status;

    symc_thread_be_prompt();
    status = dead == NULL
                 ? SYMMCOLL_ERR_NO_MEMORY
                 : symc_liveness_acquire(&monitor->liveness, world->own.block);
    symc_error_keep(&monitor->error, status);
    sem_post(&monitor->ready);
    if (status == SYMMCOLL_OK) {
        watch(world, dead);
        symc_liveness_release(&monitor->liveness, monitor->orderly);
    }
    free(dead);
    return NULL;
}

/* Reports a monitor that has made no progress for timeouts.heartbeat. */
static void report_stuck_monitor(struct symmcoll_world *world)
{
    symc_logf(&world->log, SYMC_LOG_ERROR,
        "the monitor has not moved for %lld s: peers' deaths are not seen%s",
        (long long)(world->config->timeouts_heartbeat / SYMC_NS_PER_S),
        world->config->errors_kill_process ? "; the process ends" : "");
    if (world->config->errors_kill_process)
        abort();
}

static void *run_heartbeat(void *arg)
{
    struct symmcoll_world *world = arg;
    struct symc_monitor *monitor = &world->monitor;
    uint64_t beats = 0;
    int64_t moved = symc_now_ns();
    /* reported at the second time: both threads are late after a stop and
     * continue */
    bool late = false;

    while (atomic_load(&monitor->stopping) == 0) {
        uint64_t now_beats = atomic_load(&monitor->beats);
        int64_t now = symc_now_ns();

        if (now_beats != beats) {
            beats = now_beats;
            moved = now;
            late = false;
        } else if (now - moved >= world->config->timeouts_heartbeat) {
            if (late)
                report_stuck_monitor(world);
            moved = late ? now : moved;
            late = !late;
        }
        symc_word_sleep(&monitor->stopping, 0, PULSE_NS);
    }
    return NULL;
}

static void stop_thread(struct symmcoll_world *world, pthread_t thread)
{
    struct symc_monitor *monitor = &world->monitor;

    atomic_store(&monitor->stopping, 1);
    symc_word_wake(&monitor->stopping);
    symc_world_alarm(world);
    pthread_join(thread, NULL);
}

static void free_tables(struct symc_monitor *monitor)
{
    free(monitor->dead);
    free(monitor->polled);
    free(monitor->failures);
}

symmcoll_status_t symc_monitor_start(struct symmcoll_world *world)
{
    struct symc_monitor *monitor = &world->monitor;
    symmcoll_status_t status;

    monitor->dead = symc_alloc((size_t)world->size, sizeof(bool));
    monitor->polled = symc_alloc((size_t)world->size, sizeof(*monitor->polled));
    monitor->failures =
        symc_alloc((size_t)world->size, sizeof(*monitor->failures));
    if (monitor->dead == NULL || monitor->polled == NULL ||
        monitor->failures == NULL) {
        free_tables(monitor);
        return SYMMCOLL_ERR_NO_MEMORY;
    }
    sem_init(&monitor->ready, 0, 0);
    symc_world_open_pipe(world);
    status = symc_thread_start(
        &monitor->thread, "symc-monitor", SYMC_STACK_SMALL, run_monitor, world);
    if (status != SYMMCOLL_OK)
        goto free_tables;
    while (sem_wait(&monitor->ready) != 0 && errno == EINTR)
        ;
    status = symc_error_return(&monitor->error);
    if (status == SYMMCOLL_OK)
        status = symc_thread_start(&monitor->heartbeat, "symc-heartbeat",
            SYMC_STACK_SMALL, run_heartbeat, world);
    if (status == SYMMCOLL_OK)
        return SYMMCOLL_OK;
    stop_thread(world, monitor->thread);

free_tables:
    symc_world_close_pipe(world);
    sem_destroy(&monitor->ready);
    free_tables(monitor);
    return status;
}

void symc_monitor_stop(struct symmcoll_world *world, bool orderly)
{
    struct symc_monitor *monitor = &world->monitor;

    monitor->orderly = orderly;
    stop_thread(world, monitor->thread);
    pthread_join(monitor->heartbeat, NULL);
    symc_world_close_pipe(world);
    sem_destroy(&monitor->ready);
    free_tables(monitor);
}
