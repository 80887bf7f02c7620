/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Ranks that meet and differ: what each has passed, in one sentence.  Every
 * rank sees the same headers and comes to the same conclusion.
 */
#include "host/host.h"

#include <stdio.h>
#include <string.h>

enum field {
    FIELD_KIND,
    FIELD_COUNT,
    FIELD_DTYPE,
    FIELD_OP,
    FIELD_ROOT,
    FIELD_END
};

static const char *const field_names[] = {
    "operation", "count", "dtype", "op", "root"};

static uint64_t field_value(const struct symc_header *header, enum field field)
{
    switch (field) {
    case FIELD_KIND:
        return header->what & 0xff;
    case FIELD_COUNT:
        return header->count;
    case FIELD_DTYPE:
        return header->what >> 8 & 0xff;
    case FIELD_OP:
        return header->what >> 16 & 0xff;
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
    if (name != NULL)
        snprintf(buffer, nbytes, "%s", name);
    else
        snprintf(buffer, nbytes, "%llu", (unsigned long long)value);
    return buffer;
}

/* The rank whose value most ranks share; the lowest of equals. */
static int find_majority(
    const struct symc_host *host, const struct symc_op *op, enum field field)
{
    int best = 0, best_votes = 0;

    for (int r = 0; r < host->size; r++) {
        uint64_t value = field_value(symc_host_header(host, r, op), field);
        int votes = 0;

        for (int s = 0; s < host->size; s++)
            votes += field_value(symc_host_header(host, s, op), field) == value;
        if (votes > best_votes) {
            best = r;
            best_votes = votes;
        }
    }
    return best;
}

/* Name the first field in which ranks differ, and the ranks that differ from
 * most. */
static symmcoll_status_t fail_mismatch(
    struct symc_host *host, const struct symc_op *op, enum field field)
{
    int usual = find_majority(host, op, field);
    uint64_t expected = field_value(symc_host_header(host, usual, op), field);
    char odd[256] = "", expected_text[32], text[32];
    const char *kind = symc_kind_name((enum symc_kind)field_value(
        symc_host_header(host, usual, op), FIELD_KIND));
    size_t used = 0;

    for (int r = 0; r < host->size && used < sizeof(odd) - 64; r++) {
        uint64_t value = field_value(symc_host_header(host, r, op), field);

        if (value == expected)
            continue;
        used += (size_t)snprintf(odd + used, sizeof(odd) - used,
            ", rank %d passed %s", r,
            format_value(field, value, text, sizeof(text)));
    }
    return host->core->fail(SYMMCOLL_ERR_MISMATCH,
        "%s: %s differs: rank %d passed %s%s (group %s, seq %llu)", kind,
        field_names[field], usual,
        format_value(field, expected, expected_text, sizeof(expected_text)),
        odd, host->core->name, (unsigned long long)op->seq);
}

symmcoll_status_t symc_host_disagree(
    struct symc_host *host, const struct symc_op *op)
{
    for (enum field field = FIELD_KIND; field < FIELD_END; field++) {
        uint64_t first = field_value(symc_host_header(host, 0, op), field);

        for (int r = 1; r < host->size; r++) {
            if (field_value(symc_host_header(host, r, op), field) != first)
                return fail_mismatch(host, op, field);
        }
    }
    for (int r = 0; r < host->size; r++) {
        const char *detail = symc_host_beside(host, r, op);

        if ((symc_host_header(host, r, op)->what >> 24 & SYMC_HEADER_REFUSED) !=
            0)
            return host->core->fail(SYMMCOLL_ERR_NO_MEMORY,
                "%s: rank %d: %.*s (group %s, seq %llu)",
                symc_kind_name(op->kind), r, SYMC_SMALL_MIN - 1, detail,
                host->core->name, (unsigned long long)op->seq);
    }
    return host->core->fail(SYMMCOLL_ERR_INTERNAL,
        "%s: headers differ in nothing", symc_kind_name(op->kind));
}

symmcoll_status_t symc_host_check_geometry(struct symc_host *host)
{
    const struct symc_geometry *mine = &host->channels[host->rank]->geometry;

    for (int r = 0; r < host->size; r++) {
        const struct symc_geometry *other = &host->channels[r]->geometry;

        if (memcmp(mine, other, sizeof(*mine)) != 0)
            return host->core->fail(SYMMCOLL_ERR_CONFIG,
                "host: settings differ: rank %d has small_max %llu, chunk "
                "%llu, direct %llu, reduce_run %llu; rank %d has %llu, %llu, "
                "%llu, %llu",
                host->rank, (unsigned long long)mine->small,
                (unsigned long long)mine->chunk,
                (unsigned long long)mine->direct,
                (unsigned long long)mine->reduce_run, r,
                (unsigned long long)other->small,
                (unsigned long long)other->chunk,
                (unsigned long long)other->direct,
                (unsigned long long)other->reduce_run);
    }
    host->checked = true;
    return SYMMCOLL_OK;
}
