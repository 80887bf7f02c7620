/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Connectivity of the processors: each value, and the number of pairs that have
 * it.
 */
#include "info.h"

#include <symmcoll/connectivity.h>

#include <stdlib.h>

static const char *const connectivity_columns[] = {
    "kind", "value", "pairs", NULL};

/* Adds the rows of one kind, over all pairs of different processors. */
static void add_kind(struct info_table *table, const char *kind)
{
    struct symmcoll_connectivity found = SYMMCOLL_CONNECTIVITY_INIT;
    int pairs, value = -1;

    if (symmcoll_connectivity_detect(NULL, kind, &found) != SYMMCOLL_OK) {
        info_text(table, kind);
        info_none(table);
        info_none(table);
        return;
    }
    for (bool more = true; more;) {
        int next = -1;

        pairs = 0;
        for (int i = 0; i < found.count; i++) {
            for (int j = i + 1; j < found.count; j++) {
                int at = found.values[i * found.count + j];

                pairs += at == value;
                if (at > value && (next < 0 || at < next))
                    next = at;
            }
        }
        if (pairs > 0) {
            info_text(table, kind);
            info_number(table, value);
            info_number(table, pairs);
        }
        value = next;
        more = next >= 0;
    }
    symmcoll_connectivity_free(&found);
}

void info_add_connectivity(struct info_out *out)
{
    struct info_table table;

    info_table_begin(&table, "connectivity", connectivity_columns);
    add_kind(&table, "cache");
    add_kind(&table, "numa");
    add_kind(&table, "nvlink");
    info_table_end(&table, out);
}
