/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * NCCL: whether operations on device memory can use it, and the functions that
 * the installed library lacks.  It is loaded as they load it, also in builds
 * without CUDA.
 */
#include "info.h"

#include "config/config.h"

#include <symmcoll.h>

void info_find_nccl(const struct symc_config *config, struct info_nccl *nccl)
{
    char version[32];

    *nccl = (struct info_nccl){.table = NULL};
    nccl->available = symc_nccl_load(symc_fail, config->cuda_nccl,
                          &nccl->table) == SYMMCOLL_OK &&
                      symc_nccl_check_variables(symc_fail, nccl->table,
                          symc_variable_get) == SYMMCOLL_OK;
    if (!nccl->available)
        snprintf(
            nccl->detail, sizeof(nccl->detail), "%s", symmcoll_last_error());
    else
        snprintf(nccl->detail, sizeof(nccl->detail), "%s, %s",
            symc_nccl_format_version(nccl->table->version, version),
            nccl->table->path);
}

static const char *const columns[] = {"function", "available", "reason", NULL};

void info_add_nccl(struct info_out *out, const struct info_nccl *nccl)
{
    struct symc_nccl_function function;
    struct info_table table;
    char since[32], found[32];

    info_table_begin(&table, "nccl", columns);
    for (int i = 0;
         nccl->table != NULL && symc_nccl_optional(nccl->table, i, &function);
         i++) {
        info_text(&table, function.name);
        info_flag(&table, function.found);
        if (function.found)
            info_none(&table);
        else
            info_format(&table, "expected NCCL %s or later, found %s",
                symc_nccl_format_version(function.since, since),
                symc_nccl_format_version(nccl->table->version, found));
    }
    info_table_end(&table, out);
}
