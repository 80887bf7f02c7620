/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Tests the dump: its keys and values. dump_files.c tests the files, ring.c
 * the ring itself.
 */
#include "devices/ras.h"
#include "t/sanitized.h"
#include "t/trace/dump_util.h"

#include <locale.h>

static const struct symc_trace_format older = {
    .version = "2.2", .backend_name = "nccl"};

static int keys_of_2_10(void)
{
    struct symc_trace_ring *ring = make_ring(4);
    char keys[512];
    int good;

    record(ring, 0, 1, 2);
    good = dump(ring, 4, &newer) && json_is(text, "version", "\"2.10\"") &&
           strcmp(json_keys(text, "", keys, sizeof(keys)),
               "version comm_lib_version pg_config pg_status "
               "nccl_comm_state entries ") == 0 &&
           strcmp(json_keys(text, "entries/1", keys, sizeof(keys)),
               "record_id pg_id process_group collective_seq_id p2p_seq_id "
               "op_id profiling_name time_created_ns duration_ms "
               "time_discovered_started_ns time_discovered_completed_ns "
               "input_sizes input_dtypes output_sizes output_dtypes state "
               "retired timeout_ms is_p2p thread_id thread_name ") == 0;
    free(ring);
    return good;
}

static int keys_of_2_2(void)
{
    struct symc_trace_ring *ring = make_ring(4);
    char keys[512];
    int good;

    record(ring, 0, 1, 2);
    good = dump(ring, 4, &older) && json_is(text, "version", "\"2.2\"") &&
           strcmp(json_keys(text, "", keys, sizeof(keys)),
               "version pg_config nccl_comm_state entries ") == 0 &&
           strcmp(json_keys(text, "entries/1", keys, sizeof(keys)),
               "record_id pg_id process_group collective_seq_id p2p_seq_id "
               "op_id profiling_name time_created_ns duration_ms "
               "time_discovered_started_ns time_discovered_completed_ns "
               "input_sizes input_dtypes output_sizes output_dtypes state "
               "retired timeout_ms is_p2p ") == 0;
    free(ring);
    return good;
}

/* Checks X10 of t/SEMANTICS. */
static int values_of_a_short_record(void)
{
    struct symc_trace_ring *ring = make_ring(4);
    int64_t now = symc_wall_ns();
    const char *at;
    long long created;
    int good;

    record(ring, 0, 1, 2);
    good =
        dump(ring, 4, &newer) &&
        json_is(text, "pg_config",
            "{\n\"0\": {\"name\": \"0\", \"desc\": \"default_pg\", "
            "\"ranks\": \"[0, 1, 2, 3]\"}}") &&
        json_is(text, "pg_status/0/last_enqueued_collective", "\"2\"") &&
        json_is(text, "pg_status/0/last_started_collective", "\"2\"") &&
        json_is(text, "pg_status/0/last_completed_collective", "\"2\"") &&
        json_is(text, "entries/1/record_id", "1") &&
        json_is(text, "entries/1/pg_id", "0") &&
        json_is(text, "entries/1/process_group", "[\"0\", \"default_pg\"]") &&
        json_is(text, "entries/1/collective_seq_id", "2") &&
        json_is(text, "entries/1/p2p_seq_id", "0") &&
        json_is(text, "entries/1/op_id", "2") &&
        json_is(text, "entries/1/profiling_name", "\"nccl:all_reduce\"") &&
        json_is(text, "entries/1/input_sizes", "[[12]]") &&
        json_is(text, "entries/1/input_dtypes", "[\"Float\"]") &&
        json_is(text, "entries/1/output_sizes", "[[12]]") &&
        json_is(text, "entries/1/output_dtypes", "[\"Float\"]") &&
        json_is(text, "entries/1/state", "\"completed\"") &&
        json_is(text, "entries/1/retired", "true") &&
        json_is(text, "entries/1/timeout_ms", "600000") &&
        json_is(text, "entries/1/is_p2p", "false") &&
        json_is(text, "entries/2", NULL);
    at = json_find(text, "entries/1/time_created_ns");
    created = at != NULL ? strtoll(at, NULL, 10) : 0;
    good = good && llabs(created - now) < 60 * SYMC_NS_PER_S;
    free(ring);
    return good;
}

