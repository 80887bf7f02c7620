/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Codecs of gradients: 8 bits or 1 bit for each element, with a scale for each
 * channel, and the elements of largest magnitude.  Decoding the same bytes has the
 * same bits on all ranks.
 */
#include "ddp/element.h"
#include "ddp/hook_state.h"

#include <float.h>
#include <math.h>

/* Adds to a sum, within the range of float; a NaN remains one. */
static void add_to(float *sum, double value)
{
    *sum = (float)symc_element_limit((double)*sum + value, FLT_MAX);
}

static uint64_t count_channels(const struct symc_coding *coding)
{
    return coding->count / coding->channel +
           (coding->count % coding->channel != 0);
}

/* Returns the end of a channel. */
static uint64_t end_of(const struct symc_coding *coding, uint64_t channel)
{
    uint64_t first = channel * coding->channel;

    return coding->count - first < coding->channel ? coding->count
                                                   : first + coding->channel;
}

/* ---- 8 bits ---- */

#define LEVELS 255 /* the largest level */

/* An element is step * (level - zero); the levels of all channels follow. */
struct scale {
    float step; /* NAN: an element of the channel is not finite */
    float zero;
};

static uint64_t quantized_nbytes(const struct symc_coding *coding)
{
    return count_channels(coding) * sizeof(struct scale) + coding->count;
}

static double round_to_level(double value)
{
    double level = rint(value);

    if (level > LEVELS)
        return LEVELS;
    return level < 0.0 ? 0.0 : level;
}

/* Returns the scale of the elements from first to end, and of 0. */
static struct scale find_scale(const float *in, uint64_t first, uint64_t end)
{
    double low = 0.0, high = 0.0;
    struct scale scale = {NAN, 0.0f};

    for (uint64_t i = first; i < end; i++) {
        double value = (double)in[i];

        if (!isfinite(value))
            return scale;
        if (value < low)
            low = value;
        if (value > high)
            high = value;
    }
    scale.step = (float)((high - low) / LEVELS);
    if (scale.step > 0.0f)
        scale.zero = (float)round_to_level(-low / (double)scale.step);
    return scale;
}

static void quantize(
    const struct symc_coding *coding, const float *in, void *out)
{
    uint64_t channels = count_channels(coding);
    struct scale *scales = out;
    uint8_t *levels = (uint8_t *)(scales + channels);

    for (uint64_t c = 0; c < channels; c++) {
        uint64_t first = c * coding->channel, end = end_of(coding, c);
        struct scale scale = find_scale(in, first, end);

        scales[c] = scale;
        for (uint64_t i = first; i < end; i++)
            levels[i] = scale.step > 0.0f
                            ? (uint8_t)round_to_level(
                                  rint((double)in[i] / (double)scale.step) +
                                  (double)scale.zero)
                            : 0;
    }
}

static void add_quantized(
    const struct symc_coding *coding, const void *in, double share, float *sums)
{
    uint64_t channels = count_channels(coding);
    const struct scale *scales = in;
    const uint8_t *levels = (const uint8_t *)(scales + channels);

    for (uint64_t c = 0; c < channels; c++) {
        uint64_t end = end_of(coding, c);
        double step = share * (double)scales[c].step;

        for (uint64_t i = c * coding->channel; i < end; i++)
            add_to(&sums[i], step * (levels[i] - (double)scales[c].zero));
    }
}

/* As torch.distributed's quantization_hooks: one channel, or channels of 512. */
const struct symc_codec symc_codec_quantize_tensor = {
    .nbytes = quantized_nbytes, .encode = quantize, .add = add_quantized};
const struct symc_codec symc_codec_quantize_channel = {.channel = 512,
    .nbytes = quantized_nbytes,
    .encode = quantize,
    .add = add_quantized};

/* ---- 1 bit ---- */

/* Scales are floats; the bits of all channels follow: 1 for a negative element. */
static uint64_t one_bit_nbytes(const struct symc_coding *coding)
{
    return count_channels(coding) * sizeof(float) + (coding->count + 7) / 8;
}

