/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The program that run_causes.t starts: ranks that fail together, and exit one
 * after another when they get the error, as trainers do.
 *
 *   run_failing HOW ORDER MILLISECONDS
 *
 * HOW selects what happens in the second operation, an all_reduce:
 *
 *   late      rank 1 calls after the others have timed out
 *   gone      rank 1 never calls
 *   chain     rank 1 waits for a message of the next rank; rank 2 never calls
 *   abort     rank 0 aborts the group instead
 *   death     rank 1 is killed by SIGKILL instead
 *   finished  rank 1 finalizes instead, and ends normally
 *   mismatch  rank 0 passes another count; rank 1 continues with the next
 *             operation
 *   split     rank 1 is killed after all have split the group
 *   differ    all create a group before, and rank 0 a different one
 *   shrink    all create the file "through.R" after the first operation, and
 *             wait for those of all; then the others shrink the group and create
 *             "shrunk.R"; rank 1 waits for all these files before it exits with
 *             status 3; the others continue until there is a file "over", and
 *             end normally
 *   stay      as shrink, but at SIGINT the others only create a file "asked"
 *
 * ORDER is up or down: whether rank 0 or the last rank exits first, each that
 * many milliseconds after the one before; with the order "over" they finalize
 * before. Each prints its error on one line. With a group's name in GROUP, the
 * two operations run in a group of all ranks with that name.
 */
#include <symmcoll.h>

#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define PLACE 1    /* the rank with the fault */
#define PATIENT 60 /* the seconds for operations that have to complete */

static int rank;

/* Sums, with the timeout of the configuration, which is short, if that is
 * negative. */
static symmcoll_status_t sum(struct symmcoll_group *group, size_t count,
    const char *label, double timeout)
{
    struct symmcoll_call call = SYMMCOLL_CALL_INIT;
    float x[16] = {0};

    call.label = label;
    call.timeout = timeout;
    return symmcoll_all_reduce(
        group, x, x, count, SYMMCOLL_FLOAT32, SYMMCOLL_SUM, &call, NULL);
}

static void receive(struct symmcoll_group *group, int peer)
{
    float x;

    (void)!symmcoll_recv(
        group, &x, 1, SYMMCOLL_FLOAT32, peer, 0, NULL, NULL, NULL);
}

static void complain(symmcoll_status_t status)
{
    fprintf(stderr, "%s: %s\n", symmcoll_status_name(status),
        symmcoll_last_error());
}

/* Performs this rank's fault. */
static void misbehave(
    struct symmcoll_world *world, struct symmcoll_group *group, const char *how)
{
    if (strcmp(how, "abort") == 0 && rank == 0)
        symmcoll_group_abort(group, "out of disk");
    if (strcmp(how, "chain") == 0 && rank == PLACE)
        receive(group, (rank + 1) % symmcoll_group_size(group));
    if (strcmp(how, "chain") == 0 && rank == PLACE + 1)
        pause();
    if (rank != PLACE)
        return;
    while (
        strcmp(how, "late") == 0 && symmcoll_group_error(group) == SYMMCOLL_OK)
        usleep(1000);
    if (strcmp(how, "gone") == 0)
        pause();
    if (strcmp(how, "death") == 0 || strcmp(how, "split") == 0)
        raise(SIGKILL);
    if (strcmp(how, "finished") == 0)
        exit(symmcoll_finalize(world) != SYMMCOLL_OK);
}

/* Creates the groups that some modes need before the second operation. */
static symmcoll_status_t make_groups(
    struct symmcoll_group *group, const char *how)
{
    struct symmcoll_group_args args = SYMMCOLL_GROUP_ARGS_INIT;
    struct symmcoll_group *other;

    if (strcmp(how, "split") == 0)
        return symmcoll_group_split(group, 0, 0, NULL, &other);
    args.name = rank == 0 ? "tp" : "dp";
    return strcmp(how, "differ") == 0
               ? symmcoll_group_create(
                     symmcoll_group_world(group), &args, &other)
               : SYMMCOLL_OK;
}

