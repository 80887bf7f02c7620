/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The place of one rank's tensors, for modules that not only pass them to
 * operations: memory allocation, copies, zeroing.
 */
#ifndef SYMC_GROUP_SITE_H
#define SYMC_GROUP_SITE_H

#include "backend/backend.h"

#include <symmcoll/tensor.h>

struct symmcoll_group;

/* A device and a stream on it.  NULL is host memory in all functions below. */
struct symc_site;

/* Formats a tensor's place, "memory of device 1", into buffer. */
const char *symc_site_format(
    const struct symmcoll_tensor *tensor, char buffer[SYMC_MEMORY_TEXT]);

/* Checks that a tensor is in the memory it specifies; on a device, from its
 * first byte to its last.  Errors: INVALID (what was found). */
symmcoll_status_t symc_site_check(const char *where,
    const struct symmcoll_group *group, const struct symmcoll_tensor *tensor);

/* Opens a site (out) on a group's device for any thread, with a stream and some
 * memory on it, until its last use is closed.  sums: symc_site_add(),
 * symc_site_convert() or symc_site_move_pieces() with a kernel will be called.
 * Errors: those of symc_registry_open_device(), NO_MEMORY. */
symmcoll_status_t symc_site_open(const char *where,
    const struct symmcoll_group *group, int device, void *stream,
    const void *memory, bool sums, struct symc_site **site);

/* Opens a site (out) for another stream of the same device without a driver
 * call; it keeps the first one open.  Errors: NO_MEMORY. */
symmcoll_status_t symc_site_open_again(
    struct symc_site *site, void *stream, struct symc_site **again);

/* Returns whether an open site is what symc_site_open() would open, for the
 * same device. */
bool symc_site_serves(const struct symc_site *site,
    const struct symmcoll_group *group, int device, void *stream,
    const void *memory);

/* Add and drop a use of a site. */
struct symc_site *symc_site_share(struct symc_site *site);
void symc_site_close(struct symc_site *site);

/* Changes the site's stream; later work is ordered after work on the old one.
 * The site has one use. */
symmcoll_status_t symc_site_set_stream(struct symc_site *site, void *stream);
/* Changes the site's stream without any order between the two. */
void symc_site_leave_stream(struct symc_site *site, void *stream);
/* Orders the site's later work after the work on that stream. */
symmcoll_status_t symc_site_follow(const struct symc_site *site, void *stream);
/* Returns the site's stream.  NULL: the device's default stream, or host
 * memory. */
void *symc_site_stream(const struct symc_site *site);

/* Returns whether the site is on another stream. */
bool symc_site_is_beside(const struct symc_site *site, void *stream);
/* Returns IN_PROGRESS if the site's stream has work left. */
symmcoll_status_t symc_site_query(const struct symc_site *site);

/* Finds whether a stream is being captured (out); false for host memory. */
symmcoll_status_t symc_site_query_captured(
    const struct symc_site *site, void *stream, bool *captured);

/* Measure times on a device: see mark(), elapsed() and unmark() of struct
 * symc_local_ops. */
symmcoll_status_t symc_site_mark(const struct symc_site *site, void **mark);
symmcoll_status_t symc_site_elapsed(
    const struct symc_site *site, void *from, void *to, int64_t *ns);
void symc_site_unmark(const struct symc_site *site, void *mark);

/* Allocates uninitialised memory (out), at least a byte; host memory may also
 * be released with free(). Errors: those of allocate() of struct
 * symc_local_ops. */
symmcoll_status_t symc_site_alloc(const char *where, struct symc_site *site,
    size_t count, size_t elem, void **memory);
void symc_site_release(struct symc_site *site, void *memory);
/* Releases memory that no device work uses any more, without the site's stream,
 * which may have been destroyed. */
void symc_site_release_idle(struct symc_site *site, void *memory);

/* Copies strided elements on a device to contiguous ones, or the reverse. */
symmcoll_status_t symc_site_copy(
    const struct symc_site *site, const struct symc_strided *copy);
/* Copies bytes; the ranges do not overlap unless they are the same. */
symmcoll_status_t symc_site_move(
    const struct symc_site *site, void *to, const void *from, size_t nbytes);
/* Copies pieces into a buffer, or from it. */
symmcoll_status_t symc_site_move_pieces(
    const struct symc_site *site, const struct symc_local_pieces *pieces);
/* Sets bytes to zero. */
symmcoll_status_t symc_site_clear(
    const struct symc_site *site, void *at, size_t nbytes);

/* Computes a sum times a factor. */
symmcoll_status_t symc_site_add(
    const struct symc_site *site, const struct symc_local_sum *sum);
/* Computes the sum on another stream of the device. */
symmcoll_status_t symc_site_add_on(const struct symc_site *site, void *stream,
    const struct symc_local_sum *sum);

/* See symc_convert(); on a stream of the device. */
symmcoll_status_t symc_site_convert(const struct symc_site *site, void *stream,
    const struct symc_conversion *conversion);

#endif