/* Returns a type for each of the shapes. */
static const char *types_of(const char *shapes)
{
    static const char *const types[] = {"[]", "[\"BFloat16\"]",
        "[\"BFloat16\", \"BFloat16\"]",
        "[\"BFloat16\", \"BFloat16\", \"BFloat16\"]",
        "[\"BFloat16\", \"BFloat16\", \"BFloat16\", \"BFloat16\"]"};
    int n = 0;

    for (const char *at = shapes + 1; (at = strchr(at, '[')) != NULL; at++)
        n++;
    return types[n];
}

static int names_and_shapes(void)
{
    static const struct {
        enum symc_kind kind;
        const char *name;
        const char *in;
        const char *out;
    } all[] = {
        {SYMC_BARRIER, "\"nccl:all_reduce_barrier\"", "[[1]]", "[[1]]"},
        {SYMC_ALL_REDUCE, "\"nccl:all_reduce\"", "[[5]]", "[[5]]"},
        {SYMC_REDUCE, "\"nccl:reduce\"", "[[5]]", "[[5]]"},
        {SYMC_REDUCE_SCATTER, "\"nccl:_reduce_scatter_base\"", "[[20]]",
            "[[5]]"},
        {SYMC_ALL_GATHER, "\"nccl:_all_gather_base\"", "[[5]]", "[[20]]"},
        {SYMC_GATHER, "\"nccl:gather\"", "[[5]]", "[[5], [5], [5], [5]]"},
        {SYMC_BROADCAST, "\"nccl:broadcast\"", "[[5]]", "[[5]]"},
        {SYMC_SEND, "\"nccl:send 2->2\"", "[[5]]", "[[5]]"},
        {SYMC_RECV, "\"nccl:recv 2<-2\"", "[[5]]", "[[5]]"},
        {SYMC_SCATTER, "\"nccl:scatter\"", "[[5], [5], [5], [5]]", "[[5]]"},
        {SYMC_ALL_TO_ALL, "\"nccl:all_to_all\"", "[[20]]", "[[20]]"},
        {SYMC_ALL_TO_ALL_V, "\"nccl:all_to_all\"", "[[20]]", "[[12]]"},
        {SYMC_ALL_TO_ALL_LIST, "\"nccl:all_to_all\"", "[[5], [5], [5], [5]]",
            "[[12]]"},
        {SYMC_ALL_GATHER_LIST, "\"nccl:all_gather\"", "[[20]]", "[[12]]"},
        {SYMC_REDUCE_SCATTER_LIST, "\"nccl:reduce_scatter\"",
            "[[5], [5], [5], [5]]", "[[12]]"},
        {SYMC_SCATTER, "\"nccl:scatter\"", "[]", "[[5]]"},
        {SYMC_GATHER, "\"nccl:gather\"", "[[5]]", "[]"},
    };
    /* Parts of different sizes are recorded as one. */
    struct symc_lists lists = {
        .in_total = 20, .out_total = 12, .out_unlike = true};
    const size_t n = sizeof(all) / sizeof(all[0]);
    struct symc_trace_ring *ring = make_ring((int64_t)n);
    int good;

    for (size_t i = 0; i < n; i++) {
        struct symc_op op = make_op(i + 1, 5);

        op.kind = all[i].kind;
        op.root = i + 2 < n ? 2 : 1; /* the ring is of rank 2 */
        op.dtype = SYMMCOLL_BFLOAT16;
        if (symc_kind_has(op.kind, SYMC_UNEVEN)) {
            op.listed = true;
            op.lists = &lists;
        }
        symc_trace_end(
            WRITER(ring), symc_trace_start(WRITER(ring), 0, &op), true);
    }
    good = dump(ring, (int64_t)n, &newer);
    for (size_t i = 0; i < n && good; i++) {
        char at[64];

        snprintf(at, sizeof(at), "entries/%zu/profiling_name", i);
        good = json_is(text, at, all[i].name);
        snprintf(at, sizeof(at), "entries/%zu/input_sizes", i);
        good = json_is(text, at, all[i].in) && good;
        snprintf(at, sizeof(at), "entries/%zu/output_sizes", i);
        good = json_is(text, at, all[i].out) && good;
        snprintf(at, sizeof(at), "entries/%zu/input_dtypes", i);
        good = json_is(text, at, types_of(all[i].in)) && good;
        snprintf(at, sizeof(at), "entries/%zu/output_dtypes", i);
        good = json_is(text, at, types_of(all[i].out)) && good;
    }
    free(ring);
    return good;
}

