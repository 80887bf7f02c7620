/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Rebuilds the buckets once, after the first synchronised backward, in the
 * order in which gradients were complete, so that the first bucket is full
 * early and is reduced while other gradients are still computed.  The order may
 * differ between ranks, so all ranks use the assignment of rank 0, if all can
 * allocate its buckets.
 */
#include "ddp/reducer.h"

#include <symmcoll/collectives.h>

#include <stdlib.h>

bool symc_rebuild_is_wanted(const struct symmcoll_reducer *reducer)
{
    /* An optimizer's state belongs to the slices of the first buckets, and the
     * caller's memory has an order of its own. */
    if (reducer->shard || reducer->memory != NULL)
        return false;
    return !reducer->find_unused || reducer->graph != SYMC_GRAPH_DYNAMIC;
}

/*
 * Returns the number of words of an assignment as it is broadcast: the number
 * of buckets, the parameters in the order of buckets, the number of parameters
 * of each bucket.
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

/* Replaces an assignment by the one in words.  It has room for as many buckets
 * as parameters. */
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

/* Computes this rank's assignment, also as words (out; release with free()). */
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

/* Makes the layout (out) of an assignment, with copies of the gradients. */
static symmcoll_status_t build(const struct symmcoll_reducer *reducer,
    const struct symc_assignment *assignment, struct symc_bucket_memory *memory,
    struct symc_layout *layout)
{
    symmcoll_status_t status =
        symc_layout_make(reducer, assignment, false, memory, layout);

    return status == SYMMCOLL_OK ? symc_layout_fill(reducer, layout) : status;
}

/* Makes the layout (out) of rank 0's words, on all ranks or on none.
 * Overwrites words. Collective; every rank has allocated its words before. */
static symmcoll_status_t build_alike(const struct symmcoll_reducer *reducer,
    struct symc_assignment *assignment, int64_t *words,
    struct symc_layout *layout)
{
    struct symc_bucket_memory memory;
    symmcoll_status_t status = symmcoll_broadcast(reducer->group, words,
        count_words(reducer->nparams), SYMMCOLL_INT64, 0, NULL, NULL);

    if (status != SYMMCOLL_OK)
        return status;
    read_words(assignment, reducer->nparams, words);
    status = symc_memory_share(reducer, assignment->nbuckets, &memory);
    if (status != SYMMCOLL_OK)
        return status;
    status = symc_share_failure(
        reducer, build(reducer, assignment, &memory, layout));
    symc_memory_free(&memory); /* if it was not taken */
    return status;
}

symmcoll_status_t symc_rebuild_shared(struct symmcoll_reducer *reducer)
{
    struct symc_bucket_memory memory;
    struct symc_layout layout = {0};
    symmcoll_status_t status;

    if (symc_rebuild_is_wanted(reducer))
        return SYMMCOLL_OK;
    status = symc_memory_share(reducer, reducer->layout.nbuckets, &memory);
    if (status != SYMMCOLL_OK || memory.at == NULL)
        return status;
    status = symc_layout_first(reducer, &memory, &layout);
    if (status == SYMMCOLL_OK)
        status = symc_layout_fill(reducer, &layout);
    status = symc_share_failure(reducer, status);
    if (status == SYMMCOLL_OK)
        symc_layout_adopt(reducer, &layout);
    else
        symc_layout_free(reducer, &layout);
    symc_memory_free(&memory); /* if it was not taken */
    return status;
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
