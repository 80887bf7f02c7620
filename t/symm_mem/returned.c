/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Tests that a failing rendezvous returns the memory that it has taken, so
 * that freed memory is available to the machine again.
 */
#include "t/symm_mem/symm.h"
#include "t/world/faults.h"

#include <dirent.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#define NBYTES ((size_t)512 << 10) /* in the arena */
#define ROUNDS 16
#define SLACK \
    ((size_t)1 << 20) /* less than two allocations; more than small objects */
#define SIZE 3
#define ABSENT 2

/* Returns the bytes of memory in the arenas of which this process has
 * descriptors. */
static size_t backed(void)
{
    DIR *dir = opendir("/proc/self/fd");
    struct dirent *entry;
    size_t nbytes = 0;

    while (dir != NULL && (entry = readdir(dir)) != NULL) {
        char path[300], target[256] = "";
        struct stat found;
        ssize_t n;

        snprintf(path, sizeof(path), "/proc/self/fd/%.200s", entry->d_name);
        n = readlink(path, target, sizeof(target) - 1);
        if (n > 0 && strncmp(target, "/memfd:symmcoll:", 16) == 0 &&
            stat(path, &found) == 0)
            nbytes += (size_t)found.st_blocks * 512;
    }
    if (dir != NULL)
        closedir(dir);
    return nbytes;
}

static bool has_grown(size_t before)
{
    size_t now = backed();

    if (now > before + SLACK)
        diag("%zu bytes before, %zu now", before, now);
    return now > before + SLACK;
}

/* Rank 1 makes another call: all ranks get an error, and the group remains
 * usable. */
static int a_mismatch_returns_it(struct symmcoll_group *group, int rank)
{
    struct symmcoll_world *world = symmcoll_group_world(group);
    struct symmcoll_symm *handle = NULL;
    size_t before;
    void *data;
    bool right = OK(symmcoll_barrier(group, NULL, NULL));

    before = backed();
    right =
        right && HOLDS(before > 0) && OK(symmcoll_barrier(group, NULL, NULL));
    for (int i = 0; right && i < ROUNDS; i++) {
        right = OK(symmcoll_symm_alloc(world, NBYTES, NULL, &data)) &&
                groups_said(rank,
                    rank == 1
                        ? symmcoll_barrier(group, NULL, NULL)
                        : symmcoll_symm_rendezvous(group, data, NULL, &handle),
                    SYMMCOLL_ERR_MISMATCH, "rank 1") &&
                HOLDS(handle == NULL) && OK(symmcoll_symm_free(world, data));
    }
    right = right && OK(symmcoll_barrier(group, NULL, NULL)) &&
            HOLDS(!has_grown(before));
    return OK(symmcoll_barrier(group, NULL, NULL)) && right;
}

/* Passes different sizes, which are detected after the first round. */
static int a_refusal_returns_it(struct symmcoll_group *group, int rank)
{
    struct symmcoll_world *world = symmcoll_group_world(group);
    struct symmcoll_symm *handle = NULL;
    size_t before;
    void *data;
    bool right = OK(symmcoll_barrier(group, NULL, NULL));

    before = backed();
    right = right && OK(symmcoll_barrier(group, NULL, NULL));
    for (int i = 0; right && i < ROUNDS; i++)
        right = OK(symmcoll_symm_alloc(
                    world, NBYTES + (rank == 0 ? 0 : 64), NULL, &data)) &&
                groups_said(rank,
                    symmcoll_symm_rendezvous(group, data, NULL, &handle),
                    SYMMCOLL_ERR_MISMATCH, "rank 0") &&
                OK(symmcoll_symm_free(world, data));
    right = right && OK(symmcoll_barrier(group, NULL, NULL)) &&
            HOLDS(!has_grown(before));
    return OK(symmcoll_barrier(group, NULL, NULL)) && right;
}

/* Joins one allocation in many groups: each is released with its handle, or
 * before. */
