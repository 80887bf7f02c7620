/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The optimizer.  It works element by element: bitwise equal parameters and
 * gradients on all ranks lead to bitwise equal parameters again.
 */
#include "charlm.h"

#include <math.h>
#include <stdlib.h>

int charlm_create_adam(struct charlm_adam *adam)
{
    for (int i = 0; i < adam->nslices; i++) {
        struct charlm_slice *slice = &adam->slices[i];

        slice->mean = calloc(slice->count, sizeof(float));
        slice->square = calloc(slice->count, sizeof(float));
        adam->nbytes += 2 * slice->count * sizeof(float);
        if (slice->mean == NULL || slice->square == NULL)
            return -1;
    }
    return 0;
}

void charlm_free_adam(struct charlm_adam *adam)
{
    for (int i = 0; i < adam->nslices; i++) {
        free(adam->slices[i].mean);
        free(adam->slices[i].square);
    }
    *adam = (struct charlm_adam){0};
}

static const float decay1 = 0.9f, decay2 = 0.99f;

void charlm_begin_adam(struct charlm_adam *adam, int step, double learning_rate)
{
    /* The moments start at zero; the rate corrects their bias. */
    double bias1 = 1.0 - pow((double)decay1, step + 1);
    double bias2 = 1.0 - pow((double)decay2, step + 1);

    adam->rate = (float)(learning_rate / bias1);
    adam->unbias = (float)(1.0 / sqrt(bias2));
}

void charlm_step_adam(struct charlm_adam *adam, int i)
{
    const float epsilon = 1e-8f, rate = adam->rate, unbias = adam->unbias;
    float *restrict value = adam->slices[i].value;
    float *restrict mean = adam->slices[i].mean;
    float *restrict square = adam->slices[i].square;
    const float *restrict grad = adam->slices[i].grad;

    for (size_t j = 0; j < adam->slices[i].count; j++) {
        mean[j] = decay1 * mean[j] + (1.0f - decay1) * grad[j];
        square[j] = decay2 * square[j] + (1.0f - decay2) * grad[j] * grad[j];
        value[j] -= rate * mean[j] / (sqrtf(square[j]) * unbias + epsilon);
    }
}
