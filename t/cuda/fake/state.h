/* SPDX-License-Identifier: BSD-3-Clause */
/* Internals of the fake driver. */
#ifndef T_CUDA_FAKE_STATE_H
#define T_CUDA_FAKE_STATE_H

#include "t/cuda/fake/fake.h"

#include <pthread.h>

#define FAKE_DEVICES 16
#define FAKE_CONNECTIONS 64
#define FAKE_CAPTURED 16 /* streams of a capture */

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

/* ---- objects ---- */

struct fake_capture;
struct fake_order;

/* A context; a device's primary context is part of the device. */
struct CUctx_st {
    struct CUctx_st *next;
    int device;
    bool primary, destroyed;
    CUresult broken; /* not CUDA_SUCCESS: what every call returns */
    CUstream legacy; /* the default stream, once it has been used */
    uint32_t peers;  /* devices with peer access, a bit for each */
    uint32_t used;   /* kinds used, a bit for each */
};

/* A memory pool; a device's default pool is part of the device. */
struct CUmemPoolHandle_st {
    struct CUmemPoolHandle_st *next;
    int device;
    bool independent; /* an allocation does not wait for an earlier free */
    CUstream freed;   /* of the latest free */
    unsigned long long used; /* its id */
    uint32_t readers;        /* devices with access, a bit for each */
};

/* A call to be skipped. */
struct fake_skip {
    const char *name;
    int left; /* calls until then, including it; 0: none */
    bool done;
};

struct fake_device {
    struct CUctx_st primary;
    struct CUmemPoolHandle_st pool;
    int retained; /* uses of the primary context */
    size_t used;  /* bytes */
    int blocks, blocks_max;
    int priority; /* of the latest kernel's stream */
    uint64_t queued[FAKE_CONNECTIONS], started[FAKE_CONNECTIONS];
    int streams; /* number created */
    struct fake_skip skip;
    int held_priority, held_ms; /* of streams that are held back; 0: none */
};

enum fake_kind {
    FAKE_COPY,
    FAKE_SET,
    FAKE_SET_BYTES,
    FAKE_KERNEL,
    FAKE_CALL,
    FAKE_RECORD,
    FAKE_WRITE_VALUE,
    /* Kinds that wait, and block their connection. */
    FAKE_WAIT_EVENT,
    FAKE_WAIT_VALUE,
    FAKE_STALL
};

/* A piece of work, in a stream or a graph. */
struct fake_work {
    struct fake_work *next;
    enum fake_kind kind;
    uint64_t ticket; /* in its connection */
    void *to;
    const void *from;
    size_t nbytes; /* bytes; of a set, words */
    uint32_t value;
    unsigned int flags; /* of a wait for a value */
    CUevent event;
    uint64_t number; /* of the record */
    CUfunction function;
    uint32_t blocks, threads;
    void *args; /* a copy */
    CUhostFn call;
    char enqueued; /* an address for ThreadSanitizer */
};

struct CUstream_st {
    struct CUstream_st *next;
    CUcontext context;
    pthread_t thread; /* of the host, for the stream of its default context */
    bool per_thread, nonblocking, legacy, destroyed;
    int connection, resumed, priority;
    int users; /* calls that use it */
    unsigned long long id;
    struct fake_work *first, **last;
    uint64_t enqueued, completed;
    uint64_t random;
    struct fake_capture *capture;
    int captured; /* its index in the capture */
    struct fake_order *order;
    char done; /* an address for ThreadSanitizer */
};

struct CUevent_st {
    struct CUevent_st *next;
    CUcontext context;
    unsigned int flags;
    int uses;  /* in streams */
    int users; /* calls that use it */
    bool destroyed, in_graph;
    uint64_t recorded, completed;
    int64_t completed_ns;
    struct fake_capture *capture; /* of its latest record */
    uint64_t seen[FAKE_CAPTURED];
    char record; /* an address for ThreadSanitizer */
};

struct CUgraph_st {
    struct fake_work *first, **last;
};

struct CUgraphExec_st {
    struct CUgraph_st graph;
};

