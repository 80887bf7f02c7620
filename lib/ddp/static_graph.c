/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Static graphs: the first synchronised pass counts the gradients of each
 * number, and reduces nothing before its finish; later passes reduce a
 * parameter when it has had as many gradients, and at begin if it had none.
 */
#include "ddp/reducer.h"

#include <limits.h>

bool symc_graph_is_counted(const struct symmcoll_reducer *reducer)
{
    return reducer->graph == SYMC_GRAPH_FIRST;
}

bool symc_used_is_sought(const struct symmcoll_reducer *reducer)
{
    return reducer->used != NULL && reducer->graph != SYMC_GRAPH_KNOWN;
}

void symc_graph_reset(struct symmcoll_reducer *reducer)
{
    bool is_static = reducer->graph != SYMC_GRAPH_DYNAMIC;

    reducer->graph = is_static ? SYMC_GRAPH_FIRST : SYMC_GRAPH_DYNAMIC;
    reducer->rebuild = symc_rebuild_is_wanted(reducer) ? SYMC_REBUILD_LATER
                                                       : SYMC_REBUILD_DONE;
    for (int i = 0; i < reducer->nparams; i++)
        reducer->params[i].wanted = 0;
    for (int i = 0; i < reducer->nnumbers; i++) {
        if (symc_number_is_ignored(reducer, i))
            continue;
        reducer->numbers[i].wanted = 1;
        symc_number_param(reducer, i)->wanted++;
    }
}

void symc_graph_begin(const struct symmcoll_reducer *reducer)
{
    for (int i = 0; i < reducer->nparams; i++)
        reducer->params[i].left = symc_graph_is_counted(reducer)
                                      ? INT_MAX
                                      : reducer->params[i].wanted;
}

/* Fails because a number has more or fewer gradients than in the first pass. */
static symmcoll_status_t fail_change(
    const struct symmcoll_reducer *reducer, int number, int came)
{
    char text[SYMC_PARAM_TEXT];

    return symc_fail(SYMMCOLL_ERR_INVALID,
        "the graph has changed: %s came %d time%s, %d before",
        symc_number_text(reducer, number, text), came, came == 1 ? "" : "s",
        reducer->numbers[number].wanted);
}

symmcoll_status_t symc_graph_check(
    const struct symmcoll_reducer *reducer, int number)
{
    const struct symc_number *entry = &reducer->numbers[number];

    if (reducer->graph == SYMC_GRAPH_FIRST)
        return SYMMCOLL_OK;
    /* In a local pass a number may have any count of gradients, if the first
     * pass had one. */
    if (entry->came < entry->wanted ||
        (entry->wanted > 0 && reducer->backward == SYMC_BACKWARD_LOCAL))
        return SYMMCOLL_OK;
    return fail_change(reducer, number, entry->came + 1);
}

void symc_graph_count_refused(struct symmcoll_reducer *reducer, int number)
{
    if (!symc_graph_is_counted(reducer) ||
        reducer->backward != SYMC_BACKWARD_SYNC || number < 0 ||
        number >= reducer->nnumbers ||
        symc_number_is_ignored(reducer, number) ||
        symc_number_param(reducer, number)->left <= 0)
        return;
    reducer->numbers[number].came++;
    symc_number_param(reducer, number)->used = true;
}

void symc_graph_refuse_change(struct symmcoll_reducer *reducer)
{
    if (reducer->graph != SYMC_GRAPH_KNOWN)
        return;
    for (int i = 0; i < reducer->nnumbers; i++)
        if (reducer->numbers[i].came < reducer->numbers[i].wanted) {
            symmcoll_status_t status =
                fail_change(reducer, i, reducer->numbers[i].came);

            (void)symc_keep_refusal(
                reducer, status, "%s", symmcoll_last_error());
            return;
        }
}

void symc_graph_take(struct symmcoll_reducer *reducer)
{
    if (reducer->graph != SYMC_GRAPH_FIRST)
        return;
    for (int i = 0; i < reducer->nparams; i++)
        reducer->params[i].wanted = 0;
    for (int i = 0; i < reducer->nnumbers; i++) {
        struct symc_number *entry = &reducer->numbers[i];

        entry->wanted = entry->came;
        if (entry->param < 0)
            continue;
        reducer->params[entry->param].wanted += entry->came;
    }
    reducer->graph = SYMC_GRAPH_KNOWN;
}
