/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A user-defined store, as a table of functions.  Calls that the table lacks
 * are composed of get and compare_set, if that is possible without losing a
 * change of another rank.  Results of the functions are checked before they are
 * used.
 */
#include "store/ops.h"

#include <math.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* The interval at which a key is polled: the first, and the longest. */
#define SHORT_NS (INT64_C(1000) * 1000)
#define LONG_NS (INT64_C(50) * 1000 * 1000)

struct user {
    struct symmcoll_store_functions functions;
    void (*close)(void *user); /* set once the store has been created */
    atomic_size_t handles;
};

static const struct symmcoll_store_functions default_functions =
    SYMMCOLL_STORE_FUNCTIONS_INIT;
static const struct symc_sized functions_kind = {.name = "functions",
    .macro = "SYMMCOLL_STORE_FUNCTIONS_INIT",
    .defaults = &default_functions,
    .nbytes = sizeof(default_functions),
    .least = offsetof(struct symmcoll_store_functions, compare_set)};

/* ---- arguments and results of the functions ---- */

/* Returns the remaining time in seconds, for a function of the user. */
static double find_seconds(int64_t deadline_ns)
{
    int64_t left = deadline_ns - symc_now_ns();

    if (deadline_ns == SYMC_NEVER)
        return (double)INFINITY;
    return left > 0 ? (double)left / (double)SYMC_NS_PER_S : 0;
}

/* Checks the status of a user's function; adds the key to an error, and reports
 * a value that is no status. */
static symmcoll_status_t check_status(
    symmcoll_status_t status, const char *function, const char *key)
{
    char shown[SYMC_KEY_TEXT];

    if (status == SYMMCOLL_OK)
        return SYMMCOLL_OK;
    if (status > 0 || status < SYMMCOLL_ERR_INTERNAL)
        return symc_fail(SYMMCOLL_ERR_INVALID,
            "store: key \"%s\": expected 0 or an error from the program's %s, "
            "found %d",
            symc_key_text(key, shown), function, (int)status);
    return symc_fail(status, "store: key \"%s\": the program's %s returned %s",
        symc_key_text(key, shown), function, symmcoll_status_name(status));
}

static symmcoll_status_t refuse_missing(const char *call, const char *functions)
{
    return symc_fail(SYMMCOLL_ERR_UNSUPPORTED,
        "%s: the program's store has no %s", call, functions);
}

/* Takes a value returned by a function. */
static symmcoll_status_t take_value(void *given, size_t nbytes,
    const char *function, const char *key, struct symc_bytes *value)
{
    char shown[SYMC_KEY_TEXT];
    symmcoll_status_t status;

    if (nbytes > SYMC_STORE_VALUE_MAX || (given == NULL && nbytes > 0))
        status = symc_fail(SYMMCOLL_ERR_INVALID,
            "store: key \"%s\": expected a value of at most %d bytes from the "
            "program's %s, found %zu bytes%s",
            symc_key_text(key, shown), SYMC_STORE_VALUE_MAX, function, nbytes,
            given == NULL ? " at NULL" : "");
    else
        status = symc_bytes_copy(given, nbytes, value);
    free(given);
    return status;
}

static symmcoll_status_t check_user(
    const struct user *user, const char *key, int64_t deadline_ns, bool *found)
{
    int exist = 0;
    symmcoll_status_t status =
        check_status(user->functions.check(user->functions.user, &key, 1,
                         find_seconds(deadline_ns), &exist),
            "check", key);

    *found = exist != 0;
    return status;
}

static symmcoll_status_t find_user(void *table, const char *key,
    int64_t deadline_ns, bool *found, struct symc_bytes *value)
{
    const struct user *user = table;
    const struct symmcoll_store_functions *functions = &user->functions;
    const char *function = functions->get != NULL ? "get" : "wait_get";
    void *given = NULL;
    size_t nbytes = 0;
    int exists = 1;
    symmcoll_status_t status;

    if (functions->get == NULL) {
        status = check_user(user, key, deadline_ns, found);
        if (status != SYMMCOLL_OK || !*found)
            return status;
        status = functions->wait_get(
            functions->user, key, find_seconds(deadline_ns), &given, &nbytes);
    } else {
        status = functions->get(functions->user, key, find_seconds(deadline_ns),
            &exists, &given, &nbytes);
    }
    status = check_status(status, function, key);
    *found = status == SYMMCOLL_OK && exists != 0;
    return *found ? take_value(given, nbytes, function, key, value) : status;
}

