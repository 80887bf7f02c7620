/* SPDX-License-Identifier: BSD-3-Clause */
/* Settings of NCCL's communicators. */
#include "cuda/nccl/nccl_run.h"

/* Sets the policy of NCCL that cuda.nccl_cta_policy names. */
static symmcoll_status_t set_policy(const struct symc_core *core,
    const struct symc_nccl *nccl, struct symc_nccl_config *config)
{
    static const struct {
        const char *name;
        int policy, since;
    } policies[] = {{"auto", SYMC_NCCL_UNDEFINED, SYMC_NCCL_LEAST},
        {"efficiency", SYMC_NCCL_EFFICIENCY, SYMC_NCCL_CODE(2, 27, 0)},
        {"zero", SYMC_NCCL_ZERO, SYMC_NCCL_CODE(2, 28, 0)}};
    const struct symc_settings *settings = core->settings;
    int64_t wanted =
        settings->get_int(settings->config, "cuda.nccl_cta_policy");
    char since[32], found[32];

    config->cta_policy = policies[wanted].policy;
    if (nccl->version >= policies[wanted].since)
        return SYMMCOLL_OK;
    return core->fail(SYMMCOLL_ERR_UNSUPPORTED,
        "cuda.nccl_cta_policy = %s: expected NCCL %s or later, found %s in %s",
        policies[wanted].name,
        symc_nccl_format_version(policies[wanted].since, since),
        symc_nccl_format_version(nccl->version, found), nccl->path);
}

/* NCCL compares the two limits before it replaces an undefined one by its default. */
#define MOST_CTAS 64 /* the maximum of the setting */

static int get(const struct symc_core *core, const char *key, int none)
{
    const struct symc_settings *settings = core->settings;
    int value = (int)settings->get_int(settings->config, key);

    return value == none ? SYMC_NCCL_UNDEFINED : value;
}

symmcoll_status_t symc_cuda_nccl_configure(const struct symc_core *core,
    const struct symc_nccl *nccl, struct symc_nccl_config *config)
{
    const struct symc_settings *settings = core->settings;
    const char *net = settings->get_text(settings->config, "cuda.nccl_net");
    symmcoll_status_t status =
        symc_nccl_check_variables(core->fail, nccl, settings->get_variable);

    if (status != SYMMCOLL_OK)
        return status;
    symc_nccl_config_init(nccl, config);
    config->min_ctas = get(core, "cuda.nccl_min_ctas", 0);
    config->max_ctas = get(core, "cuda.nccl_max_ctas", 0);
    config->cga_cluster_size = get(core, "cuda.nccl_cga", -1);
    /* A communicator that shares resources is aborted together with the other. */
    config->split_share = 0;
    config->net_name = net[0] != '\0' ? net : NULL;
    if (config->max_ctas != SYMC_NCCL_UNDEFINED &&
        config->min_ctas > config->max_ctas)
        return core->fail(SYMMCOLL_ERR_CONFIG,
            "cuda.nccl_min_ctas: expected cuda.nccl_max_ctas = %d at most, "
            "found %d",
            config->max_ctas, config->min_ctas);
    if (config->min_ctas != SYMC_NCCL_UNDEFINED &&
        config->max_ctas == SYMC_NCCL_UNDEFINED)
        config->max_ctas = MOST_CTAS;
    return set_policy(core, nccl, config);
}

struct symc_cuda_until symc_cuda_making_until(
    const struct symc_core *core, const struct symc_op *op)
{
    const struct symc_settings *settings = core->settings;
    int64_t init_ns = settings->get_time(settings->config, "timeouts.init");

    return symc_cuda_until(
        core, init_ns > op->timeout_ns ? init_ns : op->timeout_ns);
}
