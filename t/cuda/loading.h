/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Tests of loading a library of NVIDIA's, for the programs of NCCL and of cuBLASLt.
 * They run in a process of their own, since a library stays loaded.
 */
#ifndef T_CUDA_LOADING_H
#define T_CUDA_LOADING_H

#include "t/segment/child.h"
#include "t/tap.h"

#include <dlfcn.h>
#include <pthread.h>

#define LOADING_THREADS 4
#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

typedef symmcoll_status_t (*loading_fail_fn)(
    symmcoll_status_t status, const char *format, ...);

/* A library: its loader, and its words in errors. */
struct loading {
    const char *name, *setting;
    const char *file;     /* without a folder */
    const char *stand_in; /* in the build folder */
    const char *version;  /* of the stand-in */
    const char *const *needed;
    size_t count;
    symmcoll_status_t (*load)(
        loading_fail_fn fail, const char *path, const void **library);
};

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

/* Checks the error of a load, with a detail and without. */
static int is_refused(
    const struct loading *it, const char *path, const char *text)
{
    const void *library = it;

    return failed_with(it->load(symc_fail, path, &library),
               SYMMCOLL_ERR_UNSUPPORTED, text) &&
           library == NULL &&
           it->load(NULL, path, &library) == SYMMCOLL_ERR_UNSUPPORTED;
}

static int is_loaded(const struct loading *it)
{
    const void *library;

    return it->load(symc_fail, built(it->stand_in), &library) == SYMMCOLL_OK;
}

static int its_absence_is_told(void *arg)
{
    const struct loading *it = arg;
    char path[64], none[256], empty[128];

    (void)snprintf(path, sizeof(path), "/nowhere/%s", it->file);
    (void)snprintf(none, sizeof(none),
        "no %s: expected the library that %s names, found none: %s: cannot open "
        "shared object file",
        it->name, it->setting, path);
    (void)snprintf(empty, sizeof(empty),
        "expected the name of a library, found an empty %s", it->setting);
    return is_refused(it, path, none) && is_refused(it, "", empty) &&
           is_loaded(it);
}

static int what_is_none_is_refused(void *arg)
{
    const struct loading *it = arg;
    char text[128];

    (void)snprintf(text, sizeof(text), "libm.so.6: expected %s, found no %s",
        it->name, it->needed[0]);
    return is_refused(it, "libm.so.6", text);
}

static void *load_in_thread(void *arg)
{
    const struct loading *it = arg;
    const void *library;

    return it->load(symc_fail, built(it->stand_in), &library) == SYMMCOLL_OK
               ? (void *)(uintptr_t)library
               : NULL;
}

static int threads_load_one(void *arg)
{
    const struct loading *it = arg;
    pthread_t threads[LOADING_THREADS];
    const void *library;
    void *found;
    int right = 1;

    for (int i = 0; i < LOADING_THREADS; i++)
        if (pthread_create(&threads[i], NULL, load_in_thread, arg) != 0)
            return 0;
    for (int i = 0; i < LOADING_THREADS; i++) {
        pthread_join(threads[i], &found);
        right &= it->load(symc_fail, "", &library) == SYMMCOLL_OK &&
                 found == library;
    }
    return right;
}

/* Checks the error for each function but the first, which has the version. */
static int every_missing_one_is_named(void *arg)
{
    const struct loading *it = arg;
    char text[256];

    for (size_t i = 1; i < it->count; i++) {
        missing = it->needed[i];
        (void)snprintf(text, sizeof(text),
            "%s: expected %s, found none in %s %s", it->stand_in, missing,
            it->name, it->version);
        if (!is_refused(it, built(it->stand_in), text))
            return 0;
    }
    missing = NULL;
    return is_loaded(it);
}

#endif
