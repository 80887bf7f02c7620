/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The hash store: the contract of stores, and handles that outlive each other.
 */
#include "t/store/contract.h"

int main(void)
{
    struct symmcoll_store *store = NULL;
    struct symmcoll_store *clone = NULL;
    size_t count = 99;

    alarm(600);
    plan(CONTRACT_POINTS + 5);
    ok(symmcoll_store_create_hash(NULL) == SYMMCOLL_ERR_INVALID,
        "a place for the handle is needed");
    if (!ok(symmcoll_store_create_hash(&store) == SYMMCOLL_OK &&
                symmcoll_store_num_keys(store, &count) == SYMMCOLL_OK &&
                count == 0,
            "a new hash store is empty"))
        return done_testing();
    check_contract(store);
    ok(symmcoll_store_clone(store, &clone) == SYMMCOLL_OK, "it can be cloned");
    symmcoll_store_close(store);
    ok(holds(clone, "a", "three"), "the table lives as long as a handle");
    symmcoll_store_close(clone);
    symmcoll_store_close(NULL);
    ok(symmcoll_store_underlying(NULL) == NULL, "NULL is no view of anything");
    return done_testing();
}