/* A captured stream, and those that have joined by events. */
struct fake_capture {
    struct fake_capture *next;
    CUstreamCaptureMode mode;
    pthread_t thread;
    bool invalid;
    CUgraph graph;
    int n;
    CUstream streams[FAKE_CAPTURED];
    uint64_t pieces[FAKE_CAPTURED];              /* of work, in each */
    uint64_t seen[FAKE_CAPTURED][FAKE_CAPTURED]; /* pieces of each stream seen
                                                  * by each */
};

/* A kernel, and its functions in the contexts that use it. */
struct CUfunc_st {
    struct CUfunc_st *next;
    const char *name;
    fake_kernel_fn kernel;
    size_t args_nbytes;
    struct CUfunc_st *functions;
    CUcontext context; /* of a function */
    bool loaded, launched;
};

struct fake_settings {
    int version, devices, sms, uuid, connections, elapsed, queue;
    size_t memory, granularity, coarse;
    bool multicast, fabric, rdma, waits, reuse;
    int capability;
    unsigned int delay, linger;
    uint64_t seed;
};

/* The state of the driver, with one lock. */
struct fake_state {
    pthread_mutex_t lock;
    bool changed; /* since waiting threads were last woken */
    struct fake_waiter *waiters;
    struct fake_settings settings;
    bool read_environment, initialised;
    pid_t pid; /* that has initialised the driver */
    struct fake_device devices[FAKE_DEVICES];
    struct CUctx_st *contexts; /* that were created */
    struct CUmemPoolHandle_st *pools;
    struct CUstream_st *streams;
    struct CUevent_st *events;
    struct fake_capture *captures;
    struct CUfunc_st *functions;
    int threads; /* of streams */
    int first_uses;
    int live[FAKE_OBJECTS];
    void (*engine)(fake_kernel_fn kernel, const void *args, uint32_t blocks,
        uint32_t threads, uint64_t seed);
};

extern struct fake_state fake;

void fake_lock(void);
void fake_unlock(void);
/* Locks, as fake_lock() does, in a call that uses a stream's handle, and an
 * event's or NULL. Applies the settings `reuse` and `linger`. */
void fake_lock_handles(CUstream stream, CUevent event);
/* Announces a change for which others may wait. Called with the lock. */
void fake_changed(void);
/* Blocks until holds(arg) returns true. Called with the lock, which is
 * released while the thread sleeps. Every thread that has changed something
 * calls holds(), with the lock. */
void fake_wait_until(bool (*holds)(const void *arg), const void *arg);
/* Block until a counter has reached a value. */
void fake_wait_for_count(const uint64_t *count, uint64_t until);
/* Ends the program: a mistake of the test that the real driver may not
 * detect. */
_Noreturn void fake_die(const char *what);
/* Ends the process with a message about a handle, and the name of the current
 * call. */
_Noreturn void fake_die_of(const void *handle, const char *what);
/* Handles the free of something that does not exist: returns the error with
 * the setting `reuse`, else ends the process. */
CUresult fake_refuse_free(const void *at, CUresult error);
/* Returns zeroed memory; never NULL. */
void *fake_alloc(size_t nbytes);

/* ---- calls ---- */

enum fake_needs {
    FAKE_NOTHING = 0,
    FAKE_INIT = 1,    /* cuInit() */
    FAKE_CONTEXT = 3, /* a current context that is not broken */
    FAKE_UNSAFE = 4   /* not permitted during a capture */
};

/* Called at the beginning of every function: counts the call, and returns
 * whether it is possible. function is __func__. */
CUresult fake_enter(const char *function, unsigned int needs);

/* Returns whether a setting removes a function from the driver. */
bool fake_is_missing(const char *name);

/* fake_count_skip() begins a call, which may be one that a test skips;
 * fake_is_skipped() returns once whether the current call is. Called with the
 * lock. */
void fake_count_skip(const char *name);
bool fake_is_skipped(void);

CUcontext fake_current(void);

/* ---- with the lock ---- */

bool fake_is_context(CUcontext context);
/* Returns the stream of a handle; NULL: none. */
CUstream fake_find_stream(CUstream handle);
bool fake_is_event(CUevent event);
void fake_drop_event(CUevent event); /* one use less */
/* Return the object of a handle, even if it was destroyed. NULL: unknown, or a
 * handle that stands for a default stream. */
