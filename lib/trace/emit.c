/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Emitters of a dump's two formats: see emit.h.
 *
 * The pickle uses protocol 2, which every Python since 2.3 reads, and only the
 * opcodes of pickletools that plain data needs. It uses no memo: a string that
 * occurs twice is written twice.
 */
#include "trace/emit.h"

#include <stdio.h>
#include <string.h>

/* Opcodes of a pickle. */
#define PROTOCOL_2 "\x80\x02"
#define EMPTY_DICT "}"
#define EMPTY_LIST "]"
#define MARK "("
#define SETITEMS "u"
#define APPENDS "e"
#define TUPLE2 "\x86"
#define BINUNICODE "X"
#define BININT "J"
#define LONG1 "\x8a"
#define BINFLOAT "G"
#define NEWTRUE "\x88"
#define NEWFALSE "\x89"
#define NONE "N"
#define STOP "."

static bool is_map(enum symc_emit_container kind)
{
    return kind == SYMC_EMIT_MAP || kind == SYMC_EMIT_TABLE;
}

static void put_text(struct symc_emit *emit, const char *text)
{
    symc_trace_out_put(emit->out, text, strlen(text));
}

/* Writes the lowest nbytes bytes of a number, in little-endian or big-endian
 * order. */
static void put_bytes(
    struct symc_emit *emit, uint64_t value, int nbytes, bool highest_first)
{
    char bytes[8];

    for (int i = 0; i < nbytes; i++)
        bytes[highest_first ? nbytes - 1 - i : i] = (char)(value >> (8 * i));
    symc_trace_out_put(emit->out, bytes, (size_t)nbytes);
}

/* ---- JSON ---- */

static void put_json_text(struct symc_emit *emit, const char *text)
{
    put_text(emit, "\"");
    while (*text != '\0') {
        size_t length = symc_measure_sequence((const unsigned char *)text);

        if (*text == '"' || *text == '\\') {
            put_text(emit, "\\");
            symc_trace_out_put(emit->out, text, 1);
        } else if (length == 0 || (unsigned char)*text < 0x20 ||
                   *text == 0x7f) {
            symc_trace_out_format(emit->out, "\\u%04x", (unsigned char)*text);
        } else {
            symc_trace_out_put(emit->out, text, length);
        }
        text += length > 0 ? length : 1;
    }
    put_text(emit, "\"");
}

/* Writes the separator before a member. */
static void put_json_separator(struct symc_emit *emit)
{
    enum symc_emit_container kind;
    bool lines, used;

    if (emit->depth == 0)
        return;
    kind = emit->stack[emit->depth - 1].kind;
    lines = kind == SYMC_EMIT_TABLE || kind == SYMC_EMIT_ROWS;
    used = emit->stack[emit->depth - 1].used;
    if (lines && (used || emit->depth > 1))
        put_text(emit, used ? ",\n" : "\n");
    else if (used)
        put_text(emit, ", ");
}

/* ---- pickle ---- */

static void put_pickle_text(struct symc_emit *emit, const char *text)
{
    const unsigned char *bytes = (const unsigned char *)text;
    size_t nbytes = 0;
    size_t length;

    for (const unsigned char *at = bytes; *at != '\0';
         at += length > 0 ? length : 1) {
        length = symc_measure_sequence(at);
        nbytes += length > 0 ? length : 2;
    }
    put_text(emit, BINUNICODE);
    put_bytes(emit, nbytes, 4, false);
    for (; *bytes != '\0'; bytes += length > 0 ? length : 1) {
        length = symc_measure_sequence(bytes);
        if (length > 0) {
            symc_trace_out_put(emit->out, bytes, length);
        } else {
            const char two[2] = {
                (char)(0xc0 | *bytes >> 6), (char)(0x80 | (*bytes & 0x3f))};

            symc_trace_out_put(emit->out, two, 2);
        }
    }
}

static void put_pickle_unsigned(struct symc_emit *emit, uint64_t value)
{
    int nbytes = 1;

    if (value <= INT32_MAX) {
        put_text(emit, BININT);
        put_bytes(emit, value, 4, false);
        return;
    }
    /* LONG1 is two's complement: the highest bit must be 0. */
    while (nbytes < 9 && value >> (8 * nbytes - 1) != 0)
        nbytes++;
    put_text(emit, LONG1);
    put_bytes(emit, (uint64_t)nbytes, 1, false);
    put_bytes(emit, value, nbytes < 9 ? nbytes : 8, false);
    if (nbytes == 9)
        put_bytes(emit, 0, 1, false);
}

