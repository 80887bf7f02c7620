/* SPDX-License-Identifier: BSD-3-Clause */
/* Tests symmetric memory when ranks fail, and system limits. */
#include "t/world/faults.h"
#include "t/sanitized.h"
#include "t/symm_mem/symm.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>

#define SIZE 3
#define VICTIM 2

static bool join_all(
    struct faults_rank *self, void **data, struct symmcoll_symm **handle)
{
    return symmcoll_symm_alloc(self->world, 4096, NULL, data) == SYMMCOLL_OK &&
           symmcoll_symm_rendezvous(self->group, *data, NULL, handle) ==
               SYMMCOLL_OK;
}

/* ---- a death ---- */

static int die_before_joining(struct faults_rank *self)
{
    struct symmcoll_symm *handle;
    void *data;

    if (!faults_init(self) ||
        symmcoll_symm_alloc(self->world, 4096, NULL, &data) != SYMMCOLL_OK)
        return 1;
    faults_reach(self, 1);
    if (self->rank == VICTIM)
        pause();
    faults_note(
        self, symmcoll_symm_rendezvous(self->group, data, NULL, &handle));
    return faults_finalize(self);
}

/* The victim has not taken one signal and has not put another: ranks that wait
 * for it, or for another rank, get an error. */
static int die_with_a_signal(struct faults_rank *self)
{
    struct symmcoll_symm *handle;
    symmcoll_status_t status;
    int *data, *theirs, wait = *(const int *)self->arg;

    if (!faults_init(self) || !join_all(self, (void **)&data, &handle))
        return 1;
    data[0] = self->rank + 1;
    if (symmcoll_symm_barrier(handle, 0, -1) != SYMMCOLL_OK)
        return 1;
    if (self->rank == VICTIM &&
        symmcoll_symm_put_signal(handle, 1, 1, -1) != SYMMCOLL_OK)
        return 1;
    if (self->rank != VICTIM &&
        symmcoll_symm_put_signal(handle, VICTIM, 1, -1) != SYMMCOLL_OK)
        return 1;
    faults_reach(self, 1);
    if (self->rank == VICTIM)
        pause();
    status = wait == 0   ? symmcoll_symm_wait_signal(handle, VICTIM, 2, -1)
             : wait == 1 ? symmcoll_symm_put_signal(handle, VICTIM, 1, -1)
                         : symmcoll_symm_barrier(handle, 3, -1);
    faults_note(self, status);
    faults_note(self, symmcoll_symm_put_signal(handle, 0, 5, -1));
    /* A signal that the victim had put is still there, and so is its memory. */
    if (self->rank == 1 &&
        symmcoll_symm_wait_signal(handle, VICTIM, 1, -1) != SYMMCOLL_OK)
        return 1;
    if (symmcoll_symm_buffer(handle, VICTIM, 0, 4, (void **)&theirs) !=
            SYMMCOLL_OK ||
        theirs[0] != VICTIM + 1)
        return 1;
    symmcoll_symm_release(handle);
    return symmcoll_symm_free(self->world, data) == SYMMCOLL_OK
               ? faults_finalize(self)
               : 1;
}

static bool told_of_death(const struct faults_job *job, int n)
{
    bool right = true;
    char who[64];

    for (int r = 0; r < SIZE; r++) {
        const struct faults_note *note = faults_told(job, r, n);

        if (r != VICTIM)
            right = faults_said(note, SYMMCOLL_ERR_PEER,
                        faults_name(job, VICTIM, who), "SIGKILL", NULL) &&
                    note->at - job->killed_at < FAULTS_KNOWN && right;
    }
    return right;
}

static void a_death_ends_what_waits_for_it(void)
{
    static const char *const calls[] = {"wait_signal", "put_signal", "barrier"};
    struct faults_job job;
    bool right;

    faults_start(&job, SIZE, die_before_joining, NULL);
    right = faults_await_all(&job, 1) && faults_await_asleep(&job, 0, 1) &&
            faults_await_asleep(&job, 1, 1);
    faults_signal(&job, VICTIM, SIGKILL);
    faults_reap(&job, 0);
    faults_reap(&job, 1);
    right = right && told_of_death(&job, 0);
    ok(faults_finish(&job, 1u << VICTIM) && right,
        "a rank that dies before the rendezvous ends it, and is named");
    for (int i = 0; i < 3; i++) {
        faults_start(&job, SIZE, die_with_a_signal, &i);
        right = faults_await_all(&job, 1) && faults_await_asleep(&job, 0, 1) &&
                faults_await_asleep(&job, 1, 1);
        faults_signal(&job, VICTIM, SIGKILL);
        faults_reap(&job, 0);
        faults_reap(&job, 1);
        right = right && told_of_death(&job, 0) &&
                faults_said(faults_told(&job, 0, 1), SYMMCOLL_ERR_ABORTED,
                    "symm_put_signal", NULL);
        ok(faults_finish(&job, 1u << VICTIM) && right,
            "a rank that dies holding a signal ends a %s, and is named",
            calls[i]);
    }
}

