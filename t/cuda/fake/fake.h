/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A CUDA driver on the host, for tests: libcuda.so.1 with the functions that
 * lib/cuda needs, and those that a caller of the library does.  Device memory is
 * memory of the host, streams are threads, and kernels are functions.
 *
 * It refuses what the real driver refuses: calls before cuInit(), without a
 * current context, or in the child of a fork; kernels and sets of memory in a stream
 * of another context than the current one, a function or an event of another one;
 * sizes that are no multiple of the granularity; what may not be done while a stream
 * is captured.  It is stricter where the real one only may fail.  It has no multicast
 * instructions, no peer access rights and no caches: what a test over it shows is
 * control and ordering.
 *
 * Under ThreadSanitizer the work of each stream is ordered as CUDA orders it, and
 * by nothing else: two streams that use the same memory without an event between
 * them are a data race, whenever they ran.
 *
 * A test program links with it; a program that is to find it by itself has its
 * folder in LD_LIBRARY_PATH, and settings in the environment as FAKE_CUDA.
 */
#ifndef T_CUDA_FAKE_FAKE_H
#define T_CUDA_FAKE_FAKE_H

#include <cuda.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define FAKE_API __attribute__((visibility("default")))

/*
 * Settings, "devices=2 memory=64M", one after another with blanks between:
 *
 *   version=12040       of the driver
 *   devices=1           how many
 *   memory=1G           of each
 *   granularity=2M      of physical allocations
 *   sms=132             multiprocessors of each
 *   uuid=0              devices' UUIDs are of this number and their own
 *   multicast=0         1: devices say that they support it
 *   coarse=0            granularity of multicast objects; 0: as above
 *   fabric=0            1: handles for other machines can be made
 *   rdma=0              1: memory can be made that network adapters read and write
 *   capability=90       compute capability 9.0
 *   waits=0             1: what frees memory waits for all that its context runs, as
 *                       that of a device may
 *   connections=0       hardware queues of a device that its streams share: work
 *                       begins only when all that came before it in its queue has
 *                       begun; 0: each stream has one
 *   queue=0             pieces of work that a stream has room for: a call that has
 *                       no room waits; 0: as many as there are
 *   reuse=0             1: the next stream has the handle of one that was destroyed, as
 *                       it may be of the real driver; 0: no handle comes again, of an
 *                       event either, and a call with one that was destroyed, or that
 *                       frees what is not there, ends the process, with the call's name
 *   linger=0            microseconds at most that a call stays with the handles that it
 *                       has, drawn: who destroys one meanwhile ends the process
 *   elapsed=0           microseconds that lie between any two events; 0: as it was
 *   delay=0             microseconds at most before each piece of work, drawn
 *   seed=1              for what is drawn
 *   missing=cuName      the driver lacks it; may be given several times
 *   fail=cuName:3:2     the third call from now on returns error 2; 0 for the
 *                       number: every call; a negative error is a signal, of
 *                       which the process ends.  Several times, too.
 *
 *   slow=cuName:20      each call of it takes so many milliseconds longer.  Several
 *                       times, too.
 *
 * Those down to sms are read by cuInit().  False for what it does not know.
 */
FAKE_API bool fake_configure(const char *settings);

/* As the process began; there is to be no stream, and no context in use. */
FAKE_API void fake_reset(void);

/* ---- what has happened ---- */

/* Calls of a function so far, those that failed included. */
FAKE_API uint64_t fake_calls(const char *name);

/* Sets of memory, copies, copies of rows and functions that were the first of their kind in
 * a context so far, for which the real driver may wait. */
FAKE_API int fake_first_uses(void);

enum fake_object {
    FAKE_STREAMS, /* those that cuStreamCreate() has made */
    FAKE_EVENTS,
    FAKE_PHYSICAL, /* allocations by cuMemCreate() or imported, by handle */
    FAKE_MAPPED,
    FAKE_RESERVED,
    FAKE_ALLOCATED, /* by cuMemAlloc(), or opened by IPC */
    FAKE_HOST,      /* host memory, allocated or registered */
    FAKE_LIBRARIES,
    FAKE_CONTEXTS, /* uses of primary ones, and those that were created */
    FAKE_OBJECTS
};

/* How many there are that have not been freed. */
FAKE_API int fake_live(enum fake_object object);

/* The names of all functions that can be found, one by one; NULL after the last.
 */
FAKE_API const char *fake_entry(int index);

/* The most blocks of kernels that a device has had to run at once. */
FAKE_API int fake_blocks_max(int device);

/* The priority of the stream that the latest kernel of a device is on. */
FAKE_API int fake_priority(int device);

/* Contexts that the calling thread has pushed and not popped. */
FAKE_API int fake_pushed(void);

/* ---- what is to happen ---- */

/* Put a piece of work into a stream that ends with fake_resume(). */
FAKE_API void fake_stall(CUstream stream);
FAKE_API void fake_resume(CUstream stream);

/* Break the primary context of a device as a kernel's fault does: what is in its
 * streams is dropped, and every call of it returns the error from now on. */
FAKE_API void fake_break(int device, CUresult error);

/* Let all streams end that were destroyed, and wait for it. */
FAKE_API void fake_finish(void);

/*
 * Have the n-th call of a function from now on, of those in the contexts of a device,
 * succeed and do nothing; 0: none.  It is one of those that put work into streams.
 * name lives on.
 */
FAKE_API void fake_skip(int device, const char *name, int n);
/* Whether that call has come. */
FAKE_API bool fake_has_skipped(int device);

/*
 * Hold back the streams of a device that have this priority: each begins a piece of
 * work, other than those that record an event or wait, when all streams that are
 * not held back have completed none for so many milliseconds.  0: none is.
 */
FAKE_API void fake_hold_back(int device, int priority, int ms);

/* ---- kernels ---- */

typedef void (*fake_kernel_fn)(const void *args);

/* A kernel of every library that is loaded, with one parameter of so many bytes.
 * name lives on. */
FAKE_API void fake_register_kernel(
    const char *name, fake_kernel_fn kernel, size_t args_nbytes);

/* How kernels are run, until all blocks have ended; NULL: each block calls the
 * kernel once, one after the other. */
FAKE_API void fake_set_engine(void (*run)(fake_kernel_fn kernel,
    const void *args, uint32_t blocks, uint32_t threads, uint64_t seed));

#endif
