/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * --thresholds: all_reduce on devices, done in each way at sizes around the
 * points where the settings change from one to the next, and the settings that
 * follow from these times.  Those with a switch use symmetric memory.  A way is
 * measured in a world with settings that allow no other.
 */
#include "perf_thresholds.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static double both_ways(int size)
{
    return 2.0 * (size - 1) / size;
}

static const struct perf_op by_switch = {.name = "intra_node_all_reduce",
    .in = PERF_ONE,
    .out = PERF_ONE,
    .reduces = true,
    .device = true,
    .unordered = true,
    .run = perf_run_intra_node,
    .bus_factor = both_ways};

/* ---- measuring ---- */

static void set(const char *name, const char *value)
{
    if (value != NULL)
        setenv(name, value, 1);
    else
        unsetenv(name);
}

/* Sets the environment; no ranks exist yet, so no other thread reads it. */
static void apply(const struct perf_table *table, const struct perf_way *way)
{
    set("SYMMCOLL_CUDA_PACKETS_MAX", way->packets_max);
    set("SYMMCOLL_CUDA_ONE_SHOT_MAX", way->one_shot_max);
    set("SYMMCOLL_CUDA_ONE_SHOT_MAX_TWO", way->one_shot_max);
    set("SYMMCOLL_CUDA_BLOCKS",
        way->blocks != NULL ? way->blocks : table->blocks);
    /* All or nothing, whatever the reduction. */
    set("SYMMCOLL_CUDA_NCCL_SUMS", "on");
    set("SYMMCOLL_CUDA_NCCL_MIN", way->by_nccl ? "0" : "inf");
    if (way->by_switch == NULL)
        return;
    set("SYMMCOLL_CUDA_MULTIMEM", "on");
    set("SYMMCOLL_CUDA_MULTIMEM_ONE_SHOT_MAX", way->by_switch);
    set("SYMMCOLL_CUDA_MULTICAST_BLOCKS",
        way->blocks != NULL ? way->blocks : table->multicast_blocks);
}

/* Chooses the only operation that a switch supports. */
static void choose_switch(struct perf_options *one)
{
    one->choices[0] = (struct perf_choice){.op = &by_switch};
    snprintf(one->choices[0].name, sizeof(one->choices[0].name), "%s",
        by_switch.name);
    one->nchoices = 1;
    one->dtype = SYMMCOLL_BFLOAT16;
    one->reduce = SYMMCOLL_SUM;
}

/* Marks the operation as unordered, because NCCL sums in its own order. */
static void choose_nccl(struct perf_options *one, struct perf_op *by_nccl)
{
    *by_nccl = *one->choices[0].op;
    by_nccl->unordered = true;
    one->choices[0].op = by_nccl;
}

/* Returns why the ranks have no switch; NULL: they have one. */
static const char *find_no_switch(const struct perf_options *options, int ranks)
{
    if (options->share || !perf_driver_has_multicast(options->driver, ranks))
        return "no multicast";
    return ranks > SWITCH_RANKS ? "more than 8 ranks" : NULL;
}

/* Measures a way with the first ranks, or with all (0). */
static int measure_way(const struct perf_table *table, int number, int members,
    struct perf_results *results, perf_run_fn run)
{
    struct perf_options one = *table->options;
    const struct perf_way *way = &perf_ways[number];
    struct perf_op by_nccl;
    char name[PERF_NAME_MAX];

    if (one.min_nbytes < way->least)
        one.min_nbytes = way->least;
    if (one.max_nbytes > way->most)
        one.max_nbytes = way->most;
    if (one.min_nbytes > one.max_nbytes)
        return PERF_PASSED;
    one.step = 2;
    one.members = members;
    one.results = results;
    if (way->by_switch != NULL)
        choose_switch(&one);
    if (way->by_nccl)
        choose_nccl(&one, &by_nccl);
    apply(table, way);
    snprintf(name, sizeof(name), "thresholds-%d-%d", members, number);
    return run(&one, name);
}

static bool is_skipped(const struct perf_table *table, int number)
{
    return (perf_ways[number].by_nccl && table->no_nccl != NULL) ||
           (perf_ways[number].by_switch != NULL && table->no_switch != NULL);
}

