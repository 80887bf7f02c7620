/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Connecting to an abstract socket without blocking, and finding its owner.
 * Private to this module.
 */
#ifndef SYMC_BOOTSTRAP_CONNECT_H
#define SYMC_BOOTSTRAP_CONNECT_H

#include "base/base.h"

#include <sys/types.h>

#define SYMC_BOOTSTRAP_OWNER_TEXT 160

/*
 * Connect; never waits.  *fd (out) does not block either.
 *
 * 0, or an errno: ECONNREFUSED nobody listens there, EAGAIN the queue of
 * connections is full, EINVAL a bad name; others where no socket can be opened.
 */
int symc_bootstrap_connect(const char *name, int *fd);

/* The user who owns the socket, as the kernel lists it (sock_diag, Linux 5.3);
 * false where that is unknown, or there is none. */
bool symc_bootstrap_socket_owner(const char *name, uid_t *uid);

/*
 * Format the owner of a socket that refuses connections: "user 1000 (its queue
 * of connections is full)".
 *
 * error  of symc_bootstrap_connect()
 */
const char *symc_bootstrap_format_owner(
    const char *name, int error, char buffer[SYMC_BOOTSTRAP_OWNER_TEXT]);

#endif
