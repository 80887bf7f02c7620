/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The settings of operations on devices: entries of the table in options.c,
 * which includes this file inside the table and defines BOOL() and similar
 * macros.
 */
/* clang-format off */
    {
        .key = "cuda.staging",
        SIZE(cuda_staging),
        .dflt = "32MiB",
        .range = "4KiB 16GiB",
        .help = "Memory of each rank's device for the staging of a group; "
                "larger operations go through it in pieces, and all members "
                "use what the one with the least has.",
    },
    {
        .key = "cuda.share_device",
        BOOL(cuda_share_device),
        .dflt = "off",
        .help = "Whether several ranks of a group may use one device, where "
                "their kernels have to run at once, as cuda.groups says; "
                "where the ranks are threads of one process, have "
                "CUDA_DEVICE_MAX_CONNECTIONS=32 and "
                "CUDA_MODULE_LOADING=EAGER in its environment, or streams "
                "that share a queue of the device, and kernels that are "
                "loaded when they are first started, wait for each other.",
    },
    {
        .key = "cuda.packets_max",
        SIZE(cuda_packets_max),
        .dflt = "16KiB",
        .range = "0 16KiB",
        .help = "all_reduce and reduce on devices send up to this size in "
                "packets, each of which is its own signal; symmetric memory "
                "does not.",
    },
    {
        .key = "cuda.one_shot_max",
        SIZE(cuda_one_shot_max),
        .dflt = "256KiB",
        .range = "0 inf",
        .help = "All-reductions on devices up to this size read the elements "
                "of all ranks on every rank; larger ones in two steps.",
    },
    {
        .key = "cuda.one_shot_max_two",
        SIZE(cuda_one_shot_max_two),
        .dflt = "1MiB",
        .range = "0 inf",
        .help = "The same limit in groups of two ranks.",
    },
    {
        .key = "cuda.blocks",
        INT(cuda_blocks),
        .dflt = "24",
        .range = "1 64",
        .help = "Number of blocks of a kernel that synchronises ranks, at "
                "most; fewer where ranks share a device.",
    },
    {
        .key = "cuda.groups",
        INT(cuda_groups),
        .dflt = "4",
        .range = "1 64",
        .help = "Number of groups whose operations may run at once on a "
                "device: a kernel has no more blocks than its "
                "multiprocessors divided by that and by the ranks of the "
                "group there, so that those of all fit; with more groups at "
                "once some may find no place while others wait for them, "
                "until the timeout, which names ranks that did come; all "
                "members use the largest.",
    },
    {
        .key = "cuda.share",
        CHOICE(cuda_share),
        .dflt = "auto",
        .range = "auto descriptor fabric",
        .help = "How processes share memory of devices: by descriptors, or by "
                "fabric handles of NVLink, which need the driver's permission; "
                "auto: by fabric handles where all ranks have them.",
    },
    {
        .key = "cuda.multicast",
        CHOICE(cuda_multicast), /* enum symc_multicast_use */
        .dflt = "auto",
        .range = "auto off",
        .help = "Whether symmetric memory on devices has an address by which a "
                "switch reaches all ranks; auto: where all devices of a group "
                "have that and no two ranks share one; collectives on other "
                "memory of devices do not use it.",
    },
    {
        .key = "cuda.multicast_blocks",
        INT(cuda_multicast_blocks),
        .dflt = "8",
        .range = "1 32",
        .help = "Number of blocks of a kernel that uses such an address, at "
                "most, and no more than cuda.blocks.",
    },
    {
        .key = "cuda.multimem",
        BOOL(cuda_multimem),
        .dflt = "off",
        .help =
            "Whether a switch adds up floats in symmetric memory on devices "
            "that has such an address: fewer bytes are moved, and a sum is "
            "not that in the order of ranks.",
    },
    {
        .key = "cuda.multimem_one_shot_max",
        SIZE(cuda_multimem_one_shot_max),
        .dflt = "64KiB",
        .range = "0 inf",
        .help = "Sums of symmcoll_symm_intra_node_all_reduce() up to this size "
                "are read from the switch by every rank; in larger ones each "
                "rank reads a part and writes it to all.",
    },
    {
        .key = "cuda.copy_engine",
        BOOL(cuda_copy_engine),
        .dflt = "off",
        .help = "Whether the driver copies what all_gather and all_to_all move "
                "on devices, so that copy engines do it and leave the "
                "multiprocessors to other kernels; it is if all members have "
                "it on.",
    },
    {
        .key = "cuda.message_chunk",
        SIZE(cuda_message_chunk),
        .dflt = "2MiB",
        .range = "64KiB 64MiB",
        .help = "Sends and receives of device memory go through memory of the "
                "sender's device in pieces of this size, four of a message "
                "at once; a rank that has sent some has 32 of these there.",
    },
    {
        .key = "cuda.cublaslt",
        TEXT(cuda_cublaslt),
        .dflt = "libcublasLt.so.13",
        .help = "cuBLASLt's library, as cuda.nccl is that of NCCL.",
    },
    {
        .key = "cuda.nccl_min",
        SIZE(cuda_nccl_min),
        .dflt = "10MiB",
        .range = "0 inf",
        .help = "Bytes of a rank's part from which on operations on devices "
                "are NCCL's, where all ranks have it and a device of their "
                "own: those that move data, and reductions of integers and "
                "bool; all members use the largest.",
    },
    {
        .key = "cuda.nccl_sums",
        BOOL(cuda_nccl_sums),
        .dflt = "off",
        .help = "Whether sums and means of floats and complex numbers are "
                "NCCL's, too, from that size on: not in the order of ranks, "
                "and floats of 16 bits may be rounded more than once.",
    },
    {
        .key = "cuda.nccl_shared",
        BOOL(cuda_nccl_shared),
        .dflt = "off",
        .help = "Whether NCCL serves groups with ranks that share a device, "
                "too; NCCL refuses that, except as its own variables allow, "
                "and it is for tests.",
    },
    {
        .key = "cuda.nccl_windows",
        BOOL(cuda_nccl_windows),
        .dflt = "off",
        .help = "Whether symmetric memory of ranks that are processes, that "
                "of symmcoll_symm_register(), too, is registered with "
                "NCCL (2.28 or later) when all ranks pass it to all_reduce, "
                "reduce_scatter, all_gather or all_to_all at the same offset; "
                "a second communicator serves those.",
    },
    {
        .key = "cuda.nccl_split",
        BOOL(cuda_nccl_split),
        .dflt = "off",
        .help = "Whether a group's split has NCCL split the communicator, too, "
                "where it has one: at once and in its memory, whether the new "
                "groups come to need theirs or not; off makes each when it is "
                "needed.",
    },
    {
        .key = "cuda.nccl_shrink",
        BOOL(cuda_nccl_shrink),
        .dflt = "off",
        .help = "Whether a group that has failed keeps its communicator, "
                "stopped, where NCCL is 2.28.7 or later, so that what is left "
                "of it by symmcoll_group_shrink() has NCCL shrink that when it "
                "needs one; off aborts it, and a new one is made.",
    },
    {
        .key = "cuda.nccl_min_ctas",
        INT(cuda_nccl_min_ctas),
        .dflt = "0",
        .range = "0 64",
        .help = "Blocks of NCCL's kernels, at least; 0 leaves it to NCCL.",
    },
    {
        .key = "cuda.nccl_max_ctas",
        INT(cuda_nccl_max_ctas),
        .dflt = "0",
        .range = "0 64",
        .help = "Blocks of NCCL's kernels, at most, so that other kernels have "
                "the rest of the device; 0 leaves it to NCCL.",
    },
    {
        .key = "cuda.nccl_cga",
        INT(cuda_nccl_cga),
        .dflt = "-1",
        .range = "-1 8",
        .help = "Blocks of a cluster of NCCL's kernels; 0 is none, -1 leaves "
                "it to NCCL.",
    },
    {
        .key = "cuda.nccl_cta_policy",
        CHOICE(cuda_nccl_cta_policy), /* enum symc_nccl_policy */
        .dflt = "auto",
        .range = "auto efficiency zero",
        .help = "How NCCL uses multiprocessors where buffers are registered "
                "with it (cuda.nccl_windows), and else as with auto: "
                "efficiency, as few as serve (NCCL 2.27), zero, none where "
                "copy engines can do it, as all_gather and all_to_all (NCCL "
                "2.28); auto leaves it to NCCL.",
    },
    {
        .key = "cuda.nccl_net",
        TEXT(cuda_nccl_net),
        .dflt = "",
        .help = "The network that NCCL is to use, by the name of its plugin, "
                "as IB or Socket; empty leaves it to NCCL.",
    },
    {
        .key = "cuda.nccl",
        TEXT(cuda_nccl),
        .dflt = "libnccl.so.2",
        .help = "NCCL's library, a path or a name that the loader finds, for "
                "processes that have not loaded one themselves; empty for "
                "none.",
    },
