/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The dump of a ring as JSON, with the keys that readers of torch.distributed's
 * flight recorder expect: of their format 2.10, or of 2.2, which knew neither
 * the status of groups nor threads.  What we know beyond (who wrote it and why)
 * stands under nccl_comm_state, where both versions have free text.
 */
#include "trace/out.h"
#include "trace/view.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct dump {
    struct symc_trace_out out;
    struct symc_trace_view view;
    const struct symc_trace_format *format;
    bool newer; /* 2.10 */
    size_t count;
    struct symc_trace_copy *entries;
};

/* The shapes of one side of an operation: `lists` of one number each. */
struct shapes {
    uint64_t lists;
    uint64_t elements;
};

static const char *const dtype_names[SYMMCOLL_DTYPE_COUNT] = {
    [SYMMCOLL_UINT8] = "Byte",
    [SYMMCOLL_INT8] = "Char",
    [SYMMCOLL_INT16] = "Short",
    [SYMMCOLL_INT32] = "Int",
    [SYMMCOLL_INT64] = "Long",
    [SYMMCOLL_FLOAT16] = "Half",
    [SYMMCOLL_BFLOAT16] = "BFloat16",
    [SYMMCOLL_FLOAT32] = "Float",
    [SYMMCOLL_FLOAT64] = "Double",
    [SYMMCOLL_BOOL] = "Bool",
    [SYMMCOLL_COMPLEX64] = "ComplexFloat",
    [SYMMCOLL_COMPLEX128] = "ComplexDouble",
    [SYMMCOLL_FLOAT8_E4M3FN] = "Float8_e4m3fn",
    [SYMMCOLL_FLOAT8_E5M2] = "Float8_e5m2",
    [SYMMCOLL_FLOAT8_E4M3FNUZ] = "Float8_e4m3fnuz",
    [SYMMCOLL_FLOAT8_E5M2FNUZ] = "Float8_e5m2fnuz",
    [SYMMCOLL_FLOAT8_E8M0FNU] = "Float8_e8m0fnu",
    [SYMMCOLL_UINT16] = "UInt16",
    [SYMMCOLL_UINT32] = "UInt32",
    [SYMMCOLL_UINT64] = "UInt64",
};

/* The operation's name in traces. */
static const char *find_trace_name(unsigned int kind)
{
    switch (kind) {
    case SYMC_BARRIER:
        return "all_reduce_barrier";
    case SYMC_ALL_GATHER:
        return "_all_gather_base";
    case SYMC_REDUCE_SCATTER:
        return "_reduce_scatter_base";
    default:
        return symc_kind_name((enum symc_kind)kind);
    }
}

static uint64_t multiply_or_most(uint64_t a, uint64_t b)
{
    uint64_t product;

    return __builtin_mul_overflow(a, b, &product) ? UINT64_MAX : product;
}

/* What went in and came out of an operation on the entry's rank. */
static void find_shapes(const struct symc_trace_copy *entry, uint32_t size,
    bool is_root, struct shapes *in, struct shapes *out)
{
    *in = *out = (struct shapes){1, entry->count};
    switch (entry->kind) {
    case SYMC_BARRIER: /* an all_reduce of one element */
        in->elements = out->elements = 1;
        break;
    case SYMC_ALL_GATHER:
        out->elements = multiply_or_most(entry->count, size);
        break;
    case SYMC_REDUCE_SCATTER:
        in->elements = multiply_or_most(entry->count, size);
        break;
    case SYMC_GATHER:
        out->lists = is_root ? size : 0;
        break;
    default:
        break;
    }
}

static void put_shapes(struct dump *dump, const char *side,
    const struct shapes *shapes, const char *dtype)
{
    struct symc_trace_out *out = &dump->out;

    symc_trace_out_format(out, ", \"%s_sizes\": [", side);
    for (uint64_t i = 0; i < shapes->lists; i++)
        symc_trace_out_format(out, "%s[%llu]", i > 0 ? ", " : "",
            (unsigned long long)shapes->elements);
    symc_trace_out_format(out, "], \"%s_dtypes\": [", side);
    for (uint64_t i = 0; i < shapes->lists; i++)
        symc_trace_out_format(out, "%s\"%s\"", i > 0 ? ", " : "", dtype);
    symc_trace_out_format(out, "]");
}

static const char *find_state_name(unsigned int state)
{
    /* What failed had started; that it ended is told by "retired". */
    return state == SYMC_TRACE_COMPLETED   ? "completed"
           : state == SYMC_TRACE_SCHEDULED ? "scheduled"
                                           : "started";
}

