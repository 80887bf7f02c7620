/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The server of a tcp store: a thread that serves a table to clients of the
 * Redis protocol.  symmcoll_store_open_tcp() and symmcoll-store start it.
 */
#ifndef SYMC_STORE_SERVER_H
#define SYMC_STORE_SERVER_H

#include "store/link.h"

struct symc_server_args {
    const struct symc_place *place; /* host and port to bind, 0: any; the
                                       password; with TLS tls_cert is needed,
                                       and tls_ca makes clients need
                                       certificates */
    int64_t deadline_ns;            /* for resolving a name */
    int listen_fd; /* a socket that listens there, which the server duplicates;
                      0: none */
    size_t max_clients; /* 0: 4096, or less if the limit on descriptors is
                           low */
    size_t max_memory;  /* bytes of all keys and values; 0: 1 GiB */
};

struct symc_server;

/* Starts a server.  Errors: INVALID (a file, listen_fd), TIMEOUT, SYSTEM (the
 * address), NO_MEMORY, UNSUPPORTED (built without libevent, or TLS without
 * OpenSSL). */
symmcoll_status_t symc_server_start(
    const struct symc_server_args *args, struct symc_server **server);

int symc_server_port(const struct symc_server *server);

/* Closes all connections and frees the table; NULL is valid. */
void symc_server_stop(struct symc_server *server);

#endif