/* Checks C61 of t/SEMANTICS. */
static int pairs_have_numbers_of_their_own(void)
{
    struct symc_trace_ring *ring = make_ring(8);
    struct symc_op op = make_op(1, 5);
    int good;

    record(ring, 0, 1, 3);
    op.kind = SYMC_SEND;
    op.peer = 1;
    symc_trace_end(WRITER(ring), symc_trace_start(WRITER(ring), 0, &op), true);
    op.kind = SYMC_RECV;
    op.seq = 2;
    symc_trace_end(WRITER(ring), symc_trace_start(WRITER(ring), 0, &op), true);
    record(ring, 0, 4, 4);
    good = dump(ring, 8, &newer) &&
           json_is(text, "pg_status/0/last_completed_collective", "\"4\"") &&
           json_is(text, "entries/3/profiling_name", "\"nccl:send 2->1\"") &&
           json_is(text, "entries/3/is_p2p", "true") &&
           json_is(text, "entries/3/collective_seq_id", "3") &&
           json_is(text, "entries/3/p2p_seq_id", "1") &&
           json_is(text, "entries/3/op_id", "1") &&
           json_is(text, "entries/4/profiling_name", "\"nccl:recv 2<-1\"") &&
           json_is(text, "entries/4/p2p_seq_id", "2") &&
           json_is(text, "entries/5/is_p2p", "false") &&
           json_is(text, "entries/5/collective_seq_id", "4") &&
           json_is(text, "entries/5/p2p_seq_id", "2");
    free(ring);
    return good;
}

static int states_are_told(void)
{
    struct symc_trace_ring *ring = make_ring(4);
    struct symc_trace_format active = newer;
    struct symc_op op = make_op(2, 1);
    int good;

    record(ring, 0, 1, 1);
    symc_trace_end(WRITER(ring), symc_trace_start(WRITER(ring), 0, &op), false);
    op.seq = 3;
    (void)symc_trace_start(WRITER(ring), 0, &op);
    good = dump(ring, 4, &newer) &&
           json_is(text, "entries/1/state", "\"started\"") &&
           json_is(text, "entries/1/retired", "true") &&
           json_is(text, "entries/1/duration_ms", NULL) &&
           json_is(text, "entries/1/time_discovered_completed_ns", "0") &&
           json_is(text, "entries/2/state", "\"started\"") &&
           json_is(text, "entries/2/retired", "false") &&
           json_is(text, "entries/2/duration_ms", NULL);
    active.only_active = true;
    good = good && dump(ring, 4, &active) &&
           json_is(text, "entries/0/record_id", "1") &&
           json_is(text, "entries/1/record_id", "2") &&
           json_is(text, "entries/2", NULL);
    free(ring);
    return good;
}

static int entries_are_left_out(void)
{
    struct symc_trace_ring *ring = make_ring(4);
    struct symc_trace_format without = newer;
    int good;

    good = dump(ring, 4, &newer) && json_is(text, "entries", NULL) &&
           json_is(text, "pg_status/0/last_started_collective", "\"-1\"");
    record(ring, 0, 1, 3);
    without.no_collectives = true;
    good = good && dump(ring, 4, &without) && json_is(text, "entries", NULL) &&
           json_find(text, "pg_config/0/ranks") != NULL;
    free(ring);
    return good;
}

