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

struct symc_ras_query {
    struct symmcoll_world *world;
    pthread_t thread;
    _Atomic uint32_t over; /* the thread does not use this struct any more */
    uint32_t flags;        /* flags of the record */
    const char *reason;
    struct symc_trace_ras ras;
    char address[]; /* a copy: the program may change its environment */
};

/* On failure the record without the answer remains. */
static void write_again(const struct symc_ras_query *query)
{
    const struct symmcoll_world *world = query->world;

    (void)symc_world_dump(
        world, world->rank, NULL, query->flags, query->reason, &query->ras);
}

static void *run_query(void *arg)
{
    struct symc_ras_query *query = arg;
    struct symmcoll_world *world = query->world;

    symc_trace_ras_query(
        query->address, world->config->trace_nccl_ras, &query->ras);
    write_again(query);
    atomic_store(&query->over, 1);
    symc_world_alarm(world);
    return NULL;
}

void symc_world_query_ras(
    struct symmcoll_world *world, uint32_t flags, const char *reason)
{
    const char *address = symc_trace_ras_find();
    struct symc_ras_query *query;
    size_t length;

    if (world->config->trace_nccl_ras == 0 || address == NULL ||
        atomic_load(&world->nccl_comms) == 0 || world->monitor.ras != NULL)
        return;
    length = strlen(address) + 1;
    query = symc_alloc(1, sizeof(*query) + length);
    if (query == NULL)
        return;
    query->world = world;
    query->flags = flags;
    query->reason = reason;
    memcpy(query->address, address, length);
    if (symc_thread_start(&query->thread, "symc-ras", SYMC_STACK_SMALL,
            run_query, query) == SYMMCOLL_OK) {
        world->monitor.ras = query;
        return;
    }
    snprintf(query->ras.error, sizeof(query->ras.error), "%s",
        symmcoll_last_error());
    write_again(query);
    free(query);
}

bool symc_world_queries_ras(struct symmcoll_world *world, bool wait)
{
    struct symc_ras_query *query = world->monitor.ras;

    if (query == NULL)
        return false;
    if (!wait && atomic_load(&query->over) == 0)
        return true;
    pthread_join(query->thread, NULL);
    world->monitor.ras = NULL;
    free(query);
    return false;
}
