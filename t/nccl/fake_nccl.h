/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The interface of a test to the stand-in for NCCL in its process: settings
 * and counters. Its ranks are threads or processes.
 *
 * It is stricter than NCCL: it ends the process if two threads are in one
 * communicator at once; if a communicator is used that is not ready, was
 * destroyed or aborted; if one is destroyed before it is finalized; if one is
 * created, split or finalized, or memory is registered, inside of a group of
 * calls; if a message and its receive differ in size; if ranks make different
 * calls of one collective or place their buffers differently in windows; and
 * if it is called for something that the library does not use, such as the
 * minimum of floats.
 *
 * As in NCCL, work enqueued in a stream of another context than the device's
 * primary one is a CUDA error, and destroying or aborting a communicator waits
 * until all its ranks finalize or abort theirs, or have died; finalizing it
 * waits for no rank. It adds in the reverse order of ranks, because NCCL
 * guarantees no order.
 */
#ifndef T_NCCL_FAKE_NCCL_H
#define T_NCCL_FAKE_NCCL_H

/* The struct that libnccl.so.2 exports under the name "fake_nccl"; zero
 * selects the behaviour of NCCL. */
struct fake_nccl {
    /* Results that these calls return on each rank; not 0: an error. */
    _Atomic int id_result, init_result, finalize_result, call_result;
    _Atomic int window_result; /* found by a query; the communicator keeps it */
    _Atomic int register_result;
    _Atomic int
        register_none; /* 1: succeeds without a window, as NCCL's variables may
                        * select */
    _Atomic int split_result, revoke_result, shrink_result;
    _Atomic int split_error; /* not 0: the error of every split */
    _Atomic int split_hangs; /* 1: splits and shrinks do not end */
    _Atomic int
        begun_most; /* not 0: creating a communicator from an id hangs after
                     * this many */
    /* The error that every communicator has from now on. */
    _Atomic int error;
    _Atomic int id_hangs; /* 1: the call that draws an id does not return */
    _Atomic int stuck;    /* 1: operations in progress do not end */
    _Atomic int
        simulates; /* 1: simulating the end of a group ignores its argument */
    _Atomic int restless; /* 1: a revoked communicator does not become quiet */
    _Atomic int slow;     /* number of queries before a call completes */
    _Atomic int pause_us; /* duration of a call with a communicator */
    /* The latest error text of any communicator; NULL: see
     * ncclGetLastError(). */
    const char *_Atomic said;

    /* Numbers of communicators: existing ones, and those with which this was
     * done. */
    _Atomic int live, finalized, destroyed, aborted;
    _Atomic int drawn;          /* ids */
    _Atomic int revoked, quiet; /* so, and since */
    _Atomic int begun;          /* created from an id */
    _Atomic int split;          /* created by a split */
    _Atomic int shrunk;         /* created by shrinking */
    _Atomic int left_out;       /* calls of a split without a color */
    _Atomic int parted;         /* calls of ncclAlltoAll */
    _Atomic int windows;        /* that are registered */
    _Atomic int registered;     /* memory without a window */
    _Atomic int windowed;       /* collectives with buffers in windows */
    _Atomic int simulated;      /* ends of groups */
    _Atomic int enqueued; /* groups of calls, and collectives outside of one */

    /* The config of the latest communicator, as far as this version reads
     * it. */
    _Atomic int min_ctas, max_ctas, cga, cta_policy;
    char net[32];
};

extern __attribute__((visibility("default"))) struct fake_nccl fake_nccl;

#endif
