/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Products of 8-bit floats on a device: what is refused of them, how matrices are in
 * memory, and scales, which are copied to memory of this rank's first, where they
 * are aligned, and remain whatever is written to the caller's.
 */
#ifndef SYMC_FUSED_DEVICE_SCALED_H
#define SYMC_FUSED_DEVICE_SCALED_H

#include "fused/device.h"

/* Bytes that addresses, and lines, of 8-bit floats are multiples of. */
#define SYMC_FUSED_LINE 16

/* What is multiplied, for checks. */
struct symc_fused_eighths {
    const char *name; /* of the operation */
    const struct symc_fused *fused;
    const struct symmcoll_tensor *a;
    const struct symc_fused_scale *a_scale;
};

/* Whether A may be a factor on a device.  Errors: UNSUPPORTED, INVALID (where its
 * scales are). */
symmcoll_status_t symc_fused_check_eighths(const struct symc_fused_eighths *it);

/* Whether a matrix may be the other one; in parts of so many columns.  Errors: the
 * same. */
symmcoll_status_t symc_fused_check_eighths_b(
    const struct symc_fused_eighths *it, int index,
    const struct symmcoll_tensor *b, const struct symc_fused_scaled *scaled,
    int64_t columns);

/* Whether a result may be at its address, which products read or write.  Errors:
 * UNSUPPORTED. */
symmcoll_status_t symc_fused_check_line(
    const char *name, const char *result, const void *at);

/* Whether an address is a multiple of SYMC_FUSED_LINE. */
bool symc_fused_is_at_line(const void *at);

/* The shape of b, by columns, as cuBLASLt multiplies it (out).  False: elements have
 * to be packed first, in the order of the view. */
bool symc_fused_device_columns(
    const struct symmcoll_tensor *b, struct symc_product_matrix *matrix);
struct symc_f_view symc_fused_view_columns(const struct symmcoll_tensor *b);

/* Bytes from the scales of a part's rows to those of the next part. */
size_t symc_fused_scales_pitch(int64_t rows);

/* Enqueue copies: a scale, `count` times; and scales in the order of a view, a
 * dimension of which is cut in parts that are `pitch` bytes apart. */
void symc_fused_spread_scale(const struct symc_moving *moving, const void *from,
    int64_t count, char *to);
void symc_fused_copy_scales(const struct symc_moving *moving, const void *from,
    const struct symc_f_view *view, char *to);
void symc_fused_copy_scales_apart(const struct symc_moving *moving,
    const void *from, const struct symc_f_view *view, int dim, int parts,
    size_t pitch, char *to);

/* Those of b: one for each column if there are, or else, so many times. */
void symc_fused_copy_b_scales(const struct symc_moving *moving,
    const struct symc_fused_scaled *scaled, int64_t count, char *to);

#endif
