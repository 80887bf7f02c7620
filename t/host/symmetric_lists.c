/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Tests lists of symmetric buffers, parts of different sizes, and several
 * buffers at once: the same bits as with private ones. No staging is used if
 * the buffers of all ranks are in symmetric memory; otherwise it is.
 */
#include "../coll/data.h"
#include "../tap.h"
#include "symmetric.h"

#include "group/group.h"

#include <stdio.h>
#include <string.h>

#define RANKS_MAX 5
#define PART ((size_t)4096) /* elements of a part, at most */
#define BUFFERS 5
#define SHARED 4 /* allocations: two for inputs, two for results */

enum {
    BLOCK = 4 * RANKS_MAX * (PART + 16) * sizeof(float) /* bytes */
};

/* The placement of a rank's buffers. */
enum where {
    TOGETHER, /* inputs in one allocation, results in another */
    SPREAD,   /* each list in two */
    SHIFTED,  /* at other offsets on each rank */
    IN_ALONE, /* results are private */
    OUT_ALONE,
    PRIVATE_RANK, /* all of rank 1's are private */
    PRIVATE
};

/* The buffers of one rank. */
struct hands {
    struct symmcoll_group *group;
    int rank;
    int size;
    bool empty; /* some parts are, and all that the last rank sends */
    struct symmetric memory[SHARED];
    unsigned char *private[SHARED];
    unsigned char *result; /* of one operation, one part after another */
    size_t nbytes;
    void *outs[2 * RANKS_MAX];
    const void *ins[2 * RANKS_MAX];
};

static void open_hands(
    struct hands *hands, struct symmcoll_group *group, int rank)
{
    *hands = (struct hands){
        .group = group, .rank = rank, .size = symmcoll_group_size(group)};
    for (int i = 0; i < SHARED; i++) {
        hands->memory[i] = symmetric_open(group, BLOCK + 4096);
        hands->private[i] = malloc(BLOCK + 4096);
        if (hands->private[i] == NULL)
            abort();
    }
    hands->result = malloc(BLOCK);
    if (hands->result == NULL)
        abort();
}

static void close_hands(struct hands *hands)
{
    for (int i = 0; i < SHARED; i++) {
        symmetric_close(&hands->memory[i]);
        free(hands->private[i]);
    }
    free(hands->result);
}

/* Returns the number of elements that a rank has for another. */
static size_t count_of(const struct hands *hands, int from, int to)
{
    if (hands->empty && ((from + to) % 3 == 0 || from == hands->size - 1))
        return 0;
    return 2200 + 17 * (size_t)from + 29 * (size_t)to;
}

static unsigned char *block_of(
    const struct hands *hands, enum where where, int block, bool is_out)
{
    bool private =
        where == PRIVATE || (where == PRIVATE_RANK && hands->rank == 1) ||
        (where == IN_ALONE && is_out) || (where == OUT_ALONE && !is_out);
    int i = (is_out ? 2 : 0) + (where == SPREAD ? block % 2 : 0);
    size_t shift = where == SHIFTED ? (size_t)hands->rank * 48 : 0;

    return (private ? hands->private[i] : hands->memory[i].at) + shift;
}

/* Places lists of `parts` parts with space for nbytes each, and fills in the
 * inputs. */
static void place(
    struct hands *hands, enum where where, int parts, size_t nbytes)
{
    size_t pitch = (nbytes + 127) / 64 * 64;

    for (int i = 0; i < parts; i++) {
        unsigned char *in =
            block_of(hands, where, i, false) + (size_t)i * pitch;

        hands->ins[i] = in;
        hands->outs[i] = block_of(hands, where, i, true) + (size_t)i * pitch;
        data_fill(in, SYMMCOLL_FLOAT32, 0, nbytes / sizeof(float), hands->rank,
            (unsigned)i + 3);
        memset(hands->outs[i], 0x77, nbytes);
    }
    hands->nbytes = 0;
}

