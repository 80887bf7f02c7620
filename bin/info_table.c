/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Tables as text and as JSON. Without memory for a few lines of text the
 * program exits.
 */
#include "info.h"

#include "base/base.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

static void *insist(void *memory)
{
    if (memory != NULL)
        return memory;
    fputs("symmcoll-info: no memory\n", stderr);
    exit(1);
}

void info_table_begin(
    struct info_table *table, const char *name, const char *const *columns)
{
    *table = (struct info_table){.name = name};
    while (columns[table->ncolumns] != NULL &&
           table->ncolumns < INFO_COLUMNS_MAX) {
        table->columns[table->ncolumns] = columns[table->ncolumns];
        table->ncolumns++;
    }
}

void info_object_begin(struct info_table *table, const char *name)
{
    static const char *const columns[] = {"name", "value", NULL};

    info_table_begin(table, name, columns);
    table->object = true;
}

static struct info_cell *add_cell(struct info_table *table, enum info_kind kind)
{
    struct info_cell *cell;

    if (table->ncells == table->capacity) {
        table->capacity = table->capacity ? 2 * table->capacity : 32;
        table->cells = insist(
            reallocarray(table->cells, table->capacity, sizeof(*table->cells)));
    }
    cell = &table->cells[table->ncells++];
    *cell = (struct info_cell){.kind = kind};
    return cell;
}

void info_text(struct info_table *table, const char *text)
{
    if (text == NULL)
        info_none(table);
    else
        add_cell(table, INFO_TEXT)->text = insist(strdup(text));
}

void info_format(struct info_table *table, const char *format, ...)
{
    va_list args;
    char *text;

    va_start(args, format);
    if (vasprintf(&text, format, args) < 0)
        text = NULL;
    va_end(args);
    add_cell(table, INFO_TEXT)->text = insist(text);
}

void info_number(struct info_table *table, long long number)
{
    add_cell(table, INFO_NUMBER)->number = number;
}

void info_flag(struct info_table *table, bool flag)
{
    add_cell(table, INFO_FLAG)->number = flag;
}

void info_none(struct info_table *table)
{
    add_cell(table, INFO_NONE);
}

void info_note(struct info_table *table, const char *note)
{
    table->cells[table->ncells - 1].note = note;
}

/* ---- JSON ---- */

/* Returns the length of the UTF-8 character at `at`, or 0 if invalid. */
static size_t measure_utf8(const unsigned char *at)
{
    size_t length = at[0] < 0x80                    ? 1
                    : at[0] >= 0xc2 && at[0] < 0xe0 ? 2
                    : at[0] >= 0xe0 && at[0] < 0xf0 ? 3
                    : at[0] >= 0xf0 && at[0] < 0xf5 ? 4
                                                    : 0;

    for (size_t i = 1; i < length; i++)
        if ((at[i] & 0xc0) != 0x80)
            return 0;
    /* Overlong forms, surrogates, and code points above U+10FFFF. */
    if ((at[0] == 0xe0 && at[1] < 0xa0) || (at[0] == 0xed && at[1] > 0x9f) ||
        (at[0] == 0xf0 && at[1] < 0x90) || (at[0] == 0xf4 && at[1] > 0x8f))
        return 0;
    return length;
}

static void print_string(FILE *file, const char *text)
{
    const unsigned char *at = (const unsigned char *)text;

    putc('"', file);
    while (*at != '\0') {
        size_t length = measure_utf8(at);

        if (length == 0)
            fputs("\\ufffd", file);
        else if (*at == '"' || *at == '\\')
            fprintf(file, "\\%c", *at);
        else if (*at < 0x20 || *at == 0x7f)
            fprintf(file, "\\u%04x", *at);
        else
            fwrite(at, 1, length, file);
        at += length > 0 ? length : 1;
    }
    putc('"', file);
}

static void print_value(FILE *file, const struct info_cell *cell)
{
    switch (cell->kind) {
    case INFO_TEXT:
        print_string(file, cell->text);
        break;
    case INFO_NUMBER:
        fprintf(file, "%lld", cell->number);
        break;
    case INFO_FLAG:
        fputs(cell->number ? "true" : "false", file);
        break;
    default:
        fputs("null", file);
    }
}

