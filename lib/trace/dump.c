/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Dumps of a flight-recorder ring, in JSON or as a pickle, with the keys that
 * readers of torch.distributed's flight recorder expect: format 2.10, or 2.2,
 * which has neither group status nor thread names. This library's additions
 * (rank, process and reason) are under nccl_comm_state, which is free text in
 * both versions.
 */
#include "devices/ras.h"
#include "trace/emit.h"
#include "trace/shapes.h"
#include "trace/view.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct dump {
    struct symc_trace_out out;
    struct symc_emit emit;
    struct symc_trace_view view;
    const struct symc_trace_format *format;
    bool newer; /* format 2.10 */
    size_t count;
    struct symc_trace_copy *entries;
    /* groups with the name of another group */
    bool shadowed[SYMC_TRACE_GROUPS];
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

static bool is_pair(const struct symc_trace_copy *entry)
{
    return symc_kind_has((enum symc_kind)entry->kind, SYMC_PAIR);
}

static void put_text(struct dump *dump, const char *key, const char *text)
{
    symc_emit_key(&dump->emit, key);
    symc_emit_text(&dump->emit, text);
}

static void put_number(struct dump *dump, const char *key, uint64_t number)
{
    symc_emit_key(&dump->emit, key);
    symc_emit_unsigned(&dump->emit, number);
}

static void put_bool(struct dump *dump, const char *key, bool value)
{
    symc_emit_key(&dump->emit, key);
    symc_emit_bool(&dump->emit, value);
}

static void put_number_text(struct dump *dump, const char *key, uint64_t number)
{
    char text[24];

    snprintf(text, sizeof(text), "%llu", (unsigned long long)number);
    put_text(dump, key, text);
}

static void put_shapes(struct dump *dump, const char *sizes_key,
    const char *dtypes_key, const struct symc_trace_side *shapes,
    const char *dtype)
{
    struct symc_emit *emit = &dump->emit;

    symc_emit_key(emit, sizes_key);
    symc_emit_open(emit, SYMC_EMIT_LIST);
    for (uint64_t i = 0; i < shapes->lists; i++) {
        symc_emit_open(emit, SYMC_EMIT_LIST);
        symc_emit_unsigned(emit, symc_trace_find_elements(shapes, i));
        symc_emit_close(emit);
    }
    symc_emit_close(emit);
    symc_emit_key(emit, dtypes_key);
    symc_emit_open(emit, SYMC_EMIT_LIST);
    for (uint64_t i = 0; i < shapes->lists; i++)
        symc_emit_text(emit, dtype);
    symc_emit_close(emit);
}

static const char *find_state_name(unsigned int state)
{
    /* A failed operation had started; "retired" says that it has ended. */
    return state == SYMC_TRACE_COMPLETED   ? "completed"
           : state == SYMC_TRACE_SCHEDULED ? "scheduled"
           : state == SYMC_TRACE_CAPTURED  ? "captured"
                                           : "started";
}

static void put_times(struct dump *dump, const struct symc_trace_copy *entry)
{
    const struct symc_trace_view *view = &dump->view;
    struct symc_emit *emit = &dump->emit;
    bool completed = entry->state == SYMC_TRACE_COMPLETED;
    int64_t started_ns = entry->state == SYMC_TRACE_SCHEDULED
                             ? 0
                             : symc_trace_view_wall_ns(view, entry->started);
    int64_t completed_ns =
        completed ? symc_trace_view_wall_ns(view, entry->completed) : 0;

    put_number(dump, "time_created_ns",
        (uint64_t)symc_trace_view_wall_ns(view, entry->created));
    if (completed) {
        symc_emit_key(emit, "duration_ms");
        symc_emit_ms(
            emit, completed_ns > started_ns ? completed_ns - started_ns : 0);
    }
    symc_emit_key(emit, "time_discovered_started_ns");
    symc_emit_time(emit, started_ns);
    symc_emit_key(emit, "time_discovered_completed_ns");
    symc_emit_time(emit, completed_ns);
}

/* Writes the name: "nccl:all_reduce", "nccl:send 0->1" or "nccl:recv 1<-0". */
static void put_name(struct dump *dump, const struct symc_trace_copy *entry,
    const struct symc_trace_group_copy *group)
{
    const struct symc_kind_info *info = &symc_kinds[entry->kind];
    char name[160], peer[16] = "any";
    int used = snprintf(
        name, sizeof(name), "%s:%s", dump->format->backend_name, info->trace);

    if (entry->root >= 0)
        snprintf(peer, sizeof(peer), "%d", entry->root);
    if (is_pair(entry) && used > 0 && (size_t)used < sizeof(name))
        snprintf(name + used, sizeof(name) - (size_t)used, " %d%s%s",
            group->rank, info->in_parts != SYMC_NO_PART ? "->" : "<-", peer);
    put_text(dump, "profiling_name", name);
}

