/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Tests calls that create groups, in the flight recorder and in errors: they
 * appear under the name of the call that the program made.
 */
#include "t/group/groups.h"
#include "t/trace/json.h"
#include "t/world/faults.h"

#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

#define SIZE 2

/* Returns the rank's current record, which the caller frees; NULL: none. */
static char *read_record(struct symmcoll_world *world, const char *folder)
{
    char path[PATH_MAX + 64], *text = calloc(1, 1 << 20);
    FILE *file;

    snprintf(path, sizeof(path), "%s/groups-%ld-%d", folder, (long)gettid(),
        symmcoll_world_rank(world));
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

/* Checks that each text is at the path before it. */
static bool holds(const char *text, const char *const *expected)
{
    for (int i = 0; text != NULL && expected[i] != NULL; i += 2)
        if (!json_is(text, expected[i], expected[i + 1])) {
            diag("expected %s at %s of %s", expected[i + 1], expected[i], text);
            return false;
        }
    return text != NULL;
}

/* ---- completed calls ---- */

/* Checks that an entry has a group's name, and that the table of group states
 * has that group. */
static bool is_in_group(
    const char *text, int entry, const struct symmcoll_group *group)
{
    char path[64], quoted[200];
    const char *number;
    int slot = -1;

    snprintf(path, sizeof(path), "entries/%d/process_group/0", entry);
    snprintf(quoted, sizeof(quoted), "\"%s\"", symmcoll_group_name(group));
    if (!json_is(text, path, quoted))
        return false;
    snprintf(path, sizeof(path), "entries/%d/pg_id", entry);
    number = json_find(text, path);
    if (number != NULL)
        slot = atoi(number);
    snprintf(path, sizeof(path), "pg_status/%d", slot);
    return json_find(text, path) != NULL;
}

static int calls_are_recorded(struct symmcoll_group *all, int rank)
{
    static const char *const expected[] = {"entries/0/label",
        "\"group_create dp\"", "entries/0/state", "\"completed\"",
        "entries/0/profiling_name", "\"nccl:_all_gather_base\"",
        "entries/0/collective_seq_id", "0", "entries/1/collective_seq_id", "1",
        "entries/2/label", "\"group_split\"", "entries/2/collective_seq_id",
        "1", "entries/2/is_p2p", "false", "entries/4/label",
        "\"group_split_runs\"", "entries/5/label", "\"group_create alone\"",
        "entries/5/collective_seq_id", "0", "entries/0/pg_id", "0",
        "entries/5/pg_id", "4", NULL};
    struct symmcoll_group_args args = SYMMCOLL_GROUP_ARGS_INIT;
    struct symmcoll_world *world = symmcoll_group_world(all);
    struct symmcoll_group *dp, *half, *run, *alone;
    char *text;
    bool right;

    args.name = "dp";
    if (!made(rank, symmcoll_group_create(world, &args, &dp)) ||
        groups_sum(all, rank) != 1 ||
        !made(rank, symmcoll_group_split(all, rank, 0, NULL, &half)) ||
        !made(rank, symmcoll_group_split_runs(all, 1, NULL, &run, NULL)))
        return 0;
    args.name = "alone";
    args.flags = SYMMCOLL_GROUP_LOCAL;
    if (!made(rank, symmcoll_group_create(world, &args, &alone)))
        return 0;
    text = read_record(world, ".");
    right = holds(text, expected) && is_in_group(text, 0, all) &&
            is_in_group(text, 4, all) && is_in_group(text, 5, alone) &&
            symmcoll_group_sequence(all) == 1;
    free(text);
    return right && symmcoll_group_free(alone) == SYMMCOLL_OK &&
           symmcoll_group_free(run) == SYMMCOLL_OK &&
           symmcoll_group_free(half) == SYMMCOLL_OK &&
           symmcoll_group_free(dp) == SYMMCOLL_OK;
}

/* ---- calls in flight ---- */

static void *split_in_call(void *arg)
{
    struct faults_rank *self = arg;
    struct symmcoll_group *own;

    faults_note(self, symmcoll_group_split(self->group, 0, 0, NULL, &own));
    return NULL;
}

static void *create_in_call(void *arg)
{
    struct symmcoll_group_args args = SYMMCOLL_GROUP_ARGS_INIT;
    struct faults_rank *self = arg;
    struct symmcoll_group *own;

    args.flags = SYMMCOLL_GROUP_LOCAL;
    faults_note(self, symmcoll_group_create(self->world, &args, &own));
    return NULL;
}

static void *shrink_in_call(void *arg)
{
    struct faults_rank *self = arg;
    struct symmcoll_group *own;

    faults_note(self, symmcoll_group_shrink(self->group, NULL, &own, NULL));
    return NULL;
}

/* A call, and its name. */
struct call {
    void *(*make)(void *self);
    const char *label;
};

/* Rank 1 calls after another thread of rank 0 has read the record. */
static int make_late(struct faults_rank *self)
{
    const struct call *call = self->arg;
    const char *expected[] = {"entries/0/label", call->label, "entries/0/state",
        "\"started\"", "entries/0/retired", "false", "entries/1", NULL, NULL};
    double until = faults_now() + FAULTS_WAIT_MAX;
    char *text = NULL;
    pthread_t thread;
    bool right;

    if (!faults_init(self))
        return 1;
    if (self->rank == 1) {
        faults_pass(self, 1);
        call->make(self);
        return faults_finalize(self);
    }
    if (pthread_create(&thread, NULL, call->make, self) != 0)
        return 1;
    do {
        free(text);
        text = read_record(self->world, faults_folder());
    } while (text != NULL && json_find(text, "entries/0") == NULL &&
             faults_now() < until);
    right = holds(text, expected);
    free(text);
    faults_reach(self, 1);
    pthread_join(thread, NULL);
    return faults_finalize(self) == 0 && right ? 0 : 1;
}

static bool is_seen_under_way(void *(*make)(void *self), const char *label)
{
    const struct call call = {make, label};
    struct faults_job job;

    faults_start(&job, SIZE, make_late, &call);
    faults_await(&job, 0, 1);
    faults_open(&job, 1);
    return faults_told(&job, 0, 0)->status == SYMMCOLL_OK &&
           faults_told(&job, 1, 0)->status == SYMMCOLL_OK &&
           faults_finish(&job, 0) && faults_clear_dumps(SIZE);
}

/* ---- errors ---- */

static int split_alone(struct faults_rank *self)
{
    struct symmcoll_group *own;

    if (!faults_init(self) ||
        symmcoll_group_set_timeout(self->group, 0.3) != SYMMCOLL_OK)
        return 1;
    if (self->rank == 0)
        faults_note(self, symmcoll_group_split(self->group, 0, 0, NULL, &own));
    faults_pass(self, 1);
    return faults_finalize(self);
}

static bool a_late_rank_is_told_of(void)
{
    struct faults_job job;
    bool right;

    faults_start(&job, SIZE, split_alone, NULL);
    right = faults_said(faults_told(&job, 0, 0), SYMMCOLL_ERR_TIMEOUT,
        "group_split of group ", "timed out after 0.3 s: rank 1 did not come",
        NULL);
    faults_open(&job, 1);
    right = faults_finish(&job, 0) && right;
    faults_clear_dumps(SIZE);
    return right;
}

static int calls_that_differ(struct symmcoll_group *all, int rank)
{
    struct symmcoll_group *own;

    return groups_said(rank,
               rank == 0 ? symmcoll_group_split_runs(all, 1, NULL, &own, NULL)
                         : symmcoll_group_split(all, 0, 0, NULL, &own),
               SYMMCOLL_ERR_MISMATCH,
               "rank 0 called group_split_runs, rank 1 called group_split") &&
           groups_sum(all, rank) == 1;
}

/* Rank 1 creates a group while rank 0 sums: readers of records compare the
 * entries of ranks with the same number. */
static int calls_that_meet_collectives(struct symmcoll_group *all, int rank)
{
    static const char *const sum[] = {"entries/0/profiling_name",
        "\"nccl:all_reduce\"", "entries/0/collective_seq_id", "1",
        "entries/1/collective_seq_id", "2",
        "pg_status/0/last_enqueued_collective", "\"2\"", NULL};
    static const char *const split[] = {"entries/0/label", "\"group_split\"",
        "entries/0/collective_seq_id", "1", "entries/1/collective_seq_id", "2",
        "pg_status/0/last_enqueued_collective", "\"2\"", NULL};
    struct symmcoll_group *own;
    double value = 1;
    char *text;
    bool right;

    if (!groups_said(rank,
            rank == 0 ? symmcoll_all_reduce(all, &value, &value, 1,
                            SYMMCOLL_FLOAT64, SYMMCOLL_SUM, NULL, NULL)
                      : symmcoll_group_split(all, 0, 0, NULL, &own),
            SYMMCOLL_ERR_MISMATCH,
            "rank 0 called all_reduce, rank 1 called group_split (group "))
        return 0;
    if (groups_sum(all, rank) != 1)
        return 0;
    text = read_record(symmcoll_group_world(all), ".");
    right = holds(text, rank == 0 ? sum : split);
    free(text);
    return right;
}

int main(void)
{
    plan(10);
    groups_both(SIZE, calls_are_recorded,
        "each call that makes groups has an entry, and takes no number");
    groups_both(SIZE, calls_that_differ,
        "ranks that make groups by different calls are told which");
    groups_both(SIZE, calls_that_meet_collectives,
        "where others call a collective, the entry has the number of that");
    faults_begin();
    ok(is_seen_under_way(split_in_call, "\"group_split\""),
        "a split that waits for a rank is in the record");
    ok(is_seen_under_way(create_in_call, "\"group_create\""),
        "and so is a creation with local synchronisation");
    ok(is_seen_under_way(shrink_in_call, "\"group_shrink\""), "and a shrink");
    ok(a_late_rank_is_told_of(), "a timeout names the call that timed out");
    faults_end();
    return done_testing();
}
