/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A client's connection to a server with the Redis protocol.  Used by one
 * thread at a time.  Each call ends at its deadline and raises no signal.
 */
#ifndef SYMC_STORE_LINK_H
#define SYMC_STORE_LINK_H

#include "store/resp.h"

struct addrinfo;
struct symc_lookup;

#define SYMC_PLACE_TEXT 320 /* bytes of a formatted place */
#define SYMC_SECRET_MAX 512 /* bytes of a password with its zero */

/* The address of a server, and the login. */
struct symc_place {
    char host[256]; /* local: a path */
    int port;
    int database;
    bool tls;
    bool local;                     /* a socket in the file system */
    char user[SYMC_SECRET_MAX];     /* "": none */
    char password[SYMC_SECRET_MAX]; /* "": none */
    char *tls_ca;                   /* paths; NULL: the system's authorities,
                                       none */
    char *tls_cert;
    char *tls_key;
};

/* Formats "host:port" or "unix:PATH", without the login. */
const char *symc_place_text(
    const struct symc_place *place, char buffer[SYMC_PLACE_TEXT]);

/* ---- tcp_place.c ---- */

/*
 * Parses redis://[user[:password]@]host[:port][/db], or rediss: for TLS, or
 * unix://[user[:password]@]/PATH[?db=N], into place.  Messages never contain
 * the URL.  Errors: INVALID.
 */
symmcoll_status_t symc_place_parse(const char *url, struct symc_place *place);

/* Reads a password: the first line of a file.  Errors: INVALID, SYSTEM. */
symmcoll_status_t symc_password_read(
    const char *path, char password[SYMC_SECRET_MAX]);

/* Overwrites the login and releases the rest. */
void symc_place_clear(struct symc_place *place);

/* ---- resolve.c ---- */

/* The addresses of a place; release with symc_resolve_free(). */
struct symc_addresses {
    struct addrinfo *list;
    struct addrinfo **joint;    /* link to a second list; NULL: none */
    struct symc_lookup *lookup; /* owner of the list; NULL: none */
};

/* Resolves a place. serve: for addresses to bind.  Errors: TIMEOUT, SYSTEM (no
 * address), NO_MEMORY. */
symmcoll_status_t symc_resolve(const struct symc_place *place, bool serve,
    int64_t deadline_ns, struct symc_addresses *addresses);
void symc_resolve_free(struct symc_addresses *addresses);

/* ---- dial.c ---- */

/* Connects a non-blocking socket. retry: waits for a server that does not run
 * yet.  Errors: TIMEOUT, SYSTEM. */
symmcoll_status_t symc_dial(
    const struct symc_place *place, bool retry, int64_t deadline_ns, int *fd);

/* Connects to one address, once.  Returns 0 or an errno. */
int symc_dial_one(const struct addrinfo *address, int64_t deadline_ns, int *fd);

/* ---- link.c ---- */

struct symc_link;

/* Connects, starts TLS if the place has it, and logs in.  Errors: TIMEOUT,
 * SYSTEM, INVALID (the password, the certificate), UNSUPPORTED (TLS). */
symmcoll_status_t symc_link_open(const struct symc_place *place, bool retry,
    int64_t deadline_ns, struct symc_link **link);
void symc_link_close(struct symc_link *link);

/* Returns whether the link can be used: no call has failed, and the server has
 * not closed it. */
bool symc_link_is_good(struct symc_link *link);

/* Marks the link as unusable: unread replies may be left on it. */
void symc_link_break(struct symc_link *link);

/* Adds a command to the output, which the next receive sends.  Errors:
 * NO_MEMORY, SYSTEM (TLS); the link is unusable afterwards. */
symmcoll_status_t symc_link_send(
    struct symc_link *link, const struct symc_arg *args, size_t nargs);

/* Sends the output and receives the next reply.  Errors: TIMEOUT, SYSTEM,
 * INVALID, NO_MEMORY; the link is unusable afterwards. */
symmcoll_status_t symc_link_receive(
    struct symc_link *link, int64_t deadline_ns, struct symc_reply **reply);

/* Sends a command and receives its reply; no other reply may be outstanding.
 * reply is NULL after a failure. */
symmcoll_status_t symc_link_request(struct symc_link *link,
    const struct symc_arg *args, size_t nargs, int64_t deadline_ns,
    struct symc_reply **reply);

/* As symc_link_receive(), but returns OK with reply NULL at the deadline, and
 * the link stays usable. */
symmcoll_status_t symc_link_poll(
    struct symc_link *link, int64_t deadline_ns, struct symc_reply **reply);

/* Makes a poll or a receive end at once when a descriptor becomes readable; -1:
 * none.  The descriptor is borrowed until it is replaced. */
void symc_link_end_by(struct symc_link *link, int fd);

/* ---- tls.c ---- */

struct symc_tls;

/* TLS of one connection, over bytes that the caller moves. */
symmcoll_status_t symc_tls_open(
    const struct symc_place *place, struct symc_tls **tls);
void symc_tls_close(struct symc_tls *tls);

/* Functions for bytes from the peer (feed), the handshake (shake), plain text
 * to send (write), bytes for the peer (drain) and plain text received (read).
 * done is false while the handshake needs more bytes.  drain() returns how many
 * bytes it has stored.  nbytes of read() is 0 if more bytes from the peer are
 * needed.  Errors: SYSTEM (also if the peer has closed the connection), INVALID
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
