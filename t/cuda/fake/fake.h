/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A CUDA driver on the host, for tests: libcuda.so.1 with the functions that
 * lib/cuda needs, and those that a caller of the library needs. Device memory
 * is host memory, streams are threads, and kernels are functions.
 *
 * It refuses the same calls as the real driver: calls before cuInit(), without
 * a current context, or in the child of a fork; kernels and memory sets in a
 * stream of another context than the current one, and functions and events of
 * another one; sizes that are no multiple of the granularity; and calls that
 * are not permitted while a stream is captured. It always fails where the real
 * driver only may fail. It has no multicast instructions, no peer access
 * rights and no caches: a test on it shows control flow and ordering.
 *
 * Under ThreadSanitizer the work of each stream is ordered as CUDA orders it,
 * and by nothing else: two streams that use the same memory without an event
 * between them are a data race, whenever they ran.
 *
 * A test program links with it. A program that must find it itself has its
 * folder in LD_LIBRARY_PATH, and settings in the environment variable
 * FAKE_CUDA.
 */
#ifndef T_CUDA_FAKE_FAKE_H
#define T_CUDA_FAKE_FAKE_H

#include <cuda.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define FAKE_API __attribute__((visibility("default")))

/*
 * Applies settings, separated by blanks, such as "devices=2 memory=64M":
 *
 *   version=12040       version of the driver
 *   devices=1           number of devices
 *   memory=1G           memory of each device
 *   granularity=2M      of physical allocations
 *   sms=132             multiprocessors of each device
 *   uuid=0              number contained, with the device's own, in each UUID
 *   multicast=0         1: devices report support for it
 *   coarse=0            granularity of multicast objects; 0: as above
 *   fabric=0            1: fabric handles, for other machines, can be created
 *   rdma=0              1: memory can be created that network adapters access
 *   capability=90       compute capability 9.0
 *   waits=0             1: functions that free memory wait for all work of the
 *                       context, as those of the real driver may
 *   connections=0       hardware queues of a device that its streams share: work
 *                       begins only when everything before it in its queue has
 *                       begun; 0: one for each stream
 *   queue=0             capacity of a stream in pieces of work: a call waits while
 *                       it is full; 0: unlimited
 *   reuse=0             1: the next stream gets the handle of a destroyed one, as
 *                       it may from the real driver; 0: no handle of a stream or
 *                       event is reused, and a call that uses a destroyed one, or
 *                       frees something that does not exist, ends the process
 *                       with the call's name
 *   linger=0            most microseconds, drawn, for which a call keeps using its
 *                       handles: destroying one of them then ends the process
 *   elapsed=0           microseconds between any two events; 0: the real time
 *   delay=0             most microseconds, drawn, before each piece of work
 *   seed=1              of the random numbers
 *   missing=cuName      a function that the driver lacks; may be repeated
 *   fail=cuName:3:2     the third call from now on returns error 2; number 0:
 *                       every call; a negative error is the signal that ends the
 *                       process; may be repeated
 *   slow=cuName:20      each call takes this many milliseconds longer; may be
 *                       repeated
 *
 * cuInit() reads the settings down to sms. Returns false for an unknown
 * setting.
 */
FAKE_API bool fake_configure(const char *settings);

/* Restores the initial state; no stream may exist, and no context be in use. */
FAKE_API void fake_reset(void);

/* ---- past events ---- */

/* Returns how often a function was called, including calls that failed. */
FAKE_API uint64_t fake_calls(const char *name);

/* Returns how many memory sets, copies, copies of rows and kernels were the
 * first of their kind in a context. The real driver may block in these. */
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

/* Returns the number of objects that have not been freed. */
FAKE_API int fake_live(enum fake_object object);

/* Returns the names of all functions that can be found, one by one; NULL after
 * the last. */
FAKE_API const char *fake_entry(int index);

/* Returns the largest number of kernel blocks that a device had to run at
 * once. */
FAKE_API int fake_blocks_max(int device);

/* Returns the priority of the stream of a device's latest kernel. */
FAKE_API int fake_priority(int device);

/* Returns how many contexts the calling thread has pushed and not popped. */
FAKE_API int fake_pushed(void);

/* ---- faults ---- */

/* Put a piece of work into a stream that ends with fake_resume(). */
FAKE_API void fake_stall(CUstream stream);
FAKE_API void fake_resume(CUstream stream);

/* Breaks the primary context of a device as a kernel's fault does: the work in
 * its streams is dropped, and every call in it returns the error from now
 * on. */
FAKE_API void fake_break(int device, CUresult error);

/* Blocks until all destroyed streams have ended. */
FAKE_API void fake_finish(void);

/*
 * Makes the n-th call of a function from now on, in the contexts of a device,
 * succeed without doing anything; 0: none. The function must be one that puts
 * work into streams. name must stay valid.
 */
FAKE_API void fake_skip(int device, const char *name, int n);
/* Returns whether the call to be skipped has been made. */
FAKE_API bool fake_has_skipped(int device);

/*
 * Holds back the streams of a device that have this priority: each begins a
 * piece of work, other than recording an event or waiting, only when all other
 * streams have completed none for `ms` milliseconds. 0: no stream is held
 * back.
 */
FAKE_API void fake_hold_back(int device, int priority, int ms);

/* ---- kernels ---- */

typedef void (*fake_kernel_fn)(const void *args);

/* Registers a kernel, of args_nbytes bytes of parameters, in every library
 * that is loaded. name must stay valid. */
FAKE_API void fake_register_kernel(
    const char *name, fake_kernel_fn kernel, size_t args_nbytes);

/* Sets the function that runs a kernel until all its blocks have ended. NULL:
 * call the kernel once for each block, one after the other. */
FAKE_API void fake_set_engine(void (*run)(fake_kernel_fn kernel,
    const void *args, uint32_t blocks, uint32_t threads, uint64_t seed));

#endif
