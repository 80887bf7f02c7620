/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The BLAS for matrix products.  It is loaded at run time, not linked: which of
 * the installed ones is the fastest depends on the CPU, by a factor of up to 5
 * among tuned ones, and of 15 and more to the reference BLAS.
 */
#include "charlm.h"

#include <dlfcn.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

symc_sgemm_fn charlm_sgemm;

/* Checks for the file names of Netlib's BLAS and its C interface. */
static bool is_reference(const char *path)
{
    const char *slash = strrchr(path, '/');
    const char *file = slash != NULL ? slash + 1 : path;

    return strncmp(file, "libblas.", 8) == 0 ||
           strncmp(file, "libcblas.", 9) == 0 ||
           strncmp(file, "librefblas.", 11) == 0;
}

void charlm_choose_blas(struct charlm_blas *blas, const char *wanted)
{
    struct symc_blas_choice choice;

    *blas = (struct charlm_blas){.wanted = wanted, .candidate = -1};
    if (wanted != NULL)
        return;
    symc_blas_choose(&choice, getenv("OPENBLAS_CORETYPE"));
    blas->candidate = choice.candidate;
    for (int i = 0; i < choice.ntrials; i++)
        if (choice.trials[i].candidate == choice.candidate)
            blas->rate = choice.trials[i].rate;
    symc_blas_describe_rejected(
        &choice, blas->rejected, sizeof(blas->rejected));
}

int charlm_load_blas(struct charlm_blas *blas, char *error)
{
    struct symc_blas_candidate candidate = symc_blas_candidate(blas->candidate);
    char memory[PATH_MAX], *path;
    void *library, *function;
    Dl_info info;

    if (blas->wanted != NULL &&
        !symc_blas_parse(blas->wanted, memory, sizeof(memory), &candidate))
        return charlm_fail(error, "--use-blas: the name is too long");
    if (blas->wanted == NULL && blas->candidate < 0)
        return charlm_fail(error,
            "expected a library with CBLAS (install libopenblas0 or libblis4), "
            "found none that is usable%s%s",
            blas->rejected[0] != '\0' ? ": " : "", blas->rejected);
    library = symc_blas_open(&candidate);
    function = library != NULL ? dlsym(library, "cblas_sgemm") : NULL;
    if (function == NULL || dladdr(function, &info) == 0 ||
        info.dli_fname == NULL)
        return charlm_fail(error, "expected CBLAS in %s, found none",
            candidate.library != NULL ? candidate.library : "the program");
    memcpy(&charlm_sgemm, &function, sizeof(charlm_sgemm));
    symc_blas_name(library, blas->name, sizeof(blas->name));
    path = realpath(info.dli_fname, NULL);
    snprintf(blas->path, sizeof(blas->path), "%s",
        path != NULL ? path : info.dli_fname);
    free(path);
    /* Tuned libraries report a name; the reference BLAS does not. */
    blas->slow = is_reference(blas->path) && strstr(blas->name, ".so") != NULL;
    if (blas->slow)
        snprintf(blas->name, sizeof(blas->name), "the reference BLAS");
    return 0;
}

void charlm_warn_blas(const struct charlm_blas *blas)
{
    if (!blas->slow)
        return;
    fprintf(stderr,
        "train_charlm: warning: matrices are multiplied by %s, some 15 times "
        "slower than OpenBLAS\n"
        "    (%s).\n"
        "    Install libopenblas0 or libblis4.\n",
        blas->name, blas->path);
}
