/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Non-blocking connections to abstract sockets, and look-up of their owner.
 * Private to this module.
 */
#ifndef SYMC_BOOTSTRAP_CONNECT_H
#define SYMC_BOOTSTRAP_CONNECT_H

#include "base/base.h"

#include <sys/types.h>

#define SYMC_BOOTSTRAP_OWNER_TEXT 160

/*
 * Connects without waiting. *fd (out) is non-blocking.
 *
 * Returns 0 or an errno: ECONNREFUSED: no listener; EAGAIN: the queue of
 * connections is full; EINVAL: invalid name; others if no socket can be opened.
 */
int symc_bootstrap_connect(const char *name, int *fd);

/* Returns the user that owns a socket, from the kernel's list (sock_diag, Linux
 * 5.3); false: unknown or no such socket. */
bool symc_bootstrap_socket_owner(const char *name, uid_t *uid);

/*
 * Formats the owner of a socket that refuses connections: "user 1000 (its queue
 * of connections is full)".
 *
 * error  of symc_bootstrap_connect()
 */
const char *symc_bootstrap_format_owner(
    const char *name, int error, char buffer[SYMC_BOOTSTRAP_OWNER_TEXT]);

#endif
