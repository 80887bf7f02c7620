/* SPDX-License-Identifier: BSD-3-Clause */
/* Checks that only a device runs, in the form of t/kernels/checks.h. */
#ifndef T_GPU_REPEATED_H
#define T_GPU_REPEATED_H

#include "t/kernels/checks.h"

extern const struct check checks_of_repetitions[];

#endif
