/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Tests the timeout of a rendezvous, which covers all of it: its rounds and
 * the exchange of memfds. The linker makes the library call the wrappers here,
 * which record the time allowed for each round and keep a rank from the
 * exchange.
 */
#include "t/symm_mem/symm.h"
#include "t/world/faults.h"

#include "group/group.h"

#include <stdlib.h>

#define SIZE 3
#define LATE 1
#define LONG 3600.0 /* seconds */

symmcoll_status_t __real_symc_run_round(struct symc_runner *runner,
    enum symc_kind kind, const void *mine, void *all, size_t nbytes,
    int64_t timeout_ns);
symmcoll_status_t __wrap_symc_run_round(struct symc_runner *runner,
    enum symc_kind kind, const void *mine, void *all, size_t nbytes,
    int64_t timeout_ns);
symmcoll_status_t __real_symc_run_exchange_until(
    struct symc_runner *runner, int fd, int64_t deadline_ns, int *fds);
symmcoll_status_t __wrap_symc_run_exchange_until(
    struct symc_runner *runner, int fd, int64_t deadline_ns, int *fds);

/* State of this thread: the number of rounds, and whether each was allowed
 * less time than the one before. */
static _Thread_local int rounds, exchanges;
static _Thread_local int64_t last_ns = (int64_t)(2 * LONG * 1e9);
static _Thread_local bool descends = true;
static struct faults_rank *late; /* the absent rank */

symmcoll_status_t __wrap_symc_run_round(struct symc_runner *runner,
    enum symc_kind kind, const void *mine, void *all, size_t nbytes,
    int64_t timeout_ns)
{
    if (kind == SYMC_SYMM_RENDEZVOUS) {
        rounds++;
        descends = descends && timeout_ns < last_ns;
        last_ns = timeout_ns;
    }
    return __real_symc_run_round(runner, kind, mine, all, nbytes, timeout_ns);
}

symmcoll_status_t __wrap_symc_run_exchange_until(
    struct symc_runner *runner, int fd, int64_t deadline_ns, int *fds)
{
    exchanges++;
    if (late != NULL) {
        faults_reach(late, 1);
        faults_pass(late, 2);
    }
    descends =
        descends && deadline_ns <= symc_deadline_ns(symc_now_ns(), last_ns);
    return __real_symc_run_exchange_until(runner, fd, deadline_ns, fds);
}

static int one_deadline_is_of_all(struct symmcoll_group *group, int rank)
{
    struct symmcoll_call call = faults_timeout(LONG);
    struct symmcoll_symm *handle;
    void *data;

    (void)rank;
    return OK(symmcoll_symm_alloc(
               symmcoll_group_world(group), 8192, NULL, &data)) &&
           OK(symmcoll_symm_rendezvous(group, data, &call, &handle)) &&
           HOLDS(rounds == 2 && exchanges == 1) &&
           HOLDS(descends && last_ns < (int64_t)(LONG * 1e9)) &&
           part(group, data, handle);
}

/* One rank does not join the exchange, in which timeouts.init is not the
 * timeout of the others. */
static int stay_away(struct faults_rank *self)
{
    struct symmcoll_call call = faults_timeout(self->rank == LATE ? 60 : 0.3);
    struct symmcoll_symm *handle;
    void *data;

    if (!faults_init(self) ||
        symmcoll_symm_alloc(self->world, 8192, NULL, &data) != SYMMCOLL_OK)
        return 1;
    late = self->rank == LATE ? self : NULL;
    faults_note(
        self, symmcoll_symm_rendezvous(self->group, data, &call, &handle));
    if (self->rank != LATE)
        faults_reach(self, 3);
    faults_pass(self, 2);
    return faults_finalize(self);
}

static void an_exchange_ends_in_time(void)
{
    struct faults_job job;
    bool right;

    faults_start(&job, SIZE, stay_away, NULL);
    right = faults_await(&job, LATE, 1) && faults_await(&job, 0, 3) &&
            faults_await(&job, 2, 3);
    faults_open(&job, 2);
    for (int r = 0; r < SIZE; r++)
        faults_reap(&job, r);
    for (int r = 0; r < SIZE; r++)
        right = HOLDS(faults_told(&job, r, 0)->status < 0) && right;
    right = (faults_told(&job, 0, 0)->status == SYMMCOLL_ERR_TIMEOUT ||
                faults_told(&job, 2, 0)->status == SYMMCOLL_ERR_TIMEOUT) &&
            right;
    ok(faults_finish(&job, 0) && right,
        "a rank that stays away from the exchange is not waited for longer");
}

int main(void)
{
    plan(3);
    faults_begin();
    setenv("SYMMCOLL_SYMM_MEM_MEMFD_MIN", "0", 1);
    setenv("SYMMCOLL_TIMEOUTS_INIT", "10min", 1);
    groups_both(3, one_deadline_is_of_all,
        "each part of a rendezvous may take what is left of its timeout");
    an_exchange_ends_in_time();
    faults_end();
    return done_testing();
}
