/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Tests the record of operations on several buffers: one entry with the sizes
 * of each.
 */
#include "t/tap.h"
#include "t/trace/json.h"
#include "t/trace/ring_util.h"

#include <stdio.h>
#include <unistd.h>

#define MANY 20

static const struct symc_trace_format format = {
    .version = "2.10", .syntax = SYMC_TRACE_JSON, .backend_name = "nccl"};

/* Returns the dump of a ring as text, which the caller frees. */
static char *dump(const struct symc_trace_ring *ring, int64_t entries)
{
    char path[64];
    char *text = calloc(1, 1 << 20);
    FILE *file;

    snprintf(path, sizeof(path), "coalesced.%d.tmp", (int)getpid());
    if (text == NULL || symc_trace_write(ring, symc_trace_nbytes(entries), path,
                            &format) != SYMMCOLL_OK)
        abort();
    file = fopen(path, "r");
    if (file == NULL || fread(text, 1, (1 << 20) - 1, file) == 0)
        abort();
    fclose(file);
    unlink(path);
    return text;
}

static void record_lists(struct symc_trace_ring *ring, enum symc_kind kind,
    const size_t *counts, int n)
{
    struct symc_op op = make_op(1, 0);

    op.kind = kind;
    op.buffers = n;
    op.counts = counts;
    for (int i = 0; i < n; i++)
        op.count += counts[i];
    symc_trace_end(WRITER(ring), symc_trace_start(WRITER(ring), 0, &op), true);
}

static bool is_recorded(const char *text, int entry, const char *name,
    const char *in, const char *out)
{
    char at[64];
    bool right;

    snprintf(at, sizeof(at), "entries/%d/profiling_name", entry);
    right = json_is(text, at, name);
    snprintf(at, sizeof(at), "entries/%d/input_sizes", entry);
    right = json_is(text, at, in) && right;
    snprintf(at, sizeof(at), "entries/%d/output_sizes", entry);
    return json_is(text, at, out) && right;
}

static int sizes_of_each(void)
{
    static const size_t counts[] = {2, 0, 5};
    struct symc_trace_ring *ring = make_ring(8);
    char *text;
    int right;

    record_lists(ring, SYMC_ALL_REDUCE_COALESCED, counts, 3);
    record_lists(ring, SYMC_ALL_GATHER_COALESCED, counts, 3);
    record_lists(ring, SYMC_REDUCE_SCATTER_COALESCED, counts, 3);
    text = dump(ring, 8);
    right = is_recorded(text, 0, "\"nccl:allreduce_coalesced\"",
                "[[2], [0], [5]]", "[[2], [0], [5]]") &&
            is_recorded(text, 1, "\"nccl:all_gather_into_tensor_coalesced\"",
                "[[2], [0], [5]]", "[[8], [0], [20]]") &&
            is_recorded(text, 2, "\"nccl:reduce_scatter_tensor_coalesced\"",
                "[[8], [0], [20]]", "[[2], [0], [5]]") &&
            json_is(text, "entries/0/input_dtypes",
                "[\"Float\", \"Float\", \"Float\"]");
    free(text);
    free(ring);
    return right;
}

static int the_rest_is_one(void)
{
    size_t counts[MANY];
    struct symc_trace_ring *ring = make_ring(8);
    char *text;
    int right;

    for (int i = 0; i < MANY; i++)
        counts[i] = (size_t)i;
    record_lists(ring, SYMC_REDUCE_SCATTER_COALESCED, counts, MANY);
    text = dump(ring, 8);
    right = is_recorded(text, 0, "\"nccl:reduce_scatter_tensor_coalesced\"",
        "[[0], [4], [8], [12], [16], [20], [24], [28], [32], [36], [40], [44], "
        "[48], [52], [56], [340]]",
        "[[0], [1], [2], [3], [4], [5], [6], [7], [8], [9], [10], [11], "
        "[12], [13], [14], [85]]");
    free(text);
    free(ring);
    return right;
}

/* Checks that only the latest entries have all counts, and older ones their
 * sum. */
static int older_counts_are_summed(void)
{
    static const size_t counts[] = {2, 5};
    struct symc_trace_ring *ring = make_ring(512);
    char *text;
    int right;

    for (int i = 0; i <= SYMC_TRACE_SHAPES; i++)
        record_lists(ring, SYMC_ALL_GATHER_COALESCED, counts, 2);
    text = dump(ring, 512);
    right = is_recorded(text, 0, "\"nccl:all_gather_into_tensor_coalesced\"",
                "[[7]]", "[[28]]") &&
            is_recorded(text, 1, "\"nccl:all_gather_into_tensor_coalesced\"",
                "[[2], [5]]", "[[8], [20]]");
    free(text);
    free(ring);
    return right;
}

int main(void)
{
    plan(3);
    ok(sizes_of_each(), "C62: one entry has the sizes of each buffer");
    ok(the_rest_is_one(), "buffers after the fifteenth are one size");
    ok(older_counts_are_summed(), "sizes are kept of the latest operations");
    return done_testing();
}
