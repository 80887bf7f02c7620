/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Tests a store implemented by the program: the contract of stores with the
 * fewest functions and with all of them, the errors if they fail, return
 * nonsense or take too long, and ranks that join through it.
 */
#include "t/store/common.h"
#include "t/store/table.h"

#include <stddef.h>
#include <time.h>

/* ---- available functions, and substitutes for the others ---- */

static void few_functions(void)
{
    struct table table;
    struct symmcoll_store_functions functions = least(&table);
    struct symmcoll_store *store = open_store(&functions);
    char **keys = NULL;
    void *value;
    size_t nbytes;

    check_common(store);
    ok(failed_with(symmcoll_store_queue_push(store, "q", "v", 1),
           SYMMCOLL_ERR_UNSUPPORTED, "no queues") &&
            failed_with(
                symmcoll_store_queue_pop(store, "q", 0, &value, &nbytes),
                SYMMCOLL_ERR_UNSUPPORTED, "no queues") &&
            failed_with(symmcoll_store_queue_len(store, "q", &nbytes),
                SYMMCOLL_ERR_UNSUPPORTED, "no queues") &&
            failed_with(symmcoll_store_list_keys(store, &keys, &nbytes),
                SYMMCOLL_ERR_UNSUPPORTED, "no lists of keys"),
        "queues and lists are UNSUPPORTED");
    symmcoll_store_close(store);
    ok(table.closes == 1, "the last handle closes the table");
}

static void all_functions(void)
{
    struct table table;
    struct symmcoll_store_functions functions = least(&table);
    struct symmcoll_store *store, *view = NULL, *clone = NULL;
    const char *key = "k";
    int64_t sum = 0;

    functions.set = set;
    functions.add = add;
    functions.append = append;
    functions.wait = wait_for;
    store = open_store(&functions);
    ok(set_text(store, "k", "v") && holds(store, "k", "v") &&
            symmcoll_store_add(store, "n", 3, &sum) == SYMMCOLL_OK &&
            sum == 3 &&
            symmcoll_store_append(store, "k", "w", 1) == SYMMCOLL_OK &&
            holds(store, "k", "vw") && table.sets == 1 && table.adds == 1 &&
            table.appends == 1,
        "functions that are there are called");
    key = "gone";
    ok(symmcoll_store_wait(store, &key, 1, 0.02) == SYMMCOLL_ERR_TIMEOUT &&
            table.waits > 0,
        "wait is one of them");
    ok(symmcoll_store_create_prefix(store, "p", &view) == SYMMCOLL_OK &&
            symmcoll_store_clone(view, &clone) == SYMMCOLL_OK &&
            set_text(clone, "k", "x") && holds(store, "p/k", "x"),
        "a view of it can be made, and cloned");
    symmcoll_store_close(store);
    symmcoll_store_close(view);
    ok(table.closes == 0 && holds(clone, "k", "x"),
        "it stays open for the view");
    symmcoll_store_close(clone);
    ok(table.closes == 1, "and is closed with it");
}

static void without_comparing(void)
{
    struct table table;
    struct symmcoll_store_functions functions = least(&table);
    struct symmcoll_store *store;
    size_t count;

    functions.set = set;
    functions.compare_set = NULL;
    functions.remove = NULL;
    functions.num_keys = NULL;
    store = open_store(&functions);
    ok(set_text(store, "k", "v") && holds(store, "k", "v") &&
            failed_with(symmcoll_store_compare_set(
                            store, "k", "v", 1, "w", 1, NULL, NULL, NULL),
                SYMMCOLL_ERR_UNSUPPORTED, "no compare_set") &&
            failed_with(symmcoll_store_add(store, "n", 1, NULL),
                SYMMCOLL_ERR_UNSUPPORTED, "no add and no compare_set") &&
            failed_with(symmcoll_store_append(store, "n", "1", 1),
                SYMMCOLL_ERR_UNSUPPORTED, "no append and no compare_set") &&
            failed_with(symmcoll_store_delete(store, "k", NULL),
                SYMMCOLL_ERR_UNSUPPORTED, "no remove") &&
            failed_with(symmcoll_store_num_keys(store, &count),
                SYMMCOLL_ERR_UNSUPPORTED, "no num_keys"),
        "what cannot be made of the functions is UNSUPPORTED, with their name");
    symmcoll_store_close(store);
}

