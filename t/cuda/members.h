/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Helpers for tests of the device memory backend: ranks on devices of the fake
 * driver, with kernels run on the host by the engine; memory and streams of a
 * rank's device; and collectives by kind, which run in device memory and in
 * host memory and must have the same bits in both.
 */
#ifndef T_CUDA_MEMBERS_H
#define T_CUDA_MEMBERS_H

#include "t/cuda/fake/fake.h"
#include "t/ranks.h"
#include "t/tap.h"

#include "base/kind.h"

#include <symmcoll.h>

#include <cuda.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define F32 SYMMCOLL_FLOAT32
#define SUM SYMMCOLL_SUM

/* Prepares, in main before all ranks, the path of the module, the kernels, and
 * a device for each rank, with little staging memory, so that most operations
 * take several pieces. */
void device_begin(void);

/* Runs a body on ranks that are processes, and on ranks that are threads. */
void on_both(int n, rank_fn body, const char *what);

/* ---- a rank's device ---- */

/* Makes the context of a rank's device current. Returns the device's number;
 * there may be more ranks than devices. */
int device_use(int device);

/*
 * The environment variable that lists, separated by commas, the resources that
 * are reused instead of being returned to the driver: "memory" that was freed
 * and "streams" that have ended. The word "copies" puts copies to and from
 * memory on one stream, instead of the default stream of each thread. "0" or
 * an empty value: none of them.
 */
#define DEVICE_KEEPS "T_DEVICE_KEEPS"

/* device_alloc() returns zeroed memory of the current device, to be freed with
 * device_free(). */
void *device_alloc(size_t nbytes);
void device_free(void *at);
void device_write(void *to, const void *from, size_t nbytes);
void device_read(void *to, const void *from, size_t nbytes);

CUstream device_stream(void); /* not ordered with the default stream */
void device_wait(CUstream stream);
void device_end_stream(CUstream stream);

/* ---- collectives ---- */

/* One call of a collective of any kind. */
struct collective {
    enum symc_kind kind;
    enum symmcoll_dtype dtype;
    symmcoll_op_t op;
    size_t count;
    int root;
    bool in_place;
    bool listed; /* parts, or several buffers, in reverse order: each in its
                  * own allocation */
    int several; /* number of buffers of a coalesced kind, which share its
                  * count; 0: not coalesced */
    bool region; /* called one by one in a region */
    bool unlike; /* the parts of a list have up to `count` elements, some
                  * none */
};

#define SEVERAL_MOST 9

/* Calls the collective on buffers with the number of parts that its kind has;
 * the buffers of a list are contiguous. Without a work, lists are read only
 * during the call. */
symmcoll_status_t collective_call(struct symmcoll_group *group,
    const struct collective *one, void *out, const void *in,
    const struct symmcoll_call *call, struct symmcoll_work **work);

/* Return the sizes in bytes of a rank's input and output. */
size_t collective_in_nbytes(const struct collective *one, int size);
size_t collective_out_nbytes(const struct collective *one, int size);

/* Returns whether a rank has an input (sends) or an output (receives). */
bool collective_sends(const struct collective *one, int rank);
bool collective_receives(const struct collective *one, int rank);

/* Fills a buffer with small numbers, different for each seed. */
void fill(enum symmcoll_dtype dtype, void *at, size_t count, uint64_t seed);

/* Runs a collective on a stream of the rank's device and in host memory.
 * Checks that both have the same bytes, and that no byte beside the output has
 * changed. */
int same_as_host(
    struct symmcoll_group *group, int rank, const struct collective *one);

/* ---- reporting differences ---- */

int say(int right, const char *what);

/* Checks that a device's primary context, which takes memory, is not in use. */
static inline int is_primary_unused(int device)
{
    unsigned int flags;
    int active = 1;

    return say(
        cuDevicePrimaryCtxGetState(device, &flags, &active) == CUDA_SUCCESS &&
            active == 0,
        "no other context is made");
}
int ended(
    symmcoll_status_t found, symmcoll_status_t expected, const char *text);

#endif
