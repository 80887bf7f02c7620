/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Tests that every kind of store must pass, including one without queues and
 * lists, as one body of COMMON_POINTS points.
 */
#ifndef T_STORE_COMMON_H
#define T_STORE_COMMON_H

#include "t/store/helpers.h"
#include "t/tap.h"

#include <math.h>
#include <pthread.h>

#define COMMON_POINTS 45

#define THREADS 4
#define ADDS 200

static inline void check_values(struct symmcoll_store *s)
{
    void *value = NULL;
    size_t nbytes = 0;

    ok(set_text(s, "a", "one") && holds(s, "a", "one"),
        "what is set is what get returns");
    ok(set_text(s, "a", "three") && holds(s, "a", "three"),
        "set replaces an older value");
    ok(symmcoll_store_set(s, "bin", "x\0y\n", 4) == SYMMCOLL_OK &&
            symmcoll_store_get(s, "bin", &value, &nbytes) == SYMMCOLL_OK &&
            nbytes == 4 && memcmp(value, "x\0y\n", 5) == 0,
        "values are bytes, and a zero byte follows them");
    free(value);
    ok(symmcoll_store_set(s, "empty", NULL, 0) == SYMMCOLL_OK &&
            holds(s, "empty", ""),
        "a value may be empty");
    ok(set_text(s, "dir/with blank\n-/", "k") &&
            holds(s, "dir/with blank\n-/", "k") && set_text(s, "", "e") &&
            holds(s, "", "e"),
        "a key may hold any byte but zero, and none at all");
}

static inline void check_counters(struct symmcoll_store *s)
{
    int64_t sum = -1;

    ok(symmcoll_store_add(s, "n", 7, &sum) == SYMMCOLL_OK && sum == 7 &&
            holds(s, "n", "7"),
        "add makes a counter, and it is decimal text");
    ok(symmcoll_store_add(s, "n", -10, &sum) == SYMMCOLL_OK && sum == -3,
        "add takes negative amounts");
    ok(symmcoll_store_add(s, "n", 0, &sum) == SYMMCOLL_OK && sum == -3 &&
            symmcoll_store_add(s, "n", 1, NULL) == SYMMCOLL_OK &&
            holds(s, "n", "-2"),
        "adding 0 reads a counter, and nobody need ask for the sum");
    ok(set_text(s, "n", "9223372036854775807") &&
            failed_with(symmcoll_store_add(s, "n", 1, &sum),
                SYMMCOLL_ERR_INVALID, "64 bits") &&
            holds(s, "n", "9223372036854775807"),
        "a counter does not overflow");
    ok(failed_with(symmcoll_store_add(s, "a", 1, &sum), SYMMCOLL_ERR_INVALID,
           "a\": expected a whole number, found \"three\"") &&
            holds(s, "a", "three"),
        "adding to what is no number names key and value");
    ok(set_text(s, "n", " 1") &&
            symmcoll_store_add(s, "n", 1, NULL) == SYMMCOLL_ERR_INVALID &&
            symmcoll_store_set(s, "n", "1\0", 2) == SYMMCOLL_OK &&
            symmcoll_store_add(s, "n", 1, NULL) == SYMMCOLL_ERR_INVALID,
        "a number is all there may be in a counter");
}

/* Checks that compare_set returns this outcome and value, and that the key
 * holds `held`. */
static inline int compares(struct symmcoll_store *s, const char *expected,
    const char *desired, enum symmcoll_store_outcome wanted, const char *given,
    const char *held)
{
    enum symmcoll_store_outcome outcome = SYMMCOLL_STORE_DIFFERS;
    void *value = NULL;
    size_t nbytes = 0;
    symmcoll_status_t status = symmcoll_store_compare_set(s, "cas", expected,
        strlen(expected), desired, strlen(desired), &outcome, &value, &nbytes);
    int good = status == SYMMCOLL_OK && outcome == wanted &&
               nbytes == strlen(given) && strcmp(value, given) == 0;

    free(value);
    return good && (held != NULL ? holds(s, "cas", held) : is_absent(s, "cas"));
}

static inline void check_compare_set(struct symmcoll_store *s)
{
    ok(compares(s, "x", "y", SYMMCOLL_STORE_ABSENT, "x", NULL),
        "compare_set: absent and not expected so: nothing is stored");
    ok(compares(s, "", "first", SYMMCOLL_STORE_CREATED, "first", "first"),
        "compare_set: absent as expected: stored");
    ok(compares(s, "", "z", SYMMCOLL_STORE_DIFFERS, "first", "first") &&
            compares(s, "firsT", "z", SYMMCOLL_STORE_DIFFERS, "first", "first"),
        "compare_set: another value: given, and kept");
    ok(compares(s, "first", "next", SYMMCOLL_STORE_REPLACED, "next", "next"),
        "compare_set: the expected value: replaced");
    ok(symmcoll_store_compare_set(
           s, "cas", "next", 4, "last", 4, NULL, NULL, NULL) == SYMMCOLL_OK &&
            holds(s, "cas", "last"),
        "compare_set: nobody need ask for outcome and value");
}

