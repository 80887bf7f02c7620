/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Tests members that die or do not arrive while device memory is joined: all
 * others learn which member it was, none waits forever or has joined, and
 * other groups continue.
 */
#include "t/attempts.h"
#include "t/cuda/joined.h"
#include "t/world/others.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SIZE 3
#define VICTIM 1
#define NBYTES ((size_t)10000)

/* The failure of the victim. */
struct plan {
    const char *call; /* the driver call in which it dies; NULL: it does not
                     * arrive */
    double seconds;   /* timeout of the others */
};

static symmcoll_status_t join(struct symmcoll_group *group, void *memory,
    double seconds, struct symc_joined **joined)
{
    uint64_t ticket;
    const struct symc_op op = {.kind = SYMC_SYMM_RENDEZVOUS};
    symmcoll_status_t status;

    (void)symc_queue_enter(group->runner.queue, NULL, &ticket);
    status = symc_slot_join(&group->runner, &op,
        (struct symc_slot_memory){
            .backend = joined_backend(group), .memory = memory},
        symc_now_ns() + (int64_t)(seconds * (double)SYMC_NS_PER_S), joined);

    symc_queue_leave(group->runner.queue, ticket);
    return status;
}

/* Joins the same memory without the victim. */
static bool goes_on(struct symmcoll_group *other, int rank, void *memory)
{
    struct symc_joined *joined = NULL;
    bool right = joined_open(other, rank / 2) &&
                 joined_join(other, memory, &joined) == SYMMCOLL_OK &&
                 joined_is_common(other, rank / 2, joined, true);

    if (!right)
        diag("rank %d: %s", rank, symmcoll_last_error());
    if (joined != NULL)
        joined_backend(other)->mem->leave(joined);
    return right;
}

static int joins(struct faults_rank *self)
{
    const struct plan *plan = self->arg;
    struct symmcoll_group *other;
    struct symc_joined *joined = NULL;
    void *memory, *at = NULL;
    bool right;

    if (!faults_init(self))
        return 1;
    device_use(self->rank);
    other = others_group(self, VICTIM);
    if (!joined_open(self->group, self->rank))
        return 1;
    memory = joined_alloc(self->group, self->rank, NBYTES, &at);
    if (self->rank == VICTIM && plan->call != NULL)
        fake_configure(plan->call);
    if (self->rank == VICTIM && plan->call == NULL)
        faults_pass(self, 1);
    else
        faults_note(self, join(self->group, memory, plan->seconds, &joined));
    right = self->rank == VICTIM || goes_on(other, self->rank, memory);
    joined_backend(self->group)->mem->free(memory);
    faults_reach(self, 1);
    return faults_finalize(self) != 0 || !right || joined != NULL;
}

static void test_deaths(void)
{
    static const char *const calls[] = {
        "fail=cuMemExportToShareableHandle:1:-9", "fail=cuMemMap:1:-9",
        "fail=cuMemImportFromShareableHandle:1:-9", "fail=cuMemMap:2:-9",
        "fail=cuMemSetAccess:3:-9", "fail=cuMulticastAddDevice:1:-9",
        "fail=cuMulticastBindMem:1:-9"};
    struct faults_job job;

    for (size_t i = 0; i < sizeof(calls) / sizeof(*calls); i++) {
        struct plan plan = {calls[i], 60};
        bool told;

        faults_start(&job, SIZE, joins, &plan);
        told = others_await(&job, VICTIM, 1) && others_know_death(&job, VICTIM);
        ok(faults_finish(&job, 1u << VICTIM) && told,
            "a member that dies (%s): all are told, and join without it",
            calls[i]);
    }
}

static bool absence_is_told(double seconds, void *arg)
{
    struct plan plan = {NULL, seconds};
    struct faults_job job;
    bool told;

    (void)arg;
    faults_start(&job, SIZE, joins, &plan);
    told = others_await(&job, VICTIM, 1);
    faults_open(&job, 1);
    told = faults_await(&job, VICTIM, 1) && told;
    for (int r = 0; r < SIZE; r += 2)
        told = faults_said(faults_told(&job, r, 0), SYMMCOLL_ERR_TIMEOUT,
                   "rank 1", NULL) &&
               told;
    return faults_finish(&job, 0) && told;
}

int main(void)
{
    device_begin();
    fake_configure("multicast=1");
    faults_begin();
    test_deaths();
    ok(attempts_hold(absence_is_told, 0.5, NULL),
        "a member that does not come in time is named");
    faults_end();
    return done_testing();
}
