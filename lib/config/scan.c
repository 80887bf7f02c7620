/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Checks a file's text before libconfig parses it, for what libconfig would
 * misread without an error: a zero byte ends its text, an unterminated comment
 * hides the rest, an integer beyond 32 bits wraps, and an include may name a
 * folder or device, at which its scanner ends the process.  libconfig checks
 * the grammar.
 */
#include "config/option.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define INTEGER_MAX 32 /* bytes of an integer that may still fit */

struct scan {
    const char *path;
    const char *at;
    const char *end;
    int line;
};

static bool is_word(char c)
{
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') ||
           (c >= 'A' && c <= 'Z') || c == '_' || c == '.' || c == '-' ||
           c == '+' || c == '*';
}

static bool starts_with(const struct scan *scan, const char *text)
{
    size_t n = strlen(text);

    return (size_t)(scan->end - scan->at) >= n &&
           memcmp(scan->at, text, n) == 0;
}

static void advance(struct scan *scan)
{
    if (*scan->at++ == '\n')
        scan->line++;
}

static void skip_line(struct scan *scan)
{
    while (scan->at < scan->end && *scan->at != '\n')
        scan->at++;
}

static symmcoll_status_t refuse_end(
    const struct scan *scan, const char *what, int line)
{
    return symc_fail(SYMMCOLL_ERR_CONFIG,
        "%s:%d: expected the end of this %s, found the end of the file",
        scan->path, line, what);
}

/* Skips the comment that begins at scan->at. */
static symmcoll_status_t skip_comment(struct scan *scan)
{
    int line = scan->line;

    scan->at += 2;
    while (scan->at < scan->end && !starts_with(scan, "*/"))
        advance(scan);
    if (scan->at == scan->end)
        return refuse_end(scan, "comment", line);
    scan->at += 2;
    return SYMMCOLL_OK;
}

/* Skips the string with its opening quote at scan->at. */
static symmcoll_status_t skip_string(struct scan *scan)
{
    int line = scan->line;

    for (scan->at++; scan->at < scan->end && *scan->at != '"';) {
        if (*scan->at == '\\' && scan->at + 1 < scan->end)
            advance(scan);
        advance(scan);
    }
    if (scan->at == scan->end)
        return refuse_end(scan, "text in quotes", line);
    scan->at++;
    return SYMMCOLL_OK;
}

/* Returns whether a word is an integer that libconfig would wrap.  An integer
 * with the suffix L has 64 bits, others 32. */
static bool is_too_great(const char *word, size_t nbytes)
{
    char text[INTEGER_MAX];
    char *end;
    size_t digits = nbytes;
    bool is_hex = nbytes > 2 && word[0] == '0' && (word[1] | 0x20) == 'x';

    while (digits > 0 && word[digits - 1] == 'L')
        digits--;
    bool is_long = digits < nbytes;

    for (size_t i = is_hex ? 2 : 0; i < digits; i++) {
        bool is_sign = i == 0 && (word[i] == '-' || word[i] == '+');

        if (!is_sign && strchr(is_hex ? "0123456789abcdefABCDEF" : "0123456789",
                            word[i]) == NULL)
            return false; /* a float or a name: not checked here */
    }
    if (digits >= sizeof text)
        return true;
    memcpy(text, word, digits);
    text[digits] = '\0';
    errno = 0;
    long long value = strtoll(text, &end, is_hex ? 16 : 10);
    return errno == ERANGE ||
           (!is_long && (value > INT32_MAX || value < INT32_MIN));
}

/* Skips the word at scan->at.  Returns CONFIG if it is an integer that libconfig
 * would wrap. */
static symmcoll_status_t skip_word(struct scan *scan)
{
    const char *word = scan->at;

    while (scan->at < scan->end && is_word(*scan->at))
        scan->at++;
    size_t nbytes = (size_t)(scan->at - word);
    if (is_too_great(word, nbytes))
        return symc_fail(SYMMCOLL_ERR_CONFIG,
            "%s:%d: expected an integer of 32 bits, or text with a unit such "
            "as \"4GiB\", found %.*s",
            scan->path, scan->line, (int)(nbytes > 40 ? 40 : nbytes), word);
    return SYMMCOLL_OK;
}

static symmcoll_status_t check_zeros(const struct scan *scan)
{
    size_t nbytes = (size_t)(scan->end - scan->at);
    const char *zero = memchr(scan->at, '\0', nbytes);
    struct scan before = *scan;

    if (zero == NULL)
        return SYMMCOLL_OK;
    while (before.at < zero)
        advance(&before);
    return symc_fail(SYMMCOLL_ERR_CONFIG,
        "%s:%d: expected text, found a zero byte", scan->path, before.line);
}

symmcoll_status_t symc_scan_text(
    const char *path, const char *text, size_t nbytes)
{
    struct scan scan = {path, text, text + nbytes, 1};
    symmcoll_status_t status = check_zeros(&scan);

    while (status == SYMMCOLL_OK && scan.at < scan.end) {
        if (*scan.at == '"') {
            status = skip_string(&scan);
        } else if (*scan.at == '#' || starts_with(&scan, "//")) {
            skip_line(&scan);
        } else if (starts_with(&scan, "/*")) {
            status = skip_comment(&scan);
        } else if (starts_with(&scan, "@include")) {
            return symc_fail(SYMMCOLL_ERR_CONFIG,
                "%s:%d: expected a setting, found @include: further files "
                "belong in a folder symmcoll.conf.d",
                path, scan.line);
        } else if (is_word(*scan.at)) {
            status = skip_word(&scan);
        } else {
            advance(&scan);
        }
    }
    return status;
}
