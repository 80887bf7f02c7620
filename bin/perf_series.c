/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Data of --plot, read from files of tab-separated values: a series per peer,
 * operation, number of ranks and file, with a point per size.
 */
#include "perf.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define COLUMNS 10

/* Larger values are never measured, and axes would have no end. */
#define RANKS_MAX 1e6
#define NBYTES_MAX 0x1p50
#define US_MIN 1e-6
#define US_MAX 1e12

/* The columns used of a row, as perf_print.c writes them. */
enum column {
    COLUMN_PEER = 0,
    COLUMN_OP = 1,
    COLUMN_RANKS = 2,
    COLUMN_BYTES = 3,
    COLUMN_MEDIAN = 6
};

/* A line of a file, for messages. */
struct place {
    const char *path;
    long line;
};

static bool refuse(
    const struct place *place, const char *expected, const char *found)
{
    fprintf(stderr, "symmcoll-perf: %s:%ld: expected %s, found \"%.80s\"\n",
        place->path, place->line, expected, found);
    return false;
}

static bool no_memory(void)
{
    fputs("symmcoll-perf: no memory for the points to draw\n", stderr);
    return false;
}

/* ---- reading ---- */

/* Splits a line into its columns; later releases may add more. */
static bool split(const struct place *place, char *line, char *columns[COLUMNS])
{
    char found[32], *tab = line;
    int count = 0;

    while (tab != NULL && count < COLUMNS) {
        columns[count++] = line;
        tab = strchr(line, '\t');
        if (tab != NULL) {
            *tab = '\0';
            line = tab + 1;
        }
    }
    if (count == COLUMNS)
        return true;
    snprintf(found, sizeof(found), "%d", count);
    return refuse(place, "10 columns as --tsv prints them", found);
}

static bool parse_number(const struct place *place, const char *what,
    const char *text, double least, double most, double *value)
{
    char *end;

    *value = strtod(text, &end);
    if (end != text && *end == '\0' && *value >= least && *value <= most)
        return true;
    return refuse(place, what, text);
}

/* Returns the series of a row, and creates it for its first row. */
static struct perf_series *find_series(
    struct perf_chart *chart, int file, char *const columns[COLUMNS], int ranks)
{
    struct perf_series *series = chart->series;

    for (int i = 0; i < chart->nseries; i++, series++)
        if (series->file == file && series->ranks == ranks &&
            strcmp(series->peer, columns[COLUMN_PEER]) == 0 &&
            strcmp(series->op, columns[COLUMN_OP]) == 0)
            return series;
    if (chart->nseries == PERF_SERIES_MAX) {
        fprintf(stderr,
            "symmcoll-perf: --plot: expected at most %d series, found more: "
            "choose with --op\n",
            PERF_SERIES_MAX);
        return NULL;
    }
    series->file = file;
    series->ranks = ranks;
    series->peer = strdup(columns[COLUMN_PEER]);
    series->op = strdup(columns[COLUMN_OP]);
    chart->nseries++; /* before steps that can fail, so that it is freed */
    if (series->peer != NULL && series->op != NULL)
        return series;
    no_memory();
    return NULL;
}

static bool add_point(
    struct perf_series *series, const struct perf_point *point)
{
    size_t capacity = series->capacity ? 2 * series->capacity : 16;
    struct perf_point *points;

    if (series->npoints == series->capacity) {
        points = reallocarray(series->points, capacity, sizeof(*points));
        if (points == NULL)
            return no_memory();
        series->points = points;
        series->capacity = capacity;
    }
    series->points[series->npoints++] = *point;
    return true;
}

/* Returns whether --op names the operation, or is not used. */
static bool is_chosen(const struct perf_options *options, const char *op)
{
    for (int i = 0; i < options->nchoices; i++)
        if (strcmp(options->choices[i].name, op) == 0)
            return true;
    return !options->named;
}

static bool read_row(struct perf_chart *chart,
    const struct perf_options *options, int file, const struct place *place,
    char *line)
{
    char *columns[COLUMNS];
    struct perf_series *series;
    struct perf_point point;
    double ranks;

    line[strcspn(line, "\r\n")] = '\0';
    if (line[0] == '\0' || line[0] == '#')
        return true;
    if (!split(place, line, columns))
        return false;
    if (strcmp(columns[COLUMN_BYTES], "bytes") == 0)
        return true; /* names of columns */
    if (!parse_number(place, "a number of ranks", columns[COLUMN_RANKS], 1,
            RANKS_MAX, &ranks) ||
        !parse_number(place, "a number of bytes", columns[COLUMN_BYTES], 0,
            NBYTES_MAX, &point.nbytes) ||
        !parse_number(place, "a time in microseconds", columns[COLUMN_MEDIAN],
            0, US_MAX, &point.us))
        return false;
    /* Logarithms: rows without a size, such as barriers, or without a time have
     * no place. */
    if (!is_chosen(options, columns[COLUMN_OP]) || point.nbytes < 1 ||
        point.us < US_MIN)
        return true;
    point.gbs = point.nbytes / point.us / 1e3;
    series = find_series(chart, file, columns, (int)ranks);
    return series != NULL && add_point(series, &point);
}

