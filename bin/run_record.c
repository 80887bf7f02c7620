/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The ranks' blocks, which symmcoll-run receives from the bootstrap server when
 * a world is complete.  The end of a rank is written to its block for its
 * peers, and its latest operation is read from its flight recorder.
 */
#include "run.h"

#include "base/proc.h"
#include "segment/liveness.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define LIVENESS(seat) \
    atomic_load_explicit(&(seat)->view.block->liveness, memory_order_acquire)

/* ---- worlds ---- */

static void free_world(struct run_world *world)
{
    for (int i = 0; i < world->size; i++)
        symc_block_unmap(&world->seats[i].view);
    free(world->seats);
    free(world);
}

/* Returns whether all ranks of a world have ended or left it. */
static bool is_over(const struct run_world *world)
{
    for (int i = 0; i < world->size; i++) {
        const struct run_seat *seat = &world->seats[i];

        if (seat->view.block != NULL &&
            !symc_liveness_has_left(seat->view.block))
            return false;
    }
    return true;
}

/* Frees finished worlds: a program may create and leave worlds in a loop. */
static void forget_finished(struct run_job *job)
{
    struct run_world **at = &job->worlds;

    while (*at != NULL) {
        struct run_world *world = *at;

        if (is_over(world)) {
            *at = world->next;
            free_world(world);
        } else {
            at = &world->next;
        }
    }
}

/* Returns the rank with that process, or with an ancestor of it. */
static struct run_rank *find_rank(struct run_job *job, pid_t pid)
{
    pid_t group = getpgid(pid);

    for (int i = 0; i < job->options->ranks; i++) {
        struct run_rank *rank = &job->ranks[i];

        if (rank->running && (rank->pid == pid || rank->pid == group))
            return rank;
    }
    return NULL;
}

static void take_seat(
    struct run_job *job, struct run_seat *seat, int rank, int fd, pid_t pid)
{
    struct stat info;

    seat->pid = pid;
    seat->rank = find_rank(job, pid);
    if (seat->rank == NULL)
        return;
    /* Maps the block only; the rest of the arena belongs to the ranks. */
    if (fstat(fd, &info) != 0 || symc_block_map(fd, rank, (size_t)info.st_size,
                                     0, &seat->view) != SYMMCOLL_OK)
        run_say(
            job->err, "cannot follow rank %d: %s", rank, symmcoll_last_error());
}

void run_record_joined(const char *rendezvous, int size, const int *blocks,
    const pid_t *pids, void *arg)
{
    struct run_job *job = arg;
    struct run_world *world = symc_alloc(1, sizeof(*world));
    struct run_seat *seats = symc_alloc((size_t)size, sizeof(*seats));

    (void)rendezvous;
    forget_finished(job);
    if (world == NULL || seats == NULL) {
        run_say(job->err, "%s", symmcoll_last_error());
        free(world);
        free(seats);
        return;
    }
    world->size = size;
    world->seats = seats;
    for (int i = 0; i < size; i++)
        take_seat(job, &seats[i], i, blocks[i], pids[i]);
    if (seats[0].view.block != NULL)
        snprintf(world->name, sizeof(world->name), "%.*s",
            (int)sizeof(seats[0].view.block->world),
            seats[0].view.block->world);
    /* Append it: messages name the first world. */
    struct run_world **last = &job->worlds;
    while (*last != NULL)
        last = &(*last)->next;
    *last = world;
    if (job->options->verbose)
        run_say(job->err, "%d ranks have joined", size);
}

void run_record_failed(
    pid_t pid, symmcoll_status_t status, const char *text, void *arg)
{
    struct run_job *job = arg;
    struct run_rank *rank = find_rank(job, pid);

    if (status == SYMMCOLL_ERR_TIMEOUT && job->missing[0] == '\0')
        snprintf(job->missing, sizeof(job->missing), "%s", text);
    if (rank != NULL)
        rank->failed = true;
}

void run_record_forget(struct run_job *job)
{
    while (job->worlds != NULL) {
        struct run_world *world = job->worlds;

        job->worlds = world->next;
        free_world(world);
    }
}

/* ---- the end of a rank ---- */

/* Returns whether a rank's exit status is in its block. */
static bool is_recorded(const struct run_seat *seat)
{
    int status;

    return symc_liveness_find_exit(&seat->view.block->exit, &status);
}

/* Stores a status of waitpid() in a rank's block for its peers. */
static void record_for_peers(struct run_seat *seat, int status)
{
    if (!is_recorded(seat))
        symc_liveness_put_exit(&seat->view.block->exit, status);
}

/*
 * Reads the status of an exiting process from /proc, which has it before the
 * process's memory is torn down (hundreds of milliseconds if there is much) and
 * long before waitpid().
 */
static bool read_early_status(pid_t pid, int *status)
{
    struct symc_proc_stat stat;

    if (!symc_proc_stat_read(pid, &stat))
        return false;
    *status = stat.exit;
    return *status !=
           0; /* 0: not known yet, or really 0, as waitpid() will return */
}

