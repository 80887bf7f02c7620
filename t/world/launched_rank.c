/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The ranks that launched.t starts: a few barriers, then HOW selects what
 * happens to rank 2 while the others are in the next one.
 *
 *   launched_rank HOW
 *
 *   compute  it works for a moment and is killed
 *   pair     rank 1 is killed, too
 *   stop     it is stopped
 *   hello    it is killed in init, while it waits for rank 3
 *   loop     nothing: all create and leave worlds, one after another
 *   exchange nothing: all exchange descriptors
 *
 * The others print their error on one line, and exit with status 1.
 */
#include "group/group.h"

#include <symmcoll.h>

#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define RANKS 4
#define VICTIM 2
#define MOMENT 200000 /* microseconds */

static int complain(const char *what, symmcoll_status_t status)
{
    fprintf(stderr, "%s: %s: %s\n", what, symmcoll_status_name(status),
        symmcoll_last_error());
    return 1;
}

/* Without an operation between, a rank is back before others have gone. */
static int make_worlds(int count)
{
    struct symmcoll_world *world;

    for (int i = 0; i < count; i++) {
        symmcoll_status_t status = symmcoll_init(NULL, &world);

        if (status != SYMMCOLL_OK)
            return complain("init", status);
        if (symmcoll_finalize(world) != SYMMCOLL_OK)
            return complain("finalize", SYMMCOLL_ERR_INTERNAL);
    }
    return 0;
}

static int exchange_descriptors(void)
{
    struct symmcoll_world *world;
    symmcoll_status_t status = symmcoll_init(NULL, &world);
    int fds[RANKS];

    if (status != SYMMCOLL_OK)
        return complain("init", status);
    for (int i = 0; i < 3; i++) {
        struct symmcoll_group *group = symmcoll_world_group(world);

        status = group->runner.core.exchange(&group->runner, STDIN_FILENO, fds);
        if (status != SYMMCOLL_OK)
            return complain("exchange", status);
        for (int r = 0; r < RANKS; r++)
            close(fds[r]);
    }
    return symmcoll_finalize(world) == SYMMCOLL_OK ? 0 : 1;
}

static void *kill_in_a_moment(void *arg)
{
    (void)arg;
    usleep(MOMENT);
    raise(SIGKILL);
    return NULL;
}

static void come_to_a_bad_end(const char *how)
{
    volatile unsigned long counter = 0;

    if (strcmp(how, "stop") == 0) {
        raise(SIGSTOP);
        return;
    }
    while (strcmp(how, "compute") == 0 && counter < 20000000)
        counter++;
    raise(SIGKILL);
}

int main(int argc, char **argv)
{
    const char *how = argc > 1 ? argv[1] : "";
    const char *text = getenv("RANK");
    int rank = text != NULL ? atoi(text) : 0;
    struct symmcoll_world *world;
    symmcoll_status_t status;
    pthread_t thread;

    if (strcmp(how, "loop") == 0)
        return make_worlds(200);
    if (strcmp(how, "exchange") == 0)
        return exchange_descriptors();
    if (strcmp(how, "hello") == 0 && rank == VICTIM &&
        pthread_create(&thread, NULL, kill_in_a_moment, NULL) != 0)
        return 9;
    if (strcmp(how, "hello") == 0 && rank == 3)
        usleep(4 * MOMENT);
    status = symmcoll_init(NULL, &world);
    if (status != SYMMCOLL_OK)
        return complain("init", status);
    for (int i = 1; i <= 5; i++) {
        status = symmcoll_barrier(symmcoll_world_group(world), NULL, NULL);
        if (status != SYMMCOLL_OK)
            return complain("barrier", status);
        if (i == 4 && (rank == VICTIM || (rank == 1 && how[0] == 'p')))
            come_to_a_bad_end(how);
    }
    status = symmcoll_finalize(world);
    return status == SYMMCOLL_OK ? 0 : complain("finalize", status);
}
