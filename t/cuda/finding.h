/* SPDX-License-Identifier: BSD-3-Clause */
/* A module that asks whose memory an address is, as symmcoll_cuda.so does. */
#ifndef T_CUDA_FINDING_H
#define T_CUDA_FINDING_H

#include <stdbool.h>
#include <stdint.h>

/* What finding.so has under the name "finding". */
struct finding {
    bool (*find)(const void *data, int16_t *device);
    bool (*find_whole)(
        const void *first, const void *last, int16_t *device, bool *whole);
    int (*counted)(void);  /* how often objects were counted so far */
    int (*searched)(void); /* and libcuda searched for */
};

#endif
