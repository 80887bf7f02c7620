/* SPDX-License-Identifier: BSD-3-Clause */
/* Log lines about what a long wait is waiting for. */
#include "base/progress.h"

void symc_progress_begin(struct symc_progress *progress,
    const struct symc_log *log, int64_t pause_ns)
{
    progress->log = log;
    progress->began_ns = symc_now_ns();
    progress->pause_ns = pause_ns;
    progress->next_ns = symc_deadline_ns(progress->began_ns, pause_ns);
}

bool symc_progress_is_due(struct symc_progress *progress)
{
    int64_t now = symc_now_ns();

    if (progress == NULL || now < progress->next_ns)
        return false;
    progress->pause_ns *= 2;
    progress->next_ns = symc_deadline_ns(now, progress->pause_ns);
    return true;
}

void symc_progress_log(const struct symc_progress *progress, const char *text)
{
    symc_logf(progress->log, SYMC_LOG_WARN, "init: after %.3g s: %s",
        (double)(symc_now_ns() - progress->began_ns) / (double)SYMC_NS_PER_S,
        text);
}
