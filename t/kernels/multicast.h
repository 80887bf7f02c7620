/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A multicast address on the host, which stands for the memory of several
 * ranks. Only the instructions of t/kernels/device_host.h can access it; they
 * look up the memory of the ranks here.
 */
#ifndef T_KERNELS_MULTICAST_H
#define T_KERNELS_MULTICAST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define MULTICAST_RANKS 16

/* An address for nbytes from each of n places on, which are copied.  There is one
 * at a time, between runs of kernels. */
unsigned char *multicast_open(
    unsigned char *const *places, int n, size_t nbytes);
void multicast_close(void);

/* Returns whether an address is a multicast address. */
bool multicast_has(const void *at);

/* Return the number of ranks bound to the address, and the place in one of
 * them. */
int multicast_count(void);
void *multicast_place(const void *at, int number);

/* The sum of n numbers in an order that `random` draws, each addition rounded to
 * one of the two nearest numbers of float32: what is promised of a switch, and no
 * more.  The numbers are overwritten. */
float multicast_add(float *numbers, int n, uint32_t random);

#endif
