/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Measures the time from the death of a rank until every other rank has an
 * error.
 *
 *   deaths [-b] [-k KILLS] [-n RANKS] [-m MIB]
 *
 * The victim, each rank in turn, has MIB of memory in use; the others wait for
 * it in a barrier. The time is from kill() to the return of each barrier, with
 * the current settings, and therefore includes the writing of the flight
 * recorder. With -b (--busy) every rank also computes, in a second thread, so
 * that processors are scarce. Without -n and -m: 2, 4 and 16 ranks, with no
 * memory and with 1 GiB.
 *
 * One line of tab-separated columns for each: ranks, MiB, busy or idle, kills,
 * and in ms over all peers of all kills the median, the 90th and 99th
 * percentile and the maximum.
 */
#include "bench/ranks.h"

#include <symmcoll.h>

#include <getopt.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>

struct board {
    _Atomic int ready;
    int victim;
    size_t nbytes; /* of the victim's memory */
    int busy;
    double told[BENCH_RANKS];
};

static _Noreturn void *compute(void *arg)
{
    static volatile double x;

    (void)arg;
    for (;;)
        x = x * 1.000001 + 1;
}

static int wait_to_be_told(int rank, int size, void *arg)
{
    struct board *board = arg;
    struct symmcoll_world *world;
    pthread_t thread;
    char *memory = NULL;

    (void)size;
    if (board->busy && pthread_create(&thread, NULL, compute, NULL) != 0)
        return 1;
    if (rank == board->victim && board->nbytes > 0) {
        memory = malloc(board->nbytes);
        if (memory == NULL)
            return 1;
        memset(memory, 1, board->nbytes);
    }
    if (symmcoll_init(NULL, &world) != SYMMCOLL_OK ||
        symmcoll_barrier(symmcoll_world_group(world), NULL, NULL) !=
            SYMMCOLL_OK) {
        fprintf(stderr, "rank %d: %s\n", rank, symmcoll_last_error());
        return 1;
    }
    board->ready++;
    if (rank == board->victim) {
        pause();
        return memory != NULL ? memory[0] : 1;
    }
    if (symmcoll_barrier(symmcoll_world_group(world), NULL, NULL) !=
        SYMMCOLL_ERR_PEER) {
        fprintf(stderr, "rank %d: expected PEER, found: %s\n", rank,
            symmcoll_last_error());
        return 1;
    }
    board->told[rank] = bench_now();
    return symmcoll_finalize(world) != SYMMCOLL_OK;
}

/* Kills one rank and appends the times of all peers to times. False: another
 * error. */
static int kill_one(struct board *board, int size, double *times)
{
    pid_t pids[BENCH_RANKS];
    int count = 0;
    double killed;

    board->ready = 0;
    bench_start(size, wait_to_be_told, board, pids);
    for (double until = bench_now() + 60; board->ready < size;) {
        if (bench_now() > until)
            return 0;
        usleep(1000);
    }
    usleep(20000); /* they are waiting by now */
    killed = bench_now();
    kill(pids[board->victim], SIGKILL);
    if (bench_finish(size, pids) != 1)
        return 0;
    for (int r = 0; r < size; r++) {
        if (r != board->victim)
            times[count++] = (board->told[r] - killed) * 1e3;
    }
    return 1;
}

static int measure(struct board *board, int size, int mib, int kills)
{
    int count = kills * (size - 1);
    double *times = calloc((size_t)count, sizeof(*times));

    board->nbytes = (size_t)mib << 20;
    for (int k = 0; times != NULL && k < kills; k++) {
        board->victim = k % size;
        if (!kill_one(board, size, times + k * (size - 1)))
            return 0;
    }
    if (times == NULL)
        return 0;
    double median = bench_median(times, count);
    printf("%d\t%d\t%s\t%d\t%.1f\t%.1f\t%.1f\t%.1f\n", size, mib,
        board->busy ? "busy" : "idle", kills, median, times[count * 9 / 10],
        times[count * 99 / 100], times[count - 1]);
    fflush(stdout);
    free(times);
    return 1;
}

int main(int argc, char **argv)
{
    static const struct option options[] = {
        {"busy", no_argument, NULL, 'b'}, {NULL, 0, NULL, 0}};
    static const int sizes[] = {2, 4, 16}, mibs[] = {0, 1024};
    int kills = 100, only_size = 0, only_mib = -1, good = 1, option;
    struct board *board = mmap(NULL, sizeof(*board), PROT_READ | PROT_WRITE,
        MAP_SHARED | MAP_ANONYMOUS, -1, 0);

    if (board == MAP_FAILED) {
        perror("mmap");
        return 1;
    }
    while ((option = getopt_long(argc, argv, "bk:n:m:", options, NULL)) != -1) {
        if (option == 'b')
            board->busy = 1;
        else if (option == 'k')
            kills = bench_number(optarg, 1, 100000);
        else if (option == 'n')
            only_size = bench_number(optarg, 2, BENCH_RANKS);
        else if (option == 'm')
            only_mib = bench_number(optarg, 0, 1 << 20);
        else
            return 2;
    }
    printf("ranks\tMiB\tload\tkills\tp50_ms\tp90_ms\tp99_ms\tworst_ms\n");
    for (size_t m = 0; m < sizeof(mibs) / sizeof(*mibs); m++) {
        for (size_t n = 0; n < sizeof(sizes) / sizeof(*sizes); n++) {
            if ((only_size > 0 && n > 0) || (only_mib >= 0 && m > 0))
                continue;
            good = good && measure(board, only_size > 0 ? only_size : sizes[n],
                               only_mib >= 0 ? only_mib : mibs[m], kills);
        }
    }
    return good ? 0 : 1;
}
