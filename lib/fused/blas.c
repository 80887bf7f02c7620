/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * CBLAS, loaded by the first product of a world: a program that only
 * communicates neither needs the library nor starts its threads.  Debian has
 * several that replace each other, chosen by alternatives.
 */
#include "fused/matmul.h"

#ifdef HAVE_CBLAS
#include <dlfcn.h>
#include <string.h>

/* ISO C has no cast from an object's to a function's pointer. */
static bool find(void *library, const char *name, void *function)
{
    void *symbol = dlsym(library, name);

    memcpy(function, &symbol, sizeof(symbol));
    return symbol != NULL;
}

symmcoll_status_t symc_blas_load(struct symc_blas *blas, const char *setting)
{
    const char *name = setting[0] != '\0' ? setting : SYMC_BLAS_LIBRARY;
    void *library;
    const char *reason;

    *blas = (struct symc_blas){.sgemm = NULL};
    if (strcmp(setting, "none") == 0)
        return SYMMCOLL_OK;
    library = dlopen(name, RTLD_NOW | RTLD_LOCAL);
    reason = library == NULL ? dlerror() : "it has no CBLAS";
    if (library != NULL && find(library, "cblas_sgemm", &blas->sgemm) &&
        find(library, "cblas_dgemm", &blas->dgemm))
        return SYMMCOLL_OK;
    *blas = (struct symc_blas){.sgemm = NULL};
    if (setting[0] == '\0')
        return SYMMCOLL_OK;
    return symc_fail(SYMMCOLL_ERR_CONFIG,
        "fused.blas: expected a library with CBLAS, found %s: %s", name,
        reason != NULL ? reason : "it cannot be loaded");
}
#else
#include <string.h>

symmcoll_status_t symc_blas_load(struct symc_blas *blas, const char *setting)
{
    *blas = (struct symc_blas){.sgemm = NULL};
    if (setting[0] == '\0' || strcmp(setting, "none") == 0)
        return SYMMCOLL_OK;
    return symc_fail(SYMMCOLL_ERR_CONFIG,
        "fused.blas: expected \"none\", since this library was built without "
        "BLAS, found %s",
        setting);
}
#endif
