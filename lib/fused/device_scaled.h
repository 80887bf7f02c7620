/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Products of 8-bit floats on a device: unsupported forms, matrix layouts, and
 * scales. Scales are copied to memory of this rank first: there they are
 * aligned, and later writes to the caller's do not matter.
 */
#ifndef SYMC_FUSED_DEVICE_SCALED_H
#define SYMC_FUSED_DEVICE_SCALED_H

#include "fused/device.h"

/* Alignment of the addresses, and of the lines, of 8-bit floats, in bytes. */
#define SYMC_FUSED_LINE 16

/* The left factor, for checks. */
struct symc_fused_eighths {
    const char *name; /* name of the operation */
    const struct symc_fused *fused;
    const struct symmcoll_tensor *a;
    const struct symc_fused_scale *a_scale;
};

/* Checks that A can be a factor on a device. Errors: UNSUPPORTED, INVALID (the
 * place of its scales). */
symmcoll_status_t symc_fused_check_eighths(const struct symc_fused_eighths *it);

/* Checks that b can be the other factor, in parts of a number of columns.
 * Errors: those of symc_fused_check_eighths(). */
symmcoll_status_t symc_fused_check_eighths_b(
    const struct symc_fused_eighths *it, int index,
    const struct symmcoll_tensor *b, const struct symc_fused_scaled *scaled,
    int64_t columns);

/* Checks the address of a result that products read or write. Errors:
 * UNSUPPORTED. */
symmcoll_status_t symc_fused_check_line(
    const char *name, const char *result, const void *at);

/* Returns whether an address is a multiple of SYMC_FUSED_LINE. */
bool symc_fused_is_at_line(const void *at);

/* Describes b as a matrix stored by columns, as cuBLASLt needs it. False: its
 * elements have to be packed first, in the order of
 * symc_fused_view_columns(). */
bool symc_fused_device_columns(
    const struct symmcoll_tensor *b, struct symc_product_matrix *matrix);
struct symc_f_view symc_fused_view_columns(const struct symmcoll_tensor *b);

/* Returns the distance in bytes between the scales of two parts. */
size_t symc_fused_scales_pitch(int64_t rows);

/* Enqueues copies of one scale to `count` places. */
void symc_fused_spread_scale(const struct symc_moving *moving, const void *from,
    int64_t count, char *to);
/* Enqueues copies of scales, in the order of a view. */
void symc_fused_copy_scales(const struct symc_moving *moving, const void *from,
    const struct symc_f_view *view, char *to);
/* Enqueues copies of scales in the order of a view. One dimension is divided
 * into parts, which are stored `pitch` bytes apart. */
void symc_fused_copy_scales_apart(const struct symc_moving *moving,
    const void *from, const struct symc_f_view *view, int dim, int parts,
    size_t pitch, char *to);

/* Enqueues copies of the scales of b: one per column, or one scale `count`
 * times. */
void symc_fused_copy_b_scales(const struct symc_moving *moving,
    const struct symc_fused_scaled *scaled, int64_t count, char *to);

#endif
