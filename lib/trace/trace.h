/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The flight recorder: a ring of the latest operations in the rank's own block,
 * where peers and launcher can read it after the rank's death (X1-X8).
 *
 * One thread at a time writes a group's entries, several groups may write at
 * once; readers may come at any time, from any process.  Each entry is under a
 * sequence lock: a reader skips a torn one, whose writer was killed while it
 * wrote.  Nothing here is trusted by a reader: every count and offset is
 * checked against the mapped size.
 *
 * An operation that has not ended is never overwritten, however many operations
 * of other groups are recorded meanwhile.
 *
 * The slot of a group that has been freed is used again, the oldest one first.
 * Each use has a generation, which entries have too, so that an entry is never
 * taken for another group's.  The table of groups is at the end of the memory
 * and is backed as far as it has been used.
 */
#ifndef SYMC_TRACE_TRACE_H
#define SYMC_TRACE_TRACE_H

#include "base/base.h"
#include "base/op.h"
#include "config/config.h"

#include <stdatomic.h>

#define SYMC_TRACE_MAGIC UINT64_C(0x3430305f43415254) /* "TRAC_004" */
#define SYMC_TRACE_GROUPS 4096    /* groups that a ring can describe at once */
#define SYMC_TRACE_LISTED 22      /* ranks that it lists of a group */
#define SYMC_TRACE_THREADS 64     /* threads whose names it keeps */
#define SYMC_TRACE_NAME 144       /* a world's name, "/", a group's, a zero */
#define SYMC_TRACE_THREAD_NAME 16 /* as the kernel's */

enum symc_trace_state {
    SYMC_TRACE_SCHEDULED = 0,
    SYMC_TRACE_STARTED = 1,
    SYMC_TRACE_COMPLETED = 2,
    SYMC_TRACE_FAILED = 3,  /* ended with an error: retired, not completed */
    SYMC_TRACE_CAPTURED = 4 /* in a graph, whose replays are not recorded */
};

#define SYMC_TRACE_UNLIKE (UINT64_C(1) << 63)

/* One operation; a small collective writes the first two cache lines only. */
struct symc_trace_entry {
    /* 0: never used; 2 * record_id + 1 while it is written, + 2 after. */
    _Alignas(64) _Atomic uint64_t lock;
    uint64_t record_id;         /* from 0, in all groups */
    uint64_t seq;               /* collective_seq_id, p2p_seq_id */
    uint64_t created;           /* ticks */
    uint64_t started;           /* ticks */
    _Atomic uint64_t completed; /* ticks; 0: not yet */
    uint64_t count;
    uint8_t kind; /* enum symc_kind */
    uint8_t dtype;
    uint8_t op;
    _Atomic uint8_t state;
    int16_t root;   /* or peer */
    uint16_t group; /* index in the ring's groups */
    /* second line */
    int64_t timeout_ns;
    uint32_t thread_id;
    uint32_t generation; /* of its group's slot */
    char label[SYMC_LABEL_MAX];
    uint64_t other; /* latest number of the counter that seq is not of */
    union {
        /* Of an uneven one, whose count is all it passes: all that it expects.
         * The highest bit of either: the parts of a list are not alike. */
        uint64_t out_count;
        uint64_t shapes; /* of several buffers: number of their shapes */
    };
};

#define SYMC_TRACE_COUNTS 15  /* buffers of an operation with a count each */
#define SYMC_TRACE_SHAPES 256 /* such operations whose counts are kept */

/* The counts of an operation on several buffers: in place of shapes number n is
 * later n + SYMC_TRACE_SHAPES. */
struct symc_trace_shapes {
    _Alignas(64) _Atomic uint64_t number; /* 0: is being written */
    uint64_t counts[SYMC_TRACE_COUNTS];   /* of the first buffers */
};
_Static_assert(sizeof(struct symc_trace_entry) == 128, "two cache lines");

enum symc_trace_use {
    SYMC_TRACE_FREE,
    SYMC_TRACE_FILLING,
    SYMC_TRACE_VALID,
    /* The group is gone, and its slot not used again; and above: later. */
    SYMC_TRACE_FREED
};

/* How the ranks of a group in the world follow from what a slot has. */
enum symc_trace_ranks {
    SYMC_TRACE_FIRST,  /* the first ones */
    SYMC_TRACE_LIST,   /* they are listed */
    SYMC_TRACE_STRIDE, /* two are listed, the others follow at that distance */
    SYMC_TRACE_SOME    /* the first ones of them are listed */
};

/* A group (pg_config and pg_status); the three numbers of pg_status are those
 * of collectives. */
