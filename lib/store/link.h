/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A client's connection to a server of the Redis protocol.  One thread at a
 * time uses it; each call ends at its deadline, and no signal comes of it.
 */
#ifndef SYMC_STORE_LINK_H
#define SYMC_STORE_LINK_H

#include "store/resp.h"

struct addrinfo;
struct symc_lookup;

#define SYMC_PLACE_TEXT 320 /* bytes of a place as text */
#define SYMC_SECRET_MAX 512 /* bytes of a password, its zero included */

/* Where a server is, and how it is entered. */
struct symc_place {
    char host[256]; /* local: a path */
    int port;
    int database;
    bool tls;
    bool local;                     /* a socket of this machine */
    char user[SYMC_SECRET_MAX];     /* "": none */
    char password[SYMC_SECRET_MAX]; /* "": none */
    char *tls_ca;                   /* files; NULL: the system's, none */
    char *tls_cert;
    char *tls_key;
};

/* "host:port" or "unix:PATH", without anything secret. */
const char *symc_place_text(
    const struct symc_place *place, char buffer[SYMC_PLACE_TEXT]);

/* ---- tcp_place.c ---- */

/*
 * Read redis://[user[:password]@]host[:port][/db], or rediss: for TLS, or
 * unix://[user[:password]@]/PATH[?db=N], into the members for these.  Messages never repeat it.  Errors: INVALID.
 */
symmcoll_status_t symc_place_parse(const char *url, struct symc_place *place);

/* Read a password: the first line of a file.  Errors: INVALID, SYSTEM. */
symmcoll_status_t symc_password_read(
    const char *path, char password[SYMC_SECRET_MAX]);

/* Overwrite what is secret and release the rest. */
void symc_place_clear(struct symc_place *place);

/* ---- resolve.c ---- */

/* The addresses of a place, to be freed. */
struct symc_addresses {
    struct addrinfo *list;
    struct addrinfo **joint;    /* where a second list begins; NULL: none */
    struct symc_lookup *lookup; /* its owner; NULL: none */
};

/* serve: addresses to bind.  Errors: TIMEOUT, SYSTEM (no address), NO_MEMORY. */
symmcoll_status_t symc_resolve(const struct symc_place *place, bool serve,
    int64_t deadline_ns, struct symc_addresses *addresses);
void symc_resolve_free(struct symc_addresses *addresses);

/* ---- dial.c ---- */

/* A connected socket that does not block.  retry: a server that is not there
 * yet is waited for.  Errors: TIMEOUT, SYSTEM. */
symmcoll_status_t symc_dial(
    const struct symc_place *place, bool retry, int64_t deadline_ns, int *fd);

/* The same of one address, once: 0, or what failed (an errno). */
int symc_dial_one(const struct addrinfo *address, int64_t deadline_ns, int *fd);

/* ---- link.c ---- */

struct symc_link;

/* Connect, with TLS where it is asked for, and log in.  Errors: TIMEOUT, SYSTEM,
 * INVALID (the password, the certificate), UNSUPPORTED (TLS). */
symmcoll_status_t symc_link_open(const struct symc_place *place, bool retry,
    int64_t deadline_ns, struct symc_link **link);
void symc_link_close(struct symc_link *link);

/* Whether it can be used: nothing failed, and the server has not closed it. */
bool symc_link_is_good(struct symc_link *link);

/* Do not use it again: replies may be left that nobody takes. */
void symc_link_break(struct symc_link *link);

/* Add a command to what the next receive sends.  Errors: NO_MEMORY; then the
 * link is no good any more. */
symmcoll_status_t symc_link_send(
    struct symc_link *link, const struct symc_arg *args, size_t nargs);

/* Send all and take the next reply.  Errors: TIMEOUT (without a detail), SYSTEM,
 * INVALID, NO_MEMORY; after any of them the link is no good any more. */
symmcoll_status_t symc_link_receive(
    struct symc_link *link, int64_t deadline_ns, struct symc_reply **reply);

/* Whether a reply has come by the deadline; the link stays good where not. */
symmcoll_status_t symc_link_poll(
    struct symc_link *link, int64_t deadline_ns, struct symc_reply **reply);

/* Have a poll, or a receive, end at once when a descriptor is readable; -1:
 * none.  The descriptor is borrowed until then. */
void symc_link_end_by(struct symc_link *link, int fd);

/* ---- tls.c ---- */

struct symc_tls;

/* TLS of one connection, over bytes that the caller moves. */
symmcoll_status_t symc_tls_open(
    const struct symc_place *place, struct symc_tls **tls);
void symc_tls_close(struct symc_tls *tls);

/* Bytes that came from the peer, those to send, and the text within.  done is
 * false while the handshake needs more from the peer.  Errors: SYSTEM, INVALID
 * (the certificate), NO_MEMORY. */
symmcoll_status_t symc_tls_feed(
    struct symc_tls *tls, const void *data, size_t nbytes);
symmcoll_status_t symc_tls_shake(struct symc_tls *tls, bool *done);
symmcoll_status_t symc_tls_write(
    struct symc_tls *tls, const void *data, size_t nbytes);
size_t symc_tls_drain(struct symc_tls *tls, void *data, size_t room);
symmcoll_status_t symc_tls_read(
    struct symc_tls *tls, void *data, size_t room, size_t *nbytes);

#endif
