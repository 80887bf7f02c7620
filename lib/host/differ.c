/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Errors of ranks that pass different arguments: the arguments of each rank in one
 * sentence.  Every rank reads the same headers and reaches the same verdict.
 */
#include "host/coalesced.h"

#include <stdio.h>
#include <string.h>

enum field {
    FIELD_KIND,
    FIELD_COUNT,
    FIELD_DTYPE,
    FIELD_OP,
    FIELD_ROOT,
    FIELD_MEMORY,
    FIELD_END,
    FIELD_LISTED = FIELD_END, /* the count of each of the first buffers */
    FIELD_LISTED_END = FIELD_LISTED + SYMC_LISTED_COUNTS,
    FIELD_DIGEST = FIELD_LISTED_END /* of all counts */
};

/* Names, and bits of symc_kind_info.compared; the kind is always compared. */
static const struct {
    const char *name;
    unsigned int compared;
} fields[] = {{"operation", 0}, {"count", SYMC_COMPARE_COUNT},
    {"dtype", SYMC_COMPARE_DTYPE}, {"op", SYMC_COMPARE_OP},
    {"root", SYMC_COMPARE_ROOT}, {"memory", SYMC_COMPARE_MEMORY}};

static uint64_t field_value(const struct symc_header *header, enum field field)
{
    struct symc_listed listed;

    if (field >= FIELD_LISTED) {
        memcpy(&listed, header->payload, sizeof(listed));
        return field == FIELD_DIGEST ? listed.digest
                                     : listed.counts[field - FIELD_LISTED];
    }
    switch (field) {
    case FIELD_KIND:
        return header->what & 0xff;
    case FIELD_COUNT:
        return header->count;
    case FIELD_DTYPE:
        return header->what >> 8 & 0xff;
    case FIELD_OP:
        return header->what >> 16 & 0xff;
    case FIELD_MEMORY:
        return header->what >> 28;
    default:
        return header->root;
    }
}

static const char *format_value(
    enum field field, uint64_t value, char *buffer, size_t nbytes)
{
    const char *name = NULL;

    if (field == FIELD_KIND)
        name = symc_kind_name((enum symc_kind)value);
    else if (field == FIELD_DTYPE)
        name = symmcoll_dtype_name((enum symmcoll_dtype)value);
    else if (field == FIELD_OP)
        name = symmcoll_op_name((symmcoll_op_t)value);
    else if (field == FIELD_MEMORY)
        name = symc_memory_name((unsigned int)value);
    if (name != NULL)
        snprintf(buffer, nbytes, "%s", name);
    else if (field == FIELD_DIGEST)
        snprintf(buffer, nbytes, "%#llx", (unsigned long long)value);
    else
        snprintf(buffer, nbytes, "%llu", (unsigned long long)value);
    return buffer;
}

/* Formats "(group 0, seq 17)", with the call's label if it has one. */
static const char *format_place(const struct symc_host *host,
    const struct symc_op *op, char *buffer, size_t nbytes)
{
    bool labelled = op->label[0] != '\0';

    if (op->seq == 0) { /* an operation of the library's own */
        snprintf(buffer, nbytes, "(group %s)", host->core->name);
        return buffer;
    }
    snprintf(buffer, nbytes, "(group %s, seq %llu%s%.*s%s)", host->core->name,
        (unsigned long long)op->seq, labelled ? ", label '" : "",
        SYMC_LABEL_MAX, op->label, labelled ? "'" : "");
    return buffer;
}

/* Lists the ranks that passed the same value as `rank`; returns their number. */
static int list_equal(struct symc_host *host, const struct symc_op *op,
    enum field field, int rank, bool *listed)
{
    uint64_t value = field_value(symc_host_header(host, rank, op), field);
    int count = 0;

    for (int r = 0; r < host->size; r++) {
        listed[r] = field_value(symc_host_header(host, r, op), field) == value;
        count += listed[r];
    }
    return count;
}

