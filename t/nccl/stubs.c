/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Every function of the stand-in for NCCL by its name, for programs that only
 * look it up; working versions are defined elsewhere and replace these. With
 * NCCL_OLD or NCCL_FEW it lacks everything that it may lack.
 */
#include "cuda/nccl/nccl_functions.h"

#define STUB(member, name, since, type, args)                    \
    __attribute__((visibility("default"), weak)) int name(void); \
    int name(void)                                               \
    {                                                            \
        return 3; /* ncclInternalError */                        \
    }

SYMC_NCCL_NEEDED(STUB)
#if !defined(NCCL_OLD) && !defined(NCCL_FEW)
SYMC_NCCL_OPTIONAL(STUB)
#endif
