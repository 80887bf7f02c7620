/* SPDX-License-Identifier: BSD-3-Clause */
/* Allocation with overflow checks: no product or sum of sizes wraps around. */
#include "base/base.h"

#include <stdlib.h>
#include <string.h>

void *symc_alloc(size_t count, size_t size)
{
    size_t nbytes;
    void *memory = NULL;

    /* A size of 0 allocates one byte, because NULL means failure. */
    if (symc_multiply(count, size, &nbytes))
        memory = calloc(nbytes > 0 ? nbytes : 1, 1);
    if (memory == NULL)
        (void)symc_fail(SYMMCOLL_ERR_NO_MEMORY,
            "memory: no room for %zu elements of %zu bytes", count, size);
    return memory;
}

char *symc_strdup(const char *text)
{
    size_t nbytes = strlen(text) + 1;
    char *copy = symc_alloc(nbytes, 1);

    if (copy != NULL)
        memcpy(copy, text, nbytes);
    return copy;
}
