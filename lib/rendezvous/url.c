/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Parsing of a rendezvous URL.
 */
#include "rendezvous/url.h"

#include "rendezvous/launcher.h"

#include <string.h>

#define SHOWN_MAX 60 /* bytes shown of an unknown scheme */

static symmcoll_status_t parse_scheme(
    const char *text, struct symc_rendezvous_url *url, const char **rest)
{
    const char *end = strstr(text, "://");
    size_t length = end != NULL ? (size_t)(end - text) : 0;
    char shown[SHOWN_MAX + 1];

    if (length == 0)
        return symc_fail(SYMMCOLL_ERR_INVALID,
            "init: expected a method such as \"env://\" or \"file:///PATH\", "
            "found \"%s\"",
            text);
    *rest = end + 3;
    if (length == 3 && memcmp(text, "env", length) == 0) {
        url->scheme = SYMC_RENDEZVOUS_ENV;
    } else if (length == 4 && memcmp(text, "file", length) == 0) {
        url->scheme = SYMC_RENDEZVOUS_FILE;
    } else if (length == 3 && memcmp(text, "tcp", length) == 0) {
        url->scheme = SYMC_RENDEZVOUS_TCP;
    } else if (symc_rendezvous_handler_find(text, length, &url->handler)) {
        url->scheme = SYMC_RENDEZVOUS_HANDLER;
    } else {
        length = length < SHOWN_MAX ? length : SHOWN_MAX;
        memcpy(shown, text, length);
        shown[length] = '\0';
        symc_make_printable(shown);
        return symc_fail(SYMMCOLL_ERR_UNSUPPORTED,
            "init: no rendezvous handler for %s://: expected env://, "
            "file:///PATH, tcp://HOST:PORT or a registered scheme",
            shown);
    }
    return SYMMCOLL_OK;
}

/* Parses the host and port after "tcp://". */
static symmcoll_status_t parse_place(const char *text, const char *rest,
    size_t length, struct symc_rendezvous_url *url)
{
    const char *colon = memrchr(rest, ':', length);
    char port[8] = "";
    int number;

    if (colon == NULL || memchr(colon, ']', length - (size_t)(colon - rest)))
        return symc_fail(SYMMCOLL_ERR_INVALID,
            "init: port missing: expected tcp://HOST:PORT, found \"%s\"", text);
    if (colon == rest || length > 300)
        return symc_fail(SYMMCOLL_ERR_INVALID,
            "init: host missing: expected tcp://HOST:PORT, found \"%.300s\"",
            text);
    if (length - (size_t)(colon - rest) <= sizeof(port) - 1)
        memcpy(port, colon + 1, length - (size_t)(colon - rest) - 1);
    if (!symc_rendezvous_number_parse(port, UINT16_MAX, &number) || number == 0)
        return symc_fail(SYMMCOLL_ERR_INVALID,
            "init: port: expected 1 to %d after tcp://HOST:, found \"%s\"",
            UINT16_MAX, text);
    memcpy(url->path, rest, length);
    url->path[length] = '\0';
    return SYMMCOLL_OK;
}

/* Parses the absolute path after "file://"; "env://" has none. */
static symmcoll_status_t parse_path(const char *text, const char *rest,
    size_t length, struct symc_rendezvous_url *url)
{
    if (url->scheme == SYMC_RENDEZVOUS_TCP)
        return parse_place(text, rest, length, url);
    if (url->scheme == SYMC_RENDEZVOUS_ENV) {
        if (length > 0)
            return symc_fail(SYMMCOLL_ERR_INVALID,
                "init: expected nothing after env://, found \"%s\"", text);
        return SYMMCOLL_OK;
    }
    if (length == 0)
        return symc_fail(SYMMCOLL_ERR_INVALID,
            "init: path missing: expected file:///PATH, found \"%s\"", text);
    if (rest[0] != '/')
        return symc_fail(SYMMCOLL_ERR_INVALID,
            "init: expected file:///PATH with a path from the root, found "
            "\"%s\"",
            text);
    if (length >= sizeof url->path)
        return symc_fail(SYMMCOLL_ERR_INVALID,
            "init: file://: expected a path of at most %zu bytes, found %zu",
            sizeof url->path - 1, length);
    memcpy(url->path, rest, length);
    url->path[length] = '\0';
    return SYMMCOLL_OK;
}

/* Parses one "name=number" of a query, of length bytes. */
static symmcoll_status_t parse_parameter(const char *text,
    const char *parameter, size_t length, struct symc_rendezvous_url *url)
{
    static const char *const names[] = {"rank=", "world_size="};
    int *const numbers[] = {&url->rank, &url->size};

    for (size_t i = 0; i < 2; i++) {
        size_t skip = strlen(names[i]);
        char value[16];

        if (length < skip || memcmp(parameter, names[i], skip) != 0)
            continue;
        if (length - skip < sizeof value) {
            memcpy(value, parameter + skip, length - skip);
            value[length - skip] = '\0';
            if (symc_rendezvous_number_parse(value, INT_MAX, numbers[i]))
                return SYMMCOLL_OK;
        }
        return symc_fail(SYMMCOLL_ERR_INVALID,
            "init: %s: expected %sNUMBER, found \"%.*s\"", text, names[i],
            (int)length, parameter);
    }
    return symc_fail(SYMMCOLL_ERR_INVALID,
        "init: %s: expected the parameters rank and world_size, found \"%.*s\"",
        text, (int)length, parameter);
}

symmcoll_status_t symc_rendezvous_url_parse(
    const char *text, struct symc_rendezvous_url *url)
{
    symmcoll_status_t status;
    const char *rest = text;
    size_t length;

    url->path[0] = '\0';
    url->rank = -1;
    url->size = -1;
    status = parse_scheme(text, url, &rest);
    if (status != SYMMCOLL_OK || url->scheme == SYMC_RENDEZVOUS_HANDLER)
        return status;
    length = strcspn(rest, "?");
    status = parse_path(text, rest, length, url);
    rest += length;
    while (status == SYMMCOLL_OK && *rest != '\0') {
        rest++; /* skips '?' or '&' */
        length = strcspn(rest, "&");
        if (length > 0)
            status = parse_parameter(text, rest, length, url);
        rest += length;
    }
    return status;
}
