/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Measures calls of ranks that are not bound to processors, beside threads
 * that compute.
 *
 *   beside [-n RANKS] [-t] [-l LOOPS] [-s SECONDS] [-k TIMES] [-o WHAT] [-b BYTES]
 *
 *   -n  ranks (2)                        -t  ranks are threads of one process
 *   -l  busy loops beside them (0)       -s  seconds for each point (0.3)
 *   -k  number of runs (1), each with new ranks
 *   -o  only this: pingpong, barrier, all_reduce, all_gather
 *   -b  only this size: 8, 32768, 1048576
 *
 * Prints tab-separated columns: ranks, loops, operation (pingpong: a blocking
 * send and receive in both directions, with two ranks only), bytes, calls, the
 * median and the mean in us of a call, and for rank 0 how often it slept and
 * how often it lost its processor in each call.
 */
#include "bench/ranks.h"

#include <symmcoll.h>

#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>

#define CALLS_MAX (1 << 20)
#define SIZES 3

static const size_t sizes[SIZES] = {8, 32 << 10, 1 << 20};

/* State in memory shared by all ranks. */
struct board {
    _Atomic long last; /* number of a point's last call; -1: not known yet */
    double seconds;
    int size, loops;
    const char *only;
    long only_nbytes; /* -1: all */
    float took[CALLS_MAX];
};

struct rank {
    struct symmcoll_group *group;
    struct board *board;
    int rank, size;
    char *in, *out;
};

typedef symmcoll_status_t (*call_fn)(const struct rank *self, size_t nbytes);

static symmcoll_status_t pingpong(const struct rank *self, size_t nbytes)
{
    int peer = 1 - self->rank;
    symmcoll_status_t status = SYMMCOLL_OK;

    if (self->rank == 0)
        status = symmcoll_send(
            self->group, self->in, nbytes, SYMMCOLL_UINT8, peer, 0, NULL, NULL);
    if (status == SYMMCOLL_OK)
        status = symmcoll_recv(self->group, self->out, nbytes, SYMMCOLL_UINT8,
            peer, 0, NULL, NULL, NULL);
    if (status == SYMMCOLL_OK && self->rank != 0)
        status = symmcoll_send(
            self->group, self->in, nbytes, SYMMCOLL_UINT8, peer, 0, NULL, NULL);
    return status;
}

static symmcoll_status_t all_reduce(const struct rank *self, size_t nbytes)
{
    return symmcoll_all_reduce(self->group, self->out, self->in,
        nbytes / sizeof(float), SYMMCOLL_FLOAT32, SYMMCOLL_SUM, NULL, NULL);
}

static symmcoll_status_t all_gather(const struct rank *self, size_t nbytes)
{
    return symmcoll_all_gather(self->group, self->out, self->in,
        nbytes / (size_t)self->size, SYMMCOLL_UINT8, NULL, NULL);
}

static symmcoll_status_t barrier(const struct rank *self, size_t nbytes)
{
    (void)nbytes;
    return symmcoll_barrier(self->group, NULL, NULL);
}

static void print_point(const struct rank *self, const char *what,
    size_t nbytes, long calls, double seconds, const struct rusage *before)
{
    struct board *board = self->board;
    struct rusage after;
    long kept = calls < CALLS_MAX ? calls : CALLS_MAX;
    double *sorted = malloc((size_t)kept * sizeof(*sorted));

    getrusage(RUSAGE_THREAD, &after);
    if (sorted == NULL)
        return;
    for (long i = 0; i < kept; i++)
        sorted[i] = board->took[i];
    qsort(sorted, (size_t)kept, sizeof(*sorted), bench_compare);
    printf("%d\t%d\t%s\t%zu\t%ld\t%.2f\t%.2f\t%.2f\t%.4f\n", self->size,
        board->loops, what, nbytes, calls, sorted[kept / 2],
        seconds * 1e6 / (double)calls,
        (double)(after.ru_nvcsw - before->ru_nvcsw) / (double)calls,
        (double)(after.ru_nivcsw - before->ru_nivcsw) / (double)calls);
    fflush(stdout);
    free(sorted);
}

/* Measures one operation. Rank 0 announces the last call before it: each call
 * ends after rank 0 has entered it. */
static symmcoll_status_t measure(
    const struct rank *self, const char *what, call_fn call, size_t nbytes)
{
    struct board *board = self->board;
    symmcoll_status_t status;
    struct rusage before;
    double began, then, now;
    long i = 0;

    atomic_store(&board->last, -1);
    status = symmcoll_barrier(self->group, NULL, NULL);
    getrusage(RUSAGE_THREAD, &before);
    began = then = bench_now();
    while (status == SYMMCOLL_OK) {
        if (self->rank == 0 && i > 0 && then - began > board->seconds)
            atomic_store(&board->last, i);
        status = call(self, nbytes);
        now = bench_now();
        if (self->rank == 0)
            board->took[i % CALLS_MAX] = (float)((now - then) * 1e6);
        then = now;
        if (atomic_load(&board->last) == i++)
            break;
    }
    if (status == SYMMCOLL_OK && self->rank == 0)
        print_point(self, what, nbytes, i, then - began, &before);
    return status == SYMMCOLL_OK ? symmcoll_barrier(self->group, NULL, NULL)
                                 : status;
}

