/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The optimizer.  It works element by element: bitwise equal parameters and
 * gradients on all ranks lead to bitwise equal parameters again.
 */
#include "charlm.h"

#include <math.h>
#include <stdlib.h>

int charlm_create_adam(
    struct charlm_adam *adam, const struct charlm_model *model)
{
    *adam = (struct charlm_adam){0};
    for (int i = 0; i < CHARLM_NPARAMS; i++) {
        size_t count = model->params[i].count;

        adam->mean[i] = calloc(count, sizeof(float));
        adam->square[i] = calloc(count, sizeof(float));
        if (adam->mean[i] == NULL || adam->square[i] == NULL) {
            charlm_free_adam(adam);
            return -1;
        }
    }
    return 0;
}

void charlm_free_adam(struct charlm_adam *adam)
{
    for (int i = 0; i < CHARLM_NPARAMS; i++) {
        free(adam->mean[i]);
        free(adam->square[i]);
    }
    *adam = (struct charlm_adam){0};
}

void charlm_step_adam(struct charlm_adam *adam, struct charlm_model *model,
    const float *const *grads, double learning_rate)
{
    const float decay1 = 0.9f, decay2 = 0.99f, epsilon = 1e-8f;

    adam->step++;
    /* The moments start at zero; the rate corrects their bias. */
    double bias1 = 1.0 - pow((double)decay1, adam->step);
    double bias2 = 1.0 - pow((double)decay2, adam->step);
    float rate = (float)(learning_rate / bias1);
    float unbias = (float)(1.0 / sqrt(bias2));

    for (int i = 0; i < CHARLM_NPARAMS; i++) {
        float *restrict value = model->params[i].value;
        float *restrict mean = adam->mean[i];
        float *restrict square = adam->square[i];
        const float *restrict grad = grads[i];

        for (size_t j = 0; j < model->params[i].count; j++) {
            mean[j] = decay1 * mean[j] + (1.0f - decay1) * grad[j];
            square[j] =
                decay2 * square[j] + (1.0f - decay2) * grad[j] * grad[j];
            value[j] -= rate * mean[j] / (sqrtf(square[j]) * unbias + epsilon);
        }
    }
}
