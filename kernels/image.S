/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The code for all devices, as CUDA's compiler made it: what is loaded by
 * cuLibraryLoadData().  The path is relative to the folder that make runs in.
 */
        .section .rodata
        .globl  symc_image
        .hidden symc_image
        .type   symc_image, %object
        .balign 16
symc_image:
        .incbin "kernels/all.fatbin"
        .size   symc_image, . - symc_image

        .section .note.GNU-stack,"",%progbits
