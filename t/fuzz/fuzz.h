/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A fuzz target: a function that takes any bytes and must neither crash nor
 * hang nor leak. "make fuzz" links it with libFuzzer; "make check" runs it
 * over its seeds, with replay.c.
 */
#ifndef T_FUZZ_FUZZ_H
#define T_FUZZ_FUZZ_H

#include <stddef.h>
#include <stdint.h>

/* The folder of its seeds, below t/fuzz/seeds. */
extern const char fuzz_name[];

/* The name that libFuzzer expects; returns 0. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t nbytes);

#endif
