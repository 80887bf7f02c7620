/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A strict reader of JSON for tests: checks that a text is exactly one value,
 * and finds the value at a path.
 */
#ifndef T_TRACE_JSON_H
#define T_TRACE_JSON_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool json_skip_value(const char **at);

static void json_skip_space(const char **at)
{
    *at += strspn(*at, " \t\r\n");
}

static bool json_skip_word(const char **at, const char *word)
{
    size_t length = strlen(word);

    if (strncmp(*at, word, length) != 0)
        return false;
    *at += length;
    return true;
}

static bool json_skip_string(const char **at)
{
    const char *p = *at;

    if (*p++ != '"')
        return false;
    while (*p != '"') {
        if ((unsigned char)*p < 0x20)
            return false;
        if (*p++ != '\\')
            continue;
        if (*p == 'u') {
            if (strspn(p + 1, "0123456789abcdefABCDEF") < 4)
                return false;
            p += 5;
        } else if (*p == '\0' || strchr("\"\\/bfnrt", *p++) == NULL) {
            return false;
        }
    }
    *at = p + 1;
    return true;
}

static bool json_skip_digits(const char **at)
{
    size_t n = strspn(*at, "0123456789");

    *at += n;
    return n > 0;
}

static bool json_skip_number(const char **at)
{
    const char *p = *at;

    if (*p == '-')
        p++;
    if (*p == '0')
        p++;
    else if (!json_skip_digits(&p))
        return false;
    if (*p == '.') {
        p++;
        if (!json_skip_digits(&p))
            return false;
    }
    if (*p == 'e' || *p == 'E') {
        p++;
        if (*p == '+' || *p == '-')
            p++;
        if (!json_skip_digits(&p))
            return false;
    }
    *at = p;
    return true;
}

/* Skips an object or an array; close is its last character. */
static bool json_skip_members(const char **at, char close)
{
    (*at)++;
    json_skip_space(at);
    if (**at == close) {
        (*at)++;
        return true;
    }
    for (;;) {
        if (close == '}') {
            json_skip_space(at);
            if (!json_skip_string(at))
                return false;
            json_skip_space(at);
            if (*(*at)++ != ':')
                return false;
        }
        if (!json_skip_value(at))
            return false;
        if (**at == close) {
            (*at)++;
            return true;
        }
        if (*(*at)++ != ',')
            return false;
    }
}

static bool json_skip_value(const char **at)
{
    bool good;

    json_skip_space(at);
    if (**at == '{')
        good = json_skip_members(at, '}');
    else if (**at == '[')
        good = json_skip_members(at, ']');
    else if (**at == '"')
        good = json_skip_string(at);
    else if (**at == 't')
        good = json_skip_word(at, "true");
    else if (**at == 'f')
        good = json_skip_word(at, "false");
    else if (**at == 'n')
        good = json_skip_word(at, "null");
    else
        good = json_skip_number(at);
    json_skip_space(at);
    return good;
}

/* Returns whether a text is one value and nothing else. */
static inline bool json_is_valid(const char *text)
{
    return json_skip_value(&text) && *text == '\0';
}

/* Returns a member of an object or array; NULL: none. */
static const char *json_step(const char *at, const char *key, size_t length)
{
    size_t index = 0;
    char close = *at == '{' ? '}' : ']';

    if (*at != '{' && *at != '[')
        return NULL;
    at++;
    json_skip_space(&at);
    while (*at != close) {
        bool found;

        if (close == '}') {
            const char *name = at + 1;

            json_skip_string(&at);
            found = (size_t)(at - 1 - name) == length &&
                    memcmp(name, key, length) == 0;
            json_skip_space(&at);
            at++;
            json_skip_space(&at);
        } else {
            found = index++ == strtoul(key, NULL, 10);
        }
        if (found)
            return at;
        json_skip_value(&at);
        if (*at == ',')
            at++;
        json_skip_space(&at);
    }
    return NULL;
}

/* Returns the value at a path like "entries/0/state" of a valid text, or
 * NULL. */
static inline const char *json_find(const char *at, const char *path)
{
    json_skip_space(&at);
    while (at != NULL && *path != '\0') {
        size_t length = strcspn(path, "/");

        at = json_step(at, path, length);
        path += length + (path[length] == '/');
    }
    return at;
}

/* Checks the text of the value at a path; NULL: there must be none. */
static inline bool json_is(
    const char *text, const char *path, const char *expected)
{
    const char *at = json_find(text, path);
    const char *end = at;

    if (at == NULL || expected == NULL) {
        if (at == NULL && expected == NULL)
            return true;
        fprintf(stderr, "# %s: expected %s\n", path,
            expected != NULL ? expected : "nothing");
        return false;
    }
    json_skip_value(&end);
    while (end > at && strchr(" \t\r\n", end[-1]) != NULL)
        end--;
    if ((size_t)(end - at) == strlen(expected) &&
        memcmp(at, expected, strlen(expected)) == 0)
        return true;
    fprintf(stderr, "# %s: expected %s, found %.*s\n", path, expected,
        (int)(end - at), at);
    return false;
}

/* Returns the keys of the object at a path, in their order, with a space after
 * each. */
static inline const char *json_keys(
    const char *text, const char *path, char *keys, size_t nbytes)
{
    const char *at = json_find(text, path);
    size_t used = 0;

    keys[0] = '\0';
    if (at == NULL || *at != '{')
        return keys;
    at++;
    json_skip_space(&at);
    while (*at != '}' && used + 1 < nbytes) {
        const char *name = at + 1;

        json_skip_string(&at);
        used += (size_t)snprintf(
            keys + used, nbytes - used, "%.*s ", (int)(at - 1 - name), name);
        json_skip_space(&at);
        at++;
        json_skip_value(&at);
        if (*at == ',')
            at++;
        json_skip_space(&at);
    }
    return keys;
}

#endif