static int measure_ways(
    struct perf_table *table, int members, int *ranks, perf_run_fn run)
{
    struct perf_results found[WAYS] = {{0}};
    int result = PERF_PASSED;

    for (int i = 0; i < WAYS && result == PERF_PASSED; i++) {
        if (i == SWITCH_ONE_SHOT)
            table->no_switch = find_no_switch(table->options, *ranks);
        if (is_skipped(table, i))
            continue;
        result = measure_way(table, i, members, &found[i], run);
        if (found[i].ranks > 0)
            *ranks = found[i].ranks;
    }
    if (result == PERF_PASSED && *ranks < 2) {
        fprintf(stderr,
            "symmcoll-perf: --thresholds: expected 2 ranks or more, found "
            "%d\n",
            *ranks);
        return PERF_FAILED;
    }
    memcpy(table->results[*ranks > 2 && members == 0 ? OF_MORE : OF_TWO], found,
        sizeof(found));
    return result;
}

/* ---- printing ---- */

static void print_time(const struct perf_figures *figures)
{
    if (figures == NULL)
        printf(" %13s", "-");
    else
        printf(" %13.3f", figures->median * 1e6);
}

static const char *find_fastest(
    const struct perf_results *results, int first, int last, size_t nbytes)
{
    const char *name = "";
    double least = INFINITY;

    for (int i = first; i <= last; i++) {
        const struct perf_figures *figures =
            perf_find_figures(&results[i], nbytes);

        if (figures != NULL && figures->median < least) {
            least = figures->median;
            name = perf_ways[i].name;
        }
    }
    return name;
}

/* Prints the sizes at which one of these ways was measured. */
static void print_rows(
    const struct perf_results *results, int first, int last, int ranks)
{
    char size[32];

    for (size_t nbytes = KIB; nbytes <= 64 * MIB; nbytes *= 2) {
        const char *fastest = find_fastest(results, first, last, nbytes);

        if (*fastest == '\0')
            continue;
        printf("%5d %10s", ranks, perf_format_size(nbytes, size, sizeof(size)));
        for (int i = first; i <= last; i++)
            print_time(perf_find_figures(&results[i], nbytes));
        printf("  %s\n", fastest);
    }
}

static void print_part(
    const struct perf_table *table, int first, int last, int ranks)
{
    char head[32];

    printf("%5s %10s", "ranks", "bytes");
    for (int i = first; i <= last; i++) {
        snprintf(head, sizeof(head), "%s us", perf_ways[i].name);
        printf(" %13s", head);
    }
    printf("  fastest\n");
    print_rows(table->results[OF_TWO], first, last, 2);
    print_rows(table->results[OF_MORE], first, last, ranks);
    putchar('\n');
}

static void print_size(
    const struct perf_options *options, const char *key, const char *size)
{
    printf("%s    %s = \"%s\";\n", options->tsv ? "# " : "", key, size);
}

static void print_limit(
    const struct perf_options *options, const char *key, size_t limit)
{
    char size[32];

    perf_format_size(limit, size, sizeof(size));
    /* "16 KiB" in tables, 16KiB in settings. */
    for (char *at = strchr(size, ' '); at != NULL && *at != '\0'; at++)
        *at = at[1];
    print_size(options, key, limit > 0 ? size : "0");
}

/* Prints the least size of a way; 0: never used. */
static void print_least(
    const struct perf_options *options, const char *key, size_t least)
{
    if (least > 0)
        print_limit(options, key, least);
    else
        print_size(options, key, "inf");
}