static bool read_file(
    struct perf_chart *chart, const struct perf_options *options, int index)
{
    struct place place = {options->inputs[index], 0};
    FILE *file = fopen(place.path, "r");
    char *line = NULL;
    size_t nbytes = 0;
    bool right = true;

    if (file == NULL) {
        fprintf(stderr, "symmcoll-perf: %s: %s\n", place.path, strerror(errno));
        return false;
    }
    errno = 0;
    while (right && getline(&line, &nbytes, file) >= 0) {
        place.line++;
        right = read_row(chart, options, index, &place, line);
    }
    if (right && ferror(file)) {
        fprintf(stderr, "symmcoll-perf: %s: %s\n", place.path, strerror(errno));
        right = false;
    }
    free(line);
    fclose(file);
    return right;
}

/* ---- what is drawn ---- */

static int compare_points(const void *left, const void *right)
{
    const struct perf_point *a = left, *b = right;

    if (a->nbytes != b->nbytes)
        return a->nbytes < b->nbytes ? -1 : 1;
    return a->us < b->us ? -1 : a->us > b->us;
}

/* Keeps one point per size, in ascending sizes: the median of several. */
static void merge_points(struct perf_series *series)
{
    size_t kept = 0, end;

    qsort(series->points, series->npoints, sizeof(*series->points),
        compare_points);
    for (size_t begin = 0; begin < series->npoints; begin = end) {
        for (end = begin;
             end < series->npoints &&
             series->points[end].nbytes == series->points[begin].nbytes;)
            end++;
        series->points[kept++] = series->points[begin + (end - begin - 1) / 2];
    }
    series->npoints = kept;
}

/* The names in which the series differ. */
struct differing {
    bool peer;
    bool op;
    bool ranks;
    bool file; /* the same series in several files */
};

static struct differing find_differing(const struct perf_chart *chart)
{
    struct differing differ = {.peer = false};

    for (int i = 0; i < chart->nseries; i++)
        for (int j = 0; j < i; j++) {
            const struct perf_series *a = &chart->series[i];
            const struct perf_series *b = &chart->series[j];
            bool peer = strcmp(a->peer, b->peer) != 0;
            bool op = strcmp(a->op, b->op) != 0;
            bool ranks = a->ranks != b->ranks;

            differ.peer = differ.peer || peer;
            differ.op = differ.op || op;
            differ.ranks = differ.ranks || ranks;
            differ.file = differ.file || (!peer && !op && !ranks);
        }
    return differ;
}

static void append(char *text, const char *part)
{
    size_t used = strlen(text);

    snprintf(
        text + used, PERF_LABEL_MAX - used, "%s%s", used > 0 ? ", " : "", part);
}

/* Formats the chosen parts of a series' name; the peer if none is chosen. */
static void name_series(char *text, const struct perf_series *series,
    const struct differing *chosen, const char *path)
{
    char part[PERF_LABEL_MAX];

    text[0] = '\0';
    if (chosen->peer)
        append(text, series->peer);
    if (chosen->op)
        append(text, series->op);
    if (chosen->ranks) {
        snprintf(part, sizeof(part), "%d rank%s", series->ranks,
            series->ranks == 1 ? "" : "s");
        append(text, part);
    }
    if (chosen->file) {
        const char *slash = strrchr(path, '/');

        snprintf(part, sizeof(part), "%s", slash != NULL ? slash + 1 : path);
        if (strrchr(part, '.') != NULL)
            *strrchr(part, '.') = '\0';
        append(text, part);
    }
    if (text[0] == '\0')
        append(text, series->peer);
}

/* The title has the parts common to all series, the legend the others. */
static void name_all(
    struct perf_chart *chart, const struct perf_options *options)
{
    struct differing differ = find_differing(chart);
    struct differing same = {!differ.peer, !differ.op, !differ.ranks, false};

    for (int i = 0; i < chart->nseries; i++)
        name_series(chart->series[i].label, &chart->series[i], &differ,
            options->inputs[chart->series[i].file]);
    if (same.peer || same.op || same.ranks)
        name_series(chart->title, &chart->series[0], &same, NULL);
}

bool perf_chart_read(
    struct perf_chart *chart, const struct perf_options *options)
{
    *chart = (struct perf_chart){.nseries = 0};
    for (int i = 0; i < options->ninputs; i++)
        if (!read_file(chart, options, i))
            return false;
    if (chart->nseries == 0) {
        fputs("symmcoll-perf: --plot: expected points of a size to draw, found "
              "none\n",
            stderr);
        return false;
    }
    for (int i = 0; i < chart->nseries; i++)
        merge_points(&chart->series[i]);
    name_all(chart, options);
    return true;
}

void perf_chart_free(struct perf_chart *chart)
{
    for (int i = 0; i < chart->nseries; i++) {
        free(chart->series[i].peer);
        free(chart->series[i].op);
        free(chart->series[i].points);
    }
}
