/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Test points in the Test Anything Protocol. One thread of one process prints
 * them; ranks report to that process through ranks.h.
 */
#ifndef T_TAP_H
#define T_TAP_H

#define TAP_PRINTF __attribute__((format(printf, 2, 3)))

/* Prints the number of points. Called once, before the first. */
void plan(int n);

/* Prints a point: a sentence about the library, and whether it holds. Returns
 * cond. */
int ok(int cond, const char *fmt, ...) TAP_PRINTF;

/* Prints n points as skipped, with the reason. */
void skip(int n, const char *fmt, ...) TAP_PRINTF;

/* Skips the whole program, instead of plan(); does not return. */
_Noreturn void skip_all(const char *fmt, ...)
    __attribute__((format(printf, 1, 2)));

/* Prints a line for the log. Any process and thread may call it. */
void diag(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

/* Returns the exit status of main: 0 if every planned point was printed and
 * held. */
int done_testing(void);

#undef TAP_PRINTF

#endif
