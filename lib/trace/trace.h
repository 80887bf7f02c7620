/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The flight recorder: a ring of a rank's latest operations in its own block,
 * which peers and the launcher can read after the rank's death (X1-X8).
 *
 * One thread at a time writes a group's entries; several groups may write
 * concurrently, and any process may read at any time. A sequence lock protects
 * each entry: readers skip an entry whose writer was killed while writing it.
 * Readers trust nothing: they check every count and offset against the mapped
 * size.
 *
 * An operation that has not ended is never overwritten, however many operations
 * of other groups are recorded after it.
 *
 * A freed group's slot is reused, the oldest first. Each use of a slot has a
 * generation, stored in the entries too, so that an entry is never attributed
 * to another group. The table of groups is at the end of the memory; only the
 * used part is backed.
 */
#ifndef SYMC_TRACE_TRACE_H
#define SYMC_TRACE_TRACE_H

#include "base/base.h"
#include "base/op.h"
#include "config/config.h"

#include <stdatomic.h>

#define SYMC_TRACE_MAGIC UINT64_C(0x3430305f43415254) /* "TRAC_004" */
#define SYMC_TRACE_GROUPS 4096    /* groups described at once */
#define SYMC_TRACE_LISTED 22      /* ranks listed per group */
#define SYMC_TRACE_THREADS 64     /* threads with a recorded name */
#define SYMC_TRACE_NAME 144       /* "WORLD/GROUP" and a zero */
#define SYMC_TRACE_THREAD_NAME 16 /* the kernel's limit */

enum symc_trace_state {
    SYMC_TRACE_SCHEDULED = 0,
    SYMC_TRACE_STARTED = 1,
    SYMC_TRACE_COMPLETED = 2,
    SYMC_TRACE_FAILED = 3,  /* ended with an error: retired, not completed */
    SYMC_TRACE_CAPTURED = 4 /* captured in a graph; replays are not recorded */
};

#define SYMC_TRACE_UNLIKE (UINT64_C(1) << 63)

/* One operation. */
struct symc_trace_entry {
    /* Sequence lock. 0: never used; 2 * record_id + 1 while written, + 2
     * after. */
    _Alignas(64) _Atomic uint64_t lock;
    uint64_t record_id;         /* counts from 0 over all groups */
    uint64_t seq;               /* collective_seq_id or p2p_seq_id */
    uint64_t created;           /* ticks */
    uint64_t started;           /* ticks */
    _Atomic uint64_t completed; /* ticks; 0: not yet */
    uint64_t count;
    uint8_t kind; /* enum symc_kind */
    uint8_t dtype;
    uint8_t op;
    _Atomic uint8_t state;
    int16_t root;   /* or peer; buffers of a coalesced one */
    uint16_t group; /* slot in the table of groups */
    /* second cache line */
    int64_t timeout_ns;
    uint32_t thread_id;
    uint32_t generation; /* generation of the group's slot */
    char label[SYMC_LABEL_MAX];
    uint64_t other; /* latest number of the group's other counter */
    union {
        /* Uneven operations: total of the output, as count is of the input. The
         * highest bit of each total marks parts that differ. */
        uint64_t out_count;
        /* operations on several buffers: number of their counts */
        uint64_t shapes;
    };
};

#define SYMC_TRACE_COUNTS 15  /* buffers with a recorded count */
#define SYMC_TRACE_SHAPES 256 /* operations with recorded counts */

/* The counts of an operation on several buffers. Number n + SYMC_TRACE_SHAPES
 * overwrites number n. */
struct symc_trace_shapes {
    _Alignas(64) _Atomic uint64_t number; /* 0: being written */
    uint64_t counts[SYMC_TRACE_COUNTS];   /* counts of the first buffers */
};
_Static_assert(sizeof(struct symc_trace_entry) == 128, "two cache lines");

enum symc_trace_use {
    SYMC_TRACE_FREE,
    SYMC_TRACE_FILLING,
    SYMC_TRACE_VALID,
    /* The group was freed and its slot not reused; larger values: freed
     * later. */
    SYMC_TRACE_FREED
};

/* The encoding of a group's world ranks in its slot. */
enum symc_trace_ranks {
    SYMC_TRACE_FIRST,  /* 0, 1, 2, ... */
    SYMC_TRACE_LIST,   /* all listed */
    SYMC_TRACE_STRIDE, /* two listed, the rest at the same distance */
    SYMC_TRACE_SOME    /* only the first ones listed */
};

/* A group (pg_config and pg_status). The three numbers of pg_status count
 * collectives only. */
struct symc_trace_group {
    _Alignas(64) _Atomic uint32_t used; /* enum symc_trace_use */
    uint32_t generation;                /* earlier uses of the slot */
    uint32_t size;
    int32_t rank;              /* the recording rank's rank in the group */
    _Atomic uint64_t enqueued; /* sequence numbers; 0: none */
    _Atomic uint64_t started;
    _Atomic uint64_t completed;
    _Atomic uint64_t p2p; /* latest point-to-point operation */
    char name[SYMC_TRACE_NAME];
    char desc[SYMC_TRACE_NAME];
    uint16_t form; /* enum symc_trace_ranks */
    uint16_t ranks[SYMC_TRACE_LISTED];
};

