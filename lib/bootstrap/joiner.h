/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A rank that joins a rendezvous, and its connection to the bootstrap server.
 * Private to this module.
 */
#ifndef SYMC_BOOTSTRAP_JOINER_H
#define SYMC_BOOTSTRAP_JOINER_H

#include "bootstrap/bootstrap.h"
#include "bootstrap/server_thread.h"

#define SYMC_BOOTSTRAP_RETRY_NS (INT64_C(500) * 1000) /* the first pause */

/* A rank that joins. */
struct symc_bootstrap_joiner {
    const struct symc_bootstrap_args *args;
    struct symc_bootstrap_thread *server; /* of this rank */
    const struct symc_bootstrap_offer *mine;
    int fd;
    pid_t server_pid;
    bool reached;       /* a server has accepted a connection */
    bool joined;        /* the server has read this rank's hello */
    int64_t gave_up_at; /* 0 before the deadline */
    int64_t pause_ns;   /* before the next attempt to connect */
    struct symc_bootstrap_offer *all;
    int received; /* number of ranks received */
    bool threads;
    /* threads may have received this rank's offer, or may receive it later */
    bool lent;
};

/* Connects, with retries until the deadline, and opens the pidfd if requested.
 * Errors: TIMEOUT, INVALID (a server of another user), CANCELED, SYSTEM. */
symmcoll_status_t symc_bootstrap_reach(struct symc_bootstrap_joiner *joiner);

/* Returns the error for a server that could not be reached; error is the last
 * one of symc_bootstrap_connect(). */
symmcoll_status_t symc_bootstrap_fail_unreached(
    const struct symc_bootstrap_joiner *joiner, int error);

/* Sleeps before the next attempt, longer each time. */
void symc_bootstrap_pause(struct symc_bootstrap_joiner *joiner, int error);

/* Returns whether another rank has failed, so that waiting is pointless. */
bool symc_bootstrap_has_ended(const struct symc_bootstrap_joiner *joiner);
/* Returns the error for a rank that has stopped waiting since another one has
 * failed. */
symmcoll_status_t symc_bootstrap_fail_ended(void);

/* Logs from time to time that no server has accepted this rank, or that the
 * server has not acknowledged it. */
void symc_bootstrap_report_unserved(const struct symc_bootstrap_joiner *joiner);

#endif