/* Appends a part to the result. */
static void take(struct hands *hands, const void *from, size_t count)
{
    memcpy(hands->result + hands->nbytes, from, count * sizeof(float));
    hands->nbytes += count * sizeof(float);
}

static bool is_ok(symmcoll_status_t status)
{
    if (status != SYMMCOLL_OK)
        diag("%s", symmcoll_last_error());
    return status == SYMMCOLL_OK;
}

/* ---- the operations ---- */

static bool all_to_all_list(struct hands *hands, enum where where)
{
    size_t out_counts[RANKS_MAX] = {0}, in_counts[RANKS_MAX] = {0};
    bool good;

    place(hands, where, hands->size, PART * sizeof(float));
    for (int r = 0; r < hands->size; r++) {
        in_counts[r] = count_of(hands, hands->rank, r);
        out_counts[r] = count_of(hands, r, hands->rank);
    }
    good = is_ok(symmcoll_all_to_all_list(hands->group, hands->outs, out_counts,
        hands->ins, in_counts, SYMMCOLL_FLOAT32, NULL, NULL));
    for (int r = 0; r < hands->size; r++)
        take(hands, hands->outs[r], out_counts[r]);
    return good;
}

static bool all_to_all_v(struct hands *hands, enum where where)
{
    size_t out_counts[RANKS_MAX] = {0}, in_counts[RANKS_MAX] = {0};
    size_t out_count = 0, in_count = 0;
    bool good;

    place(hands, where, 1, (size_t)hands->size * PART * sizeof(float));
    for (int r = 0; r < hands->size; r++) {
        in_count += in_counts[r] = count_of(hands, hands->rank, r);
        out_count += out_counts[r] = count_of(hands, r, hands->rank);
    }
    good = is_ok(symmcoll_all_to_all_v(hands->group, hands->outs[0], out_count,
        out_counts, hands->ins[0], in_count, in_counts, SYMMCOLL_FLOAT32, NULL,
        NULL));
    take(hands, hands->outs[0], out_count);
    return good;
}

static bool all_gather_list(struct hands *hands, enum where where)
{
    size_t counts[RANKS_MAX] = {0};
    bool good;

    place(hands, where, hands->size, PART * sizeof(float));
    for (int r = 0; r < hands->size; r++)
        counts[r] = count_of(hands, r, 1);
    good = is_ok(symmcoll_all_gather_list(hands->group, hands->outs, counts,
        hands->ins[0], counts[hands->rank], SYMMCOLL_FLOAT32, NULL, NULL));
    for (int r = 0; r < hands->size; r++)
        take(hands, hands->outs[r], counts[r]);
    return good;
}

static bool reduce_scatter_list(struct hands *hands, enum where where)
{
    size_t counts[RANKS_MAX] = {0}, mine;
    bool good;

    place(hands, where, hands->size, PART * sizeof(float));
    for (int r = 0; r < hands->size; r++)
        counts[r] = count_of(hands, 1, r);
    mine = counts[hands->rank];
    good = is_ok(symmcoll_reduce_scatter_list(hands->group, hands->outs[0],
        mine, hands->ins, counts, SYMMCOLL_FLOAT32, SYMMCOLL_SUM, NULL, NULL));
    take(hands, hands->outs[0], mine);
    return good;
}

static bool scatter_list(struct hands *hands, enum where where)
{
    int root = hands->size - 1;
    bool good;

    place(hands, where, hands->size, PART * sizeof(float));
    good = is_ok(symmcoll_scatter_list(hands->group, hands->outs[0],
        hands->rank == root ? hands->ins : NULL, PART, SYMMCOLL_FLOAT32, root,
        NULL, NULL));
    take(hands, hands->outs[0], PART);
    return good;
}

