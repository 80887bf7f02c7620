/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The hand-written backward pass beside finite differences of the loss.
 *
 * Biases keep every hidden unit well on one side of its kink, about half of
 * them cut off, so that the loss is smooth where it is probed.  A central
 * difference of step h = 2^-6 then misses the derivative by h^2 / 6 of the
 * third one, which is of the size of the first here (some 1e-4 of it), and by
 * the rounding of the loss, 2^-24 * 3 / h = 1e-5.
 */
#include "../../examples/charlm.h"
#include "../tap.h"

#include <math.h>
#include <stdlib.h>

#define BATCH 6
#define STEP 0x1p-6f
#define ABSOLUTE 2e-4
#define RELATIVE 5e-3

static const struct charlm_shape shape = {.vocab = 7,
    .context = 3,
    .embed = 4,
    .hidden1 = 10,
    .hidden2 = 8,
    .batch = BATCH};

static double mean_loss(struct charlm_model *model)
{
    return charlm_forward(model, BATCH) / BATCH;
}

static double difference(struct charlm_model *model, float *value)
{
    float kept = *value;
    double above, below;

    *value = kept + STEP;
    above = mean_loss(model);
    *value = kept - STEP;
    below = mean_loss(model);
    *value = kept;
    return (above - below) / (2.0 * (double)STEP);
}

/* Whether all of one parameter's gradients are right, and not all small. */
static int gradient_is_right(struct charlm_model *model, int number)
{
    struct charlm_param *param = &model->params[number];
    double largest = 0.0;
    int right = 1;

    for (size_t i = 0; i < param->count; i++) {
        double expected = difference(model, &param->value[i]);
        double found = (double)param->grad[i];

        if (!(fabs(found - expected) <= ABSOLUTE + RELATIVE * fabs(expected))) {
            diag("%s, element %zu: expected %g, found %g", param->name, i,
                expected, found);
            right = 0;
        }
        largest = fabs(found) > largest ? fabs(found) : largest;
    }
    return right && largest > 20 * ABSOLUTE;
}

/* Which gradients came, in their order. */
struct order {
    int numbers[CHARLM_NPARAMS];
    int count;
    int stop; /* after so many, with a failure */
};

static int note(void *arg, int number)
{
    struct order *order = arg;

    if (order->count < CHARLM_NPARAMS)
        order->numbers[order->count] = number;
    return ++order->count == order->stop ? -7 : 0;
}

static int comes_from_last_to_first(const struct order *order)
{
    /* Within a layer the bias is first: it costs nothing to compute. */
    static const int expected[CHARLM_NPARAMS] = {6, 5, 4, 3, 2, 1, 0};

    for (int i = 0; i < CHARLM_NPARAMS; i++)
        if (order->numbers[i] != expected[i])
            return 0;
    return order->count == CHARLM_NPARAMS;
}

static struct charlm_model *make_model(void)
{
    struct charlm_model *model = charlm_create_model(&shape, 3);
    unsigned char symbols[64];

    if (model == NULL)
        return NULL;
    for (int i = 0; i < 64; i++)
        symbols[i] = (unsigned char)(charlm_mix((uint64_t)i) % 7);
    for (int row = 0; row < BATCH; row++)
        charlm_set_row(model, row, symbols, (uint32_t)(5 + 9 * row));
    for (int p = 1; p < CHARLM_NPARAMS; p++) {
        struct charlm_param *param = &model->params[p];

        for (size_t i = 0; i < param->count; i++)
            if (p == 2 || p == 4)
                param->value[i] = i % 2 == 0 ? 4.0f : -30.0f;
            else if (p == 3 || p == 1)
                param->value[i] *= 0.25f;
            else if (p == 5)
                param->value[i] *= 5.0f;
    }
    return model;
}

int main(void)
{
    struct charlm_model *model = make_model();
    struct order order = {.stop = -1}, cut = {.stop = 3};
    struct charlm_blas blas;
    char error[CHARLM_ERROR_MAX];
    float sum = 0.0f;

    plan(CHARLM_NPARAMS + 5);
    charlm_choose_blas(&blas, NULL);
    if (model == NULL || charlm_load_blas(&blas, error) != 0)
        return done_testing();
    mean_loss(model);
    for (int i = 0; i < shape.vocab; i++)
        sum += model->output[i];
    ok(fabsf(sum - 1.0f) < 1e-5f, "the probabilities of a row add up to one");
    ok(model->hidden1[0] > 0.5f && model->hidden1[1] == 0.0f &&
            model->hidden2[0] > 0.5f && model->hidden2[1] == 0.0f,
        "the probed units are away from their kink, on both sides");
    ok(charlm_backward(model, note, &order) == 0, "backward succeeds");
    ok(comes_from_last_to_first(&order),
        "gradients come from the last layer to the first");
    for (int p = 0; p < CHARLM_NPARAMS; p++)
        ok(gradient_is_right(model, p),
            "the gradient of %s is the slope of the loss",
            model->params[p].name);
    mean_loss(model);
    ok(charlm_backward(model, note, &cut) == -7 && cut.count == 3,
        "a failure to pass a gradient on ends the backward");
    charlm_free_model(model);
    return done_testing();
}
