/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Statistics of a reducer: averages of the times of some passes, and a
 * description of the reducer in JSON.
 */
#include "ddp/reducer.h"
#include "group/group.h"

#include <symmcoll/group.h>

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

/* ---- averages ---- */

static double average(const struct symc_sums *sums, int64_t ns)
{
    return sums->measured > 0 ? 1e-9 * (double)ns / (double)sums->measured : 0;
}

static const struct symmcoll_reducer_stats default_stats =
    SYMMCOLL_REDUCER_STATS_INIT;
static const struct symc_sized stats_kind = {.name = "stats",
    .macro = "SYMMCOLL_REDUCER_STATS_INIT",
    .defaults = &default_stats,
    .nbytes = sizeof(default_stats),
    .least = sizeof(default_stats.size)};

static struct symmcoll_reducer_stats make_stats(
    const struct symmcoll_reducer *reducer)
{
    const struct symc_sums *sums = &reducer->timing->sums;
    struct symmcoll_reducer_stats stats = {.size = sizeof(stats),
        .passes = reducer->npasses,
        .measured = sums->measured,
        .backward = average(sums, sums->backward_ns),
        .comm = average(sums, sums->comm_ns),
        .overlap = average(sums, sums->overlap_ns),
        .exposed = average(sums, sums->comm_ns - sums->overlap_ns),
        .sent_nbytes = reducer->sent_nbytes};

    for (int b = 0; b < reducer->layout.nbuckets; b++)
        stats.nbytes += reducer->layout.buckets[b].count *
                        symmcoll_dtype_size(reducer->layout.buckets[b].dtype);
    for (int i = 0; i < reducer->nparams; i++)
        if (reducer->npasses > 0 &&
            symc_used_nowhere(reducer, &reducer->params[i]))
            stats.unused_nbytes += reducer->params[i].nbytes;
    return stats;
}

symmcoll_status_t symmcoll_reducer_get_stats(
    const struct symmcoll_reducer *reducer,
    struct symmcoll_reducer_stats *stats)
{
    struct symmcoll_reducer_stats made;

    if (reducer == NULL || stats == NULL)
        return symc_fail(SYMMCOLL_ERR_INVALID,
            "reducer_get_stats: expected a reducer and stats, found NULL");
    symc_times_take(reducer);
    made = make_stats(reducer);
    return symc_sized_write(&stats_kind, "reducer_get_stats", &made, stats);
}

/* ---- JSON ---- */

static void write_text(FILE *out, const char *key, const char *text)
{
    fprintf(out, "\"%s\": \"", key);
    for (; *text != '\0'; text++)
        if (*text == '"' || *text == '\\' || (unsigned char)*text < ' ')
            fprintf(out, "\\u%04x", (unsigned)(unsigned char)*text);
        else
            fputc(*text, out);
    fputs("\", ", out);
}

static void write_bool(FILE *out, const char *key, bool value)
{
    fprintf(out, "\"%s\": %s, ", key, value ? "true" : "false");
}

static void write_size(FILE *out, const char *key, uint64_t value)
{
    fprintf(out, "\"%s\": %" PRIu64 ", ", key, value);
}

/* Writes the caller's numbers of parameters, which are passed as indices. */
static void write_numbers(
    FILE *out, const struct symmcoll_reducer *reducer, const int *params, int n)
{
    fputc('[', out);
    for (int i = 0; i < n; i++)
        fprintf(
            out, "%s%d", i > 0 ? ", " : "", reducer->params[params[i]].number);
    fputc(']', out);
}

static void write_buckets(FILE *out, const struct symmcoll_reducer *reducer)
{
    const struct symc_layout *layout = &reducer->layout;

    fprintf(out, "\"bucket_size_limits\": [%zu, %zu], \"bucket_sizes\": [",
        reducer->limits[0], reducer->limits[1]);
    for (int b = 0; b < layout->nbuckets; b++)
        fprintf(out, "%s%zu", b > 0 ? ", " : "",
            layout->buckets[b].count *
                symmcoll_dtype_size(layout->buckets[b].dtype));
    fputs("], \"per_bucket_param_indices\": [", out);
    for (int b = 0; b < layout->nbuckets; b++) {
        fputs(b > 0 ? ", " : "", out);
        write_numbers(
            out, reducer, layout->buckets[b].params, layout->buckets[b].ngrads);
    }
    fputs("], \"prev_iteration_grad_ready_order_indices\": ", out);
    write_numbers(out, reducer, reducer->arrival, reducer->narrived);
    fputs(", ", out);
}

