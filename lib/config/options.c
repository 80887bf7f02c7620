/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The table of settings, in which each setting is described once; it drives the
 * file, the environment, symmcoll-conf and the manual page.  value.c parses the
 * text of values.
 */
#include "config/option.h"

/* Zero, or a compile error if the field is not of the parser's type. */
#define TYPED(f, T) _Generic(((struct symc_config *)0)->f, T : 0)
#define FIELD(f, T) .offset = offsetof(struct symc_config, f) + TYPED(f, T)

#define BOOL(f) FIELD(f, bool), .type = SYMC_OPTION_BOOL
#define INT(f) FIELD(f, int64_t), .type = SYMC_OPTION_INT
#define SIZE(f) FIELD(f, size_t), .type = SYMC_OPTION_SIZE
#define TIME(f) FIELD(f, int64_t), .type = SYMC_OPTION_TIME
#define TEXT(f) FIELD(f, char *), .type = SYMC_OPTION_TEXT
#define CHOICE(f) FIELD(f, int64_t), .type = SYMC_OPTION_CHOICE

const struct symc_option symc_options[] = {
    {
        .key = "profile",
        CHOICE(profile), /* enum symc_profile */
        .dflt = "default",
        .range = "default compat-2024",
        .help = "The set of default values; compat-2024 has those of "
                "torch.distributed in mid-2024.",
    },
    {
        .key = "backends",
        TEXT(backends),
        .dflt = "",
        .help = "Names of the backends that may be used, separated by commas; "
                "empty: all built-in ones and all installed modules.",
    },

    {
        .key = "timeouts.init",
        TIME(timeouts_init),
        .dflt = "5min",
        .range = "1ms inf",
        .help = "How long symmcoll_init() waits for all ranks to join. Also "
                "the minimum time that the members of a group wait for each "
                "other when an operation on a device has to create something "
                "first.",
    },
    {
        .key = "timeouts.collective",
        TIME(timeouts_collective),
        .dflt = "30min",
        .range = "1ms inf",
        .help = "How long one operation may take, counted from its first "
                "wait, before it fails its group.",
    },
    {
        .key = "timeouts.finalize",
        TIME(timeouts_finalize),
        .dflt = "30s",
        .range = "0 inf",
        .help = "How long symmcoll_finalize() waits for queued operations.",
    },
    {
        .key = "timeouts.heartbeat",
        TIME(timeouts_heartbeat),
        .dflt = "8min",
        .range = "1s inf",
        .help = "How long the monitor thread may make no progress before it "
                "counts as stuck.",
    },

    {
        .key = "errors.async_handling",
        INT(errors_async_handling), /* enum symc_async_handling */
        .dflt = "2",
        .range = "0 3",
        .help = "The reaction to a failed operation or the death of a rank, "
                "which is detected in every mode. 0 and 2: calls and waits "
                "return the error. 1: they do, and the process ends when the "
                "works of the group and their callbacks have ended. 3: the "
                "process ends at once.",
    },
    {
        .key = "errors.blocking_wait",
        BOOL(errors_blocking_wait),
        .dflt = "off",
        .help = "Whether an expired wait fails the group, and calls and waits "
                "on device memory block the host until the device has "
                "completed.",
    },
    {
        .key = "errors.kill_process",
        BOOL(errors_kill_process),
        .dflt = "off",
        .help = "Whether a stuck monitor ends the process by SIGABRT.",
    },
    {
        .key = "errors.aliases",
        CHOICE(errors_aliases), /* enum symc_alias_use */
        .dflt = "auto",
        .range = "auto on off",
        .help = "Whether variables of torch.distributed are read as well; "
                "auto: unless libtorch is loaded in the process.",
    },
    {
        .key = "errors.nan_check",
        CHOICE(errors_nan_check), /* enum symc_nan_check */
        .dflt = "off",
        .range = "off warn error",
        .truth = "off error",
        .help = "Whether the input of operations is searched for "
                "floating-point elements that are NaN, before they start. "
                "warn: they are logged. error: the operation is refused, with "
                "the index of the first one. Device memory is searched on the "
                "device and the result is reported after the operation: an "
                "error fails the group then. Input of captured operations, "
                "and on devices that of symmetric and fused operations and of "
                "sends, is not searched.",
    },

    {
        .key = "trace.buffer_size",
        INT(trace_buffer_size),
        .dflt = "2000",
        .range = "0 1048576",
        .help = "Number of operations that the flight recorder keeps; 0 turns "
                "it off.",
    },
    {
        .key = "trace.dump_file",
        TEXT(trace_dump_file),
        .dflt = "",
        .help = "Path of a dump, to which the rank is appended; empty: a file "
                "in the user's cache folder.",
    },
    {
        .key = "trace.dump_pipe",
        TEXT(trace_dump_pipe),
        .dflt = "",
        .help = "Path of a FIFO, to which the rank and \".pipe\" are "
                "appended, with .NAME between them in a world that has a "
                "name. Data written to it makes the rank write its dump, at "
                "most once a second. Empty: none.",
    },
    {
        .key = "trace.dump_on_error",
        BOOL(trace_dump_on_error),
        .dflt = "on",
        .help = "Whether all ranks write their dumps when an operation fails.",
    },
    {
        .key = "trace.dump_grace",
        TIME(trace_dump_grace),
        .dflt = "1s",
        .range = "0 1h",
        .help = "How long a failing call waits for the dump to be written.",
    },
    {
        .key = "trace.only_active",
        BOOL(trace_only_active),
        .dflt = "off",
        .help = "Whether automatic dumps contain only operations that have not "
                "completed.",
    },
    {
        .key = "trace.timing",
        BOOL(trace_timing),
        .dflt = "off",
        .help = "Whether operations on device memory are timed by events of "
                "the device, whose time is the reported duration; costs one "
                "more event for each operation.",
    },
    {
        .key = "trace.nccl_ras",
        TIME(trace_nccl_ras),
        .dflt = "2s",
        .range = "0 1min",
        .help = "How long the dump of a failure waits for the report of "
                "NCCL's RAS service about the job, if the rank has a "
                "communicator of NCCL; 0: no query.",
    },
    {
        .key = "trace.format",
        CHOICE(trace_format), /* enum symc_trace_form */
        .dflt = "json",
        .range = "json pickle",
        .help = "Format of dumps: JSON, or a Python pickle, which PyTorch's "
                "fr_trace reads.",
    },
    {
        .key = "trace.backend_name",
        TEXT(trace_backend_name),
        .dflt = "nccl",
        .help = "Prefix of each operation's name in dumps; existing readers "
                "expect nccl.",
    },
    {
        .key = "trace.version",
        TEXT(trace_version),
        .dflt = "2.10",
        .range = "2.10 2.2",
        .help = "Version of the format of dumps.",
    },

    {
        .key = "host.spin",
        TIME(host_spin),
        .dflt = "50us",
        .range = "0 1s",
        .help = "How long a waiting rank polls before it sleeps, if each rank "
                "has a core.",
    },
    {
        .key = "host.polls",
        INT(host_polls),
        .dflt = "300",
        .range = "0 1000000000",
        .help = "Number of times that a waiting rank polls before it yields "
                "its core, if there are more ranks than cores.",
    },
    {
        .key = "host.yield",
        TIME(host_yield),
        .dflt = "1ms",
        .range = "0 1s",
        .help = "How long a waiting rank yields before it sleeps, if there "
                "are more ranks than cores.",
    },
    {
        .key = "host.watch",
        TIME(host_watch),
        .dflt = "20ms",
        .range = "1ms 10s",
        .help = "How often a rank's monitor checks whether the other ranks are "
                "alive.",
    },
    {
        .key = "host.small_max",
        SIZE(host_small_max),
        .dflt = "8KiB",
        .range = "0 16KiB",
        .help = "Largest payload that is sent next to an operation's header "
                "line.",
    },
    {
        .key = "host.chunk",
        SIZE(host_chunk),
        .dflt = "256KiB",
        .range = "4KiB 1MiB",
        .help = "Size of a staging slot, and thus of a step of a large "
                "operation.",
    },
    {
        .key = "host.staging_budget",
        SIZE(host_staging),
        .dflt = "256MiB",
        .range = "0 inf",
        .help = "Memory of a rank for the staging of all groups of a world. A "
                "group for which less remains has smaller slots than "
                "host.chunk, down to 4KiB; all its members use the smallest "
                "size among them.",
    },
    {
        .key = "host.stream_min",
        SIZE(host_stream_min),
        .dflt = "4MiB",
        .range = "0 inf",
        .help = "Results of this size or more are written with non-temporal "
                "stores; if buffers of other processes are used in place, "
                "only when all ranks' inputs and results are eight times this "
                "size.",
    },
    {
        .key = "host.reduce_run",
        INT(host_reduce_run),
        .dflt = "16",
        .range = "2 1024",
        .help = "Number of ranks in a reduction block: elements are added in "
                "the order of ranks within a block, then the blocks are. Must "
                "be the same on all ranks.",
    },
    {
        .key = "host.node",
        TEXT(host_node),
        .dflt = "",
        .help = "Name of this machine, by which ranks decide whether they "
                "share one; empty: the boot id and network namespace.",
    },
    {
        .key = "host.direct",
        BOOL(host_direct),
        .dflt = "on",
        .help = "Whether ranks that are threads read each other's buffers.",
    },
    {
        .key = "host.symmetric",
        BOOL(host_symmetric),
        .dflt = "on",
        .help = "Whether collectives use symmetric buffers in place.",
    },

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

    {
        .key = "store.timeout",
        TIME(store_timeout),
        .dflt = "5min",
        .range = "1ms inf",
        .help = "How long calls on the world's store wait for a key.",
    },
    {
        .key = "store.url",
        TEXT(store_url),
        .dflt = "",
        .help = "Redis or Valkey server for the world's store, as "
                "redis://HOST:PORT/DB, rediss: for TLS, or unix:///PATH; "
                "empty: none.",
    },
    {
        .key = "store.serve",
        BOOL(store_serve),
        .dflt = "off",
        .help = "Whether rank 0 serves a store at MASTER_ADDR for worlds that "
                "are initialised by env://. Any client that can connect, with "
                "the password if there is one, can read and write it.",
    },
    {
        .key = "store.port",
        INT(store_port),
        .dflt = "0",
        .range = "0 65535",
        .help = "Port of the store that rank 0 serves; 0: MASTER_PORT, plus "
                "one under torchrun.",
    },
    {
        .key = "store.password_file",
        TEXT(store_password_file),
        .dflt = "",
        .help = "File with the password of the store, at store.url or at rank "
                "0, in its first line. Empty: none, or one that rank 0 makes "
                "for ranks of its user if it serves at a loopback address.",
    },
    {
        .key = "store.tls_ca",
        TEXT(store_tls_ca),
        .dflt = "",
        .help = "File of the authorities that sign the certificates of the "
                "store; empty: the system's.",
    },
    {
        .key = "store.tls_cert",
        TEXT(store_tls_cert),
        .dflt = "",
        .help = "File of this rank's certificate for the store; rank 0 serves "
                "over TLS if it is set.",
    },
    {
        .key = "store.tls_key",
        TEXT(store_tls_key),
        .dflt = "",
        .help = "File of the certificate's private key; empty: store.tls_cert.",
    },

    {
        .key = "fused.blas",
        TEXT(fused_blas),
        .dflt = "auto",
        .help = "Library with CBLAS that multiplies matrices. auto: the one "
                "that the program has loaded, else the fastest installed one, "
                "which the first product of a world determines by "
                "measurements of some 50 ms. LIBRARY:KERNELS: OpenBLAS with "
                "KERNELS as OPENBLAS_CORETYPE. Empty: the one found when "
                "libsymmcoll was built. none: no library.",
    },
    {
        .key = "fused.device_memory",
        SIZE(fused_device_memory),
        .dflt = "inf",
        .range = "0 inf",
        .help = "Limit on the device memory of each rank of a group for fused "
                "operations, apart from memory that captured graphs keep; a "
                "call that needs more is refused on all ranks.",
    },
    {
        .key = "fused.device_rows",
        INT(fused_device_rows),
        .dflt = "512",
        .range = "0 1000000000",
        .help = "Number of rows of a rank's part from which on fused "
                "operations on devices multiply the parts of the ranks one by "
                "one while others are exchanged. With fewer rows on any rank, "
                "all parts are one product, after or before the exchange.",
    },
    {
        .key = "fused.round_parts",
        BOOL(fused_round_parts),
        .dflt = "off",
        .help = "Whether sums of products that pass from device to device are "
                "rounded to the result's float16 or bfloat16 on each, which "
                "halves the bytes; off: they are float32 and rounded once. "
                "The same on all ranks.",
    },
    {
        .key = "fused.tf32",
        BOOL(fused_tf32),
        .dflt = "off",
        .help = "Whether products of float32 on devices may round elements to "
                "10 bits of mantissa, which tensor cores multiply. Applies to "
                "the products of this rank: a sum over ranks mixes both if "
                "they differ.",
    },

    {
        .key = "ddp.bucket_cap",
        SIZE(ddp_bucket_cap),
        .dflt = "25MiB",
        .range = "0 inf",
        .help = "Size of gradients at which a bucket is full.",
    },
    {
        .key = "ddp.first_bucket_cap",
        SIZE(ddp_first_bucket_cap),
        .dflt = "1MiB",
        .range = "0 inf",
        .help = "Size of gradients at which the first bucket is full; a small "
                "one lets communication start early.",
    },

    {
        .key = "symm_mem.pad",
        SIZE(symm_mem_pad),
        .dflt = "2KiB",
        .range = "16 16MiB",
        .help = "Bytes of the signal pad of symmetric memory: four for each "
                "channel and rank. The same on all ranks.",
    },
    {
        .key = "symm_mem.memfd_min",
        SIZE(symm_mem_memfd_min),
        .dflt = "1GiB",
        .range = "0 inf",
        .help = "Symmetric memory of this size or more has a memfd of its "
                "own, as has memory that does not fit in the arena of its "
                "rank.",
    },
    {
        .key = "symm_mem.huge_pages",
        BOOL(symm_mem_huge_pages),
        .dflt = "off",
        .help = "Whether symmetric memory of a huge page or more is taken "
                "from the pages reserved in /proc/sys/vm/nr_hugepages; if "
                "there are too few, it uses normal pages and a warning is "
                "logged.",
    },

    {
        .key = "log.level",
        CHOICE(log_level), /* enum symc_log_level */
        .dflt = "warn",
        .range = "off error warn info debug",
        .help = "How much the library logs to standard error.",
    },
    {
        .key = "log.progress",
        TIME(log_progress),
        .dflt = "10s",
        .range = "1ms inf",
        .help = "How long symmcoll_init() waits before it logs a warning with "
                "the missing ranks, then after twice that time, and so on; "
                "inf: no warning.",
    },
    {.key = NULL},
};

int symc_option_count(void)
{
    return sizeof symc_options / sizeof symc_options[0] - 1;
}
