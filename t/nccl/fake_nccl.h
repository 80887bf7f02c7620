/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What a test tells the stand-in for NCCL in its process, and what that counts.
 * Its ranks are threads or processes.  It is stricter than NCCL: it ends the
 * process where two threads are in one communicator at once, where one is used that
 * is not ready, was destroyed or aborted, or is destroyed before it is finalized,
 * where it makes, splits or finalizes one, or registers memory, inside of a group of
 * calls, where a message has another size than its receive, where ranks make different
 * calls of one collective or have their buffers elsewhere in windows, and where it is
 * asked for what the library has no use for, as the least of floats.  As in NCCL what is
 * enqueued in a stream of another context than a device's primary one is an error of
 * CUDA's, and who destroys or aborts a communicator waits there until all its ranks
 * finalize or abort theirs, or have died; finalizing it waits for nobody.  It adds up in
 * the reverse order of ranks, as NCCL promises no order.
 */
#ifndef T_NCCL_FAKE_NCCL_H
#define T_NCCL_FAKE_NCCL_H

/* What libnccl.so.2 has under the name "fake_nccl"; zero is what NCCL does. */
struct fake_nccl {
    /* Results that these calls return, of each rank: not 0, an error. */
    _Atomic int id_result, init_result, finalize_result, call_result;
    _Atomic int window_result; /* found by asking; the communicator keeps it */
    _Atomic int register_result;
    _Atomic int
        register_none; /* 1: it succeeds without, as NCCL's variables have it */
    _Atomic int split_result, revoke_result, shrink_result;
    _Atomic int split_error; /* not 0: a split ends with it */
    _Atomic int split_hangs; /* 1: no split ends, and nothing is shrunk */
    _Atomic int
        begun_most; /* not 0: what is made of an id after so many hangs */
    /* The error that every communicator has from now on. */
    _Atomic int error;
    _Atomic int id_hangs; /* 1: the call that draws an id does not return */
    _Atomic int stuck;    /* 1: nothing ends that is in progress */
    _Atomic int
        simulates; /* 1: the end of a group reads nothing of what it is to
                              simulate */
    _Atomic int restless; /* 1: nothing becomes quiet that is revoked */
    _Atomic int slow;     /* so many questions later than it could */
    _Atomic int pause_us; /* that a call with a communicator takes */
    /* What it has said last of an error, of any communicator; NULL: see
     * ncclGetLastError(). */
    const char *_Atomic said;

    /* Communicators: those that are there, and to which that has happened. */
    _Atomic int live, finalized, destroyed, aborted;
    _Atomic int drawn;          /* ids */
    _Atomic int revoked, quiet; /* so, and since */
    _Atomic int begun;          /* those that were made of an id */
    _Atomic int split;          /* those that were made by a split */
    _Atomic int shrunk;         /* those that were made by shrinking */
    _Atomic int left_out;       /* calls of a split without a color */
    _Atomic int parted;         /* calls of ncclAlltoAll */
    _Atomic int windows;        /* that are registered */
    _Atomic int registered;     /* that is memory without a window */
    _Atomic int windowed;       /* collectives whose buffers are in such */
    _Atomic int simulated;      /* ends of groups */
    _Atomic int enqueued; /* groups of calls, and collectives outside of one */

    /* The config of the latest communicator, as far as this NCCL reads it. */
    _Atomic int min_ctas, max_ctas, cga, cta_policy;
    char net[32];
};

extern __attribute__((visibility("default"))) struct fake_nccl fake_nccl;

#endif