static void without_removing(void)
{
    struct table table;
    struct symmcoll_store_functions functions = least(&table);
    struct symmcoll_store *store;
    bool good = true;

    functions.remove = NULL;
    store = open_store(&functions);
    for (int i = 0; i < 3 && good; i++)
        good = symmcoll_store_barrier(store, "b", 0, 1, 5) == SYMMCOLL_OK;
    if (!good)
        diag("%s", symmcoll_last_error());
    ok(good, "a barrier does not need remove, time after time");
    symmcoll_store_close(store);
}

/* Returns the functions of a store like torch.distributed.Store. */
static struct symmcoll_store_functions by_value(struct table *table)
{
    struct symmcoll_store_functions functions = least(table);

    functions.get = NULL;
    functions.compare_set = NULL;
    functions.check = check;
    functions.wait_get = wait_get;
    functions.compare_set_value = compare_set_value;
    functions.set = set;
    functions.add = add;
    functions.append = append;
    return functions;
}

static void values_alone(void)
{
    struct table table;
    struct symmcoll_store_functions functions = by_value(&table);
    struct symmcoll_store *store = open_store(&functions);
    const char *key = "none";
    void *value;
    size_t nbytes;

    check_compare_set(store);
    ok(set_text(store, "k", "v") && holds(store, "k", "v") &&
            is_absent(store, "none") &&
            TIMES_OUT(symmcoll_store_wait(store, &key, 1, 0.02), "none") &&
            symmcoll_store_set_timeout(store, 0.02) == SYMMCOLL_OK &&
            TIMES_OUT(symmcoll_store_get(store, "none", &value, &nbytes),
                "did not appear"),
        "keys are looked for by check and read by wait_get");
    table.status = SYMMCOLL_ERR_SYSTEM;
    ok(failed_with(symmcoll_store_get(store, "k", &value, &nbytes),
           SYMMCOLL_ERR_SYSTEM, "the program's check returned SYSTEM") &&
            failed_with(symmcoll_store_compare_set(
                            store, "k", "v", 1, "w", 1, NULL, NULL, NULL),
                SYMMCOLL_ERR_SYSTEM,
                "the program's compare_set_value returned SYSTEM"),
        "an error of check is named, and one of compare_set_value");
    symmcoll_store_close(store);
    functions = by_value(&table);
    functions.append = NULL;
    store = open_store(&functions);
    ok(failed_with(symmcoll_store_append(store, "k", "v", 1),
           SYMMCOLL_ERR_UNSUPPORTED, "no append and no compare_set"),
        "append is not made of a compare_set that returns values alone");
    symmcoll_store_close(store);
    functions = least(&table);
    functions.size = offsetof(struct symmcoll_store_functions, check);
    functions.check = check;
    functions.get = NULL;
    store = NULL;
    ok(failed_with(symmcoll_store_create_user(&functions, &store),
           SYMMCOLL_ERR_INVALID, "found get NULL and neither") &&
            store == NULL,
        "members after the struct's size are not read");
    functions.get = get;
    store = open_store(&functions);
    ok(set_text(store, "k", "v") && holds(store, "k", "v"),
        "a program built before they came goes on");
    symmcoll_store_close(store);
}

static void refused(void)
{
    struct table table;
    struct symmcoll_store_functions functions = least(&table);
    struct symmcoll_store *store = NULL;

    ok(failed_with(symmcoll_store_create_user(NULL, &store),
           SYMMCOLL_ERR_INVALID, "functions is NULL") &&
            failed_with(symmcoll_store_create_user(&functions, NULL),
                SYMMCOLL_ERR_INVALID, "store is NULL"),
        "a table and a place for the handle are needed");
    functions.get = NULL;
    ok(failed_with(symmcoll_store_create_user(&functions, &store),
           SYMMCOLL_ERR_INVALID, "found get NULL"),
        "get is needed");
    functions.check = check;
    ok(failed_with(symmcoll_store_create_user(&functions, &store),
           SYMMCOLL_ERR_INVALID, "found get NULL and no wait_get"),
        "or both of those it is made of");
    functions.get = get;
    functions.compare_set = NULL;
    ok(failed_with(symmcoll_store_create_user(&functions, &store),
           SYMMCOLL_ERR_INVALID, "found both NULL") &&
            store == NULL && table.closes == 0,
        "and one of set and compare_set; nothing has been closed");
    close_table(&table);
}

