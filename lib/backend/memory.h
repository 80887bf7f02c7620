/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Memory of a device that a backend has, which the members of a group map, and what
 * one rank does there alone.
 */
#ifndef SYMC_BACKEND_MEMORY_H
#define SYMC_BACKEND_MEMORY_H

#include "base/base.h"

struct symc_memory_request;
struct symc_op;

/* Addresses that a backend has mapped: whole pieces of a device's memory, of which
 * what was asked for is a part. */
struct symc_extent {
    const void *begin;
    size_t nbytes; /* 0: nothing */
};

/* Memory that all members of a group have mapped.  The backend's struct begins
 * with it. */
struct symc_joined {
    int size;
    size_t nbytes;
    void *const *at; /* of each member, as this rank has it mapped; its own is
                        where allocate() or import() said that it is */
    const struct symc_extent *mapped; /* of each member: what joining has mapped
                                         on this rank */
    void
        *multicast; /* where a store reaches all, and a load adds up; or NULL */
};

/* What one rank does alone, on a stream, with memory that has been joined. */
enum symc_access_kind {
    SYMC_ACCESS_COPY,        /* nbytes from in to out */
    SYMC_ACCESS_FILL32,      /* count words at out become value */
    SYMC_ACCESS_WRITE32,     /* the same of one word, in release order */
    SYMC_ACCESS_WAIT32,      /* until the word at in is value; acquire order */
    SYMC_ACCESS_PUT_SIGNAL,  /* the word of this rank in a peer's pad, as */
    SYMC_ACCESS_WAIT_SIGNAL, /* symmcoll_symm_put_signal(), _wait_signal() */
    SYMC_ACCESS_BARRIER      /* by such words, of all members */
};

struct symc_access {
    enum symc_access_kind kind;
    struct symc_joined *joined; /* COPY, FILL32: may be NULL */
    const struct symc_op *op;   /* kind, stream, timeout; messages */
    void *out;
    const void *in;
    size_t count; /* bytes, or words */
    uint32_t value;
    int peer;      /* whose word is waited for, or who waits */
    int channel;   /* of pads that begin so many bytes after each member's */
    size_t pad_at; /* memory */
};

/*
 * Memory of a device that members have in common.  allocate(), import() and
 * free() are of a rank, whatever groups it has: any thread may call them at any
 * time.  What the others get are calls of one open group, one at a time, as
 * start().
 */
struct symc_memory_ops {
    /* Memory (out), zeroed, and where this rank has it (out), on a page.
     * Errors: NO_MEMORY, INVALID (no such device), UNSUPPORTED, DEVICE. */
    symmcoll_status_t (*allocate)(
        const struct symc_memory_request *request, void **memory, void **at);
    /* The same of memory that the caller has allocated on that device, which
     * free() leaves alone.  Errors: also INVALID (it is not). */
    symmcoll_status_t (*import)(
        const struct symc_memory_request *request, void *data, void **memory);
    /* What allocate() has mapped for it; of imported memory nothing.  Any thread
     * may call it at any time. */
    struct symc_extent (*extent)(const void *memory);
    /* Joined memory remains as long as it is joined. */
    void (*free)(void *memory);

    /*
     * Collective, in a group that has this backend open: map what every member
     * has allocated, of the same size.  It may call core->gather and
     * core->exchange, as open(); so it may last, and test(), cancel() and mark()
     * are called beside it.
     * Errors: of this member alone; who has joined it leaves it then.
     */
    symmcoll_status_t (*join)(
        void *state, void *memory, struct symc_joined **joined);
    /* After join() of both: write where all members have their parts, as this rank
     * has them mapped, into this rank's part of the second, from a byte on: first
     * of the one, then of the other.  It is there when this returns.  Errors:
     * DEVICE. */
    symmcoll_status_t (*tabulate)(void *state, const struct symc_joined *joined,
        const struct symc_joined *into, size_t at);
    /* After the last use; also after the group has been closed. */
    void (*leave)(struct symc_joined *joined);

    /* Enqueue it; as start(). */
    symmcoll_status_t (*access)(
        void *state, const struct symc_access *access, void **token);
};

#endif
