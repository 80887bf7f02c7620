/* SPDX-License-Identifier: BSD-3-Clause */
/* Helpers for tests of sends and receives. */
#ifndef T_PAIR_PAIR_H
#define T_PAIR_PAIR_H

#include "../tap.h"

#include <symmcoll.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Returns the condition; if false, logs the text and the last error. */
bool say(bool right, const char *what);

/* make() allocates count numbers, which encode the rank, the round and the
 * index; the caller frees them. Rank -1 marks numbers of no rank. is_made()
 * returns whether the numbers are those. */
int *make(size_t count, int rank, int round);
bool is_made(const int *found, size_t count, int rank, int round);

/* Wait for a work and release it: whether it ended with OK. */
bool ends(struct symmcoll_work *work);
/* Checks, as ends() does, that a work ends with a status, and with an error
 * that contains text. */
bool ends_with(
    struct symmcoll_work *work, symmcoll_status_t status, const char *text);
/* Checks a status just returned by a call, and that the last error contains
 * text. */
bool is_status(
    symmcoll_status_t found, symmcoll_status_t expected, const char *text);

/* Send and receive such numbers, blocking. */
bool put(struct symmcoll_group *group, int peer, int64_t tag, size_t count,
    int rank, int round);
bool get(struct symmcoll_group *group, int peer, int64_t tag, size_t count,
    int rank, int round);

/* Waits until the next message of a rank is in its ring here, without taking
 * it. An earlier one must have created the ring, and no receive may be
 * pending. */
bool await_arrival(struct symmcoll_group *group, int rank);

#endif
