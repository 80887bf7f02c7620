/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Assigns parameters to buckets, as a function of types, sizes and limits
 * alone: no gradient is touched, and no rank communicates.
 */
#include "ddp/bucket.h"

#include <stdlib.h>

#define DEVICES 2 /* enum symmcoll_device */
#define KEYS (SYMMCOLL_DTYPE_COUNT * DEVICES)

/* A bucket during the walk.  Buckets are numbered in the order in which they
 * are opened. */
struct draft {
    size_t nbytes;
    size_t limit;
    int nitems;
    int place; /* index in the result; -1 while it is open */
};

/* The buckets of one type on one device, during the walk. */
struct key {
    int open; /* the bucket for the next item; -1: none is open */
    int made; /* buckets opened, closed ones included */
};

struct walk {
    struct draft *drafts;
    int ndrafts;
    int *draft_of; /* the bucket of each item */
    int nclosed;
    struct key keys[KEYS];
};

static void close_draft(struct walk *walk, struct draft *draft)
{
    draft->place = walk->nclosed++;
}

static void place_item(struct walk *walk, const struct symc_bucket_item *item,
    int number, const size_t *limits, int nlimits)
{
    struct key *key =
        &walk->keys[(int)item->dtype * DEVICES + (int)item->device];
    struct draft *draft;

    if (key->open < 0) {
        key->open = walk->ndrafts++;
        draft = &walk->drafts[key->open];
        draft->limit = limits[key->made < nlimits ? key->made : nlimits - 1];
        draft->place = -1;
        key->made++;
    }
    draft = &walk->drafts[key->open];
    walk->draft_of[number] = key->open;
    draft->nitems++;
    draft->nbytes += item->nbytes;
    if (draft->nbytes >= draft->limit) {
        close_draft(walk, draft);
        key->open = -1;
    }
}

/* Writes the assignment: buckets in the order of their places, items in the
 * order of the walk. */
static void write_assignment(const struct walk *walk, int nitems,
    const int *order, struct symc_assignment *assignment)
{
    int *first = assignment->first;

    assignment->nbuckets = walk->ndrafts;
    for (int d = 0; d < walk->ndrafts; d++) {
        const struct draft *draft = &walk->drafts[d];

        assignment->limits[draft->place] = draft->limit;
        first[draft->place + 1] = draft->nitems;
    }
    for (int b = 0; b < walk->ndrafts; b++)
        first[b + 1] += first[b];
    /* Each item advances its bucket's start, so that first[b] becomes the start
     * of bucket b + 1. */
    for (int i = 0; i < nitems; i++) {
        int number = order != NULL ? order[i] : i;
        int place = walk->drafts[walk->draft_of[number]].place;

        assignment->params[first[place]++] = number;
    }
    for (int b = walk->ndrafts; b > 0; b--)
        first[b] = first[b - 1];
    first[0] = 0;
}

symmcoll_status_t symc_assign_buckets(const struct symc_bucket_item *items,
    int nitems, const int *order, const size_t *limits, int nlimits,
    struct symc_assignment *assignment)
{
    struct walk walk = {0};
    struct symc_assignment made = {0};
    size_t n = (size_t)nitems;

    walk.drafts = symc_alloc(n, sizeof(*walk.drafts));
    walk.draft_of = symc_alloc(n, sizeof(*walk.draft_of));
    made.params = symc_alloc(n, sizeof(*made.params));
    made.first = symc_alloc(n + 1, sizeof(*made.first));
    made.limits = symc_alloc(n, sizeof(*made.limits));
    if (walk.drafts == NULL || walk.draft_of == NULL || made.params == NULL ||
        made.first == NULL || made.limits == NULL) {
        free(walk.drafts);
        free(walk.draft_of);
        symc_assignment_free(&made);
        return SYMMCOLL_ERR_NO_MEMORY;
    }
    for (int k = 0; k < KEYS; k++)
        walk.keys[k].open = -1;
    for (int i = 0; i < nitems; i++) {
        int number = order != NULL ? order[i] : i;

        place_item(&walk, &items[number], number, limits, nlimits);
    }
    for (int d = 0; d < walk.ndrafts; d++) {
        if (walk.drafts[d].place < 0)
            close_draft(&walk, &walk.drafts[d]);
        /* In a walk by number, buckets are opened in the order of their
         * smallest item. */
        if (order == NULL)
            walk.drafts[d].place = d;
    }
    write_assignment(&walk, nitems, order, &made);
    free(walk.drafts);
    free(walk.draft_of);
    *assignment = made;
    return SYMMCOLL_OK;
}

void symc_assignment_free(struct symc_assignment *assignment)
{
    free(assignment->params);
    free(assignment->first);
    free(assignment->limits);
    *assignment = (struct symc_assignment){0};
}
