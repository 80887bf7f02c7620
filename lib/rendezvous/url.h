/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The URL of a rendezvous: "env://", "file:///PATH", "tcp://HOST:PORT", each with
 * an optional "?rank=R&world_size=N" after it; or the URL of a registered handler,
 * which parses it itself.
 */
#ifndef SYMC_RENDEZVOUS_URL_H
#define SYMC_RENDEZVOUS_URL_H

#include "rendezvous/handler.h"

#include <limits.h>

enum symc_rendezvous_scheme {
    SYMC_RENDEZVOUS_ENV,
    SYMC_RENDEZVOUS_FILE,
    SYMC_RENDEZVOUS_TCP,
    SYMC_RENDEZVOUS_HANDLER
};

struct symc_rendezvous_url {
    enum symc_rendezvous_scheme scheme;
    char path[PATH_MAX]; /* file; tcp: "host:port" */
    int rank;            /* -1: not given */
    int size;
    struct symmcoll_rendezvous_functions handler;
};

/* Parses a URL. Errors: INVALID (expected and found), UNSUPPORTED (a
 * scheme). */
symmcoll_status_t symc_rendezvous_url_parse(
    const char *text, struct symc_rendezvous_url *url);

#endif