static bool gather_list(struct hands *hands, enum where where)
{
    int root = hands->size - 1;
    bool good;

    place(hands, where, hands->size, PART * sizeof(float));
    good = is_ok(symmcoll_gather_list(hands->group,
        hands->rank == root ? hands->outs : NULL, hands->ins[0], PART,
        SYMMCOLL_FLOAT32, root, NULL, NULL));
    for (int r = 0; r < hands->size; r++)
        take(hands, hands->outs[r], PART);
    return good;
}

static const size_t counts_of_buffers[BUFFERS] = {1500, 0, 777, PART, 31};

static void take_buffers(struct hands *hands, size_t parts)
{
    for (int i = 0; i < BUFFERS; i++)
        take(hands, hands->outs[i], parts * counts_of_buffers[i] / 4);
}

static void place_buffers(struct hands *hands, enum where where, size_t parts)
{
    place(hands, where, BUFFERS, parts * PART / 2 * sizeof(float));
}

/* Fills in counts that leave space for a part of each rank. */
static const size_t *counts_of_parts(const struct hands *hands, size_t *counts)
{
    (void)hands;
    for (int i = 0; i < BUFFERS; i++)
        counts[i] = counts_of_buffers[i] / 4;
    return counts;
}

static bool all_reduce_coalesced(struct hands *hands, enum where where)
{
    bool good;

    place(hands, where, BUFFERS, PART * sizeof(float));
    good = is_ok(symmcoll_all_reduce_coalesced(hands->group, hands->outs,
        hands->ins, counts_of_buffers, BUFFERS, SYMMCOLL_FLOAT32, SYMMCOLL_SUM,
        NULL, NULL));
    take_buffers(hands, 4);
    return good;
}

static bool all_gather_coalesced(struct hands *hands, enum where where)
{
    size_t counts[BUFFERS], size = (size_t)hands->size;
    bool good;

    place_buffers(hands, where, size);
    good = is_ok(symmcoll_all_gather_coalesced(hands->group, hands->outs,
        hands->ins, counts_of_parts(hands, counts), BUFFERS, SYMMCOLL_FLOAT64,
        NULL, NULL));
    for (int i = 0; i < BUFFERS; i++)
        take(hands, hands->outs[i], 2 * size * counts[i]);
    return good;
}

static bool reduce_scatter_coalesced(struct hands *hands, enum where where)
{
    size_t counts[BUFFERS], size = (size_t)hands->size;
    bool good;

    place_buffers(hands, where, size);
    good = is_ok(symmcoll_reduce_scatter_coalesced(hands->group, hands->outs,
        hands->ins, counts_of_parts(hands, counts), BUFFERS, SYMMCOLL_INT64,
        SYMMCOLL_MAX, NULL, NULL));
    for (int i = 0; i < BUFFERS; i++)
        take(hands, hands->outs[i], 2 * counts[i]);
    return good;
}

static const struct form {
    const char *name;
    bool (*run)(struct hands *hands, enum where where);
    bool ins, outs; /* must be symmetric; if both are set, either */
    bool alike;     /* at the same places on all ranks */
} forms[] = {
    {"all_to_all_list", all_to_all_list, true, true, false},
    {"all_to_all_v", all_to_all_v, true, true, false},
    {"all_gather_list", all_gather_list, true, true, false},
    {"reduce_scatter_list", reduce_scatter_list, true, false, false},
    {"scatter_list", scatter_list, false, true, false},
    {"gather_list", gather_list, true, false, false},
    {"all_gather_coalesced", all_gather_coalesced, true, true, true},
    {"reduce_scatter_coalesced", reduce_scatter_coalesced, true, false, true},
    {"all_reduce_coalesced", all_reduce_coalesced, true, false, true},
};

/* Returns whether a form uses no staging when ranks are processes. */
static bool is_still(const struct form *form, enum where where, int size)
{
    if (form->alike && where == SHIFTED)
        return false;
    if (where == IN_ALONE) /* a few ranks read all of it */
        return form->ins && (form->run != all_reduce_coalesced || size <= 3);
    return where == OUT_ALONE ? form->outs : where < IN_ALONE;
}

