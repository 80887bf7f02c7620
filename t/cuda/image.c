/* SPDX-License-Identifier: BSD-3-Clause */
/* A stub for the device code, which the fake driver does not read. */
extern const unsigned char symc_image[] __attribute__((visibility("hidden")));
const unsigned char symc_image[] = {0};
