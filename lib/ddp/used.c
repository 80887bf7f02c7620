/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Finds which parameters are used: each rank's marks are summed over the ranks
 * after the last bucket.  A rank that has used all parameters does not wait for
 * the sums.
 *
 * The gradient of a parameter that no rank has used is left as it was.  With
 * write_back the caller's memory is not written; otherwise its part of the
 * bucket is copied before the reduction and restored after it.
 */
#include "ddp/reducer.h"
#include "group/group.h"

#include <symmcoll/collectives.h>
#include <symmcoll/work.h>

#include <math.h>
#include <stdlib.h>

struct symc_used {
    int32_t *map; /* for each parameter this rank's mark, then the sum */
    struct symmcoll_work *work; /* in flight, or NULL */
    bool started;               /* in this backward */
    bool known;                 /* a backward has set was_used */
    bool is_quiet;              /* report_none() has nothing more to write */
    char *kept;                 /* memory for a copy of all gradients; NULL with
                                   write_back */
};

symmcoll_status_t symc_used_open(struct symmcoll_reducer *reducer)
{
    struct symc_used *used = symc_alloc(1, sizeof(*used));
    size_t nbytes = 0;
    void *kept = NULL;
    symmcoll_status_t status;

    if (used == NULL)
        return SYMMCOLL_ERR_NO_MEMORY;
    reducer->used = used;
    used->map = symc_alloc((size_t)reducer->nparams, sizeof(*used->map));
    if (used->map == NULL)
        return SYMMCOLL_ERR_NO_MEMORY;
    if (reducer->write_back)
        return SYMMCOLL_OK;
    for (int i = 0; i < reducer->nparams; i++)
        if (!symc_add(nbytes, reducer->params[i].grad_nbytes, &nbytes))
            return symc_fail(SYMMCOLL_ERR_NO_MEMORY,
                "reducer: %d gradients have no size", reducer->nparams);
    status = symc_site_alloc(
        "reducer: gradients that are kept", reducer->site, nbytes, 1, &kept);
    if (status != SYMMCOLL_OK)
        return status;
    used->kept = kept;
    for (int i = 0; i < reducer->nparams; i++) {
        reducer->params[i].kept = kept;
        kept = (char *)kept + reducer->params[i].grad_nbytes;
    }
    return SYMMCOLL_OK;
}

/* Waits for the sums in flight, and releases their work if they have ended. */
static symmcoll_status_t end_work(struct symc_used *used, double timeout)
{
    symmcoll_status_t status = SYMMCOLL_OK;

    if (used->work == NULL)
        return SYMMCOLL_OK;
    status = symmcoll_work_wait(used->work, timeout);
    if (symmcoll_work_test(used->work) == SYMMCOLL_IN_PROGRESS)
        return status;
    symmcoll_work_free(used->work);
    used->work = NULL;
    return status;
}

void symc_used_close(struct symmcoll_reducer *reducer)
{
    struct symc_used *used = reducer->used;

    if (used == NULL)
        return;
    (void)end_work(used, INFINITY);
    if (used->work != NULL) {
        symmcoll_work_free(used->work);
        used->map = NULL; /* the operation may still write to it */
    }
    symc_site_release(reducer->site, used->kept);
    free(used->map);
    free(used);
    reducer->used = NULL;
    for (int i = 0; i < reducer->nparams; i++)
        reducer->params[i].kept = NULL;
}

symmcoll_status_t symc_used_begin(struct symmcoll_reducer *reducer)
{
    struct symc_used *used = reducer->used;

    if (used == NULL)
        return SYMMCOLL_OK;
    if (reducer->captured && symc_used_is_sought(reducer))
        return symc_fail(SYMMCOLL_ERR_UNSUPPORTED,
            "reducer_begin: expected a pass that is not captured, for the host "
            "finds which parameters are used, found it is");
    used->started = false;
    return end_work(used, -1.0);
}

symmcoll_status_t symc_used_keep(
    const struct symmcoll_reducer *reducer, const struct symc_param *param)
{
    if (param->used || param->kept == NULL)
        return SYMMCOLL_OK;
    return symc_site_move(
        reducer->site, param->kept, param->view, param->grad_nbytes);
}

