/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The monitor: it owns this rank's liveness word, looks at its peers' every few
 * milliseconds, fails the groups of the dead, and writes flight recorders out.
 * The heartbeat: it watches the monitor, and does nothing that could hang.
 */
#include "base/thread.h"
#include "world/world.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* How long to wait for the exit status of a rank that died. */
#define EXIT_STATUS_WAIT_NS (INT64_C(50) * 1000 * 1000)

/* How long the monitor may take to tell of a death, that wait included. */
#define DEATH_WAIT_NS (4 * EXIT_STATUS_WAIT_NS)

/* A look at one peer takes about so long; see find_period(). */
#define LOOK_NS INT64_C(150)
#define SHARE 20

#define PULSE_NS (INT64_C(200) * 1000 * 1000) /* of the heartbeat */

/* ---- the dead ---- */

/* Look for peers who have died since the last time: by their words, which say
 * so early, and by their processes. */
static bool find_dead(struct symmcoll_world *world, bool *found)
{
    bool any = false;

    if (found == NULL) /* there was no memory for it */
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

/* "rank 2 (pid 123) killed by SIGKILL in all_reduce seq 17 of group 0"; without
 * its place where it is known why it ended. */
static void describe_dead(const struct symc_members *members, int member,
    bool placed, char *buffer, size_t nbytes)
{
    const struct symmcoll_world *world = members->world;
    int rank = members->global[member];
    char end[96], position[SYMC_TRACE_POSITION] = "", who[SYMC_RANK_TEXT];
    size_t ring_nbytes;
    const struct symc_trace_ring *ring =
        symc_world_ring(world, rank, &ring_nbytes);

    symc_liveness_format_end(&world->peers[rank], end, sizeof(end));
    if (placed)
        symc_trace_position(
            ring, ring_nbytes, NULL, position, sizeof(position));
    snprintf(buffer, nbytes, "%s %s%s%s",
        symc_format_rank(&members->ranks, member, world->peers[rank].pid, who),
        end, placed ? " " : "", position);
}

/* Wait a moment for whoever reaps the dead ranks to store their exit status. */
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

/* Returns whether a rank has ended because an operation failed on all ranks of a
 * group, of which it has published the note, and copies that: not where it was
 * killed in a later operation.  Without a note a rank that has ended of its own
 * accord has done so because one of its groups has failed, if one has. */
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

/* Fail a group where one of the dead is in it.  What a rank has found before
 * it died is the first reason: ranks end because an operation has failed. */
static void fail_group(struct symc_members *members, const bool *dead)
{
    char text[SYMC_FAILURE_TEXT] = "", reason[SYMC_FAILURE_TEXT + 8] = "";
    struct symc_failure note;
    int64_t earliest = INT64_MAX;
    size_t used = 0;

    if (symc_members_failed(members))
        return;
    /* Those last who have ended after an operation that failed, which is said
     * once. */
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
    if (used > 0)
        symc_members_raise(
            members, SYMMCOLL_ERR_PEER, NULL, NULL, "%s%s", text, reason);
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

bool symc_monitor_tells_death(struct symc_members *members)
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

/* Fail the present groups; later ones are checked for dead members when
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
 * Returns whether a rank has ended as one that needs nothing more of the others:
 * with status 0, with no operation in flight, and without a failure.  It is then
 * missed only by an operation that needs it.
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

/* Takes those that have ended in order from the dead, and wakes those of this
 * rank's threads that may wait for them. */
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
    /* Others may have died with them: name them together. */
    if (find_dead(world, later)) {
        for (int r = 0; r < world->size; r++)
            dead[r] = dead[r] || later[r];
        await_exit_status(world, dead, until);
    }
    free(later);
    set_ended(world, dead);
    fail_groups_of(world, dead);
}

/* ---- the living ---- */

/* Whether any rank has failed a group since the last time: one load a rank,
 * however many groups there are. */
static bool has_news(struct symmcoll_world *world)
{
    bool news = false;

    for (int r = 0; r < world->size; r++) {
        const struct symc_block *block = world->peers[r].view.block;
        uint32_t failures;

        if (block == NULL)
            continue; /* on another machine */
        failures = atomic_load_explicit(&block->failures, memory_order_acquire);
        news = news || failures != world->monitor.failures[r];
        world->monitor.failures[r] = failures;
    }
    return news;
}

/* Adopt what other ranks have found.  A group that is listed later is looked at
 * then. */
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

/* ---- the threads ---- */

/* Finds the time between two looks at the peers: host.watch, or more where the
 * monitors of all ranks would take more than one SHARE-th of the processors, which
 * ranks that still join need. */
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
    /* The last failure is still to be written, also for ranks that cannot
     * write. */
    (void)symc_world_asks_ras(world, true);
    symc_world_handle_failures(world, &stuck_at);
    if (stuck_at != 0)
        symc_world_dump_stuck(world);
}

static void *run_monitor(void *arg)
{
    struct symmcoll_world *world = arg;
    struct symc_monitor *monitor = &world->monitor;
    bool *dead = symc_alloc((size_t)world->size, sizeof(bool));

    symc_thread_be_prompt();
    monitor->status = dead == NULL ? SYMMCOLL_ERR_NO_MEMORY
                                   : symc_liveness_acquire(
                                         &monitor->liveness, world->own.block);
    if (monitor->status != SYMMCOLL_OK)
        snprintf(monitor->detail, sizeof(monitor->detail), "%s",
            symmcoll_last_error());
    sem_post(&monitor->ready);
    if (dead != NULL && monitor->status == SYMMCOLL_OK) {
        watch(world, dead);
        symc_liveness_release(&monitor->liveness, monitor->orderly);
    }
    free(dead);
    return NULL;
}

/* The monitor has been stuck for too long. */
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
    bool late = false; /* twice in a row: a process that was stopped and
                          continued finds both threads late */

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
    status = monitor->status;
    if (status != SYMMCOLL_OK)
        symc_fail(status, "%s", monitor->detail);
    else
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
