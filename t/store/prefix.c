/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Tests the prefix store: the contract of stores through a view, and the
 * relation of views to the stores that they are made from.
 */
#include "t/store/contract.h"

static void check_views(
    struct symmcoll_store *store, struct symmcoll_store *view)
{
    static char longest[4097];
    struct symmcoll_store *inner = NULL;
    size_t of_store = 0;
    size_t of_view = 1;

    ok(set_text(view, "k", "v") && holds(store, "p/k", "v"),
        "a key of a view is prefix/key of the store");
    ok(symmcoll_store_create_prefix(view, "q", &inner) == SYMMCOLL_OK &&
            set_text(inner, "k", "w") && holds(store, "p/q/k", "w") &&
            holds(view, "q/k", "w"),
        "views of views compose");
    ok(symmcoll_store_num_keys(store, &of_store) == SYMMCOLL_OK &&
            symmcoll_store_num_keys(view, &of_view) == SYMMCOLL_OK &&
            of_store == of_view,
        "num_keys counts all keys of the table");
    ok(symmcoll_store_underlying(store) == NULL &&
            symmcoll_store_underlying(view) != NULL &&
            set_text(symmcoll_store_underlying(view), "top", "t") &&
            holds(store, "top", "t") &&
            holds(symmcoll_store_underlying(inner), "q/k", "w"),
        "what is under a view is one level down");
    memset(longest, 'k', 4096);
    ok(failed_with(symmcoll_store_set(view, longest, "", 0),
           SYMMCOLL_ERR_INVALID, "with its prefix, found 2 + 4096") &&
            symmcoll_store_set(view, longest + 2, "", 0) == SYMMCOLL_OK &&
            symmcoll_store_delete(view, longest + 2, NULL) == SYMMCOLL_OK,
        "the prefix counts for the length of a key");
    ok(failed_with(symmcoll_store_create_prefix(store, longest, &inner),
           SYMMCOLL_ERR_INVALID, "at most 4095 bytes, found 4096") &&
            failed_with(symmcoll_store_create_prefix(store, NULL, &inner),
                SYMMCOLL_ERR_INVALID, "prefix is NULL"),
        "a prefix that is too long or missing is refused");
    symmcoll_store_close(inner);
}

int main(void)
{
    struct symmcoll_store *store = NULL;
    struct symmcoll_store *view = NULL;

    alarm(600);
    plan(CONTRACT_POINTS + 8);
    if (!ok(symmcoll_store_create_hash(&store) == SYMMCOLL_OK &&
                symmcoll_store_create_prefix(store, "p", &view) == SYMMCOLL_OK,
            "a view of a store can be made"))
        return done_testing();
    check_contract(view);
    check_views(store, view);
    symmcoll_store_close(store);
    ok(holds(view, "k", "v"), "a view outlives the handle it was made of");
    symmcoll_store_close(view);
    return done_testing();
}