/* Computes the mean magnitude of each channel, and the signs. */
static void encode_signs(
    const struct symc_coding *coding, const float *in, void *out)
{
    uint64_t channels = count_channels(coding);
    float *scales = out;
    uint8_t *bits = (uint8_t *)(scales + channels);

    memset(bits, 0, (coding->count + 7) / 8);
    for (uint64_t c = 0; c < channels; c++) {
        uint64_t first = c * coding->channel, end = end_of(coding, c);
        double sum = 0.0;

        for (uint64_t i = first; i < end; i++) {
            sum += fabs((double)in[i]);
            if (in[i] < 0.0f)
                bits[i / 8] |= (uint8_t)(1U << i % 8);
        }
        scales[c] = (float)(sum / (double)(end - first));
    }
}

static void add_signs(
    const struct symc_coding *coding, const void *in, double share, float *sums)
{
    uint64_t channels = count_channels(coding);
    const float *scales = in;
    const uint8_t *bits = (const uint8_t *)(scales + channels);

    for (uint64_t c = 0; c < channels; c++) {
        uint64_t end = end_of(coding, c);
        double scale = share * (double)scales[c];

        for (uint64_t i = c * coding->channel; i < end; i++)
            add_to(&sums[i], (bits[i / 8] >> i % 8 & 1) != 0 ? -scale : scale);
    }
}

/* EF-SGD with signs (Karimireddy, Rebjock, Stich and Jaggi, 2019). */
const struct symc_codec symc_codec_one_bit = {.channel = 512,
    .feedback = true,
    .nbytes = one_bit_nbytes,
    .encode = encode_signs,
    .add = add_signs};

/* ---- the largest elements ---- */

/* Indices are uint32_t; the elements follow. */
static uint64_t top_k_nbytes(const struct symc_coding *coding)
{
    return coding->kept * (sizeof(uint32_t) + sizeof(float));
}

/* Returns the bits of a magnitude, which have the order of magnitudes; those of a
 * NaN are the largest. */
static uint32_t magnitude(float value)
{
    uint32_t bits;

    memcpy(&bits, &value, sizeof(bits));
    return bits & UINT32_C(0x7fffffff);
}

/* Returns the least magnitude of the elements that are kept. */
static uint32_t find_least(const struct symc_coding *coding, const float *in)
{
    uint32_t least = 0;

    for (int bit = 30; bit >= 0; bit--) {
        uint32_t tried = least | UINT32_C(1) << bit;
        uint64_t n = 0;

        for (uint64_t i = 0; i < coding->count; i++)
            n += magnitude(in[i]) >= tried;
        if (n >= coding->kept)
            least = tried;
    }
    return least;
}

static void encode_largest(
    const struct symc_coding *coding, const float *in, void *out)
{
    uint32_t *indices = out, least = find_least(coding, in);
    float *values = (void *)(indices + coding->kept);
    uint64_t n = 0;

    /* Of equal elements that do not all fit, the first are kept. */
    for (int equal = 0; equal < 2; equal++)
        for (uint64_t i = 0; i < coding->count && n < coding->kept; i++) {
            uint32_t found = magnitude(in[i]);

            if (equal ? found != least : found <= least)
                continue;
            indices[n] = (uint32_t)i;
            values[n++] = in[i];
        }
}

static void add_largest(
    const struct symc_coding *coding, const void *in, double share, float *sums)
{
    const uint32_t *indices = in;
    const float *values = (const void *)(indices + coding->kept);

    for (uint64_t k = 0; k < coding->kept; k++)
        if (indices[k] < coding->count)
            add_to(&sums[indices[k]], share * (double)values[k]);
}

const struct symc_codec symc_codec_top_k = {.feedback = true,
    .nbytes = top_k_nbytes,
    .encode = encode_largest,
    .add = add_largest};
