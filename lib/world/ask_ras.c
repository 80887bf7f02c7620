/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A thread that queries NCCL's RAS service about the job and writes this rank's
 * record again with the answer.  The monitor goes on during the query, since
 * another rank may die.  One query runs at a time; only the monitor's thread
 * starts and ends it.
 */
#include "base/thread.h"
#include "devices/ras.h"
#include "world/world.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct symc_ras_question {
    struct symmcoll_world *world;
    pthread_t thread;
    _Atomic uint32_t over; /* the thread does not use this struct any more */
    uint32_t flags;        /* flags of the record */
    const char *reason;
    struct symc_trace_ras ras;
    char address[]; /* a copy: the program may change its environment */
};

/* On failure the record without the answer remains. */
static void write_again(const struct symc_ras_question *question)
{
    const struct symmcoll_world *world = question->world;

    (void)symc_world_dump(world, world->rank, NULL, question->flags,
        question->reason, &question->ras);
}

static void *ask(void *arg)
{
    struct symc_ras_question *question = arg;
    struct symmcoll_world *world = question->world;

    symc_trace_ras_ask(
        question->address, world->config->trace_nccl_ras, &question->ras);
    write_again(question);
    atomic_store(&question->over, 1);
    symc_world_alarm(world);
    return NULL;
}

void symc_world_ask_ras(
    struct symmcoll_world *world, uint32_t flags, const char *reason)
{
    const char *address = symc_trace_ras_find();
    struct symc_ras_question *question;
    size_t length;

    if (world->config->trace_nccl_ras == 0 || address == NULL ||
        atomic_load(&world->nccl_comms) == 0 || world->monitor.ras != NULL)
        return;
    length = strlen(address) + 1;
    question = symc_alloc(1, sizeof(*question) + length);
    if (question == NULL)
        return;
    question->world = world;
    question->flags = flags;
    question->reason = reason;
    memcpy(question->address, address, length);
    if (symc_thread_start(&question->thread, "symc-ras", SYMC_STACK_SMALL, ask,
            question) == SYMMCOLL_OK) {
        world->monitor.ras = question;
        return;
    }
    snprintf(question->ras.error, sizeof(question->ras.error), "%s",
        symmcoll_last_error());
    write_again(question);
    free(question);
}

bool symc_world_asks_ras(struct symmcoll_world *world, bool wait)
{
    struct symc_ras_question *question = world->monitor.ras;

    if (question == NULL)
        return false;
    if (!wait && atomic_load(&question->over) == 0)
        return true;
    pthread_join(question->thread, NULL);
    world->monitor.ras = NULL;
    free(question);
    return false;
}