/* Returns whether no lower rank passed the same value. */
static bool is_first(const bool *listed, int rank)
{
    for (int r = 0; r < rank; r++) {
        if (listed[r])
            return false;
    }
    return true;
}

/*
 * Formats "rank 0 passed 4, ranks 1 and 2 passed 5, the other 13 passed 8": each value
 * once, and last the value of more than half of the ranks, if there is one.  Cut if the
 * buffer is full.
 */
static void format_values(struct symc_host *host, const struct symc_op *op,
    enum field field, char *buffer, size_t nbytes)
{
    const char *verb = field == FIELD_KIND ? "called" : "passed";
    bool *listed = host->missing; /* not in use: no wait is active */
    char most[96] = "", ranks[128], text[32];
    size_t used = 0;

    for (int r = 0; r < host->size; r++) {
        uint64_t value = field_value(symc_host_header(host, r, op), field);
        int count = list_equal(host, op, field, r, listed);

        format_value(field, value, text, sizeof(text));
        if (!is_first(listed, r))
            continue;
        if (2 * count > host->size)
            snprintf(
                most, sizeof(most), ", the other %d %s %s", count, verb, text);
        else if (used + 2 * sizeof(most) < nbytes)
            used += (size_t)snprintf(buffer + used, nbytes - used, "%s%s %s %s",
                used > 0 ? ", " : "",
                symc_format_members(
                    host->core->ranks, listed, ranks, sizeof(ranks)),
                verb, text);
        else if (strcmp(buffer + used - 3, "...") != 0)
            used += (size_t)snprintf(buffer + used, nbytes - used, ", ...");
    }
    snprintf(buffer + used, nbytes - used, "%s", most);
}

/* The values of a field on all ranks. */
struct values {
    struct symc_host *host;
    const struct symc_op *op;
    enum field field;
};

static bool are_alike(const void *arg, int a, int b)
{
    const struct values *values = arg;

    return field_value(
               symc_host_header(values->host, a, values->op), values->field) ==
           field_value(
               symc_host_header(values->host, b, values->op), values->field);
}

/* Returns the name of a field. */
static const char *name_field(
    const struct symc_op *op, enum field field, char *buffer, size_t nbytes)
{
    if (field == FIELD_DIGEST)
        return "digest of all counts";
    if (field == FIELD_ROOT && symc_kind_has(op->kind, SYMC_COALESCED))
        return "number of buffers";
    if (field < FIELD_LISTED)
        return fields[field].name;
    snprintf(buffer, nbytes, "count of buffer %d", (int)field - FIELD_LISTED);
    return buffer;
}

/* Returns whether a rank has called an operation that takes a sequence number. */
static bool counts_anywhere(struct symc_host *host, const struct symc_op *op)
{
    for (int r = 0; r < host->size; r++) {
        uint64_t kind = field_value(symc_host_header(host, r, op), FIELD_KIND);

        if (symc_kind_is_known((unsigned int)kind) &&
            symc_kinds[kind].counter == SYMC_COUNT_COLLECTIVE)
            return true;
    }
    return false;
}

/* Fails with the first field in which ranks differ, and each rank's value.  An operation
 * without a sequence number takes one, as those of the other ranks have. */
static symmcoll_status_t fail_mismatch(
    struct symc_host *host, const struct symc_op *op, enum field field)
{
    const struct values all = {host, op, field};
    char values[384], place[160], name[48];
    struct symc_op numbered = *op;

    if (op->seq == 0 && counts_anywhere(host, op))
        numbered.seq = host->core->take_number(host->core->group);
    format_values(host, op, field, values, sizeof(values));
    format_place(host, &numbered, place, sizeof(place));
    /* If kinds differ, there is no common operation to name. */
    if (field == FIELD_KIND)
        (void)host->core->fail(SYMMCOLL_ERR_MISMATCH, "%s differs: %s %s",
            fields[field].name, values, place);
    else
        (void)host->core->fail(SYMMCOLL_ERR_MISMATCH, "%s: %s differs: %s %s",
            symc_kind_name(op->kind), name_field(op, field, name, sizeof(name)),
            values, place);
    return symc_error_add_odd(host->core->ranks, are_alike, &all);
}

