/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Where one rank has its tensors, for modules that do more with them than pass them
 * to an operation: allocate memory beside them, copy them, set them to zero.
 */
#ifndef SYMC_GROUP_SITE_H
#define SYMC_GROUP_SITE_H

#include "backend/backend.h"

#include <symmcoll/tensor.h>

struct symmcoll_group;

/* A device and a stream there; NULL is host memory, in all that follows. */
struct symc_site;

/* "memory of device 1", as a tensor says where it is, into a buffer. */
const char *symc_site_format(
    const struct symmcoll_tensor *tensor, char buffer[SYMC_MEMORY_TEXT]);

/* Whether a tensor is where it says; on a device, from its first byte to its last.
 * Errors: INVALID (what is there). */
symmcoll_status_t symc_site_check(const char *where,
    const struct symmcoll_group *group, const struct symmcoll_tensor *tensor);

/* A device of a group (out), until its last use is closed, where a stream and some
 * memory on it are, whatever thread asks; sums: symc_site_add() or symc_site_convert()
 * will be called, or symc_site_move_pieces() where a kernel is to do it.
 * Errors: those of symc_registry_open_device(), NO_MEMORY. */
symmcoll_status_t symc_site_open(const char *where,
    const struct symmcoll_group *group, int device, void *stream,
    const void *memory, bool sums, struct symc_site **site);

/* One (out) on another stream of the same device, without a call of the driver: it may
 * be open for longer.  Errors: NO_MEMORY. */
symmcoll_status_t symc_site_open_again(
    struct symc_site *site, void *stream, struct symc_site **again);

/* Whether one that is open is what symc_site_open() would open, of the same device. */
bool symc_site_serves(const struct symc_site *site,
    const struct symmcoll_group *group, int device, void *stream,
    const void *memory);

/* The same once more, and one use less. */
struct symc_site *symc_site_share(struct symc_site *site);
void symc_site_close(struct symc_site *site);

/* What comes from now on is on this stream, after what has come on the one before.
 * The site has one use. */
symmcoll_status_t symc_site_set_stream(struct symc_site *site, void *stream);
/* The same without any order between the two. */
void symc_site_leave_stream(struct symc_site *site, void *stream);
/* What comes from now on is after what has come on that stream. */
symmcoll_status_t symc_site_follow(const struct symc_site *site, void *stream);
/* NULL: the device's default one; the host has none. */
void *symc_site_stream(const struct symc_site *site);

/* Whether it is on another stream. */
bool symc_site_is_beside(const struct symc_site *site, void *stream);
/* IN_PROGRESS: its stream has work left. */
symmcoll_status_t symc_site_query(const struct symc_site *site);

/* Whether a stream there is being captured (out); in host memory nothing is. */
symmcoll_status_t symc_site_ask_captured(
    const struct symc_site *site, void *stream, bool *captured);

/* Times of a device: as mark(), elapsed() and unmark() of struct symc_local_ops. */
symmcoll_status_t symc_site_mark(const struct symc_site *site, void **mark);
symmcoll_status_t symc_site_elapsed(
    const struct symc_site *site, void *from, void *to, int64_t *ns);
void symc_site_unmark(const struct symc_site *site, void *mark);

/* Memory (out) of any content, at least a byte; of the host it is released with
 * free(), too.  Errors: those of allocate() of struct symc_local_ops. */
symmcoll_status_t symc_site_alloc(const char *where, struct symc_site *site,
    size_t count, size_t elem, void **memory);
void symc_site_release(struct symc_site *site, void *memory);
/* The same of memory that nothing on a device uses any more: the site's stream, which
 * may be gone, is not used. */
void symc_site_release_idle(struct symc_site *site, void *memory);

/* Elements on a device become contiguous, or the other way. */
symmcoll_status_t symc_site_copy(
    const struct symc_site *site, const struct symc_strided *copy);
/* Bytes that do not overlap. */
symmcoll_status_t symc_site_move(
    const struct symc_site *site, void *to, const void *from, size_t nbytes);
/* Bytes into a buffer, or from it. */
symmcoll_status_t symc_site_move_pieces(
    const struct symc_site *site, const struct symc_local_pieces *pieces);
/* Bytes become zero. */
symmcoll_status_t symc_site_clear(
    const struct symc_site *site, void *at, size_t nbytes);

/* A sum, multiplied. */
symmcoll_status_t symc_site_add(
    const struct symc_site *site, const struct symc_local_sum *sum);
/* The same on another stream there. */
symmcoll_status_t symc_site_add_on(const struct symc_site *site, void *stream,
    const struct symc_local_sum *sum);

/* As symc_convert(), on such a stream. */
symmcoll_status_t symc_site_convert(const struct symc_site *site, void *stream,
    const struct symc_conversion *conversion);

#endif
