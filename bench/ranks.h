/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Shared by the measuring programs: a set of ranks that are processes and find
 * each other through the environment, and statistics of many runs.
 */
#ifndef BENCH_RANKS_H
#define BENCH_RANKS_H

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define BENCH_RANKS 256

static inline double bench_now(void)
{
    struct timespec time;

    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + (double)time.tv_nsec / 1e9;
}

static inline void bench_set(const char *name, int value)
{
    char text[16];

    snprintf(text, sizeof(text), "%d", value);
    setenv(name, text, 1);
}

/* Starts size ranks; body returns the exit status. */
static inline void bench_start(int size,
    int (*body)(int rank, int size, void *arg), void *arg, pid_t *pids)
{
    static int port = 20000;

    fflush(NULL);
    setenv("MASTER_ADDR", "127.0.0.1", 1);
    bench_set("MASTER_PORT", port + (int)getpid() % 10000);
    bench_set("WORLD_SIZE", size);
    port = port < 30000 ? port + 1 : 20000;
    for (int r = 0; r < size; r++) {
        pids[r] = fork();
        if (pids[r] < 0) {
            perror("fork");
            exit(1);
        }
        if (pids[r] == 0) {
            prctl(PR_SET_PDEATHSIG, SIGKILL);
            bench_set("RANK", r);
            bench_set("LOCAL_RANK", r);
            _exit(body(r, size, arg));
        }
    }
}

/* Wait for all; how many ended with a status other than 0. */
static inline int bench_finish(int size, const pid_t *pids)
{
    int failed = 0;

    for (int r = 0; r < size; r++) {
        int status = 1;

        if (waitpid(pids[r], &status, 0) != pids[r] || status != 0)
            failed++;
    }
    return failed;
}

static inline int bench_compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

/* Returns the median; sorts the values. */
static inline double bench_median(double *values, int count)
{
    qsort(values, (size_t)count, sizeof(*values), bench_compare);
    return count == 0 ? 0 : values[count / 2];
}

/* Returns the number after an option, or ends the program. */
static inline int bench_number(const char *text, int least, int most)
{
    char *end;
    long value = strtol(text, &end, 10);

    if (end == text || *end != '\0' || value < least || value > most) {
        fprintf(stderr, "expected a number from %d to %d, found '%s'\n", least,
            most, text);
        exit(2);
    }
    return (int)value;
}

#endif