CUstream fake_find_any_stream(CUstream handle);
CUevent fake_find_any_event(CUevent handle);
/* Checks, before a handle is destroyed, that no other call is using it. */
void fake_check_unused(const void *handle, int users);

/* fake_is_between() returns whether a copy in a legacy stream is between two
 * devices (out: the other one). fake_order_between() orders such a copy after
 * all earlier work of both devices, and their later work after it. */
bool fake_is_between(
    CUstream stream, const struct fake_work *work, int *device);
void fake_order_between(CUstream stream, int device, bool before);

/* Orders a stream after all current work of another one. */
void fake_append_wait(CUstream stream, CUstream other);
/* Blocks until all streams of a context have done their current work. */
void fake_await_context(CUcontext context);
/* Waits as fake_await_context() does in functions that free memory, with the
 * setting `waits`. */
void fake_await_to_free(void);

/* Enqueues a copy of *work in a stream, or in its capture if it is captured. */
CUresult fake_enqueue(CUstream handle, const struct fake_work *work);
/* Enqueues work as fake_enqueue() does, if the stream is in the current
 * context. */
CUresult fake_enqueue_here(CUstream handle, const struct fake_work *work);
/* Appends a copy of the work to a stream that is not captured. */
void fake_append(CUstream stream, const struct fake_work *work);
struct fake_work *fake_copy_work(const struct fake_work *work);
void fake_free_work(struct fake_work *work);
CUstream fake_make_stream(CUcontext context, bool nonblocking, int priority);
void fake_end_stream(CUstream stream);

/* fake_note_done() records that a piece of work has completed;
 * fake_await_quiet() blocks until a stream that is held back may begin. */
void fake_note_done(const struct CUstream_st *stream);
void fake_await_quiet(const struct CUstream_st *stream);

/* Frees the arguments of a kernel. */
void fake_run(CUstream stream, struct fake_work *work);

/* ---- captures, with the lock ---- */

/* Invalidates a capture that a thread of this mode may not disturb. Returns
 * whether there was one. */
bool fake_disturbs_capture(CUstreamCaptureMode mode);
/* Return the error of a query of a captured stream or event; CUDA_SUCCESS: it
 * is not captured. */
CUresult fake_ask_stream(CUstream stream);
CUresult fake_ask_event(CUevent event);
CUresult fake_capture_work(CUstream stream, const struct fake_work *work);
CUresult fake_capture_record(CUstream stream, CUevent event);
/* Captures a wait for an event. *captured is false, with CUDA_SUCCESS, if neither
 * the stream nor the event belongs to a capture. */
CUresult fake_capture_wait(CUstream stream, CUevent event, bool *captured);
/* Checks the use of the legacy stream during a capture. */
CUresult fake_use_legacy(CUcontext context);
CUstreamCaptureMode *fake_capture_mode(void);

/* ---- memory ---- */

/* Take and return memory of a device, with the lock; false: none is left. */
bool fake_take_memory(int device, size_t nbytes);
void fake_return_memory(int device, size_t nbytes);

/* Memory at an address. */
struct fake_range {
    struct fake_range *next;
    uintptr_t begin;
    size_t nbytes;
    uintptr_t reserved; /* begin of the reserved addresses; 0: the same as
                         * begin */
    size_t reserved_nbytes;
    CUmemorytype type;
    int device;
    CUcontext context; /* in which it was created; NULL: mapped */
    bool managed, registered;
    CUmemoryPool pool; /* of its allocation; NULL: none */
    int opened;        /* how often: memory of another process */
    pid_t owner;       /* of that */
    int owner_fd;
    void *mapping; /* begin of the host's mapping */
    size_t mapping_nbytes;
    int fd;
};

struct fake_range *fake_find_range(uintptr_t address);
/* Allocate and free device memory; opened: by IPC. */
CUresult fake_allocate(CUdeviceptr *address, size_t nbytes, int device);
CUresult fake_deallocate(CUdeviceptr address, bool opened);
/* Adds a copy of the range. */
void fake_add_range(const struct fake_range *range);
/* Removes a range but keeps its memory; false: none begins there. */
bool fake_remove_range(uintptr_t begin, struct fake_range *removed);

#endif