/* Writes the record's numbers, its group and its name. */
static void put_identity(struct dump *dump, const struct symc_trace_copy *entry,
    const struct symc_trace_group_copy *group)
{
    struct symc_emit *emit = &dump->emit;
    bool p2p = symc_kinds[entry->kind].counter == SYMC_COUNT_P2P;

    put_number(dump, "record_id", entry->record_id);
    put_number(dump, "pg_id", entry->group);
    symc_emit_key(emit, "process_group");
    symc_emit_open(emit, SYMC_EMIT_PAIR);
    symc_emit_text(emit, group->name);
    symc_emit_text(emit, group->desc);
    symc_emit_close(emit);
    put_number(dump, "collective_seq_id", p2p ? entry->other : entry->seq);
    put_number(dump, "p2p_seq_id", p2p ? entry->seq : entry->other);
    put_number(dump, "op_id", entry->seq);
    put_name(dump, entry, group);
}

/* Writes the label. Readers know the kinds without a sequence number by another
 * name ("all_gather" for creating a group), so the label begins with the kind's
 * own name. */
static void put_label(struct dump *dump, const struct symc_trace_copy *entry)
{
    const struct symc_kind_info *info = &symc_kinds[entry->kind];
    bool named = entry->label[0] != '\0';
    char text[SYMC_LABEL_MAX + 32];

    if (info->counter == SYMC_COUNT_NONE) {
        snprintf(text, sizeof(text), "%s%s%s", info->name, named ? " " : "",
            entry->label);
        put_text(dump, "label", text);
    } else if (named) {
        put_text(dump, "label", entry->label);
    }
}

/* Finds the group of an entry. Returns false if the group is no longer
 * described; its name is SYMC_TRACE_FREED_NAME then. */
static bool find_group(const struct dump *dump,
    const struct symc_trace_copy *entry, struct symc_trace_group_copy *group)
{
    if (!symc_trace_view_group_of(&dump->view, entry, group))
        return false;
    if (!dump->shadowed[entry->group])
        return true;
    memset(group, 0, sizeof(*group));
    strcpy(group->name, SYMC_TRACE_FREED_NAME);
    return false;
}

static void put_entry(struct dump *dump, const struct symc_trace_copy *entry)
{
    struct symc_trace_group_copy group;
    struct symc_trace_side input, output;
    char thread[SYMC_TRACE_THREAD_NAME + 1];

    (void)find_group(dump, entry, &group);
    symc_trace_find_sides(&dump->view, entry, &group, &input, &output);
    symc_emit_open(&dump->emit, SYMC_EMIT_MAP);
    put_identity(dump, entry, &group);
    put_times(dump, entry);
    put_shapes(
        dump, "input_sizes", "input_dtypes", &input, dtype_names[entry->dtype]);
    put_shapes(dump, "output_sizes", "output_dtypes", &output,
        dtype_names[entry->dtype]);
    put_text(dump, "state", find_state_name(entry->state));
    put_bool(dump, "retired", entry->state >= SYMC_TRACE_COMPLETED);
    put_number(dump, "timeout_ms",
        entry->timeout_ns > 0 ? (uint64_t)entry->timeout_ns / 1000000 : 0);
    put_bool(dump, "is_p2p", symc_kinds[entry->kind].counter == SYMC_COUNT_P2P);
    if (dump->newer) {
        put_number_text(dump, "thread_id", entry->thread_id);
        put_text(dump, "thread_name",
            symc_trace_view_thread(&dump->view, entry->thread_id, thread));
    }
    put_label(dump, entry);
    symc_emit_close(&dump->emit);
}

/* Writes the known ranks of a group, as a string that is itself JSON. */
static void put_ranks(
    struct dump *dump, const struct symc_trace_group_copy *group)
{
    size_t nbytes = (size_t)group->size * sizeof("4294967295, ") + sizeof("[]");
    char *text = symc_alloc(nbytes, 1);
    size_t used = 0;

    if (text == NULL) {
        symc_trace_out_fail(&dump->out, ENOMEM);
        return;
    }
    text[used++] = '[';
    for (uint32_t member = 0; member < group->size; member++) {
        int64_t rank = symc_trace_view_rank(group, member);

        if (rank < 0)
            break;
        used += (size_t)snprintf(text + used, nbytes - used, "%s%lld",
            member > 0 ? ", " : "", (long long)rank);
    }
    memcpy(text + used, "]", sizeof("]"));
    put_text(dump, "ranks", text);
    free(text);
}

static void put_one_config(
    struct dump *dump, const struct symc_trace_group_copy *group)
{
    symc_emit_key(&dump->emit, group->name);
    symc_emit_open(&dump->emit, SYMC_EMIT_MAP);
    put_text(dump, "name", group->name);
    put_text(dump, "desc", group->desc);
    put_ranks(dump, group);
    symc_emit_close(&dump->emit);
}

/* Finds the group that stands for all groups without a description, because
 * readers look up the group of each entry.  Returns false if it is not needed. */
static bool find_undescribed(
    const struct dump *dump, struct symc_trace_group_copy *group)
{
    for (size_t i = 0; i < dump->count; i++) {
        if (!find_group(dump, &dump->entries[i], group))
            return true;
    }
    return false;
}