static void put_times(struct dump *dump, const struct symc_trace_copy *entry)
{
    const struct symc_trace_view *view = &dump->view;
    struct symc_trace_out *out = &dump->out;
    bool completed = entry->state == SYMC_TRACE_COMPLETED;
    int64_t started_ns = entry->state == SYMC_TRACE_SCHEDULED
                             ? 0
                             : symc_trace_view_wall_ns(view, entry->started);
    int64_t completed_ns =
        completed ? symc_trace_view_wall_ns(view, entry->completed) : 0;

    symc_trace_out_format(out, ", \"time_created_ns\": %lld",
        (long long)symc_trace_view_wall_ns(view, entry->created));
    if (completed) {
        long long ns =
            completed_ns > started_ns ? completed_ns - started_ns : 0;

        /* In integers: the decimal point depends on the locale. */
        symc_trace_out_format(
            out, ", \"duration_ms\": %lld.%06lld", ns / 1000000, ns % 1000000);
    }
    symc_trace_out_format(out,
        ", \"time_discovered_started_ns\": %lld"
        ", \"time_discovered_completed_ns\": %lld",
        (long long)started_ns, (long long)completed_ns);
}

static void put_thread(struct dump *dump, const struct symc_trace_copy *entry)
{
    char name[SYMC_TRACE_THREAD_NAME + 1];

    symc_trace_out_format(&dump->out,
        ", \"thread_id\": \"%llu\", \"thread_name\": ",
        (unsigned long long)entry->thread_id);
    symc_trace_out_string(&dump->out,
        symc_trace_view_thread(&dump->view, entry->thread_id, name));
}

static void put_entry(struct dump *dump, const struct symc_trace_copy *entry)
{
    struct symc_trace_out *out = &dump->out;
    struct symc_trace_group_copy group;
    struct shapes output;
    struct shapes input;
    char name[128];

    if (!symc_trace_view_group(&dump->view, entry->group, &group))
        memset(&group, 0, sizeof(group));
    find_shapes(entry, group.size, entry->root == group.rank, &input, &output);
    symc_trace_out_format(out, "{\"record_id\": %llu, \"pg_id\": %u",
        (unsigned long long)entry->record_id, entry->group);
    symc_trace_out_format(out, ", \"process_group\": [");
    symc_trace_out_string(out, group.name);
    symc_trace_out_format(out, ", ");
    symc_trace_out_string(out, group.desc);
    symc_trace_out_format(out,
        "], \"collective_seq_id\": %llu, \"p2p_seq_id\": 0, \"op_id\": %llu",
        (unsigned long long)entry->seq, (unsigned long long)entry->seq);
    snprintf(name, sizeof(name), "%s:%s", dump->format->backend_name,
        find_trace_name(entry->kind));
    symc_trace_out_format(out, ", \"profiling_name\": ");
    symc_trace_out_string(out, name);
    put_times(dump, entry);
    put_shapes(dump, "input", &input, dtype_names[entry->dtype]);
    put_shapes(dump, "output", &output, dtype_names[entry->dtype]);
    symc_trace_out_format(out,
        ", \"state\": \"%s\", \"retired\": %s, \"timeout_ms\": %lld"
        ", \"is_p2p\": false",
        find_state_name(entry->state),
        entry->state >= SYMC_TRACE_COMPLETED ? "true" : "false",
        (long long)(entry->timeout_ns / 1000000));
    if (dump->newer)
        put_thread(dump, entry);
    if (entry->label[0] != '\0') {
        symc_trace_out_format(out, ", \"label\": ");
        symc_trace_out_string(out, entry->label);
    }
    symc_trace_out_format(out, "}");
}

/* Names of groups, with their ranks as a text that is itself JSON. */
static void put_group_config(struct dump *dump)
{
    struct symc_trace_out *out = &dump->out;
    struct symc_trace_group_copy group;
    const char *separator = "";

    symc_trace_out_format(out, ",\n\"pg_config\": {");
    for (unsigned int i = 0; i < SYMC_TRACE_GROUPS; i++) {
        if (!symc_trace_view_group(&dump->view, i, &group))
            continue;
        symc_trace_out_format(out, "%s\n", separator);
        symc_trace_out_string(out, group.name);
        symc_trace_out_format(out, ": {\"name\": ");
        symc_trace_out_string(out, group.name);
        symc_trace_out_format(out, ", \"desc\": ");
        symc_trace_out_string(out, group.desc);
        symc_trace_out_format(out, ", \"ranks\": \"[");
        for (uint32_t rank = 0; rank < group.size; rank++)
            symc_trace_out_format(out, "%s%u", rank > 0 ? ", " : "", rank);
        symc_trace_out_format(out, "]\"}");
        separator = ",";
    }
    symc_trace_out_format(out, "}");
}

/* A sequence number as text; -1 where there is none. */
static void put_sequence(struct dump *dump, const char *key, uint64_t seq)
{
    if (seq == 0)
        symc_trace_out_format(&dump->out, "\"%s\": \"-1\"", key);
    else
        symc_trace_out_format(
            &dump->out, "\"%s\": \"%llu\"", key, (unsigned long long)seq);
}

