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
        .help = "Memory of each rank's device for the staging of a group. "
                "Larger operations pass through it in pieces; all members use "
                "the smallest size among them.",
    },
    {
        .key = "cuda.share_device",
        BOOL(cuda_share_device),
        .dflt = "off",
        .help = "Whether several ranks of a group may use one device. Their "
                "kernels have to run at the same time, see cuda.groups. For "
                "ranks that are threads of one process, set "
                "CUDA_DEVICE_MAX_CONNECTIONS=32 and CUDA_MODULE_LOADING=EAGER "
                "in its environment: otherwise streams that share a queue of "
                "the device, and kernels that are loaded at their first "
                "launch, wait for each other.",
    },
    {
        .key = "cuda.packets_max",
        SIZE(cuda_packets_max),
        .dflt = "16KiB",
        .range = "0 16KiB",
        .help = "Largest size that all_reduce and reduce on devices send in "
                "packets, each of which is its own signal; symmetric memory "
                "does not use packets.",
    },
    {
        .key = "cuda.one_shot_max",
        SIZE(cuda_one_shot_max),
        .dflt = "256KiB",
        .range = "0 inf",
        .help = "Largest size of all_reduce on devices for which every rank "
                "reads the elements of all ranks; larger ones run in two "
                "steps.",
    },
    {
        .key = "cuda.one_shot_max_two",
        SIZE(cuda_one_shot_max_two),
        .dflt = "1MiB",
        .range = "0 inf",
        .help = "The limit of cuda.one_shot_max for groups of two ranks.",
    },
    {
        .key = "cuda.blocks",
        INT(cuda_blocks),
        .dflt = "24",
        .range = "1 64",
        .help = "Limit on the number of blocks of a kernel that synchronises "
                "ranks; fewer if ranks share a device.",
    },
    {
        .key = "cuda.groups",
        INT(cuda_groups),
        .dflt = "4",
        .range = "1 64",
        .help = "Number of groups whose operations may run at the same time "
                "on a device. A kernel has no more blocks than the "
                "multiprocessors divided by this number and by the ranks of "
                "the group there, so that all kernels fit. With more groups, "
                "kernels may wait for others that do not fit, until the "
                "timeout, which may name ranks that have arrived. All members "
                "use the largest value.",
    },
    {
        .key = "cuda.share",
        CHOICE(cuda_share),
        .dflt = "auto",
        .range = "auto descriptor fabric",
        .help = "How processes share memory of devices: by descriptors, or by "
                "fabric handles of NVLink, which need the driver's "
                "permission; auto: by fabric handles if all ranks have them.",
    },
    {
        .key = "cuda.multicast",
        CHOICE(cuda_multicast), /* enum symc_multicast_use */
        .dflt = "auto",
        .range = "auto off",
        .help = "Whether symmetric memory on devices has a multicast address, "
                "by which a switch reaches all ranks; auto: if all devices of "
                "a group support it and no two ranks share one. Collectives "
                "on other memory of devices do not use it.",
    },
    {
        .key = "cuda.multicast_blocks",
        INT(cuda_multicast_blocks),
        .dflt = "8",
        .range = "1 32",
        .help = "Limit on the number of blocks of a kernel that uses a "
                "multicast address; cuda.blocks is a limit too.",
    },
    {
        .key = "cuda.multimem",
        BOOL(cuda_multimem),
        .dflt = "off",
        .help = "Whether a switch adds floats in symmetric memory on devices "
                "that has a multicast address: fewer bytes are moved, but "
                "elements are not added in the order of ranks.",
    },
    {
        .key = "cuda.multimem_one_shot_max",
        SIZE(cuda_multimem_one_shot_max),
        .dflt = "64KiB",
        .range = "0 inf",
        .help = "Largest size of symmcoll_symm_intra_node_all_reduce() for "
                "which every rank reads all sums from the switch; for larger "
                "ones each rank reads a part and writes it to all.",
    },
    {
        .key = "cuda.copy_engine",
        BOOL(cuda_copy_engine),
        .dflt = "off",
        .help = "Whether the driver copies the data of all_gather and "
                "all_to_all on devices, so that copy engines do it and leave "
                "the multiprocessors to other kernels; used if all members "
                "have it on.",
    },
    {
        .key = "cuda.message_chunk",
        SIZE(cuda_message_chunk),
        .dflt = "2MiB",
        .range = "64KiB 64MiB",
        .help = "Size of the pieces in which sends and receives of device "
                "memory pass through memory of the sender's device, four of a "
                "message at a time; a rank that has sent such a message has "
                "32 of these pieces there.",
    },
    {
        .key = "cuda.cublaslt",
        TEXT(cuda_cublaslt),
        .dflt = "libcublasLt.so.13",
        .help = "Library of cuBLASLt, named as that of NCCL is in cuda.nccl.",
    },
    {
        .key = "cuda.nccl_min",
        SIZE(cuda_nccl_min),
        .dflt = "10MiB",
        .range = "0 inf",
        .help = "Bytes of a rank's part from which on NCCL runs operations on "
                "devices, if all ranks have it and a device of their own: "
                "those that move data, and reductions of integers and bool. "
                "All members use the largest value.",
    },
    {
        .key = "cuda.nccl_sums",
        BOOL(cuda_nccl_sums),
        .dflt = "off",
        .help = "Whether NCCL also runs sums and means of floats and complex "
                "numbers, from cuda.nccl_min on: not in the order of ranks, "
                "and floats of 16 bits may be rounded more than once.",
    },
    {
        .key = "cuda.nccl_shared",
        BOOL(cuda_nccl_shared),
        .dflt = "off",
        .help = "Whether NCCL also serves groups with ranks that share a "
                "device. NCCL refuses that, except as its own variables "
                "allow; for tests.",
    },
    {
        .key = "cuda.nccl_windows",
        BOOL(cuda_nccl_windows),
        .dflt = "off",
        .help = "Whether symmetric memory of ranks that are processes, "
                "including that of symmcoll_symm_register(), is registered "
                "with NCCL (2.28 or later) when all ranks pass it at the same "
                "offset to all_reduce, reduce_scatter, all_gather or "
                "all_to_all; a second communicator serves those.",
    },
    {
        .key = "cuda.nccl_split",
        BOOL(cuda_nccl_split),
        .dflt = "off",
        .help = "Whether the split of a group also splits its communicator of "
                "NCCL, if it has one: at once and in its memory, whether or "
                "not the new groups need theirs later; off: each is made when "
                "it is needed.",
    },
    {
        .key = "cuda.nccl_shrink",
        BOOL(cuda_nccl_shrink),
        .dflt = "off",
        .help = "Whether a group that has failed keeps its communicator, "
                "stopped, with NCCL 2.28.7 or later, so that NCCL shrinks it "
                "when the group that symmcoll_group_shrink() makes needs one; "
                "off: it is aborted, and a new one is made.",
    },
    {
        .key = "cuda.nccl_min_ctas",
        INT(cuda_nccl_min_ctas),
        .dflt = "0",
        .range = "0 64",
        .help = "Minimum number of blocks of NCCL's kernels; 0: chosen by "
                "NCCL.",
    },
    {
        .key = "cuda.nccl_max_ctas",
        INT(cuda_nccl_max_ctas),
        .dflt = "0",
        .range = "0 64",
        .help = "Maximum number of blocks of NCCL's kernels, so that other "
                "kernels have the rest of the device; 0: chosen by NCCL.",
    },
    {
        .key = "cuda.nccl_cga",
        INT(cuda_nccl_cga),
        .dflt = "-1",
        .range = "-1 8",
        .help = "Number of blocks in a cluster of NCCL's kernels; 0: no "
                "clusters, -1: chosen by NCCL.",
    },
    {
        .key = "cuda.nccl_cta_policy",
        CHOICE(cuda_nccl_cta_policy), /* enum symc_nccl_policy */
        .dflt = "auto",
        .range = "auto efficiency zero",
        .help = "How NCCL uses multiprocessors for buffers that are "
                "registered with it (cuda.nccl_windows), for others as with "
                "auto. efficiency: as few as suffice (NCCL 2.27); zero: none "
                "where copy engines can do it, such as all_gather and "
                "all_to_all (NCCL 2.28); auto: chosen by NCCL.",
    },
    {
        .key = "cuda.nccl_net",
        TEXT(cuda_nccl_net),
        .dflt = "",
        .help = "The network that NCCL uses, by the name of its plugin, such "
                "as IB or Socket; empty: chosen by NCCL.",
    },
    {
        .key = "cuda.nccl",
        TEXT(cuda_nccl),
        .dflt = "libnccl.so.2",
        .help = "Library of NCCL, a path or a name that the loader finds, for "
                "processes that have not loaded one themselves; empty: none.",
    },
