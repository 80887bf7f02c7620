/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Operations by their names on the command line.  A name may have an ending
 * that specifies the manner, as in the rows of the output.
 */
#include "perf.h"

#include <stdio.h>
#include <string.h>

#define NAME_LONGEST 40 /* longer words are not compared with names */

/* Returns the number of single letters to insert, remove or replace. */
static size_t edit_distance(const char *from, const char *to)
{
    size_t row[NAME_LONGEST + 1], columns = strlen(to);

    if (strlen(from) > NAME_LONGEST || columns > NAME_LONGEST)
        return NAME_LONGEST;
    for (size_t j = 0; j <= columns; j++)
        row[j] = j;
    for (size_t i = 1; from[i - 1] != '\0'; i++) {
        size_t diagonal = row[0];

        row[0] = i;
        for (size_t j = 1; j <= columns; j++) {
            size_t best = diagonal + (from[i - 1] != to[j - 1]);

            diagonal = row[j];
            if (best > row[j] + 1)
                best = row[j] + 1;
            if (best > row[j - 1] + 1)
                best = row[j - 1] + 1;
            row[j] = best;
        }
    }
    return row[columns];
}

const char *perf_nearest(const char *text, const char *(*at)(int index))
{
    const char *nearest = NULL, *name;
    size_t least = strlen(text) / 2 + 2;

    for (int i = 0; (name = at(i)) != NULL; i++) {
        size_t distance = edit_distance(text, name);

        if (distance < least) {
            least = distance;
            nearest = name;
        }
    }
    return nearest;
}

static const char *op_name_at(int index)
{
    return perf_ops()[index].name;
}

/* Returns the operation with exactly the name of `length` bytes. */
static const struct perf_op *find_op(const char *name, size_t length)
{
    for (const struct perf_op *op = perf_ops(); op->name; op++)
        if (strlen(op->name) == length && strncmp(op->name, name, length) == 0)
            return op;
    return NULL;
}

/* Returns whether a name has this ending, and removes it by shortening
 * *length. */
static bool cut_ending(const char *name, size_t *length, const char *ending)
{
    size_t cut = strlen(ending);

    if (*length <= cut || strncmp(name + *length - cut, ending, cut) != 0)
        return false;
    *length -= cut;
    return true;
}

/* Returns whether the operation can be done in this manner. */
static bool can_do(const struct perf_op *op, const struct perf_manner *manner)
{
    return (!manner->dirty || op->dirty) &&
           (!manner->in_place || op->in_place) &&
           (!manner->async || op->buckets);
}

/* Adds an operation.  Returns true also if it is already chosen. */
static bool add(struct perf_options *options, const struct perf_op *op,
    const struct perf_manner *manner)
{
    struct perf_choice *choice = &options->choices[options->nchoices];
    const char *ending = "";

    if (op->buckets)
        ending = manner->async ? "_nonblocking" : "_blocking";
    else if (manner->in_place)
        ending = "_in_place";
    else if (manner->dirty)
        ending = "_dirty";
    if (options->nchoices == PERF_CHOICES_MAX)
        return false;
    *choice = (struct perf_choice){
        .op = op,
        .dirty = manner->dirty,
        .in_place = manner->in_place,
        .async = manner->async,
    };
    snprintf(choice->name, sizeof(choice->name), "%s%s", op->name, ending);
    for (int i = 0; i < options->nchoices; i++)
        if (strcmp(options->choices[i].name, choice->name) == 0)
            return true;
    options->nchoices++;
    return true;
}

/* Adds an operation by its name with an ending: "bucket_avg_nonblocking". */
static bool choose_name(struct perf_options *options, const char *name,
    size_t length, struct perf_manner manner)
{
    const struct perf_op *op = find_op(name, length);
    size_t stem = length;
    bool of_buckets = false; /* the ending is for buckets only */
    char text[NAME_LONGEST + 1];
    const char *nearest;

    snprintf(text, sizeof(text), "%.*s", (int)length, name);
    if (!op) {
        if (cut_ending(name, &stem, "_dirty"))
            manner.dirty = true;
        else if (cut_ending(name, &stem, "_in_place"))
            manner.in_place = true;
        else if (cut_ending(name, &stem, "_nonblocking"))
            of_buckets = true, manner.async = true;
        else if (cut_ending(name, &stem, "_blocking"))
            of_buckets = true, manner.async = false;
        op = find_op(name, stem);
        if (op && of_buckets && !op->buckets)
            op = NULL;
    }
    if (!op) {
        nearest = perf_nearest(text, op_name_at);
        fprintf(stderr,
            "symmcoll-perf: --op: expected the name of an operation, found "
            "\"%s\"%s%s%s\n",
            text, nearest ? "; the nearest is \"" : "", nearest ? nearest : "",
            nearest ? "\"" : "");
        return false;
    }
    if (!can_do(op, &manner)) {
        fprintf(stderr, "symmcoll-perf: %s cannot be done %s\n", op->name,
            manner.async      ? "asynchronously, only bucket_avg can"
            : manner.in_place ? "in place"
                              : "with rewritten inputs");
        return false;
    }
    if (add(options, op, &manner))
        return true;
    fprintf(stderr, "symmcoll-perf: --op: more than %d operations\n",
        PERF_CHOICES_MAX);
    return false;
}

bool perf_choose(struct perf_options *options, const char *list,
    const struct perf_manner *manner)
{
    for (;;) {
        size_t length = strcspn(list, ",");

        if (!choose_name(options, list, length, *manner))
            return false;
        if (list[length] == '\0')
            return true;
        list += length + 1;
    }
}

static void add_each(
    struct perf_options *options, const struct perf_manner *manner)
{
    for (const struct perf_op *op = perf_ops(); op->name; op++)
        if (!op->rare && can_do(op, manner) && (!options->device || op->device))
            add(options, op, manner);
}

void perf_choose_all(
    struct perf_options *options, const struct perf_manner *manner)
{
    static const struct perf_manner async = {.async = true};
    static const struct perf_manner dirty = {.dirty = true};
    static const struct perf_manner in_place = {.in_place = true};
    size_t length = strlen("all_reduce");

    add_each(options, manner);
    if (manner->dirty || manner->in_place || manner->async)
        return;
    if (options->device) {
        add_each(options, &in_place);
        return;
    }
    if (options->max_nbytes >= PERF_DIRTY_MIN)
        add(options, find_op("all_reduce", length), &dirty);
    add(options, find_op("all_reduce", length), &in_place);
    add_each(options, &async);
}
