/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The collectives that t/host/stress draws: each places its buffers, defines
 * their expected contents, and runs.
 */
#include "stress.h"

#define APART 60000 /* elements from one part's data to the next one's */
#define SEVERAL 5   /* buffers of one collective, at most */

/* Returns the region of one of several buffers. */
static int region_of(const struct stress_case *it, int region, int index)
{
    return it->spread && region < STRESS_PRIVATE
               ? (region + index) % STRESS_PRIVATE
               : region;
}

/* Returns the number of elements that a rank has for another, if these
 * differ. */
static size_t uneven(const struct stress_case *it, int from, int to)
{
    unsigned drawn = (unsigned)(from * 7 + to * 13) + it->seed;

    return drawn % 5 == 0 ? 0 : it->count / ((size_t)(from + 2 * to) % 3 + 1);
}

/* Waits for the operation if there is a work: its lists must stay valid until
 * then, and are local to these functions. */
static symmcoll_status_t finish(
    symmcoll_status_t status, struct symmcoll_work **work)
{
    if (status != SYMMCOLL_OK || work == NULL)
        return status;
    status = symmcoll_work_wait(*work, -1);
    symmcoll_work_free(*work);
    *work = NULL;
    return status;
}

/* ---- sums ---- */

static symmcoll_status_t run_all_reduce(struct stress_memory *memory,
    struct stress_case *it, struct symmcoll_work **work)
{
    char *in = stress_place(memory, it, it->in_region, it->count);
    char *out =
        it->in_place ? in : stress_place(memory, it, it->out_region, it->count);

    stress_fill(memory, it, in, 0, it->count);
    stress_expect_sum(memory, it, out, 0, it->count);
    return symmcoll_all_reduce(
        memory->group, out, in, it->count, it->dtype, it->op, NULL, work);
}

static symmcoll_status_t run_reduce(struct stress_memory *memory,
    struct stress_case *it, struct symmcoll_work **work)
{
    bool is_root = memory->rank == it->root;
    char *in = stress_place(memory, it, it->in_region, it->count);
    char *out =
        it->in_place ? in : stress_place(memory, it, it->out_region, it->count);

    stress_fill(memory, it, in, 0, it->count);
    if (is_root)
        stress_expect_sum(memory, it, out, 0, it->count);
    return symmcoll_reduce(memory->group, is_root ? out : NULL, in, it->count,
        it->dtype, it->op, it->root, NULL, work);
}

static symmcoll_status_t run_reduce_scatter(struct stress_memory *memory,
    struct stress_case *it, struct symmcoll_work **work)
{
    size_t all = it->count * (size_t)memory->size;
    size_t first = it->count * (size_t)memory->rank;
    char *in = stress_place(memory, it, it->in_region, all);
    char *out = it->in_place
                    ? in + first * it->elem
                    : stress_place(memory, it, it->out_region, it->count);

    stress_fill(memory, it, in, 0, all);
    stress_expect_sum(memory, it, out, first, it->count);
    return symmcoll_reduce_scatter(
        memory->group, out, in, it->count, it->dtype, it->op, NULL, work);
}

static symmcoll_status_t run_reduce_scatter_list(struct stress_memory *memory,
    struct stress_case *it, struct symmcoll_work **work)
{
    size_t counts[STRESS_RANKS];
    const void *ins[STRESS_RANKS];
    char *own = NULL, *out;

    for (int r = 0; r < memory->size; r++) {
        char *in;

        counts[r] = uneven(it, 1, r);
        in = stress_place(
            memory, it, region_of(it, it->in_region, r), counts[r]);
        stress_fill(memory, it, in, (size_t)r * APART, counts[r]);
        ins[r] = in;
        if (r == memory->rank)
            own = in;
    }
    out = it->in_place
              ? own
              : stress_place(memory, it, it->out_region, counts[memory->rank]);
    stress_expect_sum(
        memory, it, out, (size_t)memory->rank * APART, counts[memory->rank]);
    return finish(
        symmcoll_reduce_scatter_list(memory->group, out, counts[memory->rank],
            ins, counts, it->dtype, it->op, NULL, work),
        work);
}