static void put_group_config(struct dump *dump)
{
    struct symc_emit *emit = &dump->emit;
    struct symc_trace_group_copy group;

    symc_emit_key(emit, "pg_config");
    symc_emit_open(emit, SYMC_EMIT_TABLE);
    for (unsigned int i = 0; i < dump->view.groups; i++) {
        if (symc_trace_view_group(&dump->view, i, &group) && !dump->shadowed[i])
            put_one_config(dump, &group);
    }
    if (find_undescribed(dump, &group))
        put_one_config(dump, &group);
    symc_emit_close(emit);
}

static void put_sequence(struct dump *dump, const char *key, uint64_t seq)
{
    symc_emit_key(&dump->emit, key);
    symc_emit_sequence(&dump->emit, seq);
}

static void put_group_status(struct dump *dump)
{
    struct symc_emit *emit = &dump->emit;
    struct symc_trace_group_copy group;
    char number[16];

    symc_emit_key(emit, "pg_status");
    symc_emit_open(emit, SYMC_EMIT_TABLE);
    for (unsigned int i = 0; i < dump->view.groups; i++) {
        if (!symc_trace_view_group(&dump->view, i, &group))
            continue;
        snprintf(number, sizeof(number), "%u", i);
        symc_emit_key(emit, number);
        symc_emit_open(emit, SYMC_EMIT_MAP);
        put_sequence(dump, "last_enqueued_collective", group.enqueued);
        put_sequence(dump, "last_started_collective", group.started);
        put_sequence(dump, "last_completed_collective", group.completed);
        symc_emit_close(emit);
    }
    symc_emit_close(emit);
}

/* Writes the answer of NCCL's RAS service, or the error of the query. */
static void put_ras(struct dump *dump, const struct symc_trace_ras *ras)
{
    if (ras->text[0] != '\0')
        put_text(dump, "nccl_ras", ras->text);
    if (ras->error[0] != '\0')
        put_text(dump, "nccl_ras_error", ras->error);
}

/* Writes the recording rank and process, and the reason for the dump. */
static void put_origin(struct dump *dump)
{
    const struct symc_trace_view *view = &dump->view;
    struct symc_emit *emit = &dump->emit;

    symc_emit_key(emit, "nccl_comm_state");
    symc_emit_open(emit, SYMC_EMIT_MAP);
    symc_emit_key(emit, "symmcoll");
    symc_emit_open(emit, SYMC_EMIT_MAP);
    put_number_text(dump, "rank", view->rank);
    put_number_text(dump, "world_size", view->world_size);
    put_number_text(dump, "pid", view->pid);
    put_text(dump, "host", view->host);
    if (dump->format->reason != NULL)
        put_text(dump, "reason", dump->format->reason);
    if (dump->format->ras != NULL)
        put_ras(dump, dump->format->ras);
    symc_emit_close(emit);
    symc_emit_close(emit);
}

/* Writes the entries. JSON leaves out the key if there are none; readers of a
 * pickle need it. */
static void put_entries(struct dump *dump)
{
    if (dump->format->no_collectives ||
        (dump->count == 0 && dump->format->syntax == SYMC_TRACE_JSON))
        return;
    symc_emit_key(&dump->emit, "entries");
    symc_emit_open(&dump->emit, SYMC_EMIT_ROWS);
    for (size_t i = 0; i < dump->count; i++)
        put_entry(dump, &dump->entries[i]);
    symc_emit_close(&dump->emit);
}

static void put_all(struct dump *dump)
{
    symc_emit_begin(&dump->emit, &dump->out, dump->format->syntax);
    symc_emit_open(&dump->emit, SYMC_EMIT_TABLE);
    put_text(dump, "version", dump->newer ? "2.10" : "2.2");
    if (dump->newer)
        put_text(dump, "comm_lib_version", symmcoll_version());
    put_group_config(dump);
    if (dump->newer)
        put_group_status(dump);
    put_origin(dump);
    put_entries(dump);
    symc_emit_close(&dump->emit);
    symc_emit_end(&dump->emit);
}

static int compare_entries(const void *a, const void *b)
{
    const struct symc_trace_copy *first = a;
    const struct symc_trace_copy *second = b;

    return (first->record_id > second->record_id) -
           (first->record_id < second->record_id);
}

/* Drops the oldest ended entries beyond the number that a dump shows. */
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

/* Copies the entries, oldest first, before anything is written: a live writer
 * goes on recording while the file is written. */
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
    if (status != SYMMCOLL_OK)
        goto free_dump;
    status = symc_trace_find_shadowed(&dump->view, dump->shadowed);
    if (status != SYMMCOLL_OK)
        goto free_dump;
    status = collect(dump);
    if (status != SYMMCOLL_OK)
        goto free_dump;
    status = symc_trace_out_open(&dump->out, path);
    if (status != SYMMCOLL_OK)
        goto free_dump;
    put_all(dump);
    status = symc_trace_out_close(&dump->out);
free_dump:
    free(dump->entries);
    free(dump);
    return status;
}
