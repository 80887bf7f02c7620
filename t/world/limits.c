/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Tests ranks that reach limits: of file sizes, address space, descriptors,
 * and of memory (a failing fallocate(), see enospc.c). Each error has the
 * requested and the available amount. If staging is refused on one rank, all
 * get the error, and small operations continue.
 */
#include "t/allocated.h"
#include "t/attempts.h"
#include "t/ranks.h"
#include "t/tap.h"
#include "t/world/faults.h"
#include "world/world.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#define SIZE 3
#define POOR 1 /* the rank with a shortage */
#define LARGE ((size_t)1 << 18)

static void set_limit(int resource, rlim_t value)
{
    struct rlimit limit;

    getrlimit(resource, &limit);
    limit.rlim_cur = value;
    setrlimit(resource, &limit);
}

static void lift_limit(int resource)
{
    struct rlimit limit;

    getrlimit(resource, &limit);
    set_limit(resource, limit.rlim_max);
}

/* ---- staging ---- */

static bool sums_to(struct faults_rank *self, float *x, size_t count)
{
    return faults_sum(self, x, count) == SYMMCOLL_OK && x[0] == SIZE &&
           x[count - 1] == SIZE;
}

/* Runs small operations, large ones with and without the shortage, and small
 * ones in between. */
static int fall_short(
    struct faults_rank *self, void (*begin)(void), void (*end)(void))
{
    float *x = malloc(LARGE * sizeof(*x));
    bool good = x != NULL && faults_init(self) && sums_to(self, x, 4);

    if (good && self->rank == POOR)
        begin();
    if (good)
        faults_note(self, faults_sum(self, x, LARGE));
    for (size_t i = 0; good && i < LARGE; i++)
        good = x[i] == 1;
    good = good && sums_to(self, x, 4);
    if (good)
        faults_note(self, faults_sum(self, x, LARGE));
    if (self->rank == POOR)
        end();
    good = good && sums_to(self, x, LARGE) && sums_to(self, x, 4);
    free(x);
    return good ? faults_finalize(self) : 1;
}

static void limit_files(void)
{
    set_limit(RLIMIT_FSIZE, 65536);
}

static void free_files(void)
{
    lift_limit(RLIMIT_FSIZE);
}

static int fall_short_of_files(struct faults_rank *self)
{
    return fall_short(self, limit_files, free_files);
}

static void fill_memory(void)
{
    setenv("ENOSPC_ABOVE", "0", 1);
}

static void free_memory(void)
{
    unsetenv("ENOSPC_ABOVE");
}

static int fall_short_of_memory(struct faults_rank *self)
{
    return fall_short(self, fill_memory, free_memory);
}

static void judge_staging(
    faults_fn body, const char *asked, const char *found, const char *what)
{
    struct faults_job job;
    bool told = true;

    faults_start(&job, SIZE, body, NULL);
    for (int r = 0; r < SIZE; r++) {
        for (int i = 0; i < 2; i++)
            told = faults_said(faults_told(&job, r, i), SYMMCOLL_ERR_NO_MEMORY,
                       "all_reduce: rank 1: staging of collectives: ", asked,
                       found, NULL) &&
                   told;
    }
    ok(told, "%s: every rank is told who has no staging and why", what);
    ok(faults_finish(&job, 0) && faults_clear_dumps(0),
        "%s: the group is usable, buffers are untouched, and later there is "
        "staging",
        what);
}