/* ---- moves ---- */

/* Expects each rank's part in a result that has all. */
static void expect_all(
    const struct stress_memory *memory, const struct stress_case *it, char *out)
{
    for (int r = 0; r < memory->size; r++)
        stress_expect(memory, it, out + (size_t)r * it->count * it->elem, 0,
            it->count, r);
}

static symmcoll_status_t run_all_gather(struct stress_memory *memory,
    struct stress_case *it, struct symmcoll_work **work)
{
    size_t part = it->count * it->elem;
    char *out = stress_place(
        memory, it, it->out_region, it->count * (size_t)memory->size);
    char *in = it->in_place
                   ? out + (size_t)memory->rank * part
                   : stress_place(memory, it, it->in_region, it->count);

    stress_fill(memory, it, in, 0, it->count);
    expect_all(memory, it, out);
    return symmcoll_all_gather(
        memory->group, out, in, it->count, it->dtype, NULL, work);
}

static symmcoll_status_t run_gather(struct stress_memory *memory,
    struct stress_case *it, struct symmcoll_work **work)
{
    bool is_root = memory->rank == it->root;
    char *out = stress_place(
        memory, it, it->out_region, it->count * (size_t)memory->size);
    char *in = stress_place(memory, it, it->in_region, it->count);

    stress_fill(memory, it, in, 0, it->count);
    if (is_root)
        expect_all(memory, it, out);
    return symmcoll_gather(memory->group, is_root ? out : NULL, in, it->count,
        it->dtype, it->root, NULL, work);
}

static symmcoll_status_t run_broadcast(struct stress_memory *memory,
    struct stress_case *it, struct symmcoll_work **work)
{
    char *data = stress_place(memory, it, it->in_region, it->count);

    stress_fill(memory, it, data, 0, it->count);
    stress_expect(memory, it, data, 0, it->count, it->root);
    return symmcoll_broadcast(
        memory->group, data, it->count, it->dtype, it->root, NULL, work);
}

static symmcoll_status_t run_scatter(struct stress_memory *memory,
    struct stress_case *it, struct symmcoll_work **work)
{
    size_t all = it->count * (size_t)memory->size;
    char *in = stress_place(memory, it, it->in_region, all);
    char *out = stress_place(memory, it, it->out_region, it->count);

    stress_fill(memory, it, in, 0, all);
    stress_expect(
        memory, it, out, (size_t)memory->rank * it->count, it->count, it->root);
    return symmcoll_scatter(memory->group, out,
        memory->rank == it->root ? in : NULL, it->count, it->dtype, it->root,
        NULL, work);
}

static symmcoll_status_t run_all_to_all(struct stress_memory *memory,
    struct stress_case *it, struct symmcoll_work **work)
{
    size_t all = it->count * (size_t)memory->size;
    char *in = stress_place(memory, it, it->in_region, all);
    char *out = stress_place(memory, it, it->out_region, all);

    stress_fill(memory, it, in, 0, all);
    for (int r = 0; r < memory->size; r++)
        stress_expect(memory, it, out + (size_t)r * it->count * it->elem,
            (size_t)memory->rank * it->count, it->count, r);
    return symmcoll_all_to_all(
        memory->group, out, in, it->count, it->dtype, NULL, work);
}

/* ---- parts that differ ---- */

static symmcoll_status_t run_all_to_all_v(struct stress_memory *memory,
    struct stress_case *it, struct symmcoll_work **work)
{
    size_t sent[STRESS_RANKS] = {0}, taken[STRESS_RANKS] = {0};
    size_t nin = 0, nout = 0;
    char *in, *out;

