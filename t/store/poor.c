/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Tests a store without memory, at each allocation of each call: the call
 * fails, and the store is unchanged and usable. The linker makes all
 * allocations of the library call the wrapper here.
 */
#include "t/store/helpers.h"
#include "t/tap.h"

#include <symmcoll.h>

#include <stdbool.h>

#define MOST 64 /* allocations of one call */

void *__real_symc_alloc(size_t count, size_t size);
void *__wrap_symc_alloc(size_t count, size_t size);

/* The number of this thread's allocations before the one that fails; -1: none does. */
static _Thread_local int left = -1;

void *__wrap_symc_alloc(size_t count, size_t size)
{
    bool fails = left == 0;

    if (left >= 0)
        left--;
    return fails ? __real_symc_alloc(SIZE_MAX, 2)
                 : __real_symc_alloc(count, size);
}

typedef symmcoll_status_t (*call_fn)(struct symmcoll_store *store);

static symmcoll_status_t set(struct symmcoll_store *store)
{
    return symmcoll_store_set(store, "new", "x", 1);
}

static symmcoll_status_t replace(struct symmcoll_store *store)
{
    return symmcoll_store_set(store, "a", "longer than before", 18);
}

static symmcoll_status_t get(struct symmcoll_store *store)
{
    void *value = NULL;
    size_t nbytes;
    symmcoll_status_t status = symmcoll_store_get(store, "a", &value, &nbytes);

    free(value);
    return status;
}

static symmcoll_status_t add(struct symmcoll_store *store)
{
    return symmcoll_store_add(store, "new", 7, NULL);
}

static symmcoll_status_t append(struct symmcoll_store *store)
{
    return symmcoll_store_append(store, "a", "more", 4);
}

static symmcoll_status_t compare_set(struct symmcoll_store *store)
{
    return symmcoll_store_compare_set(
        store, "a", "one", 3, "two", 3, NULL, NULL, NULL);
}

static symmcoll_status_t multi_set(struct symmcoll_store *store)
{
    static const char *const keys[] = {"a", "new", "newer"};
    static const void *const values[] = {"two", "x", "y"};
    static const size_t nbytes[] = {3, 1, 1};

    return symmcoll_store_multi_set(store, keys, values, nbytes, 3);
}

static symmcoll_status_t multi_get(struct symmcoll_store *store)
{
    static const char *const keys[] = {"a", "n"};
    void *values[] = {NULL, NULL};
    size_t nbytes[2];
    symmcoll_status_t status =
        symmcoll_store_multi_get(store, keys, values, nbytes, 2);

    if (status == SYMMCOLL_OK) {
        free(values[0]);
        free(values[1]);
    }
    return status;
}

static symmcoll_status_t check(struct symmcoll_store *store)
{
    static const char *const keys[] = {"a", "n"};
    int exist;

    return symmcoll_store_check(store, keys, 2, &exist);
}

static symmcoll_status_t remove_key(struct symmcoll_store *store)
{
    return symmcoll_store_delete(store, "a", NULL);
}

static symmcoll_status_t push(struct symmcoll_store *store)
{
    return symmcoll_store_queue_push(store, "q", "second", 6);
}

static symmcoll_status_t pop(struct symmcoll_store *store)
{
    void *value = NULL;
    size_t nbytes;
    symmcoll_status_t status =
        symmcoll_store_queue_pop(store, "q", 0, &value, &nbytes);

    free(value);
    return status;
}

static symmcoll_status_t list(struct symmcoll_store *store)
{
    char **keys = NULL;
    size_t count;
    symmcoll_status_t status = symmcoll_store_list_keys(store, &keys, &count);

    free(keys);
    return status;
}

static symmcoll_status_t clone(struct symmcoll_store *store)
{
    struct symmcoll_store *made = NULL;
    symmcoll_status_t status = symmcoll_store_clone(store, &made);

    symmcoll_store_close(made);
    return status;
}

static symmcoll_status_t view(struct symmcoll_store *store)
{
    struct symmcoll_store *made = NULL;
    symmcoll_status_t status =
        symmcoll_store_create_prefix(store, "view", &made);

    symmcoll_store_close(made);
    return status;
}

