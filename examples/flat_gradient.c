/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Data-parallel training without the library's reducer, for a program that
 * keeps all parameters in one array and all gradients in another, layer after
 * layer.  A layer's gradient is a slice of the array.  As soon as backward has
 * computed it, a non-blocking all_reduce in place starts to sum it over the
 * ranks, while backward computes the layer below.  The update waits for these
 * works.
 *
 * The slice belongs to the library from the call of the collective until its
 * work has ended: backward must not touch it.  All ranks start the slices in
 * the same order.
 *
 *   cc -O2 -o flat_gradient flat_gradient.c \
 *       $(pkg-config --cflags --libs symmcoll) -lm
 *   symmcoll-run -n 4 ./flat_gradient
 */
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <symmcoll.h>

#define NLAYERS 3
#define WIDTH 16 /* width of the widest layer */
#define NPARAMS (5 * 16 + 17 * 16 + 17)
#define NSAMPLES 240
#define STEPS 400

/* Inputs and outputs of each layer; its weights are rows of inputs and a
 * bias. */
static const int widths[NLAYERS + 1] = {4, 16, 16, 1};

struct layer {
    int inputs, outputs;
    float *weights; /* slices of the flat arrays */
    float *grads;
    int count;
};

static float params[NPARAMS], grads[NPARAMS];
static struct layer layers[NLAYERS];
static float inputs[NSAMPLES][4], targets[NSAMPLES];
static float outputs[NLAYERS + 1][NSAMPLES][WIDTH]; /* per layer */
/* loss gradients of its outputs */
static float errors[2][NSAMPLES][WIDTH];

/* Returns a number between -1 and 1, the same on every rank. */
static float draw(void)
{
    static uint32_t state = 1;

    state = state * 1664525u + 1013904223u;
    return (float)(state >> 8) / 8388608.0f - 1.0f;
}

static void make_model(void)
{
    int used = 0;

    for (int l = 0; l < NLAYERS; l++) {
        struct layer *layer = &layers[l];

        layer->inputs = widths[l];
        layer->outputs = widths[l + 1];
        layer->count = (layer->inputs + 1) * layer->outputs;
        layer->weights = &params[used];
        layer->grads = &grads[used];
        used += layer->count;
        for (int i = 0; i < layer->count; i++)
            layer->weights[i] = draw() / sqrtf((float)layer->inputs);
    }
    for (int s = 0; s < NSAMPLES; s++) {
        for (int i = 0; i < 4; i++)
            inputs[s][i] = draw();
        targets[s] = inputs[s][0] * inputs[s][1] + 0.5f * inputs[s][2];
    }
}

/* Computes one layer forward, for the samples first, first + step, ... */
static void forward(int l, int first, int step)
{
    const struct layer *layer = &layers[l];

    for (int s = first; s < NSAMPLES; s += step) {
        for (int o = 0; o < layer->outputs; o++) {
            const float *row = &layer->weights[o * (layer->inputs + 1)];
            float sum = row[layer->inputs];

            for (int i = 0; i < layer->inputs; i++)
                sum += row[i] * outputs[l][s][i];
            outputs[l + 1][s][o] = l == NLAYERS - 1 ? sum : tanhf(sum);
        }
    }
}

/* Computes one layer backward: its gradient, and the errors of the layer
 * below. */
static void backward(int l, int first, int step)
{
    const struct layer *layer = &layers[l];

    memset(layer->grads, 0, (size_t)layer->count * sizeof(float));
    for (int s = first; s < NSAMPLES; s += step) {
        float *below = errors[(l + 1) % 2][s];

        memset(below, 0, sizeof(errors[0][s]));
        for (int o = 0; o < layer->outputs; o++) {
            int row = o * (layer->inputs + 1);
            float y = outputs[l + 1][s][o];
            float error = errors[l % 2][s][o];

            if (l < NLAYERS - 1)
                error *= 1.0f - y * y;
            for (int i = 0; i < layer->inputs; i++) {
                layer->grads[row + i] += error * outputs[l][s][i];
                below[i] += error * layer->weights[row + i];
            }
            layer->grads[row + layer->inputs] += error;
        }
    }
}

/* Computes this rank's part of the loss and its derivative by the last outputs,
 * both divided by all samples, so that the ranks' parts add up to the mean. */