struct symc_trace_group {
    _Alignas(64) _Atomic uint32_t used; /* enum symc_trace_use */
    uint32_t generation;                /* how often the slot was used before */
    uint32_t size;
    int32_t rank;              /* the writer's number in it */
    _Atomic uint64_t enqueued; /* sequence numbers; 0: none */
    _Atomic uint64_t started;
    _Atomic uint64_t completed;
    _Atomic uint64_t p2p; /* the latest operation of a pair */
    char name[SYMC_TRACE_NAME];
    char desc[SYMC_TRACE_NAME];
    uint16_t form; /* enum symc_trace_ranks */
    uint16_t ranks[SYMC_TRACE_LISTED];
};

/* What a group is to its operations: its slot, and the generation of that; -1:
 * it is not recorded. */
#define SYMC_TRACE_NO_GROUP ((int64_t)-1)

static inline unsigned int symc_trace_slot(int64_t ref)
{
    return (unsigned int)(ref & (SYMC_TRACE_GROUPS - 1));
}

static inline uint32_t symc_trace_generation(int64_t ref)
{
    return (uint32_t)(ref / SYMC_TRACE_GROUPS);
}

/* A thread that has recorded something. */
struct symc_trace_thread {
    _Atomic uint32_t used; /* as a group's */
    uint32_t id;
    char name[SYMC_TRACE_THREAD_NAME];
};

/* A rank's flight recorder, at trace_offset of its block. */
struct symc_trace_ring {
    _Alignas(64) uint64_t magic;
    uint32_t capacity; /* entries, a power of two; 0: recorder off */
    uint32_t keep;     /* entries a dump shows: what was asked for */
    uint32_t rank;
    uint32_t world_size;
    uint64_t birth; /* ticks; identifies the ring in memory that is reused */
    struct symc_tick_rate rate;
    uint32_t pid;
    char host[64];
    /* Record id of the next entry, or a little less: a hint to start from. */
    _Alignas(64) _Atomic uint64_t next;
    _Atomic uint32_t
        groups; /* slots that have been used; others are no memory */
    struct symc_trace_thread threads[SYMC_TRACE_THREADS];
    _Alignas(64) _Atomic uint64_t shaped; /* shapes so far */
    struct symc_trace_shapes shapes[SYMC_TRACE_SHAPES];
    struct symc_trace_entry entries[];
};

/* Bytes of a ring that keeps at least so many entries; and of them, those that
 * have to be backed by memory from the beginning. */
size_t symc_trace_nbytes(int64_t entries);
size_t symc_trace_backed(int64_t entries);

/* The same of one with that capacity, which another process may have written. */
size_t symc_trace_capacity_nbytes(uint32_t capacity);

/* The table of groups of a ring of that capacity. */
struct symc_trace_group *symc_trace_groups(
    const struct symc_trace_ring *ring, uint32_t capacity);

/* Set up a ring in zeroed memory of symc_trace_nbytes(entries). */
void symc_trace_init(
    struct symc_trace_ring *ring, int64_t entries, int rank, int world_size);

/* Who writes to a ring.  What must not change is kept here, out of reach of a
 * stray store in another process. */
struct symc_trace_writer {
    struct symc_trace_ring *ring;
    uint64_t birth;
    double ns_per_tick;
    uint32_t capacity;
    struct symc_trace_group *groups; /* the ring's */
    _Atomic uint32_t described;      /* slots that have been used */
    struct symc_trace_table *table;  /* which of them are used */
    _Atomic uint32_t beside; /* entries that have not ended, see there */
};

/*
 * Make the writer of a ring that has just been set up.  It is written by that
 * alone.
 *
 * fd, offset  where the ring is in a memfd; -1: all of it is backed by memory
 *
 * Errors: NO_MEMORY.
 */
symmcoll_status_t symc_trace_open(struct symc_trace_ring *ring, int fd,
    size_t offset, struct symc_trace_writer *writer);
void symc_trace_close(struct symc_trace_writer *writer);

/*
 * Describe a group; NO_GROUP where there is no slot or no memory for it: such a
 * group is not recorded.
 *
 * rank    this rank's number in it
 * global  the members' ranks in the world; NULL: the first ones
 */
int64_t symc_trace_add_group(struct symc_trace_writer *writer, const char *name,
    const char *desc, int rank, int size, const int *global);

/* The group is gone; no operation of it is under way. */
void symc_trace_remove_group(struct symc_trace_writer *writer, int64_t ref);

/* Note an operation that starts now; NULL where the recorder is off.  The hot
 * path: no system call but for a thread's first one, no lock.  Every entry
 * has to be passed to symc_trace_end(), also where the operation failed. */
struct symc_trace_entry *symc_trace_start(
    const struct symc_trace_writer *writer, int64_t group,
    const struct symc_op *op);

/* The same of what a rank does alone, beside its operations, and from any thread:
 * no number of the group changes.  NULL also where as many have not ended as half
 * of the entries: what claims the others has not far to look.  To be passed to
 * symc_trace_end_beside(). */