static symmcoll_status_t measure_all(const struct rank *self)
{
    static const struct {
        const char *name;
        call_fn call;
    } calls[] = {{"barrier", barrier}, {"pingpong", pingpong},
        {"all_reduce", all_reduce}, {"all_gather", all_gather}};
    const struct board *board = self->board;
    symmcoll_status_t status = SYMMCOLL_OK;

    for (size_t c = 0; c < sizeof(calls) / sizeof(calls[0]); c++) {
        if ((calls[c].call == pingpong && self->size != 2) ||
            (board->only != NULL && strcmp(board->only, calls[c].name) != 0))
            continue;
        for (int s = 0; s < SIZES && status == SYMMCOLL_OK; s++) {
            size_t nbytes = calls[c].call == barrier ? 0 : sizes[s];

            if (calls[c].call == barrier
                    ? s > 0
                    : board->only_nbytes >= 0 &&
                          (size_t)board->only_nbytes != nbytes)
                continue;
            status = measure(self, calls[c].name, calls[c].call, nbytes);
        }
    }
    return status;
}

static symmcoll_status_t run(struct symmcoll_world *world, void *board)
{
    struct symmcoll_group *group = symmcoll_world_group(world);
    struct rank self = {.group = group,
        .board = board,
        .rank = symmcoll_group_rank(group),
        .size = symmcoll_group_size(group)};
    symmcoll_status_t status = SYMMCOLL_ERR_NO_MEMORY;

    self.in = calloc(1, sizes[SIZES - 1]);
    self.out = calloc(1, sizes[SIZES - 1]);
    if (self.in != NULL && self.out != NULL)
        status = measure_all(&self);
    free(self.in);
    free(self.out);
    return status;
}

static int run_process(int rank, int size, void *arg)
{
    struct symmcoll_world *world;
    symmcoll_status_t status;

    (void)rank;
    (void)size;
    status = symmcoll_init(NULL, &world);
    if (status == SYMMCOLL_OK) {
        status = run(world, arg);
        if (status == SYMMCOLL_OK)
            status = symmcoll_finalize(world);
    }
    if (status != SYMMCOLL_OK)
        fprintf(stderr, "%s\n", symmcoll_last_error());
    return status != SYMMCOLL_OK;
}

static void start_loops(int count, pid_t *pids)
{
    for (int i = 0; i < count; i++) {
        pids[i] = fork();
        if (pids[i] < 0) {
            perror("fork");
            exit(1);
        }
        if (pids[i] > 0)
            continue;
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        alarm(600);
        for (volatile unsigned long turns = 0;; turns++)
            ;
    }
}

static void end_loops(int count, const pid_t *pids)
{
    for (int i = 0; i < count; i++) {
        kill(pids[i], SIGKILL);
        waitpid(pids[i], NULL, 0);
    }
}

static int run_once(struct board *board, int threads)
{
    pid_t pids[BENCH_RANKS];

    if (threads)
        return symmcoll_threads_run(board->size, run, board, NULL) !=
               SYMMCOLL_OK;
    bench_start(board->size, run_process, board, pids);
    return bench_finish(board->size, pids);
}

int main(int argc, char **argv)
{
    struct board *board = mmap(NULL, sizeof(*board), PROT_READ | PROT_WRITE,
        MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    pid_t loops[BENCH_RANKS] = {0};
    int threads = 0, times = 1, failed = 0, option;

    if (board == MAP_FAILED)
        return 1;
    board->size = 2;
    board->seconds = 0.3;
    board->only_nbytes = -1;
    while ((option = getopt(argc, argv, "b:k:l:n:o:s:t")) != -1) {
        if (option == 'b')
            board->only_nbytes = bench_number(optarg, 0, 1 << 20);
        else if (option == 'o')
            board->only = optarg;
        else if (option == 'k')
            times = bench_number(optarg, 1, 1000);
        else if (option == 'l')
            board->loops = bench_number(optarg, 0, BENCH_RANKS);
        else if (option == 'n')
            board->size = bench_number(optarg, 2, BENCH_RANKS);
        else if (option == 's')
            board->seconds = atof(optarg);
        else if (option == 't')
            threads = 1;
        else
            return 2;
    }
    start_loops(board->loops, loops);
    for (int i = 0; i < times && failed == 0; i++)
        failed = run_once(board, threads);
    end_loops(board->loops, loops);
    return failed != 0;
}
