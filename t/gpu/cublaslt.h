/* SPDX-License-Identifier: BSD-3-Clause */
/* cuBLASLt for the programs of t/gpu; in a rehearsal the stand-in. */
#ifndef T_GPU_CUBLASLT_H
#define T_GPU_CUBLASLT_H

/* The library's file. */
const char *gpu_cublaslt(void);

/* Before all ranks, in main: the setting names that file; where it cannot be opened,
 * skip_all() with the reason. */
void gpu_need_cublaslt(void);

#endif
