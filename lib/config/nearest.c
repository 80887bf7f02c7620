/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Finds the known name most similar to an unknown one, by the number of typing
 * errors between them (optimal string alignment distance), for "did you mean".
 */
#include "config/option.h"

#include <stdio.h>
#include <string.h>

static char to_lower(char c)
{
    return c >= 'A' && c <= 'Z' ? (char)(c - 'A' + 'a') : c;
}

static int smaller(int a, int b)
{
    return a < b ? a : b;
}

/* Names are short: only the first SYMC_KEY_MAX - 1 bytes are compared. */
int symc_edit_distance(const char *a, const char *b)
{
    int rows[3][SYMC_KEY_MAX]; /* the last three rows of the matrix */
    size_t a_length = strnlen(a, SYMC_KEY_MAX - 1);
    size_t b_length = strnlen(b, SYMC_KEY_MAX - 1);

    for (size_t j = 0; j <= b_length; j++)
        rows[0][j] = (int)j;
    for (size_t i = 1; i <= a_length; i++) {
        int *row = rows[i % 3];
        const int *above = rows[(i + 2) % 3];
        const int *second_above = rows[(i + 1) % 3];

        row[0] = (int)i;
        for (size_t j = 1; j <= b_length; j++) {
            char x = to_lower(a[i - 1]);
            char y = to_lower(b[j - 1]);

            row[j] = smaller(above[j], row[j - 1]) + 1;
            row[j] = smaller(row[j], above[j - 1] + (x != y));
            if (i > 1 && j > 1 && x == to_lower(b[j - 2]) &&
                to_lower(a[i - 2]) == y)
                row[j] = smaller(row[j], second_above[j - 2] + 1);
        }
    }
    return rows[a_length % 3][b_length];
}

/* The best match found. */
struct match {
    const char *name;
    char *buffer;
    int distance;
};

static void consider(struct match *match, const char *candidate)
{
    int distance = symc_edit_distance(match->name, candidate);

    if (distance < match->distance) {
        match->distance = distance;
        snprintf(match->buffer, SYMC_KEY_MAX, "%s", candidate);
    }
}

/* Accepts one typing error plus one for every three letters: a name with more
 * is another word. */
static struct match begin_match(const char *name, size_t prefix, char *buffer)
{
    size_t length = strnlen(name, SYMC_KEY_MAX);
    size_t own = length > prefix ? length - prefix : 0;

    buffer[0] = '\0';
    return (struct match){name, buffer, 2 + (int)own / 3};
}

const char *symc_nearest_key(const char *name, char *buffer)
{
    struct match match = begin_match(name, 0, buffer);

    for (const struct symc_option *o = symc_options; o->key != NULL; o++)
        consider(&match, o->key);
    if (buffer[0] != '\0')
        return buffer;

    /* The right name without a group, or in the wrong one. */
    const char *last = strrchr(name, '.');
    last = last != NULL ? last + 1 : name;
    for (const struct symc_option *o = symc_options; o->key != NULL; o++) {
        const char *dot = strchr(o->key, '.');

        if (dot != NULL && strcmp(dot + 1, last) == 0)
            return strcpy(buffer, o->key);
    }
    return NULL;
}

const char *symc_nearest_variable(const char *name, char *buffer)
{
    struct match match = begin_match(name, strlen("SYMMCOLL_"), buffer);
    char variable[SYMC_KEY_MAX];

    for (const struct symc_option *o = symc_options; o->key != NULL; o++)
        consider(&match, symc_option_variable(o, variable));
    for (const char *const *other = symc_other_variables; *other != NULL;
         other++)
        consider(&match, *other);
    return buffer[0] != '\0' ? buffer : NULL;
}
