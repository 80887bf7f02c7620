/* SPDX-License-Identifier: BSD-3-Clause */
/* Tests loading cuBLASLt: which copy, which version, and which functions it
 * must have. */
#include "cuda/cublaslt/cublaslt.h"
#include "t/cuda/loading.h"

#define STUBS "t/blas/stubs/.libs/libcublasLt.so.13"

#define NAME(member, name, type, args) #name,
static const char *const names[] = {SYMC_CUBLASLT_FUNCTIONS(NAME)};

static symmcoll_status_t load_any(
    loading_fail_fn fail, const char *path, const void **library)
{
    const struct symc_cublaslt *cublaslt = *library;
    symmcoll_status_t status = symc_cublaslt_load(fail, path, &cublaslt);

    *library = cublaslt;
    return status;
}

static struct loading loading = {
    .name = "cuBLASLt",
    .setting = "cuda.cublaslt",
    .file = "libcublasLt.so.13",
    .stand_in = STUBS,
    .version = "13.1.0",
    .needed = names,
    .count = COUNT(names),
    .load = load_any,
};

static symmcoll_status_t load(
    const char *path, const struct symc_cublaslt **cublaslt)
{
    return symc_cublaslt_load(symc_fail, path, cublaslt);
}

/* Checks that every function pointer is the library's. */
static int is_whole(const struct symc_cublaslt *cublaslt)
{
    void *library = dlopen(cublaslt->path, RTLD_NOW | RTLD_NOLOAD);
    size_t at = offsetof(struct symc_cublaslt, get_version);

    for (size_t i = 0; i < COUNT(names); i++, at += sizeof(void *)) {
        void *found;

        memcpy(&found, (const char *)cublaslt + at, sizeof(found));
        if (library == NULL || found == NULL ||
            found != __real_dlsym(library, names[i]))
            return 0;
    }
    return at == sizeof(*cublaslt);
}

/* ---- which copy ---- */

static int it_is_loaded_once(void *unused)
{
    const struct symc_cublaslt *cublaslt, *again;

    (void)unused;
    return load(built(STUBS), &cublaslt) == SYMMCOLL_OK &&
           load("/nowhere/libcublasLt.so.13", &again) == SYMMCOLL_OK &&
           cublaslt == again && cublaslt->version == 130100 &&
           strcmp(cublaslt->path, built(STUBS)) == 0 && is_whole(cublaslt);
}

static int the_callers_is_shared(void *unused)
{
    void *library = dlopen(built(STUBS), RTLD_NOW | RTLD_LOCAL);
    const struct symc_cublaslt *cublaslt;
    int right;

    (void)unused;
    right = library != NULL &&
            load("/nowhere/libcublasLt.so.13", &cublaslt) == SYMMCOLL_OK &&
            strcmp(cublaslt->path, built(STUBS)) == 0;
    if (library != NULL)
        (void)dlclose(library);
    return right;
}

/* ---- what it has ---- */

static int other_versions_are_refused(void *unused)
{
    const struct symc_cublaslt *cublaslt;

    (void)unused;
    setenv("FAKE_CUBLASLT_VERSION", "120901", 1);
    if (!is_refused(&loading, built(STUBS),
            STUBS ": expected cuBLASLt 13, found 12.9.1"))
        return 0;
    setenv("FAKE_CUBLASLT_VERSION", "140002", 1);
    if (!is_refused(&loading, built(STUBS),
            STUBS ": expected cuBLASLt 13, found 14.0.2"))
        return 0;
    setenv("FAKE_CUBLASLT_VERSION", "130000", 1);
    return load(built(STUBS), &cublaslt) == SYMMCOLL_OK &&
           cublaslt->version == 130000;
}

/* ---- NVIDIA's own ---- */

/* Checks that the library is loaded. It stays loaded, so that its allocations
 * are not reported as leaks. */
static int it_is_there(void *unused)
{
    static void *library;

    (void)unused;
    library = dlopen(SYMC_CUBLASLT_LIBRARY, RTLD_NOW | RTLD_LOCAL);
    return library != NULL;
}

static int it_is_loaded(void *unused)
{
    const struct symc_cublaslt *cublaslt;

    (void)unused;
    return load(SYMC_CUBLASLT_LIBRARY, &cublaslt) == SYMMCOLL_OK &&
           is_whole(cublaslt);
}

int main(void)
{
    plan(8);
    ok(run_child(its_absence_is_told, &loading),
        "where there is no cuBLASLt that is told, until there is one");
    ok(run_child(it_is_loaded_once, NULL),
        "cuBLASLt is loaded by its path, whole, and once");
    ok(run_child(the_callers_is_shared, NULL),
        "a copy that the process has is used, whatever the path");
    ok(run_child(what_is_none_is_refused, &loading),
        "a library that is no cuBLASLt is refused");
    ok(run_child(threads_load_one, &loading),
        "threads that load it at once have the same");
    ok(run_child(other_versions_are_refused, NULL),
        "cuBLASLt of another major version is refused, with both");
    ok(run_child(every_missing_one_is_named, &loading),
        "cuBLASLt without a function is refused, and the function named");
    if (run_child(it_is_there, NULL))
        ok(run_child(it_is_loaded, NULL),
            "NVIDIA's own cuBLASLt has all of it");
    else
        skip(1, "this machine's loader finds no %s", SYMC_CUBLASLT_LIBRARY);
    return done_testing();
}