static void write_params(FILE *out, const struct symmcoll_reducer *reducer)
{
    bool listed[SYMMCOLL_DTYPE_COUNT] = {false};
    size_t nbytes = 0;
    bool any = false;

    for (int i = 0; i < reducer->nparams; i++) {
        nbytes += reducer->params[i].nbytes;
        listed[reducer->params[i].tensor.dtype] = true;
    }
    write_size(out, "num_parameter_tensors", (uint64_t)reducer->nparams);
    write_size(out, "total_parameter_size_bytes", nbytes);
    fputs("\"dtypes\": [", out);
    for (int d = 0; d < SYMMCOLL_DTYPE_COUNT; d++)
        if (listed[d]) {
            fprintf(out, "%s\"%s\"", any ? ", " : "",
                symmcoll_dtype_name((enum symmcoll_dtype)d));
            any = true;
        }
    fputs("], ", out);
}

static void write_options(FILE *out, const struct symmcoll_reducer *reducer)
{
    char device[SYMC_MEMORY_TEXT];

    write_text(
        out, "memory", symc_site_format(&reducer->params[0].tensor, device));
    write_bool(out, "broadcast_buffers", reducer->buffers.n > 0);
    write_text(out, "bucket_memory",
        reducer->memory != NULL
            ? "program"
            : (reducer->layout.memory.at != NULL ? "symmetric" : "private"));
    write_bool(out, "comm_hook", reducer->hook != NULL);
    write_bool(out, "find_unused_parameters", reducer->find_unused);
    write_bool(out, "gradient_as_bucket_view", reducer->views);
    write_bool(out, "static_graph", reducer->graph != SYMC_GRAPH_DYNAMIC);
    write_bool(out, "shard", reducer->shard);
    write_bool(out, "write_back", reducer->write_back);
    write_bool(out, "has_rebuilt_buckets",
        reducer->rebuild == SYMC_REBUILD_DONE &&
            symc_rebuild_is_wanted(reducer));
    if (reducer->reduce_dtype != 0)
        write_text(
            out, "reduce_dtype", symmcoll_dtype_name(reducer->reduce_dtype));
}

static void write_stats(FILE *out, const struct symmcoll_reducer *reducer)
{
    const struct symmcoll_reducer_stats stats = make_stats(reducer);
    const double ns = 1e9;

    write_size(out, "iteration", stats.passes);
    write_size(out, "unused_parameter_size_bytes", stats.unused_nbytes);
    write_size(out, "sent_size_bytes", stats.sent_nbytes);
    write_size(out, "measured", stats.measured);
    fprintf(out,
        "\"avg_backward_compute_time_ns\": %.0f, "
        "\"avg_backward_comm_time_ns\": %.0f, "
        "\"avg_backward_compute_comm_overlap_time_ns\": %.0f, "
        "\"avg_exposed_comm_time_ns\": %.0f",
        ns * stats.backward, ns * stats.comm, ns * stats.overlap,
        ns * stats.exposed);
}

symmcoll_status_t symmcoll_reducer_describe(
    const struct symmcoll_reducer *reducer, char **json)
{
    size_t nbytes;
    char *text = NULL;
    FILE *out;

    if (reducer == NULL || json == NULL)
        return symc_fail(SYMMCOLL_ERR_INVALID,
            "reducer_describe: expected a reducer and a text, found NULL");
    symc_times_take(reducer);
    out = open_memstream(&text, &nbytes);
    if (out == NULL)
        return symc_fail(
            SYMMCOLL_ERR_NO_MEMORY, "reducer_describe: no memory for a text");
    fputc('{', out);
    write_text(out, "group", symc_group_name(reducer->group));
    write_size(out, "world_size", (uint64_t)reducer->size);
    write_size(out, "rank", (uint64_t)symmcoll_group_rank(reducer->group));
    write_params(out, reducer);
    write_options(out, reducer);
    write_buckets(out, reducer);
    write_stats(out, reducer);
    fputc('}', out);
    if (fclose(out) != 0) {
        free(text);
        return symc_fail(
            SYMMCOLL_ERR_NO_MEMORY, "reducer_describe: no memory for a text");
    }
    *json = text;
    return SYMMCOLL_OK;
}