static int a_group_returns_its_mappings(struct symmcoll_group *group, int rank)
{
    static const int ranks[] = {0, 1};
    struct symmcoll_group *some;
    struct symmcoll_symm *handle;
    void *data;
    int before, after;
    bool right = OK(symmcoll_symm_alloc(
                     symmcoll_group_world(group), NBYTES, NULL, &data)) &&
                 OK(symmcoll_barrier(group, NULL, NULL));

    (void)rank;
    before = count_memfds();
    right =
        right && HOLDS(before > 0) && OK(symmcoll_barrier(group, NULL, NULL));
    for (int i = 0; right && i < ROUNDS; i++) {
        right = OK(groups_create(group, ranks, 2, &some)) &&
                OK(symmcoll_symm_rendezvous(some, data, NULL, &handle)) &&
                OK(symmcoll_barrier(some, NULL, NULL));
        if (right && i % 2 == 0)
            symmcoll_symm_release(handle);
        right = right && OK(symmcoll_group_free(some));
        if (right && i % 2 == 1)
            symmcoll_symm_release(handle);
    }
    right = right && OK(symmcoll_barrier(group, NULL, NULL));
    after = count_memfds();
    if (after != before)
        diag("%d mappings and descriptors before, %d now", before, after);
    return OK(symmcoll_barrier(group, NULL, NULL)) && right &&
           HOLDS(after == before) &&
           OK(symmcoll_symm_free(symmcoll_group_world(group), data));
}

/* A rank dies, and the others release their mappings of its memory. */
static int outlive(struct faults_rank *self)
{
    struct symmcoll_symm *handle;
    void *data;

    if (!faults_init(self) || !join(self->group, NBYTES, &data, &handle) ||
        count_memfds() < SIZE)
        return 1;
    faults_reach(self, 1);
    if (self->rank == ABSENT)
        faults_pass(self, 2); /* never */
    faults_note(self, symmcoll_barrier(self->group, NULL, NULL));
    if (!part(self->group, data, handle) || !HOLDS(count_memfds() == 0))
        return 2;
    return faults_finalize(self);
}

static void a_death_returns_it(void)
{
    struct faults_job job;
    bool right;

    (void)faults_clear_dumps(SIZE); /* those of earlier points */
    faults_start(&job, SIZE, outlive, NULL);
    right = faults_await_all(&job, 1);
    faults_signal(&job, ABSENT, SIGKILL);
    right = faults_kill_is_known(&job, ABSENT) && right;
    for (int r = 0; r < ABSENT; r++)
        right = faults_said(faults_told(&job, r, 0), SYMMCOLL_ERR_PEER, NULL) &&
                right;
    ok(faults_finish(&job, 1u << ABSENT) && faults_clear_dumps(SIZE) && right,
        "what survivors had of a dead rank's memory is returned with theirs");
}

/* A rank does not join in time, which fails the group. */
static int wait_in_vain(struct faults_rank *self)
{
    struct symmcoll_call call = faults_timeout(0.3);
    struct symmcoll_symm *handle = NULL;
    size_t before;
    void *data[ROUNDS];

    if (!faults_init(self))
        return 1;
    before = backed();
    for (int i = 0; i < ROUNDS; i++)
        if (symmcoll_symm_alloc(self->world, NBYTES, NULL, &data[i]) !=
            SYMMCOLL_OK)
            return 1;
    faults_reach(self, 1);
    if (self->rank == ABSENT) {
        faults_pass(self, 2);
        return faults_finalize(self);
    }
    faults_note(
        self, symmcoll_symm_rendezvous(self->group, data[0], &call, &handle));
    for (int i = 0; i < ROUNDS; i++)
        if (symmcoll_symm_free(self->world, data[i]) != SYMMCOLL_OK)
            return 2;
    if (before == 0 || backed() > before + NBYTES / 2)
        return 3;
    faults_reach(self, 3);
    faults_pass(self, 2);
    return faults_finalize(self);
}

static void a_timeout_returns_it(void)
{
    struct faults_job job;
    bool right;

    faults_start(&job, SIZE, wait_in_vain, NULL);
    right = faults_await(&job, 0, 3) && faults_await(&job, 1, 3);
    faults_open(&job, 2);
    for (int r = 0; r < SIZE; r++)
        faults_reap(&job, r);
    for (int r = 0; r < SIZE - 1; r++)
        right = faults_told(&job, r, 0)->status < 0 && right;
    ok(faults_finish(&job, 0) && right,
        "a rendezvous that one rank does not join returns what it has taken");
}

int main(void)
{
    plan(8);
    faults_begin();
    groups_both(2, a_mismatch_returns_it,
        "a rendezvous while another rank calls something else");
    groups_both(2, a_refusal_returns_it,
        "a rendezvous of sizes that differ returns what it has taken");
    a_timeout_returns_it();
    setenv("SYMMCOLL_SYMM_MEM_MEMFD_MIN", "0", 1);
    groups_both(2, a_group_returns_its_mappings,
        "a group that is released returns what it has mapped");
    a_death_returns_it();
    unsetenv("SYMMCOLL_SYMM_MEM_MEMFD_MIN");
    faults_end();
    return done_testing();
}