/* Returns whether a field has to be the same on all ranks. */
static bool is_compared(const struct symc_op *op, enum field field)
{
    bool coalesced = symc_kind_has(op->kind, SYMC_COALESCED);

    if (field >= FIELD_LISTED)
        return coalesced;
    if (field == FIELD_COUNT && coalesced)
        return false; /* the counts of single buffers are compared instead */
    return field == FIELD_KIND ||
           (symc_kinds[op->kind].compared & fields[field].compared) != 0;
}

symmcoll_status_t symc_host_disagree(
    struct symc_host *host, const struct symc_op *op)
{
    for (enum field field = FIELD_KIND; field <= FIELD_DIGEST; field++) {
        if (!is_compared(op, field))
            continue;
        uint64_t first = field_value(symc_host_header(host, 0, op), field);

        for (int r = 1; r < host->size; r++) {
            if (field_value(symc_host_header(host, r, op), field) != first)
                return fail_mismatch(host, op, field);
        }
    }
    return SYMMCOLL_OK; /* they differ in no field that must be the same */
}

symmcoll_status_t symc_host_fail_reserve(
    struct symc_host *host, const struct symc_op *op, int rank)
{
    char place[160], who[SYMC_RANK_TEXT];

    (void)host->core->fail(SYMMCOLL_ERR_NO_MEMORY, "%s: %s: %.*s %s",
        symc_kind_name(op->kind),
        symc_format_rank(host->core->ranks, rank, SYMC_NO_PID, who),
        SYMC_REFUSAL - 1, host->channels[rank]->refusal,
        format_place(host, op, place, sizeof(place)));
    return symc_error_add_rank(host->core->ranks, rank);
}

symmcoll_status_t symc_host_fail_counts(struct symc_host *host,
    const struct symc_op *op, int from, int to, uint64_t passed,
    uint64_t expected)
{
    const struct symc_ranks *ranks = host->core->ranks;
    char this[SYMC_RANK_TEXT], that[SYMC_RANK_TEXT], place[160];

    (void)host->core->fail(SYMMCOLL_ERR_MISMATCH,
        "%s: counts differ: %s passed %llu elements for %s, which expected "
        "%llu %s",
        symc_kind_name(op->kind),
        symc_format_rank(ranks, from, SYMC_NO_PID, this),
        (unsigned long long)passed,
        symc_format_rank(ranks, to, SYMC_NO_PID, that),
        (unsigned long long)expected,
        format_place(host, op, place, sizeof(place)));
    symc_error_add_rank(ranks, from);
    return symc_error_add_rank(ranks, to);
}

symmcoll_status_t symc_host_check_geometry(struct symc_host *host)
{
    const struct symc_geometry *mine = &host->channels[host->rank]->geometry;
    const struct symc_ranks *ranks = host->core->ranks;
    char this[SYMC_RANK_TEXT], that[SYMC_RANK_TEXT];

    for (int r = 0; r < host->size; r++) {
        const struct symc_geometry *other = &host->channels[r]->geometry;

        if (memcmp(mine, other, sizeof(*mine)) != 0)
            return host->core->fail(SYMMCOLL_ERR_CONFIG,
                "host: settings differ: %s has small_max %llu, chunk %llu, "
                "direct %llu, reduce_run %llu; %s has %llu, %llu, %llu, %llu",
                symc_format_rank(ranks, host->rank, SYMC_NO_PID, this),
                (unsigned long long)mine->small,
                (unsigned long long)mine->chunk,
                (unsigned long long)mine->direct,
                (unsigned long long)mine->reduce_run,
                symc_format_rank(ranks, r, SYMC_NO_PID, that),
                (unsigned long long)other->small,
                (unsigned long long)other->chunk,
                (unsigned long long)other->direct,
                (unsigned long long)other->reduce_run);
    }
    host->checked = true;
    return SYMMCOLL_OK;
}
