/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Memory of a device that a backend allocates and the members of a group map,
 * and operations of one rank on it.
 */
#ifndef SYMC_BACKEND_MEMORY_H
#define SYMC_BACKEND_MEMORY_H

#include "base/base.h"

struct symc_memory_request;
struct symc_op;

/* An address range that a backend has mapped: whole pieces of device memory
 * that contain the requested part. */
struct symc_extent {
    const void *begin;
    size_t nbytes; /* 0: none */
};

/* Memory that all members of a group have mapped.  The first member of the
 * backend's own struct. */
struct symc_joined {
    int size;
    size_t nbytes;
    void *const *at; /* each member's part, as mapped on this rank; its own is
                        at the address from allocate() or import() */
    const struct symc_extent *mapped; /* of each member: what join() has mapped
                                         on this rank */
    void *multicast; /* address at which a store reaches all members and a load
                        sums; or NULL */
};

/* Operations of one rank, on a stream, with joined memory. */
enum symc_access_kind {
    SYMC_ACCESS_COPY,        /* nbytes from in to out */
    SYMC_ACCESS_FILL32,      /* count words at out are set to value */
    SYMC_ACCESS_WRITE32,     /* sets one word, with release order */
    SYMC_ACCESS_WAIT32,      /* waits until the word at in is value; acquire
                                order */
    SYMC_ACCESS_PUT_SIGNAL,  /* as symmcoll_symm_put_signal() */
    SYMC_ACCESS_WAIT_SIGNAL, /* as symmcoll_symm_wait_signal() */
    SYMC_ACCESS_BARRIER      /* synchronises all members with such words */
};

struct symc_access {
    enum symc_access_kind kind;
    struct symc_joined *joined; /* COPY, FILL32: may be NULL */
    const struct symc_op *op;   /* kind, stream, timeout; messages */
    void *out;
    const void *in;
    size_t count; /* bytes, or words */
    uint32_t value;
    int peer;      /* rank that is waited for, or that waits */
    int channel;   /* of the pads */
    size_t pad_at; /* bytes from a member's memory to its pad */
};

/*
 * Memory of a device that members share.  allocate(), import() and free() are
 * calls of a rank, independent of its groups: any thread may call them at any
 * time.  The others are calls of one open group, one at a time, like start().
 */
struct symc_memory_ops {
    /* Allocates zeroed memory (out), at a page-aligned address of this rank
     * (out).  Errors: NO_MEMORY, INVALID (no such device), UNSUPPORTED,
     * DEVICE. */
    symmcoll_status_t (*allocate)(
        const struct symc_memory_request *request, void **memory, void **at);
    /* As allocate(), with memory that the caller has allocated on that device
     * and that free() does not free.  Errors: also INVALID (the memory is not
     * on it). */
    symmcoll_status_t (*import)(
        const struct symc_memory_request *request, void *data, void **memory);
    /* Returns the range that allocate() has mapped; empty for imported memory.
     * Any thread may call it at any time. */
    struct symc_extent (*extent)(const void *memory);
    /* Joined memory stays until it has been left. */
    void (*free)(void *memory);

    /*
     * Collective, in a group that has this backend open: maps what every member
     * has allocated, of equal size.  It may call core->gather and
     * core->exchange, like open(), and take long; test(), cancel() and mark()
     * are called concurrently.
     *
     * Errors: of this member only; members that have joined it then leave it.
     */
    symmcoll_status_t (*join)(
        void *state, void *memory, struct symc_joined **joined);
    /* After join() of both: writes the addresses of all members' parts, as
     * mapped on this rank, into this rank's part of `into`, from offset `at`:
     * first those of `joined`, then those of `into`.  Complete when this
     * returns.  Errors: DEVICE. */
    symmcoll_status_t (*tabulate)(void *state, const struct symc_joined *joined,
        const struct symc_joined *into, size_t at);
    /* Releases the mapping after the last use; valid after the group has been
     * closed. */
    void (*leave)(struct symc_joined *joined);

    /* Enqueues an access; token as in start(). */
    symmcoll_status_t (*access)(
        void *state, const struct symc_access *access, void **token);
};

#endif
