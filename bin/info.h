/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the sources of symmcoll-info share: tables that are printed as text or
 * as JSON, and the functions that fill them.
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
    const char *note; /* for people, after the last column; static */
};

/* A table under way: cells are added row by row. */
struct info_table {
    const char *name;
    const char *columns[INFO_COLUMNS_MAX];
    size_t ncolumns;
    bool object; /* two columns, name and value: an object in JSON */
    struct info_cell *cells;
    size_t ncells;
    size_t capacity;
};

/* Where tables go. */
struct info_out {
    FILE *file;
    bool json;
    int ntables; /* printed so far */
};

/* Begin a table; columns end with a NULL.  All names are borrowed. */
void info_table_begin(
    struct info_table *table, const char *name, const char *const *columns);
/* Begin a table of names and values. */
void info_object_begin(struct info_table *table, const char *name);

/* Add the next cell; text is copied, and NULL is as good as none. */
void info_text(struct info_table *table, const char *text);
void info_format(struct info_table *table, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
void info_number(struct info_table *table, long long number);
void info_flag(struct info_table *table, bool flag);
void info_none(struct info_table *table);
/* Say something to people about the latest cell; borrowed, and not in JSON. */
void info_note(struct info_table *table, const char *note);

/* Print a table and release what it holds. */
void info_table_end(struct info_table *table, struct info_out *out);

/* Before the first table, and after the last. */
void info_begin(struct info_out *out);
void info_end(struct info_out *out);

#define INFO_RANKS 2 /* what depends on their number is shown for so many */

/* ---- info_library.c ---- */

struct symc_config;

/* wrong: what is wrong with the settings, in whose place config has the
 * built-in ones; else NULL. */
void info_add_library(
    struct info_out *out, const struct symc_config *config, const char *wrong);
void info_add_backends(struct info_out *out);
void info_add_algorithms(
    struct info_out *out, const struct symc_config *config);

/* ---- info_blas.c ---- */

void info_add_blas(struct info_out *out, const struct symc_config *config);

/* ---- info_device.c ---- */

/* The same of device memory, with the settings that it depends on. */
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
    const struct symc_nccl *table; /* NULL: there is none */
    bool available;                /* to groups */
    char detail[SYMC_DETAIL_MAX];  /* its version and file, or the reason */
};

void info_find_nccl(const struct symc_config *config, struct info_nccl *nccl);
/* What it has of what it may lack. */
void info_add_nccl(struct info_out *out, const struct info_nccl *nccl);

/* ---- info_cublaslt.c ---- */

/* Whether there is cuBLASLt; its version and file, or the reason (out). */
bool info_find_cublaslt(
    const struct symc_config *config, char *detail, size_t nbytes);

/* ---- info_kernel.c ---- */

void info_add_kernel(struct info_out *out);

/* ---- info_limits.c ---- */

void info_add_limits(struct info_out *out);
/* What a rank's shared memory is made of. */
void info_add_memory(struct info_out *out, const struct symc_config *config);

#endif