/* ---- failing functions ---- */

static void failing(void)
{
    struct table table;
    struct symmcoll_store_functions functions = least(&table);
    struct symmcoll_store *store;
    const char *key = "k";
    void *value;
    size_t nbytes;
    int exist;

    functions.set = set;
    store = open_store(&functions);
    table.status = SYMMCOLL_ERR_SYSTEM;
    ok(failed_with(symmcoll_store_get(store, "k", &value, &nbytes),
           SYMMCOLL_ERR_SYSTEM,
           "key \"k\": the program's get returned SYSTEM") &&
            failed_with(symmcoll_store_set(store, "k", "v", 1),
                SYMMCOLL_ERR_SYSTEM, "set returned SYSTEM") &&
            failed_with(symmcoll_store_add(store, "k", 1, NULL),
                SYMMCOLL_ERR_SYSTEM, "get returned SYSTEM") &&
            failed_with(symmcoll_store_check(store, &key, 1, &exist),
                SYMMCOLL_ERR_SYSTEM, "get returned SYSTEM") &&
            failed_with(symmcoll_store_wait(store, &key, 1, 5),
                SYMMCOLL_ERR_SYSTEM, "get returned SYSTEM") &&
            failed_with(symmcoll_store_num_keys(store, &nbytes),
                SYMMCOLL_ERR_SYSTEM, "num_keys returned SYSTEM"),
        "an error of a function is the call's, with its name");
    for (int i = 0; i < 2; i++) {
        table.status = i == 0 ? 7 : -99;
        exist = failed_with(symmcoll_store_get(store, "k", &value, &nbytes),
            SYMMCOLL_ERR_INVALID,
            i == 0 ? "from the program's get, found 7"
                   : "from the program's get, found -99");
        ok(exist, "a status that does not exist is INVALID (%d)",
            (int)table.status);
    }
    table.status = SYMMCOLL_OK;
    if (!set_text(store, "k", "v"))
        diag("it does not work again");
    table.value_is_null = true;
    ok(failed_with(symmcoll_store_get(store, "k", &value, &nbytes),
           SYMMCOLL_ERR_INVALID, "found 1 bytes at NULL"),
        "a value at NULL is refused");
    table.value_is_null = false;
    table.nbytes = SIZE_MAX;
    ok(failed_with(symmcoll_store_get(store, "k", &value, &nbytes),
           SYMMCOLL_ERR_INVALID, "at most 16777216 bytes"),
        "a value that is too long is refused");
    table.nbytes = 0;
    table.stores_nothing = true;
    ok(symmcoll_store_set_timeout(store, 0.05) == SYMMCOLL_OK &&
            failed_with(symmcoll_store_add(store, "n", 1, NULL),
                SYMMCOLL_ERR_TIMEOUT, "compare_set stored nothing"),
        "a compare_set that stores nothing ends with the timeout");
    symmcoll_store_close(store);
}

static void *set_later(void *arg)
{
    struct timespec time = {0, 20 * 1000 * 1000};

    nanosleep(&time, NULL);
    set_text(arg, "later", "v");
    return NULL;
}

static void waiting(void)
{
    struct table table;
    struct symmcoll_store_functions functions = least(&table);
    struct symmcoll_store *store;
    const char *keys[] = {"here", "later"};
    pthread_t thread;
    int right;

    functions.wait = wait_for;
    store = open_store(&functions);
    if (!set_text(store, "here", "v"))
        exit(1);
    table.wait_is_early = true;
    ok(failed_with(symmcoll_store_wait(store, keys, 2, 0.05),
           SYMMCOLL_ERR_TIMEOUT, "key \"later\" did not appear"),
        "a wait that returns early is not believed");
    pthread_create(&thread, NULL, set_later, store);
    right = symmcoll_store_wait(store, keys, 2, 60) == SYMMCOLL_OK;
    pthread_join(thread, NULL);
    ok(right, "and the key is found when it comes");
    keys[1] = "never";
    table.wait_is_early = false;
    table.wait_takes = 0.2;
    ok(failed_with(symmcoll_store_wait(store, keys, 2, 0.01),
           SYMMCOLL_ERR_TIMEOUT, "key \"never\" did not appear within 0.01 s"),
        "a wait that takes too long ends with the timeout");
    keys[1] = "later";
    ok(symmcoll_store_wait(store, keys, 2, 0) == SYMMCOLL_OK &&
            symmcoll_store_wait(store, keys, 2, INFINITY) == SYMMCOLL_OK,
        "keys that are there are found without it");
    symmcoll_store_close(store);
}