/* Reference to a group: generation * SYMC_TRACE_GROUPS + slot, or NO_GROUP if
 * the group is not recorded. */
#define SYMC_TRACE_NO_GROUP ((int64_t)-1)

static inline unsigned int symc_trace_slot(int64_t ref)
{
    return (unsigned int)(ref & (SYMC_TRACE_GROUPS - 1));
}

static inline uint32_t symc_trace_generation(int64_t ref)
{
    return (uint32_t)(ref / SYMC_TRACE_GROUPS);
}

/* A thread that has recorded an operation. */
struct symc_trace_thread {
    _Atomic uint32_t used; /* 0: free, 1: being written, 2: valid */
    uint32_t id;
    char name[SYMC_TRACE_THREAD_NAME];
};

/* A rank's flight recorder, at trace_offset of its block. */
struct symc_trace_ring {
    _Alignas(64) uint64_t magic;
    uint32_t capacity; /* entries, a power of two; 0: recorder off */
    uint32_t keep;     /* entries that a dump shows: the configured number */
    uint32_t rank;
    uint32_t world_size;
    uint64_t birth; /* ticks; distinguishes rings in reused memory */
    struct symc_tick_rate rate;
    uint32_t pid;
    char host[64];
    /* Record ID of the next entry or slightly less: a hint. */
    _Alignas(64) _Atomic uint64_t next;
    _Atomic uint32_t groups; /* slots ever used; later ones are not backed */
    struct symc_trace_thread threads[SYMC_TRACE_THREADS];
    /* operations with recorded counts, ever */
    _Alignas(64) _Atomic uint64_t shaped;
    struct symc_trace_shapes shapes[SYMC_TRACE_SHAPES];
    struct symc_trace_entry entries[];
};

/* Return the size of a ring with at least `entries` entries, and the part of it
 * that must be backed by memory from the beginning. */
size_t symc_trace_nbytes(int64_t entries);
size_t symc_trace_backed(int64_t entries);

/* Returns the size of a ring with that capacity, which another process may have
 * written. */
size_t symc_trace_capacity_nbytes(uint32_t capacity);

/* Returns the table of groups of a ring with that capacity. */
struct symc_trace_group *symc_trace_groups(
    const struct symc_trace_ring *ring, uint32_t capacity);

/* Initialises a ring in zeroed memory of symc_trace_nbytes(entries). */
void symc_trace_init(
    struct symc_trace_ring *ring, int64_t entries, int rank, int world_size);

/* The writer of a ring. Fields that must not change are kept here, out of reach
 * of a stray store in another process. */
struct symc_trace_writer {
    struct symc_trace_ring *ring;
    uint64_t birth;
    double ns_per_tick;
    uint32_t capacity;
    struct symc_trace_group *groups; /* the ring's */
    _Atomic uint32_t described;      /* slots ever used */
    struct symc_trace_table *table;  /* private part: the used slots */
    /* entries of symc_trace_start_beside() in flight */
    _Atomic uint32_t beside;
};

/*
 * Creates the writer of a ring that has just been initialised. A ring has one
 * writer.
 *
 * fd, offset  position of the ring in a memfd; -1: all of it is backed by memory
 *
 * Errors: NO_MEMORY.
 */
symmcoll_status_t symc_trace_open(struct symc_trace_ring *ring, int fd,
    size_t offset, struct symc_trace_writer *writer);
void symc_trace_close(struct symc_trace_writer *writer);

/*
 * Describes a group. Returns its reference, or NO_GROUP if no slot or memory is
 * left: the group is not recorded then.
 *
 * rank    this rank's rank in the group
 * global  the members' ranks in the world; NULL: the first ones
 */
int64_t symc_trace_add_group(struct symc_trace_writer *writer, const char *name,
    const char *desc, int rank, int size, const int *global);

/* Marks a group as freed. None of its operations may be in flight. */
void symc_trace_remove_group(struct symc_trace_writer *writer, int64_t ref);

/* Records an operation that starts now. Returns NULL if the recorder is off or
 * no slot is free. Hot path: no lock, and no system call except for a thread's
 * first operation. Every entry must be passed to symc_trace_end(), also if the
 * operation failed. */
struct symc_trace_entry *symc_trace_start(
    const struct symc_trace_writer *writer, int64_t group,
    const struct symc_op *op);

/* Records an operation that a rank does alone, from any thread: the group's
 * sequence numbers do not change. Returns NULL if half of the entries are held
 * by such operations, so that claiming a slot stays short. The entry must be
 * passed to symc_trace_end_beside(). */
