/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Formats values for messages: sizes, lists of ranks, text that is safe on one
 * line.  Parses numbers.
 */
#include "base/base.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FORMAT_BYTES_NBYTES 32

const char *symc_format_bytes(size_t nbytes, char *buffer)
{
    static const char units[][4] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB"};
    const size_t nunits = sizeof(units) / sizeof(units[0]);
    size_t unit = 0;

    while (nbytes != 0 && nbytes % 1024 == 0 && unit + 1 < nunits) {
        nbytes /= 1024;
        unit++;
    }
    (void)snprintf(buffer, FORMAT_BYTES_NBYTES, "%zu %s", nbytes, units[unit]);
    return buffer;
}

/* An item of a list: a rank, or a range of at least three. */
struct item {
    int first;
    int last;
};

/* Returns the first item at or after a rank; its first is size if there is
 * none. */
static struct item find_item(const bool *listed, int size, int from)
{
    struct item item;
    int end;

    while (from < size && !listed[from])
        from++;
    item.first = from;
    for (end = from; end < size && listed[end];)
        end++;
    item.last = end - from >= 3 ? end - 1 : from;
    return item;
}

const char *symc_format_ranks(
    const bool *listed, int size, char *buffer, size_t nbytes)
{
    struct item item = find_item(listed, size, 0);
    size_t used = 0;

    if (nbytes == 0)
        return buffer;
    if (item.first >= size) {
        (void)snprintf(buffer, nbytes, "none");
        return buffer;
    }
    while (item.first < size) {
        struct item next = find_item(listed, size, item.last + 1);
        const char *before = "";
        char text[48];
        size_t length;

        if (used > 0)
            before = next.first < size ? ", " : " and ";
        if (item.last > item.first)
            length = (size_t)snprintf(
                text, sizeof(text), "%s%d-%d", before, item.first, item.last);
        else
            length = (size_t)snprintf(
                text, sizeof(text), "%s%d", before, item.first);
        /* An item that is not the last must leave space for "...". */
        if (used + length + (next.first < size ? sizeof("...") : 1) > nbytes) {
            (void)snprintf(buffer + used, nbytes - used, "...");
            return buffer;
        }
        memcpy(buffer + used, text, length + 1);
        used += length;
        item = next;
    }
    return buffer;
}

const char *symc_format_named_ranks(
    const bool *listed, int size, char *buffer, size_t nbytes)
{
    int count = 0;
    size_t used;

    for (int r = 0; r < size; r++)
        count += listed[r];
    used = (size_t)snprintf(buffer, nbytes, count > 1 ? "ranks " : "rank ");
    if (used < nbytes)
        symc_format_ranks(listed, size, buffer + used, nbytes - used);
    return buffer;
}

const char *symc_format_pid(pid_t pid, char buffer[SYMC_PID_TEXT])
{
    if (pid > 0)
        snprintf(buffer, SYMC_PID_TEXT, "pid %d", (int)pid);
    else
        snprintf(buffer, SYMC_PID_TEXT, "in another PID namespace");
    return buffer;
}

size_t symc_measure_sequence(const unsigned char *text)
{
    uint32_t point;
    size_t length;

    if (text[0] < 0x80)
        return 1;
    if (text[0] >= 0xc2 && text[0] < 0xe0)
        length = 2;
    else if (text[0] >= 0xe0 && text[0] < 0xf0)
        length = 3;
    else if (text[0] >= 0xf0 && text[0] < 0xf5)
        length = 4;
    else
        return 0;
    point = text[0] & (0x7fu >> length);
    for (size_t i = 1; i < length; i++) {
        if ((text[i] & 0xc0) != 0x80)
            return 0;
        point = point << 6 | (text[i] & 0x3fu);
    }
    /* an overlong form, a surrogate, or beyond the last code point */
    if ((length == 3 && point < 0x800) || (length == 4 && point < 0x10000) ||
        (point >= 0xd800 && point < 0xe000) || point > 0x10ffff)
        return 0;
    return length;
}

void symc_make_printable(char *text)
{
    while (*text != '\0') {
        size_t length = symc_measure_sequence((const unsigned char *)text);

        if (length == 0 || *text == '\x7f' ||
            (length == 1 && (unsigned char)*text < 0x20))
            *text = '?';
        else if (*text == '"')
            *text = '\'';
        else if (*text == '\\')
            *text = '/';
        text += length == 0 ? 1 : length;
    }
}

bool symc_parse_number(const char *text, long least, long most, long *number)
{
    char *end;
    long value;
    bool good;

    /* strtol() would skip blanks and accept a plus. */
    if ((*text < '0' || *text > '9') && *text != '-')
        return false;
    errno = 0;
    value = strtol(text, &end, 10);
    good = errno == 0 && end != text && *end == '\0' && value >= least &&
           value <= most;
    if (good)
        *number = value;
    return good;
}
