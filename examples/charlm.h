/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The parts of train_charlm, a character-level language model trained with data
 * parallelism.  The library is used in charlm_train.c and train_charlm.c.
 *
 *   charlm_options.c  the command line
 *   charlm_text.c     reading texts
 *   charlm_count.c    the n-gram tables that the network is compared with
 *   charlm_model.c    the network
 *   charlm_adam.c     the optimizer
 *   charlm_train.c    the training loop
 *   charlm_report.c   progress and summary
 *   charlm_plot.c     the loss curve
 *   charlm_save.c     parameters as a file, and their digest
 *   charlm_output.c   files that are opened early and written late
 *   charlm_blas.c     the BLAS: chosen by blas_choice.c and loaded
 *
 * Functions that can fail because of the user's input return 0, or -1 with one
 * line in the caller's error buffer of CHARLM_ERROR_MAX bytes.
 */
#ifndef CHARLM_H
#define CHARLM_H

/* Every file includes this first: dladdr() and others are beyond ISO C. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "blas_choice.h"

struct symmcoll_group;

#define CHARLM_ERROR_MAX 512

/* ---- charlm_options.c ---- */

/* Write a line of error, cut where it does not fit, and return -1. */
int charlm_fail(char *error, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

struct charlm_options {
    const char *const *texts; /* ntexts paths; none: the licences */
    int ntexts;
    const char *plot; /* where the loss curve goes, or NULL */
    const char *save; /* where the parameters go, or NULL */
    int steps;
    int batch;      /* characters of one micro-batch */
    int accumulate; /* micro-batches of one rank and step */
    int threads;    /* ranks as threads of this process; 0: the launcher's */
    uint64_t seed;
    double learning_rate;
    bool blas;            /* only say which BLAS computes */
    const char *use_blas; /* by hand, or NULL */
};

/* Read the command line; what it points to is argv's, which may be changed.  1:
 * help is wanted. */
int charlm_parse_options(
    int argc, char **argv, struct charlm_options *options, char *error);
void charlm_print_help(void);

/* ---- charlm_text.c ---- */

/* Positions of the text whose byte is to be predicted from those before it. */
struct charlm_set {
    uint32_t *positions;
    size_t count;
};

struct charlm_text {
    unsigned char *symbols; /* length symbols, each below vocab */
    size_t length;
    int vocab;               /* how many different bytes occur */
    unsigned char byte[256]; /* of a symbol */
    int nfiles;
    struct charlm_set train;
    struct charlm_set blocks;  /* held out: every tenth kilobyte */
    struct charlm_set licence; /* held out: the whole of MPL-2.0, or nothing */
};

/*
 * Read the texts; without any, each regular file of the directory of licences
 * in the order of names.  A position of the training set has context bytes
 * before it that are not held out.
 */
int charlm_read_text(const char *const *paths, int npaths, int context,
    struct charlm_text *text, char *error);
void charlm_free_text(struct charlm_text *text);

/* ---- charlm_count.c ---- */

/*
 * The mean losses, in nats per character, of a table of byte counts by the
 * order bytes before: counted on the training set, tested on both held-out
 * sets.  A sequence not seen backs off to shorter ones (Witten and Bell,
 * 1991).  -1 without memory.
 */
int charlm_count_losses(const struct charlm_text *text, int order,
    double *blocks_loss, double *licence_loss);

/* ---- charlm_model.c ---- */

#define CHARLM_NPARAMS 7

struct charlm_shape {
    int vocab;
    int context; /* bytes that the model sees */
    int embed;   /* numbers that stand for one byte */
    int hidden1;
    int hidden2;
    int batch;
};

/* One array of parameters, and the gradient of the latest backward. */
struct charlm_param {
    const char *name;
    float *value;
    float *grad;
    size_t count;
    int ndim;
    int64_t shape[2];
};

struct charlm_model {
    struct charlm_shape shape;
    struct charlm_param params[CHARLM_NPARAMS]; /* in the order of forward */
    float *memory;                              /* all arrays of floats */
    float *input;                               /* batch x context * embed */
    float *hidden1;                             /* batch x hidden1 */
    float *hidden2;                             /* batch x hidden2 */
    float *output; /* batch x vocab: probabilities, then their gradient */
    float *d_hidden1;
    float *d_hidden2;
    float *d_input;
    unsigned char *symbols; /* batch x context + 1: what each row sees, and
                               what follows */
};

/* Called for each gradient as it is complete; not 0 ends the backward. */
typedef int (*charlm_ready_fn)(void *arg, int param);

/* Random weights from a seed, or NULL without memory. */
struct charlm_model *charlm_create_model(
    const struct charlm_shape *shape, uint64_t seed);
void charlm_free_model(struct charlm_model *model);
size_t charlm_count_params(const struct charlm_model *model);

/* Fill one row of the batch from the text before a position. */
void charlm_set_row(struct charlm_model *model, int row,
    const unsigned char *symbols, uint32_t position);

/* The sum of the losses of the first rows of the batch, in nats. */
double charlm_forward(struct charlm_model *model, int rows);

/* The gradients of the batch's mean loss, from the last layer to the first;
 * after charlm_forward() of all its rows.  Returns what ready returned. */
int charlm_backward(
    struct charlm_model *model, charlm_ready_fn ready, void *arg);

/* The mean loss over a set, in nats a character; 0 for an empty one. */
double charlm_mean_loss(struct charlm_model *model,
    const struct charlm_text *text, const struct charlm_set *set);

/* Continue a text by count bytes drawn at a temperature below 1. */
void charlm_generate(struct charlm_model *model, const struct charlm_text *text,
    uint32_t position, uint64_t seed, char *out, size_t count);

/* A hash of a number: the only random source here, so that each draw is a
 * function of what it is for, the same on every rank. */
uint64_t charlm_mix(uint64_t value);

/* ---- charlm_adam.c ---- */

/* Adam (Kingma and Ba, 2015): both moments of every parameter. */
struct charlm_adam {
    float *mean[CHARLM_NPARAMS];
    float *square[CHARLM_NPARAMS];
    int step;
};

/* -1 without memory. */
int charlm_create_adam(
    struct charlm_adam *adam, const struct charlm_model *model);
void charlm_free_adam(struct charlm_adam *adam);

/* One step with these gradients, in the order of the parameters. */
void charlm_step_adam(struct charlm_adam *adam, struct charlm_model *model,
    const float *const *grads, double learning_rate);

/* ---- charlm_train.c ---- */

/* The loss while training: the mean over interval steps at a time. */
struct charlm_curve {
    float *losses;
    int count;
    int interval;
};

/* What a run of training has taken, as one rank saw it. */
struct charlm_cost {
    double seconds;
    double comm;    /* seconds from a first bucket's start to the last's end */
    double exposed; /* of these, seconds in which nothing was computed */
    double characters; /* of all ranks */
};

/*
 * Train for options->steps steps, together with the other ranks of the group.
 * Step s of seed x learns from the micro-batches 0 to size * accumulate - 1,
 * whose rows follow from (x, s, number); rank r takes those from r * accumulate
 * on.  Rank 0 shows how it goes.
 *
 * curve  out: release losses with free(), after a failure too
 */
int charlm_train(struct symmcoll_group *group,
    const struct charlm_options *options, const struct charlm_text *text,
    struct charlm_model *model, struct charlm_curve *curve,
    struct charlm_cost *cost, char *error);

/* ---- charlm_blas.c ---- */

struct charlm_blas {
    const char *wanted;  /* "LIBRARY:KERNELS", by hand; NULL: the candidate */
    int candidate;       /* see blas_choice.h */
    double rate;         /* 1e9 operations per second; 0: not measured */
    char name[128];      /* "OpenBLAS 0.3.21, kernels for Zen" */
    char path[512];      /* of the library that is loaded */
    char rejected[1024]; /* the others that are installed, with their rates */
    bool slow;           /* the reference implementation */
};

/* cblas_sgemm() of the library that is loaded. */
extern symc_sgemm_fn charlm_sgemm;

/* Choose the fastest BLAS that is installed, in some 50 ms; at once if one is
 * wanted (NULL: none). */
void charlm_choose_blas(struct charlm_blas *blas, const char *wanted);

/* Load the one that is wanted or the candidate that this or another rank has chosen, and fill in its name
 * and path. */
int charlm_load_blas(struct charlm_blas *blas, char *error);

/* Warn on standard error if it is the slow reference BLAS. */
void charlm_warn_blas(const struct charlm_blas *blas);

/* ---- charlm_report.c ---- */

/* One line that is rewritten in place on a terminal; elsewhere a few of them.
 */
struct charlm_progress {
    bool terminal;
    double begun;
    double shown;
    int tenths; /* of the steps, when it was shown */
};

double charlm_now(void); /* seconds */
void charlm_begin_progress(struct charlm_progress *progress);
void charlm_show_progress(struct charlm_progress *progress, int step,
    const struct charlm_options *options, int ranks, double loss);
void charlm_end_progress(const struct charlm_progress *progress);

/* Held-out losses: of the network and of the tables, by blocks and licence. */
struct charlm_scores {
    double blocks[3];
    double licence[3];
};

/* Try the network and the tables on what was held out. */
int charlm_score(struct charlm_model *model, const struct charlm_text *text,
    struct charlm_scores *scores, char *error);

void charlm_print_summary(const struct charlm_options *options, int ranks,
    const struct charlm_text *text, struct charlm_model *model,
    const struct charlm_blas *blas, const struct charlm_cost *cost,
    const struct charlm_scores *scores);

/* ---- charlm_output.c ---- */

/* A file that is to be written later; fd -1: none is wanted. */
struct charlm_output {
    const char *path;
    int fd;
    bool made; /* it did not exist before */
};

/* Open a file; what it holds stays until it is truncated. */
int charlm_open_output(
    const char *path, struct charlm_output *output, char *error);
int charlm_truncate_output(const struct charlm_output *output, char *error);
int charlm_write_output(const struct charlm_output *output, const void *data,
    size_t nbytes, char *error);
void charlm_close_output(struct charlm_output *output);

/* ---- charlm_plot.c ---- */

/* Draw the curve as SVG: with gnuplot where it is installed, else here. */
int charlm_plot(const struct charlm_output *output,
    const struct charlm_curve *curve, const struct charlm_scores *scores,
    char *error);

/* ---- charlm_save.c ---- */

#define CHARLM_DIGEST 32 /* bytes of a SHA-256 */

/*
 * The parameters as a file: a line "charlm 1", a line with the name and the
 * shape of each, an empty line, then all values as this machine stores floats.
 */
int charlm_save(const struct charlm_output *output,
    const struct charlm_model *model, char *error);

/* The SHA-256 of that file. */
void charlm_digest(
    const struct charlm_model *model, unsigned char digest[CHARLM_DIGEST]);

#endif
