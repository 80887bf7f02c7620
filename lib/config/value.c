/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Converts a setting's text to its value and back.  Numbers are parsed digit by
 * digit and not by strtod(), so that "1.5s" is exact and does not depend on the
 * locale's decimal point.
 */
#include "config/option.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define INF INT64_MAX /* "inf", for times and sizes */

struct unit {
    const char *name;
    int64_t scale;
    bool for_output;
};

/* Largest first, as format_scaled() needs. */
static const struct unit time_units[] = {
    {"h", 3600 * SYMC_NS_PER_S, true},
    {"min", 60 * SYMC_NS_PER_S, true},
    {"s", SYMC_NS_PER_S, true},
    {"sec", SYMC_NS_PER_S, false},
    {"", SYMC_NS_PER_S, false}, /* a plain number: seconds */
    {"ms", 1000000, true},
    {"us", 1000, true},
    {"ns", 1, true},
    {NULL, 0, false},
};

static const struct unit size_units[] = {
    {"TiB", INT64_C(1) << 40, true},
    {"T", INT64_C(1) << 40, false},
    {"TB", INT64_C(1000000000000), false},
    {"GiB", INT64_C(1) << 30, true},
    {"G", INT64_C(1) << 30, false},
    {"GB", INT64_C(1000000000), false},
    {"MiB", INT64_C(1) << 20, true},
    {"M", INT64_C(1) << 20, false},
    {"MB", INT64_C(1000000), false},
    {"KiB", INT64_C(1) << 10, true},
    {"K", INT64_C(1) << 10, false},
    {"KB", INT64_C(1000), false},
    {"B", 1, true},
    {"", 1, false}, /* a plain number: bytes */
    {NULL, 0, false},
};

static const char *const true_words[] = {
    "on", "true", "t", "yes", "y", "1", NULL};
static const char *const false_words[] = {
    "off", "false", "f", "no", "n", "0", NULL};

/* ---- words ---- */

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static bool is_blank(char c)
{
    return c == ' ' || c == '\t';
}

/* Returns whether text equals the nbytes at word, ignoring case; without
 * strcasecmp(), which depends on the locale. */
static bool same_word(const char *text, const char *word, size_t nbytes)
{
    for (size_t i = 0; i < nbytes; i++) {
        char a = text[i];
        char b = word[i];

        if (a >= 'A' && a <= 'Z')
            a = (char)(a - 'A' + 'a');
        if (b >= 'A' && b <= 'Z')
            b = (char)(b - 'A' + 'a');
        if (a != b || a == '\0')
            return false;
    }
    return text[nbytes] == '\0';
}

static bool is_listed(const char *text, const char *const *words)
{
    for (; *words != NULL; words++)
        if (same_word(text, *words, strlen(*words)))
            return true;
    return false;
}

/* Skips blanks and returns the length of the next word, 0 at the end. */
static size_t next_word(const char **word)
{
    *word += strspn(*word, " ");
    return strcspn(*word, " ");
}

/* Returns the index of text among words, or -1. */
static int64_t find_word(const char *text, const char *words)
{
    int64_t place = 0;

    for (size_t n; (n = next_word(&words)) != 0; words += n, place++)
        if (same_word(text, words, n))
            return place;
    return -1;
}

/* Copies the word at an index from find_word(). */
static void copy_word(
    const char *words, int64_t place, char *buffer, size_t nbytes)
{
    size_t n = next_word(&words);

    while (place-- > 0) {
        words += n;
        n = next_word(&words);
    }
    snprintf(buffer, nbytes, "%.*s", (int)n, words);
}

/* ---- numbers ---- */

static int64_t greatest_divisor(int64_t a, int64_t b)
{
    while (b != 0) {
        int64_t rest = a % b;

        a = b;
        b = rest;
    }
    return a;
}

/* Reads digits.  Returns false if there are none or they overflow. */
static bool read_digits(const char **text, int64_t *value)
{
    const char *start = *text;

    for (*value = 0; is_digit(**text); (*text)++)
        if (__builtin_mul_overflow(*value, 10, value) ||
            __builtin_add_overflow(*value, **text - '0', value))
            return false;
    return *text != start;
}

/* Reads the digits after a decimal point as the fraction digits / power. */
static bool read_fraction(const char **text, int64_t *digits, int64_t *power)
{
    const char *start = *text;
    size_t length = strspn(start, "0123456789");
    size_t significant = length;

    *text += length;
    while (significant > 0 && start[significant - 1] == '0')
        significant--;
    if (length == 0 || significant > 18)
        return false;
    *digits = 0;
    *power = 1;
    for (size_t i = 0; i < significant; i++) {
        *digits = *digits * 10 + (start[i] - '0');
        *power *= 10;
    }
    return true;
}

static const struct unit *find_unit(const char *text, const struct unit *units)
{
    size_t length = strlen(text);

    while (length > 0 && is_blank(text[length - 1]))
        length--;
    for (; units->name != NULL; units++)
        if (strlen(units->name) == length &&
            (length == 0 || same_word(units->name, text, length)))
            return units;
    return NULL;
}

