/* SPDX-License-Identifier: BSD-3-Clause */
/* Tests checked sizes and allocation. */
#include "../tap.h"

#include "base/base.h"

#include <stdlib.h>
#include <string.h>

static int memory_is_zeroed(void)
{
    unsigned char *memory = symc_alloc(1000, 3);
    int zero = memory != NULL;

    for (int i = 0; zero && i < 3000; i++)
        zero = memory[i] == 0;
    free(memory);
    return zero;
}

static int empty_is_no_failure(void)
{
    void *none = symc_alloc(0, 8);
    void *empty = symc_alloc(8, 0);
    int both = none != NULL && empty != NULL;

    free(none);
    free(empty);
    return both;
}

/* The volatile hides the size from the compiler. */
static int overflow_is_refused(void)
{
    volatile size_t half = SIZE_MAX / 2 + 1;
    void *memory = symc_alloc(half, 2);
    int refused = memory == NULL;

    free(memory);
    return refused && strstr(symmcoll_last_error(), "9223372036854775808") &&
           strstr(symmcoll_last_error(), "2 bytes");
}

static int text_is_copied(void)
{
    char text[] = "symmetric";
    char *copy = symc_strdup(text);
    int same = copy != NULL && copy != text && strcmp(copy, text) == 0;

    free(copy);
    return same;
}

int main(void)
{
    size_t result = 7;

    plan(8);
    ok(symc_multiply(3, 4, &result) && result == 12, "sizes are multiplied");
    ok(symc_multiply(SIZE_MAX, 1, &result) && result == SIZE_MAX,
        "the largest product is one");
    ok(!symc_multiply(SIZE_MAX / 2 + 1, 2, &result),
        "a product that wraps is refused");
    ok(symc_add(SIZE_MAX - 1, 1, &result) && result == SIZE_MAX &&
            !symc_add(SIZE_MAX, 1, &result),
        "a sum that wraps is refused, the largest is not");
    ok(memory_is_zeroed(), "memory is zeroed");
    ok(empty_is_no_failure(), "no elements, or empty ones, are no failure");
    if (sizeof(size_t) == 8)
        ok(overflow_is_refused(), "a size that wraps is refused and named");
    else
        skip(1, "size_t has not 64 bits");
    ok(text_is_copied(), "text is copied");
    return done_testing();
}
