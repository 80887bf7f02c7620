/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Counters of the calls on a handle: their number, and mean and variance of
 * their duration (R32) by Welford's method, which needs no list of times.
 */
#include "store/ops.h"

#include <pthread.h>

static const char *const names[] = {
    [SYMC_STORE_SET] = "set",
    [SYMC_STORE_GET] = "get",
    [SYMC_STORE_ADD] = "add",
    [SYMC_STORE_APPEND] = "append",
    [SYMC_STORE_COMPARE_SET] = "compare_set",
    [SYMC_STORE_DELETE] = "delete",
    [SYMC_STORE_WAIT] = "wait",
    [SYMC_STORE_CHECK] = "check",
    [SYMC_STORE_MULTI_SET] = "multi_set",
    [SYMC_STORE_QUEUE_PUSH] = "queue_push",
    [SYMC_STORE_QUEUE_POP] = "queue_pop",
    [SYMC_STORE_QUEUE_LEN] = "queue_len",
    [SYMC_STORE_NUM_KEYS] = "num_keys",
    [SYMC_STORE_LIST_KEYS] = "list_keys",
};

symmcoll_status_t symc_store_count(struct symmcoll_store *store,
    enum symc_store_call call, int64_t began_ns, symmcoll_status_t status)
{
    struct symc_counter *counter = &store->counters[call];
    double seconds = (double)(symc_now_ns() - began_ns) / (double)SYMC_NS_PER_S;
    double before;

    pthread_mutex_lock(&store->counting);
    before = seconds - counter->mean;
    counter->count++;
    counter->failures += status != SYMMCOLL_OK;
    counter->mean += before / (double)counter->count;
    counter->squares += before * (seconds - counter->mean);
    pthread_mutex_unlock(&store->counting);
    return status;
}

symmcoll_status_t symmcoll_store_each_counter(struct symmcoll_store *store,
    void (*each)(const struct symmcoll_store_counter *counter, void *arg),
    void *arg)
{
    struct symc_counter copy[SYMC_STORE_CALLS];

    if (store == NULL || each == NULL)
        return symc_fail(SYMMCOLL_ERR_INVALID, "store_each_counter: %s is NULL",
            store == NULL ? "store" : "each");
    pthread_mutex_lock(&store->counting);
    for (int i = 0; i < SYMC_STORE_CALLS; i++)
        copy[i] = store->counters[i];
    pthread_mutex_unlock(&store->counting);
    for (int i = 0; i < SYMC_STORE_CALLS; i++) {
        const struct symmcoll_store_counter counter = {
            .name = names[i],
            .count = copy[i].count,
            .failures = copy[i].failures,
            .mean = copy[i].mean,
            .variance = copy[i].count > 1
                            ? copy[i].squares / (double)(copy[i].count - 1)
                            : 0,
        };

        each(&counter, arg);
    }
    return SYMMCOLL_OK;
}