struct symc_trace_entry *symc_trace_start_beside(
    struct symc_trace_writer *writer, int64_t group, const struct symc_op *op);
void symc_trace_end_beside(struct symc_trace_writer *writer,
    struct symc_trace_entry *entry, enum symc_trace_state state);

/* Sets the peer of a receive from any source, once that is known. */
void symc_trace_set_peer(struct symc_trace_entry *entry, int peer);

/* Sets the number of an operation recorded without one to that of the
 * collective which other members have called in its place. To be called before
 * its end; entry may be NULL. */
void symc_trace_set_number(const struct symc_trace_writer *writer,
    struct symc_trace_entry *entry, uint64_t seq);

/* Records the end of an operation, once. entry may be NULL and must not be used
 * afterwards. */
void symc_trace_end(const struct symc_trace_writer *writer,
    struct symc_trace_entry *entry, bool completed);

/* Records the end of an operation that later operations may have overtaken. */
void symc_trace_end_running(const struct symc_trace_writer *writer,
    struct symc_trace_entry *entry, bool completed);

/* Records that a call was captured in a graph; the end of its replays is not
 * known. */
void symc_trace_capture(
    const struct symc_trace_writer *writer, struct symc_trace_entry *entry);

/* Records that an operation has ended now and took `ns` nanoseconds, which
 * determines its start. symc_trace_end_running() must follow. */
void symc_trace_set_duration(const struct symc_trace_writer *writer,
    struct symc_trace_entry *entry, int64_t ns);

/* Records the successful end of a point-to-point operation at a time in ticks.
 * Such an operation does not advance the group's completed number. */
static inline void symc_trace_complete(
    struct symc_trace_entry *entry, uint64_t ticks)
{
    if (entry == NULL)
        return;
    atomic_store_explicit(&entry->completed, ticks, memory_order_relaxed);
    /* From here on another operation may claim the slot. */
    atomic_store_explicit(
        &entry->state, SYMC_TRACE_COMPLETED, memory_order_release);
}

struct symc_trace_ras;

enum symc_trace_syntax {
    SYMC_TRACE_JSON,
    SYMC_TRACE_PICKLE
};

/* The format and contents of a dump (X31). */
struct symc_trace_format {
    const char *version; /* "2.10" or "2.2" */
    enum symc_trace_syntax syntax;
    const char *backend_name; /* prefix of operations: "nccl:all_reduce" */
    bool only_active;         /* only entries that are not completed */
    bool no_collectives;      /* only the groups */
    const char *reason;       /* the reason for the dump, or NULL */
    const struct symc_trace_ras *ras; /* the answer of NCCL's RAS, or NULL */
};

/*
 * Writes a dump of a ring to a temporary file beside path and renames it, so
 * that the file appears complete or not at all. nbytes is the mapped size of
 * the ring, which may belong to another, dead process. Exceeding RLIMIT_FSIZE
 * is an error like a full disk and does not kill the process.
 *
 * Errors: INVALID (no ring, an unknown version, path is a device or the like),
 * NO_MEMORY, SYSTEM (path and reason; the temporary file is removed).
 */
symmcoll_status_t symc_trace_write(const struct symc_trace_ring *ring,
    size_t nbytes, const char *path, const struct symc_trace_format *format);

/* Returns the format of automatic dumps from the settings, without a reason. */
struct symc_trace_format symc_trace_format_get(
    const struct symc_config *config);

/* Formats the path of a rank's dump: trace.dump_file, the rank, then a dot and
 * the name of a world other than the default one. If the setting is empty:
 * symmcoll/trace_JOB_rank_ under XDG_CACHE_HOME or ~/.cache, whose folders are
 * created; job is from symc_rendezvous_job(). Errors: INVALID (too long, no
 * folder known), SYSTEM. */
symmcoll_status_t symc_trace_path(const struct symc_config *config,
    const char *job, const char *world, int rank, char *buffer, size_t nbytes);

/* Formats the path of a rank's FIFO: trace.dump_pipe, the rank, a dot and the
 * name of a world other than the default one, and ".pipe". Errors: INVALID (too
 * long). */
symmcoll_status_t symc_trace_pipe_path(const struct symc_config *config,
    const char *world, int rank, char *buffer, size_t nbytes);

/* Buffer size for symc_trace_position(). */
#define SYMC_TRACE_POSITION 224

/* Formats the latest operation of a rank: "in all_reduce seq 17 of group 0",
 * "after all_gather seq 16 of group 0", "after failed barrier seq 3 of group
 * 0", "before its first operation", or "" without a record. A label follows the
 * number. The group is omitted if its name is `named`, because the sentence has
 * mentioned it; NULL: never. */
const char *symc_trace_position(const struct symc_trace_ring *ring,
    size_t nbytes, const char *named, char *buffer, size_t buffer_nbytes);

/* Returns whether no recorded operation is queued or in flight; true without a
 * record. */
bool symc_trace_is_idle(const struct symc_trace_ring *ring, size_t nbytes);

#endif