/* All ranks that are threads have the limit of their process. */
static int threads_fall_short(struct symmcoll_group *group, int rank)
{
    float *x = calloc(LARGE, sizeof(*x));
    symmcoll_status_t status;
    bool good = symmcoll_barrier(group, NULL, NULL) == SYMMCOLL_OK;

    if (rank == POOR)
        limit_files();
    good = good && symmcoll_barrier(group, NULL, NULL) == SYMMCOLL_OK;
    status = symmcoll_all_reduce(
        group, x, x, LARGE, SYMMCOLL_FLOAT32, SYMMCOLL_SUM, NULL, NULL);
    good = good && status == SYMMCOLL_ERR_NO_MEMORY &&
           strstr(symmcoll_last_error(), "RLIMIT_FSIZE is 64 KiB") != NULL;
    good = symmcoll_barrier(group, NULL, NULL) == SYMMCOLL_OK && good;
    if (rank == POOR)
        free_files();
    good = symmcoll_barrier(group, NULL, NULL) == SYMMCOLL_OK && good;
    good = symmcoll_all_reduce(group, x, x, LARGE, SYMMCOLL_FLOAT32,
               SYMMCOLL_SUM, NULL, NULL) == SYMMCOLL_OK &&
           good;
    free(x);
    return good;
}

/* ---- init ---- */

/* The poor rank fails and stays alive: the others must not need its death.
 * arg: NULL: file sizes are limited; otherwise memory. */
static int fail_to_begin(struct faults_rank *self)
{
    if (self->rank == POOR && self->arg != NULL)
        setenv("ENOSPC_ABOVE", "0", 1);
    else if (self->rank == POOR)
        limit_files();
    if (faults_init(self))
        return 1;
    faults_pass(self, 1);
    return 0;
}

static void judge_beginning(
    const char *arg, const char *found, const char *what)
{
    struct faults_job job;

    setenv("SYMMCOLL_TIMEOUTS_INIT", "500ms", 1);
    faults_start(&job, SIZE, fail_to_begin, arg);
    ok(faults_said(faults_told(&job, POOR, 0), SYMMCOLL_ERR_NO_MEMORY,
           "block: ", "requested", found, NULL) &&
            faults_said(faults_told(&job, 0, 0), SYMMCOLL_ERR_TIMEOUT,
                "missing: rank 1", NULL),
        "%s, before init: the rank is told why, the others who is missing",
        what);
    faults_open(&job, 1);
    faults_finish(&job, 0);
    unsetenv("SYMMCOLL_TIMEOUTS_INIT");
}

/* There is memory for the block, and none for its first offer. */
static int fail_to_offer(void)
{
    const int repeated = 32;
    size_t grown;
    struct symmcoll_init_args args = SYMMCOLL_INIT_ARGS_INIT;
    struct symmcoll_world *world;
    size_t allocated = 0;
    bool right;
    char text[32];

    args.rank = 0;
    args.world_size = 1;
    if (symmcoll_store_create_hash(&args.store) != SYMMCOLL_OK ||
        symmcoll_init(&args, &world) != SYMMCOLL_OK)
        return 0;
    snprintf(text, sizeof(text), "%zu", (size_t)world->own.first.offset);
    if (symmcoll_finalize(world) != SYMMCOLL_OK)
        return 0;
    setenv("ENOSPC_ABOVE", text, 1);
    for (int i = 0; i <= repeated; i++) {
        symmcoll_status_t status = symmcoll_init(&args, &world);

        if (status != SYMMCOLL_ERR_NO_MEMORY ||
            strstr(symmcoll_last_error(), "segment: ") == NULL) {
            diag("status %d: %s", (int)status, symmcoll_last_error());
            return 0;
        }
        if (i == 0)
            allocated = count_allocated();
    }
    unsetenv("ENOSPC_ABOVE");
    /* glibc keeps some memory of ended threads; the table of a rank's segments
     * alone has 16 KiB. */
    grown = count_allocated() > allocated ? count_allocated() - allocated : 0;
    if (grown > (size_t)repeated * 1024)
        diag("%zu bytes more after %d failures", grown, repeated);
    right = grown <= (size_t)repeated * 1024 &&
            symmcoll_init(&args, &world) == SYMMCOLL_OK &&
            symmcoll_finalize(world) == SYMMCOLL_OK;
    symmcoll_store_close(args.store);
    return right;
}

