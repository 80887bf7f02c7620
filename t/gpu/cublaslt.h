/* SPDX-License-Identifier: BSD-3-Clause */
/* cuBLASLt for the programs of t/gpu; in a rehearsal the stand-in. */
#ifndef T_GPU_CUBLASLT_H
#define T_GPU_CUBLASLT_H

/* Returns the library's file. */
const char *gpu_cublaslt(void);

/* Sets the library's file in the settings, in main before all ranks; calls
 * skip_all() with the reason if it cannot be opened. */
void gpu_need_cublaslt(void);

#endif
