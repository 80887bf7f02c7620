/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Tests a process with several worlds: messages, records and the groups
 * themselves name their world.
 */
#include "t/ranks.h"
#include "t/tap.h"
#include "t/trace/json.h"
#include "t/world/faults.h"

#include "group/group.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define SIZE 2
#define LONGEST \
    "a-name-of-sixty-three-bytes-which-is-the-longest-that-init-take"

static char text[1 << 20];

static symmcoll_status_t open_world(
    const char *name, struct symmcoll_world **world)
{
    struct symmcoll_init_args args = SYMMCOLL_INIT_ARGS_INIT;

    args.name = name;
    return symmcoll_init(&args, world);
}

static bool is_named(struct symmcoll_world *world, const char *expected)
{
    const char *found = symmcoll_group_name(symmcoll_world_group(world));

    if (strcmp(found, expected) == 0)
        return true;
    diag("expected a group named %s, found %s", expected, found);
    return false;
}

/* Checks the group's name in a mismatch error. */
static bool is_said(
    struct symmcoll_world *world, int rank, const char *expected)
{
    float x[2] = {0};
    symmcoll_status_t status = symmcoll_all_reduce(symmcoll_world_group(world),
        x, x, rank == 0 ? 1 : 2, SYMMCOLL_FLOAT32, SYMMCOLL_SUM, NULL, NULL);

    if (status == SYMMCOLL_ERR_MISMATCH &&
        strstr(symmcoll_last_error(), expected) != NULL)
        return true;
    diag("expected \"%s\" in: %s", expected, symmcoll_last_error());
    return false;
}

/* Checks that a dump contains the group's name and description. */
static bool is_recorded(struct symmcoll_world *world, int rank,
    const char *process_group, const char *config)
{
    char path[PATH_MAX + 32];
    FILE *file;
    size_t n = 0;
    bool good;

    snprintf(path, sizeof(path), "%s/dump_%d", faults_folder(), rank);
    good = symmcoll_trace_dump(world, path, 0) == SYMMCOLL_OK;
    file = good ? fopen(path, "r") : NULL;
    if (file != NULL) {
        n = fread(text, 1, sizeof(text) - 1, file);
        fclose(file);
    }
    text[n] = '\0';
    good = good && json_is(text, "entries/0/process_group", process_group) &&
           strstr(text, config) != NULL;
    if (!good)
        diag("expected %s and %s in: %.400s", process_group, config, text);
    return good;
}

static int use_two_worlds(int rank, int size, void *arg)
{
    struct symmcoll_world *plain, *named;
    bool good;

    (void)size;
    (void)arg;
    if (open_world(NULL, &plain) != SYMMCOLL_OK ||
        open_world("pipe", &named) != SYMMCOLL_OK) {
        diag("init: %s", symmcoll_last_error());
        return 1;
    }
    good = is_named(plain, "0") && is_named(named, "pipe/0") &&
           is_said(plain, rank, "(group 0, seq 1)") &&
           is_said(named, rank, "(group pipe/0, seq 1)") &&
           is_recorded(plain, rank, "[\"0\", \"default_pg\"]",
               "\"0\": {\"name\": \"0\", \"desc\": \"default_pg\"") &&
           is_recorded(named, rank, "[\"pipe/0\", \"pipe/default_pg\"]",
               "\"pipe/0\": {\"name\": \"pipe/0\", \"desc\": "
               "\"pipe/default_pg\"");
    return symmcoll_finalize(plain) != SYMMCOLL_OK ||
           symmcoll_finalize(named) != SYMMCOLL_OK || !good;
}

static int use_the_longest_name(int rank, int size, void *arg)
{
    struct symmcoll_world *world;
    bool good;

    (void)size;
    (void)arg;
    if (open_world(LONGEST, &world) != SYMMCOLL_OK) {
        diag("init: %s", symmcoll_last_error());
        return 1;
    }
    good = is_named(world, LONGEST "/0") &&
           is_said(world, rank, "(group " LONGEST "/0, seq 1)") &&
           is_recorded(world, rank,
               "[\"" LONGEST "/0\", \"" LONGEST "/default_pg\"]",
               "\"desc\": \"" LONGEST "/default_pg\"");
    return symmcoll_finalize(world) != SYMMCOLL_OK || !good;
}

/* One rank dies in the named world, before and within an operation. */
static int die_in_a_world(struct faults_rank *self)
{
    if (!faults_init(self) || faults_barrier(self) != SYMMCOLL_OK)
        return 1;
    faults_reach(self, 1);
    if (self->rank == 1) {
        faults_pass(self, 1); /* all ranks have left the barrier */
        raise(SIGKILL);
    }
    faults_note(self, faults_barrier(self));
    return faults_finalize(self);
}

static void a_death(void)
{
    struct faults_job job;
    char name[64], place[128];

    faults_start(&job, SIZE, die_in_a_world, NULL);
    faults_await_all(&job, 1);
    faults_open(&job, 1);
    snprintf(place, sizeof(place), "after barrier seq 1 of group %s/0",
        job.world_name);
    ok(faults_said(faults_told(&job, 0, 0), SYMMCOLL_ERR_PEER,
           faults_name(&job, 1, name), place, NULL),
        "a death says in which world the rank was");
    faults_finish(&job, 2);
    faults_clear_dumps(SIZE);
}

static bool spawn(raw_rank_fn body)
{
    int statuses[SIZE] = {1, 1};

    return ranks_spawn(SIZE, body, NULL, statuses) && statuses[0] == 0 &&
           statuses[1] == 0;
}

/* Uses a group number with one digit less than fits, and with one more. */
static bool long_numbers_are_digests(void)
{
    struct symmcoll_world *world = calloc(1, sizeof(*world));
    struct symmcoll_group *parent = calloc(1, sizeof(*parent));
    struct symc_group_plan fits = {.rank = 0}, long_one = {.rank = 0};
    char expected[SYMC_GROUP_ID + 4];
    bool right;

    if (world == NULL || parent == NULL)
        exit(1);
    parent->world = world;
    memset(parent->id, '1', SYMC_GROUP_ID - 3);
    snprintf(expected, sizeof(expected), "%s.7", parent->id);
    symc_group_plan_name(world, parent, &fits, 7, NULL);
    symc_group_plan_name(world, parent, &long_one, 17, NULL);
    right = strcmp(fits.id, expected) == 0 &&
            memchr(long_one.id, '\0', sizeof(long_one.id)) != NULL &&
            strlen(long_one.id) == 16 && strchr(long_one.id, '.') == NULL;
    free(parent);
    free(world);
    return right;
}

int main(void)
{
    plan(4);
    ok(long_numbers_are_digests(),
        "the number of a group is a digest where it has no room");
    faults_begin();
    ok(spawn(use_two_worlds),
        "groups, messages and records have the world's name, but for the "
        "default world's");
    ok(spawn(use_the_longest_name), "a name of 63 bytes is whole everywhere");
    faults_clear_dumps(SIZE);
    a_death();
    faults_end();
    return done_testing();
}