static void await(const char *path)
{
    while (access(path, F_OK) != 0)
        usleep(1000);
}

/* Creates the file "WHAT.R" of this rank, or waits for that of another one. */
static void announce(const char *what, int of)
{
    char path[32];
    FILE *file;

    snprintf(path, sizeof(path), "%s.%d", what, of);
    if (of != rank) {
        await(path);
        return;
    }
    file = fopen(path, "w");
    if (file == NULL || fclose(file) != 0)
        exit(9);
}

/* Creates the file "asked". */
static void note_request(int sig)
{
    int fd = open("asked", O_WRONLY | O_CREAT, 0600);

    (void)sig;
    if (fd >= 0)
        close(fd);
}

/* Excludes rank 1 from the group, and continues without it. Returns the exit
 * status. */
static int go_on(struct symmcoll_world *world, struct symmcoll_group *group,
    const char *how, int size)
{
    static const int excluded[] = {PLACE};
    struct symmcoll_shrink_args args = SYMMCOLL_SHRINK_ARGS_INIT;
    struct symmcoll_group *left;

    /* A call that excludes members cancels a barrier that one of them is still
     * in. */
    for (int i = 0; i < size; i++)
        announce("through", (rank + i) % size);
    if (rank == PLACE) {
        for (int r = 0; r < size; r++)
            if (r != PLACE)
                announce("shrunk", r);
        _exit(3);
    }
    if (strcmp(how, "stay") == 0)
        (void)signal(SIGINT, note_request);
    args.exclude = excluded;
    args.nexclude = 1;
    if (symmcoll_group_shrink(group, &args, &left, NULL) != SYMMCOLL_OK) {
        complain(SYMMCOLL_ERR_INTERNAL);
        return 9;
    }
    announce("shrunk", rank);
    await("over");
    if (sum(left, 8, NULL, PATIENT) != SYMMCOLL_OK) {
        complain(SYMMCOLL_ERR_INTERNAL);
        return 9;
    }
    return symmcoll_finalize(world) != SYMMCOLL_OK;
}

int main(int argc, char **argv)
{
    const char *how = argc > 3 ? argv[1] : "";
    const char *order = argc > 3 ? argv[2] : "";
    bool differs = strcmp(how, "mismatch") == 0;
    struct symmcoll_call patient = SYMMCOLL_CALL_INIT;
    struct symmcoll_group_args args = SYMMCOLL_GROUP_ARGS_INIT;
    struct symmcoll_world *world;
    struct symmcoll_group *group;
    symmcoll_status_t status;
    int size, turn;

    if (argc < 4)
        return 2;
    if (symmcoll_init(NULL, &world) != SYMMCOLL_OK) {
        complain(SYMMCOLL_ERR_INTERNAL);
        return 9;
    }
    group = symmcoll_world_group(world);
    args.name = getenv("GROUP");
    if (args.name != NULL &&
        symmcoll_group_create(world, &args, &group) != SYMMCOLL_OK)
        return 9;
    rank = symmcoll_world_rank(world);
    size = symmcoll_world_size(world);
    /* A rank that leaves late may get the error here already. */
    patient.timeout = PATIENT;
    status = symmcoll_barrier(group, &patient, NULL);
    if (status == SYMMCOLL_OK &&
        (strcmp(how, "shrink") == 0 || strcmp(how, "stay") == 0))
        return go_on(world, group, how, size);
    if (status == SYMMCOLL_OK)
        status = make_groups(group, how);
    if (status == SYMMCOLL_OK) {
        misbehave(world, group, how);
        status = sum(group, differs && rank == 0 ? 4 : 8, getenv("LABEL"), -1);
    }
    if (status == SYMMCOLL_OK)
        return 8;
    complain(status);
    if (differs && rank == PLACE) {
        status = symmcoll_barrier(group, NULL, NULL);
        complain(status);
    }
    turn = strcmp(order, "down") == 0 ? size - 1 - rank : rank;
    usleep((useconds_t)(turn * atoi(argv[3]) * 1000));
    if (strcmp(order, "over") == 0)
        (void)!symmcoll_finalize(world);
    _exit(1);
}
