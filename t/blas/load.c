/* SPDX-License-Identifier: BSD-3-Clause */
/* Tests loading cuBLASLt: which copy, which version, and which functions it
 * must have. */
#include "cuda/cublaslt/cublaslt.h"
#include "t/segment/child.h"
#include "t/tap.h"

#include <dlfcn.h>
#include <pthread.h>

#define THREADS 4
#define STUBS "t/blas/stubs/.libs/libcublasLt.so.13"

#define NAME(member, name, type, args) #name,
static const char *const names[] = {SYMC_CUBLASLT_FUNCTIONS(NAME)};
#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

/* Replaces the loader's function, by --wrap: one function is not found. */
static const char *missing;
void *__wrap_dlsym(void *handle, const char *name);
extern void *__real_dlsym(void *handle, const char *name);

void *__wrap_dlsym(void *handle, const char *name)
{
    return missing != NULL && strcmp(name, missing) == 0
               ? NULL
               : __real_dlsym(handle, name);
}

/* Returns the path of a file in the build folder. */
static const char *built(const char *name)
{
    static _Thread_local char path[4096];
    const char *folder = getenv("T_BUILDDIR");

    (void)snprintf(
        path, sizeof(path), "%s/%s", folder != NULL ? folder : ".", name);
    return path;
}

static symmcoll_status_t load(
    const char *path, const struct symc_cublaslt **cublaslt)
{
    return symc_cublaslt_load(symc_fail, path, cublaslt);
}

static int is_refused(const char *path, const char *text)
{
    const struct symc_cublaslt *cublaslt;

    return failed_with(load(path, &cublaslt), SYMMCOLL_ERR_UNSUPPORTED, text) &&
           cublaslt == NULL &&
           symc_cublaslt_load(NULL, path, &cublaslt) ==
               SYMMCOLL_ERR_UNSUPPORTED;
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

static int its_absence_is_told(void *unused)
{
    const struct symc_cublaslt *cublaslt;

    (void)unused;
    return is_refused("/nowhere/libcublasLt.so.13",
               "no cuBLASLt: expected the library that cuda.cublaslt "
               "names, found none: /nowhere/libcublasLt.so.13: cannot open shared "
               "object file") &&
           is_refused("", "expected the name of a library, found an empty "
                          "cuda.cublaslt") &&
           load(built(STUBS), &cublaslt) == SYMMCOLL_OK;
}

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

static int what_is_none_is_refused(void *unused)
{
    (void)unused;
    return is_refused("libm.so.6",
        "libm.so.6: expected cuBLASLt, found no cublasLtGetVersion");
}

static void *load_in_thread(void *unused)
{
    const struct symc_cublaslt *cublaslt;

    (void)unused;
    return load(built(STUBS), &cublaslt) == SYMMCOLL_OK ? (void *)cublaslt
                                                        : NULL;
}

static int threads_load_one(void *unused)
{
    pthread_t threads[THREADS];
    const struct symc_cublaslt *cublaslt;
    void *found;
    int right = 1;

    (void)unused;
    for (int i = 0; i < THREADS; i++)
        if (pthread_create(&threads[i], NULL, load_in_thread, NULL) != 0)
            return 0;
    for (int i = 0; i < THREADS; i++) {
        pthread_join(threads[i], &found);
        right &= load("", &cublaslt) == SYMMCOLL_OK &&
                 found == (const void *)cublaslt;
    }
    return right;
}

/* ---- what it has ---- */

static int other_versions_are_refused(void *unused)
{
    const struct symc_cublaslt *cublaslt;

    (void)unused;
    setenv("FAKE_CUBLASLT_VERSION", "120901", 1);
    if (!is_refused(built(STUBS), STUBS ": expected cuBLASLt 13, found 12.9.1"))
        return 0;
    setenv("FAKE_CUBLASLT_VERSION", "140002", 1);
    if (!is_refused(built(STUBS), STUBS ": expected cuBLASLt 13, found 14.0.2"))
        return 0;
    setenv("FAKE_CUBLASLT_VERSION", "130000", 1);
    return load(built(STUBS), &cublaslt) == SYMMCOLL_OK &&
           cublaslt->version == 130000;
}

static int every_missing_one_is_named(void *unused)
{
    const struct symc_cublaslt *cublaslt;
    char text[128];

    (void)unused;
    for (size_t i = 1; i < COUNT(names); i++) {
        missing = names[i];
        (void)snprintf(text, sizeof(text),
            STUBS ": expected %s, found none in cuBLASLt 13.1.0", names[i]);
        if (!is_refused(built(STUBS), text))
            return 0;
    }
    missing = NULL;
    return load(built(STUBS), &cublaslt) == SYMMCOLL_OK;
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
    ok(run_child(its_absence_is_told, NULL),
        "where there is no cuBLASLt that is told, until there is one");
    ok(run_child(it_is_loaded_once, NULL),
        "cuBLASLt is loaded by its path, whole, and once");
    ok(run_child(the_callers_is_shared, NULL),
        "a copy that the process has is used, whatever the path");
    ok(run_child(what_is_none_is_refused, NULL),
        "a library that is no cuBLASLt is refused");
    ok(run_child(threads_load_one, NULL),
        "threads that load it at once have the same");
    ok(run_child(other_versions_are_refused, NULL),
        "cuBLASLt of another major version is refused, with both");
    ok(run_child(every_missing_one_is_named, NULL),
        "cuBLASLt without a function is refused, and the function named");
    if (run_child(it_is_there, NULL))
        ok(run_child(it_is_loaded, NULL),
            "NVIDIA's own cuBLASLt has all of it");
    else
        skip(1, "this machine's loader finds no %s", SYMC_CUBLASLT_LIBRARY);
    return done_testing();
}