void run_record_look(struct run_job *job)
{
    for (struct run_world *world = job->worlds; world != NULL;
         world = world->next) {
        for (int i = 0; i < world->size; i++) {
            struct run_seat *seat = &world->seats[i];
            int status;

            if (seat->view.block != NULL && seat->rank->running &&
                (LIVENESS(seat) & SYMC_LIVENESS_DIED) != 0 &&
                !is_recorded(seat) && read_early_status(seat->pid, &status))
                record_for_peers(seat, status);
        }
    }
}

/* ---- the records of a rank ---- */

static void write_dump(struct run_job *job, const struct run_world *world,
    const struct run_seat *seat, int number, const char *reason)
{
    struct symc_trace_format format = symc_trace_format_get(job->config);
    /* A rank that wrote its record itself has logged that, unless it was killed
     * during the write. */
    bool logged = atomic_load_explicit(
                      &seat->view.block->dumped, memory_order_relaxed) != 0 &&
                  !WIFSIGNALED(seat->rank->status);
    char path[PATH_MAX], attempt[sizeof(job->id) + 16];
    symmcoll_status_t status;

    /* Same text as symc_rendezvous_job() in a rank. */
    snprintf(attempt, sizeof(attempt), "%s_%d", job->id, job->attempt);
    status = symc_trace_path(
        job->config, attempt, world->name, number, path, sizeof(path));
    format.reason = reason;
    if (status == SYMMCOLL_OK)
        status = symc_trace_write(symc_block_trace(&seat->view),
            seat->view.layout.trace_nbytes, path, &format);
    if (status != SYMMCOLL_OK)
        run_say(job->err, "%s", symmcoll_last_error());
    else if (!logged)
        run_say(job->err, "flight recorder of rank %d: %s", number, path);
}

static bool has_resumed(const struct run_seat *seat)
{
    return seat->view.block != NULL &&
           atomic_load_explicit(
               &seat->view.block->resumed, memory_order_acquire) > 0;
}

bool run_record_goes_on(const struct run_job *job)
{
    for (const struct run_world *world = job->worlds; world != NULL;
         world = world->next)
        for (int i = 0; i < world->size; i++) {
            const struct run_seat *seat = &world->seats[i];

            if (has_resumed(seat) && seat->rank->running)
                return true;
        }
    return false;
}

/* Returns whether a rank ended in order, by the same criteria as a rank's
 * monitor: its record is not written. */
static bool is_in_order(
    const struct run_rank *rank, const struct run_seat *seat)
{
    return rank->status == 0 &&
           atomic_load_explicit(
               &seat->view.block->failures, memory_order_acquire) == 0 &&
           symc_trace_is_idle(
               symc_block_trace(&seat->view), seat->view.layout.trace_nbytes);
}

/* Evaluates one block of an ended rank, and writes its record if needed. */
static void read_seat(struct run_job *job, const struct run_world *world,
    const struct run_seat *seat, int number)
{
    struct run_rank *rank = seat->rank;
    char position[sizeof(rank->position)];
    char reason[64];
    bool left = !symc_liveness_has_left(seat->view.block);

    rank->left = rank->left || left;
    rank->resumed = rank->resumed || has_resumed(seat);
    symc_trace_position(symc_block_trace(&seat->view),
        seat->view.layout.trace_nbytes, NULL, position, sizeof(position));
    /* A call that returned a failure may let the rank end before its monitor
     * has counted the failure; the recorder has it by then. */
    if (atomic_load_explicit(
            &seat->view.block->failures, memory_order_acquire) > 0 ||
        strncmp(position, "after failed ", strlen("after failed ")) == 0)
        rank->failed = true;
    /* An operation in flight in any world is preferred to a finished one of
     * another world. */
    if (rank->position[0] == '\0' || strncmp(position, "in ", 3) == 0)
        memcpy(rank->position, position, sizeof(position));
    if ((WIFSIGNALED(rank->status) || (left && !is_in_order(rank, seat))) &&
        job->config->trace_dump_on_error)
        write_dump(job, world, seat, number,
            run_describe_end(rank, reason, sizeof(reason)));
}

void run_record_end(struct run_job *job, struct run_rank *rank)
{
    /* First the part that the other ranks wait for. */
    for (struct run_world *world = job->worlds; world != NULL;
         world = world->next)
        for (int i = 0; i < world->size; i++)
            if (world->seats[i].rank == rank &&
                world->seats[i].view.block != NULL)
                record_for_peers(&world->seats[i], rank->status);
    for (struct run_world *world = job->worlds; world != NULL;
         world = world->next)
        for (int i = 0; i < world->size; i++)
            if (world->seats[i].rank == rank &&
                world->seats[i].view.block != NULL)
                read_seat(job, world, &world->seats[i], i);
}
