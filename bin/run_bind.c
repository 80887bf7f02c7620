/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Binding of ranks to processors.  The allowed processors are sorted by package
 * and core and cut into equal shares, so that a rank's threads are neighbours
 * and, if there are enough, no two ranks share a core.
 */
#include "run.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

struct cpu {
    int number;
    int package;
    int core;
};

/* Reads a number from the kernel's topology of a processor; 0 if
 * unavailable. */
static int read_topology(int cpu, const char *what)
{
    char path[96];
    FILE *file;
    int value;

    snprintf(path, sizeof(path), "/sys/devices/system/cpu/cpu%d/topology/%s",
        cpu, what);
    file = fopen(path, "re");
    if (file == NULL)
        return 0;
    if (fscanf(file, "%d", &value) != 1)
        value = 0;
    fclose(file);
    return value;
}

static int compare_cpus(const void *a, const void *b)
{
    const struct cpu *first = a;
    const struct cpu *second = b;

    if (first->package != second->package)
        return first->package < second->package ? -1 : 1;
    if (first->core != second->core)
        return first->core < second->core ? -1 : 1;
    return first->number < second->number ? -1 : 1;
}

bool run_bind_find(int **cpus, int *ncpus)
{
    cpu_set_t allowed;
    struct cpu *found;
    int count = 0;

    /* Fails only with more processors than the set can hold; ranks are not
     * bound then. */
    if (sched_getaffinity(0, sizeof(allowed), &allowed) != 0)
        CPU_ZERO(&allowed);
    found = symc_alloc((size_t)CPU_COUNT(&allowed) + 1, sizeof(*found));
    *cpus = symc_alloc((size_t)CPU_COUNT(&allowed) + 1, sizeof(**cpus));
    if (found == NULL || *cpus == NULL) {
        free(found);
        return false;
    }
    for (int i = 0; i < CPU_SETSIZE; i++)
        if (CPU_ISSET(i, &allowed))
            found[count++] = (struct cpu){
                .number = i,
                .package = read_topology(i, "physical_package_id"),
                .core = read_topology(i, "core_id"),
            };
    qsort(found, (size_t)count, sizeof(*found), compare_cpus);
    for (int i = 0; i < count; i++)
        (*cpus)[i] = found[i].number;
    *ncpus = count;
    free(found);
    return true;
}

bool run_bind_choose(const struct run_job *job, int rank, cpu_set_t *set)
{
    int ranks = job->options->ranks;
    int share = job->ncpus / ranks;
    int first;

    if (job->ncpus == 0 || job->options->bind == RUN_BIND_NONE ||
        (job->options->bind == RUN_BIND_AUTO && share == 0))
        return false;
    /* More ranks than processors, by request: they wrap around. */
    first = share > 0 ? rank * share : rank % job->ncpus;
    CPU_ZERO(set);
    for (int i = 0; i < (share > 0 ? share : 1); i++)
        CPU_SET(job->cpus[first + i], set);
    return true;
}