/* ---- bodies ---- */

/* Runs one operation from each placement, and then from private memory, which
 * may use staging. */
static bool form_is_right(struct hands *hands, const struct form *form,
    const enum where *wheres, size_t nwheres)
{
    unsigned char *found = malloc(nwheres * BLOCK);
    bool right = found != NULL;

    for (size_t i = 0; right && i < nwheres; i++) {
        bool before = hands->group->runner.reserved;

        right = form->run(hands, wheres[i]);
        memcpy(found + i * BLOCK, hands->result, hands->nbytes);
        if (hands->group->runner.reserved != before &&
            is_still(form, wheres[i], hands->size)) {
            diag("%s: staged in place %d", form->name, (int)wheres[i]);
            right = false;
        }
    }
    right = right && form->run(hands, PRIVATE);
    for (size_t i = 0; right && i < nwheres; i++)
        right = data_is_same(
            form->name, found + i * BLOCK, hands->result, hands->nbytes);
    free(found);
    return right;
}

/* Runs each form in a new group, with unused staging. */
static int are_right(struct symmcoll_group *group, int rank,
    const enum where *wheres, size_t nwheres, bool empty)
{
    bool right = true;

    for (size_t i = 0; right && i < LENGTH(forms); i++) {
        struct symmcoll_group *own;
        struct hands hands;

        if (!is_ok(
                symmcoll_group_create(symmcoll_group_world(group), NULL, &own)))
            return false;
        open_hands(&hands, own, rank);
        hands.empty = empty;
        right = form_is_right(&hands, &forms[i], wheres, nwheres);
        if (!right)
            diag("rank %d: %s", rank, forms[i].name);
        close_hands(&hands);
        right = is_ok(symmcoll_group_free(own)) && right;
    }
    return right;
}

static int lists_are_right(struct symmcoll_group *group, int rank)
{
    static const enum where wheres[] = {TOGETHER, SPREAD, SHIFTED};

    return are_right(group, rank, wheres, LENGTH(wheres), false);
}

static int empty_parts_are_right(struct symmcoll_group *group, int rank)
{
    static const enum where wheres[] = {TOGETHER, SPREAD};

    return are_right(group, rank, wheres, LENGTH(wheres), true);
}

static int one_side_is_right(struct symmcoll_group *group, int rank)
{
    static const enum where wheres[] = {IN_ALONE};
    static const enum where others[] = {OUT_ALONE};

    return are_right(group, rank, wheres, LENGTH(wheres), false) &&
           are_right(group, rank, others, LENGTH(others), false);
}

static int mixtures_are_right(struct symmcoll_group *group, int rank)
{
    static const enum where wheres[] = {
        PRIVATE_RANK, SPREAD, PRIVATE_RANK, IN_ALONE, OUT_ALONE, TOGETHER};

    return are_right(group, rank, wheres, LENGTH(wheres), false);
}

static void run_all(const char *kind)
{
    static const int sizes[] = {2, 3, 5};

    for (size_t i = 0; i < LENGTH(sizes); i++) {
        char name[128];

        snprintf(name, sizeof(name),
            "%s: lists of symmetric buffers stage nothing, wherever they are",
            kind);
        both_run(sizes[i], lists_are_right, name);
        snprintf(name, sizeof(name),
            "%s: nor do parts without elements, or ranks with nothing to send",
            kind);
        both_run(sizes[i], empty_parts_are_right, name);
        snprintf(name, sizeof(name),
            "%s: nor lists of which one side is enough", kind);
        both_run(sizes[i], one_side_is_right, name);
        snprintf(name, sizeof(name),
            "%s: lists of which one rank's are private have the same bits",
            kind);
        both_run(sizes[i], mixtures_are_right, name);
    }
}

int main(void)
{
    plan(48);
    run_all("direct");
    setenv("SYMMCOLL_HOST_DIRECT", "off", 1);
    run_all("as processes");
    return done_testing();
}