/* ---- changes ---- */

/* Stores a value if the key still has the value that was found. */
static symmcoll_status_t replace(const struct user *user, const char *key,
    const struct symc_bytes *present, const struct symc_bytes *value,
    int64_t deadline_ns, int *stored)
{
    static const char nothing[1];

    return check_status(user->functions.compare_set(user->functions.user, key,
                            present == NULL ? NULL : present->data,
                            present == NULL ? 0 : present->nbytes,
                            value->data != NULL ? value->data : nothing,
                            value->nbytes, find_seconds(deadline_ns), stored),
        "compare_set", key);
}

/* Tries once to read, change and replace; stored is 0 if another rank was
 * faster. */
static symmcoll_status_t attempt(const struct user *user, const char *key,
    struct symc_edit *edit, int64_t deadline_ns, int *stored)
{
    struct symc_bytes present = {NULL, 0};
    struct symc_change change;
    bool found = false;
    symmcoll_status_t status =
        find_user((void *)(uintptr_t)user, key, deadline_ns, &found, &present);

    if (status != SYMMCOLL_OK)
        return status;
    status = symc_edit_apply(edit, key,
        (struct symc_item){.value = found ? &present : NULL}, &change);
    *stored = change.what == SYMC_KEEP;
    if (status == SYMMCOLL_OK && !*stored)
        status = replace(user, key, found ? &present : NULL, &change.value,
            deadline_ns, stored);
    if (change.what == SYMC_PUT)
        free(change.value.data);
    if (status != SYMMCOLL_OK || !*stored) {
        free(edit->result.data);
        edit->result = (struct symc_bytes){NULL, 0};
    }
    free(present.data);
    return status;
}

static symmcoll_status_t edit_by_comparing(const struct user *user,
    const char *key, struct symc_edit *edit, int64_t deadline_ns)
{
    char shown[SYMC_KEY_TEXT];
    symmcoll_status_t status;
    int stored = 0;

    do {
        status = attempt(user, key, edit, deadline_ns, &stored);
        if (status != SYMMCOLL_OK || stored)
            return status;
    } while (symc_now_ns() < deadline_ns);
    return symc_fail(SYMMCOLL_ERR_TIMEOUT,
        "store: timeout: key \"%s\": the program's compare_set stored nothing",
        symc_key_text(key, shown));
}

static bool is_same(const struct symc_bytes *a, const struct symc_bytes *b)
{
    return a->nbytes == b->nbytes &&
           (a->data == NULL || b->data == NULL ||
               memcmp(a->data, b->data, a->nbytes) == 0);
}

/* Derives the outcome of compare_set from the returned value. */
static symmcoll_status_t compare_by_value(const struct user *user,
    const char *key, struct symc_edit *edit, int64_t deadline_ns)
{
    static const char function[] = "compare_set_value";
    const struct symc_bytes desired = {
        (void *)(uintptr_t)edit->value, edit->nbytes};
    const struct symc_bytes expected = {
        (void *)(uintptr_t)edit->expected, edit->expected_nbytes};
    void *given = NULL;
    size_t nbytes = 0;
    symmcoll_status_t status = check_status(
        user->functions.compare_set_value(user->functions.user, key,
            expected.nbytes > 0 ? expected.data : NULL, expected.nbytes,
            desired.data != NULL ? desired.data : "", desired.nbytes,
            find_seconds(deadline_ns), &given, &nbytes),
        function, key);

    if (status == SYMMCOLL_OK)
        status = take_value(given, nbytes, function, key, &edit->result);
    if (status != SYMMCOLL_OK)
        return status;
    if (is_same(&edit->result, &desired))
        edit->outcome = expected.nbytes > 0 ? SYMMCOLL_STORE_REPLACED
                                            : SYMMCOLL_STORE_CREATED;
    else if (expected.nbytes > 0 && is_same(&edit->result, &expected))
        edit->outcome = SYMMCOLL_STORE_ABSENT;
    else
        edit->outcome = SYMMCOLL_STORE_DIFFERS;
    return SYMMCOLL_OK;
}