static inline void check_append_and_delete(struct symmcoll_store *s)
{
    size_t before = 0;
    size_t after = 0;
    int removed = -1;

    ok(symmcoll_store_append(s, "app", "ab", 2) == SYMMCOLL_OK &&
            symmcoll_store_append(s, "app", NULL, 0) == SYMMCOLL_OK &&
            symmcoll_store_append(s, "app", "c", 1) == SYMMCOLL_OK &&
            holds(s, "app", "abc"),
        "append makes a value and makes it longer");
    ok(symmcoll_store_num_keys(s, &before) == SYMMCOLL_OK &&
            set_text(s, "gone", "x") && set_text(s, "gone", "y") &&
            symmcoll_store_num_keys(s, &after) == SYMMCOLL_OK &&
            after == before + 1,
        "num_keys counts keys");
    ok(symmcoll_store_delete(s, "gone", &removed) == SYMMCOLL_OK &&
            removed == 1 && is_absent(s, "gone") &&
            symmcoll_store_num_keys(s, &after) == SYMMCOLL_OK &&
            after == before,
        "a deleted key is gone");
    ok(symmcoll_store_delete(s, "gone", &removed) == SYMMCOLL_OK &&
            removed == 0 &&
            symmcoll_store_delete(s, "gone", NULL) == SYMMCOLL_OK,
        "delete says whether there was something");
}

static inline void check_waiting(struct symmcoll_store *s)
{
    const char *keys[] = {"a", "no/such", "a", "nor this"};
    void *value = NULL;
    size_t nbytes = 0;
    int exist = -1;

    ok(symmcoll_store_check(s, keys, 1, &exist) == SYMMCOLL_OK && exist == 1 &&
            symmcoll_store_check(s, keys, 4, &exist) == SYMMCOLL_OK &&
            exist == 0 &&
            symmcoll_store_check(s, NULL, 0, &exist) == SYMMCOLL_OK &&
            exist == 1,
        "check is true where all keys exist");
    ok(symmcoll_store_wait(s, keys, 1, -1) == SYMMCOLL_OK &&
            symmcoll_store_wait(s, keys, 1, 0) == SYMMCOLL_OK &&
            symmcoll_store_wait(s, NULL, 0, 0) == SYMMCOLL_OK,
        "wait returns at once where all keys exist");
    ok(TIMES_OUT(symmcoll_store_wait(s, keys, 4, 0.02),
           "timeout: key \"no/such\" did not appear within 0.02 s"),
        "wait names the first key that did not come, and the time");
    ok(TIMES_OUT(symmcoll_store_wait(s, keys, 4, 0), "no/such"),
        "a wait of 0 s does not block");
    ok(symmcoll_store_set_timeout(s, 0.02) == SYMMCOLL_OK &&
            TIMES_OUT(symmcoll_store_get(s, "no/such", &value, &nbytes),
                "store_get: timeout: key \"no/such\" did not appear within "
                "0.02 s") &&
            value == NULL &&
            TIMES_OUT(symmcoll_store_wait(s, keys, 2, -1), "0.02 s"),
        "the store's timeout holds for get, and for wait without one");
    ok(symmcoll_store_set_timeout(s, INFINITY) == SYMMCOLL_OK &&
            isinf(symmcoll_store_timeout(s)) && holds(s, "a", "three"),
        "a timeout may be infinite");
    ok(failed_with(
           symmcoll_store_set_timeout(s, NAN), SYMMCOLL_ERR_INVALID, "found") &&
            symmcoll_store_wait(s, keys, 1, NAN) == SYMMCOLL_ERR_INVALID &&
            isinf(symmcoll_store_timeout(s)),
        "a timeout is a number");
    if (symmcoll_store_set_timeout(s, 60) != SYMMCOLL_OK)
        diag("the timeout cannot be set back");
}

