/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Test points in the Test Anything Protocol. One thread of one process prints
 * them; ranks report to that process through ranks.h.
 */
#ifndef T_TAP_H
#define T_TAP_H

#define TAP_PRINTF __attribute__((format(printf, 2, 3)))

/* Say how many points will come.  Once, before the first. */
void plan(int n);

/* One point: a sentence about the library, and whether it holds.  Gives cond.
 */
int ok(int cond, const char *fmt, ...) TAP_PRINTF;

/* Count n points as skipped; the text says why. */
void skip(int n, const char *fmt, ...) TAP_PRINTF;

/* Skip the whole program, in place of plan(); does not return. */
_Noreturn void skip_all(const char *fmt, ...)
    __attribute__((format(printf, 1, 2)));

/* A line for the log.  Any process and thread may call it. */
void diag(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

/* The exit status of main: 0 where every planned point came and held. */
int done_testing(void);

#undef TAP_PRINTF

#endif