/* ---- an orderly end ---- */

static int leave_while_others_wait(struct faults_rank *self)
{
    struct symmcoll_symm *handle;
    void *data;

    if (!faults_init(self) || !join_all(self, &data, &handle))
        return 1;
    faults_reach(self, 1);
    if (self->rank == VICTIM) {
        faults_pass(self, 2);
        symmcoll_symm_release(handle);
        return faults_finalize(self);
    }
    faults_note(self, symmcoll_symm_wait_signal(handle, VICTIM, 2, -1));
    faults_pass(self, 3);
    faults_note(self, symmcoll_symm_wait_signal(handle, 1 - self->rank, 2, 0));
    faults_note(self, symmcoll_symm_wait_value32(handle, VICTIM, 0, 1, -1));
    symmcoll_symm_release(handle);
    return faults_finalize(self);
}

static void a_finalized_rank_ends_it(void)
{
    struct faults_job job;
    bool right;

    faults_start(&job, SIZE, leave_while_others_wait, NULL);
    right = faults_await_all(&job, 1) && faults_await_asleep(&job, 0, 1);
    faults_open(&job, 2);
    right = right && faults_await(&job, 0, 1);
    faults_reap(&job, VICTIM);
    faults_open(&job, 3);
    faults_reap(&job, 0);
    faults_reap(&job, 1);
    right = right &&
            faults_said(faults_told(&job, 0, 0), SYMMCOLL_ERR_PEER,
                "symm_wait_signal: rank 2", "has finalized",
                "rank 0 waits for it on channel 2", NULL) &&
            faults_said(faults_told(&job, 0, 1), SYMMCOLL_ERR_TIMEOUT, "rank 1",
                NULL) &&
            faults_said(faults_told(&job, 0, 2), SYMMCOLL_ERR_PEER,
                "rank 0 waits for it (group ", NULL);
    ok(faults_finish(&job, 0) && right,
        "a rank that finalizes ends a wait for it, and fails nothing");
}

/* ---- an abort, and use after the end ---- */

static symmcoll_status_t put_two(struct symmcoll_symm *handle)
{
    symmcoll_status_t status = symmcoll_symm_put_signal(handle, 0, 0, -1);

    return status == SYMMCOLL_OK ? symmcoll_symm_put_signal(handle, 0, 0, -1)
                                 : status;
}

/* arg: the waiting call. */
static int abort_it(struct faults_rank *self)
{
    const int *wait = self->arg;
    struct symmcoll_symm *handle;
    void *data;

    if (!faults_init(self) || !join_all(self, &data, &handle))
        return 1;
    faults_reach(self, 1);
    if (self->rank == 0) {
        faults_pass(self, 2);
        symmcoll_group_abort(self->group, "enough");
        symmcoll_symm_release(handle);
        return faults_finalize(self);
    }
    faults_note(self, *wait == 0   ? symmcoll_symm_barrier(handle, 0, -1)
                      : *wait == 1 ? symmcoll_symm_wait_signal(handle, 0, 0, -1)
                      : *wait == 2
                          ? put_two(handle)
                          : symmcoll_symm_wait_value32(handle, 0, 0, 1, -1));
    faults_note(self, symmcoll_symm_barrier(handle, 0, -1));
    symmcoll_symm_release(handle);
    return faults_finalize(self);
}

static void an_abort_ends_it(void)
{
    static const char *const calls[] = {"symm_barrier", "symm_wait_signal",
        "symm_put_signal", "symm_wait_value32"};
    struct faults_job job;
    bool right;

    for (int i = 0; i < 4; i++) {
        faults_start(&job, SIZE, abort_it, &i);
        right = faults_await_all(&job, 1) && faults_await_asleep(&job, 1, 1) &&
                faults_await_asleep(&job, 2, 1);
        faults_open(&job, 2);
        for (int r = 0; r < SIZE; r++)
            faults_reap(&job, r);
        for (int r = 1; r < SIZE; r++)
            right = faults_said(faults_told(&job, r, 0), SYMMCOLL_ERR_CANCELED,
                        calls[i], "enough", NULL) &&
                    faults_said(faults_told(&job, r, 1), SYMMCOLL_ERR_ABORTED,
                        "symm_barrier", "has failed before", NULL) &&
                    right;
        ok(faults_finish(&job, 0) && right,
            "an abort cancels a %s that waits, and ends those after it",
            calls[i]);
    }
}

