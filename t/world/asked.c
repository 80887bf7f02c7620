/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Tests a FIFO for dumps on request with a process that writes endlessly into
 * it: the monitor reads some of it in each round and still does its other
 * work.
 */
#include "t/tap.h"
#include "t/world/faults.h"

#include "world/world.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define VICTIM 1
#define ROUNDS 8 /* of the monitor, with something to read in each */

static char prefix[512];
static FILE *log_file;

/* Connects the monitor to a writer that is never slower than the reader: its
 * input has no end. */
static bool flood(struct symc_monitor *monitor)
{
    double until = faults_now() + FAULTS_WAIT_MAX / 2;
    int zero = open("/dev/zero", O_RDONLY | O_CLOEXEC);
    bool good = zero >= 0 && dup2(zero, monitor->pipe.fd) == monitor->pipe.fd;
    uint64_t beats = atomic_load(&monitor->beats);

    if (zero >= 0)
        close(zero);
    while (good && atomic_load(&monitor->beats) < beats + ROUNDS) {
        faults_rest();
        good = faults_now() < until;
    }
    return good;
}

static int wait_for_the_victim(struct faults_rank *self)
{
    bool good = dup2(fileno(log_file), STDERR_FILENO) >= 0 &&
                faults_init(self) && faults_barrier(self) == SYMMCOLL_OK;

    if (good && self->rank != VICTIM)
        good = flood(&self->world->monitor);
    if (!good)
        return 1;
    faults_reach(self, 1);
    if (self->rank == VICTIM)
        faults_pass(self, 1);
    faults_note(self, faults_barrier(self));
    return faults_finalize(self);
}

/* Returns how many dumps on request the log reports. */
static int count_dumps(void)
{
    char line[1024];
    int dumps = 0;

    rewind(log_file);
    while (fgets(line, sizeof(line), log_file) != NULL)
        dumps += strstr(line, "on request: flight recorder of rank 0") != NULL;
    return dumps;
}

static void remove_fifo(const struct faults_job *job, int rank)
{
    char path[sizeof(prefix) + sizeof(job->world_name) + 32];

    snprintf(path, sizeof(path), "%s%d.%s.pipe", prefix, rank, job->world_name);
    unlink(path);
}

static void flood_the_survivor(void)
{
    double began = faults_now(), seconds;
    struct faults_job job;
    bool right;
    int dumps;

    faults_start(&job, 2, wait_for_the_victim, NULL);
    right = faults_await_all(&job, 1);
    faults_signal(&job, VICTIM, SIGKILL);
    right = faults_kill_is_known(&job, VICTIM) && right;
    right = faults_finish(&job, 1U << VICTIM) && right;
    seconds = faults_now() - began;
    ok(right, "a death is known while a rank's FIFO is flooded (X24)");
    dumps = count_dumps();
    if (dumps < 1 || dumps > 1 + (int)seconds)
        diag("%d dumps in %.1f seconds", dumps, seconds);
    ok(dumps >= 1 && dumps <= 1 + (int)seconds,
        "dumps on request are written once a second at most (X24)");
    for (int r = 0; r < job.size; r++)
        remove_fifo(&job, r); /* one rank was killed, the other has no FIFO
                               * there */
    faults_clear_dumps(job.size);
}

int main(void)
{
    plan(2);
    faults_begin();
    snprintf(prefix, sizeof(prefix), "%s/ask_", faults_folder());
    setenv("SYMMCOLL_TRACE_DUMP_PIPE", prefix, 1);
    setenv("SYMMCOLL_LOG_LEVEL", "info", 1);
    log_file = tmpfile();
    if (log_file == NULL)
        return 1;
    flood_the_survivor();
    fclose(log_file);
    faults_end();
    return done_testing();
}
