/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The buckets are rebuilt once, after the first synchronised backward, in the
 * order in which gradients were complete, so that the first bucket is full
 * early and is reduced while other gradients are still computed.  The order may
 * differ between ranks, so all ranks use the assignment of rank 0, once all have the
 * memory for it.
 */
#include "ddp/reducer.h"

#include <symmcoll/collectives.h>

#include <stdlib.h>

/*
 * An assignment as it is broadcast: the number of buckets, the parameters in
 * the order of buckets, the number of parameters of each bucket.
 */
static size_t count_words(int nparams)
{
    return 1 + 2 * (size_t)nparams;
}

static void write_words(
    const struct symc_assignment *assignment, int nparams, int64_t *words)
{
    words[0] = assignment->nbuckets;
    for (int i = 0; i < nparams; i++)
        words[1 + i] = assignment->params[i];
    for (int b = 0; b < assignment->nbuckets; b++)
        words[1 + nparams + b] =
            assignment->first[b + 1] - assignment->first[b];
}

/* The other way round, in place of what the assignment holds: it has room for
 * as many buckets as parameters. */
static void read_words(
    struct symc_assignment *assignment, int nparams, const int64_t *words)
{
    assignment->nbuckets = (int)words[0];
    for (int i = 0; i < nparams; i++)
        assignment->params[i] = (int)words[1 + i];
    for (int b = 0; b < assignment->nbuckets; b++)
        assignment->first[b + 1] =
            assignment->first[b] + (int)words[1 + nparams + b];
}

/* This rank's own assignment, as words (out). */
static symmcoll_status_t propose(const struct symmcoll_reducer *reducer,
    struct symc_assignment *assignment, int64_t **words)
{
    struct symc_bucket_item *items = symc_list_items(reducer);
    symmcoll_status_t status;

    if (items == NULL)
        return SYMMCOLL_ERR_NO_MEMORY;
    status = symc_assign_buckets(items, reducer->nparams, reducer->arrival,
        reducer->limits, 2, assignment);
    free(items);
    if (status != SYMMCOLL_OK)
        return status;
    *words = symc_alloc(count_words(reducer->nparams), sizeof(**words));
    if (*words == NULL)
        return SYMMCOLL_ERR_NO_MEMORY;
    write_words(assignment, reducer->nparams, *words);
    return SYMMCOLL_OK;
}

/* The layout (out) of words, with the gradients. */
static symmcoll_status_t build(const struct symmcoll_reducer *reducer,
    struct symc_assignment *assignment, const int64_t *words,
    struct symc_layout *layout)
{
    symmcoll_status_t status;

    read_words(assignment, reducer->nparams, words);
    status = symc_layout_make(reducer, assignment, false, layout);
    return status == SYMMCOLL_OK ? symc_layout_fill(reducer, layout) : status;
}

/* The same on all ranks, after all have words: those of rank 0. */
static symmcoll_status_t build_alike(const struct symmcoll_reducer *reducer,
    struct symc_assignment *assignment, int64_t *words,
    struct symc_layout *layout)
{
    symmcoll_status_t status = symmcoll_broadcast(reducer->group, words,
        count_words(reducer->nparams), SYMMCOLL_INT64, 0, NULL, NULL);

    return status == SYMMCOLL_OK
               ? symc_share_failure(
                     reducer, build(reducer, assignment, words, layout))
               : status;
}

symmcoll_status_t symc_rebuild_buckets(
    struct symmcoll_reducer *reducer, symmcoll_status_t own)
{
    struct symc_assignment assignment = {0};
    struct symc_layout layout = {0};
    int64_t *words = NULL;
    symmcoll_status_t status;

    if (own == SYMMCOLL_OK)
        own = propose(reducer, &assignment, &words);
    status = symc_share_failure(reducer, own);
    if (own == SYMMCOLL_OK && status == SYMMCOLL_OK)
        status = build_alike(reducer, &assignment, words, &layout);
    if (status == SYMMCOLL_OK)
        symc_layout_adopt(reducer, &layout);
    else
        symc_layout_free(reducer, &layout);
    symc_assignment_free(&assignment);
    free(words);
    return status;
}
