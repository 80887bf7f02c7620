/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Detection of how ranks, processors or devices are connected, as a matrix.
 */
#include "base/topology.h"
#include "devices/nvml.h"
#include "group/group.h"
#include "run/call.h"

#include <symmcoll/connectivity.h>

#include <limits.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>

#define WHERE "connectivity_detect"
#define WORDS 16 /* processors that ranks exchange, by 64 */

enum {
    KIND_HOST,
    KIND_DIRECT,
    KIND_CACHE,
    KIND_NUMA,
    KIND_NVLINK,
    KINDS
};

static const char *const kinds[KINDS] = {
    "host", "direct", "cache", "numa", "nvlink"};

static const struct symmcoll_connectivity none = SYMMCOLL_CONNECTIVITY_INIT;
static const struct symc_sized connectivity_kind = {.name = "connectivity",
    .macro = "SYMMCOLL_CONNECTIVITY_INIT",
    .defaults = &none,
    .nbytes = sizeof(none),
    .least = sizeof(none)};

/* Data that a rank sends to the others. */
struct place {
    uint64_t kind;
    uint64_t processors[WORDS];
};

/* A request for a matrix, and its sources. */
struct detection {
    int kind;
    struct symmcoll_world *world; /* NULL: rows are processors */
    struct symc_topology topology;
    struct symc_nvml nvml;
    struct place *places; /* per rank */
    int count;
};

/* ---- one value of the matrix ---- */

static int compare(const struct detection *detection,
    const struct symc_processor *a, const struct symc_processor *b)
{
    if (detection->kind == KIND_CACHE)
        return symc_topology_cache(a, b);
    return detection->kind == KIND_NUMA ? symc_topology_distance(a, b) : 1;
}

static bool is_on(const struct place *place, int processor)
{
    return processor < WORDS * 64 &&
           (place->processors[processor / 64] >> processor % 64 & 1) != 0;
}

/* Returns the farther of two values: for caches the higher level, or 0 for none
 * shared. */
static int farther(const struct detection *detection, int a, int b)
{
    if (detection->kind == KIND_CACHE && (a == 0 || b == 0))
        return 0;
    return a > b ? a : b;
}

/* Returns the farthest value between a processor of one rank and one of the
 * other. */
static int compare_places(
    const struct detection *detection, int rank, int other)
{
    const struct symc_topology *topology = &detection->topology;
    int farthest = -1;

    for (int i = 0; i < topology->count; i++) {
        const struct symc_processor *a = &topology->processors[i];

        if (!is_on(&detection->places[rank], a->number))
            continue;
        for (int j = 0; j < topology->count; j++) {
            const struct symc_processor *b = &topology->processors[j];
            int value;

            if (!is_on(&detection->places[other], b->number))
                continue;
            value = compare(detection, a, b);
            farthest =
                farthest < 0 ? value : farther(detection, farthest, value);
        }
    }
    return farthest < 0 ? 0 : farthest;
}

static int find_value(const struct detection *detection, int row, int column)
{
    const struct symc_topology *topology = &detection->topology;
    struct symmcoll_world *world = detection->world;
    bool here;

    if (detection->kind == KIND_NVLINK)
        return detection->nvml.links[row * detection->count + column];
    if (world == NULL)
        return compare(detection, &topology->processors[row],
            &topology->processors[column]);
    here = world->peers == NULL || (world->peers[row].view.block != NULL &&
                                       world->peers[column].view.block != NULL);
    if (row == column)
        here = true;
    if (detection->kind == KIND_HOST || detection->kind == KIND_DIRECT)
        return here;
    return here ? compare_places(detection, row, column) : 0;
}

/* ---- processors of the ranks ---- */

static void find_own(struct place *place)
{
    size_t nbytes = sizeof(place->processors);

    /* A rank without a list shares nothing. */
    if (sched_getaffinity(0, nbytes, (cpu_set_t *)(void *)place->processors) !=
        0)
        memset(place->processors, 0, nbytes);
}

static bool want_same_kind(const void *places, int a, int b)
{
    const struct place *all = places;

    return all[a].kind == all[b].kind;
}

static symmcoll_status_t tell_places(struct detection *detection)
{
    struct symmcoll_group *all = detection->world->all;
    struct place mine = {.kind = (uint64_t)detection->kind};
    uint64_t ticket;
    symmcoll_status_t status;

    find_own(&mine);
    status =
        symc_run_take_ticket(&all->runner, SYMC_DETECT_CONNECTIVITY, &ticket);
    if (status != SYMMCOLL_OK)
        return status;
    symc_queue_settle(all->runner.queue);
    status = symc_run_round(&all->runner, SYMC_DETECT_CONNECTIVITY, &mine,
        detection->places, sizeof(mine),
        atomic_load_explicit(&all->runner.timeout_ns, memory_order_relaxed));
    symc_queue_leave(all->runner.queue, ticket);
    if (status != SYMMCOLL_OK)
        return status;
    for (int r = 0; r < all->runner.size; r++) {
        uint64_t found = detection->places[r].kind;

        if (found == mine.kind)
            continue;
        (void)symc_fail(SYMMCOLL_ERR_MISMATCH,
            WHERE ": kind differs: rank %d requested %s, rank %d %s",
            all->runner.rank, kinds[mine.kind], r,
            found < KINDS ? kinds[found] : "something else");
        return symc_error_add_odd(
            &all->runner.members.ranks, want_same_kind, detection->places);
    }
    return SYMMCOLL_OK;
}

