/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * CBLAS, loaded by the first product of a world: a program that only
 * communicates neither needs the library nor starts its threads. Debian has
 * several implementations, chosen by its alternatives system.
 */
#include "fused/matmul.h"

#ifdef HAVE_CBLAS
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

/* Stores the address of a symbol. ISO C has no cast from an object pointer to a
 * function pointer. */
static bool find(void *library, const char *name, void *function)
{
    void *symbol = dlsym(library, name);

    memcpy(function, &symbol, sizeof(symbol));
    return symbol != NULL;
}

/* Protects the process's environment during a load, and makes ranks that are
 * threads measure once. */
static pthread_mutex_t loading = PTHREAD_MUTEX_INITIALIZER;

/* Loads a candidate; returns NULL if it has CBLAS, else the reason why it is
 * unusable. */
static const char *load(
    struct symc_blas *blas, const struct symc_blas_candidate *candidate)
{
    void *library = symc_blas_open(candidate);
    const char *reason = library == NULL ? dlerror() : "it has no CBLAS";

    if (library != NULL && find(library, "cblas_sgemm", &blas->sgemm) &&
        find(library, "cblas_dgemm", &blas->dgemm))
        return NULL;
    *blas = (struct symc_blas){.sgemm = NULL};
    return reason != NULL ? reason : "it cannot be loaded";
}

symmcoll_status_t symc_blas_load(struct symc_blas *blas, const char *setting)
{
    char memory[4096];
    struct symc_blas_candidate candidate;
    const char *name = setting[0] != '\0' ? setting : SYMC_BLAS_LIBRARY;
    const char *reason = "the name is too long";

    *blas = (struct symc_blas){.sgemm = NULL};
    if (strcmp(setting, "none") == 0)
        return SYMMCOLL_OK;
    if (symc_blas_parse(name, memory, sizeof(memory), &candidate)) {
        pthread_mutex_lock(&loading);
        reason = load(blas, &candidate);
        pthread_mutex_unlock(&loading);
    }
    if (reason == NULL || setting[0] == '\0')
        return SYMMCOLL_OK;
    return symc_fail(SYMMCOLL_ERR_CONFIG,
        "fused.blas: expected a library with CBLAS, found %s: %s", name,
        reason);
}

/* ---- agreement ---- */

#define NONE_FOUND (SYMC_BLAS_TRIALS_MAX + 1)

static void log_choice(
    const struct symc_log *log, const struct symc_blas_choice *choice)
{
    char rejected[1024];

    symc_blas_describe_rejected(choice, rejected, sizeof(rejected));
    for (int i = 0; i < choice->ntrials; i++)
        if (choice->trials[i].candidate == choice->candidate)
            symc_logf(log, SYMC_LOG_INFO,
                "fused.blas: %s (%.1f GF/s) chosen; rejected: %s",
                choice->trials[i].name, choice->trials[i].rate,
                rejected[0] != '\0' ? rejected : "none");
    if (choice->ntrials == 0 || choice->candidate < 0)
        symc_logf(log, SYMC_LOG_INFO, "fused.blas: %s%s%s", choice->reason,
            rejected[0] != '\0' ? ": " : "", rejected);
}

/* Returns the number on which the ranks have agreed; the first rank chooses
 * it. */
static uint32_t agree(_Atomic uint32_t *agreed, const struct symc_log *log)
{
    uint32_t number = atomic_load(agreed), found = 0;
    struct symc_blas_choice choice;

    if (number != 0)
        return number;
    symc_blas_choose(&choice, symc_variable_get("OPENBLAS_CORETYPE"));
    number =
        choice.candidate >= 0 ? (uint32_t)choice.candidate + 1 : NONE_FOUND;
    if (!atomic_compare_exchange_strong(agreed, &found, number))
        return found;
    log_choice(log, &choice);
    return number;
}

symmcoll_status_t symc_blas_load_agreed(struct symc_blas *blas,
    _Atomic uint32_t *agreed, const struct symc_log *log)
{
    struct symc_blas_candidate candidate;
    const char *reason = NULL;
    uint32_t number;

    *blas = (struct symc_blas){.sgemm = NULL};
    pthread_mutex_lock(&loading);
    number = agree(agreed, log);
    if (number != NONE_FOUND) {
        candidate = symc_blas_candidate((int)number - 1);
        reason = load(blas, &candidate);
    }
    pthread_mutex_unlock(&loading);
    if (number == NONE_FOUND)
        return symc_blas_load(blas, "");
    if (reason == NULL)
        return SYMMCOLL_OK;
    return symc_fail(SYMMCOLL_ERR_CONFIG,
        "fused.blas: expected the library that another rank has chosen, %s, "
        "found: %s",
        candidate.library != NULL ? candidate.library
                                  : "the program's own CBLAS",
        reason);
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

symmcoll_status_t symc_blas_load_agreed(struct symc_blas *blas,
    _Atomic uint32_t *agreed, const struct symc_log *log)
{
    (void)agreed;
    (void)log;
    return symc_blas_load(blas, "none");
}
#endif