static void ignore(const struct symmcoll_store_event *event, void *arg)
{
    (void)event;
    (void)arg;
}

static symmcoll_status_t watch(struct symmcoll_store *store)
{
    struct symmcoll_watch *made = NULL;
    symmcoll_status_t status =
        symmcoll_store_watch(store, "a", ignore, NULL, &made);

    symmcoll_watch_free(made);
    return status;
}

/* The lowest descriptor that is free. */
static int find_descriptor(void)
{
    int found = dup(STDIN_FILENO);

    close(found);
    return found;
}

static bool has_length(
    struct symmcoll_store *store, const char *queue, size_t expected)
{
    size_t length = 0;

    return symmcoll_store_queue_len(store, queue, &length) == SYMMCOLL_OK &&
           length == expected;
}

/* Sets "a" to the text "one", "n" to a counter and "q" to a queue of one
 * element. */
static bool fill(struct symmcoll_store *store)
{
    return symmcoll_store_delete(store, "new", NULL) == SYMMCOLL_OK &&
           symmcoll_store_delete(store, "newer", NULL) == SYMMCOLL_OK &&
           symmcoll_store_delete(store, "q", NULL) == SYMMCOLL_OK &&
           set_text(store, "a", "one") && set_text(store, "n", "1") &&
           symmcoll_store_queue_push(store, "q", "first", 5) == SYMMCOLL_OK;
}

static bool is_filled(struct symmcoll_store *store, int descriptor)
{
    return find_descriptor() == descriptor && holds(store, "a", "one") &&
           holds(store, "n", "1") && has_length(store, "q", 1) &&
           is_absent(store, "new") && is_absent(store, "newer");
}

/* Makes one call more than it has allocations. Returns how many failed, or
 * -1. */
static int outlive(struct symmcoll_store *store, call_fn call)
{
    for (int succeed = 0; succeed < MOST; succeed++) {
        int descriptor = find_descriptor();
        symmcoll_status_t status;

        if (!fill(store))
            return -1;
        left = succeed;
        status = call(store);
        left = -1;
        if (status == SYMMCOLL_OK)
            return succeed;
        if (!failed_with(status, SYMMCOLL_ERR_NO_MEMORY, "memory") ||
            !is_filled(store, descriptor)) {
            diag("allocation %d: %s: %s", succeed, symmcoll_status_name(status),
                symmcoll_last_error());
            return -1;
        }
    }
    return -1;
}

static void check_store(struct symmcoll_store *store, const char *kind)
{
    static const struct {
        call_fn call;
        const char *name;
    } calls[] = {{set, "set"}, {replace, "set of an older value"}, {get, "get"},
        {add, "add"}, {append, "append"}, {compare_set, "compare_set"},
        {multi_set, "multi_set"}, {multi_get, "multi_get"}, {check, "check"},
        {remove_key, "delete"}, {push, "queue_push"}, {pop, "queue_pop"},
        {list, "list_keys"}, {clone, "clone"}, {view, "create_prefix"},
        {watch, "watch"}};
    bool right = true;
    int failed = 0;

    for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++) {
        int count = outlive(store, calls[i].call);

        if (count < 0)
            diag("%s: %s", kind, calls[i].name);
        right = right && count >= 0;
        failed += count;
    }
    ok(right && failed > 10,
        "%s: a call without memory fails and changes nothing", kind);
}

int main(void)
{
    struct symmcoll_store *hash, *file, *prefix;
    const char *path = scratch_path();

    if (symmcoll_store_create_hash(&hash) != SYMMCOLL_OK ||
        symmcoll_store_open_file(path, 1, &file) != SYMMCOLL_OK ||
        symmcoll_store_create_prefix(hash, "prefix", &prefix) != SYMMCOLL_OK)
        exit(1);
    check_store(hash, "hash store");
    check_store(file, "file store");
    check_store(prefix, "view");
    symmcoll_store_close(prefix);
    symmcoll_store_close(file);
    symmcoll_store_close(hash);
    unlink(path);
    return done_testing();
}