/* ---- the matrix ---- */

static int find_number(const struct detection *detection, int row)
{
    if (detection->world != NULL || detection->kind == KIND_NVLINK)
        return row;
    return detection->topology.processors[row].number;
}

static const char *find_device(const struct detection *detection)
{
    if (detection->kind == KIND_NVLINK)
        return "gpu";
    return detection->world == NULL ? "processor" : "rank";
}

static symmcoll_status_t fill(const struct detection *detection,
    struct symmcoll_connectivity *connectivity)
{
    size_t count = (size_t)detection->count;
    int *numbers = symc_alloc(count, sizeof(*numbers));
    int *values = symc_alloc(count * count, sizeof(*values));
    struct symmcoll_connectivity filled = {.size = sizeof(filled),
        .kind = kinds[detection->kind],
        .device = find_device(detection),
        .count = detection->count,
        .numbers = numbers,
        .values = values};
    symmcoll_status_t status = SYMMCOLL_ERR_NO_MEMORY;

    for (int i = 0; numbers != NULL && values != NULL && i < detection->count;
         i++) {
        numbers[i] = find_number(detection, i);
        for (int j = 0; j < detection->count; j++)
            values[(size_t)i * count + (size_t)j] = find_value(detection, i, j);
    }
    if (numbers != NULL && values != NULL)
        status =
            symc_sized_write(&connectivity_kind, WHERE, &filled, connectivity);
    if (status == SYMMCOLL_OK)
        return status;
    free(numbers);
    free(values);
    return status;
}

static symmcoll_status_t find_kind(const char *kind, int *found)
{
    for (int i = 0; kind != NULL && i < KINDS; i++) {
        if (strcmp(kind, kinds[i]) == 0) {
            *found = i;
            return SYMMCOLL_OK;
        }
    }
    return symc_fail(SYMMCOLL_ERR_INVALID,
        WHERE ": expected a kind of host, direct, cache, numa or nvlink, found "
              "%s",
        kind == NULL ? "NULL" : kind);
}

static symmcoll_status_t check(struct symmcoll_world *world, const char *kind,
    const struct symmcoll_connectivity *connectivity, int *found)
{
    symmcoll_status_t status = find_kind(kind, found);

    if (status != SYMMCOLL_OK)
        return status;
    if (connectivity == NULL)
        return symc_fail(SYMMCOLL_ERR_INVALID,
            WHERE ": expected a place for the matrix, found NULL");
    if (world != NULL && *world->all->alive != 1)
        return symc_group_refuse(world->all, SYMC_DETECT_CONNECTIVITY);
    if (*found == KIND_NVLINK && world != NULL)
        return symc_fail(SYMMCOLL_ERR_UNSUPPORTED,
            WHERE ": nvlink is between devices, not ranks: expected NULL for "
                  "the world");
    return SYMMCOLL_OK;
}

static symmcoll_status_t detect_links(
    struct detection *detection, struct symmcoll_connectivity *connectivity)
{
    symmcoll_status_t status = symc_nvml_open(&detection->nvml);

    if (status != SYMMCOLL_OK)
        return status;
    detection->count = detection->nvml.count;
    status = fill(detection, connectivity);
    symc_nvml_close(&detection->nvml);
    return status;
}

symmcoll_status_t symmcoll_connectivity_detect(struct symmcoll_world *world,
    const char *kind, struct symmcoll_connectivity *connectivity)
{
    struct detection detection = {.world = world};
    symmcoll_status_t status =
        check(world, kind, connectivity, &detection.kind);

    if (status != SYMMCOLL_OK)
        return status;
    if (world != NULL && world->fake != NULL)
        return symc_fail(SYMMCOLL_ERR_UNSUPPORTED,
            WHERE ": the other ranks of a fake world are nowhere");
    if (detection.kind == KIND_NVLINK)
        return detect_links(&detection, connectivity);
    status = symc_topology_open(&detection.topology);
    if (status != SYMMCOLL_OK)
        return status;
    detection.count = detection.topology.count;
    if (world != NULL) {
        detection.count = world->size;
        detection.places =
            symc_alloc((size_t)world->size, sizeof(*detection.places));
        status = detection.places == NULL ? SYMMCOLL_ERR_NO_MEMORY
                                          : tell_places(&detection);
    }
    if (status == SYMMCOLL_OK)
        status = fill(&detection, connectivity);
    symc_topology_close(&detection.topology);
    free(detection.places);
    return status;
}

void symmcoll_connectivity_free(struct symmcoll_connectivity *connectivity)
{
    if (connectivity == NULL)
        return;
    free((void *)connectivity->numbers);
    free((void *)connectivity->values);
    connectivity->numbers = NULL;
    connectivity->values = NULL;
    connectivity->count = 0;
}