/* Parses a number with a unit.  Returns false if the text is no number, exceeds
 * int64_t or is not whole in the smallest unit. */
static bool parse_scaled(
    const char *text, const struct unit *units, int64_t *value)
{
    int64_t whole, digits = 0, power = 1;

    text += strspn(text, " \t");
    if (same_word(text, "inf", 3)) {
        *value = INF;
        return true;
    }
    if (!read_digits(&text, &whole))
        return false;
    if (*text == '.') {
        text++;
        if (!read_fraction(&text, &digits, &power))
            return false;
    }
    text += strspn(text, " \t");
    const struct unit *unit = find_unit(text, units);
    if (unit == NULL)
        return false;

    /* scale * digits / power, reduced first: the product then stays below
     * scale, and a remainder is detected. */
    int64_t divisor = greatest_divisor(unit->scale, power);
    power /= divisor;
    assert(power > 0);
    if (digits % power != 0 ||
        __builtin_mul_overflow(whole, unit->scale, value))
        return false;
    return !__builtin_add_overflow(
               *value, unit->scale / divisor * (digits / power), value) &&
           *value != INF;
}

static bool parse_int(const char *text, int64_t *value)
{
    text += strspn(text, " \t");
    bool negative = *text == '-';

    if (negative || *text == '+')
        text++;
    if (!read_digits(&text, value))
        return false;
    if (negative)
        *value = -*value;
    text += strspn(text, " \t");
    return *text == '\0';
}

/* Parses a choice that is written as off or on. */
static bool parse_truth(
    const struct symc_option *option, const char *text, int64_t *value)
{
    const char *word = option->truth;
    char chosen[SYMC_KEY_MAX];
    size_t n;

    if (word == NULL)
        return false;
    n = next_word(&word);
    if (is_listed(text, true_words)) {
        word += n;
        n = next_word(&word);
    } else if (!is_listed(text, false_words)) {
        return false;
    }
    snprintf(chosen, sizeof(chosen), "%.*s", (int)n, word);
    *value = find_word(chosen, option->range);
    return *value >= 0;
}

/* Parses the text of any type but TEXT as a number. */
static bool parse_number(
    const struct symc_option *option, const char *text, int64_t *value)
{
    switch (option->type) {
    case SYMC_OPTION_BOOL:
        *value = is_listed(text, true_words);
        return *value != 0 || is_listed(text, false_words);
    case SYMC_OPTION_INT:
        return parse_int(text, value);
    case SYMC_OPTION_SIZE:
        return parse_scaled(text, size_units, value);
    case SYMC_OPTION_TIME:
        return parse_scaled(text, time_units, value);
    case SYMC_OPTION_CHOICE:
        *value = find_word(text, option->range);
        return *value >= 0 || parse_truth(option, text, value);
    case SYMC_OPTION_TEXT:
        break;
    }
    return false;
}

/* Returns whether a number is in the option's range, "LOW HIGH". */
static bool in_range(const struct symc_option *option, int64_t value)
{
    char bound[SYMC_KEY_MAX];
    const char *words = option->range;
    int64_t low, high;

    if (words == NULL || option->type == SYMC_OPTION_CHOICE)
        return true;
    size_t n = next_word(&words);
    snprintf(bound, sizeof bound, "%.*s", (int)n, words);
    return parse_number(option, bound, &low) &&
           parse_number(option, words + n, &high) && low <= value &&
           value <= high;
}

/* Returns whether text is one line, and one of the option's words if it has
 * any. */
static bool is_valid_text(const struct symc_option *option, const char *text)
{
    for (const char *c = text; *c != '\0'; c++)
        if ((unsigned char)*c < 0x20 || *c == 0x7f)
            return false;
    return option->range == NULL || find_word(text, option->range) >= 0;
}

/* ---- output ---- */

static void append(char *buffer, size_t nbytes, const char *text, size_t length)
{
    size_t used = strlen(buffer);

    snprintf(buffer + used, nbytes - used, "%.*s", (int)length, text);
}

/* Appends a list such as "auto, on or off". */
static void append_words(char *buffer, size_t nbytes, const char *words)
{
    const char *between = "";

    for (size_t n = next_word(&words); n != 0;) {
        append(buffer, nbytes, between, strlen(between));
        append(buffer, nbytes, words, n);
        words += n;
        n = next_word(&words);
        between = words[n + strspn(words + n, " ")] == '\0' ? " or " : ", ";
    }
}

