/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Tests two threads of each rank: each with its own group, in which memory for
 * chunks grows; or one that sets the test mode.
 */
#include "t/fused/made.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#define THREADS 2
#define CALLS 40

struct thread {
    struct symmcoll_group *group;
    int rank, number, good;
};

/* Returns growing and shrinking sizes, so that memory grows several times. */
static size_t size_of(const struct thread *self, int call)
{
    return (size_t)1 << (4 + (call * 5 + self->number * 3) % 15);
}

static symmcoll_status_t make(void *context, int rank, void *chunk)
{
    const struct thread *self = context;

    memset(chunk, self->number * 64 + self->rank * 8 + rank, 16);
    return SYMMCOLL_OK;
}

static int gathers(const struct thread *self, int call)
{
    size_t nbytes = size_of(self, call);
    int size = symmcoll_group_size(self->group), good;
    unsigned char *mine = malloc(nbytes), *all = malloc(nbytes * (size_t)size);

    if (mine == NULL || all == NULL)
        return 0;
    memset(mine, self->number * 64 + self->rank * 8 + call % 8, nbytes);
    good = OK(symmcoll_all_gather_and_consume(
        self->group, mine, nbytes, NULL, NULL, NULL, all));
    for (int r = 0; r < size; r++) {
        int wanted = self->number * 64 + r * 8 + call % 8;

        good = good && all[(size_t)r * nbytes] == wanted &&
               all[(size_t)(r + 1) * nbytes - 1] == wanted;
    }
    free(mine);
    free(all);
    return good;
}

static int produces(struct thread *self)
{
    unsigned char all[8 * 16];
    int good = OK(symmcoll_produce_and_all_to_all(
        self->group, 16, make, self, NULL, all));

    for (int r = 0; r < symmcoll_group_size(self->group); r++)
        good = good && all[r * 16] == self->number * 64 + r * 8 + self->rank;
    return good;
}

static void *run_thread(void *arg)
{
    struct thread *self = arg;

    self->good = 1;
    for (int call = 0; call < CALLS; call++)
        self->good = gathers(self, call) && produces(self) && self->good;
    return NULL;
}

static int in_two_threads(struct symmcoll_group *group, int rank)
{
    struct thread threads[THREADS] = {{.rank = rank}};
    pthread_t ids[THREADS];
    int good = 1;

    for (int i = 0; i < THREADS; i++) {
        threads[i].rank = rank;
        threads[i].number = i;
        good =
            OK(symmcoll_group_split(group, 0, rank, NULL, &threads[i].group)) &&
            good;
    }
    for (int i = 0; i < THREADS && good; i++)
        good = pthread_create(&ids[i], NULL, run_thread, &threads[i]) == 0;
    for (int i = 0; i < THREADS && good; i++)
        pthread_join(ids[i], NULL);
    for (int i = 0; i < THREADS; i++)
        good = good && threads[i].good &&
               OK(symmcoll_group_free(threads[i].group));
    return good;
}

/* ---- the test mode ---- */

#define EXCHANGES 1000

/* A thread that sets the mode while another one exchanges chunks. */
struct mode {
    struct symmcoll_group *group;
    _Atomic int ended;
};

static void *set_and_unset(void *arg)
{
    struct mode *mode = arg;
    symmcoll_status_t status = SYMMCOLL_OK;

    for (int i = 0; atomic_load(&mode->ended) == 0; i++) {
        if (status == SYMMCOLL_OK)
            status = symmcoll_fused_set_plain(mode->group, i % 2);
    }
    return status == SYMMCOLL_OK ? mode : NULL;
}

static symmcoll_status_t count(void *context, int rank, void *chunk)
{
    int *calls = context;

    memset(chunk, ++calls[rank], 1);
    return SYMMCOLL_OK;
}

static int makes_each_once(struct symmcoll_group *group, int rank)
{
    struct mode mode = {.group = group};
    void *set = NULL;
    pthread_t id;
    int good = 1, calls[8] = {0};
    char all[8];

    if (rank == 0 && pthread_create(&id, NULL, set_and_unset, &mode) != 0)
        return 0;
    for (int i = 1; good && i <= EXCHANGES; i++) {
        good = OK(
            symmcoll_produce_and_all_to_all(group, 1, count, calls, NULL, all));
        for (int r = 0; good && r < symmcoll_group_size(group); r++)
            good = calls[r] == i && all[r] == (char)i;
        if (!good)
            diag("rank %d, exchange %d: %d and %d chunks", rank, i, calls[0],
                calls[1]);
    }
    atomic_store(&mode.ended, 1);
    if (rank == 0)
        good = pthread_join(id, &set) == 0 && set == &mode && good;
    return good;
}

int main(void)
{
    plan(4);
    ok(ranks_run(3, in_two_threads),
        "processes: memory of two groups grows from two threads");
    ok(threads_run(3, in_two_threads),
        "threads: memory of two groups grows from two threads");
    ok(ranks_run(2, makes_each_once),
        "processes: a chunk is made once while a thread sets the test mode");
    ok(threads_run(2, makes_each_once),
        "threads: a chunk is made once while a thread sets the test mode");
    return done_testing();
}
