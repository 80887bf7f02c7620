/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The values of a dump, one call for each, in JSON or as a pickle.  The caller
 * decides which values there are, this module how the file represents them.
 */
#ifndef SYMC_TRACE_EMIT_H
#define SYMC_TRACE_EMIT_H

#include "trace/out.h"

#define SYMC_EMIT_DEPTH 8 /* containers within each other */

enum symc_emit_container {
    SYMC_EMIT_MAP,
    SYMC_EMIT_LIST,
    SYMC_EMIT_PAIR,  /* of two values: a list in JSON, a tuple in a pickle */
    SYMC_EMIT_TABLE, /* a map whose members JSON puts on lines of their own */
    SYMC_EMIT_ROWS   /* a list of that kind */
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

/* A document is one value between these. */
void symc_emit_begin(struct symc_emit *emit, struct symc_trace_out *out,
    enum symc_trace_syntax syntax);
void symc_emit_end(struct symc_emit *emit);

void symc_emit_open(struct symc_emit *emit, enum symc_emit_container kind);
void symc_emit_close(struct symc_emit *emit);

/* In a map or table, before each value. */
void symc_emit_key(struct symc_emit *emit, const char *key);

/* Text; taken as Latin-1 where it is not valid UTF-8. */
void symc_emit_text(struct symc_emit *emit, const char *text);
void symc_emit_unsigned(struct symc_emit *emit, uint64_t value);
void symc_emit_bool(struct symc_emit *emit, bool value);

/* Nanoseconds since 1970; none is 0 in JSON and None in a pickle. */
void symc_emit_time(struct symc_emit *emit, int64_t ns);

/* A sequence number, or -1 for none (0); in JSON as text. */
void symc_emit_sequence(struct symc_emit *emit, uint64_t seq);

/* Nanoseconds, 0 or more, as milliseconds with a fraction. */
void symc_emit_ms(struct symc_emit *emit, int64_t ns);

#endif