static inline void check_several(struct symmcoll_store *s)
{
    const char *keys[] = {"m1", "m2", "m3"};
    const void *values[] = {"v", "", "ww"};
    const size_t lengths[] = {1, 0, 2};
    void *got[3] = {NULL, NULL, NULL};
    size_t nbytes[3] = {9, 9, 9};
    struct symmcoll_store *clone = NULL;

    ok(symmcoll_store_multi_set(s, keys, values, lengths, 3) == SYMMCOLL_OK &&
            symmcoll_store_multi_get(s, keys, got, nbytes, 3) == SYMMCOLL_OK &&
            strcmp(got[0], "v") == 0 && nbytes[1] == 0 &&
            strcmp(got[2], "ww") == 0,
        "multi_set and multi_get do several keys at once");
    for (int i = 0; i < 3; i++)
        free(got[i]);
    keys[2] = "no/such";
    ok(symmcoll_store_clone(s, &clone) == SYMMCOLL_OK &&
            symmcoll_store_set_timeout(clone, 0) == SYMMCOLL_OK &&
            failed_with(symmcoll_store_multi_get(clone, keys, got, nbytes, 3),
                SYMMCOLL_ERR_TIMEOUT, "no/such"),
        "multi_get names the key that is missing");
    ok(symmcoll_store_timeout(s) > 1 && symmcoll_store_timeout(clone) <= 0,
        "a clone has a timeout of its own");
    ok(set_text(clone, "via", "clone") && holds(s, "via", "clone"),
        "a clone is on the same table");
    symmcoll_store_close(clone);
    ok(holds(s, "via", "clone"), "closing a clone leaves the other open");
}

static inline void check_arguments(struct symmcoll_store *s)
{
    static char key[5000];
    static char big[(16 << 20) + 1];
    void *value = NULL;
    size_t nbytes;

    memset(key, 'k', sizeof key - 1);
    ok(failed_with(symmcoll_store_set(NULL, "a", "", 0), SYMMCOLL_ERR_INVALID,
           "store_set: store is NULL") &&
            failed_with(symmcoll_store_set(s, NULL, "", 0),
                SYMMCOLL_ERR_INVALID, "key is NULL") &&
            failed_with(symmcoll_store_set(s, "a", NULL, 1),
                SYMMCOLL_ERR_INVALID, "value is NULL") &&
            failed_with(symmcoll_store_get(s, "a", NULL, &nbytes),
                SYMMCOLL_ERR_INVALID, "value is NULL") &&
            failed_with(symmcoll_store_wait(s, NULL, 2, 0),
                SYMMCOLL_ERR_INVALID, "keys is NULL"),
        "a NULL is named");
    ok(failed_with(symmcoll_store_get(s, key, &value, &nbytes),
           SYMMCOLL_ERR_INVALID, "expected at most 4096 bytes, found 4999"),
        "a key that is too long is refused with both lengths");
    ok(failed_with(symmcoll_store_set(s, "big", big, sizeof big),
           SYMMCOLL_ERR_INVALID, "16777216 bytes, found 16777217") &&
            is_absent(s, "big"),
        "a value that is too long is refused with both lengths");
    ok(symmcoll_store_set(s, "big", big, sizeof big - 2) == SYMMCOLL_OK &&
            symmcoll_store_append(s, "big", big, 1) == SYMMCOLL_OK &&
            symmcoll_store_get(s, "big", &value, &nbytes) == SYMMCOLL_OK &&
            nbytes == sizeof big - 1,
        "a value may have 16 MiB");
    free(value);
    ok(failed_with(symmcoll_store_append(s, "big", big, 1),
           SYMMCOLL_ERR_INVALID, "found 16777216 + 1") &&
            symmcoll_store_set(s, "big", big, sizeof big - 1) == SYMMCOLL_OK &&
            symmcoll_store_delete(s, "big", NULL) == SYMMCOLL_OK,
        "a value does not become too long by append");
}

struct arrival {
    struct symmcoll_store *store;
    int rank;
    int good;
};

static inline void *arrive_thrice(void *arg)
{
    struct arrival *arrival = arg;

    arrival->good = 1;
    for (int i = 0; i < 3; i++) {
        int64_t sum = 0;

        arrival->good &= symmcoll_store_add(arrival->store, "came", 1, NULL) ==
                             SYMMCOLL_OK &&
                         symmcoll_store_barrier(arrival->store, "b",
                             arrival->rank, THREADS, 60) == SYMMCOLL_OK &&
                         symmcoll_store_add(arrival->store, "came", 0, &sum) ==
                             SYMMCOLL_OK &&
                         sum >= (i + 1) * THREADS;
    }
    return NULL;
}

