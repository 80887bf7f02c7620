/* SPDX-License-Identifier: BSD-3-Clause */
/* The ranks' side of faults.h. */
#include "t/world/faults.h"
#include "world/world.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

bool faults_init(struct faults_rank *self)
{
    struct symmcoll_init_args args = SYMMCOLL_INIT_ARGS_INIT;
    symmcoll_status_t status;

    args.name = self->world_name;
    status = symmcoll_init(&args, &self->world);
    if (status != SYMMCOLL_OK) {
        faults_note(self, status);
        return false;
    }
    snprintf(self->line->rendezvous, sizeof(self->line->rendezvous), "%s",
        self->world->rendezvous.name);
    self->group = symmcoll_world_group(self->world);
    return true;
}

int faults_finalize(struct faults_rank *self)
{
    return symmcoll_finalize(self->world) == SYMMCOLL_OK ? 0 : 1;
}

void faults_reach(struct faults_rank *self, int step)
{
    atomic_store(&self->line->step, step);
}

void faults_pass(const struct faults_rank *self, int step)
{
    while (atomic_load(&self->board->gate) < step)
        faults_rest();
}

symmcoll_status_t faults_note(
    struct faults_rank *self, symmcoll_status_t status)
{
    int n = atomic_load(&self->line->notes);

    if (n < FAULTS_NOTES) {
        struct faults_note *note = &self->line->note[n];

        note->at = faults_now();
        note->status = status;
        snprintf(note->detail, sizeof(note->detail), "%s",
            status < 0 ? symmcoll_last_error() : "");
        atomic_store(&self->line->notes, n + 1);
    }
    return status;
}

symmcoll_status_t faults_barrier(struct faults_rank *self)
{
    return symmcoll_barrier(self->group, NULL, NULL);
}

symmcoll_status_t faults_sum(struct faults_rank *self, float *x, size_t count)
{
    for (size_t i = 0; i < count; i++)
        x[i] = 1;
    return symmcoll_all_reduce(
        self->group, x, x, count, SYMMCOLL_FLOAT32, SYMMCOLL_SUM, NULL, NULL);
}

struct symmcoll_call faults_timeout(double seconds)
{
    struct symmcoll_call call = SYMMCOLL_CALL_INIT;

    call.timeout = seconds;
    return call;
}

_Noreturn void faults_exit(int status)
{
    /* At exit() a sanitizer would report the memory that finalize would have
     * released. */
    if (SANITIZED)
        _exit(status);
    exit(status);
}