    for (int r = 0; r < memory->size; r++) {
        nin += sent[r] = uneven(it, memory->rank, r);
        nout += taken[r] = uneven(it, r, memory->rank);
    }
    in = stress_place(memory, it, it->in_region, nin);
    out = stress_place(memory, it, it->out_region, nout);
    for (int r = 0, i = 0, o = 0; r < memory->size; r++) {
        stress_fill(
            memory, it, in + (size_t)i * it->elem, (size_t)r * APART, sent[r]);
        stress_expect(memory, it, out + (size_t)o * it->elem,
            (size_t)memory->rank * APART, taken[r], r);
        i += (int)sent[r];
        o += (int)taken[r];
    }
    return finish(symmcoll_all_to_all_v(memory->group, out, nout, taken, in,
                      nin, sent, it->dtype, NULL, work),
        work);
}

static symmcoll_status_t run_all_to_all_list(struct stress_memory *memory,
    struct stress_case *it, struct symmcoll_work **work)
{
    size_t sent[STRESS_RANKS], taken[STRESS_RANKS];
    const void *ins[STRESS_RANKS];
    void *outs[STRESS_RANKS];

    for (int r = 0; r < memory->size; r++) {
        void *in;

        sent[r] = uneven(it, memory->rank, r);
        taken[r] = uneven(it, r, memory->rank);
        in = stress_place(memory, it, region_of(it, it->in_region, r), sent[r]);
        stress_fill(memory, it, in, (size_t)r * APART, sent[r]);
        ins[r] = in;
        outs[r] = stress_place(
            memory, it, region_of(it, it->out_region, r + 1), taken[r]);
        stress_expect(
            memory, it, outs[r], (size_t)memory->rank * APART, taken[r], r);
    }
    return finish(symmcoll_all_to_all_list(memory->group, outs, taken, ins,
                      sent, it->dtype, NULL, work),
        work);
}

static symmcoll_status_t run_all_gather_list(struct stress_memory *memory,
    struct stress_case *it, struct symmcoll_work **work)
{
    size_t own = uneven(it, memory->rank, 1), counts[STRESS_RANKS];
    char *in = stress_place(memory, it, it->in_region, own);
    void *outs[STRESS_RANKS];

    stress_fill(memory, it, in, 0, own);
    for (int r = 0; r < memory->size; r++) {
        counts[r] = uneven(it, r, 1);
        outs[r] = stress_place(
            memory, it, region_of(it, it->out_region, r), counts[r]);
        stress_expect(memory, it, outs[r], 0, counts[r], r);
    }
    return finish(symmcoll_all_gather_list(memory->group, outs, counts, in, own,
                      it->dtype, NULL, work),
        work);
}

static symmcoll_status_t run_scatter_list(struct stress_memory *memory,
    struct stress_case *it, struct symmcoll_work **work)
{
    char *out = stress_place(memory, it, it->out_region, it->count);
    const void *ins[STRESS_RANKS];

    for (int r = 0; r < memory->size; r++) {
        void *in = stress_place(
            memory, it, region_of(it, it->in_region, r), it->count);

        stress_fill(memory, it, in, (size_t)r * APART, it->count);
        ins[r] = in;
    }
    stress_expect(
        memory, it, out, (size_t)memory->rank * APART, it->count, it->root);
    return finish(symmcoll_scatter_list(memory->group, out,
                      memory->rank == it->root ? ins : NULL, it->count,
                      it->dtype, it->root, NULL, work),
        work);
}

static symmcoll_status_t run_gather_list(struct stress_memory *memory,
    struct stress_case *it, struct symmcoll_work **work)
{
    char *in = stress_place(memory, it, it->in_region, it->count);
    bool is_root = memory->rank == it->root;
    void *outs[STRESS_RANKS];

    stress_fill(memory, it, in, 0, it->count);
    for (int r = 0; r < memory->size; r++) {
        outs[r] = stress_place(
            memory, it, region_of(it, it->out_region, r), it->count);
        if (is_root)
            stress_expect(memory, it, outs[r], 0, it->count, r);
    }
    return finish(symmcoll_gather_list(memory->group, is_root ? outs : NULL, in,
                      it->count, it->dtype, it->root, NULL, work),
        work);
}