static inline void check_barrier(struct symmcoll_store *s)
{
    pthread_t threads[THREADS];
    struct arrival arrivals[THREADS];
    int good = 1;

    for (int i = 0; i < THREADS; i++) {
        arrivals[i] = (struct arrival){s, i, 0};
        pthread_create(&threads[i], NULL, arrive_thrice, &arrivals[i]);
    }
    for (int i = 0; i < THREADS; i++) {
        pthread_join(threads[i], NULL);
        good &= arrivals[i].good;
    }
    ok(good, "nobody leaves a barrier before all have come, time after time");
    ok(failed_with(symmcoll_store_barrier(s, "b4", 1, 4, 0.3),
           SYMMCOLL_ERR_TIMEOUT,
           "\"b4\": ranks 0, 2 and 3 did not call it within 0.3 s: 1 of 4"),
        "a barrier names who did not come");
    ok(failed_with(symmcoll_store_barrier(s, "b4", 0, 3, 60),
           SYMMCOLL_ERR_MISMATCH, "this rank passed 3, another rank 4"),
        "ranks of a barrier pass the same number of ranks");
    ok(failed_with(symmcoll_store_barrier(s, "b", 4, 4, 0),
           SYMMCOLL_ERR_INVALID, "rank: expected 0 to 3, found 4") &&
            symmcoll_store_barrier(s, "b", -1, 4, 0) == SYMMCOLL_ERR_INVALID &&
            failed_with(symmcoll_store_barrier(s, "b", 0, 0, 0),
                SYMMCOLL_ERR_INVALID, "count: expected 1 to 4096, found 0"),
        "a barrier's numbers are checked");
}

static inline void check_swapped_timeout(struct symmcoll_store *s)
{
    double before = symmcoll_store_timeout(s);
    double previous = 0;

    ok(symmcoll_store_swap_timeout(s, 2.5, &previous) == SYMMCOLL_OK &&
            previous >= before && previous <= before &&
            symmcoll_store_timeout(s) > 2 && symmcoll_store_timeout(s) < 3 &&
            symmcoll_store_swap_timeout(s, previous, NULL) == SYMMCOLL_OK &&
            symmcoll_store_timeout(s) >= before &&
            symmcoll_store_swap_timeout(s, NAN, NULL) == SYMMCOLL_ERR_INVALID,
        "a timeout can be set for a while and set back");
}

struct task {
    struct symmcoll_store *store;
    int good;
};

static inline void *wait_for_all(void *arg)
{
    static const char *const keys[] = {
        "w/set", "w/add", "w/app", "w/cas", "w/multi"};
    struct task *task = arg;

    task->good = 1;
    for (int i = 0; i < 5; i++)
        task->good &=
            symmcoll_store_wait(task->store, &keys[i], 1, 60) == SYMMCOLL_OK;
    return NULL;
}

static inline void *add_many(void *arg)
{
    struct task *task = arg;

    task->good = 1;
    for (int i = 0; i < ADDS; i++)
        task->good &=
            symmcoll_store_add(task->store, "sum", 1, NULL) == SYMMCOLL_OK;
    return NULL;
}

static inline void check_threads(struct symmcoll_store *s)
{
    pthread_t threads[THREADS];
    struct task tasks[THREADS];
    const char *key = "w/multi";
    const void *value = "";
    const size_t nbytes = 0;
    int good;

    tasks[0] = (struct task){s, 0};
    pthread_create(&threads[0], NULL, wait_for_all, &tasks[0]);
    good = set_text(s, "w/set", "") &&
           symmcoll_store_add(s, "w/add", 0, NULL) == SYMMCOLL_OK &&
           symmcoll_store_append(s, "w/app", "", 0) == SYMMCOLL_OK &&
           symmcoll_store_compare_set(
               s, "w/cas", "", 0, "", 0, NULL, NULL, NULL) == SYMMCOLL_OK &&
           symmcoll_store_multi_set(s, &key, &value, &nbytes, 1) == SYMMCOLL_OK;
    pthread_join(threads[0], NULL);
    ok(good && tasks[0].good, "whatever makes a key wakes who waits for it");

    for (int i = 0; i < THREADS; i++) {
        tasks[i] = (struct task){s, 0};
        pthread_create(&threads[i], NULL, add_many, &tasks[i]);
    }
    good = 1;
    for (int i = 0; i < THREADS; i++) {
        pthread_join(threads[i], NULL);
        good &= tasks[i].good;
    }
    ok(good && holds(s, "sum", "800"), "threads' additions are all counted");
}

/* Runs all points on an empty store. */
static inline void check_common(struct symmcoll_store *s)
{
    ok(symmcoll_store_timeout(s) > 299 && symmcoll_store_timeout(s) < 301,
        "a store's timeout is 300 s at first");
    check_values(s);
    check_counters(s);
    check_compare_set(s);
    check_append_and_delete(s);
    check_waiting(s);
    check_several(s);
    check_barrier(s);
    check_swapped_timeout(s);
    check_arguments(s);
    check_threads(s);
}

#endif