static void put_group_status(struct dump *dump)
{
    struct symc_trace_out *out = &dump->out;
    struct symc_trace_group_copy group;
    const char *separator = "";

    symc_trace_out_format(out, ",\n\"pg_status\": {");
    for (unsigned int i = 0; i < SYMC_TRACE_GROUPS; i++) {
        if (!symc_trace_view_group(&dump->view, i, &group))
            continue;
        symc_trace_out_format(out, "%s\n\"%u\": {", separator, i);
        put_sequence(dump, "last_enqueued_collective", group.enqueued);
        symc_trace_out_format(out, ", ");
        put_sequence(dump, "last_started_collective", group.started);
        symc_trace_out_format(out, ", ");
        put_sequence(dump, "last_completed_collective", group.completed);
        symc_trace_out_format(out, "}");
        separator = ",";
    }
    symc_trace_out_format(out, "}");
}

/* Whose record it is, and why it was written. */
static void put_origin(struct dump *dump)
{
    const struct symc_trace_view *view = &dump->view;
    struct symc_trace_out *out = &dump->out;

    symc_trace_out_format(out,
        ",\n\"nccl_comm_state\": {\"symmcoll\": {\"rank\": \"%u\", "
        "\"world_size\": \"%u\", \"pid\": \"%u\", \"host\": ",
        view->rank, view->world_size, view->pid);
    symc_trace_out_string(out, view->host);
    if (dump->format->reason != NULL) {
        symc_trace_out_format(out, ", \"reason\": ");
        symc_trace_out_string(out, dump->format->reason);
    }
    symc_trace_out_format(out, "}}");
}

static void put_all(struct dump *dump)
{
    struct symc_trace_out *out = &dump->out;

    symc_trace_out_format(
        out, "{\"version\": \"%s\"", dump->newer ? "2.10" : "2.2");
    if (dump->newer) {
        symc_trace_out_format(out, ",\n\"comm_lib_version\": ");
        symc_trace_out_string(out, symmcoll_version());
    }
    put_group_config(dump);
    if (dump->newer)
        put_group_status(dump);
    put_origin(dump);
    for (size_t i = 0; i < dump->count; i++) {
        symc_trace_out_format(out, i == 0 ? ",\n\"entries\": [\n" : ",\n");
        put_entry(dump, &dump->entries[i]);
    }
    symc_trace_out_format(out, dump->count > 0 ? "]}\n" : "}\n");
}

static int compare_entries(const void *a, const void *b)
{
    const struct symc_trace_copy *first = a;
    const struct symc_trace_copy *second = b;

    return (first->record_id > second->record_id) -
           (first->record_id < second->record_id);
}

/* Of more entries than are to be shown leave out the oldest that have ended. */
static void drop_oldest(struct dump *dump)
{
    size_t extra =
        dump->count > dump->view.keep ? dump->count - dump->view.keep : 0;
    size_t kept = 0;

    for (size_t i = 0; i < dump->count; i++) {
        if (extra > 0 && dump->entries[i].state >= SYMC_TRACE_COMPLETED) {
            extra--;
            continue;
        }
        dump->entries[kept++] = dump->entries[i];
    }
    dump->count = kept;
}

/* Copy the entries, oldest first, before anything is written: the file's text
 * takes a while, in which a living writer goes on. */
static symmcoll_status_t collect(struct dump *dump)
{
    const struct symc_trace_view *view = &dump->view;

    if (dump->format->no_collectives || view->capacity == 0)
        return SYMMCOLL_OK;
    dump->entries = symc_alloc(view->capacity, sizeof(*dump->entries));
    if (dump->entries == NULL)
        return SYMMCOLL_ERR_NO_MEMORY;
    for (uint32_t slot = 0; slot < view->capacity; slot++) {
        struct symc_trace_copy *entry = &dump->entries[dump->count];

        if (symc_trace_view_entry(view, slot, entry))
            dump->count++;
    }
    qsort(dump->entries, dump->count, sizeof(*dump->entries), compare_entries);
    drop_oldest(dump);
    if (dump->format->only_active) {
        size_t kept = 0;

        for (size_t i = 0; i < dump->count; i++)
            if (dump->entries[i].state != SYMC_TRACE_COMPLETED)
                dump->entries[kept++] = dump->entries[i];
        dump->count = kept;
    }
    return SYMMCOLL_OK;
}

symmcoll_status_t symc_trace_write(const struct symc_trace_ring *ring,
    size_t nbytes, const char *path, const struct symc_trace_format *format)
{
    symmcoll_status_t status;
    struct dump *dump;

    if (strcmp(format->version, "2.10") != 0 &&
        strcmp(format->version, "2.2") != 0)
        return symc_fail(SYMMCOLL_ERR_INVALID,
            "dump of the flight recorder: expected version 2.10 or 2.2, found "
            "%s",
            format->version);
    dump = symc_alloc(1, sizeof(*dump));
    if (dump == NULL)
        return SYMMCOLL_ERR_NO_MEMORY;
    dump->format = format;
    dump->newer = strcmp(format->version, "2.10") == 0;
    status = symc_trace_view_open(&dump->view, ring, nbytes);
    if (status == SYMMCOLL_OK)
        status = collect(dump);
    if (status == SYMMCOLL_OK)
        status = symc_trace_out_open(&dump->out, path);
    if (status == SYMMCOLL_OK) {
        put_all(dump);
        status = symc_trace_out_close(&dump->out);
    }
    free(dump->entries);
    free(dump);
    return status;
}
