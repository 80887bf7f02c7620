/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Compares lib/cuda's declarations of NCCL with NCCL's header: its prototypes,
 * or this does not compile; its values, and the offsets in its structures.
 */
#include "cuda/nccl/nccl.h"
#include "t/tap.h"

#if defined(__has_include)
#if __has_include(<nccl.h>)
#include <nccl.h>
#endif
#endif

#if defined(NCCL_VERSION_CODE) && NCCL_VERSION_CODE >= 22807

#include "t/cuda/alike.h"

#define RESULT ncclResult_t
#define COMM ncclComm_t
#define ID ncclUniqueId
#define CONFIG ncclConfig_t
#define SIMULATED ncclSimInfo_t
#define DATATYPE ncclDataType_t
#define OP ncclRedOp_t
#define RESIDENCE ncclScalarResidence_t
#define WINDOW ncclWindow_t
#define STREAM cudaStream_t

#define PROTOTYPE(member, name, since, type, args)                   \
    _Static_assert(_Generic(&(name), type(*) args : 1, default : 0), \
        #name " has other parameters");
SYMC_NCCL_NEEDED(PROTOTYPE)
SYMC_NCCL_OPTIONAL(PROTOTYPE)

static int values_are_alike(void)
{
    SAME(SYMC_NCCL_SUCCESS, ncclSuccess);
    SAME(SYMC_NCCL_CUDA_ERROR, ncclUnhandledCudaError);
    SAME(SYMC_NCCL_SYSTEM_ERROR, ncclSystemError);
    SAME(SYMC_NCCL_INTERNAL_ERROR, ncclInternalError);
    SAME(SYMC_NCCL_INVALID_ARGUMENT, ncclInvalidArgument);
    SAME(SYMC_NCCL_INVALID_USAGE, ncclInvalidUsage);
    SAME(SYMC_NCCL_REMOTE_ERROR, ncclRemoteError);
    SAME(SYMC_NCCL_IN_PROGRESS, ncclInProgress);
    SAME(SYMC_NCCL_SUM, ncclSum);
    SAME(SYMC_NCCL_PROD, ncclProd);
    SAME(SYMC_NCCL_MAX, ncclMax);
    SAME(SYMC_NCCL_MIN, ncclMin);
    SAME(SYMC_NCCL_AVG, ncclAvg);
    SAME(SYMC_NCCL_ON_DEVICE, ncclScalarDevice);
    SAME(SYMC_NCCL_ON_HOST, ncclScalarHostImmediate);
    SAME(SYMC_NCCL_UNDEFINED, NCCL_CONFIG_UNDEF_INT);
    SAME(SYMC_NCCL_WINDOW_SYMMETRIC, NCCL_WIN_COLL_SYMMETRIC);
    SAME(SYMC_NCCL_WINDOW_ALIGNMENT, NCCL_WIN_REQUIRED_ALIGNMENT);
    SAME(SYMC_NCCL_SHRINK_ABORT, NCCL_SHRINK_ABORT);
    SAME(SYMC_NCCL_EFFICIENCY, NCCL_CTA_POLICY_EFFICIENCY);
    SAME(SYMC_NCCL_ZERO, NCCL_CTA_POLICY_ZERO);
    return alike();
}

static int types_are_alike(void)
{
    SAME(SYMC_NCCL_INT8, ncclInt8);
    SAME(SYMC_NCCL_UINT8, ncclUint8);
    SAME(SYMC_NCCL_INT32, ncclInt32);
    SAME(SYMC_NCCL_UINT32, ncclUint32);
    SAME(SYMC_NCCL_INT64, ncclInt64);
    SAME(SYMC_NCCL_UINT64, ncclUint64);
    SAME(SYMC_NCCL_FLOAT16, ncclFloat16);
    SAME(SYMC_NCCL_FLOAT32, ncclFloat32);
    SAME(SYMC_NCCL_FLOAT64, ncclFloat64);
    SAME(SYMC_NCCL_BFLOAT16, ncclBfloat16);
    SAME_SIZE(enum symc_nccl_result, ncclResult_t);
    SAME_SIZE(enum symc_nccl_op, ncclRedOp_t);
    SAME_SIZE(enum symc_nccl_type, ncclDataType_t);
    SAME_SIZE(enum symc_nccl_residence, ncclScalarResidence_t);
    return alike();
}

#define SAME_CONFIG(our, their) \
    SAME_MEMBER(struct symc_nccl_config, our, ncclConfig_t, their)
#define SAME_SIMULATED(our, their) \
    SAME_MEMBER(struct symc_nccl_simulated, our, ncclSimInfo_t, their)

static int structs_are_alike(void)
{
    SAME_SIZE(struct symc_nccl_id, ncclUniqueId);
    SAME_CONFIG(size, size);
    SAME_CONFIG(magic, magic);
    SAME_CONFIG(version, version);
    SAME_CONFIG(blocking, blocking);
    SAME_CONFIG(cga_cluster_size, cgaClusterSize);
    SAME_CONFIG(min_ctas, minCTAs);
    SAME_CONFIG(max_ctas, maxCTAs);
    SAME_CONFIG(net_name, netName);
    SAME_CONFIG(split_share, splitShare);
    SAME_CONFIG(traffic_class, trafficClass);
    SAME_CONFIG(comm_name, commName);
    SAME_CONFIG(collnet_enable, collnetEnable);
    SAME_CONFIG(cta_policy, CTAPolicy);
    SAME_CONFIG(shrink_share, shrinkShare);
    SAME_CONFIG(nvls_ctas, nvlsCTAs);
    SAME_CONFIG(channels_per_net_peer, nChannelsPerNetPeer);
    SAME_CONFIG(nvlink_centric_sched, nvlinkCentricSched);
    SAME_SIZE(struct symc_nccl_simulated, ncclSimInfo_t);
    SAME_SIMULATED(size, size);
    SAME_SIMULATED(magic, magic);
    SAME_SIMULATED(version, version);
    SAME_SIMULATED(estimated_us, estimatedTime);
    return alike();
}

/* Checks that every member has the value of NCCL's initialiser, in a library
 * of the header's version. */
static int initialisers_are_alike(void)
{
    const struct symc_nccl nccl = {.version = NCCL_VERSION_CODE};
    const ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    const ncclSimInfo_t simulated = NCCL_SIM_INFO_INITIALIZER;
    struct symc_nccl_config ours, theirs;

    symc_nccl_config_init(&nccl, &ours);
    __builtin_memcpy(&theirs, &config, sizeof(theirs));
    SAME(ours.magic, theirs.magic);
    SAME(ours.blocking, theirs.blocking);
    SAME(ours.cga_cluster_size, theirs.cga_cluster_size);
    SAME(ours.min_ctas, theirs.min_ctas);
    SAME(ours.max_ctas, theirs.max_ctas);
    SAME((uintptr_t)ours.net_name, (uintptr_t)theirs.net_name);
    SAME(ours.split_share, theirs.split_share);
    SAME(ours.traffic_class, theirs.traffic_class);
    SAME((uintptr_t)ours.comm_name, (uintptr_t)theirs.comm_name);
    SAME(ours.collnet_enable, theirs.collnet_enable);
    SAME(ours.cta_policy, theirs.cta_policy);
    SAME(ours.shrink_share, theirs.shrink_share);
    SAME(ours.nvls_ctas, theirs.nvls_ctas);
    SAME(ours.channels_per_net_peer, theirs.channels_per_net_peer);
    SAME(ours.nvlink_centric_sched, theirs.nvlink_centric_sched);
    SAME(SYMC_NCCL_SIMULATED_MAGIC, simulated.magic);
    if (NCCL_VERSION_CODE <= SYMC_NCCL_KNOWN) {
        SAME(ours.size, theirs.size);
        SAME(ours.version, theirs.version);
    }
    return alike();
}

int main(void)
{
    char version[32];

    symc_nccl_format_version(NCCL_VERSION_CODE, version);
    plan(4);
    ok(values_are_alike(), "values are as in nccl.h of %s", version);
    ok(types_are_alike(), "types of elements, and sizes of enumerations, are");
    ok(structs_are_alike(), "structures have their members where it has them");
    ok(initialisers_are_alike(), "a config is initialised as by it");
    return done_testing();
}

#else

int main(void)
{
    skip_all("there is no nccl.h of 2.28.7 or later");
}

#endif