/* Runs an edit with a function of the user, or composes it of others. */
static symmcoll_status_t edit_user(
    void *table, const char *key, struct symc_edit *edit, int64_t deadline_ns)
{
    const struct user *user = table;
    const struct symmcoll_store_functions *functions = &user->functions;
    double seconds = find_seconds(deadline_ns);
    int removed = 0;
    symmcoll_status_t status;

    if (edit->kind == SYMC_EDIT_SET && functions->set != NULL)
        return check_status(functions->set(functions->user, key, edit->value,
                                edit->nbytes, seconds),
            "set", key);
    if (edit->kind == SYMC_EDIT_ADD && functions->add != NULL)
        return check_status(functions->add(functions->user, key, edit->amount,
                                seconds, &edit->sum),
            "add", key);
    if (edit->kind == SYMC_EDIT_APPEND && functions->append != NULL)
        return check_status(functions->append(functions->user, key, edit->value,
                                edit->nbytes, seconds),
            "append", key);
    if (edit->kind == SYMC_EDIT_DELETE) {
        if (functions->remove == NULL)
            return refuse_missing("store_delete", "remove");
        status = check_status(
            functions->remove(functions->user, key, seconds, &removed),
            "remove", key);
        edit->existed = removed != 0;
        return status;
    }
    if (edit->kind == SYMC_EDIT_PUSH || edit->kind == SYMC_EDIT_POP)
        return refuse_missing(edit->kind == SYMC_EDIT_PUSH ? "store_queue_push"
                                                           : "store_queue_pop",
            "queues");
    if (edit->kind == SYMC_EDIT_COMPARE_SET && functions->compare_set == NULL &&
        functions->compare_set_value != NULL)
        return compare_by_value(user, key, edit, deadline_ns);
    if (functions->compare_set != NULL)
        return edit_by_comparing(user, key, edit, deadline_ns);
    return edit->kind == SYMC_EDIT_ADD
               ? refuse_missing("store_add", "add and no compare_set")
           : edit->kind == SYMC_EDIT_APPEND
               ? refuse_missing("store_append", "append and no compare_set")
               : refuse_missing("store_compare_set", "compare_set");
}

/* ---- waiting ---- */

static void pause_until(int64_t deadline_ns, int64_t longest_ns)
{
    int64_t left = deadline_ns - symc_now_ns();
    int64_t ns = left < longest_ns ? left : longest_ns;
    struct timespec time = {
        .tv_sec = ns / SYMC_NS_PER_S, .tv_nsec = ns % SYMC_NS_PER_S};

    if (ns > 0)
        nanosleep(&time, NULL);
}

static symmcoll_status_t find_missing(const struct user *user,
    const char *const *keys, size_t nkeys, int64_t deadline_ns, size_t *missing)
{
    for (; *missing < nkeys; (*missing)++) {
        struct symc_bytes value = {NULL, 0};
        bool found = false;
        symmcoll_status_t status =
            user->functions.check != NULL
                ? check_user(user, keys[*missing], deadline_ns, &found)
                : find_user((void *)(uintptr_t)user, keys[*missing],
                      deadline_ns, &found, &value);

        free(value.data);
        if (status != SYMMCOLL_OK || !found)
            return status;
    }
    return SYMMCOLL_OK;
}

/* Waits for keys.  The user's wait() may return too early, so its success
 * counts only if the keys exist; otherwise they are polled. */
static symmcoll_status_t wait_user(void *table, const char *const *keys,
    size_t nkeys, int64_t until_ns, int64_t deadline_ns, size_t *missing)
{
    const struct user *user = table;
    int64_t pause_ns = SHORT_NS;

    *missing = 0;
    for (;;) {
        size_t before = *missing;
        symmcoll_status_t status =
            find_missing(user, keys, nkeys, deadline_ns, missing);

        if (status != SYMMCOLL_OK || *missing == nkeys ||
            symc_now_ns() >= until_ns)
            return status;
        if (user->functions.wait != NULL && *missing > before)
            pause_ns = SHORT_NS;
        if (user->functions.wait != NULL) {
            status = check_status(
                user->functions.wait(user->functions.user, keys + *missing,
                    nkeys - *missing, find_seconds(until_ns)),
                "wait", keys[*missing]);
            if (status == SYMMCOLL_OK)
                status = find_missing(user, keys, nkeys, deadline_ns, missing);
            else if (status == SYMMCOLL_ERR_TIMEOUT)
                status = SYMMCOLL_OK;
            if (status != SYMMCOLL_OK || *missing == nkeys)
                return status;
        }
        pause_until(until_ns, pause_ns);
        pause_ns = 2 * pause_ns < LONG_NS ? 2 * pause_ns : LONG_NS;
    }
}