static size_t address_space(void)
{
    FILE *file = fopen("/proc/self/statm", "r");
    size_t pages = 0;

    if (file == NULL || fscanf(file, "%zu", &pages) != 1)
        pages = 0;
    if (file != NULL)
        fclose(file);
    return pages * (size_t)sysconf(_SC_PAGESIZE);
}

/* There is space for the smallest own arena, and for half of another's. */
static int fall_short_of_space(struct faults_rank *self)
{
    size_t nbytes;
    int failed;

    if (!faults_init(self))
        return 1;
    nbytes = self->world->own.first.offset + self->world->own.first.nbytes;
    if (faults_barrier(self) != SYMMCOLL_OK || faults_finalize(self) != 0)
        return 1;
    if (self->rank == POOR)
        set_limit(RLIMIT_AS, address_space() + nbytes + nbytes / 2);
    failed = !faults_init(self);
    if (self->rank == POOR)
        lift_limit(RLIMIT_AS);
    if (!failed)
        faults_note(self, faults_barrier(self));
    faults_pass(self, 1);
    return failed ? 0 : faults_finalize(self);
}

static void too_little_space(void)
{
    struct faults_job job;
    char name[64];
    bool told = true;

    if (SANITIZED) {
        skip(2, "a sanitizer's own memory counts as address space");
        return;
    }
    setenv("SYMMCOLL_HOST_CHUNK", "1MiB", 1);
    faults_start(&job, SIZE, fall_short_of_space, NULL);
    ok(faults_said(faults_told(&job, POOR, 0), SYMMCOLL_ERR_NO_MEMORY,
           "address space for a rank", "requested", "RLIMIT_AS is", NULL),
        "RLIMIT_AS: the rank is told what was asked and what there is");
    for (int r = 0; r < SIZE; r += 2)
        told =
            faults_said(faults_told(&job, r, 0), SYMMCOLL_ERR_PEER,
                faults_name(&job, POOR, name), "gave up during init", NULL) &&
            told;
    faults_open(&job, 1);
    ok(faults_finish(&job, 0) && told,
        "RLIMIT_AS: the others are told that it has given up");
    faults_clear_dumps(SIZE);
    unsetenv("SYMMCOLL_HOST_CHUNK");
}

/* Locks all memory, as programs do that must not wait for a page. */
static int lock_all_memory(struct faults_rank *self)
{
    char text[64] = "";
    unsigned long pages, resident = 0;
    FILE *file;

    if (mlockall(MCL_CURRENT | MCL_FUTURE) != 0)
        return 2;
    if (!faults_init(self))
        return 1;
    file = fopen("/proc/self/statm", "r");
    if (file == NULL || fgets(text, sizeof(text), file) == NULL ||
        sscanf(text, "%lu %lu", &pages, &resident) != 2)
        return 1;
    fclose(file);
    if (faults_barrier(self) != SYMMCOLL_OK || faults_finalize(self) != 0)
        return 1;
    return resident > 0 && resident * 4096 < (size_t)256 << 20 ? 0 : 1;
}

static void locked_memory(void)
{
    struct faults_job job;
    bool locked = true;

    if (SANITIZED) {
        skip(1, "a sanitizer locks nothing");
        return;
    }
    faults_start(&job, SIZE, lock_all_memory, NULL);
    for (int r = 0; r < SIZE; r++) {
        faults_reap(&job, r);
        locked = locked && !(WIFEXITED(job.statuses[r]) &&
                               WEXITSTATUS(job.statuses[r]) == 2);
    }
    if (locked)
        ok(faults_finish(&job, 0),
            "mlockall: what is address space alone takes no memory");
    else
        skip(1, "this user may not lock memory");
    if (!locked)
        faults_finish(&job, ~0u);
}

/* ---- descriptors ---- */

static int count_fds(void)
{
    DIR *dir = opendir("/proc/self/fd");
    int count = -1; /* the folder's own */

    while (dir != NULL && readdir(dir) != NULL)
        count++;
    if (dir != NULL)
        closedir(dir);
    return count;
}

