/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Tests the flight recorders of running ranks: the timeout of each operation,
 * an operation that waits for a late rank, and the records that are written
 * when an operation times out.
 */
#include "t/tap.h"
#include "t/trace/json.h"
#include "t/world/faults.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#define SIZE 2

/* Returns the rank's current record; NULL: it cannot be written or read. */
static char *read_record(struct symmcoll_world *world, int rank)
{
    char path[PATH_MAX + 32], *text = calloc(1, 1 << 20);
    FILE *file;

    snprintf(path, sizeof(path), "%s/now_%d", faults_folder(), rank);
    if (text == NULL || symmcoll_trace_dump(world, path, 0) != SYMMCOLL_OK ||
        (file = fopen(path, "r")) == NULL) {
        free(text);
        return NULL;
    }
    if (fread(text, 1, (1 << 20) - 1, file) == 0 || !json_is_valid(text))
        text[0] = '\0';
    fclose(file);
    remove(path);
    return text;
}

/* Reads the record until it has a value at a path. */
static char *read_until(const struct faults_rank *self, const char *path)
{
    double until = faults_now() + FAULTS_WAIT_MAX;
    char *text = read_record(self->world, self->rank);

    while (
        text != NULL && json_find(text, path) == NULL && faults_now() < until) {
        free(text);
        text = read_record(self->world, self->rank);
    }
    return text;
}

/* Checks that each text is at the path before it; NULL: no value is there. */
static bool holds(const char *text, const char *const *expected)
{
    for (int i = 0; text != NULL && expected[i] != NULL; i += 2)
        if (!json_is(text, expected[i], expected[i + 1])) {
            diag("expected %s at %s of %s", expected[i + 1], expected[i], text);
            return false;
        }
    return text != NULL;
}

/* ---- timeouts ---- */

struct timeouts {
    double argument; /* of init */
    const char *of_init;
};

/* Runs one operation with the timeout of init, or the setting's, or neither;
 * one with that of the group, and one with that of the call. */
static int call_with_timeouts(struct faults_rank *self)
{
    const struct timeouts *timeouts = self->arg;
    const char *expected[] = {"entries/0/timeout_ms", timeouts->of_init,
        "entries/1/timeout_ms", "23000", "entries/2/timeout_ms", "5000", NULL};
    struct symmcoll_init_args args = SYMMCOLL_INIT_ARGS_INIT;
    struct symmcoll_call call = faults_timeout(5);
    char *record = NULL;
    int status = 1;

    args.name = self->world_name;
    args.timeout = timeouts->argument;
    if (symmcoll_init(&args, &self->world) != SYMMCOLL_OK)
        return 1;
    self->group = symmcoll_world_group(self->world);
    if (faults_barrier(self) == SYMMCOLL_OK &&
        symmcoll_group_set_timeout(self->group, 23) == SYMMCOLL_OK &&
        faults_barrier(self) == SYMMCOLL_OK &&
        symmcoll_barrier(self->group, &call, NULL) == SYMMCOLL_OK) {
        record = read_record(self->world, self->rank);
        status = holds(record, expected) ? 0 : 1;
    }
    free(record);
    return faults_finalize(self) != 0 ? 1 : status;
}

static bool timeouts_are(double argument, const char *of_init)
{
    struct timeouts timeouts = {argument, of_init};
    struct faults_job job;

    faults_start(&job, SIZE, call_with_timeouts, &timeouts);
    return faults_finish(&job, 0) && faults_clear_dumps(0);
}

/* ---- numbers ---- */

/* Runs two collectives, a message, and another collective. */
static int call_a_few(struct faults_rank *self)
{
    static const char *const expected[] = {"entries/0/collective_seq_id", "1",
        "entries/1/collective_seq_id", "2", "entries/2/is_p2p", "true",
        "entries/3/collective_seq_id", "3", "entries/4", NULL, NULL};
    float x[4] = {0};
    char *record;
    bool right =
        faults_init(self) && faults_sum(self, x, 4) == SYMMCOLL_OK &&
        faults_barrier(self) == SYMMCOLL_OK &&
        (self->rank == 0 ? symmcoll_send(self->group, x, 4, SYMMCOLL_FLOAT32, 1,
                               0, NULL, NULL)
                         : symmcoll_recv(self->group, x, 4, SYMMCOLL_FLOAT32, 0,
                               0, NULL, NULL, NULL)) == SYMMCOLL_OK &&
        faults_sum(self, x, 4) == SYMMCOLL_OK;

    if (!right)
        return 1;
    record = read_record(self->world, self->rank);
    right = holds(record, expected);
    free(record);
    return faults_finalize(self) == 0 && right ? 0 : 1;
}