/* ---- several buffers ---- */

/* The buffers of an operation with several parts in and out. */
struct several {
    size_t buffers;
    size_t counts[SEVERAL];
    const void *ins[SEVERAL];
    void *outs[SEVERAL];
};

static void place_several(struct stress_memory *memory, struct stress_case *it,
    size_t in_parts, size_t out_parts, bool in_place, struct several *several)
{
    several->buffers = 1 + it->seed % SEVERAL;
    for (size_t i = 0; i < several->buffers; i++) {
        size_t count =
            (it->seed + i) % 4 > 0 ? it->count / (i + 1) / several->buffers : 0;
        void *in = stress_place(
            memory, it, region_of(it, it->in_region, (int)i), in_parts * count);

        several->counts[i] = count;
        several->ins[i] = in;
        several->outs[i] = in_place ? in
                                    : stress_place(memory, it,
                                          region_of(it, it->out_region, (int)i),
                                          out_parts * count);
        stress_fill(memory, it, in, i * APART, in_parts * count);
    }
}

static symmcoll_status_t run_all_reduce_coalesced(struct stress_memory *memory,
    struct stress_case *it, struct symmcoll_work **work)
{
    struct several several;

    place_several(memory, it, 1, 1, it->in_place, &several);
    for (size_t i = 0; i < several.buffers; i++)
        stress_expect_sum(
            memory, it, several.outs[i], i * APART, several.counts[i]);
    return finish(
        symmcoll_all_reduce_coalesced(memory->group, several.outs, several.ins,
            several.counts, several.buffers, it->dtype, it->op, NULL, work),
        work);
}

static symmcoll_status_t run_all_gather_coalesced(struct stress_memory *memory,
    struct stress_case *it, struct symmcoll_work **work)
{
    struct several several;

    place_several(memory, it, 1, (size_t)memory->size, false, &several);
    for (size_t i = 0; i < several.buffers; i++) {
        size_t part = several.counts[i] * it->elem;

        for (int r = 0; r < memory->size; r++)
            stress_expect(memory, it,
                (char *)several.outs[i] + (size_t)r * part, i * APART,
                several.counts[i], r);
    }
    return finish(
        symmcoll_all_gather_coalesced(memory->group, several.outs, several.ins,
            several.counts, several.buffers, it->dtype, NULL, work),
        work);
}

static symmcoll_status_t run_reduce_scatter_coalesced(
    struct stress_memory *memory, struct stress_case *it,
    struct symmcoll_work **work)
{
    struct several several;

    place_several(memory, it, (size_t)memory->size, 1, false, &several);
    for (size_t i = 0; i < several.buffers; i++)
        stress_expect_sum(memory, it, several.outs[i],
            i * APART + (size_t)memory->rank * several.counts[i],
            several.counts[i]);
    return finish(symmcoll_reduce_scatter_coalesced(memory->group, several.outs,
                      several.ins, several.counts, several.buffers, it->dtype,
                      it->op, NULL, work),
        work);
}

const struct stress_kind stress_table[] = {
    {"all_reduce", run_all_reduce},
    {"reduce", run_reduce},
    {"reduce_scatter", run_reduce_scatter},
    {"reduce_scatter_list", run_reduce_scatter_list},
    {"all_gather", run_all_gather},
    {"gather", run_gather},
    {"broadcast", run_broadcast},
    {"scatter", run_scatter},
    {"all_to_all", run_all_to_all},
    {"all_to_all_v", run_all_to_all_v},
    {"all_to_all_list", run_all_to_all_list},
    {"all_gather_list", run_all_gather_list},
    {"scatter_list", run_scatter_list},
    {"gather_list", run_gather_list},
    {"all_reduce_coalesced", run_all_reduce_coalesced},
    {"all_gather_coalesced", run_all_gather_coalesced},
    {"reduce_scatter_coalesced", run_reduce_scatter_coalesced},
};
const size_t stress_kinds = LENGTH(stress_table);
