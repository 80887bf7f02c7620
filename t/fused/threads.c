/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Two threads of each rank, with a group each, whose memory for chunks grows.
 */
#include "t/fused/made.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#define THREADS 2
#define CALLS 40

struct thread {
    struct symmcoll_group *group;
    int rank, number, good;
};

/* Sizes up and down, so that memory grows several times. */
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

int main(void)
{
    plan(2);
    ok(ranks_run(3, in_two_threads),
        "processes: memory of two groups grows from two threads");
    ok(threads_run(3, in_two_threads),
        "threads: memory of two groups grows from two threads");
    return done_testing();
}
