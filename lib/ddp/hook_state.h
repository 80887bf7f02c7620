/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The states of built-in hooks.  One table (hook_kinds.c) has all kinds of hooks:
 * the functions, the options that each takes, and how it encodes gradients.
 */
#ifndef SYMC_DDP_HOOK_STATE_H
#define SYMC_DDP_HOOK_STATE_H

#include "ddp/reducer.h"

#include <string.h>

/* ---- codecs.c ---- */

/* How gradients are encoded as bytes. */
struct symc_coding {
    uint64_t count; /* elements */
    uint64_t
        channel;   /* elements with a scale of their own, or fewer at the end */
    uint64_t kept; /* elements that are sent, where not all are */
};

/* A way to encode gradients. */
struct symc_codec {
    uint64_t channel; /* of a coding; 0: all elements are one channel */
    bool feedback;    /* what is lost is added to the next gradients */
    /* Returns the bytes of encoded elements. */
    uint64_t (*nbytes)(const struct symc_coding *coding);
    /* Encodes elements.  One that is NAN is so, or its channel is, when decoded. */
    void (*encode)(
        const struct symc_coding *coding, const float *in, void *out);
    /* Adds share times the decoded elements. */
    void (*add)(const struct symc_coding *coding, const void *in, double share,
        float *sums);
};

extern const struct symc_codec symc_codec_quantize_tensor,
    symc_codec_quantize_channel, symc_codec_top_k, symc_codec_one_bit;

/* ---- hook_kinds.c ---- */

/* The members of struct symmcoll_hook_args that not every hook takes. */
enum symc_hook_option {
    SYMC_HOOK_START,
    SYMC_HOOK_SUBGROUP,
    SYMC_HOOK_NO_LOCAL_AVERAGE,
    SYMC_HOOK_RATIO,
    SYMC_HOOK_STEP,
    SYMC_HOOK_INNER,
    SYMC_HOOK_POWERSGD,
    SYMC_HOOK_OPTIONS
};

/* A built-in hook. */
struct symc_hook_kind {
    const char *name;
    unsigned options; /* those it takes: 1 << enum symc_hook_option */
    int start;        /* the default of args.start */
    bool packs;       /* reduces float32 buckets in 16 bits */
    /* hook and hook_end of a reducer; arg: the struct symmcoll_hook */
    symmcoll_bucket_fn run;
    symmcoll_bucket_fn end;         /* NULL: none */
    const struct symc_codec *codec; /* NULL: none */
};

extern const struct symc_hook_kind
    symc_hook_kinds[]; /* ends with a name NULL */

/* ---- hook_encoded.c ---- */

/* The state of a bucket whose gradients are encoded. */
struct symc_encoded {
    int *params; /* ngrads numbers: of which gradients the errors are */
    uint64_t ngrads;
    struct symc_coding coding;
    float *errors; /* what was lost; NULL: without feedback */
    float *sums;
    char *encoded;   /* nbytes of each of nranks ranks */
    uint64_t nbytes; /* a multiple of 8 */
    int nranks;
    bool in_flight; /* a pass has not ended, or has failed */
};

/* The hooks that encode gradients, send them to all ranks, and decode and average
 * them at the end of that. */
symmcoll_status_t symc_encoded_run(struct symmcoll_group *group,
    const struct symmcoll_bucket *bucket, void *arg,
    struct symmcoll_work **work);
symmcoll_status_t symc_encoded_end(struct symmcoll_group *group,
    const struct symmcoll_bucket *bucket, void *arg,
    struct symmcoll_work **work);

/* Allocates what lives from pass to pass, for ngrads and coding.count.  Errors:
 * NO_MEMORY. */
symmcoll_status_t symc_encoded_alloc(
    struct symc_encoded *encoded, bool feedback);
void symc_encoded_free(struct symc_encoded *encoded);

/* Returns the state of a bucket, which is new if there was none; NULL: no
 * memory. */
struct symc_encoded *symc_hook_bucket(struct symmcoll_hook *hook, int index);

/* ---- hook_create.c ---- */

struct symmcoll_hook {
    const struct symc_hook_kind *kind;
    struct symmcoll_hook_args args; /* with defaults filled in; name and inner
                                       are not kept */
    struct symmcoll_hook_wrapped inner; /* hook NULL: none */
    struct symmcoll_powersgd *powersgd; /* NULL: another hook */
    struct symc_hook_pass pass;
    uint64_t passes; /* synchronising passes begun */
    struct symc_encoded *buckets;
    int nbuckets;
    int nended; /* buckets of this pass whose gradients were passed to step */
    struct symc_error failure; /* the first of args.step in this pass, or OK */
};

/* Compares a hook over the ranks, as symc_hook_agree(). */
symmcoll_status_t symc_hook_compare(const char *where,
    struct symmcoll_group *group, const struct symmcoll_hook *hook,
    symmcoll_status_t own);

/* ---- hook_agree.c ---- */

#define SYMC_HOOK_TERMS 10 /* most values that ranks compare */

/* Compares n values with those of rank 0, whose names are in the detail of an
 * error; own: the status of this rank, without which values is not read.
 * Collective: an error on one rank is returned on every rank. */
symmcoll_status_t symc_hook_agree(const char *where,
    struct symmcoll_group *group, const char *const *names,
    const double *values, int n, symmcoll_status_t own);

/* Checks that a bucket is in host memory and of float32, float16 or bfloat16.
 * Errors: UNSUPPORTED. */
symmcoll_status_t symc_hook_check_floats(
    const char *where, const struct symmcoll_bucket *bucket);

/* ---- saved states ---- */

/* Copies bytes to at, and returns their end. */
static inline char *symc_saved_put(char *at, const void *from, size_t nbytes)
{
    if (nbytes > 0)
        memcpy(at, from, nbytes);
    return at + nbytes;
}

/* The bytes of a saved state that have not been read. */
struct symc_saved {
    const char *at;
    size_t nbytes;
};

/* Copies the next count elements; returns whether there were as many. */
static inline bool symc_saved_take(
    struct symc_saved *saved, void *to, uint64_t count, size_t size)
{
    if (count > saved->nbytes / size)
        return false;
    if (count > 0)
        memcpy(to, saved->at, count * size);
    saved->at += count * size;
    saved->nbytes -= count * size;
    return true;
}

#endif
