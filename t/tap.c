/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Prints test points. Points go to standard output, which is flushed after
 * each so that a crash loses none; diagnostics go to standard error.
 */
#include "tap.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

static int planned = -1;
static int run;
static int failed;

void plan(int n)
{
    planned = n;
    printf("1..%d\n", n);
    fflush(stdout);
}

int ok(int cond, const char *fmt, ...)
{
    va_list args;

    run++;
    if (!cond)
        failed++;
    printf("%sok %d - ", cond ? "" : "not ", run);
    va_start(args, fmt);
    vprintf(fmt, args);
    va_end(args);
    putchar('\n');
    fflush(stdout);
    return cond;
}

void skip(int n, const char *fmt, ...)
{
    for (int i = 0; i < n; i++) {
        va_list args;

        printf("ok %d # SKIP ", ++run);
        va_start(args, fmt);
        vprintf(fmt, args);
        va_end(args);
        putchar('\n');
    }
    fflush(stdout);
}

void skip_all(const char *fmt, ...)
{
    va_list args;

    printf("1..0 # SKIP ");
    va_start(args, fmt);
    vprintf(fmt, args);
    va_end(args);
    putchar('\n');
    fflush(stdout);
    exit(0);
}

void diag(const char *fmt, ...)
{
    char line[1024];
    va_list args;

    va_start(args, fmt);
    vsnprintf(line, sizeof(line), fmt, args);
    va_end(args);
    fprintf(stderr, "# %s\n", line);
}

int done_testing(void)
{
    if (planned < 0) {
        planned = run;
        printf("1..%d\n", run);
    }
    if (run != planned)
        diag("planned %d points, ran %d", planned, run);
    if (failed > 0)
        diag("%d of %d points failed", failed, run);
    fflush(stdout);
    return failed > 0 || run != planned ? 1 : 0;
}