/* ---- joining ---- */

struct rank {
    struct symmcoll_store *store;
    int number;
    symmcoll_status_t status;
    int sum;
    char detail[512];
};

static void *run_rank(void *arg)
{
    struct rank *rank = arg;
    struct symmcoll_init_args args = SYMMCOLL_INIT_ARGS_INIT;
    struct symmcoll_world *world;
    int one = 1;

    args.store = rank->store;
    args.rank = rank->number;
    args.world_size = 2;
    args.timeout = 60;
    rank->status = symmcoll_init(&args, &world);
    snprintf(rank->detail, sizeof(rank->detail), "%s", symmcoll_last_error());
    if (rank->status != SYMMCOLL_OK)
        return NULL;
    rank->status = symmcoll_all_reduce(symmcoll_world_group(world), &rank->sum,
        &one, 1, SYMMCOLL_INT32, SYMMCOLL_SUM, NULL, NULL);
    if (symmcoll_finalize(world) != SYMMCOLL_OK)
        rank->status = SYMMCOLL_ERR_INTERNAL;
    return NULL;
}

static void joining(void)
{
    struct table table;
    struct symmcoll_store_functions functions = least(&table);
    struct symmcoll_store *store;
    struct rank ranks[2];
    pthread_t thread;

    functions.remove = NULL;
    functions.num_keys = NULL;
    store = open_store(&functions);
    for (int r = 0; r < 2; r++)
        ranks[r] = (struct rank){.store = store, .number = r};
    pthread_create(&thread, NULL, run_rank, &ranks[1]);
    run_rank(&ranks[0]);
    pthread_join(thread, NULL);
    ok(ranks[0].status == SYMMCOLL_OK && ranks[1].status == SYMMCOLL_OK &&
            ranks[0].sum == 2 && ranks[1].sum == 2,
        "ranks join through get and compare_set alone");
    if (ranks[0].status != SYMMCOLL_OK)
        diag("rank 0: %s", ranks[0].detail);
    table.status = SYMMCOLL_ERR_SYSTEM;
    run_rank(&ranks[0]);
    ok(ranks[0].status == SYMMCOLL_ERR_SYSTEM &&
            strstr(ranks[0].detail, "the program's get returned SYSTEM"),
        "a store that fails while they join is named");
    symmcoll_store_close(store);

    functions = by_value(&table);
    store = open_store(&functions);
    for (int r = 0; r < 2; r++)
        ranks[r] = (struct rank){.store = store, .number = r};
    pthread_create(&thread, NULL, run_rank, &ranks[1]);
    run_rank(&ranks[0]);
    pthread_join(thread, NULL);
    ok(ranks[0].status == SYMMCOLL_OK && ranks[1].status == SYMMCOLL_OK &&
            ranks[0].sum == 2 && ranks[1].sum == 2,
        "and through a compare_set that returns values alone");
    symmcoll_store_close(store);

    functions = least(&table);
    functions.set = set;
    functions.compare_set = NULL;
    store = open_store(&functions);
    ranks[0] = (struct rank){.store = store};
    run_rank(&ranks[0]);
    ok(ranks[0].status == SYMMCOLL_ERR_UNSUPPORTED &&
            strstr(ranks[0].detail, "no compare_set"),
        "without compare_set they cannot join");
    symmcoll_store_close(store);
}

int main(void)
{
    alarm(600);
    plan(COMMON_POINTS + 5 + 32);
    few_functions();
    all_functions();
    without_comparing();
    without_removing();
    values_alone();
    refused();
    failing();
    waiting();
    joining();
    return done_testing();
}
