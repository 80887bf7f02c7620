/* SPDX-License-Identifier: BSD-3-Clause */
/* --thresholds: the ways, and the settings that follow from the measured times. */
#include "perf_thresholds.h"

#include <math.h>

#define ENOUGH 1.03 /* times within this factor of the best count as equal */

const struct perf_way perf_ways[WAYS] = {
    {"packets", "16KiB", "inf", NULL, KIB, PACKETS_MOST, NULL, false},
    {"one_shot", "0", "inf", NULL, KIB, 16 * MIB, NULL, false},
    {"two_shot", "0", "0", NULL, 32 * KIB, 64 * MIB, NULL, false},
    {"nccl", "0", "0", NULL, MIB, 64 * MIB, NULL, true},
    {"8 blocks", "0", "0", "8", MIB, 64 * MIB, NULL, false},
    {"16 blocks", "0", "0", "16", MIB, 64 * MIB, NULL, false},
    {"24 blocks", "0", "0", "24", MIB, 64 * MIB, NULL, false},
    {"32 blocks", "0", "0", "32", MIB, 64 * MIB, NULL, false},
    {"switch_one", "0", "0", NULL, KIB, MIB, "inf", false},
    {"switch_two", "0", "0", NULL, KIB, SWITCH_MOST, "0", false},
    {"4 switch", "0", "0", "4", MIB / 4, SWITCH_MOST, "0", false},
    {"8 switch", "0", "0", "8", MIB / 4, SWITCH_MOST, "0", false},
    {"16 switch", "0", "0", "16", MIB / 4, SWITCH_MOST, "0", false},
    {"32 switch", "0", "0", "32", MIB / 4, SWITCH_MOST, "0", false},
};

const struct perf_figures *perf_find_figures(
    const struct perf_results *results, size_t nbytes)
{
    for (int i = 0; i < results->count; i++)
        if (results->of[i].nbytes == nbytes)
            return &results->of[i].figures;
    return NULL;
}

static double log_time(const struct perf_figures *figures)
{
    return log(figures->median > 0 ? figures->median : 1e-9);
}

/* Returns the cost of one way up to a limit and the next one above it, over all
 * sizes measured for both; NAN: there is none. */
static double find_cost(const struct perf_results *up_to,
    const struct perf_results *above, size_t limit)
{
    double cost = 0;
    bool any = false;

    for (int i = 0; i < up_to->count; i++) {
        size_t nbytes = up_to->of[i].nbytes;
        const struct perf_figures *other = perf_find_figures(above, nbytes);

        if (other == NULL)
            continue;
        any = true;
        /* Ratio of the first way's time to the second's, as a logarithm. */
        if (nbytes <= limit)
            cost += log_time(&up_to->of[i].figures) - log_time(other);
    }
    return any ? cost : NAN;
}

bool perf_find_limit(
    const struct perf_table *table, int way, int first, int last, size_t *limit)
{
    double least = 0;
    bool any = false;

    *limit = 0;
    for (size_t at = KIB; at <= 64 * MIB; at *= 2) {
        double cost = 0;
        bool here = false;

        for (int n = first; n <= last; n++) {
            const struct perf_results *results = table->results[n];
            double one = find_cost(&results[way], &results[way + 1], at);

            if (isnan(one))
                continue;
            any = true;
            cost += one;
            here =
                here || (perf_find_figures(&results[way], at) != NULL &&
                            perf_find_figures(&results[way + 1], at) != NULL);
        }
        if (here && cost < least) {
            least = cost;
            *limit = at;
        }
    }
    return any;
}

size_t perf_find_above(const struct perf_table *table, int way, size_t limit)
{
    for (size_t at = KIB; at <= 64 * MIB; at *= 2) {
        for (int n = 0; at > limit && n < NUMBERS; n++) {
            const struct perf_results *results = table->results[n];

            if (perf_find_figures(&results[way], at) != NULL &&
                perf_find_figures(&results[way + 1], at) != NULL)
                return at;
        }
    }
    return 0;
}

/* Returns the sum of a way's times, as logarithms, and their count. */
static double add_times(const struct perf_table *table, int way, int *count)
{
    double sum = 0;

    *count = 0;
    for (int n = 0; n < NUMBERS; n++) {
        const struct perf_results *results = &table->results[n][way];

        for (int i = 0; i < results->count; i++)
            sum += log_time(&results->of[i].figures);
        *count += results->count;
    }
    return sum;
}

const char *perf_find_blocks(const struct perf_table *table, int first, int end)
{
    double best = INFINITY;
    int count;

    for (int i = first; i < end; i++) {
        double sum = add_times(table, i, &count);

        if (count > 0 && sum / count < best)
            best = sum / count;
    }
    for (int i = first; i < end; i++) {
        double sum = add_times(table, i, &count);

        if (count > 0 && sum / count <= best + log(ENOUGH))
            return perf_ways[i].blocks;
    }
    return NULL;
}
