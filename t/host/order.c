/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Tests the order of sums: by rank, above 16 ranks by blocks of
 * host.reduce_run, and the same bits whichever setting chooses sizes, chunks
 * and algorithms, and whether ranks are processes or threads (L10).
 */
#include "../coll/data.h"
#include "../tap.h"

#include <stdio.h>
#include <stdlib.h>

#define COUNT ((size_t)5003)

static int block = 16; /* as set for the running point */

static int sums_have_the_order(struct symmcoll_group *group, int rank)
{
    static const enum symmcoll_dtype dtypes[] = {
        SYMMCOLL_FLOAT32, SYMMCOLL_FLOAT16, SYMMCOLL_FLOAT64};
    int size = symmcoll_group_size(group);
    bool right = true;

    for (size_t d = 0; right && d < LENGTH(dtypes); d++) {
        size_t nbytes = COUNT * symmcoll_dtype_size(dtypes[d]);
        size_t part = COUNT / (size_t)size;
        struct guarded in = guarded_open(nbytes, 0),
                       out = guarded_open(nbytes, 0);
        struct guarded expected = guarded_open(nbytes, 0);

        data_fill(in.at, dtypes[d], 0, COUNT, rank, 3);
        data_reduce(
            expected.at, dtypes[d], SYMMCOLL_SUM, 0, COUNT, size, block, 3);
        right = symmcoll_all_reduce(group, out.at, in.at, COUNT, dtypes[d],
                    SYMMCOLL_SUM, NULL, NULL) == SYMMCOLL_OK &&
                data_is_same("all_reduce", out.at, expected.at, nbytes) &&
                symmcoll_reduce_scatter(group, out.at, in.at, part, dtypes[d],
                    SYMMCOLL_SUM, NULL, NULL) == SYMMCOLL_OK &&
                data_is_same("reduce_scatter", out.at,
                    expected.at +
                        (size_t)rank * part * symmcoll_dtype_size(dtypes[d]),
                    part * symmcoll_dtype_size(dtypes[d])) &&
                symmcoll_reduce(group, out.at, in.at, COUNT, dtypes[d],
                    SYMMCOLL_SUM, size - 1, NULL, NULL) == SYMMCOLL_OK &&
                (rank != size - 1 ||
                    data_is_same("reduce", out.at, expected.at, nbytes));
        guarded_close(&in);
        guarded_close(&out);
        guarded_close(&expected);
    }
    return right;
}

/* A setting, and the number of ranks that are added in a row. */
static const struct {
    const char *name;
    const char *value;
    int block;
} settings[] = {{"SYMMCOLL_HOST_SMALL_MAX", "0", 16},
    {"SYMMCOLL_HOST_SMALL_MAX", "16KiB", 16},
    {"SYMMCOLL_HOST_CHUNK", "4KiB", 16}, {"SYMMCOLL_HOST_CHUNK", "1MiB", 16},
    {"SYMMCOLL_HOST_STREAM_MIN", "0", 16}, {"SYMMCOLL_HOST_DIRECT", "off", 16},
    {"SYMMCOLL_HOST_REDUCE_RUN", "2", 2}, {"SYMMCOLL_HOST_REDUCE_RUN", "5", 5},
    {"SYMMCOLL_HOST_REDUCE_RUN", "1024", 1024}};

int main(void)
{
    both_run(16, sums_have_the_order, "sixteen ranks are added one by one");
    both_run(18, sums_have_the_order, "more are added in blocks of sixteen");
    both_run(37, sums_have_the_order, "more are added in blocks of sixteen");
    for (size_t i = 0; i < LENGTH(settings); i++) {
        char sentence[128];

        snprintf(sentence, sizeof(sentence),
            "with %s=%s runs are of %d ranks, and nothing else changes",
            settings[i].name, settings[i].value, settings[i].block);
        setenv(settings[i].name, settings[i].value, 1);
        block = settings[i].block;
        both_run(5, sums_have_the_order, sentence);
        both_run(18, sums_have_the_order, sentence);
        unsetenv(settings[i].name);
    }
    return done_testing();
}