/* Requests ten of sixteen entries: ten are in the dump. */
static int as_many_as_asked_for(void)
{
    struct symc_trace_ring *ring = make_ring(10);
    int good;

    record(ring, 0, 1, 25);
    good = dump(ring, 10, &newer) &&
           json_is(text, "entries/0/record_id", "15") &&
           json_is(text, "entries/9/record_id", "24") &&
           json_is(text, "entries/10", NULL);
    free(ring);
    return good;
}

static int reason_and_label_are_told(void)
{
    struct symc_trace_ring *ring = make_ring(4);
    struct symc_trace_format format = newer;
    struct symc_op op = make_op(1, 1);
    int good;

    format.reason = "rank 2 (pid 7) killed by SIGKILL";
    strcpy(op.label, "layer \"3\"\n\\ \xc3\xa9 \xff");
    symc_trace_end(WRITER(ring), symc_trace_start(WRITER(ring), 0, &op), true);
    good = dump(ring, 4, &format) &&
           json_is(text, "nccl_comm_state/symmcoll/reason",
               "\"rank 2 (pid 7) killed by SIGKILL\"") &&
           json_is(text, "nccl_comm_state/symmcoll/rank", "\"2\"") &&
           json_is(text, "nccl_comm_state/symmcoll/world_size", "\"4\"") &&
           json_is(text, "entries/0/label",
               "\"layer \\\"3\\\"\\u000a\\\\ \xc3\xa9 \\u00ff\"");
    free(ring);
    return good;
}

/* Checks the whole report, in both syntaxes, and that nothing is written
 * without one. */
static int ras_is_told(void)
{
    struct symc_trace_ring *ring = make_ring(4);
    struct symc_trace_ras *ras = calloc(1, sizeof(*ras));
    struct symc_trace_format format = newer;
    int good;

    format.ras = ras;
    memset(ras->text, '\n', SYMC_TRACE_RAS_MOST);
    memcpy(ras->text, "a \"job\"", 7);
    good = dump(ring, 4, &format) &&
           strstr(text, "\"nccl_ras\": \"a \\\"job\\\"\\u000a") != NULL &&
           strlen(text) > 6 * (SYMC_TRACE_RAS_MOST - 7) &&
           strstr(text, "nccl_ras_error") == NULL;
    format.syntax = SYMC_TRACE_PICKLE;
    good = good && symc_trace_write(ring, symc_trace_nbytes(4), path,
                       &format) == SYMMCOLL_OK;
    format.syntax = SYMC_TRACE_JSON;
    strcpy(ras->text, "");
    strcpy(ras->error, "expected it");
    good = good && dump(ring, 4, &format) &&
           strstr(text, "\"nccl_ras_error\": \"expected it\"}") != NULL &&
           strstr(text, "\"nccl_ras\"") == NULL;
    free(ras);
    free(ring);
    return good;
}

static int locale_does_not_matter(void)
{
    struct symc_trace_ring *ring = make_ring(4);
    int good;

    /* If neither is installed this is the C locale again. */
    if (setlocale(LC_ALL, "de_DE.UTF-8") == NULL)
        (void)setlocale(LC_ALL, "de_DE");
    record(ring, 0, 1, 1);
    good = dump(ring, 4, &newer) &&
           strchr(json_find(text, "entries/0/duration_ms"), '.') != NULL;
    (void)setlocale(LC_ALL, "C");
    free(ring);
    return good;
}

/* Returns eight random bytes, the same in each run (splitmix64); rand() is too
 * slow. */
static uint64_t draw(void)
{
    static uint64_t state = 1;
    uint64_t x = state += UINT64_C(0x9e3779b97f4a7c15);

    x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
    return x ^ x >> 31;
}

