/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Measures the start and the end of ranks: symmcoll_init(), which joins the
 * others, and symmcoll_finalize().
 *
 *   init [-k TIMES] [-n RANKS]
 *
 * Without -n: 2 and 16 ranks. One line of tab-separated columns for each:
 * ranks, times, and the medians in ms of init, of finalize and of both, with
 * the slowest rank's time for each set of ranks. The processes exist before
 * and begin together; their creation is not measured.
 */
#include "bench/ranks.h"

#include <symmcoll.h>

#include <sched.h>
#include <stdatomic.h>
#include <sys/mman.h>

struct board {
    _Atomic int come;         /* ranks at the start line, over both lines */
    double init[BENCH_RANKS]; /* of this time */
    double finalize[BENCH_RANKS];
};

/* Blocks until all ranks have called. */
static void line_up(struct board *board, int size, int round)
{
    board->come++;
    while (board->come < size * round)
        sched_yield();
}

static int begin_and_end(int rank, int size, void *arg)
{
    struct board *board = arg;
    struct symmcoll_world *world;
    double before, between;

    line_up(board, size, 1);
    before = bench_now();
    if (symmcoll_init(NULL, &world) != SYMMCOLL_OK) {
        fprintf(stderr, "rank %d: %s\n", rank, symmcoll_last_error());
        return 1;
    }
    between = bench_now();
    board->init[rank] = (between - before) * 1e3;
    line_up(board, size, 2);
    between = bench_now();
    if (symmcoll_finalize(world) != SYMMCOLL_OK)
        return 1;
    board->finalize[rank] = (bench_now() - between) * 1e3;
    return 0;
}

static double slowest(const double *values, int count)
{
    double worst = 0;

    for (int i = 0; i < count; i++) {
        if (values[i] > worst)
            worst = values[i];
    }
    return worst;
}

static int measure(struct board *board, int size, int times)
{
    double *init = calloc((size_t)times, sizeof(*init));
    double *finalize = calloc((size_t)times, sizeof(*finalize));
    double *both = calloc((size_t)times, sizeof(*both));
    int good = init != NULL && finalize != NULL && both != NULL;

    for (int k = 0; good && k < times; k++) {
        pid_t pids[BENCH_RANKS];

        board->come = 0;
        bench_start(size, begin_and_end, board, pids);
        good = bench_finish(size, pids) == 0;
        init[k] = slowest(board->init, size);
        finalize[k] = slowest(board->finalize, size);
        both[k] = init[k] + finalize[k];
    }
    if (good)
        printf("%d\t%d\t%.2f\t%.2f\t%.2f\n", size, times,
            bench_median(init, times), bench_median(finalize, times),
            bench_median(both, times));
    fflush(stdout);
    free(init);
    free(finalize);
    free(both);
    return good;
}

int main(int argc, char **argv)
{
    int times = 50, only = 0, good, option;
    struct board *board = mmap(NULL, sizeof(*board), PROT_READ | PROT_WRITE,
        MAP_SHARED | MAP_ANONYMOUS, -1, 0);

    while ((option = getopt(argc, argv, "k:n:")) != -1) {
        if (option == 'k')
            times = bench_number(optarg, 1, 100000);
        else if (option == 'n')
            only = bench_number(optarg, 1, BENCH_RANKS);
        else
            return 2;
    }
    if (board == MAP_FAILED) {
        perror("mmap");
        return 1;
    }
    printf("ranks\ttimes\tinit_ms\tfinalize_ms\tboth_ms\n");
    good = measure(board, only > 0 ? only : 2, times);
    if (only == 0)
        good = measure(board, 16, times) && good;
    return good ? 0 : 1;
}
