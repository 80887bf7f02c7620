/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Tests that every kind of store must pass, as one body of CONTRACT_POINTS
 * points: queues and lists of keys, and the common tests.
 */
#ifndef T_STORE_CONTRACT_H
#define T_STORE_CONTRACT_H

#include "t/store/common.h"

#define CONTRACT_POINTS (COMMON_POINTS + 10)

/* Returns whether a pop without waiting takes this text. */
static inline int pops(
    struct symmcoll_store *s, const char *key, const char *text)
{
    void *value = NULL;
    size_t nbytes = 0;
    int good =
        symmcoll_store_queue_pop(s, key, 0, &value, &nbytes) == SYMMCOLL_OK &&
        nbytes == strlen(text) && strcmp(value, text) == 0;

    free(value);
    return good;
}

static inline int has_length(
    struct symmcoll_store *s, const char *key, size_t wanted)
{
    size_t length = wanted + 1;

    return symmcoll_store_queue_len(s, key, &length) == SYMMCOLL_OK &&
           length == wanted;
}

static inline void *push_later(void *arg)
{
    struct symmcoll_store *store = arg;

    usleep(20000);
    return symmcoll_store_queue_push(store, "late", "l", 1) == SYMMCOLL_OK
               ? store
               : NULL;
}

static inline void check_queues(struct symmcoll_store *s)
{
    pthread_t thread;
    const char *key = "q";
    void *value = NULL;
    size_t before = 0, after = 0, nbytes = 0;

    ok(symmcoll_store_num_keys(s, &before) == SYMMCOLL_OK &&
            symmcoll_store_queue_push(s, "q", "one", 3) == SYMMCOLL_OK &&
            symmcoll_store_queue_push(s, "q", NULL, 0) == SYMMCOLL_OK &&
            symmcoll_store_queue_push(s, "q", "three", 5) == SYMMCOLL_OK &&
            has_length(s, "q", 3) &&
            symmcoll_store_num_keys(s, &after) == SYMMCOLL_OK &&
            after == before + 1 &&
            symmcoll_store_wait(s, &key, 1, 0) == SYMMCOLL_OK,
        "values are pushed into a queue, which is a key that exists");
    ok(failed_with(symmcoll_store_get(s, "q", &value, &nbytes),
           SYMMCOLL_ERR_INVALID, "q\": expected a value, found a queue") &&
            symmcoll_store_add(s, "q", 1, NULL) == SYMMCOLL_ERR_INVALID &&
            symmcoll_store_append(s, "q", "x", 1) == SYMMCOLL_ERR_INVALID &&
            failed_with(symmcoll_store_queue_push(s, "a", "x", 1),
                SYMMCOLL_ERR_INVALID, "expected a queue, found a value") &&
            symmcoll_store_queue_pop(s, "a", 0, &value, &nbytes) ==
                SYMMCOLL_ERR_INVALID &&
            symmcoll_store_queue_len(s, "a", &nbytes) == SYMMCOLL_ERR_INVALID,
        "a queue is no value, and a value no queue");
    ok(pops(s, "q", "one") && pops(s, "q", "") && has_length(s, "q", 1) &&
            pops(s, "q", "three"),
        "they are popped in the order in which they were pushed");
    ok(is_absent(s, "q") && has_length(s, "q", 0) &&
            symmcoll_store_num_keys(s, &after) == SYMMCOLL_OK &&
            after == before,
        "a queue that has become empty is gone");
    value = NULL;
    ok(TIMES_OUT(symmcoll_store_queue_pop(s, "q", 0, &value, &nbytes),
           "queue \"q\" is empty") &&
            TIMES_OUT(symmcoll_store_queue_pop(s, "q", 0.02, &value, &nbytes),
                "no value arrived in queue \"q\" within") &&
            value == NULL,
        "a pop from an empty queue says so, at once or after its timeout");
    pthread_create(&thread, NULL, push_later, s);
    ok(symmcoll_store_queue_pop(s, "late", 60, &value, &nbytes) ==
                SYMMCOLL_OK &&
            nbytes == 1,
        "a pop waits for a push");
    free(value);
    pthread_join(thread, &value);
    ok(value == s && symmcoll_store_queue_push(s, "q", "x", 1) == SYMMCOLL_OK &&
            set_text(s, "q", "value") && holds(s, "q", "value") &&
            symmcoll_store_delete(s, "q", NULL) == SYMMCOLL_OK &&
            symmcoll_store_queue_push(s, "q", "x", 1) == SYMMCOLL_OK &&
            symmcoll_store_delete(s, "q", NULL) == SYMMCOLL_OK &&
            is_absent(s, "q"),
        "set replaces a queue, and delete removes it");
}

static inline void check_lists(struct symmcoll_store *s)
{
    struct symmcoll_store *view = NULL;
    char **keys = NULL;
    size_t count = 0;

    ok(symmcoll_store_create_prefix(s, "list", &view) == SYMMCOLL_OK &&
            symmcoll_store_list_keys(view, &keys, &count) == SYMMCOLL_OK &&
            count == 0 && keys[0] == NULL,
        "a list of no keys is empty");
    free(keys);
    keys = NULL;
    ok(set_text(view, "two", "") && set_text(view, "one/more", "") &&
            symmcoll_store_queue_push(view, "queue", "", 0) == SYMMCOLL_OK &&
            symmcoll_store_list_keys(view, &keys, &count) == SYMMCOLL_OK &&
            count == 3 && strcmp(keys[0], "one/more") == 0 &&
            strcmp(keys[1], "queue") == 0 && strcmp(keys[2], "two") == 0 &&
            keys[3] == NULL,
        "keys are listed in order, those of a view without their prefix");
    free(keys);
    keys = NULL;
    ok(symmcoll_store_list_keys(s, &keys, &count) == SYMMCOLL_OK && count > 3 &&
            strncmp(keys[count - 1], "refcount", 8) != 0,
        "the list of a store has its users' keys");
    free(keys);
    symmcoll_store_close(view);
}

/* Runs all points. */
static inline void check_contract(struct symmcoll_store *s)
{
    check_common(s);
    check_queues(s);
    check_lists(s);
}

#endif
