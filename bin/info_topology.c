/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Topology of the processors: packages, cores, last-level caches and memory,
 * from hwloc or, without it, from the kernel's files.
 */
#include "info.h"

#include "base/base.h"

#ifdef HAVE_HWLOC
#include <hwloc.h>
#endif

#include <dirent.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* The values that both sources provide. */
struct topology {
    const char *source;
    long packages;
    long cores;
    long threads;
    long l3_groups;
    long numa_nodes;
};

/* Returns the number of processors this process may use. */
static long count_allowed(void)
{
    long count = -1;

    for (int limit = 1024; limit <= 1 << 20 && count < 0; limit *= 4) {
        size_t nbytes = CPU_ALLOC_SIZE(limit);
        cpu_set_t *set = CPU_ALLOC(limit);

        if (set == NULL)
            return -1;
        if (sched_getaffinity(0, nbytes, set) == 0)
            count = CPU_COUNT_S(nbytes, set);
        CPU_FREE(set);
    }
    return count;
}

/* Reads the first line of a file.  Returns false if it cannot be read. */
static bool read_line(const char *path, char *line, size_t nbytes)
{
    FILE *file = fopen(path, "re");
    bool found;

    if (file == NULL)
        return false;
    found = fgets(line, (int)nbytes, file) != NULL;
    fclose(file);
    if (found)
        line[strcspn(line, "\n")] = '\0';
    return found;
}

/* Returns the processor time that a control group grants, in processors; < 0:
 * unlimited. */
static double read_quota(const char *folder)
{
    char path[4200], line[128];
    double quota, period;

    snprintf(path, sizeof(path), "%s/cpu.max", folder);
    if (!read_line(path, line, sizeof(line)) ||
        sscanf(line, "%lf %lf", &quota, &period) != 2 || period <= 0)
        return -1;
    return quota / period;
}

/* Returns the smallest quota from this process's control group up to the root;
 * < 0: none.  Reads the unified hierarchy only. */
static double find_quota(void)
{
    char line[2048], folder[4096] = "";
    FILE *file = fopen("/proc/self/cgroup", "re");
    double least = -1;
    size_t root;

    if (file == NULL)
        return -1;
    while (fgets(line, sizeof(line), file) != NULL)
        if (strncmp(line, "0::", 3) == 0) {
            line[strcspn(line, "\n")] = '\0';
            snprintf(folder, sizeof(folder), "/sys/fs/cgroup%s", line + 3);
        }
    fclose(file);
    root = strlen("/sys/fs/cgroup");
    while (strlen(folder) >= root) {
        double quota = read_quota(folder);
        char *slash = strrchr(folder, '/');

        if (quota >= 0 && (least < 0 || quota < least))
            least = quota;
        *slash = '\0';
    }
    return least;
}

static void add_cache(
    struct info_table *table, const char *processors, size_t nbytes)
{
    info_text(table, processors);
    info_number(table, (long long)nbytes);
}

#ifdef HAVE_HWLOC

static bool find_topology(struct topology *topology, struct info_table *caches)
{
    hwloc_topology_t tree;
    hwloc_obj_t cache = NULL;

    if (hwloc_topology_init(&tree) != 0)
        return false;
    if (hwloc_topology_load(tree) != 0) {
        hwloc_topology_destroy(tree);
        return false;
    }
    *topology = (struct topology){
        .source = "hwloc",
        .packages = hwloc_get_nbobjs_by_type(tree, HWLOC_OBJ_PACKAGE),
        .cores = hwloc_get_nbobjs_by_type(tree, HWLOC_OBJ_CORE),
        .threads = hwloc_get_nbobjs_by_type(tree, HWLOC_OBJ_PU),
        .l3_groups = hwloc_get_nbobjs_by_type(tree, HWLOC_OBJ_L3CACHE),
        .numa_nodes = hwloc_get_nbobjs_by_type(tree, HWLOC_OBJ_NUMANODE),
    };
    while ((cache = hwloc_get_next_obj_by_type(
                tree, HWLOC_OBJ_L3CACHE, cache)) != NULL) {
        char *list = NULL;

        hwloc_bitmap_list_asprintf(&list, cache->cpuset);
        add_cache(caches, list, cache->attr->cache.size);
        free(list);
    }
    hwloc_topology_destroy(tree);
    return true;
}

#else

#define CPUS "/sys/devices/system/cpu"

/* A set of lines, each once. */
struct lines {
    char (*lines)[128];
    size_t count;
};

