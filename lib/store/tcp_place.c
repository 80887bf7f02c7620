/* SPDX-License-Identifier: BSD-3-Clause */
/* Parses a tcp store's URL and reads its password file. */
#include "base/descriptor.h"
#include "store/link.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define DEFAULT_PORT 6379 /* of Redis */
#define DATABASE_MAX 1023
#define PATH_MAX_BYTES 107 /* of a socket */

const char *symc_place_text(
    const struct symc_place *place, char buffer[SYMC_PLACE_TEXT])
{
    if (place->local)
        snprintf(buffer, SYMC_PLACE_TEXT, "unix:%s", place->host);
    else
        snprintf(buffer, SYMC_PLACE_TEXT,
            strchr(place->host, ':') != NULL ? "[%s]:%d" : "%s:%d", place->host,
            place->port);
    symc_make_printable(buffer);
    return buffer;
}

static symmcoll_status_t refuse_url(const char *what)
{
    return symc_fail(SYMMCOLL_ERR_INVALID,
        "tcp store: URL: expected redis://[user[:password]@]host[:port][/db], "
        "rediss: for TLS, or unix://[user[:password]@]/PATH[?db=N], found one "
        "with %s",
        what);
}

static int read_hex(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    if (c >= 'a' && c <= 'f')
        return c - 'a' + 10;
    return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

/* Decodes text with %XX.  Returns false if it is malformed or too long. */
static bool decode(const char *text, size_t nbytes, char *buffer, size_t room)
{
    size_t used = 0;

    for (size_t i = 0; i < nbytes; i++) {
        char c = text[i];

        if (c == '%') {
            int high = i + 2 < nbytes ? read_hex(text[i + 1]) : -1;
            int low = high >= 0 ? read_hex(text[i + 2]) : -1;

            if (low < 0 || high * 16 + low == 0)
                return false;
            c = (char)(high * 16 + low);
            i += 2;
        }
        if (used + 1 >= room)
            return false;
        buffer[used++] = c;
    }
    buffer[used] = '\0';
    return true;
}

static bool read_number(const char *text, long most, int *number)
{
    char *end;
    long value;

    if (text[0] < '0' || text[0] > '9')
        return false;
    errno = 0;
    value = strtol(text, &end, 10);
    *number = (int)value;
    return errno == 0 && *end == '\0' && value <= most;
}

/* Parses length bytes of "host", "host:port" or "[::1]:port". */
static symmcoll_status_t parse_host(
    const char *text, size_t length, struct symc_place *place)
{
    char copy[sizeof(place->host) + 16];
    char *host = copy, *port = NULL, *end;

    if (length >= sizeof(copy))
        return refuse_url("too long a host");
    memcpy(copy, text, length);
    copy[length] = '\0';
    if (copy[0] == '[') {
        host = copy + 1;
        end = strchr(host, ']');
        if (end == NULL || (end[1] != '\0' && end[1] != ':'))
            return refuse_url("a bracket that is not closed");
        port = end[1] == ':' ? end + 2 : NULL;
        *end = '\0';
    } else if ((end = strchr(copy, ':')) != NULL) {
        *end = '\0';
        port = end + 1;
    }
    if (host[0] == '\0')
        return refuse_url("no host");
    if (strlen(host) >= sizeof(place->host))
        return refuse_url("too long a host");
    if (port != NULL && !read_number(port, UINT16_MAX, &place->port))
        return refuse_url("a port that is not 0 to 65535");
    memcpy(place->host, host, strlen(host) + 1);
    return SYMMCOLL_OK;
}

/* Parses length bytes of "user" or "user:password" before the @. */
static symmcoll_status_t parse_login(
    const char *text, size_t length, struct symc_place *place)
{
    const char *colon = memchr(text, ':', length);
    size_t user = colon != NULL ? (size_t)(colon - text) : length;

    /* "redis://secret@host" is a user without a password. */
    if (decode(text, user, place->user, sizeof(place->user)) &&
        (colon == NULL || decode(colon + 1, length - user - 1, place->password,
                              sizeof(place->password))))
        return SYMMCOLL_OK;
    return refuse_url("a malformed user or password");
}

/* Parses "/PATH" or "/PATH?db=N". */
static symmcoll_status_t parse_socket(
    const char *text, struct symc_place *place)
{
    size_t length = strcspn(text, "?");

    place->local = true;
    place->port = 0;
    if (text[0] != '/' || length < 2)
        return refuse_url("no path from the root");
    if (length > PATH_MAX_BYTES ||
        !decode(text, length, place->host, PATH_MAX_BYTES + 1))
        return refuse_url("a path of more than 107 bytes, or a malformed one");
    if (text[length] != '\0' &&
        (strncmp(text + length, "?db=", 4) != 0 ||
            !read_number(text + length + 4, DATABASE_MAX, &place->database)))
        return refuse_url("a database that is not a small number");
    return SYMMCOLL_OK;
}

symmcoll_status_t symc_place_parse(const char *url, struct symc_place *place)
{
    static const char *const schemes[] = {"redis://", "rediss://", "unix://"};
    const char *at, *rest = NULL, *slash;
    size_t length;
    symmcoll_status_t status;

    for (size_t i = 0; i < sizeof(schemes) / sizeof(schemes[0]); i++)
        if (strncmp(url, schemes[i], strlen(schemes[i])) == 0)
            rest = url + strlen(schemes[i]);
    if (rest == NULL)
        return refuse_url("another scheme");
    place->port = DEFAULT_PORT;
    place->tls = strncmp(url, "rediss://", 9) == 0;
    slash = strchr(rest, '/');
    length = slash != NULL ? (size_t)(slash - rest) : strlen(rest);
    at = memrchr(rest, '@', length);
    if (at != NULL) {
        status = parse_login(rest, (size_t)(at - rest), place);
        if (status != SYMMCOLL_OK)
            return status;
        length -= (size_t)(at - rest) + 1;
        rest = at + 1;
    }
    if (url[0] == 'u')
        return parse_socket(rest, place);
    status = parse_host(rest, length, place);
    if (status != SYMMCOLL_OK)
        return status;
    if (slash != NULL && slash[1] != '\0' &&
        !read_number(slash + 1, DATABASE_MAX, &place->database))
        return refuse_url("a database that is not a small number");
    return SYMMCOLL_OK;
}

symmcoll_status_t symc_password_read(
    const char *path, char password[SYMC_SECRET_MAX])
{
    int fd = symc_descriptor_raise(
        open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
    ssize_t n = fd >= 0 ? read(fd, password, SYMC_SECRET_MAX) : -1;
    int error = errno;

    if (fd >= 0)
        close(fd);
    if (n < 0)
        return symc_fail_errno(
            SYMMCOLL_ERR_SYSTEM, error, "tcp store: password file %s", path);
    if (n == SYMC_SECRET_MAX)
        n--;
    password[n] = '\0';
    /* Clears what follows the line: all bytes are compared. */
    n = (ssize_t)strcspn(password, "\r\n");
    explicit_bzero(password + n, SYMC_SECRET_MAX - (size_t)n);
    if (password[0] != '\0' && strlen(password) < SYMC_SECRET_MAX - 1)
        return SYMMCOLL_OK;
    explicit_bzero(password, SYMC_SECRET_MAX);
    return symc_fail(SYMMCOLL_ERR_INVALID,
        "tcp store: password file %s: expected a first line of 1 to %d bytes",
        path, SYMC_SECRET_MAX - 2);
}

void symc_place_clear(struct symc_place *place)
{
    free(place->tls_ca);
    free(place->tls_cert);
    free(place->tls_key);
    explicit_bzero(place, sizeof(*place));
}
