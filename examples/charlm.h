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

/* Must precede every include: dladdr() and others are not in ISO C. */
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

/* Writes a line of error, truncated if too long, and returns -1. */
int charlm_fail(char *error, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

struct charlm_options {
    const char *const *texts; /* ntexts paths; none: the licences */
    int ntexts;
    const char *plot; /* file for the loss curve, or NULL */
    const char *save; /* file for the parameters, or NULL */
    int steps;
    int batch;      /* characters per micro-batch */
    int accumulate; /* micro-batches per rank and step */
    /* ranks that are threads of this process; 0: the launcher's */
    int threads;
    uint64_t seed;
    double learning_rate;
    const char *hook; /* averages gradients; NULL: none */
    bool shard;       /* each rank updates its slices of the parameters */
    bool uneven;      /* later ranks have fewer steps */
    int kill_rank;    /* this rank is killed before step at_step; 0: none */
    int at_step;
    bool blas;            /* only print which BLAS is used */
    const char *use_blas; /* chosen by the user, or NULL */
};

/* Reads the command line.  The options point into argv, which may be changed.
 * Returns 1 if help is requested. */
int charlm_parse_options(
    int argc, char **argv, struct charlm_options *options, char *error);
void charlm_print_help(void);

/* ---- charlm_text.c ---- */

/* Positions in the text with a byte to be predicted from those before it. */
struct charlm_set {
    uint32_t *positions;
    size_t count;
};

struct charlm_text {
    unsigned char *symbols; /* length symbols, each below vocab */
    size_t length;
    int vocab;               /* number of different bytes */
    unsigned char byte[256]; /* byte of each symbol */
    int nfiles;
    struct charlm_set train;
    struct charlm_set blocks;  /* held out: every tenth kilobyte */
    struct charlm_set licence; /* held out: all of MPL-2.0, or nothing */
};

/*
 * Reads the texts; without any, each regular file of the directory of licences
 * in the order of names.  A position of the training set has `context` bytes
 * before it that are not held out.
 */
int charlm_read_text(const char *const *paths, int npaths, int context,
    struct charlm_text *text, char *error);
void charlm_free_text(struct charlm_text *text);

/* ---- charlm_count.c ---- */

/*
 * Computes the mean losses, in nats per character, of a table of byte counts by
 * the `order` bytes before: counted on the training set, tested on both
 * held-out sets.  A sequence not seen backs off to shorter ones (Witten and
 * Bell, 1991). Returns -1 without memory.
 */
int charlm_count_losses(const struct charlm_text *text, int order,
    double *blocks_loss, double *licence_loss);

/* ---- charlm_model.c ---- */

#define CHARLM_NPARAMS 7

struct charlm_shape {
    int vocab;
    int context; /* bytes that the model reads */
    int embed;   /* numbers per embedded byte */
    int hidden1;
    int hidden2;
    int batch;
};

/* An array of parameters, and its gradient of the latest backward pass. */
struct charlm_param {
    const char *name;
    float *value;
    float *grad;
    size_t count;
    int ndim;
    int64_t shape[2];
};

/* Called with the number of a parameter; a result other than 0 ends the
 * caller. */
typedef int (*charlm_param_fn)(void *arg, int param);

struct charlm_model {
    struct charlm_shape shape;
    /* in the order of the forward pass */
    struct charlm_param params[CHARLM_NPARAMS];
    float *memory;  /* all arrays of floats */
    float *input;   /* batch x context * embed */
    float *hidden1; /* batch x hidden1 */
    float *hidden2; /* batch x hidden2 */
    float *output;  /* batch x vocab: probabilities, then their gradient */
    float *d_hidden1;
    float *d_hidden2;
    float *d_input;
    /* batch x context + 1: the input of each row, and the next symbol */
    unsigned char *symbols;
    /* called by forward before it reads a parameter; NULL: none */
    charlm_param_fn need;
    void *need_arg;
};

/* Creates a model with random weights from a seed.  Returns NULL without
 * memory. */
struct charlm_model *charlm_create_model(
    const struct charlm_shape *shape, uint64_t seed);
void charlm_free_model(struct charlm_model *model);
size_t charlm_count_params(const struct charlm_model *model);

/* Fills one row of the batch from the text before a position. */
void charlm_set_row(struct charlm_model *model, int row,
    const unsigned char *symbols, uint32_t position);

/* Returns the sum of the losses of the first rows of the batch, in nats; NAN if
 * need() fails. */
double charlm_forward(struct charlm_model *model, int rows);

/* Computes the gradients of the batch's mean loss, from the last layer to the
 * first, after charlm_forward() of all its rows.  Calls ready() for each gradient
 * once it is complete, and returns its last result. */
int charlm_backward(
    struct charlm_model *model, charlm_param_fn ready, void *arg);

/* Returns the mean loss over a set, in nats per character; 0 for an empty
 * one. */
double charlm_mean_loss(struct charlm_model *model,
    const struct charlm_text *text, const struct charlm_set *set);

/* Continues a text by count bytes drawn at a temperature below 1. */
void charlm_generate(struct charlm_model *model, const struct charlm_text *text,
    uint32_t position, uint64_t seed, char *out, size_t count);

/* Returns a hash of a number, the only random source: each draw is a function
 * of its purpose, and the same on every rank. */
uint64_t charlm_mix(uint64_t value);

/* ---- charlm_adam.c ---- */

/* Elements of a parameter that this rank updates, their gradients, and both
 * moments of Adam (Kingma and Ba, 2015). */
struct charlm_slice {
    float *value;
    const float *grad; /* set before each step */
    float *mean;
    float *square;
    size_t count;
};

struct charlm_adam {
    struct charlm_slice slices[CHARLM_NPARAMS];
    int nslices;
    float rate, unbias; /* of the step that has begun */
    size_t nbytes;      /* of the moments */
};

/* Allocates the moments of the slices, which are set.  Returns -1 without
 * memory. */
int charlm_create_adam(struct charlm_adam *adam);
void charlm_free_adam(struct charlm_adam *adam);

/* Begins a step, from number 0. */
void charlm_begin_adam(
    struct charlm_adam *adam, int step, double learning_rate);

/* Takes the step on slice i. */
void charlm_step_adam(struct charlm_adam *adam, int i);

/* ---- charlm_train.c ---- */

/* The loss during training: means over `interval` steps. */
struct charlm_curve {
    float *losses;
    int count;
    int interval;
};

/* The cost of a training run, as measured by one rank. */
struct charlm_cost {
    double seconds;
    /* seconds from the first bucket's start to the last one's end */
    double comm;
    double exposed;    /* those of them without computation */
    double characters; /* characters read by all ranks */
    size_t state;      /* bytes of the optimizer on this rank */
};

/*
 * Trains for options->steps steps, together with the other ranks of the group.
 * Step s of seed x learns from the micro-batches 0 to size * accumulate - 1,
 * whose rows follow from (x, s, number); rank r takes those from r * accumulate
 * on.  Rank 0 prints the progress.  After the death of options->kill_rank the
 * others repeat its step, and go on in a group of their own.
 *
 * group  in: the ranks that train; out: those that are left, to be released by
 *        the caller if it is another group
 * curve  out: release losses with free(), after a failure too
 */
int charlm_train(struct symmcoll_group **group,
    const struct charlm_options *options, const struct charlm_text *text,
    struct charlm_model *model, struct charlm_curve *curve,
    struct charlm_cost *cost, char *error);

/* ---- charlm_blas.c ---- */

struct charlm_blas {
    /* "LIBRARY:KERNELS" of the user; NULL: the candidate */
    const char *wanted;
    int candidate;       /* see blas_choice.h */
    double rate;         /* 1e9 operations per second; 0: not measured */
    char name[128];      /* "OpenBLAS 0.3.21, kernels for Zen" */
    char path[512];      /* path of the loaded library */
    char rejected[1024]; /* other installed ones, with their rates */
    bool slow;           /* the reference implementation */
};

/* cblas_sgemm() of the loaded library. */
extern symc_sgemm_fn charlm_sgemm;

/* Chooses the fastest installed BLAS, in some 50 ms; at once if one is wanted
 * (NULL: none). */
void charlm_choose_blas(struct charlm_blas *blas, const char *wanted);

/* Loads the wanted BLAS, or the candidate that this or another rank has chosen,
 * and fills in its name and path. */
int charlm_load_blas(struct charlm_blas *blas, char *error);

/* Warns on standard error about the slow reference BLAS. */
void charlm_warn_blas(const struct charlm_blas *blas);

/* ---- charlm_report.c ---- */

/* A progress line, rewritten in place on a terminal; otherwise a few lines. */
struct charlm_progress {
    bool terminal;
    double begun;
    double shown;
    int tenths; /* tenths of the steps when last shown */
};

double charlm_now(void); /* seconds */
void charlm_begin_progress(struct charlm_progress *progress);
void charlm_show_progress(struct charlm_progress *progress, int step,
    const struct charlm_options *options, int ranks, double loss);
void charlm_end_progress(const struct charlm_progress *progress);

/* Held-out losses of the network and the two tables, by blocks and licence. */
struct charlm_scores {
    double blocks[3];
    double licence[3];
};

/* Tests the network and the tables on the held-out sets. */
int charlm_score(struct charlm_model *model, const struct charlm_text *text,
    struct charlm_scores *scores, char *error);

void charlm_print_summary(const struct charlm_options *options, int ranks,
    const struct charlm_text *text, struct charlm_model *model,
    const struct charlm_blas *blas, const struct charlm_cost *cost,
    const struct charlm_scores *scores);

/* ---- charlm_output.c ---- */

/* A file to be written later; fd -1: not wanted. */
struct charlm_output {
    const char *path;
    int fd;
    bool made; /* it did not exist before */
};

/* Opens a file; its contents stay until it is truncated. */
int charlm_open_output(
    const char *path, struct charlm_output *output, char *error);
int charlm_truncate_output(const struct charlm_output *output, char *error);
int charlm_write_output(const struct charlm_output *output, const void *data,
    size_t nbytes, char *error);
void charlm_close_output(struct charlm_output *output);

/* ---- charlm_plot.c ---- */

/* Draws the curve as SVG: with gnuplot if installed, else with code of its
 * own. */
int charlm_plot(const struct charlm_output *output,
    const struct charlm_curve *curve, const struct charlm_scores *scores,
    char *error);

/* ---- charlm_save.c ---- */

#define CHARLM_DIGEST 32 /* bytes of a SHA-256 */

/*
 * Writes the parameters to a file: a line "charlm 1", a line with the name and
 * the shape of each, an empty line, then all values in this machine's format of
 * floats.
 */
int charlm_save(const struct charlm_output *output,
    const struct charlm_model *model, char *error);

/* Computes the SHA-256 of that file. */
void charlm_digest(
    const struct charlm_model *model, unsigned char digest[CHARLM_DIGEST]);

#endif
