/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Tests the assignment of parameters to buckets. A line of text describes one:
 * the buckets' members, then the limits, "0 | 1 2 ; 40 80".
 */
#include "../tap.h"

#include "ddp/bucket.h"

#include <stdio.h>
#include <string.h>

#define MAX_ITEMS 8

/* Parses items: "f100 d25" is 100 floats and 25 doubles; h: halves. */
static int parse_items(const char *text, struct symc_bucket_item *items)
{
    int n = 0, used, count;
    char type;

    while (sscanf(text, " %c%d%n", &type, &count, &used) == 2) {
        items[n].dtype = type == 'd'   ? SYMMCOLL_FLOAT64
                         : type == 'h' ? SYMMCOLL_FLOAT16
                                       : SYMMCOLL_FLOAT32;
        items[n].device = SYMMCOLL_HOST;
        items[n].nbytes = (size_t)count * symmcoll_dtype_size(items[n].dtype);
        n++;
        text += used;
    }
    return n;
}

static int parse_limits(const char *text, size_t *limits)
{
    int n = 0, used;

    while (sscanf(text, " %zu%n", &limits[n], &used) == 1) {
        n++;
        text += used;
    }
    return n;
}

static void format(const struct symc_assignment *made, char *out, size_t nbytes)
{
    size_t used = 0;

    for (int b = 0; b < made->nbuckets; b++) {
        for (int i = made->first[b]; i < made->first[b + 1]; i++)
            used += (size_t)snprintf(
                out + used, nbytes - used, "%d ", made->params[i]);
        used += (size_t)snprintf(out + used, nbytes - used, "%s",
            b < made->nbuckets - 1 ? "| " : ";");
    }
    for (int b = 0; b < made->nbuckets; b++)
        used += (size_t)snprintf(
            out + used, nbytes - used, " %zu", made->limits[b]);
}

static int assigns(const char *text, const int *order, const char *limits_text,
    const char *expected)
{
    struct symc_bucket_item items[MAX_ITEMS];
    size_t limits[MAX_ITEMS];
    struct symc_assignment made;
    char found[256] = "";
    int n = parse_items(text, items);
    int nlimits = parse_limits(limits_text, limits);

    if (symc_assign_buckets(items, n, order, limits, nlimits, &made) !=
        SYMMCOLL_OK)
        return 0;
    format(&made, found, sizeof(found));
    symc_assignment_free(&made);
    if (strcmp(found, expected) != 0)
        diag("%s, limits %s: expected %s, found %s", text, limits_text,
            expected, found);
    return strcmp(found, expected) == 0;
}

int main(void)
{
    const int backwards[] = {3, 2, 1, 0};
    const int mixed[] = {0, 1, 2, 3};

    plan(9);
    ok(assigns("f100 f200 f100 f50", NULL, "400",
           "0 | 1 | 2 | 3 ; 400 400 400 400"),
        "a tensor that fills the limit closes its bucket");
    ok(assigns("f50 d25 f50 d25 f50 d25", NULL, "400",
           "0 2 | 1 3 | 4 | 5 ; 400 400 400 400"),
        "each type has buckets of its own");
    ok(assigns("f10 f10 f10 f10", NULL, "40 80", "0 | 1 2 | 3 ; 40 80 80"),
        "the first bucket has the first limit, the last limit repeats");
    ok(assigns("f50 d25 f50 d25 f50 d25", NULL, "200 400",
           "0 | 1 | 2 4 | 3 5 ; 200 200 400 400"),
        "each type goes through the limits by itself");
    ok(assigns("f10 f1000 f10", NULL, "100", "0 1 | 2 ; 100 100"),
        "a bucket may exceed its limit by its last tensor");
    ok(assigns("f10 h10 f10 d10", NULL, "18446744073709551615",
           "0 2 | 1 | 3 ; 18446744073709551615 18446744073709551615 "
           "18446744073709551615"),
        "without a limit there is one bucket for each type");
    ok(assigns("f10 f10 f10 f10", backwards, "40 80", "3 | 2 1 | 0 ; 40 80 80"),
        "a given order is kept");
    ok(assigns("f10 d10 f10 d10", mixed, "80", "1 | 0 2 | 3 ; 80 80 80"),
        "with a given order buckets come as they were closed");
    ok(assigns("f0 f0", NULL, "1", "0 1 ; 1"),
        "empty tensors have a bucket too");
    return done_testing();
}