static float take_loss(int first, int step)
{
    float loss = 0.0f;

    for (int s = first; s < NSAMPLES; s += step) {
        float error = outputs[NLAYERS][s][0] - targets[s];

        loss += error * error / NSAMPLES;
        errors[(NLAYERS - 1) % 2][s][0] = 2.0f * error / NSAMPLES;
    }
    return loss;
}

/* Takes one step of gradient descent; *loss is the mean over all ranks'
 * samples. */
static symmcoll_status_t take_step(struct symmcoll_group *group, float *loss)
{
    int rank = symmcoll_group_rank(group), size = symmcoll_group_size(group);
    struct symmcoll_work *works[NLAYERS] = {NULL};
    symmcoll_status_t status = SYMMCOLL_OK;

    for (int l = 0; l < NLAYERS; l++)
        forward(l, rank, size);
    *loss = take_loss(rank, size);
    for (int l = NLAYERS - 1; status == SYMMCOLL_OK && l >= 0; l--) {
        backward(l, rank, size);
        status = symmcoll_all_reduce(group, layers[l].grads, layers[l].grads,
            (size_t)layers[l].count, SYMMCOLL_FLOAT32, SYMMCOLL_SUM, NULL,
            &works[l]);
    }
    /* The works end in the order of their start. */
    for (int l = NLAYERS - 1; l >= 0; l--) {
        if (status == SYMMCOLL_OK)
            status = symmcoll_work_wait(works[l], -1);
        symmcoll_work_free(works[l]);
        for (int i = 0; status == SYMMCOLL_OK && i < layers[l].count; i++)
            layers[l].weights[i] -= 0.2f * layers[l].grads[i];
    }
    if (status == SYMMCOLL_OK)
        status = symmcoll_all_reduce(
            group, loss, loss, 1, SYMMCOLL_FLOAT32, SYMMCOLL_SUM, NULL, NULL);
    return status;
}

/* Checks that the parameters are bitwise equal on all ranks: the smallest and
 * the largest of the ranks' hashes are equal then. */
static symmcoll_status_t compare(struct symmcoll_group *group, int *equal)
{
    uint64_t bounds[2] = {0, 0};
    symmcoll_status_t status;

    for (int i = 0; i < NPARAMS; i++) {
        uint32_t bits;

        memcpy(&bits, &params[i], sizeof(bits));
        bounds[0] = bounds[0] * 31 + bits;
    }
    bounds[1] = bounds[0];
    status = symmcoll_all_reduce(group, &bounds[0], &bounds[0], 1,
        SYMMCOLL_UINT64, SYMMCOLL_MIN, NULL, NULL);
    if (status == SYMMCOLL_OK)
        status = symmcoll_all_reduce(group, &bounds[1], &bounds[1], 1,
            SYMMCOLL_UINT64, SYMMCOLL_MAX, NULL, NULL);
    *equal = bounds[0] == bounds[1];
    return status;
}

int main(void)
{
    struct symmcoll_world *world;
    struct symmcoll_group *group;
    symmcoll_status_t status = SYMMCOLL_OK;
    float loss = 0.0f;
    int equal = 0;

    if (symmcoll_init(NULL, &world) != SYMMCOLL_OK) {
        fprintf(stderr, "%s\n", symmcoll_last_error());
        return 1;
    }
    group = symmcoll_world_group(world);
    make_model();
    for (int s = 0; s < NSAMPLES; s++)
        memcpy(outputs[0][s], inputs[s], sizeof(inputs[s]));
    for (int step = 0; step <= STEPS && status == SYMMCOLL_OK; step++) {
        status = take_step(group, &loss);
        if (status == SYMMCOLL_OK && symmcoll_group_rank(group) == 0 &&
            step % 100 == 0)
            printf("step %d: loss %.4f\n", step, (double)loss);
    }
    if (status == SYMMCOLL_OK)
        status = compare(group, &equal);
    if (status != SYMMCOLL_OK)
        fprintf(stderr, "%s\n", symmcoll_last_error());
    else if (symmcoll_group_rank(group) == 0)
        printf("the ranks hold %s parameters\n", equal ? "equal" : "different");
    symmcoll_finalize(world);
    return status != SYMMCOLL_OK || !equal;
}