struct symc_trace_entry *symc_trace_start_beside(
    struct symc_trace_writer *writer, int64_t group, const struct symc_op *op);
void symc_trace_end_beside(struct symc_trace_writer *writer,
    struct symc_trace_entry *entry, enum symc_trace_state state);

/* A receive from any source has its peer. */
void symc_trace_set_peer(struct symc_trace_entry *entry, int peer);

/* One without a number has that of the collective that others have called in its
 * place, before its end; entry may be NULL. */
void symc_trace_set_number(const struct symc_trace_writer *writer,
    struct symc_trace_entry *entry, uint64_t seq);

/* Note its end, once; entry may be NULL, and is not to be used afterwards. */
void symc_trace_end(const struct symc_trace_writer *writer,
    struct symc_trace_entry *entry, bool completed);

/* The same of an operation that others may have overtaken. */
void symc_trace_end_running(const struct symc_trace_writer *writer,
    struct symc_trace_entry *entry, bool completed);

/* The call has been captured: what it stands for is not known to end. */
void symc_trace_capture(
    const struct symc_trace_writer *writer, struct symc_trace_entry *entry);

/* It has ended now, and took so many ns: that is when it was started, then.  To
 * be passed to symc_trace_end_running() next. */
void symc_trace_set_duration(const struct symc_trace_writer *writer,
    struct symc_trace_entry *entry, int64_t ns);

/* The end of an operation of a pair, which advances no number of its group: it
 * has succeeded at that time. */
static inline void symc_trace_complete(
    struct symc_trace_entry *entry, uint64_t ticks)
{
    if (entry == NULL)
        return;
    atomic_store_explicit(&entry->completed, ticks, memory_order_relaxed);
    /* From here on the slot may be another's. */
    atomic_store_explicit(
        &entry->state, SYMC_TRACE_COMPLETED, memory_order_release);
}

struct symc_trace_ras;

enum symc_trace_syntax {
    SYMC_TRACE_JSON,
    SYMC_TRACE_PICKLE
};

/* How a dump is written (X31). */
struct symc_trace_format {
    const char *version; /* "2.10" or "2.2" */
    enum symc_trace_syntax syntax;
    const char *backend_name; /* before the operation: "nccl:all_reduce" */
    bool only_active;         /* only entries that have not completed */
    bool no_collectives;      /* only the groups */
    const char *reason;       /* why it was written, or NULL */
    const struct symc_trace_ras *ras; /* what NCCL has said, or NULL */
};

/*
 * Write a ring: to a temporary file beside path, then renamed, so that
 * the file appears whole or not at all.  nbytes is what is mapped of the ring,
 * which may be another, dead process's.  A limit on file sizes is an error like
 * a full disk, not the end of the process.
 *
 * Errors: INVALID (no ring, an unknown version, path is a device or the like),
 * NO_MEMORY, SYSTEM (path and reason; the temporary file is removed).
 */
symmcoll_status_t symc_trace_write(const struct symc_trace_ring *ring,
    size_t nbytes, const char *path, const struct symc_trace_format *format);

/* The format that the settings ask for, of automatic dumps; without a reason.
 */
struct symc_trace_format symc_trace_format_get(
    const struct symc_config *config);

/* The path of a rank's dump: trace.dump_file and the rank, then a dot and the
 * name of a world that has one.  Where the setting is empty:
 * symmcoll/trace_JOB_rank_ under XDG_CACHE_HOME or ~/.cache, with the folder
 * made; job is that of symc_rendezvous_job().
 * Errors: INVALID (too long, no folder known), SYSTEM. */
symmcoll_status_t symc_trace_path(const struct symc_config *config,
    const char *job, const char *world, int rank, char *buffer, size_t nbytes);

/* The path of a rank's FIFO: trace.dump_pipe and the rank, a dot and the name of
 * a world that has one, and ".pipe".  Errors: INVALID (too long). */
symmcoll_status_t symc_trace_pipe_path(const struct symc_config *config,
    const char *world, int rank, char *buffer, size_t nbytes);

/* Buffer size for any symc_trace_position(). */
#define SYMC_TRACE_POSITION 224

/* What a rank did last, for one line of text: "in all_reduce seq 17 of group
 * 0", "after all_gather seq 16 of group 0", "after failed barrier seq 3 of
 * group 0", "before its first operation"; "" where there is no record.  A label
 * is after the number.  The group is left out where it is `named`, which the
 * sentence has named before; NULL: never. */
const char *symc_trace_position(const struct symc_trace_ring *ring,
    size_t nbytes, const char *named, char *buffer, size_t buffer_nbytes);

/* Returns whether no operation of a record is queued or under way, as far as there is
 * a record. */
bool symc_trace_is_idle(const struct symc_trace_ring *ring, size_t nbytes);

#endif