static symmcoll_status_t count_user(
    void *table, int64_t deadline_ns, size_t *count)
{
    const struct user *user = table;

    if (user->functions.num_keys == NULL)
        return refuse_missing("store_num_keys", "num_keys");
    return check_status(user->functions.num_keys(user->functions.user,
                            find_seconds(deadline_ns), count),
        "num_keys", "");
}

/* ---- calls without functions in the table ---- */

/* Sets the keys one by one: other ranks may see some before the rest. */
static symmcoll_status_t set_all_user(void *table,
    const struct symc_pair *pairs, size_t npairs, int64_t deadline_ns)
{
    symmcoll_status_t status = SYMMCOLL_OK;

    for (size_t i = 0; i < npairs && status == SYMMCOLL_OK; i++) {
        struct symc_edit edit = {.kind = SYMC_EDIT_SET,
            .value = pairs[i].value.data,
            .nbytes = pairs[i].value.nbytes};

        status = edit_user(table, pairs[i].key, &edit, deadline_ns);
    }
    return status;
}

static symmcoll_status_t measure_queue(
    void *table, const char *key, int64_t deadline_ns, size_t *length)
{
    (void)table;
    (void)key;
    (void)deadline_ns;
    (void)length;
    return refuse_missing("store_queue_len", "queues");
}

static symmcoll_status_t list_user(void *table, const char *prefix,
    int64_t deadline_ns, struct symc_names *names)
{
    (void)table;
    (void)prefix;
    (void)deadline_ns;
    (void)names;
    return refuse_missing("store_list_keys", "lists of keys");
}

/* ---- handles ---- */

static void share_user(void *table)
{
    struct user *user = table;

    atomic_fetch_add_explicit(&user->handles, 1, memory_order_relaxed);
}

static void close_user(void *table)
{
    struct user *user = table;

    /* Acquire: the last handle must see what the others did. */
    if (atomic_fetch_sub_explicit(&user->handles, 1, memory_order_acq_rel) > 1)
        return;
    if (user->close != NULL)
        user->close(user->functions.user);
    free(user);
}

static const struct symc_store_ops user_ops = {
    .kind = "user",
    .share = share_user,
    .close = close_user,
    .edit = edit_user,
    .find = find_user,
    .wait = wait_user,
    .count = count_user,
    .set_all = set_all_user,
    .length = measure_queue,
    .list = list_user,
};

static const char where[] = "store_create_user";

static symmcoll_status_t check_functions(
    const struct symmcoll_store_functions *functions)
{
    if (functions->get == NULL &&
        (functions->check == NULL || functions->wait_get == NULL))
        return symc_fail(SYMMCOLL_ERR_INVALID,
            "%s: expected get, or check and wait_get, found get NULL and %s",
            where,
            functions->check != NULL      ? "no wait_get"
            : functions->wait_get != NULL ? "no check"
                                          : "neither of them");
    if (functions->set == NULL && functions->compare_set == NULL)
        return symc_fail(SYMMCOLL_ERR_INVALID,
            "%s: expected set or compare_set, found both NULL", where);
    return SYMMCOLL_OK;
}

symmcoll_status_t symmcoll_store_create_user(
    const struct symmcoll_store_functions *functions,
    struct symmcoll_store **store)
{
    struct user *user;
    symmcoll_status_t status;

    if (functions == NULL || store == NULL)
        return symc_fail(SYMMCOLL_ERR_INVALID, "%s: %s is NULL", where,
            functions == NULL ? "functions" : "store");
    user = symc_alloc(1, sizeof(*user));
    if (user == NULL)
        return SYMMCOLL_ERR_NO_MEMORY;
    atomic_init(&user->handles, 1);
    status =
        symc_sized_read(&functions_kind, where, functions, &user->functions);
    if (status == SYMMCOLL_OK)
        status = check_functions(&user->functions);
    if (status != SYMMCOLL_OK) {
        free(user);
        return status;
    }
    status = symc_store_create(&user_ops, user, store);
    if (status == SYMMCOLL_OK)
        user->close = user->functions.close;
    return status;
}
