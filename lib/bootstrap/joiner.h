/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A rank that joins a rendezvous, and how it reaches the bootstrap server.
 * Private to this module.
 */
#ifndef SYMC_BOOTSTRAP_JOINER_H
#define SYMC_BOOTSTRAP_JOINER_H

#include "bootstrap/bootstrap.h"
#include "bootstrap/server_thread.h"

#define SYMC_BOOTSTRAP_RETRY_NS (INT64_C(500) * 1000) /* the first pause */

/* One rank that joins. */
struct symc_bootstrap_joiner {
    const struct symc_bootstrap_args *args;
    struct symc_bootstrap_thread *server; /* of this rank */
    const struct symc_bootstrap_offer *mine;
    int fd;
    pid_t server_pid;
    bool reached;       /* something has let this rank in, once */
    bool joined;        /* the server has read this rank's hello */
    int64_t gave_up_at; /* 0 before the deadline */
    int64_t pause_ns;   /* before the next attempt to connect */
    struct symc_bootstrap_offer *all;
    int received; /* ranks */
    bool threads;
    bool lent; /* threads may have received this rank's offer, or will */
};

/* Connect, as often as it takes until the deadline; open the pidfd that is asked
 * for.  Errors: TIMEOUT, INVALID (a server of another user), CANCELED, SYSTEM. */
symmcoll_status_t symc_bootstrap_reach(struct symc_bootstrap_joiner *joiner);

/* The server could not be reached; error is the last of
 * symc_bootstrap_connect(). */
symmcoll_status_t symc_bootstrap_fail_unreached(
    const struct symc_bootstrap_joiner *joiner, int error);

/* Sleep before the next attempt, longer each time. */
void symc_bootstrap_pause(struct symc_bootstrap_joiner *joiner, int error);

/* Whether another rank has failed, so that nobody needs to wait; and say so. */
bool symc_bootstrap_has_ended(const struct symc_bootstrap_joiner *joiner);
symmcoll_status_t symc_bootstrap_fail_ended(void);

/* Log, now and then, that no server can say who is missing, or that it has not
 * acknowledged this rank. */
void symc_bootstrap_report_unserved(const struct symc_bootstrap_joiner *joiner);

#endif
