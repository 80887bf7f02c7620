/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The buckets are rebuilt once, after the first synchronised backward, in the
 * order in which gradients were complete, so that the first bucket is full
 * early and is reduced while other gradients are still computed.  The order may
 * differ between ranks, so all ranks use the assignment of rank 0.
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

static symmcoll_status_t agree_on_assignment(
    const struct symmcoll_reducer *reducer, struct symc_assignment *assignment)
{
    size_t nwords = count_words(reducer->nparams);
    int64_t *words = symc_alloc(nwords, sizeof(*words));
    symmcoll_status_t status;

    if (words == NULL)
        return SYMMCOLL_ERR_NO_MEMORY;
    write_words(assignment, reducer->nparams, words);
    status = symmcoll_broadcast(
        reducer->group, words, nwords, SYMMCOLL_INT64, 0, NULL, NULL);
    if (status == SYMMCOLL_OK)
        read_words(assignment, reducer->nparams, words);
    free(words);
    return status;
}

symmcoll_status_t symc_rebuild_buckets(struct symmcoll_reducer *reducer)
{
    struct symc_bucket_item *items = symc_list_items(reducer);
    struct symc_assignment assignment = {0};
    struct symc_layout layout;
    symmcoll_status_t status;

    if (items == NULL)
        return SYMMCOLL_ERR_NO_MEMORY;
    status = symc_assign_buckets(items, reducer->nparams, reducer->arrival,
        reducer->limits, 2, &assignment);
    if (status == SYMMCOLL_OK)
        status = agree_on_assignment(reducer, &assignment);
    if (status == SYMMCOLL_OK)
        status = symc_layout_make(reducer, &assignment, false, &layout);
    if (status == SYMMCOLL_OK)
        status = symc_layout_adopt(reducer, &layout);
    symc_assignment_free(&assignment);
    free(items);
    return status;
}
