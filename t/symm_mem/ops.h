/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Data for the tests of operations on symmetric memory: the data of a rank is
 * a function of its number, so every rank can compute that of all.
 */
#ifndef T_SYMM_MEM_OPS_H
#define T_SYMM_MEM_OPS_H

#include "t/symm_mem/symm.h"

#include <stdint.h>
#include <stdlib.h>

/* Returns the next random number. */
static inline uint32_t next_number(uint64_t *state)
{
    *state = *state * UINT64_C(6364136223846793005) + 1442695040888963407u;
    return (uint32_t)(*state >> 33);
}

static inline uint64_t seed_of(int rank, int kind)
{
    return (uint64_t)rank * 1000003u + (uint64_t)kind * 7919u + 12345u;
}

/* Fills with random bytes. */
static inline void fill_bytes(void *out, size_t nbytes, int rank, int kind)
{
    uint64_t state = seed_of(rank, kind);

    for (size_t i = 0; i < nbytes; i++)
        ((unsigned char *)out)[i] = (unsigned char)next_number(&state);
}

/* Writes elements of a type: floats of all sizes with sums that depend on
 * their order. */
static inline void fill_elements(
    void *out, size_t count, enum symmcoll_dtype dtype, int rank, int kind)
{
    uint64_t state = seed_of(rank, kind);

    for (size_t i = 0; i < count; i++) {
        uint32_t number = next_number(&state);
        float value = ((float)(number % 20001) - 10000) /
                      (float)(1 + number / 20001 % 97);
        uint32_t bits;

        memcpy(&bits, &value, sizeof(bits));
        if (dtype == SYMMCOLL_FLOAT32)
            ((float *)out)[i] = value;
        else if (dtype == SYMMCOLL_FLOAT64)
            ((double *)out)[i] = (double)value / 3;
        else if (dtype == SYMMCOLL_BFLOAT16)
            ((uint16_t *)out)[i] = (uint16_t)(bits >> 16);
        else
            ((int32_t *)out)[i] = (int32_t)number;
    }
}

static inline bool equal_bytes(
    const void *found, const void *expected, size_t nbytes, const char *what)
{
    for (size_t i = 0; i < nbytes; i++) {
        if (((const unsigned char *)found)[i] !=
            ((const unsigned char *)expected)[i]) {
            diag("%s: byte %zu of %zu differs", what, i, nbytes);
            return false;
        }
    }
    return true;
}

/* Checks that a call was refused with a status and a text; prints the
 * difference if not. */
static inline bool was_refused(symmcoll_status_t found,
    symmcoll_status_t expected, const char *text, int line)
{
    bool good =
        found == expected && strstr(symmcoll_last_error(), text) != NULL;

    if (!good)
        diag("line %d: expected %s with '%s', found %s: %s", line,
            symmcoll_status_name(expected), text, symmcoll_status_name(found),
            symmcoll_last_error());
    return good;
}

#define REFUSED(call, status, text) was_refused(call, status, text, __LINE__)

#endif
