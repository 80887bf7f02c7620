/* SPDX-License-Identifier: BSD-3-Clause */
/* Tests the counters of calls on a store (R32). */
#include "t/store/helpers.h"
#include "t/tap.h"

#include <pthread.h>
#include <stdbool.h>

#define THREADS 4
#define CALLS 500

struct wanted {
    const char *name;
    struct symmcoll_store_counter found;
    int kinds;
};

static void look(const struct symmcoll_store_counter *counter, void *arg)
{
    struct wanted *wanted = arg;

    wanted->kinds++;
    if (strcmp(counter->name, wanted->name) == 0)
        wanted->found = *counter;
}

static struct symmcoll_store_counter counter_of(
    struct symmcoll_store *store, const char *name)
{
    struct wanted wanted = {.name = name};

    if (symmcoll_store_each_counter(store, look, &wanted) != SYMMCOLL_OK ||
        wanted.found.name == NULL)
        diag("no counter of %s", name);
    return wanted.found;
}

static int counts(
    struct symmcoll_store *store, const char *name, uint64_t n, uint64_t failed)
{
    struct symmcoll_store_counter found = counter_of(store, name);

    if (found.count == n && found.failures == failed &&
        (n == 0 || (found.mean > 0 && found.mean < 60)))
        return 1;
    diag("%s: %llu calls, %llu failures, mean %g s", name,
        (unsigned long long)found.count, (unsigned long long)found.failures,
        found.mean);
    return 0;
}

/* Makes every call once, some of which fail. */
static void use_all(struct symmcoll_store *store)
{
    const char *keys[] = {"a", "none"};
    const void *values[] = {"", ""};
    const size_t lengths[] = {0, 0};
    char **names = NULL;
    void *value = NULL;
    size_t n;
    int exist, good = 0;

    good += set_text(store, "a", "x");
    good += symmcoll_store_get(store, "a", &value, &n) == SYMMCOLL_OK;
    free(value);
    good += symmcoll_store_add(store, "n", 1, NULL) == SYMMCOLL_OK;
    good += symmcoll_store_add(store, "a", 1, NULL) != SYMMCOLL_OK;
    good += symmcoll_store_append(store, "a", "y", 1) == SYMMCOLL_OK;
    good += symmcoll_store_compare_set(
                store, "a", "", 0, "", 0, NULL, NULL, NULL) == SYMMCOLL_OK;
    good += symmcoll_store_wait(store, keys, 2, 0.01) != SYMMCOLL_OK;
    good += symmcoll_store_check(store, keys, 2, &exist) == SYMMCOLL_OK;
    good += symmcoll_store_multi_set(store, keys, values, lengths, 2) ==
            SYMMCOLL_OK;
    good += symmcoll_store_queue_push(store, "q", "z", 1) == SYMMCOLL_OK;
    good += symmcoll_store_queue_len(store, "q", &n) == SYMMCOLL_OK;
    good += symmcoll_store_queue_pop(store, "q", 1, &value, &n) == SYMMCOLL_OK;
    free(value);
    good +=
        symmcoll_store_queue_pop(store, "q", 0.01, &value, &n) != SYMMCOLL_OK;
    good += symmcoll_store_delete(store, "a", NULL) == SYMMCOLL_OK;
    good += symmcoll_store_num_keys(store, &n) == SYMMCOLL_OK;
    good += symmcoll_store_list_keys(store, &names, &n) == SYMMCOLL_OK;
    free(names);
    if (good != 16)
        diag("%d of 16 calls did what they should", good);
}

static void *set_many(void *arg)
{
    intptr_t good = 1;

    for (int i = 0; i < CALLS; i++)
        good &= set_text(arg, "many", "x");
    return (void *)good;
}

static bool counts_times(struct symmcoll_store *all)
{
    const char *key = "never";
    struct symmcoll_store *store = NULL;
    struct symmcoll_store_counter found;
    symmcoll_status_t status = symmcoll_store_clone(all, &store) == SYMMCOLL_OK
                                   ? SYMMCOLL_ERR_TIMEOUT
                                   : SYMMCOLL_ERR_INTERNAL;

    for (int i = 0; i < 4 && status == SYMMCOLL_ERR_TIMEOUT; i++)
        status = symmcoll_store_wait(store, &key, 1, i < 2 ? 0.02 : 0.12);
    found = counter_of(store, "wait");
    /* The standard deviation is about 0.058 s, and at least 0.04 s if each
     * call lasts up to 0.04 s longer. */
    diag("mean %g s, variance %g", found.mean, found.variance);
    symmcoll_store_close(store);
    return found.count == 4 && found.failures == 4 && found.mean >= 0.07 &&
           found.variance >= 0.0016;
}

/* Repeated, because on a busy machine any call may last longer. */
static void test_times(struct symmcoll_store *store)
{
    bool right = false;

    for (int i = 0; i < 10 && !right; i++)
        right = counts_times(store);
    ok(right, "mean and variance are those of the times, in seconds");
}

int main(void)
{
    struct symmcoll_store *store = NULL, *clone = NULL, *view = NULL;
    struct wanted all = {.name = "set"};
    pthread_t threads[THREADS];
    void *result;
    int good = 1;

    alarm(600);
    plan(7);
    if (symmcoll_store_create_hash(&store) != SYMMCOLL_OK ||
        symmcoll_store_clone(store, &clone) != SYMMCOLL_OK ||
        symmcoll_store_create_prefix(store, "p", &view) != SYMMCOLL_OK)
        return 1;
    ok(symmcoll_store_each_counter(store, look, &all) == SYMMCOLL_OK &&
            all.kinds == 14 && all.found.count == 0 &&
            all.found.variance <= 0 && counts(store, "get", 0, 0),
        "at first each kind of call has a counter of 0");
    use_all(store);
    ok(counts(store, "set", 1, 0) && counts(store, "get", 1, 0) &&
            counts(store, "add", 2, 1) && counts(store, "append", 1, 0) &&
            counts(store, "compare_set", 1, 0) && counts(store, "wait", 1, 1) &&
            counts(store, "check", 1, 0) && counts(store, "multi_set", 1, 0) &&
            counts(store, "queue_push", 1, 0) &&
            counts(store, "queue_len", 1, 0) &&
            counts(store, "queue_pop", 2, 1) && counts(store, "delete", 1, 0) &&
            counts(store, "num_keys", 1, 0) && counts(store, "list_keys", 1, 0),
        "calls are counted, and those that fail");
    ok(symmcoll_store_set(store, NULL, "", 0) == SYMMCOLL_ERR_INVALID &&
            counts(store, "set", 1, 0),
        "a call with bad arguments is not");
    use_all(view);
    ok(counts(clone, "set", 0, 0) && counts(view, "set", 1, 0) &&
            counts(store, "set", 1, 0),
        "clones and views count their own calls");
    for (int i = 0; i < THREADS; i++)
        pthread_create(&threads[i], NULL, set_many, clone);
    for (int i = 0; i < THREADS; i++) {
        pthread_join(threads[i], &result);
        good &= result != NULL;
    }
    ok(good && counts(clone, "set", THREADS * CALLS, 0),
        "calls of several threads are all counted");
    test_times(clone);
    ok(failed_with(symmcoll_store_each_counter(NULL, look, &all),
           SYMMCOLL_ERR_INVALID, "store is NULL") &&
            failed_with(symmcoll_store_each_counter(store, NULL, NULL),
                SYMMCOLL_ERR_INVALID, "each is NULL"),
        "a NULL is named");
    symmcoll_store_close(view);
    symmcoll_store_close(clone);
    symmcoll_store_close(store);
    return done_testing();
}
