/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Tests the fake store: it accepts everything, stores nothing and never
 * blocks, and ranks cannot join through it.
 */
#include "t/store/helpers.h"
#include "t/tap.h"

#include <math.h>

/* Checks that a key exists with an empty value. */
static int is_empty(struct symmcoll_store *store, const char *key)
{
    void *value = NULL;
    size_t nbytes = 1;
    int good = symmcoll_store_get(store, key, &value, &nbytes) == SYMMCOLL_OK &&
               nbytes == 0 && ((const char *)value)[0] == '\0';

    free(value);
    return good;
}

static int takes_changes(struct symmcoll_store *store)
{
    const char *keys[] = {"a", "b"};
    const void *values[] = {"1", "2"};
    const size_t lengths[] = {1, 1};
    enum symmcoll_store_outcome outcome = SYMMCOLL_STORE_DIFFERS;
    int64_t sum = 0;
    int removed = 1;

    return set_text(store, "a", "text") && is_empty(store, "a") &&
           symmcoll_store_add(store, "a", 3, &sum) == SYMMCOLL_OK && sum == 3 &&
           symmcoll_store_add(store, "a", 4, &sum) == SYMMCOLL_OK && sum == 4 &&
           symmcoll_store_append(store, "a", "x", 1) == SYMMCOLL_OK &&
           symmcoll_store_compare_set(store, "a", "", 0, "y", 1, &outcome, NULL,
               NULL) == SYMMCOLL_OK &&
           outcome == SYMMCOLL_STORE_CREATED &&
           symmcoll_store_multi_set(store, keys, values, lengths, 2) ==
               SYMMCOLL_OK &&
           symmcoll_store_delete(store, "a", &removed) == SYMMCOLL_OK &&
           removed == 0;
}

static int never_blocks(struct symmcoll_store *store)
{
    const char *keys[] = {"no", "nor this"};
    void *value = NULL;
    char **list = NULL;
    size_t nbytes = 1, count = 1;
    int exist = 0;
    int good =
        symmcoll_store_wait(store, keys, 2, INFINITY) == SYMMCOLL_OK &&
        symmcoll_store_check(store, keys, 2, &exist) == SYMMCOLL_OK && exist &&
        symmcoll_store_queue_push(store, "q", "v", 1) == SYMMCOLL_OK &&
        symmcoll_store_queue_len(store, "q", &count) == SYMMCOLL_OK &&
        count == 0 &&
        symmcoll_store_queue_pop(store, "q", INFINITY, &value, &nbytes) ==
            SYMMCOLL_OK &&
        nbytes == 0 &&
        symmcoll_store_barrier(store, "b", 2, 512, INFINITY) == SYMMCOLL_OK &&
        symmcoll_store_barrier(store, "b", 2, 512, INFINITY) == SYMMCOLL_OK &&
        symmcoll_store_num_keys(store, &count) == SYMMCOLL_OK && count == 0 &&
        symmcoll_store_list_keys(store, &list, &count) == SYMMCOLL_OK &&
        count == 0;

    free(value);
    free(list);
    return good;
}

/* Checks that ranks cannot join, because they would wait for each other. */
static int joins_nobody(struct symmcoll_store *store)
{
    struct symmcoll_init_args args = SYMMCOLL_INIT_ARGS_INIT;
    struct symmcoll_world *world = NULL;

    args.store = store;
    args.rank = 0;
    args.world_size = 2;
    return failed_with(symmcoll_init(&args, &world), SYMMCOLL_ERR_INVALID,
        "found a fake store");
}

static int world_has_one(void)
{
    struct symmcoll_fake_args args = SYMMCOLL_FAKE_ARGS_INIT;
    struct symmcoll_world *world = NULL;
    int good;

    args.rank = 1;
    args.world_size = 8;
    good = symmcoll_fake_world(&args, &world) == SYMMCOLL_OK &&
           symmcoll_world_store(world) != NULL &&
           never_blocks(symmcoll_world_store(world)) &&
           symmcoll_finalize(world) == SYMMCOLL_OK;
    if (!good)
        diag("%s", symmcoll_last_error());
    return good;
}

int main(void)
{
    struct symmcoll_store *store = NULL, *view = NULL, *clone = NULL;

    alarm(120);
    plan(6);
    ok(symmcoll_store_create_fake(NULL) == SYMMCOLL_ERR_INVALID &&
            symmcoll_store_create_fake(&store) == SYMMCOLL_OK &&
            symmcoll_store_create_prefix(store, "p", &view) == SYMMCOLL_OK &&
            symmcoll_store_clone(view, &clone) == SYMMCOLL_OK,
        "a fake store is made, and views and clones of it");
    ok(takes_changes(store) && takes_changes(clone),
        "it takes every change, as if the key were absent (R17)");
    ok(never_blocks(store) && never_blocks(clone),
        "nothing blocks: every key is there, and empty (R17)");
    ok(set_text(store, "k", "v") &&
            symmcoll_store_set(store, NULL, "", 0) == SYMMCOLL_ERR_INVALID,
        "its arguments are checked");
    ok(joins_nobody(store) && joins_nobody(clone),
        "ranks that are there do not join through it (R17)");
    ok(world_has_one(), "the store of a fake world is one (R17)");
    symmcoll_store_close(clone);
    symmcoll_store_close(view);
    symmcoll_store_close(store);
    return done_testing();
}
