/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The hash store: the contract of stores, and handles that outlive each other.
 */
#include "t/store/contract.h"

/* Whether an error shows the first 76 bytes of a key and marks that there are more. */
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

int main(void)
{
    struct symmcoll_store *store = NULL;
    struct symmcoll_store *clone = NULL;
    size_t count = 99;

    alarm(600);
    plan(CONTRACT_POINTS + 6);
    ok(symmcoll_store_create_hash(NULL) == SYMMCOLL_ERR_INVALID,
        "a place for the handle is needed");
    if (!ok(symmcoll_store_create_hash(&store) == SYMMCOLL_OK &&
                symmcoll_store_num_keys(store, &count) == SYMMCOLL_OK &&
                count == 0,
            "a new hash store is empty"))
        return done_testing();
    ok(shows_key(store, 75) && shows_key(store, 76) && shows_key(store, 77),
        "errors show a key of 76 bytes, and the first 76 of a longer one");
    check_contract(store);
    ok(symmcoll_store_clone(store, &clone) == SYMMCOLL_OK, "it can be cloned");
    symmcoll_store_close(store);
    ok(holds(clone, "a", "three"), "the table lives as long as a handle");
    symmcoll_store_close(clone);
    symmcoll_store_close(NULL);
    ok(symmcoll_store_underlying(NULL) == NULL, "NULL is no view of anything");
    return done_testing();
}
