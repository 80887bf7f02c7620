/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The BLAS for products of matrices, and the other installed ones.  It is
 * chosen as by the first product of a world.
 */
#include "info.h"

#include "config/config.h"
#include "fused/blas_choice.h"

#include <string.h>

static const char *const columns[] = {
    "name", "gflops", "chosen", "reason", NULL};

#ifdef HAVE_CBLAS
static void add_trial(struct info_table *table,
    const struct symc_blas_choice *choice, const struct symc_blas_trial *trial)
{
    bool chosen = trial->candidate == choice->candidate;

    info_text(table, trial->name);
    if (trial->rejected[0] == '\0')
        info_format(table, "%.1f", trial->rate);
    else
        info_none(table);
    info_flag(table, chosen);
    info_text(table, trial->rejected[0] != '\0' ? trial->rejected
                     : chosen                   ? choice->reason
                              : "slower, or not faster by 8%");
}

/* Adds a BLAS that was chosen without a trial. */
static void add_untried(
    struct info_table *table, const struct symc_blas_choice *choice)
{
    struct symc_blas_candidate candidate =
        symc_blas_candidate(choice->candidate);
    void *library = symc_blas_open(&candidate);
    char name[96] = "";

    if (library != NULL)
        symc_blas_name(library, name, sizeof(name));
    info_text(table, name);
    info_none(table);
    info_flag(table, true);
    info_text(table, choice->reason);
}

static void add_rows(struct info_table *table, const struct symc_config *config)
{
    struct symc_blas_choice choice;

    if (strcmp(config->fused_blas, "auto") != 0) {
        info_text(table, config->fused_blas[0] != '\0' ? config->fused_blas
                                                       : SYMC_BLAS_LIBRARY);
        info_none(table);
        info_flag(table, true);
        info_text(table, "fused.blas");
        return;
    }
    symc_blas_choose(&choice, symc_variable_get("OPENBLAS_CORETYPE"));
    for (int i = 0; i < choice.ntrials; i++)
        add_trial(table, &choice, &choice.trials[i]);
    if (choice.ntrials == 0 && choice.candidate >= 0)
        add_untried(table, &choice);
}
#else
static void add_rows(struct info_table *table, const struct symc_config *config)
{
    (void)table;
    (void)config;
}
#endif

void info_add_blas(struct info_out *out, const struct symc_config *config)
{
    struct info_table table;

    info_table_begin(&table, "blas", columns);
    add_rows(&table, config);
    info_table_end(&table, out);
}