static bool collectives_are_counted(void)
{
    struct faults_job job;

    faults_start(&job, SIZE, call_a_few, NULL);
    return faults_finish(&job, 0) && faults_clear_dumps(0);
}

/* ---- while a rank waits ---- */

static void *wait_in_call(void *arg)
{
    struct faults_rank *self = arg;

    faults_barrier(self);
    return NULL;
}

/* The first rank's main thread waits in an operation until the second rank
 * arrives, which it does after another thread of the first rank has written
 * the record. */
static int write_while_waiting(struct faults_rank *self)
{
    static const char *const expected[] = {"entries/0/state", "\"completed\"",
        "entries/0/collective_seq_id", "1", "entries/1/state", "\"started\"",
        "entries/1/retired", "false", "entries/1/collective_seq_id", "2",
        "entries/2", NULL, NULL};
    char *record;
    pthread_t thread;
    bool right;

    if (!faults_init(self) || faults_barrier(self) != SYMMCOLL_OK)
        return 1;
    if (self->rank == 1) {
        faults_pass(self, 1);
        return faults_barrier(self) != SYMMCOLL_OK ? 1 : faults_finalize(self);
    }
    if (pthread_create(&thread, NULL, wait_in_call, self) != 0)
        return 1;
    record = read_until(self, "entries/1");
    right = holds(record, expected);
    free(record);
    faults_reach(self, 1);
    pthread_join(thread, NULL);
    return right && faults_finalize(self) == 0 ? 0 : 1;
}

static bool written_while_waiting(void)
{
    struct faults_job job;

    faults_start(&job, SIZE, write_while_waiting, NULL);
    faults_await(&job, 0, 1);
    faults_open(&job, 1);
    return faults_finish(&job, 0) && faults_clear_dumps(0);
}

/* ---- after a timeout ---- */

/* The second rank computes, without a call, until the first one times out. */
static int time_out(struct faults_rank *self)
{
    if (!faults_init(self) || faults_barrier(self) != SYMMCOLL_OK ||
        symmcoll_group_set_timeout(self->group, 0.2) != SYMMCOLL_OK)
        return 1;
    faults_reach(self, 1);
    faults_pass(self, 1);
    if (self->rank == 0)
        faults_note(self, faults_barrier(self));
    while (atomic_load(&self->board->gate) < 2)
        continue;
    return faults_finalize(self);
}

static void records_of_a_timeout(void)
{
    struct faults_job job;

    setenv("SYMMCOLL_LOG_LEVEL", "error", 1);
    faults_start(&job, SIZE, time_out, NULL);
    faults_await_all(&job, 1);
    faults_open(&job, 1);
    ok(faults_said(faults_told(&job, 0, 0), SYMMCOLL_ERR_TIMEOUT, NULL) &&
            faults_dumped(0, "\"last_enqueued_collective\": \"2\"") &&
            faults_dumped(0, "\"last_completed_collective\": \"1\""),
        "the record of a rank that timed out has the operation that did not "
        "complete");
    ok(faults_dumped(1, "\"last_enqueued_collective\": \"1\"") &&
            faults_dumped(1, "\"last_completed_collective\": \"1\""),
        "that of the rank that computed instead is written too");
    faults_open(&job, 2);
    faults_finish(&job, 0);
    faults_clear_dumps(SIZE);
    unsetenv("SYMMCOLL_LOG_LEVEL");
}

int main(void)
{
    plan(7);
    faults_begin();
    ok(timeouts_are(-1, "1800000"),
        "operations have a timeout of half an hour by default (G2)");
    setenv("SYMMCOLL_TIMEOUTS_COLLECTIVE", "77s", 1);
    ok(timeouts_are(-1, "77000"),
        "without a timeout of init operations have that of the settings (G2)");
    ok(timeouts_are(123, "123000"),
        "they have that of init, then the group's, a call its own (G2, G3)");
    unsetenv("SYMMCOLL_TIMEOUTS_COLLECTIVE");
    ok(collectives_are_counted(),
        "the first collective has number 1, each of the next one more (C60)");
    ok(written_while_waiting(),
        "a record is written while another thread waits in an operation");
    records_of_a_timeout();
    faults_end();
    return done_testing();
}
