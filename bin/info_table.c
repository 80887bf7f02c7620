/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Tables for people and as JSON.  Without memory for a few lines of text the
 * program ends.
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

void info_table_begin(struct info_table *table, const char *name, ...)
{
    const char *column;
    va_list args;

    *table = (struct info_table){.name = name};
    va_start(args, name);
    while ((column = va_arg(args, const char *)) != NULL &&
           table->ncolumns < INFO_COLUMNS_MAX)
        table->columns[table->ncolumns++] = column;
    va_end(args);
}

void info_object_begin(struct info_table *table, const char *name)
{
    info_table_begin(table, name, "name", "value", NULL);
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

/* ---- JSON ---- */

/* Bytes of the UTF-8 character that begins here; 0 where none does. */
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
    /* Overlong forms, surrogates, and numbers beyond the last character. */
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

static void print_json(const struct info_table *table, struct info_out *out)
{
    const struct info_cell *cell = table->cells;
    size_t rows = table->ncells / table->ncolumns;
    FILE *file = out->file;

    fputs(out->ntables > 0 ? ",\n  " : "\n  ", file);
    print_string(file, table->name);
    fputs(table->object ? ": {" : ": [", file);
    for (size_t row = 0; row < rows; row++) {
        fputs(row > 0 ? ",\n    " : "\n    ", file);
        if (table->object) {
            print_string(file, cell[0].text);
            fputs(": ", file);
            print_value(file, &cell[1]);
            cell += 2;
            continue;
        }
        putc('{', file);
        for (size_t i = 0; i < table->ncolumns; i++, cell++) {
            if (i > 0)
                fputs(", ", file);
            print_string(file, table->columns[i]);
            fputs(": ", file);
            print_value(file, cell);
        }
        putc('}', file);
    }
    fputs(table->object ? "\n  }" : "\n  ]", file);
}

/* ---- text ---- */

/* A cell as text, in the given buffer where it is not one already. */
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

/* The width of every column; the last one needs none. */
static void measure_columns(
    const struct info_table *table, int widths[INFO_COLUMNS_MAX])
{
    char buffer[32];

    for (size_t i = 0; i < table->ncolumns; i++)
        widths[i] = table->object ? 0 : (int)strlen(table->columns[i]);
    for (size_t i = 0; i < table->ncells; i++) {
        int width =
            (int)strlen(format_cell(&table->cells[i], buffer, sizeof(buffer)));
        int *widest = &widths[i % table->ncolumns];

        if (width > *widest)
            *widest = width;
    }
    widths[table->ncolumns - 1] = 0;
}

static void print_text(const struct info_table *table, struct info_out *out)
{
    int widths[INFO_COLUMNS_MAX];
    char buffer[32];

    for (size_t i = 0; i < table->ncells; i++)
        if (table->cells[i].kind == INFO_TEXT)
            symc_make_printable(table->cells[i].text);
    measure_columns(table, widths);
    fprintf(out->file, "%s%s\n", out->ntables > 0 ? "\n" : "", table->name);
    for (size_t i = 0; i < table->ncolumns && !table->object; i++)
        fprintf(out->file, "  %-*s%s", widths[i], table->columns[i],
            i + 1 == table->ncolumns ? "\n" : "");
    for (size_t i = 0; i < table->ncells; i++) {
        size_t column = i % table->ncolumns;

        fprintf(out->file, "  %-*s%s", widths[column],
            format_cell(&table->cells[i], buffer, sizeof(buffer)),
            column + 1 == table->ncolumns ? "\n" : "");
    }
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