/* Fills with random bytes, small ones, or with all bits set. */
static void fill_with_garbage(void *ring, size_t nbytes, int how)
{
    uint64_t *words = ring;

    for (size_t i = 0; i < nbytes / sizeof(*words); i++) {
        uint64_t word = draw();

        if (how == 1) /* replaces a 3 by a 2 in each pair of bits */
            word &= UINT64_C(0x0303030303030303) &
                    ~(word >> 1 & UINT64_C(0x0101010101010101));
        words[i] = how == 2 ? UINT64_MAX : word;
    }
}

/* Dumps any contents of memory: the result is a valid file or INVALID. */
static int garbage_is_survived(void)
{
    enum {
        SIZE = 8,
        ROUNDS = THREADS_CHECKED ? 30 : 400 /* one thread alone */
    };
    size_t nbytes = symc_trace_nbytes(SIZE);
    struct symc_trace_ring *ring = make_ring(SIZE);
    struct symc_trace_group *groups = symc_trace_groups(ring, SIZE);
    char position[64];
    int good = 1;

    for (int round = 0; round < ROUNDS && good; round++) {
        fill_with_garbage(ring, nbytes, round % 3);
        ring->magic = SYMC_TRACE_MAGIC;
        ring->capacity = SIZE;
        for (uint64_t i = 0; i < SIZE; i++) {
            atomic_store(&ring->entries[i].lock, 2 * i + 2);
            ring->entries[i].record_id = i;
            if (draw() % 4 == 0)
                continue;
            ring->entries[i].kind = (uint8_t)(1 + draw() % 7);
            ring->entries[i].dtype %= SYMMCOLL_DTYPE_COUNT;
            ring->entries[i].group %= SYMC_TRACE_GROUPS;
            atomic_store(&ring->entries[i].state, (uint8_t)(draw() % 4));
        }
        for (int i = 0; i < SYMC_TRACE_GROUPS; i++)
            groups[i].size %= i < 64 ? 5000 : 2;
        atomic_store(&groups[0].used, 2);
        atomic_store(&ring->groups, (uint32_t)draw());
        good = symc_trace_write(ring, nbytes, path, &newer) == SYMMCOLL_OK &&
               read_text() && json_is_valid(text);
        (void)symc_trace_position(
            ring, nbytes, NULL, position, sizeof(position));
    }
    free(ring);
    return good;
}

static int unknown_version_is_refused(void)
{
    struct symc_trace_ring *ring = make_ring(4);
    struct symc_trace_format format = newer;
    int good;

    format.version = "3.0";
    good = symc_trace_write(ring, symc_trace_nbytes(4), path, &format) ==
               SYMMCOLL_ERR_INVALID &&
           strstr(symmcoll_last_error(), "found 3.0") != NULL;
    free(ring);
    return good;
}

int main(void)
{
    plan(14);
    if (!make_folder())
        return 1;
    ok(unknown_version_is_refused() && folder_holds(false),
        "an unknown version is refused");
    ok(keys_of_2_10(), "version 2.10 has exactly its keys");
    ok(keys_of_2_2(), "version 2.2 has exactly its keys");
    ok(values_of_a_short_record(),
        "a short record has the values it should (T2)");
    ok(names_and_shapes(),
        "each collective has its name, shapes and types (T2)");
    ok(pairs_have_numbers_of_their_own(),
        "operations of a pair have names and numbers of their own");
    ok(states_are_told(), "states, and only what is active");
    ok(entries_are_left_out(), "entries are absent where there are none");
    ok(as_many_as_asked_for(), "as many entries as were asked for");
    ok(reason_and_label_are_told(), "reason and label are there, escaped");
    ok(ras_is_told(), "and what NCCL's RAS service has said");
    ok(locale_does_not_matter(), "the locale has no say");
    ok(garbage_is_survived(), "garbage becomes valid JSON");
    ok(folder_holds(true), "there is the dump and nothing else");
    return remove_folder() ? done_testing() : 1;
}
