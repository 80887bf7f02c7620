/* SPDX-License-Identifier: BSD-3-Clause */
#include "t/kernels/multicast.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

static struct {
    unsigned char *at;
    size_t nbytes;
    unsigned char *places[MULTICAST_RANKS];
    int n;
} mapped;

unsigned char *multicast_open(
    unsigned char *const *places, int n, size_t nbytes)
{
    void *at = mmap(NULL, nbytes, PROT_NONE,
        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

    if (at == MAP_FAILED || n > MULTICAST_RANKS || mapped.n > 0)
        abort();
    mapped.at = at;
    mapped.nbytes = nbytes;
    mapped.n = n;
    memcpy(mapped.places, places, sizeof(*places) * (size_t)n);
    return at;
}

void multicast_close(void)
{
    if (mapped.n > 0)
        (void)munmap(mapped.at, mapped.nbytes);
    mapped.n = 0;
}

bool multicast_has(const void *at)
{
    return mapped.n > 0 &&
           (uintptr_t)at - (uintptr_t)mapped.at < (uintptr_t)mapped.nbytes;
}

int multicast_count(void)
{
    return mapped.n;
}

void *multicast_place(const void *at, int number)
{
    return mapped.places[number] + ((const unsigned char *)at - mapped.at);
}

/* ---- sums ---- */

static uint32_t draw(uint32_t *random)
{
    *random = *random * 1664525 + 1013904223;
    return *random >> 8;
}

/* Returns the next number above a finite one, or below it. */
static float next_to(float value, bool above)
{
    uint32_t bits = above ? 1 : 0x80000001;

    if (value != 0) {
        memcpy(&bits, &value, sizeof(bits));
        bits += (value > 0) == above ? 1 : UINT32_MAX;
    }
    memcpy(&value, &bits, sizeof(value));
    return value;
}

/* Returns the nearest number to a sum or, if the sum is not exact, the one on
 * its other side. */
static float add(float a, float b, bool other)
{
    const float sum = a + b, part = sum - a;
    const float error = (a - (sum - part)) + (b - part);

    return !other || !isfinite(sum) || error == 0 ? sum
                                                  : next_to(sum, error > 0);
}

float multicast_add(float *numbers, int n, uint32_t random)
{
    for (; n > 1; n--) {
        const int i = (int)(draw(&random) % (uint32_t)n);
        float one = numbers[i];
        int k;

        numbers[i] = numbers[n - 1];
        k = (int)(draw(&random) % (uint32_t)(n - 1));
        numbers[k] = add(numbers[k], one, draw(&random) % 2 != 0);
    }
    return numbers[0];
}
