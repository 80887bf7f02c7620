/* SPDX-License-Identifier: BSD-3-Clause */
/* The version that the stand-in for NCCL reports: FAKE_NCCL_VERSION. */
#include <stdlib.h>

#ifdef NCCL_OLD
#define SAID 22203
#elif defined(NCCL_FEW)
#define SAID 22707
#else
#define SAID 22809
#endif

__attribute__((visibility("default"))) int ncclGetVersion(int *version);

int ncclGetVersion(int *version)
{
    const char *wanted = getenv("FAKE_NCCL_VERSION");

    *version = wanted != NULL ? atoi(wanted) : SAID;
    return *version >= 0 ? 0 : 4; /* ncclInvalidArgument */
}