/* Prints settings for /etc/symmcoll.conf. */
static void print_settings(const struct perf_table *table)
{
    const struct perf_options *options = table->options;
    const char *mark = options->tsv ? "# " : "", *blocks;
    size_t limit;

    if (options->share)
        printf("# All ranks were on one device: no measure for others.\n");
    printf("%scuda: {\n", mark);
    if (perf_find_limit(table, PACKETS, OF_TWO, OF_MORE, &limit))
        print_limit(options, "packets_max", limit);
    if (perf_find_limit(table, ONE_SHOT, OF_MORE, OF_MORE, &limit))
        print_limit(options, "one_shot_max", limit);
    if (perf_find_limit(table, ONE_SHOT, OF_TWO, OF_TWO, &limit))
        print_limit(options, "one_shot_max_two", limit);
    if (perf_find_limit(table, TWO_SHOT, OF_TWO, OF_MORE, &limit))
        print_least(
            options, "nccl_min", perf_find_above(table, TWO_SHOT, limit));
    blocks = perf_find_blocks(table, BLOCKS, SWITCH_ONE_SHOT);
    if (blocks != NULL)
        printf("%s    blocks = %s;\n", mark, blocks);
    if (perf_find_limit(table, SWITCH_ONE_SHOT, OF_TWO, OF_MORE, &limit))
        print_limit(options, "multimem_one_shot_max", limit);
    blocks = perf_find_blocks(table, SWITCH_BLOCKS, WAYS);
    if (blocks != NULL)
        printf("%s    multicast_blocks = %s;\n", mark, blocks);
    printf("%s};\n", mark);
}

static void print_values(const struct perf_table *table, int number, int ranks)
{
    const struct perf_options *options = table->options;

    for (int way = 0; way < WAYS; way++) {
        const struct perf_results *results = &table->results[number][way];
        char name[PERF_NAME_MAX];

        snprintf(name, sizeof(name), "all_reduce_%s", perf_ways[way].name);
        if (strchr(name, ' ') != NULL)
            *strchr(name, ' ') = '_';
        for (int i = 0; i < results->count; i++)
            perf_print_row(options, name, ranks, results->of[i].nbytes,
                options->choices[0].op->bus_factor(ranks),
                &results->of[i].figures);
    }
}

static void print(const struct perf_table *table, int ranks)
{
    const struct perf_options *options = table->options;

    if (options->tsv) {
        print_values(table, OF_TWO, 2);
        print_values(table, OF_MORE, ranks);
    } else {
        printf("symmcoll-perf %s: thresholds of all_reduce, %s, %s, from "
               "cuda:%d on\n\n",
            symmcoll_version(), symmcoll_dtype_name(options->dtype),
            symmcoll_op_name(options->reduce), options->first_device);
        print_part(table, PACKETS, BY_NCCL, ranks);
        print_part(table, BLOCKS, SWITCH_ONE_SHOT - 1, ranks);
        if (table->no_switch == NULL) {
            print_part(table, SWITCH_ONE_SHOT, SWITCH_TWO_SHOT, ranks);
            print_part(table, SWITCH_BLOCKS, WAYS - 1, ranks);
        }
    }
    if (table->no_nccl != NULL)
        printf("# By NCCL: skipped: %s\n", table->no_nccl);
    if (table->no_switch != NULL)
        printf("# By a switch: skipped: %s\n", table->no_switch);
    print_settings(table);
}

int perf_thresholds(const struct perf_options *options, perf_run_fn run)
{
    struct perf_table *table = calloc(1, sizeof(*table));
    const char *blocks = getenv("SYMMCOLL_CUDA_BLOCKS");
    const char *multicast_blocks = getenv("SYMMCOLL_CUDA_MULTICAST_BLOCKS");
    int rank, ranks = 2, result;

    if (table == NULL) {
        fputs("symmcoll-perf: --thresholds: no memory\n", stderr);
        return PERF_FAILED;
    }
    table->options = options;
    table->no_nccl = perf_nccl_missing(options);
    if (blocks != NULL)
        table->blocks = strdup(blocks);
    if (multicast_blocks != NULL)
        table->multicast_blocks = strdup(multicast_blocks);
    result = measure_ways(table, 0, &ranks, run);
    if (result == PERF_PASSED && ranks > 2) {
        int two = 2; /* if this rank is not one of the two */

        result = measure_ways(table, 2, &two, run);
    }
    if (result == PERF_PASSED && (!perf_launched(&rank) || rank == 0) &&
        !options->check_only)
        print(table, ranks);
    free(table->blocks);
    free(table->multicast_blocks);
    free(table);
    return result;
}
