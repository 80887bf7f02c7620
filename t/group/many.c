/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Tests a thousand groups at once: each is used, some with works that progress
 * threads run, and then freed. Counts a rank's descriptors, mappings, threads
 * and shared memory before, during and after.
 */
#include "t/group/groups.h"
#include "t/world/faults.h"

#include "group/group.h"

#include <dirent.h>
#include <stdlib.h>
#include <sys/stat.h>

#define MANY 1000
#define NBYTES ((size_t)64 << 10)
#define COUNT (NBYTES / sizeof(float))
#define LEAST ((int64_t)8 * 4096) /* of staging memory, without a budget */
#define WORKS 12                  /* groups with a work at the same time */
#define SETTLED 5 /* descriptors, mappings or threads of others */

struct use {
    int descriptors;
    int mappings;
    int threads;
    int64_t shared; /* bytes of this rank's arena */
};

static int count_entries(const char *path)
{
    DIR *dir = opendir(path);
    int count = 0;

    while (dir != NULL && readdir(dir) != NULL)
        count++;
    if (dir != NULL)
        closedir(dir);
    return count;
}

static int count_lines(const char *path)
{
    FILE *file = fopen(path, "r");
    int count = 0, c;

    while (file != NULL && (c = fgetc(file)) != EOF)
        count += c == '\n';
    if (file != NULL)
        fclose(file);
    return count;
}

static struct use measure(struct symmcoll_group *all)
{
    struct use use = {.descriptors = count_entries("/proc/self/fd"),
        .mappings = count_lines("/proc/self/maps"),
        .threads = count_entries("/proc/self/task")};
    struct stat info;

    if (fstat(all->world->fd, &info) == 0)
        use.shared = (int64_t)info.st_blocks * 512;
    return use;
}

static void say(int rank, const char *when, const struct use *use)
{
    if (rank == 0)
        diag("%s: %d descriptors, %d mappings, %d threads, %lld KiB shared",
            when, use->descriptors, use->mappings, use->threads,
            (long long)use->shared / 1024);
}

static bool reduce(struct symmcoll_group *group, float *x, int size)
{
    for (size_t i = 0; i < COUNT; i++)
        x[i] = 1;
    if (symmcoll_all_reduce(group, x, x, COUNT, SYMMCOLL_FLOAT32, SYMMCOLL_SUM,
            NULL, NULL) != SYMMCOLL_OK)
        return false;
    for (size_t i = 0; i < COUNT; i++)
        if (x[i] != (float)size)
            return false;
    return true;
}

static bool is_near(int found, int expected, const char *what)
{
    if (abs(found - expected) > SETTLED)
        diag("%s: expected about %d, found %d", what, expected, found);
    return abs(found - expected) <= SETTLED;
}

static int count_pool(struct symmcoll_world *world)
{
    int threads;

    pthread_mutex_lock(&symc_engine_of(world)->pool.lock);
    threads = symc_engine_of(world)->pool.threads;
    pthread_mutex_unlock(&symc_engine_of(world)->pool.lock);
    return threads;
}

/* Starts a work in some groups. The other ranks have not called: on rank 0 all
 * works are queued at once, each with a thread. */
static bool run_works(
    struct symmcoll_group *all, int rank, struct symmcoll_group *const *groups)
{
    float *x = calloc(WORKS * COUNT, sizeof(*x));
    struct symmcoll_work *works[WORKS] = {NULL};
    bool right = x != NULL;
    int threads = WORKS;

    if (rank != 0)
        right = symmcoll_barrier(all, NULL, NULL) == SYMMCOLL_OK && right;
    for (size_t i = 0; i < WORKS && x != NULL; i++)
        right = symmcoll_all_reduce(groups[i * MANY / WORKS], x + i * COUNT,
                    x + i * COUNT, COUNT, SYMMCOLL_FLOAT32, SYMMCOLL_SUM, NULL,
                    &works[i]) == SYMMCOLL_OK &&
                right;
    if (rank == 0) {
        threads = count_pool(all->world);
        right = symmcoll_barrier(all, NULL, NULL) == SYMMCOLL_OK && right;
    }
    if (threads < WORKS)
        diag("expected %d progress threads or more, found %d", WORKS, threads);
    for (size_t i = 0; i < WORKS; i++) {
        right = works[i] != NULL &&
                symmcoll_work_wait(works[i], -1) == SYMMCOLL_OK && right;
        symmcoll_work_free(works[i]);
    }
    free(x);
    return right && threads >= WORKS;
}

/* Waits until idle progress threads of all ranks in the process have ended:
 * each rank keeps one, and its attendant. */
static bool are_idle(const struct use *before, int size)
{
    double until = faults_now() + FAULTS_WAIT_MAX;
    int most = before->threads + 2 * size, found;

    while ((found = count_entries("/proc/self/task")) > most &&
           faults_now() < until)
        faults_rest();
    if (found > most)
        diag("expected at most %d threads, found %d", most, found);
    return found <= most;
}

static int a_thousand(struct symmcoll_group *all, int rank)
{
    static _Thread_local struct symmcoll_group *groups[MANY];
    struct symmcoll_world *world = all->world;
    int size = symmcoll_group_size(all);
    float *x = malloc(NBYTES);
    struct use before, during, after;
    int64_t staging = 0;
    bool right = x != NULL && reduce(all, x, size);

    before = measure(all);
    for (int i = 0; i < MANY && right; i++) {
        right = made(rank, groups_create(all, NULL, 0, &groups[i])) &&
                reduce(groups[i], x, size) && groups[i]->runner.trace >= 0;
        if (right)
            staging += (int64_t)groups[i]->runner.staging_nbytes;
    }
    right = right && symmcoll_barrier(all, NULL, NULL) == SYMMCOLL_OK;
    during = measure(all);
    /* Ranks that are threads count each other's mappings. */
    right = right && symmcoll_barrier(all, NULL, NULL) == SYMMCOLL_OK &&
            run_works(all, rank, groups) &&
            symmcoll_barrier(all, NULL, NULL) == SYMMCOLL_OK;
    for (int i = 0; i < MANY && right; i++)
        right = symmcoll_group_free(groups[i]) == SYMMCOLL_OK;
    right = right && symmcoll_barrier(all, NULL, NULL) == SYMMCOLL_OK;
    symc_segments_reap(&world->segments);
    right = right && symmcoll_barrier(all, NULL, NULL) == SYMMCOLL_OK;
    right = right && are_idle(&before, size);
    after = measure(all);
    /* Ranks that are threads count each other's descriptors: none finalizes
     * before. */
    right = right && symmcoll_barrier(all, NULL, NULL) == SYMMCOLL_OK;
    say(rank, "before", &before);
    say(rank, "during", &during);
    say(rank, "after", &after);
    free(x);
    return right &&
           is_near(during.descriptors, before.descriptors, "descriptors") &&
           /* a sanitizer makes its own */
           (SANITIZED ||
               is_near(during.mappings, before.mappings, "mappings")) &&
           is_near(during.threads, before.threads, "threads") &&
           is_near(after.descriptors, before.descriptors, "descriptors") &&
           /* the C library keeps stacks of ended threads, fewer than one a
            * group */
           (SANITIZED || after.mappings - before.mappings < MANY / 4) &&
           after.shared - before.shared < (int64_t)2 << 20 &&
           during.shared > before.shared &&
           staging <= (int64_t)world->config->host_staging + MANY * LEAST;
}

int main(void)
{
    plan(4);
    groups_both(2, a_thousand, "a thousand groups come and go");
    groups_both(4, a_thousand, "a thousand groups come and go");
    return done_testing();
}
