/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Tests the abort of an NCCL communicator: if NCCL supports it the
 * communicator is first revoked, and aborted when it is quiet, or after a
 * while.
 */
#include "t/nccl/opened.h"

/* Checks that the communicator is aborted, and how often it was revoked and
 * quiet before. */
static int stopped(int revoked, int quiet)
{
    symc_cuda_comm_abort(members[0].comm);
    for (int i = 0; i < 20000 && atomic_load(&fake->aborted) == 0; i++)
        usleep(500);
    if (atomic_load(&fake->revoked) != revoked ||
        atomic_load(&fake->quiet) != quiet)
        return diag("%d are revoked, %d quiet", atomic_load(&fake->revoked),
                   atomic_load(&fake->quiet)),
               0;
    close_one(&members[0]);
    return ended(0, 1);
}

static int an_abort_revokes_it(void *unused)
{
    (void)unused;
    if (!load(1) || !opened())
        return 0;
    atomic_store(&fake->slow, 7);
    return stopped(1, 1);
}

static int one_that_stays_busy_is_aborted(void *unused)
{
    (void)unused;
    if (!load(1) || !opened())
        return 0;
    atomic_store(&fake->restless, 1);
    return stopped(1, 0);
}

static int one_that_cannot_be_revoked_is_aborted(void *unused)
{
    (void)unused;
    if (!load(1) || !opened())
        return 0;
    atomic_store(&fake->revoke_result, SYMC_NCCL_INVALID_ARGUMENT);
    return stopped(0, 0);
}

static int it_needs_a_version(void *unused)
{
    (void)unused;
    if (!load(1))
        return 0;
    members[0].nccl.comm_revoke = NULL;
    return opened() && stopped(0, 0);
}

static int one_that_ends_is_not_revoked(void *unused)
{
    (void)unused;
    if (!load(SIZE) || !opened())
        return 0;
    atomic_store(&fake->finalize_result, SYMC_NCCL_INTERNAL_ERROR);
    return all_do(close_one, SIZE) && ended(0, SIZE) &&
           atomic_load(&fake->revoked) == 0;
}

int main(void)
{
    plan(5);
    ok(run_child(an_abort_revokes_it, NULL),
        "who aborts it has it revoked, and aborted when it is quiet");
    ok(run_child(one_that_stays_busy_is_aborted, NULL),
        "one that does not become quiet is aborted all the same");
    ok(run_child(one_that_cannot_be_revoked_is_aborted, NULL),
        "so is one that cannot be revoked");
    ok(run_child(it_needs_a_version, NULL),
        "and one of an NCCL that revokes none");
    ok(run_child(one_that_ends_is_not_revoked, NULL),
        "one whose end fails is not revoked");
    return done_testing();
}