/* arg: the rank with a limit, and how many descriptors it may open. */
struct shortage {
    int rank;
    int fds;
    bool clean; /* nothing was left */
};

static int fall_short_of_fds(struct faults_rank *self)
{
    const struct shortage *shortage = self->arg;
    int before = count_fds(), lowest = dup(0);

    close(lowest);
    if (self->rank == shortage->rank)
        set_limit(RLIMIT_NOFILE, (rlim_t)lowest + (rlim_t)shortage->fds);
    if (faults_init(self)) {
        faults_note(self, faults_barrier(self));
        faults_finalize(self);
    }
    lift_limit(RLIMIT_NOFILE);
    return count_fds() == before ? 0 : 9;
}

/* Checks the error with the given timeout. */
static bool name_the_fds(double seconds, void *arg)
{
    struct shortage *shortage = arg;
    const struct faults_note *note;
    struct faults_job job;
    char text[32];
    bool told;

    snprintf(text, sizeof(text), "%.0fs", seconds);
    setenv("SYMMCOLL_TIMEOUTS_INIT", text, 1);
    faults_start(&job, SIZE, fall_short_of_fds, shortage);
    for (int r = 0; r < SIZE; r++)
        faults_told(&job, r, 0);
    note = faults_told(&job, shortage->rank, 0);
    told = note->status == SYMMCOLL_OK ||
           faults_said(note, SYMMCOLL_ERR_SYSTEM, "RLIMIT_NOFILE is", NULL);
    if (!told)
        diag("%d descriptors: status %d: %s", shortage->fds, (int)note->status,
            note->detail);
    shortage->clean = faults_finish(&job, 0) && shortage->clean;
    faults_clear_dumps(SIZE);
    return told;
}

static void too_few_fds(int rank)
{
    const struct shortage enough = {rank, 32, true};
    struct faults_job job;
    bool told = true, clean = true;

    for (int fds = 0; fds < 9; fds++) {
        struct shortage shortage = {rank, fds, true};

        told = attempts_hold(name_the_fds, 1, &shortage) && told;
        clean = shortage.clean && clean;
    }
    unsetenv("SYMMCOLL_TIMEOUTS_INIT");
    ok(told, "RLIMIT_NOFILE on rank %d: whatever cannot be opened is named",
        rank);
    ok(clean, "RLIMIT_NOFILE on rank %d: nobody hangs, nothing is left open",
        rank);
    faults_start(&job, SIZE, fall_short_of_fds, &enough);
    ok(faults_told(&job, rank, 0)->status == SYMMCOLL_OK &&
            faults_finish(&job, 0),
        "RLIMIT_NOFILE on rank %d: 32 descriptors are enough for 3 ranks",
        rank);
}

int main(void)
{
    plan(17);
    faults_begin();
    judge_staging(fall_short_of_files, "KiB of shared memory requested",
        "RLIMIT_FSIZE is 64 KiB", "RLIMIT_FSIZE");
    setenv("SYMMCOLL_HOST_DIRECT", "off", 1);
    ok(threads_run(SIZE, threads_fall_short),
        "RLIMIT_FSIZE: threads are told as well, and go on");
    unsetenv("SYMMCOLL_HOST_DIRECT");
    judge_beginning(NULL, "RLIMIT_FSIZE is 64 KiB", "RLIMIT_FSIZE");
    judge_staging(fall_short_of_memory, "2 MiB requested",
        "No space left on device", "a full machine");
    judge_beginning("full", "No space left on device", "a full machine");
    ok(process_run(fail_to_offer),
        "a full machine, after the block: the rank is told why, keeps nothing "
        "and may try again");
    too_little_space();
    locked_memory();
    too_few_fds(POOR);
    too_few_fds(0);
    faults_end();
    return done_testing();
}
