/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The password of a store that a rank serves at a loopback address, to which
 * every user of the machine can connect.  The serving rank makes it and writes
 * it to a file that only its user can read; the other ranks read it from there.
 */
#ifndef SYMC_STORE_SECRET_H
#define SYMC_STORE_SECRET_H

#include "store/link.h"

#define SYMC_SECRET_PATH 192 /* bytes of a path, zero included */

struct symc_secret {
    char password[SYMC_SECRET_MAX]; /* "": none */
    char path[SYMC_SECRET_PATH];    /* of the file; "": none */
    bool refused;                   /* out: the server rejected the password */
};

/* ---- tcp.c ---- */

/*
 * As symmcoll_store_open_tcp(), with a secret's password in place of that of
 * the arguments.  With serve, the file is written when the server listens and
 * removed before it stops.
 */
symmcoll_status_t symc_store_open_tcp(
    const struct symmcoll_store_tcp_args *args, struct symc_secret *secret,
    struct symmcoll_store **store);

/* ---- secret.c ---- */

/*
 * Finds the path of a server's password file: in the folder $XDG_RUNTIME_DIR or
 * /run/user/UID, or else in /tmp/symmcoll-UID, which is created.  path is "" if
 * the server is not at a loopback address, because other machines may then use
 * it.
 *
 * Errors: INVALID (the URL; a folder that other users may change), TIMEOUT and
 * SYSTEM (the address of a name; the folder).
 */
symmcoll_status_t symc_secret_find(
    const char *url, int64_t deadline_ns, char path[SYMC_SECRET_PATH]);

/* Makes a random password.  Errors: SYSTEM. */
symmcoll_status_t symc_secret_make(struct symc_secret *secret);

/* Reads the password from the file.  Returns false if there is none. */
bool symc_secret_read(struct symc_secret *secret);

/* Replaces the file.  Errors: SYSTEM. */
symmcoll_status_t symc_secret_write(const struct symc_secret *secret);

#endif
