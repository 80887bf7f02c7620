/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Tests a program that closes all descriptors it did not open, as daemons and
 * some libraries do, and then opens others: the library does not mistake the
 * new descriptors for its peers' pidfds. If descriptors are closed during
 * init, init fails with that reason.
 */
#include "t/ranks.h"
#include "t/tap.h"
#include "t/world/faults.h"

#include <fcntl.h>
#include <pthread.h>
#include <unistd.h>

#define SIZE 3
#define REOPENED 24 /* more descriptors than the library has */

static int close_and_open(struct faults_rank *self)
{
    bool good = faults_init(self) && faults_barrier(self) == SYMMCOLL_OK;
    int readable;

    if (!good)
        return 1;
    closefrom(3);
    do /* always readable, like the pidfd of a dead process */
        readable = open("/proc/self/exe", O_RDONLY);
    while (readable >= 0 && readable < REOPENED);
    usleep(150000); /* some rounds of the monitor */
    good = readable >= 0 && faults_barrier(self) == SYMMCOLL_OK &&
           symmcoll_group_error(self->group) == SYMMCOLL_OK;
    faults_note(self, good ? SYMMCOLL_OK : SYMMCOLL_ERR_INTERNAL);
    closefrom(3);
    return faults_finalize(self) != 0 || !good;
}

/* Closes descriptors once the rank waits for the others. */
static void *close_soon(void *arg)
{
    faults_pass(arg, 1);
    closefrom(3);
    return NULL;
}

static int close_while_joining(struct faults_rank *self)
{
    pthread_t thread;
    bool joined, closes = false;

    if (self->rank == 2)
        faults_pass(self, 2);
    if (self->rank == 1)
        closes = pthread_create(&thread, NULL, close_soon, self) == 0;
    faults_reach(self, 1);
    joined = faults_init(self);
    if (closes)
        pthread_join(thread, NULL);
    return joined ? faults_finalize(self) : 0;
}

static void close_connection(void)
{
    struct faults_job job;
    bool good;

    faults_start(&job, SIZE, close_while_joining, NULL);
    good = faults_await_asleep(&job, 0, 1) && faults_await_asleep(&job, 1, 1);
    faults_open(&job, 1);
    good =
        faults_said(faults_told(&job, 1, 0), SYMMCOLL_ERR_SYSTEM,
            "this rank's connection to the bootstrap server: Bad file", NULL) &&
        good;
    faults_open(&job, 2);
    ok(faults_finish(&job, 0) && good,
        "a rank that closes its connection does not call another one dead");
}

int main(void)
{
    struct faults_job job;
    bool good;

#ifdef __SANITIZE_THREAD__
    skip_all("a descriptor that is closed under other threads is a race");
#endif
    plan(2);
    faults_begin();
    faults_start(&job, SIZE, close_and_open, NULL);
    good = faults_finish(&job, 0);
    ok(faults_clear_dumps(0) && good,
        "other descriptors in place of the library's are no death");
    close_connection();
    faults_end();
    return done_testing();
}
