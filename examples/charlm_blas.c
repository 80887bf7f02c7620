/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Which BLAS multiplies the matrices.  It is looked up in the running process,
 * since systems choose it when the program starts (Debian by alternatives), and
 * the reference BLAS is 15 times slower than the best one.
 */
#include "charlm.h"

#include <dlfcn.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

/* The text that a function without arguments returns, where the library has
 * such a function. */
static const char *ask(void *library, const char *function)
{
    const char *(*get)(void) = NULL;
    void *symbol = dlsym(library, function);

    if (symbol == NULL)
        return NULL;
    memcpy(&get, &symbol, sizeof(get)); /* ISO C has no cast between them */
    return get();
}

/* The name that the library itself reports; false where it reports none. */
static bool ask_name(void *library, char *name, size_t nbytes)
{
    const char *config = ask(library, "openblas_get_config");
    const char *core = ask(library, "openblas_get_corename");
    const char *blis = ask(library, "bli_info_get_version_str");

    if (config != NULL) {
        /* "OpenBLAS 0.3.21 NO_LAPACKE ..." */
        size_t length = strcspn(config, " ");

        if (config[length] == ' ')
            length += 1 + strcspn(config + length + 1, " ");
        snprintf(name, nbytes, "%.*s%s%s", (int)length, config,
            core != NULL ? ", kernels for " : "", core != NULL ? core : "");
    } else if (blis != NULL)
        snprintf(name, nbytes, "BLIS %s", blis);
    else if (dlsym(library, "MKL_Get_Version_String") != NULL)
        snprintf(name, nbytes, "MKL");
    else if (dlsym(library, "ATL_buildinfo") != NULL)
        snprintf(name, nbytes, "ATLAS");
    else
        return false;
    return true;
}

/* The file names of Netlib's BLAS and of its C interface. */
static bool is_reference(const char *path)
{
    const char *slash = strrchr(path, '/');
    const char *file = slash != NULL ? slash + 1 : path;

    return strncmp(file, "libblas.", 8) == 0 ||
           strncmp(file, "libcblas.", 9) == 0 ||
           strncmp(file, "librefblas.", 11) == 0;
}

void charlm_find_blas(struct charlm_blas *blas)
{
    void *function = dlsym(RTLD_DEFAULT, "cblas_sgemm");
    void *library = NULL;
    Dl_info info;
    char *path;

    *blas = (struct charlm_blas){.slow = false};
    snprintf(blas->name, sizeof(blas->name), "an unknown BLAS");
    snprintf(blas->path, sizeof(blas->path), "in the program itself");
    if (function == NULL || dladdr(function, &info) == 0 ||
        info.dli_fname == NULL)
        return;
    path = realpath(info.dli_fname, NULL);
    snprintf(blas->path, sizeof(blas->path), "%s",
        path != NULL ? path : info.dli_fname);
    free(path);
    /* Symbols are looked for in this library and in those that it needs. */
    library = dlopen(info.dli_fname, RTLD_LAZY | RTLD_NOLOAD);
    if (library == NULL)
        return;
    if (!ask_name(library, blas->name, sizeof(blas->name)) &&
        is_reference(blas->path)) {
        snprintf(blas->name, sizeof(blas->name), "the reference BLAS");
        blas->slow = true;
    }
    dlclose(library);
}

void charlm_warn_blas(const struct charlm_blas *blas)
{
    if (!blas->slow)
        return;
    fprintf(stderr,
        "train_charlm: warning: matrices are multiplied by %s, some 15 times "
        "slower than OpenBLAS\n"
        "    (%s).\n"
        "    Install libopenblas-dev, then ./configure && make; or choose it "
        "for all\n"
        "    programs: update-alternatives --config libblas.so.3-$(cc "
        "-print-multiarch)\n",
        blas->name, blas->path);
}
