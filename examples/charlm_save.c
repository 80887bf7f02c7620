/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The parameters as bytes: written to a file, or hashed by SHA-256 (FIPS
 * 180-4), so that ranks can compare them.
 */
#include "charlm.h"

#include <string.h>

/* ---- SHA-256 ---- */

struct sha256 {
    uint32_t state[8];
    unsigned char block[64];
    uint64_t nbytes; /* bytes added until now */
};

/* The fractional parts of the cube roots of the first 64 primes. */
static const uint32_t round_constants[64] = {0x428a2f98, 0x71374491, 0xb5c0fbcf,
    0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5, 0xd807aa98,
    0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7,
    0xc19bf174, 0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f,
    0x4a7484aa, 0x5cb0a9dc, 0x76f988da, 0x983e5152, 0xa831c66d, 0xb00327c8,
    0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967, 0x27b70a85,
    0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e,
    0x92722c85, 0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819,
    0xd6990624, 0xf40e3585, 0x106aa070, 0x19a4c116, 0x1e376c08, 0x2748774c,
    0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3, 0x748f82ee,
    0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7,
    0xc67178f2};

static uint32_t rotate(uint32_t x, int n)
{
    return x >> n | x << (32 - n);
}

static void mix_block(uint32_t state[8], const unsigned char block[64])
{
    uint32_t w[64], s[8];

    for (int i = 0; i < 16; i++)
        w[i] = (uint32_t)block[4 * i] << 24 | (uint32_t)block[4 * i + 1] << 16 |
               (uint32_t)block[4 * i + 2] << 8 | block[4 * i + 3];
    for (int i = 16; i < 64; i++) {
        uint32_t a = w[i - 15], b = w[i - 2];

        w[i] = w[i - 16] + (rotate(a, 7) ^ rotate(a, 18) ^ a >> 3) + w[i - 7] +
               (rotate(b, 17) ^ rotate(b, 19) ^ b >> 10);
    }
    memcpy(s, state, sizeof(s));
    for (int i = 0; i < 64; i++) {
        uint32_t a = s[0], e = s[4];
        uint32_t t1 = s[7] + (rotate(e, 6) ^ rotate(e, 11) ^ rotate(e, 25)) +
                      ((e & s[5]) ^ (~e & s[6])) + round_constants[i] + w[i];
        uint32_t t2 = (rotate(a, 2) ^ rotate(a, 13) ^ rotate(a, 22)) +
                      ((a & s[1]) ^ (a & s[2]) ^ (s[1] & s[2]));

        memmove(s + 1, s, 7 * sizeof(*s));
        s[4] += t1;
        s[0] = t1 + t2;
    }
    for (int i = 0; i < 8; i++)
        state[i] += s[i];
}

static void begin_sha256(struct sha256 *sha)
{
    /* The fractional parts of the square roots of the first 8 primes. */
    *sha = (struct sha256){
        .state = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a, 0x510e527f,
            0x9b05688c, 0x1f83d9ab, 0x5be0cd19}};
}

static void add_sha256(struct sha256 *sha, const void *data, size_t nbytes)
{
    const unsigned char *bytes = data;

    while (nbytes > 0) {
        size_t used = sha->nbytes % 64, part = 64 - used;

        part = part < nbytes ? part : nbytes;
        memcpy(sha->block + used, bytes, part);
        sha->nbytes += part;
        bytes += part;
        nbytes -= part;
        if (sha->nbytes % 64 == 0)
            mix_block(sha->state, sha->block);
    }
}

static void end_sha256(struct sha256 *sha, unsigned char digest[CHARLM_DIGEST])
{
    static const unsigned char padding[64] = {0x80};
    uint64_t nbits = sha->nbytes * 8;
    size_t used = sha->nbytes % 64;
    unsigned char length[8];

    for (int i = 0; i < 8; i++)
        length[i] = (unsigned char)(nbits >> (56 - 8 * i));
    add_sha256(sha, padding, used < 56 ? 56 - used : 120 - used);
    add_sha256(sha, length, sizeof(length));
    for (int i = 0; i < CHARLM_DIGEST; i++)
        digest[i] = (unsigned char)(sha->state[i / 4] >> (24 - 8 * (i % 4)));
}

/* ---- the file ---- */

#define HEAD_MAX 1024

static int format_head(const struct charlm_model *model, char head[HEAD_MAX])
{
    int used = snprintf(head, HEAD_MAX, "charlm 1\n");

    for (int i = 0; i < CHARLM_NPARAMS; i++) {
        const struct charlm_param *param = &model->params[i];

        used += snprintf(head + used, (size_t)(HEAD_MAX - used), "%s %lld",
            param->name, (long long)param->shape[0]);
        if (param->ndim == 2)
            used += snprintf(head + used, (size_t)(HEAD_MAX - used), " %lld",
                (long long)param->shape[1]);
        used += snprintf(head + used, (size_t)(HEAD_MAX - used), "\n");
    }
    return used + snprintf(head + used, (size_t)(HEAD_MAX - used), "\n");
}

void charlm_digest(
    const struct charlm_model *model, unsigned char digest[CHARLM_DIGEST])
{
    char head[HEAD_MAX];
    size_t head_nbytes = (size_t)format_head(model, head);
    struct sha256 sha;

    begin_sha256(&sha);
    add_sha256(&sha, head, head_nbytes);
    for (int i = 0; i < CHARLM_NPARAMS; i++)
        add_sha256(&sha, model->params[i].value,
            model->params[i].count * sizeof(float));
    end_sha256(&sha, digest);
}

int charlm_save(const struct charlm_output *output,
    const struct charlm_model *model, char *error)
{
    char head[HEAD_MAX];
    size_t head_nbytes = (size_t)format_head(model, head);
    int status = charlm_truncate_output(output, error);

    if (status == 0)
        status = charlm_write_output(output, head, head_nbytes, error);
    for (int i = 0; status == 0 && i < CHARLM_NPARAMS; i++)
        status = charlm_write_output(output, model->params[i].value,
            model->params[i].count * sizeof(float), error);
    return status;
}