symmcoll_status_t symc_used_start(struct symmcoll_reducer *reducer)
{
    struct symc_used *used = reducer->used;
    struct symmcoll_call call = SYMMCOLL_CALL_INIT;

    if (used == NULL || used->started || !symc_used_is_sought(reducer))
        return SYMMCOLL_OK;
    used->started = true;
    for (int i = 0; i < reducer->nparams; i++)
        used->map[i] = reducer->params[i].used;
    call.label = "used parameters";
    return symmcoll_all_reduce(reducer->group, used->map, used->map,
        (size_t)reducer->nparams, SYMMCOLL_INT32, SYMMCOLL_SUM, &call,
        &used->work);
}

/* Warns in the log, once, that find_unused was not needed.  A static graph
 * searches once with or without the option. */
static void report_none(const struct symmcoll_reducer *reducer)
{
    if (reducer->used->is_quiet || reducer->graph != SYMC_GRAPH_DYNAMIC)
        return;
    symc_logf(&symc_group_world(reducer->group)->log, SYMC_LOG_WARN,
        "reducer of group %s: find_unused is set, but every parameter had a "
        "gradient on this rank: without it buckets are rebuilt, and nothing is "
        "searched",
        symc_group_name(reducer->group));
}

static bool has_unused(const struct symmcoll_reducer *reducer)
{
    for (int i = 0; i < reducer->nparams; i++)
        if (!reducer->params[i].used)
            return true;
    return false;
}

symmcoll_status_t symc_used_await(struct symmcoll_reducer *reducer)
{
    struct symc_used *used = reducer->used;
    symmcoll_status_t status;

    if (used == NULL || reducer->failure.status != SYMMCOLL_OK ||
        !symc_used_is_sought(reducer))
        return SYMMCOLL_OK;
    if (has_unused(reducer)) {
        status = end_work(used, -1.0);
        if (status != SYMMCOLL_OK)
            return symc_keep_failure(reducer, -1, status);
        for (int i = 0; i < reducer->nparams; i++)
            reducer->params[i].was_used = used->map[i] > 0;
    } else {
        report_none(reducer);
        for (int i = 0; i < reducer->nparams; i++)
            reducer->params[i].was_used = true;
    }
    used->is_quiet = true;
    used->known = true;
    return SYMMCOLL_OK;
}

bool symc_used_nowhere(
    const struct symmcoll_reducer *reducer, const struct symc_param *param)
{
    return reducer->used != NULL && !param->was_used;
}

symmcoll_status_t symc_used_restore(struct symmcoll_reducer *reducer)
{
    for (int i = 0; i < reducer->nparams; i++) {
        struct symc_param *param = &reducer->params[i];
        symmcoll_status_t status = SYMMCOLL_OK;

        param->used = false;
        if (!symc_used_nowhere(reducer, param) || param->kept == NULL)
            continue;
        status = symc_site_move(
            reducer->site, param->view, param->kept, param->grad_nbytes);
        if (status != SYMMCOLL_OK)
            return symc_keep_failure(reducer, -1, status);
    }
    return SYMMCOLL_OK;
}

symmcoll_status_t symmcoll_reducer_was_used(
    const struct symmcoll_reducer *reducer, int number, int *used)
{
    symmcoll_status_t status;

    if (reducer == NULL || used == NULL)
        return symc_fail(SYMMCOLL_ERR_INVALID,
            "reducer_was_used: expected a reducer and a result, found NULL");
    status = symc_number_check(reducer, "reducer_was_used", number);
    if (status != SYMMCOLL_OK)
        return status;
    if (reducer->used == NULL || !reducer->used->known)
        return symc_fail(SYMMCOLL_ERR_INVALID,
            "reducer_was_used: expected a reducer %s",
            reducer->used == NULL
                ? "with find_unused or static_graph, found neither"
                : "that has finished a pass with sync, found none");
    *used = symc_number_param(reducer, number)->was_used;
    return SYMMCOLL_OK;
}
