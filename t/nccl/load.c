/* SPDX-License-Identifier: BSD-3-Clause */
/* Tests loading NCCL: which copy, which functions it must have, and which it
 * may lack. */
#include "cuda/nccl/nccl.h"
#include "t/cuda/loading.h"

#define WHOLE "t/nccl/.libs/libnccl.so.2"
#define OLD "t/nccl/old/.libs/libnccl.so.2"

#define NAME(member, name, since, type, args) #name,
static const char *const needed[] = {SYMC_NCCL_NEEDED(NAME)};
static const char *const optional[] = {SYMC_NCCL_OPTIONAL(NAME)};

static symmcoll_status_t load_any(
    loading_fail_fn fail, const char *path, const void **library)
{
    const struct symc_nccl *nccl = *library;
    symmcoll_status_t status = symc_nccl_load(fail, path, &nccl);

    *library = nccl;
    return status;
}

static struct loading loading = {
    .name = "NCCL",
    .setting = "cuda.nccl",
    .file = "libnccl.so.2",
    .stand_in = WHOLE,
    .version = "2.28.9",
    .needed = needed,
    .count = COUNT(needed),
    .load = load_any,
};

static symmcoll_status_t load(const char *path, const struct symc_nccl **nccl)
{
    return symc_nccl_load(symc_fail, path, nccl);
}

static int count_functions(const struct symc_nccl *nccl)
{
    const size_t first = offsetof(struct symc_nccl, get_version);
    int n = 0;

    for (size_t at = first; at < sizeof(*nccl); at += sizeof(void *)) {
        void *function;

        memcpy(&function, (const char *)nccl + at, sizeof(function));
        n += function != NULL;
    }
    return n;
}

/* ---- which copy ---- */

static int it_is_loaded_once(void *unused)
{
    const struct symc_nccl *nccl, *again;

    (void)unused;
    return load(built(WHOLE), &nccl) == SYMMCOLL_OK &&
           load(built(OLD), &again) == SYMMCOLL_OK && nccl == again &&
           nccl->version == 22809 && strcmp(nccl->path, built(WHOLE)) == 0 &&
           COUNT(needed) == 20 &&
           count_functions(nccl) == (int)(COUNT(needed) + COUNT(optional));
}

static int the_callers_is_shared(void *unused)
{
    void *library = dlopen(built(OLD), RTLD_NOW | RTLD_LOCAL);
    const struct symc_nccl *nccl;
    void *function;

    (void)unused;
    if (library == NULL || load(built(WHOLE), &nccl) != SYMMCOLL_OK)
        return 0;
    memcpy(&function, &nccl->send, sizeof(function));
    return nccl->version == 22203 && strcmp(nccl->path, built(OLD)) == 0 &&
           function == __real_dlsym(library, "ncclSend");
}

/* ---- what it has ---- */

static int an_old_one_is_refused(void *unused)
{
    const struct symc_nccl *nccl;

    (void)unused;
    setenv("FAKE_NCCL_VERSION", "22105", 1);
    if (!is_refused(&loading, built(WHOLE),
            "expected NCCL 2.22.0 or later, found "
            "2.21.5"))
        return 0;
    setenv("FAKE_NCCL_VERSION", "2804", 1);
    if (!is_refused(&loading, built(WHOLE),
            WHOLE ": expected NCCL 2.22.0 or later, "
                  "found 2.8.4"))
        return 0;
    setenv("FAKE_NCCL_VERSION", "-1", 1);
    if (!is_refused(&loading, built(WHOLE), "found error 4 of ncclGetVersion"))
        return 0;
    setenv("FAKE_NCCL_VERSION", "22200", 1);
    return load(built(WHOLE), &nccl) == SYMMCOLL_OK && nccl->version == 22200;
}

static int load_without(void *name)
{
    const struct symc_nccl *nccl;
    struct symc_nccl_function function;
    int lacking = 0;

    missing = name;
    if (load(built(WHOLE), &nccl) != SYMMCOLL_OK)
        return 0;
    for (int i = 0; symc_nccl_optional(nccl, i, &function); i++)
        lacking += !function.found && strcmp(function.name, name) == 0;
    return lacking == 1 &&
           count_functions(nccl) == (int)(COUNT(needed) + COUNT(optional)) - 1;
}

static int some_may_be_missing(void)
{
    int right = 1;

    for (size_t i = 0; i < COUNT(optional); i++)
        right &= run_child(load_without, (void *)optional[i]);
    return right;
}

