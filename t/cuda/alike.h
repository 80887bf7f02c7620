/* SPDX-License-Identifier: BSD-3-Clause */
/* Comparisons of the library's declarations with those of NVIDIA's headers. */
#ifndef T_CUDA_ALIKE_H
#define T_CUDA_ALIKE_H

#include "t/tap.h"

static int failures;

/* Compares a value of both headers. */
static void compare(const char *what, uint64_t ours, uint64_t theirs)
{
    if (ours == theirs)
        return;
    diag("%s: expected %llu, found %llu", what, (unsigned long long)theirs,
        (unsigned long long)ours);
    failures++;
}

#define SAME(ours, theirs) \
    compare(#theirs, (uint64_t)(ours), (uint64_t)(theirs))
#define SAME_SIZE(ours, theirs) SAME(sizeof(ours), sizeof(theirs))
#define SAME_MEMBER(ours, our, theirs, their)           \
    SAME(offsetof(ours, our), offsetof(theirs, their)), \
        SAME(sizeof(((ours *)0)->our), sizeof(((theirs *)0)->their))

/* Returns whether all values since the last call were alike. */
static int alike(void)
{
    int right = failures == 0;

    failures = 0;
    return right;
}

#endif