/* ---- both formats ---- */

/* Begins a list member or a key; a map value that follows its key needs
 * nothing. */
static void begin_member(struct symc_emit *emit)
{
    if (emit->after_key) {
        emit->after_key = false;
        return;
    }
    if (emit->syntax == SYMC_TRACE_JSON)
        put_json_separator(emit);
    if (emit->depth > 0)
        emit->stack[emit->depth - 1].used = true;
}

void symc_emit_begin(struct symc_emit *emit, struct symc_trace_out *out,
    enum symc_trace_syntax syntax)
{
    emit->out = out;
    emit->syntax = syntax;
    emit->depth = 0;
    emit->after_key = false;
    if (syntax == SYMC_TRACE_PICKLE)
        put_text(emit, PROTOCOL_2);
}

void symc_emit_end(struct symc_emit *emit)
{
    put_text(emit, emit->syntax == SYMC_TRACE_PICKLE ? STOP : "\n");
}

void symc_emit_open(struct symc_emit *emit, enum symc_emit_container kind)
{
    begin_member(emit);
    if (emit->syntax == SYMC_TRACE_JSON)
        put_text(emit, is_map(kind) ? "{" : "[");
    else if (kind != SYMC_EMIT_PAIR)
        put_text(emit, is_map(kind) ? EMPTY_DICT MARK : EMPTY_LIST MARK);
    emit->stack[emit->depth].kind = kind;
    emit->stack[emit->depth].used = false;
    emit->depth++;
}

void symc_emit_close(struct symc_emit *emit)
{
    enum symc_emit_container kind = emit->stack[--emit->depth].kind;

    if (emit->syntax == SYMC_TRACE_JSON)
        put_text(emit, is_map(kind) ? "}" : "]");
    else if (kind == SYMC_EMIT_PAIR)
        put_text(emit, TUPLE2);
    else
        put_text(emit, is_map(kind) ? SETITEMS : APPENDS);
}

void symc_emit_key(struct symc_emit *emit, const char *key)
{
    symc_emit_text(emit, key);
    if (emit->syntax == SYMC_TRACE_JSON)
        put_text(emit, ": ");
    emit->after_key = true;
}

void symc_emit_text(struct symc_emit *emit, const char *text)
{
    begin_member(emit);
    if (emit->syntax == SYMC_TRACE_JSON)
        put_json_text(emit, text);
    else
        put_pickle_text(emit, text);
}

void symc_emit_unsigned(struct symc_emit *emit, uint64_t value)
{
    begin_member(emit);
    if (emit->syntax == SYMC_TRACE_JSON)
        symc_trace_out_format(emit->out, "%llu", (unsigned long long)value);
    else
        put_pickle_unsigned(emit, value);
}

void symc_emit_time(struct symc_emit *emit, int64_t ns)
{
    if (ns > 0 || emit->syntax == SYMC_TRACE_JSON) {
        symc_emit_unsigned(emit, ns > 0 ? (uint64_t)ns : 0);
    } else {
        begin_member(emit);
        put_text(emit, NONE);
    }
}

void symc_emit_sequence(struct symc_emit *emit, uint64_t seq)
{
    char text[24] = "-1";

    if (emit->syntax == SYMC_TRACE_JSON) {
        if (seq > 0)
            snprintf(text, sizeof(text), "%llu", (unsigned long long)seq);
        symc_emit_text(emit, text);
    } else if (seq > 0) {
        symc_emit_unsigned(emit, seq);
    } else {
        begin_member(emit);
        put_text(emit, BININT);
        put_bytes(emit, UINT32_MAX, 4, false); /* -1 */
    }
}

void symc_emit_bool(struct symc_emit *emit, bool value)
{
    begin_member(emit);
    if (emit->syntax == SYMC_TRACE_JSON)
        put_text(emit, value ? "true" : "false");
    else
        put_text(emit, value ? NEWTRUE : NEWFALSE);
}

void symc_emit_ms(struct symc_emit *emit, int64_t ns)
{
    begin_member(emit);
    if (emit->syntax == SYMC_TRACE_JSON) {
        /* In integers: printf("%f") depends on the locale's decimal point. */
        symc_trace_out_format(emit->out, "%lld.%06lld",
            (long long)(ns / 1000000), (long long)(ns % 1000000));
    } else {
        double ms = (double)ns / 1e6;
        uint64_t bits;

        memcpy(&bits, &ms, sizeof(bits));
        put_text(emit, BINFLOAT);
        put_bytes(emit, bits, 8, true);
    }
}
