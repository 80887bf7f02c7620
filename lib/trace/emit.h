/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Functions that write the values of a dump, one call each, in JSON or as a
 * pickle. The caller chooses the values, this file their representation.
 */
#ifndef SYMC_TRACE_EMIT_H
#define SYMC_TRACE_EMIT_H

#include "trace/out.h"

#define SYMC_EMIT_DEPTH 8 /* depth of nested containers */

enum symc_emit_container {
    SYMC_EMIT_MAP,
    SYMC_EMIT_LIST,
    SYMC_EMIT_PAIR,  /* two values: a list in JSON, a tuple in a pickle */
    SYMC_EMIT_TABLE, /* a map; in JSON each member has its own line */
    SYMC_EMIT_ROWS   /* a list; in JSON each member has its own line */
};

struct symc_emit {
    struct symc_trace_out *out;
    enum symc_trace_syntax syntax;
    int depth;
    struct {
        enum symc_emit_container kind;
        bool used; /* has a member */
    } stack[SYMC_EMIT_DEPTH];
    bool after_key;
};

/* Begin and end a document, which is one value. */
void symc_emit_begin(struct symc_emit *emit, struct symc_trace_out *out,
    enum symc_trace_syntax syntax);
void symc_emit_end(struct symc_emit *emit);

void symc_emit_open(struct symc_emit *emit, enum symc_emit_container kind);
void symc_emit_close(struct symc_emit *emit);

/* Writes the key of a map or table, before each value. */
void symc_emit_key(struct symc_emit *emit, const char *key);

/* Writes a string; bytes that are not valid UTF-8 are taken as Latin-1. */
void symc_emit_text(struct symc_emit *emit, const char *text);
void symc_emit_unsigned(struct symc_emit *emit, uint64_t value);
void symc_emit_bool(struct symc_emit *emit, bool value);

/* Writes nanoseconds since 1970; no time is 0 in JSON and None in a pickle. */
void symc_emit_time(struct symc_emit *emit, int64_t ns);

/* Writes a sequence number, or -1 for none (0); a string in JSON. */
void symc_emit_sequence(struct symc_emit *emit, uint64_t seq);

/* Writes nanoseconds (>= 0) as milliseconds with a fraction. */
void symc_emit_ms(struct symc_emit *emit, int64_t ns);

#endif