static int use_after_the_end(struct faults_rank *self)
{
    struct symmcoll_symm_info info = SYMMCOLL_SYMM_INFO_INIT;
    struct symmcoll_symm *handle;
    void *data;
    uint32_t *pad;

    if (!faults_init(self) || !join_all(self, &data, &handle) ||
        symmcoll_symm_barrier(handle, 0, -1) != SYMMCOLL_OK ||
        symmcoll_finalize(self->world) != SYMMCOLL_OK)
        return 1;
    faults_note(self, symmcoll_symm_put_signal(handle, 0, 0, -1));
    faults_note(self, symmcoll_symm_barrier(handle, 0, -1));
    faults_note(self, symmcoll_symm_buffer(handle, 0, 0, 1, &data));
    faults_note(self, symmcoll_symm_pad(handle, 0, 0, 1, &pad));
    if (symmcoll_symm_get_info(handle, &info) != SYMMCOLL_OK ||
        info.group != NULL)
        return 1;
    symmcoll_symm_release(handle);
    return 0;
}

static void use_after_the_end_is_refused(void)
{
    struct faults_job job;
    bool right = true;

    faults_start(&job, SIZE, use_after_the_end, NULL);
    for (int r = 0; r < SIZE; r++)
        faults_reap(&job, r);
    for (int i = 0; i < FAULTS_NOTES; i++)
        right = faults_said(faults_told(&job, 1, i), SYMMCOLL_ERR_INVALID,
                    "finalized", NULL) &&
                right;
    ok(faults_finish(&job, 0) && right, "a handle after finalize is refused");
}

/* ---- limits ---- */

/* One rank has no addresses, or no descriptors, left for the other ranks'
 * memfds: no rank gets a handle, all get the reason, and the group remains
 * usable. */
static int run_out(struct faults_rank *self)
{
    bool files = *(const int *)self->arg != 0;
    struct rlimit limit;
    int what = files ? RLIMIT_NOFILE : RLIMIT_AS;
    struct symmcoll_symm *handle;
    float x = 1;
    void *data;

    setenv("SYMMCOLL_SYMM_MEM_MEMFD_MIN", "0", 1);
    if (!faults_init(self) ||
        symmcoll_symm_alloc(self->world, (size_t)16 << 20, NULL, &data) !=
            SYMMCOLL_OK ||
        getrlimit(what, &limit) != 0)
        return 1;
    if (self->rank == 1) {
        limit.rlim_cur = files ? 3 : (rlim_t)1 << 20;
        if (setrlimit(what, &limit) != 0)
            return 1;
    }
    faults_note(
        self, symmcoll_symm_rendezvous(self->group, data, NULL, &handle));
    limit.rlim_cur = limit.rlim_max;
    if (setrlimit(what, &limit) != 0)
        return 1;
    if (!files && faults_sum(self, &x, 1) != SYMMCOLL_OK)
        return 1;
    return faults_finalize(self);
}

static void limits_are_errors_of_all(void)
{
    struct faults_job job;
    bool right = true;
    int files = 0;

    if (SANITIZED) {
        skip(1, "a sanitizer needs the addresses");
    } else {
        faults_start(&job, SIZE, run_out, &files);
        for (int r = 0; r < SIZE; r++)
            faults_reap(&job, r);
        for (int r = 0; r < SIZE; r++)
            right = faults_said(faults_told(&job, r, 0), SYMMCOLL_ERR_NO_MEMORY,
                        "rank 1", "RLIMIT_AS", NULL) &&
                    right;
        ok(faults_finish(&job, 0) && right,
            "RLIMIT_AS on one rank: all know, none has a handle, and the group "
            "goes on");
    }
    files = 1;
    faults_start(&job, SIZE, run_out, &files);
    right = true;
    for (int r = 0; r < SIZE; r++)
        faults_reap(&job, r);
    for (int r = 0; r < SIZE; r++)
        right = faults_said(faults_told(&job, r, 0), SYMMCOLL_ERR_SYSTEM,
                    "rank 1", NULL) &&
                right;
    ok(faults_finish(&job, 0) && right,
        "RLIMIT_NOFILE on one rank: all know, and none has a handle");
}

int main(void)
{
    plan(12);
    faults_begin();
    a_death_ends_what_waits_for_it();
    a_finalized_rank_ends_it();
    an_abort_ends_it();
    use_after_the_end_is_refused();
    limits_are_errors_of_all();
    faults_end();
    return done_testing();
}