static bool add_line(struct lines *set, const char *line)
{
    void *larger;

    for (size_t i = 0; i < set->count; i++)
        if (strcmp(set->lines[i], line) == 0)
            return false;
    larger = reallocarray(set->lines, set->count + 1, sizeof(*set->lines));
    if (larger == NULL)
        return false;
    set->lines = larger;
    snprintf(set->lines[set->count++], sizeof(*set->lines), "%s", line);
    return true;
}

static bool read_cpu(int cpu, const char *name, char *line, size_t nbytes)
{
    char path[128];

    snprintf(path, sizeof(path), CPUS "/cpu%d/%s", cpu, name);
    return read_line(path, line, nbytes);
}

/* Adds the level-3 cache of a processor unless it is known. */
static void find_cache(int cpu, struct lines *seen, struct info_table *caches)
{
    char name[64], level[16], shared[128], size[32];

    for (int index = 0; index < 16; index++) {
        snprintf(name, sizeof(name), "cache/index%d/level", index);
        if (!read_cpu(cpu, name, level, sizeof(level)))
            return;
        if (strcmp(level, "3") != 0)
            continue;
        snprintf(name, sizeof(name), "cache/index%d/shared_cpu_list", index);
        if (!read_cpu(cpu, name, shared, sizeof(shared)) ||
            !add_line(seen, shared))
            return;
        snprintf(name, sizeof(name), "cache/index%d/size", index);
        if (!read_cpu(cpu, name, size, sizeof(size)))
            size[0] = '\0';
        /* The kernel writes kibibytes, "32768K". */
        add_cache(caches, shared, strtoul(size, NULL, 10) * 1024);
    }
}

static long count_nodes(void)
{
    DIR *folder = opendir("/sys/devices/system/node");
    struct dirent *entry;
    long count = 0;
    int number;
    char rest;

    if (folder == NULL)
        return 1;
    while ((entry = readdir(folder)) != NULL)
        if (sscanf(entry->d_name, "node%d%c", &number, &rest) == 1)
            count++;
    closedir(folder);
    return count > 0 ? count : 1;
}

static bool find_topology(struct topology *topology, struct info_table *caches)
{
    struct lines packages = {0}, cores = {0}, l3 = {0};
    int last = (int)sysconf(_SC_NPROCESSORS_CONF);

    *topology = (struct topology){
        .source = "the kernel (built without hwloc)",
        .numa_nodes = count_nodes(),
    };
    for (int cpu = 0; cpu < last; cpu++) {
        char package[32], core[32], both[80];

        /* An offline processor has no topology. */
        if (!read_cpu(cpu, "topology/physical_package_id", package,
                sizeof(package)) ||
            !read_cpu(cpu, "topology/core_id", core, sizeof(core)))
            continue;
        topology->threads++;
        add_line(&packages, package);
        snprintf(both, sizeof(both), "%s %s", package, core);
        add_line(&cores, both);
        find_cache(cpu, &l3, caches);
    }
    topology->packages = (long)packages.count;
    topology->cores = (long)cores.count;
    topology->l3_groups = (long)l3.count;
    free(packages.lines);
    free(cores.lines);
    free(l3.lines);
    return topology->threads > 0;
}

#endif

static void add_count(struct info_table *table, const char *name, long count)
{
    info_text(table, name);
    if (count < 0)
        info_none(table);
    else
        info_number(table, count);
}

static const char *const l3_caches_columns[] = {"processors", "bytes", NULL};

void info_add_topology(struct info_out *out)
{
    struct topology topology = {.source = NULL, -1, -1, -1, -1, -1};
    struct info_table facts, caches;
    double quota = find_quota();

    info_table_begin(&caches, "l3_caches", l3_caches_columns);
    if (!find_topology(&topology, &caches))
        topology.source = NULL;
    info_object_begin(&facts, "topology");
    info_text(&facts, "source");
    info_text(&facts, topology.source);
    add_count(&facts, "packages", topology.packages);
    add_count(&facts, "cores", topology.cores);
    add_count(&facts, "processors", topology.threads);
    add_count(&facts, "l3_groups", topology.l3_groups);
    add_count(&facts, "numa_nodes", topology.numa_nodes);
    add_count(&facts, "processors_online", sysconf(_SC_NPROCESSORS_ONLN));
    add_count(&facts, "processors_allowed", count_allowed());
    info_text(&facts, "processor_quota");
    if (quota < 0)
        info_none(&facts);
    else
        info_format(&facts, "%.2f", quota);
    info_table_end(&facts, out);
    info_table_end(&caches, out);
}
