/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Tests that worlds created and left in a loop leave no descriptor, mapping or
 * thread in their process. CYCLES sets the number of loops; 200 by default.
 */
#include "t/ranks.h"
#include "t/tap.h"
#include "t/world/faults.h"

#include <dirent.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define SIZE 3
#define WARM 20       /* cycles until allocators and caches have settled */
#define SLACK_MAPS 8  /* mappings by which counts may still vary */
#define SETTLES 20000 /* milliseconds until ended threads are gone */

static int cycles;

struct usage {
    int fds;
    int maps;
    int threads;
};

static int count_entries(const char *folder)
{
    DIR *dir = opendir(folder);
    int count = 0;

    while (dir != NULL && readdir(dir) != NULL)
        count++;
    if (dir != NULL)
        closedir(dir);
    return count;
}

static struct usage measure(void)
{
    struct usage usage = {.fds = count_entries("/proc/self/fd"),
        .threads = count_entries("/proc/self/task")};
    FILE *file = fopen("/proc/self/maps", "r");
    char line[4096];

    while (file != NULL && fgets(line, sizeof(line), file) != NULL)
        usage.maps += strchr(line, '\n') != NULL;
    if (file != NULL)
        fclose(file);
    return usage;
}

static bool is_flat(const struct usage *before, const struct usage *after)
{
    /* A sanitizer's allocator keeps freed memory. A thread that was still
     * listed before may be missing now. */
    return after->fds == before->fds && after->threads <= before->threads &&
           (SANITIZED || after->maps <= before->maps + SLACK_MAPS);
}

/* Checks that nothing remains. A thread that has been joined may stay listed
 * for a moment. */
static bool is_left_clean(const struct usage *before)
{
    struct usage after = measure();

    for (int i = 0; i < SETTLES && !is_flat(before, &after); i++) {
        usleep(1000);
        after = measure();
    }
    if (!is_flat(before, &after))
        diag("%d descriptors, then %d; %d mappings, then %d; %d threads, then "
             "%d",
            before->fds, after.fds, before->maps, after.maps, before->threads,
            after.threads);
    return is_flat(before, &after);
}

/* Returns the usage after a world, without threads that are about to end. */
static struct usage measure_settled(void)
{
    struct usage least = measure();

    for (int i = 0; i < 20; i++) {
        struct usage now;

        usleep(1000);
        now = measure();
        if (now.threads < least.threads)
            least = now;
    }
    return least;
}

static bool is_ok(const char *what, symmcoll_status_t status)
{
    if (status != SYMMCOLL_OK)
        diag("%s: %s", what, symmcoll_last_error());
    return status == SYMMCOLL_OK;
}

/* Runs one world with everything that starts threads and allocates memory. */
static bool live_once(const struct symmcoll_init_args *args)
{
    enum {
        COUNT = 4096
    };
    float x[COUNT] = {1};
    struct symmcoll_world *world;
    struct symmcoll_group *group;
    struct symmcoll_work *work;
    bool good = symmcoll_init(args, &world) == SYMMCOLL_OK;

    if (!good) {
        diag("init: %s", symmcoll_last_error());
        return false;
    }
    group = symmcoll_world_group(world);
    good = is_ok("all_reduce", symmcoll_all_reduce(group, x, x, COUNT,
                                   SYMMCOLL_FLOAT32, SYMMCOLL_SUM, NULL, NULL));
    good =
        good && x[0] == SIZE &&
        is_ok("a second one", symmcoll_all_reduce(group, x, x, 1,
                                  SYMMCOLL_FLOAT32, SYMMCOLL_SUM, NULL, &work));
    if (good) {
        good = is_ok("its wait", symmcoll_work_wait(work, -1)) &&
               x[0] == SIZE * SIZE;
        symmcoll_work_free(work);
    }
    return is_ok("finalize", symmcoll_finalize(world)) && good;
}

static int process_cycles(int rank, int size, void *arg)
{
    struct usage before = {0};
    bool good = true;

    (void)rank;
    (void)size;
    (void)arg;
    for (int i = 0; i < cycles && good; i++) {
        good = live_once(NULL);
        if (i == WARM)
            before = measure_settled();
    }
    return good && is_left_clean(&before) ? 0 : 1;
}

/* ---- threads ---- */

struct thread_rank {
    pthread_t thread;
    pthread_barrier_t *between;
    struct symmcoll_init_args args;
    struct usage *before;
    bool good;
};

static void *thread_cycles(void *arg)
{
    struct thread_rank *self = arg;

    self->good = true;
    for (int i = 0; i < cycles; i++) {
        self->good = live_once(&self->args) && self->good;
        /* Ensures that a thread measures while no other has begun the next
         * cycle. */
        pthread_barrier_wait(self->between);
        if (i == WARM && self->args.rank == 0)
            *self->before = measure_settled();
        pthread_barrier_wait(self->between);
    }
    return NULL;
}

static int all_threads(int rank, int size, void *arg)
{
    struct thread_rank ranks[SIZE];
    struct symmcoll_store *store;
    pthread_barrier_t between;
    struct usage before = {0};
    bool good = symmcoll_store_create_hash(&store) == SYMMCOLL_OK;

    (void)rank;
    (void)size;
    (void)arg;
    unsetenv("RANK");
    unsetenv("WORLD_SIZE");
    unsetenv("LOCAL_RANK");
    unsetenv("LOCAL_WORLD_SIZE");
    pthread_barrier_init(&between, NULL, SIZE);
    for (int r = 0; r < SIZE; r++) {
        ranks[r] = (struct thread_rank){.between = &between,
            .args = SYMMCOLL_INIT_ARGS_INIT,
            .before = &before};
        ranks[r].args.store = store;
        ranks[r].args.rank = r;
        ranks[r].args.world_size = SIZE;
        if (pthread_create(&ranks[r].thread, NULL, thread_cycles, &ranks[r]) !=
            0)
            _exit(1);
    }
    for (int r = 0; r < SIZE; r++) {
        pthread_join(ranks[r].thread, NULL);
        good = ranks[r].good && good;
    }
    before.threads -= SIZE; /* the ranks' own */
    good = is_left_clean(&before) && good;
    pthread_barrier_destroy(&between);
    symmcoll_store_close(store);
    return good ? 0 : 1;
}

static bool run(int size, raw_rank_fn body)
{
    int statuses[SIZE] = {0};
    bool good = ranks_spawn(size, body, NULL, statuses);

    for (int r = 0; r < size; r++)
        good = statuses[r] == 0 && good;
    return good;
}

int main(void)
{
    const char *text = getenv("CYCLES");

    cycles = text != NULL ? atoi(text) : SANITIZED ? 60 : 200;
    if (cycles <= WARM)
        cycles = WARM + 1;
    plan(2);
    faults_begin();
    ok(run(SIZE, process_cycles) && faults_clear_dumps(0),
        "%d worlds of processes leave nothing behind", cycles);
    ok(run(1, all_threads) && faults_clear_dumps(0),
        "%d worlds of threads leave nothing behind", cycles);
    faults_end();
    return done_testing();
}
