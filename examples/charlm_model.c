/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The network: each of the bytes before a position is looked up in a table of
 * embeddings; two hidden layers of rectified units follow, and a softmax over
 * the bytes that occur.  The backward pass is written by hand, the last layer
 * first, and reports each gradient as soon as it is complete.
 *
 * The matrices are stored by rows.  A product has the same sizes whatever the
 * number of ranks, so its bits are the same too.
 */
#include "charlm.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
    EMBEDDING,
    WEIGHT1,
    BIAS1,
    WEIGHT2,
    BIAS2,
    WEIGHT3,
    BIAS3
};

uint64_t charlm_mix(uint64_t value)
{
    /* The output function of SplitMix64 (Steele, Lea and Flood, 2014). */
    value += UINT64_C(0x9e3779b97f4a7c15);
    value = (value ^ value >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    value = (value ^ value >> 27) * UINT64_C(0x94d049bb133111eb);
    return value ^ value >> 31;
}

/* Returns a number from -1 to 1. */
static double draw_uniform(uint64_t seed, uint64_t number)
{
    uint64_t bits = charlm_mix(charlm_mix(seed) ^ number) >> 11;

    return (double)bits * 0x1p-52 - 1.0;
}

static void name_params(struct charlm_model *model)
{
    const struct charlm_shape *s = &model->shape;
    const struct charlm_param params[CHARLM_NPARAMS] = {
        {.name = "embedding", .ndim = 2, .shape = {s->vocab, s->embed}},
        {.name = "hidden1.weight",
            .ndim = 2,
            .shape = {(int64_t)s->context * s->embed, s->hidden1}},
        {.name = "hidden1.bias", .ndim = 1, .shape = {s->hidden1, 1}},
        {.name = "hidden2.weight",
            .ndim = 2,
            .shape = {s->hidden1, s->hidden2}},
        {.name = "hidden2.bias", .ndim = 1, .shape = {s->hidden2, 1}},
        {.name = "output.weight", .ndim = 2, .shape = {s->hidden2, s->vocab}},
        {.name = "output.bias", .ndim = 1, .shape = {s->vocab, 1}},
    };

    for (int i = 0; i < CHARLM_NPARAMS; i++) {
        model->params[i] = params[i];
        model->params[i].count =
            (size_t)(params[i].shape[0] * params[i].shape[1]);
    }
}

/* Draws uniform weights with a variance that keeps activations of rectified
 * units at the same scale (He et al., 2015); biases start at zero. */
static void draw_weights(struct charlm_model *model, uint64_t seed)
{
    for (int i = 0; i < CHARLM_NPARAMS; i++) {
        struct charlm_param *param = &model->params[i];
        double bound = sqrt(6.0 / (double)param->shape[0]);

        if (param->ndim == 1)
            continue;
        if (i == EMBEDDING)
            bound = 1.0;
        else if (i == WEIGHT3)
            bound *= 0.1; /* starts near the uniform distribution */
        for (size_t j = 0; j < param->count; j++)
            param->value[j] =
                (float)(bound * draw_uniform(seed + (uint64_t)i, (uint64_t)j));
    }
}

/* Takes the next count floats of the model's memory, aligned to a cache
 * line. */
static float *take(float **cursor, size_t count)
{
    float *taken = *cursor;

    if (taken != NULL)
        *cursor += (count + 15) / 16 * 16;
    return taken;
}

static size_t padded(size_t count)
{
    return (count + 15) / 16 * 16;
}

static void lay_out(struct charlm_model *model, float *cursor)
{
    const struct charlm_shape *s = &model->shape;
    size_t batch = (size_t)s->batch;

    for (int i = 0; i < CHARLM_NPARAMS; i++) {
        model->params[i].value = take(&cursor, model->params[i].count);
        model->params[i].grad = take(&cursor, model->params[i].count);
    }
    model->input = take(&cursor, batch * (size_t)(s->context * s->embed));
    model->d_input = take(&cursor, batch * (size_t)(s->context * s->embed));
    model->hidden1 = take(&cursor, batch * (size_t)s->hidden1);
    model->d_hidden1 = take(&cursor, batch * (size_t)s->hidden1);
    model->hidden2 = take(&cursor, batch * (size_t)s->hidden2);
    model->d_hidden2 = take(&cursor, batch * (size_t)s->hidden2);
    model->output = take(&cursor, batch * (size_t)s->vocab);
}

static size_t count_floats(const struct charlm_model *model)
{
    const struct charlm_shape *s = &model->shape;
    size_t batch = (size_t)s->batch, count = 0;

    for (int i = 0; i < CHARLM_NPARAMS; i++)
        count += 2 * padded(model->params[i].count);
    count += 2 * padded(batch * (size_t)(s->context * s->embed));
    count += 2 * padded(batch * (size_t)s->hidden1);
    count += 2 * padded(batch * (size_t)s->hidden2);
    return count + padded(batch * (size_t)s->vocab);
}

struct charlm_model *charlm_create_model(
    const struct charlm_shape *shape, uint64_t seed)
{
    struct charlm_model *model = calloc(1, sizeof(*model));
    size_t nbytes;

    if (model == NULL)
        return NULL;
    model->shape = *shape;
    name_params(model);
    nbytes = count_floats(model) * sizeof(float);
    model->memory = aligned_alloc(64, nbytes);
    model->symbols = calloc((size_t)shape->batch, (size_t)shape->context + 1);
    if (model->memory == NULL || model->symbols == NULL) {
        charlm_free_model(model);
        return NULL;
    }
    memset(model->memory, 0, nbytes);
    lay_out(model, model->memory);
    draw_weights(model, seed);
    return model;
}

void charlm_free_model(struct charlm_model *model)
{
    if (model == NULL)
        return;
    free(model->symbols);
    free(model->memory);
    free(model);
}

size_t charlm_count_params(const struct charlm_model *model)
{
    size_t count = 0;

    for (int i = 0; i < CHARLM_NPARAMS; i++)
        count += model->params[i].count;
    return count;
}

void charlm_set_row(struct charlm_model *model, int row,
    const unsigned char *symbols, uint32_t position)
{
    size_t context = (size_t)model->shape.context;

    memcpy(model->symbols + (size_t)row * (context + 1),
        symbols + position - context, context + 1);
}

/* Computes out = in * weight + bias; `rectify` sets negative values to 0. */
static void apply_layer(const struct charlm_param *weight,
    const struct charlm_param *bias, const float *in, float *out, int rows,
    bool rectify)
{
    int ninputs = (int)weight->shape[0], noutputs = (int)weight->shape[1];

    charlm_sgemm(SYMC_BLAS_ROW_MAJOR, SYMC_BLAS_NO_TRANS, SYMC_BLAS_NO_TRANS,
        rows, noutputs, ninputs, 1.0f, in, ninputs, weight->value, noutputs,
        0.0f, out, noutputs);
    for (int r = 0; r < rows; r++) {
        float *row = out + (size_t)r * (size_t)noutputs;

        for (int i = 0; i < noutputs; i++)
            row[i] += bias->value[i];
        for (int i = 0; rectify && i < noutputs; i++)
            row[i] = row[i] > 0.0f ? row[i] : 0.0f;
    }
}

/* Turns one row of scores into probabilities.  Returns the loss of the
 * target. */
static double apply_softmax(float *row, int vocab, int target)
{
    float largest = row[0], sum = 0.0f;

    for (int i = 1; i < vocab; i++)
        largest = row[i] > largest ? row[i] : largest;
    double score = (double)row[target] - (double)largest;
    for (int i = 0; i < vocab; i++) {
        row[i] = expf(row[i] - largest);
        sum += row[i];
    }
    for (int i = 0; i < vocab; i++)
        row[i] /= sum;
    /* The largest score alone contributes 1 to the sum. */
    return log(fmax((double)sum, 1.0)) - score;
}

/* Waits until parameters can be read.  Returns -1 if that fails. */
static int need(const struct charlm_model *model, int first, int last)
{
    for (int p = first; p <= last; p++)
        if (model->need != NULL && model->need(model->need_arg, p) != 0)
            return -1;
    return 0;
}

double charlm_forward(struct charlm_model *model, int rows)
{
    const struct charlm_shape *s = &model->shape;
    const struct charlm_param *params = model->params;
    size_t embed = (size_t)s->embed, context = (size_t)s->context;
    double loss = 0.0;

    if (need(model, EMBEDDING, EMBEDDING) != 0)
        return NAN;
    for (size_t r = 0; r < (size_t)rows; r++) {
        const unsigned char *symbols = model->symbols + r * (context + 1);

        for (size_t i = 0; i < context; i++)
            memcpy(model->input + (r * context + i) * embed,
                params[EMBEDDING].value + symbols[i] * embed,
                embed * sizeof(float));
    }
    if (need(model, WEIGHT1, BIAS1) != 0)
        return NAN;
    apply_layer(&params[WEIGHT1], &params[BIAS1], model->input, model->hidden1,
        rows, true);
    if (need(model, WEIGHT2, BIAS2) != 0)
        return NAN;
    apply_layer(&params[WEIGHT2], &params[BIAS2], model->hidden1,
        model->hidden2, rows, true);
    if (need(model, WEIGHT3, BIAS3) != 0)
        return NAN;
    apply_layer(&params[WEIGHT3], &params[BIAS3], model->hidden2, model->output,
        rows, false);
    for (int r = 0; r < rows; r++)
        loss += apply_softmax(model->output + (size_t)r * (size_t)s->vocab,
            s->vocab, model->symbols[(size_t)(r + 1) * (context + 1) - 1]);
    return loss;
}

/*
 * Computes the gradients of one layer from the gradient of its output and
 * reports each at once; then the gradient of its input, while the reported ones
 * may already be in flight to the other ranks.
 */
static int reverse_layer(struct charlm_model *model, int weight_number,
    const float *in, const float *d_out, float *d_in, charlm_param_fn ready,
    void *arg)
{
    struct charlm_param *weight = &model->params[weight_number];
    struct charlm_param *bias = &model->params[weight_number + 1];
    int ninputs = (int)weight->shape[0], noutputs = (int)weight->shape[1];
    int rows = model->shape.batch, status;

    memset(bias->grad, 0, bias->count * sizeof(float));
    for (int r = 0; r < rows; r++)
        for (int i = 0; i < noutputs; i++)
            bias->grad[i] += d_out[(size_t)r * (size_t)noutputs + (size_t)i];
    if ((status = ready(arg, weight_number + 1)) != 0)
        return status;
    charlm_sgemm(SYMC_BLAS_ROW_MAJOR, SYMC_BLAS_TRANS, SYMC_BLAS_NO_TRANS,
        ninputs, noutputs, rows, 1.0f, in, ninputs, d_out, noutputs, 0.0f,
        weight->grad, noutputs);
    if ((status = ready(arg, weight_number)) != 0)
        return status;
    charlm_sgemm(SYMC_BLAS_ROW_MAJOR, SYMC_BLAS_NO_TRANS, SYMC_BLAS_TRANS, rows,
        ninputs, noutputs, 1.0f, d_out, noutputs, weight->value, noutputs, 0.0f,
        d_in, ninputs);
    return 0;
}

/* Stops the gradient at units that were set to 0. */
static void reverse_rectifier(const float *out, float *d_out, size_t count)
{
    for (size_t i = 0; i < count; i++)
        d_out[i] = out[i] > 0.0f ? d_out[i] : 0.0f;
}

/* Computes the gradient of the mean loss by the scores: the probabilities, less
 * one at the target. */
static void reverse_softmax(struct charlm_model *model)
{
    const struct charlm_shape *s = &model->shape;
    float scale = 1.0f / (float)s->batch;

    for (size_t r = 0; r < (size_t)s->batch; r++) {
        float *row = model->output + r * (size_t)s->vocab;

        row[model->symbols[(r + 1) * ((size_t)s->context + 1) - 1]] -= 1.0f;
        for (int i = 0; i < s->vocab; i++)
            row[i] *= scale;
    }
}

static void reverse_embedding(struct charlm_model *model)
{
    struct charlm_param *table = &model->params[EMBEDDING];
    size_t embed = (size_t)model->shape.embed;
    size_t context = (size_t)model->shape.context;
    const float *d_input = model->d_input;

    memset(table->grad, 0, table->count * sizeof(float));
    for (size_t r = 0; r < (size_t)model->shape.batch; r++) {
        const unsigned char *symbols = model->symbols + r * (context + 1);

        for (size_t i = 0; i < context; i++, d_input += embed)
            for (size_t j = 0; j < embed; j++)
                table->grad[symbols[i] * embed + j] += d_input[j];
    }
}

int charlm_backward(
    struct charlm_model *model, charlm_param_fn ready, void *arg)
{
    const struct charlm_shape *s = &model->shape;
    size_t batch = (size_t)s->batch;
    int status;

    reverse_softmax(model);
    status = reverse_layer(model, WEIGHT3, model->hidden2, model->output,
        model->d_hidden2, ready, arg);
    if (status != 0)
        return status;
    reverse_rectifier(
        model->hidden2, model->d_hidden2, batch * (size_t)s->hidden2);
    status = reverse_layer(model, WEIGHT2, model->hidden1, model->d_hidden2,
        model->d_hidden1, ready, arg);
    if (status != 0)
        return status;
    reverse_rectifier(
        model->hidden1, model->d_hidden1, batch * (size_t)s->hidden1);
    status = reverse_layer(model, WEIGHT1, model->input, model->d_hidden1,
        model->d_input, ready, arg);
    if (status != 0)
        return status;
    reverse_embedding(model);
    return ready(arg, EMBEDDING);
}

double charlm_mean_loss(struct charlm_model *model,
    const struct charlm_text *text, const struct charlm_set *set)
{
    size_t batch = (size_t)model->shape.batch;
    double loss = 0.0;

    for (size_t first = 0; first < set->count; first += batch) {
        size_t rows = set->count - first < batch ? set->count - first : batch;

        for (size_t r = 0; r < rows; r++)
            charlm_set_row(
                model, (int)r, text->symbols, set->positions[first + r]);
        loss += charlm_forward(model, (int)rows);
    }
    return set->count > 0 ? loss / (double)set->count : 0.0;
}

/* Draws a symbol in proportion to the sharpened probabilities, with random
 * bits. */
static int draw_symbol(const float *probabilities, int vocab, uint64_t bits)
{
    const double sharpness = 1.0 / 0.7;
    double sum = 0.0, share;

    for (int i = 0; i < vocab; i++)
        sum += pow((double)probabilities[i], sharpness);
    share = sum * (double)(bits >> 11) * 0x1p-53;
    for (int i = 0; i < vocab - 1; i++) {
        share -= pow((double)probabilities[i], sharpness);
        if (share < 0.0)
            return i;
    }
    return vocab - 1;
}

void charlm_generate(struct charlm_model *model, const struct charlm_text *text,
    uint32_t position, uint64_t seed, char *out, size_t count)
{
    size_t context = (size_t)model->shape.context;

    charlm_set_row(model, 0, text->symbols, position);
    for (size_t i = 0; i < count; i++) {
        charlm_forward(model, 1);
        int symbol = draw_symbol(model->output, model->shape.vocab,
            charlm_mix(charlm_mix(seed) ^ i));

        out[i] = (char)text->byte[symbol];
        /* The last symbol of a row is the target, which is not read. */
        memmove(model->symbols, model->symbols + 1, context - 1);
        model->symbols[context - 1] = (unsigned char)symbol;
    }
}
