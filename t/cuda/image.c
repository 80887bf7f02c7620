/* SPDX-License-Identifier: BSD-3-Clause */
/* In place of the code for devices, which the fake driver does not read. */
extern const unsigned char symc_image[] __attribute__((visibility("hidden")));
const unsigned char symc_image[] = {0};
