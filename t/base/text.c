/* SPDX-License-Identifier: BSD-3-Clause */
/* Tests sizes and ranks as text, and text that is safe on a line. */
#include "../tap.h"

#include "base/base.h"

#include <string.h>

static int is_text(const char *found, const char *expected)
{
    if (strcmp(found, expected) == 0)
        return 1;
    diag("expected \"%s\", found \"%s\"", expected, found);
    return 0;
}

static int bytes_are(size_t nbytes, const char *expected)
{
    char buffer[32];

    return is_text(symc_format_bytes(nbytes, buffer), expected);
}

/* Checks the text for ranks; "x" marks a listed one. */
static int ranks_are(const char *marks, size_t nbytes, const char *expected)
{
    bool listed[64] = {false};
    char buffer[64];
    int size = 0;

    for (; marks[size] != '\0'; size++)
        listed[size] = marks[size] == 'x';
    memset(buffer, '#', sizeof(buffer));
    (void)symc_format_ranks(listed, size, buffer, nbytes);
    return is_text(buffer, expected) && buffer[nbytes] == '#';
}

static int named_ranks_are(const char *marks, const char *expected)
{
    bool listed[64] = {false};
    char buffer[64];
    int size = 0;

    for (; marks[size] != '\0'; size++)
        listed[size] = marks[size] == 'x';
    return is_text(
        symc_format_named_ranks(listed, size, buffer, sizeof(buffer)),
        expected);
}

/* Checks buffers of every size: the result is the end, dots or the whole,
 * never more. */
static int every_buffer_is_kept(const char *marks, const char *whole)
{
    for (size_t nbytes = 1; nbytes < 40; nbytes++) {
        bool listed[64] = {false};
        char buffer[64];
        int size = 0;
        size_t length;

        for (; marks[size] != '\0'; size++)
            listed[size] = marks[size] == 'x';
        memset(buffer, '#', sizeof(buffer));
        (void)symc_format_ranks(listed, size, buffer, nbytes);
        if (memchr(buffer, '\0', nbytes) == NULL || buffer[nbytes] != '#')
            return 0;
        length = strlen(buffer);
        if (nbytes > strlen(whole)
                ? strcmp(buffer, whole) != 0
                : length >= 3 && strcmp(buffer + length - 3, "...") != 0)
            return 0;
    }
    return 1;
}

static int printable_is(const char *text, const char *expected)
{
    char buffer[64];

    memcpy(buffer, text, strlen(text) + 1);
    symc_make_printable(buffer);
    return is_text(buffer, expected);
}

static bool number_is(const char *text, long expected)
{
    long number;

    return symc_parse_number(text, -7, 64, &number) && number == expected;
}

static bool no_number(const char *text)
{
    long number;

    return !symc_parse_number(text, -7, 64, &number);
}

int main(void)
{
    plan(20);
    ok(bytes_are(0, "0 B") && bytes_are(1, "1 B") && bytes_are(1023, "1023 B"),
        "few bytes are bytes");
    ok(bytes_are(262144, "256 KiB") && bytes_are(1 << 20, "1 MiB"),
        "round sizes have a unit");
    ok(bytes_are(1536, "1536 B") && bytes_are((1 << 20) + 1, "1048577 B"),
        "a size that is not round stays exact");
    ok(bytes_are(SIZE_MAX, "18446744073709551615 B") || sizeof(size_t) < 8,
        "the largest size fits");
    ok(ranks_are("...", 64 - 1, "none"), "no rank is none");
    ok(ranks_are("..x", 64 - 1, "2"), "one rank is a number");
    ok(ranks_are(".x.x", 64 - 1, "1 and 3"), "two are joined by and");
    ok(ranks_are("xx", 64 - 1, "0 and 1"), "two neighbours are no range");
    ok(ranks_are(".x.xxx...x", 64 - 1, "1, 3-5 and 9"),
        "three neighbours are a range");
    ok(ranks_are("xxxxxxxxxxxx", 64 - 1, "0-11"), "all are one range");
    ok(ranks_are("x.x.x.x.x.x", 12, "0, 2, 4..."), "what does not fit is cut");
    ok(every_buffer_is_kept(".x.xxx...x.xx", "1, 3-5, 9, 11 and 12"),
        "no room is overrun, and a cut shows");
    ok(named_ranks_are("..x", "rank 2") &&
            named_ranks_are("xxx", "ranks 0-2") &&
            named_ranks_are("x.x", "ranks 0 and 2"),
        "one rank or several are said to be that");
    ok(number_is("0", 0) && number_is("-7", -7) && number_is("64", 64),
        "whole numbers are read, to both ends of their range");
    ok(no_number("") && no_number("65") && no_number("-8") && no_number("1x") &&
            no_number(" 1") && no_number("+1") && no_number("-") &&
            no_number("99999999999999999999"),
        "nothing else is");
    ok(printable_is("all_reduce seq 17", "all_reduce seq 17"),
        "plain text stays");
    ok(printable_is("a\nb\tc\x7f", "a?b?c?"), "control characters go");
    ok(printable_is("\"a\\b\"", "'a/b'"),
        "quotes and backslashes are replaced");
    ok(printable_is("gr\xc3\xbc\xc3\x9f \xe2\x82\xac \xf0\x9f\x98\x80",
           "gr\xc3\xbc\xc3\x9f \xe2\x82\xac \xf0\x9f\x98\x80"),
        "UTF-8 stays");
    ok(printable_is("\xff \xc3 \xc0\xaf \xed\xa0\x80 \xf4\x90\x80\x80 \xe2\x82",
           "? ? ?? ??? ???? ??"),
        "what is no UTF-8 goes");
    return done_testing();
}
