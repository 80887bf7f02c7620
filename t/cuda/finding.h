/* SPDX-License-Identifier: BSD-3-Clause */
/* A module that looks up the device of an address, as symmcoll_cuda.so does. */
#ifndef T_CUDA_FINDING_H
#define T_CUDA_FINDING_H

#include <stdbool.h>
#include <stdint.h>

/* The functions that finding.so exports under the name "finding". */
struct finding {
    bool (*find)(const void *data, int16_t *device);
    bool (*find_whole)(
        const void *first, const void *last, int16_t *device, bool *whole);
    int (*counted)(void);  /* how often objects were counted */
    int (*searched)(void); /* how often libcuda was searched for */
};

#endif