const char *symc_option_expected(const struct symc_option *option, char *buffer)
{
    static const char *const kinds[] = {
        [SYMC_OPTION_BOOL] = "on or off",
        [SYMC_OPTION_INT] = "a whole number",
        [SYMC_OPTION_SIZE] = "a size",
        [SYMC_OPTION_TIME] = "a time",
        [SYMC_OPTION_TEXT] = "text of one line",
        [SYMC_OPTION_CHOICE] = "",
    };
    const char *words = option->range;
    bool is_number = option->type == SYMC_OPTION_INT ||
                     option->type == SYMC_OPTION_SIZE ||
                     option->type == SYMC_OPTION_TIME;

    buffer[0] = '\0';
    if (words != NULL && is_number) {
        size_t n = next_word(&words);

        snprintf(buffer, SYMC_EXPECTED_MAX, "%s from %.*s to%s",
            kinds[option->type], (int)n, words, words + n);
    } else if (words != NULL) {
        append_words(buffer, SYMC_EXPECTED_MAX, words);
    } else {
        snprintf(buffer, SYMC_EXPECTED_MAX, "%s", kinds[option->type]);
    }
    return buffer;
}

/* Formats a number in the largest unit that keeps it whole. */
static void format_scaled(
    int64_t value, const struct unit *units, char *buffer, size_t nbytes)
{
    const struct unit *unit = units;

    if (value == 0 || value == INF) {
        snprintf(buffer, nbytes, "%s", value == 0 ? "0" : "inf");
        return;
    }
    while (!unit->for_output || value % unit->scale != 0)
        unit++;
    snprintf(buffer, nbytes, "%" PRId64 "%s", value / unit->scale, unit->name);
}

/* Formats the canonical text of a number. */
static void format_number(const struct symc_option *option, int64_t value,
    char *buffer, size_t nbytes)
{
    switch (option->type) {
    case SYMC_OPTION_BOOL:
        snprintf(buffer, nbytes, "%s", value != 0 ? "on" : "off");
        break;
    case SYMC_OPTION_SIZE:
        format_scaled(value, size_units, buffer, nbytes);
        break;
    case SYMC_OPTION_TIME:
        format_scaled(value, time_units, buffer, nbytes);
        break;
    case SYMC_OPTION_CHOICE:
        copy_word(option->range, value, buffer, nbytes);
        break;
    case SYMC_OPTION_INT:
    case SYMC_OPTION_TEXT:
        snprintf(buffer, nbytes, "%" PRId64, value);
        break;
    }
}

/* ---- storing ---- */

/* Copies "redis://USER:PASSWORD@HOST" without the password.  The last @ ends
 * the login, as in the parser of the URL. */
void symc_value_mask(const char *text, char *buffer, size_t nbytes)
{
    const char *login = strstr(text, "://");
    const char *at = login != NULL ? strrchr(login, '@') : NULL;
    const char *colon =
        at != NULL ? memchr(login + 3, ':', (size_t)(at - login - 3)) : NULL;

    if (colon == NULL)
        snprintf(buffer, nbytes, "%s", text);
    else
        snprintf(buffer, nbytes, "%.*s:***%s", (int)(colon - text), text, at);
}

static symmcoll_status_t refuse(
    const struct symc_option *option, const char *text, const char *origin)
{
    char expected[SYMC_EXPECTED_MAX];
    char found[SYMC_KEY_MAX];

    symc_value_mask(text, found, sizeof found);
    symc_make_printable(found);
    return symc_fail(SYMMCOLL_ERR_CONFIG, "%s: %s: expected %s, found \"%s\"",
        origin, option->key, symc_option_expected(option, expected), found);
}

/* Stores a number, or TEXT's canonical text, in the field. */
static void store(struct symc_config *config, const struct symc_option *option,
    int64_t number, char *text)
{
    void *field = (char *)config + option->offset;

    switch (option->type) {
    case SYMC_OPTION_BOOL:
        *(bool *)field = number != 0;
        break;
    case SYMC_OPTION_SIZE:
        *(size_t *)field = number == INF || (uint64_t)number > SIZE_MAX
                               ? SIZE_MAX
                               : (size_t)number;
        break;
    case SYMC_OPTION_TEXT:
        *(char **)field = text;
        break;
    case SYMC_OPTION_INT:
    case SYMC_OPTION_TIME:
    case SYMC_OPTION_CHOICE:
        *(int64_t *)field = number;
        break;
    }
}

symmcoll_status_t symc_value_set(struct symc_config *config, int index,
    const char *text, enum symc_level level, const char *origin)
{
    const struct symc_option *option = &symc_options[index];
    struct symc_value *value = &config->values[index];
    char canonical[SYMC_KEY_MAX];
    int64_t number = 0;

    if (option->type == SYMC_OPTION_TEXT) {
        if (!is_valid_text(option, text))
            return refuse(option, text, origin);
    } else {
        if (!parse_number(option, text, &number) || !in_range(option, number))
            return refuse(option, text, origin);
        format_number(option, number, canonical, sizeof canonical);
        text = canonical;
    }
    if (value->text != NULL && level < value->level)
        return SYMMCOLL_OK;

    char *new_text = symc_strdup(text);
    char *new_origin = symc_strdup(origin);
    if (new_text == NULL || new_origin == NULL) {
        free(new_text);
        free(new_origin);
        return SYMMCOLL_ERR_NO_MEMORY;
    }
    store(config, option, number, new_text);
    free(value->text);
    free(value->origin);
    *value = (struct symc_value){new_text, new_origin, level};
    return SYMMCOLL_OK;
}
