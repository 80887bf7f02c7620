/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Shared parts of symmcoll-info: tables that are printed as text or as JSON,
 * and the functions that fill them.
 */
#ifndef SYMC_BIN_INFO_H
#define SYMC_BIN_INFO_H

#include "cuda/nccl/nccl.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

/* ---- info_table.c ---- */

#define INFO_COLUMNS_MAX 9

enum info_kind {
    INFO_NONE,
    INFO_TEXT,
    INFO_NUMBER,
    INFO_FLAG
};

struct info_cell {
    enum info_kind kind;
    char *text;       /* INFO_TEXT */
    long long number; /* INFO_NUMBER, INFO_FLAG */
    const char *note; /* text output only, after the last column; static */
};

/* A table being filled, cell by cell and row by row. */
struct info_table {
    const char *name;
    const char *columns[INFO_COLUMNS_MAX];
    size_t ncolumns;
    bool object; /* columns name and value: an object in JSON */
    struct info_cell *cells;
    size_t ncells;
    size_t capacity;
};

/* The destination of tables. */
struct info_out {
    FILE *file;
    bool json;
    int ntables; /* tables printed until now */
};

/* Begins a table; columns end with NULL. All names are borrowed. */
void info_table_begin(
    struct info_table *table, const char *name, const char *const *columns);
/* Begins a table of names and values. */
void info_object_begin(struct info_table *table, const char *name);

/* Add the next cell; text is copied, and NULL is an empty cell. */
void info_text(struct info_table *table, const char *text);
void info_format(struct info_table *table, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
void info_number(struct info_table *table, long long number);
void info_flag(struct info_table *table, bool flag);
void info_none(struct info_table *table);
/* Adds a note to the latest cell, for text output only; borrowed. */
void info_note(struct info_table *table, const char *note);

/* Prints a table and releases its memory. */
void info_table_end(struct info_table *table, struct info_out *out);

/* Print what precedes the first table and follows the last. */
void info_begin(struct info_out *out);
void info_end(struct info_out *out);

#define INFO_RANKS 2 /* number of ranks for values that depend on it */

/* ---- info_library.c ---- */

struct symc_config;

/* wrong: the error in the settings, which config replaces by defaults; else
 * NULL. */
void info_add_library(
    struct info_out *out, const struct symc_config *config, const char *wrong);
void info_add_backends(struct info_out *out);
void info_add_algorithms(
    struct info_out *out, const struct symc_config *config);

/* ---- info_blas.c ---- */

void info_add_blas(struct info_out *out, const struct symc_config *config);

/* ---- info_device.c ---- */

/* Adds the algorithms of device memory, with the settings they depend on. */
void info_add_device_algorithms(
    struct info_out *out, const struct symc_config *config);

/* ---- info_topology.c ---- */

void info_add_topology(struct info_out *out);

/* ---- info_connectivity.c ---- */

void info_add_connectivity(struct info_out *out);

/* ---- info_gpu.c ---- */

void info_add_gpus(struct info_out *out, const struct symc_config *config);

/* ---- info_nccl.c ---- */

struct info_nccl {
    const struct symc_nccl *table; /* NULL: no library */
    bool available;                /* usable by groups */
    char detail[SYMC_DETAIL_MAX];  /* version and file, or the reason */
};

void info_find_nccl(const struct symc_config *config, struct info_nccl *nccl);
/* Adds a table of optional functions of the NCCL library. */
void info_add_nccl(struct info_out *out, const struct info_nccl *nccl);

/* ---- info_cublaslt.c ---- */

/* Returns whether cuBLASLt is available.  detail (out): version and file, or
 * the reason. */
bool info_find_cublaslt(
    const struct symc_config *config, char *detail, size_t nbytes);

/* ---- info_kernel.c ---- */

void info_add_kernel(struct info_out *out);

/* ---- info_limits.c ---- */

void info_add_limits(struct info_out *out);
/* Adds a table of the parts of a rank's shared memory. */
void info_add_memory(struct info_out *out, const struct symc_config *config);

#endif
