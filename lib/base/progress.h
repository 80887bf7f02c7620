/* SPDX-License-Identifier: BSD-3-Clause */
/* Log lines about what a long wait is waiting for, at growing intervals. */
#ifndef SYMC_BASE_PROGRESS_H
#define SYMC_BASE_PROGRESS_H

#include "base/base.h"

struct symc_progress {
    const struct symc_log *log;
    int64_t began_ns;
    int64_t pause_ns; /* before the next line */
    int64_t next_ns;  /* SYMC_NEVER: no more lines */
};

/* Starts the intervals of a wait; the first line is due after pause_ns,
 * SYMC_NEVER: none. */
void symc_progress_begin(struct symc_progress *progress,
    const struct symc_log *log, int64_t pause_ns);

/* Returns whether a line is due; the next one is due after twice the pause.
 * NULL: never. */
bool symc_progress_is_due(struct symc_progress *progress);

/* Logs "init: after 20 s: TEXT" as a warning. */
void symc_progress_log(const struct symc_progress *progress, const char *text);

#endif
