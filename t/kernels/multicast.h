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

/* Opens an address for nbytes bytes at each of the n places, the array of
 * which is copied. At most one at a time, and not while kernels run. */
unsigned char *multicast_open(
    unsigned char *const *places, int n, size_t nbytes);
void multicast_close(void);

/* Returns whether an address is a multicast address. */
bool multicast_has(const void *at);

/* Return the number of ranks bound to the address, and the place in one of
 * them. */
int multicast_count(void);
void *multicast_place(const void *at, int number);

/* Returns the sum of n numbers in an order drawn from `random`, with each
 * addition rounded to one of the two nearest numbers of float32, as a switch
 * may do. Overwrites the numbers. */
float multicast_add(float *numbers, int n, uint32_t random);

#endif
