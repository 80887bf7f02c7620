/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What tests of sends and receives share.
 */
#ifndef T_PAIR_PAIR_H
#define T_PAIR_PAIR_H

#include "../tap.h"

#include <symmcoll.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The condition; where it does not hold, what it is about and the last error
 * are in the log. */
bool say(bool right, const char *what);

/* count numbers that tell whose they are, of which round, and where; to be
 * freed.  -1: of nobody.  Whether numbers are those. */
int *make(size_t count, int rank, int round);
bool is_made(const int *found, size_t count, int rank, int round);

/* Wait for a work and release it: whether it ended with OK. */
bool ends(struct symmcoll_work *work);
/* The same for an error that has a text in it. */
bool ends_with(
    struct symmcoll_work *work, symmcoll_status_t status, const char *text);
/* The same of a status that a call has just returned. */
bool is_status(
    symmcoll_status_t found, symmcoll_status_t expected, const char *text);

/* Send and receive a few of those numbers, blocking. */
bool put(struct symmcoll_group *group, int peer, int64_t tag, size_t count,
    int rank, int round);
bool get(struct symmcoll_group *group, int peer, int64_t tag, size_t count,
    int rank, int round);

/* Wait until the next message of a rank is in its ring here, without taking it;
 * there has been one before.  Nothing else of this rank waits for any. */
bool await_arrival(struct symmcoll_group *group, int rank);

#endif
