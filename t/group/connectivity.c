/* SPDX-License-Identifier: BSD-3-Clause */
/* Tests the reported connections between ranks and processors. */
#include "t/ranks.h"
#include "t/tap.h"

#include <symmcoll.h>

#include "base/topology.h"
#include "group/group.h"

#include <sched.h>
#include <string.h>
#include <unistd.h>

static int fails_as(symmcoll_status_t status, symmcoll_status_t expected,
    const char *text, const char *other)
{
    int good = status == expected &&
               strstr(symmcoll_last_error(), text) != NULL &&
               strstr(symmcoll_last_error(), other) != NULL;

    if (!good)
        diag("status %d: %s", status, symmcoll_last_error());
    return good;
}

static int detects(struct symmcoll_world *world, const char *kind,
    struct symmcoll_connectivity *found)
{
    symmcoll_status_t status = symmcoll_connectivity_detect(world, kind, found);

    if (status != SYMMCOLL_OK)
        diag("%s: %s", kind, symmcoll_last_error());
    return status == SYMMCOLL_OK && strcmp(found->kind, kind) == 0 &&
           found->count > 0;
}

/* Returns whether a square matrix is symmetric. */
static int is_symmetric(const struct symmcoll_connectivity *found)
{
    for (int i = 0; i < found->count; i++) {
        for (int j = 0; j < found->count; j++) {
            if (found->values[i * found->count + j] !=
                found->values[j * found->count + i])
                return 0;
        }
    }
    return 1;
}

static int ranks_are_here(struct symmcoll_group *group, int rank)
{
    static const char *const kinds[] = {"host", "direct"};
    int size = symmcoll_group_size(group), good = 1;

    for (int k = 0; k < 2 && good; k++) {
        struct symmcoll_connectivity found = SYMMCOLL_CONNECTIVITY_INIT;

        good = detects(group->world, kinds[k], &found) && found.count == size &&
               strcmp(found.device, "rank") == 0 && found.numbers[rank] == rank;
        for (int i = 0; good && i < size * size; i++)
            good = found.values[i] == 1;
        symmcoll_connectivity_free(&found);
        good = good && found.values == NULL;
    }
    return good;
}

/* Binds each rank to a separate processor, if there are enough. */
static int ranks_are_where_they_run(struct symmcoll_group *group, int rank)
{
    struct symmcoll_connectivity ranks = SYMMCOLL_CONNECTIVITY_INIT;
    struct symmcoll_connectivity all = SYMMCOLL_CONNECTIVITY_INIT;
    static const char *const kinds[] = {"cache", "numa"};
    int size = symmcoll_group_size(group), good = 1, mine;
    cpu_set_t one, before;

    (void)sched_getaffinity(0, sizeof(before), &before);
    good = detects(NULL, "cache", &all);
    mine = rank % (good ? all.count : 1);
    CPU_ZERO(&one);
    CPU_SET((size_t)all.numbers[mine], &one);
    if (sched_setaffinity(0, sizeof(one), &one) != 0)
        diag("rank %d remains unbound", rank);
    symmcoll_connectivity_free(&all);
    for (int k = 0; k < 2 && good; k++) {
        good = detects(NULL, kinds[k], &all) &&
               detects(group->world, kinds[k], &ranks) && ranks.count == size &&
               is_symmetric(&ranks);
        for (int i = 0; good && i < size; i++)
            good = ranks.values[rank * size + i] ==
                   all.values[mine * all.count + i % all.count];
        symmcoll_connectivity_free(&ranks);
        symmcoll_connectivity_free(&all);
    }
    (void)sched_setaffinity(0, sizeof(before), &before);
    return good;
}

static int refuses(struct symmcoll_group *group, int rank)
{
    struct symmcoll_connectivity found = SYMMCOLL_CONNECTIVITY_INIT;
    struct symmcoll_world *world = group->world;

    (void)rank;
    return fails_as(symmcoll_connectivity_detect(world, "token ring", &found),
               SYMMCOLL_ERR_INVALID, "host, direct, cache, numa or nvlink",
               "token ring") &&
           fails_as(symmcoll_connectivity_detect(world, NULL, &found),
               SYMMCOLL_ERR_INVALID, "expected a kind", "NULL") &&
           fails_as(symmcoll_connectivity_detect(world, "host", NULL),
               SYMMCOLL_ERR_INVALID, "expected a place", "NULL") &&
           found.values == NULL;
}

static int has_no_nvlink(struct symmcoll_group *group, int rank)
{
    struct symmcoll_connectivity found = SYMMCOLL_CONNECTIVITY_INIT;

    (void)rank;
    return fails_as(
               symmcoll_connectivity_detect(group->world, "nvlink", &found),
               SYMMCOLL_ERR_UNSUPPORTED, "nvlink", "not ranks") &&
           found.values == NULL;
}

static int differ(struct symmcoll_group *group, int rank)
{
    struct symmcoll_connectivity found = SYMMCOLL_CONNECTIVITY_INIT;

    return fails_as(symmcoll_connectivity_detect(
                        group->world, rank == 1 ? "numa" : "cache", &found),
               SYMMCOLL_ERR_MISMATCH, "kind differs", "numa") &&
           symmcoll_barrier(group, NULL, NULL) == SYMMCOLL_OK;
}

/* ---- processors ---- */

static int describes_processors(void)
{
    struct symmcoll_connectivity found = SYMMCOLL_CONNECTIVITY_INIT;
    int good = detects(NULL, "numa", &found) &&
               found.count == sysconf(_SC_NPROCESSORS_ONLN) &&
               strcmp(found.device, "processor") == 0 && is_symmetric(&found);

    for (int i = 0; good && i < found.count; i++)
        good = found.values[i * found.count + i] == SYMC_DISTANCE_NEAR &&
               (i == 0 || found.numbers[i] > found.numbers[i - 1]);
    symmcoll_connectivity_free(&found);
    return good;
}

/* Checks two packages with two cores each, every core with its own
 * second-level cache. */
static int compares_caches(void)
{
    struct symc_processor cores[4] = {0};

    for (int i = 0; i < 4; i++) {
        cores[i].caches = 3;
        cores[i].cache[0] = (struct symc_cache){1, i};
        cores[i].cache[1] = (struct symc_cache){2, i / 2 * 2};
        cores[i].cache[2] = (struct symc_cache){3, i / 2 * 2};
    }
    return symc_topology_cache(&cores[0], &cores[0]) == 1 &&
           symc_topology_cache(&cores[0], &cores[1]) == 2 &&
           symc_topology_cache(&cores[3], &cores[2]) == 2 &&
           symc_topology_cache(&cores[1], &cores[2]) == 0;
}

static void run_all(int (*run)(int n, rank_fn body), const char *kind)
{
    ok(run(3, ranks_are_here) && run(1, ranks_are_here),
        "%s: ranks of one machine reach each other's memory (S41 S42)", kind);
    ok(run(4, ranks_are_where_they_run),
        "%s: caches and memory of ranks are those of their processors (S42)",
        kind);
    ok(run(2, refuses), "%s: an unknown kind is an error that lists them (S40)",
        kind);
    ok(run(2, has_no_nvlink), "%s: nvlink is of devices, not of ranks (S40)",
        kind);
    ok(run(3, differ), "%s: ranks that ask for different kinds are told", kind);
}

int main(void)
{
    plan(12);
    run_all(ranks_run, "processes");
    run_all(threads_run, "threads");
    ok(describes_processors(),
        "processors have a matrix of the distances of their memory (S42)");
    ok(compares_caches(), "the nearest cache that two share has its level");
    return done_testing();
}