static void print_json_row(
    const struct info_table *table, const struct info_cell *row, FILE *file)
{
    if (table->object) {
        print_string(file, row[0].text);
        fputs(": ", file);
        print_value(file, &row[1]);
        return;
    }
    putc('{', file);
    for (size_t i = 0; i < table->ncolumns; i++) {
        if (i > 0)
            fputs(", ", file);
        print_string(file, table->columns[i]);
        fputs(": ", file);
        print_value(file, &row[i]);
    }
    putc('}', file);
}

static void print_json(const struct info_table *table, struct info_out *out)
{
    FILE *file = out->file;

    fputs(out->ntables > 0 ? ",\n  " : "\n  ", file);
    print_string(file, table->name);
    fputs(table->object ? ": {" : ": [", file);
    for (size_t i = 0; i < table->ncells; i += table->ncolumns) {
        fputs(i > 0 ? ",\n    " : "\n    ", file);
        print_json_row(table, &table->cells[i], file);
    }
    fputs(table->object ? "\n  }" : "\n  ]", file);
}

/* ---- text ---- */

/* Returns a cell as text, formatted in buffer if necessary. */
static const char *format_cell(
    const struct info_cell *cell, char *buffer, size_t nbytes)
{
    switch (cell->kind) {
    case INFO_TEXT:
        return cell->text;
    case INFO_NUMBER:
        snprintf(buffer, nbytes, "%lld", cell->number);
        return buffer;
    case INFO_FLAG:
        return cell->number ? "yes" : "no";
    default:
        return "-";
    }
}

/* Returns the width of a column, with its name if that is printed. */
static int measure_column(const struct info_table *table, size_t column)
{
    size_t widest = table->object ? 0 : strlen(table->columns[column]);
    char buffer[32];

    for (size_t i = column; i < table->ncells; i += table->ncolumns) {
        size_t width =
            strlen(format_cell(&table->cells[i], buffer, sizeof(buffer)));

        if (width > widest)
            widest = width;
    }
    return (int)widest;
}

/* Prints a row; the last column is not padded. */
static void print_text_row(const struct info_table *table,
    const int widths[INFO_COLUMNS_MAX], const struct info_cell *row, FILE *file)
{
    char buffer[32];

    for (size_t i = 0; i < table->ncolumns; i++)
        fprintf(file, "  %-*s", i + 1 < table->ncolumns ? widths[i] : 0,
            row != NULL ? format_cell(&row[i], buffer, sizeof(buffer))
                        : table->columns[i]);
    if (row != NULL && row[table->ncolumns - 1].note != NULL)
        fprintf(file, "  (%s)", row[table->ncolumns - 1].note);
    putc('\n', file);
}

static void print_text(const struct info_table *table, struct info_out *out)
{
    int widths[INFO_COLUMNS_MAX];

    for (size_t i = 0; i < table->ncells; i++)
        if (table->cells[i].kind == INFO_TEXT)
            symc_make_printable(table->cells[i].text);
    for (size_t i = 0; i < table->ncolumns; i++)
        widths[i] = measure_column(table, i);
    fprintf(out->file, "%s%s\n", out->ntables > 0 ? "\n" : "", table->name);
    if (!table->object)
        print_text_row(table, widths, NULL, out->file);
    for (size_t i = 0; i < table->ncells; i += table->ncolumns)
        print_text_row(table, widths, &table->cells[i], out->file);
}

void info_table_end(struct info_table *table, struct info_out *out)
{
    if (out->json)
        print_json(table, out);
    else
        print_text(table, out);
    out->ntables++;
    for (size_t i = 0; i < table->ncells; i++)
        free(table->cells[i].text);
    free(table->cells);
}

void info_begin(struct info_out *out)
{
    if (out->json)
        putc('{', out->file);
}

void info_end(struct info_out *out)
{
    if (out->json)
        fputs("\n}\n", out->file);
}