static int what_is_missing_has_a_version(void *unused)
{
    const struct symc_nccl *nccl;
    struct symc_nccl_function function;
    int n = 0, right;

    (void)unused;
    right = load(built(OLD), &nccl) == SYMMCOLL_OK &&
            count_functions(nccl) == (int)COUNT(needed);
    for (; right && symc_nccl_optional(nccl, n, &function); n++)
        right = !function.found && strcmp(function.name, optional[n]) == 0 &&
                function.since >= SYMC_NCCL_LEAST;
    return right && n == (int)COUNT(optional) &&
           !symc_nccl_optional(nccl, -1, &function);
}

/* ---- configs ---- */

static int configs_are_of_both(void *unused)
{
    static const struct {
        int version;
        size_t size;
    } known[] = {{22203, 48}, {22605, 48}, {22700, 72}, {22707, 72},
        {22800, 80}, {22809, 80}, {23004, 80}};
    int right = 1;

    (void)unused;
    for (size_t i = 0; i < COUNT(known); i++) {
        const struct symc_nccl nccl = {.version = known[i].version};
        struct symc_nccl_config config;
        uint32_t version =
            (uint32_t)(known[i].version < SYMC_NCCL_KNOWN ? known[i].version
                                                          : SYMC_NCCL_KNOWN);

        symc_nccl_config_init(&nccl, &config);
        right &= config.size == known[i].size && config.version == version &&
                 config.magic == 0xcafebeef && config.blocking == INT_MIN &&
                 config.net_name == NULL && config.comm_name == NULL;
    }
    return right;
}

/* ---- NVIDIA's own ---- */

static int it_is_loaded(void *unused)
{
    const struct symc_nccl *nccl;

    (void)unused;
    if (load(SYMC_NCCL_LIBRARY, &nccl) == SYMMCOLL_OK)
        return count_functions(nccl) >= (int)COUNT(needed);
    return failed_with(
        SYMMCOLL_ERR_UNSUPPORTED, SYMMCOLL_ERR_UNSUPPORTED, "or later, found");
}

/* Suppresses a leak of NVIDIA's NCCL at the end of an empty group. */
__attribute__((visibility("default"))) const char *__lsan_default_suppressions(
    void);
const char *__lsan_default_suppressions(void)
{
    return "leak:ncclGroupEndInternal";
}

/* Checks a thread that is in no group of calls, in one, and in none again. */
static int it_tells_groups(void *unused)
{
    const struct symc_nccl *nccl;
    int right;

    (void)unused;
    if (load(SYMC_NCCL_LIBRARY, &nccl) != SYMMCOLL_OK)
        return 1; /* too old for all functions */
    if (nccl->version < SYMC_NCCL_CODE(2, 27, 0))
        return !symc_nccl_detects_groups(nccl);
    right = symc_nccl_detects_groups(nccl) && !symc_nccl_is_grouped(nccl) &&
            nccl->group_start() == SYMC_NCCL_SUCCESS &&
            symc_nccl_is_grouped(nccl) && symc_nccl_is_grouped(nccl);
    return right && nccl->group_end() == SYMC_NCCL_SUCCESS &&
           !symc_nccl_is_grouped(nccl) &&
           nccl->group_end() == SYMC_NCCL_INVALID_USAGE;
}

static int it_is_there(void *unused)
{
    void *library = dlopen(SYMC_NCCL_LIBRARY, RTLD_NOW | RTLD_LOCAL);

    (void)unused;
    if (library == NULL)
        return 0;
    (void)dlclose(library);
    return 1;
}

int main(void)
{
    plan(12);
    ok(run_child(its_absence_is_told, &loading),
        "where there is no NCCL that is told, until there is one");
    ok(run_child(it_is_loaded_once, NULL),
        "NCCL is loaded by its path, whole, and once");
    ok(run_child(the_callers_is_shared, NULL),
        "a copy that the process has is used, whatever the path");
    ok(run_child(what_is_none_is_refused, &loading),
        "a library that is no NCCL is refused");
    ok(run_child(threads_load_one, &loading),
        "threads that load it at once have the same");
    ok(run_child(an_old_one_is_refused, NULL),
        "NCCL before 2.22 is refused with its version, and 2.22 is not");
    ok(run_child(every_missing_one_is_named, &loading),
        "NCCL without a function is refused, and the function named");
    ok(some_may_be_missing(), "NCCL without what is optional is not");
    ok(run_child(what_is_missing_has_a_version, NULL),
        "what NCCL lacks is known, with the version that has it");
    ok(run_child(configs_are_of_both, NULL),
        "a config is as large as both NCCL and the library know it");
    if (run_child(it_is_there, NULL)) {
        ok(run_child(it_is_loaded, NULL), "NVIDIA's own NCCL has all of it");
        ok(run_child(it_tells_groups, NULL),
            "from 2.27 on it tells whether a thread is in a group of calls");
    } else {
        skip(2, "this machine's loader finds no %s", SYMC_NCCL_LIBRARY);
    }
    return done_testing();
}
