/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Tests the hash store: the contract of stores, and handles that outlive each
 * other.
 */
#include "t/store/contract.h"

/* Checks that an error contains the first 76 bytes of a key, and marks longer
 * keys. */
static int shows_key(struct symmcoll_store *store, int length)
{
    char key[80] = "", shown[96];

    memset(key, 'k', (size_t)length);
    snprintf(
        shown, sizeof(shown), "\"%.76s%s\"", key, length > 76 ? "..." : "");
    return set_text(store, key, "text") &&
           failed_with(symmcoll_store_add(store, key, 1, NULL),
               SYMMCOLL_ERR_INVALID, shown) &&
           symmcoll_store_delete(store, key, NULL) == SYMMCOLL_OK;
}

/* Checks the error of each call with an invalid key, or with an invalid second
 * key. */
static int names_key(
    struct symmcoll_store *s, const char *key, const char *text)
{
    const char *keys[] = {"a", key};
    const void *values[] = {"", ""};
    const size_t lengths[] = {0, 0};
    void *got[] = {NULL, NULL};
    size_t n[2];
    int exist;

#define SAYS(call) failed_with(call, SYMMCOLL_ERR_INVALID, text)
    return SAYS(symmcoll_store_set(s, key, "", 0)) &&
           SAYS(symmcoll_store_get(s, key, got, n)) &&
           SAYS(symmcoll_store_add(s, key, 1, NULL)) &&
           SAYS(symmcoll_store_append(s, key, "", 0)) &&
           SAYS(symmcoll_store_compare_set(
               s, key, "", 0, "", 0, NULL, NULL, NULL)) &&
           SAYS(symmcoll_store_delete(s, key, NULL)) &&
           SAYS(symmcoll_store_queue_push(s, key, "", 0)) &&
           SAYS(symmcoll_store_queue_pop(s, key, 0, got, n)) &&
           SAYS(symmcoll_store_queue_len(s, key, n)) &&
           SAYS(symmcoll_store_barrier(s, key, 0, 1, 0)) &&
           SAYS(symmcoll_store_wait(s, keys, 2, 0)) &&
           SAYS(symmcoll_store_check(s, keys, 2, &exist)) &&
           SAYS(symmcoll_store_multi_set(s, keys, values, lengths, 2)) &&
           SAYS(symmcoll_store_multi_get(s, keys, got, n, 2));
}

static int names_keys(struct symmcoll_store *s)
{
    char key[4098] = "";

    memset(key, 'k', sizeof(key) - 1);
    return names_key(s, NULL, "key is NULL") && names_key(NULL, "a", "store") &&
           names_key(s, key, "expected at most 4096 bytes, found 4097");
}

/* Checks the errors for a missing result pointer and for a NULL value. */
static int names_results(struct symmcoll_store *s)
{
    const char *keys[] = {"a", "b"};
    const void *values[] = {"", NULL};
    const size_t lengths[] = {0, 1};
    void *got[] = {NULL, NULL};
    const char *text = " is NULL";
    size_t n[2];

    return SAYS(symmcoll_store_get(s, "a", NULL, n)) &&
           SAYS(symmcoll_store_get(s, "a", got, NULL)) &&
           SAYS(symmcoll_store_check(s, keys, 2, NULL)) &&
           SAYS(symmcoll_store_check(s, NULL, 2, NULL)) &&
           SAYS(symmcoll_store_queue_pop(s, "a", 0, NULL, n)) &&
           SAYS(symmcoll_store_queue_len(s, "a", NULL)) &&
           SAYS(symmcoll_store_multi_set(s, keys, values, lengths, 2)) &&
           SAYS(symmcoll_store_multi_set(s, keys, NULL, lengths, 2)) &&
           SAYS(symmcoll_store_multi_get(s, keys, NULL, n, 2)) &&
           SAYS(symmcoll_store_multi_get(s, keys, got, NULL, 2)) &&
           SAYS(symmcoll_store_num_keys(s, NULL)) && is_absent(s, "a");
}

int main(void)
{
    struct symmcoll_store *store = NULL;
    struct symmcoll_store *clone = NULL;
    size_t count = 99;

    alarm(600);
    plan(CONTRACT_POINTS + 8);
    ok(symmcoll_store_create_hash(NULL) == SYMMCOLL_ERR_INVALID,
        "a place for the handle is needed");
    if (!ok(symmcoll_store_create_hash(&store) == SYMMCOLL_OK &&
                symmcoll_store_num_keys(store, &count) == SYMMCOLL_OK &&
                count == 0,
            "a new hash store is empty"))
        return done_testing();
    ok(shows_key(store, 75) && shows_key(store, 76) && shows_key(store, 77),
        "errors show a key of 76 bytes, and the first 76 of a longer one");
    ok(names_keys(store), "every call refuses a key that is none");
    ok(names_results(store), "and a place for a result that is none");
    check_contract(store);
    ok(symmcoll_store_clone(store, &clone) == SYMMCOLL_OK, "it can be cloned");
    symmcoll_store_close(store);
    ok(holds(clone, "a", "three"), "the table lives as long as a handle");
    symmcoll_store_close(clone);
    symmcoll_store_close(NULL);
    ok(symmcoll_store_underlying(NULL) == NULL, "NULL is no view of anything");
    return done_testing();
}
