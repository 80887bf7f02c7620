/* SPDX-License-Identifier: BSD-3-Clause */
/* Reads processors, their caches and the distances of their memory. */
#include "base/topology.h"
#include "base/descriptor.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SYSTEM "/sys/devices/system/"
#define NODES_MAX 1024

/* Reads the first line of a file.  Returns false if it cannot be read. */
static SYMC_PRINTF(3, 4) bool read_line(
    char *line, size_t nbytes, const char *format, ...)
{
    char path[128];
    va_list list;
    FILE *file;
    bool found;

    va_start(list, format);
    vsnprintf(path, sizeof(path), format, list);
    va_end(list);
    file = symc_descriptor_read_file(path);
    if (file == NULL)
        return false;
    found = fgets(line, (int)nbytes, file) != NULL;
    fclose(file);
    return found;
}

/* Returns the next number of a list such as "0-3,8", or -1 at its end. at is
 * the position in the list, last the previous number, -1 at the start. */
static int next_of(const char **at, int last)
{
    char *end;
    long number, limit;

    while (**at >= '0' && **at <= '9') {
        number = strtol(*at, &end, 10);
        limit = *end == '-' ? strtol(end + 1, &end, 10) : number;
        if (last < number)
            return (int)number;
        if (last < limit)
            return last + 1;
        *at = *end == ',' ? end + 1 : end;
    }
    return -1;
}

static int count_list(const char *list)
{
    int count = 0, number = -1;

    while ((number = next_of(&list, number)) >= 0)
        count++;
    return count;
}

static void read_caches(struct symc_processor *processor)
{
    char line[4096], type[32];

    for (int i = 0; processor->caches < SYMC_CACHES_MAX; i++) {
        struct symc_cache *cache = &processor->cache[processor->caches];

        if (!read_line(type, sizeof(type),
                SYSTEM "cpu/cpu%d/cache/index%d/type", processor->number, i))
            return;
        if (type[0] == 'I' ||
            !read_line(line, sizeof(line),
                SYSTEM "cpu/cpu%d/cache/index%d/level", processor->number, i))
            continue;
        cache->level = (int)strtol(line, NULL, 10);
        if (!read_line(line, sizeof(line),
                SYSTEM "cpu/cpu%d/cache/index%d/shared_cpu_list",
                processor->number, i))
            continue;
        cache->first = (int)strtol(line, NULL, 10);
        processor->caches++;
    }
}

static void read_nodes(struct symc_topology *topology)
{
    char nodes[4096], line[4096];
    const char *at = nodes;
    int node = -1;

    if (!read_line(nodes, sizeof(nodes), SYSTEM "node/online"))
        return;
    while ((node = next_of(&at, node)) >= 0) {
        const char *list = line;
        int number = -1;

        if (!read_line(line, sizeof(line), SYSTEM "node/node%d/cpulist", node))
            continue;
        while ((number = next_of(&list, number)) >= 0) {
            for (int i = 0; i < topology->count; i++) {
                if (topology->processors[i].number == number)
                    topology->processors[i].node = node;
            }
        }
    }
}

symmcoll_status_t symc_topology_open(struct symc_topology *topology)
{
    char line[4096];
    const char *at = line;
    int number = -1;

    *topology = (struct symc_topology){.count = 0};
    if (!read_line(line, sizeof(line), SYSTEM "cpu/online"))
        return symc_fail(SYMMCOLL_ERR_SYSTEM,
            "topology: expected a list of processors in %s, found none",
            SYSTEM "cpu/online");
    topology->processors =
        symc_alloc((size_t)count_list(line), sizeof(*topology->processors));
    if (topology->processors == NULL)
        return SYMMCOLL_ERR_NO_MEMORY;
    while ((number = next_of(&at, number)) >= 0) {
        struct symc_processor *processor =
            &topology->processors[topology->count++];

        processor->number = number;
        read_caches(processor);
    }
    read_nodes(topology);
    return SYMMCOLL_OK;
}

void symc_topology_close(struct symc_topology *topology)
{
    free(topology->processors);
    topology->processors = NULL;
}

int symc_topology_cache(
    const struct symc_processor *a, const struct symc_processor *b)
{
    int nearest = 0;

    for (int i = 0; i < a->caches; i++) {
        for (int j = 0; j < b->caches; j++) {
            int level = a->cache[i].level;

            if (level == b->cache[j].level &&
                a->cache[i].first == b->cache[j].first &&
                (nearest == 0 || level < nearest))
                nearest = level;
        }
    }
    return nearest;
}

int symc_topology_distance(
    const struct symc_processor *a, const struct symc_processor *b)
{
    char line[4096], *at = line;
    int distance = SYMC_DISTANCE_NEAR;

    if (a->node == b->node ||
        !read_line(line, sizeof(line), SYSTEM "node/node%d/distance", a->node))
        return distance;
    for (int node = 0; node <= b->node; node++)
        distance = (int)strtol(at, &at, 10);
    return distance;
}
