/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the parts of symmcoll-perf share: the options, the table of operations,
 * one rank at work, one case (an operation at one size), and its figures.
 */
#ifndef SYMC_BIN_PERF_H
#define SYMC_BIN_PERF_H

#include <symmcoll.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define PERF_NAME_MAX 48
#define PERF_BUCKETS 8
#define PERF_BUFFERS 16 /* of a coalesced operation */
#define PERF_BUCKET_NBYTES ((size_t)25 << 20)
#define PERF_STORE_MOST ((size_t)16 << 20) /* of a value */
#define PERF_DIRTY_MIN 4096 /* below it nobody rewrites an input */

enum perf_exit {
    PERF_PASSED = 0,
    PERF_FAILED = 1,
    PERF_USAGE = 2
};

/* ---- perf_ops.c ---- */

struct perf_case;
struct perf_rank;
struct perf_driver;
struct perf_figures;
struct perf_results;

/* How many blocks of `count` elements a buffer has. */
enum perf_extent {
    PERF_NO_BUFFER,
    PERF_ONE,
    PERF_ONE_PER_RANK
};

/* One collective as the tool knows it. */
struct perf_op {
    const char *name;
    enum perf_extent in;
    enum perf_extent out;
    bool reduces;
    bool rooted;    /* rank 0 is the root */
    bool in_place;  /* can be done in place */
    bool dirty;     /* has an input to rewrite */
    bool buckets;   /* a fixed set of buffers instead of sizes */
    bool rare;      /* only where it is named */
    bool device;    /* may be on device memory */
    bool unordered; /* sums there in another order than the host's */
    bool store;   /* goes through the world's store, and returns the own data */
    bool pair;    /* only of two ranks, which receive each other's input */
    bool signals; /* by symmetric memory of all ranks */
    size_t most;  /* bytes; 0: no limit */
    int parts;    /* of a call, one after the other; the time is of one; 0: 1 */
    symmcoll_status_t (*run)(const struct perf_case *it);
    double (*bus_factor)(int size); /* bus bandwidth over plain bandwidth */
};

/* An operation and the way to do it, as chosen on the command line. */
struct perf_choice {
    const struct perf_op *op;
    bool dirty;               /* inputs are rewritten before each sample */
    bool in_place;            /* and so they are here, from PERF_DIRTY_MIN on */
    bool async;               /* all started, then waited for */
    char name[PERF_NAME_MAX]; /* of its rows: "all_reduce_dirty" */
};

/* The table, ended by a NULL name. */
const struct perf_op *perf_ops(void);

/* ---- perf_several.c: see struct perf_op ---- */

symmcoll_status_t perf_run_group_create(const struct perf_case *it);
symmcoll_status_t perf_run_sendrecv(const struct perf_case *it);
symmcoll_status_t perf_run_send_recv_both(const struct perf_case *it);
symmcoll_status_t perf_run_store(const struct perf_case *it);
symmcoll_status_t perf_run_coalesced(const struct perf_case *it);
symmcoll_status_t perf_run_separate(const struct perf_case *it);
symmcoll_status_t perf_run_region(const struct perf_case *it);
symmcoll_status_t perf_run_buckets(const struct perf_case *it);

/* ---- perf_symm.c ---- */

symmcoll_status_t perf_run_one_shot(const struct perf_case *it);
symmcoll_status_t perf_run_two_shot(const struct perf_case *it);
symmcoll_status_t perf_run_symm_reduce_scatter(const struct perf_case *it);
symmcoll_status_t perf_run_symm_all_gather(const struct perf_case *it);
symmcoll_status_t perf_run_intra_node(const struct perf_case *it);
symmcoll_status_t perf_run_all_to_all_vdev(const struct perf_case *it);

/* ---- perf_signal.c ---- */

/* Join symmetric memory for the choices that need it; enum perf_exit. */
int perf_signals_join(struct perf_rank *rank);

/* A signal there and back, and a barrier. */
symmcoll_status_t perf_run_signal(const struct perf_case *it);
symmcoll_status_t perf_run_symm_barrier(const struct perf_case *it);

/* ---- perf_choose.c ---- */

#define PERF_CHOICES_MAX 32

struct perf_options;

/* How everything is to be done, where a name does not say. */
struct perf_manner {
    bool dirty;
    bool in_place;
    bool async;
};

/*
 * Add the operations of a comma list, "all_reduce,all_reduce_dirty", to the
 * choices.  False after a message, which names the nearest operation.
 */
bool perf_choose(struct perf_options *options, const char *list,
    const struct perf_manner *manner);

/* Add everything that can be done in this manner. */
void perf_choose_all(
    struct perf_options *options, const struct perf_manner *manner);

/*
 * The nearest of the names that `at` returns for 0, 1, ... until NULL; NULL
 * where none is similar.
 */
const char *perf_nearest(const char *text, const char *(*at)(int index));

/* ---- perf_options.c ---- */

#define PERF_SHAPES_MAX 16

/* A product of --fused: A of rows x depth, B of depth x columns. */
struct perf_shape {
    int64_t rows, depth, columns;
};

struct perf_options {
    struct perf_choice choices[PERF_CHOICES_MAX];
    int nchoices;
    bool named; /* the choices are the user's, not the default */
    enum symmcoll_dtype dtype;
    symmcoll_op_t reduce;
    size_t min_nbytes;
    size_t max_nbytes;
    size_t step;    /* each size is so many times the one before */
    int groups;     /* in turn; 0: the world's */
    bool symmetric; /* buffers are in symmetric memory */
    int threads;    /* 0: ranks are processes, or this is one alone */
    double seconds;
    bool tsv;
    bool check_only;
    const char *peer;       /* first column of --tsv */
    bool gathers, scatters; /* the operations of --fused */
    struct perf_shape shapes[PERF_SHAPES_MAX];
    int nshapes;
    bool device;                /* buffers are in memory of devices, */
    bool share;                 /* of one for all ranks, */
    int first_device;           /* from this one on */
    struct perf_driver *driver; /* of them */
    bool thresholds;            /* measure these instead */
    int members; /* ranks that operations are of, the first ones; 0: all */
    struct perf_results *results; /* of rank 0: kept, not printed; or NULL */
    const char *plot; /* the picture to draw, in place of all else; or NULL */
    char *const *inputs; /* ninputs files with what to draw */
    int ninputs;
};

/*
 * Read the command line.  False where the program is to end, with what in
 * *status: after --help, --version, or a message about what is wrong.
 */
bool perf_parse(
    int argc, char **argv, struct perf_options *options, int *status);

/* Whether a launcher started this process, and its rank there (else 0). */
bool perf_launched(int *rank);

/* ---- perf_data.c ---- */

#define PERF_PERIOD 61 /* a prime: no chunk size is a multiple of it */
#define PERF_REPEATS 32
#define PERF_COMPONENT_MAX 8 /* bytes */

/* What reductions of which data are about. */
struct perf_data {
    enum symmcoll_dtype dtype;
    symmcoll_op_t op; /* SUM ... PREMUL_SUM */
    int size;         /* ranks */
};

/*
 * A periodic sequence of elements, laid out a few times in a row so that it can
 * be copied and compared in long pieces.
 */
struct perf_pattern {
    enum symmcoll_dtype dtype;
    size_t component; /* bytes; an element has one, a complex one two */
    size_t components;
    unsigned char bytes[PERF_PERIOD * (PERF_REPEATS + 1) * PERF_COMPONENT_MAX];
};

/* What a rank contributes, and what all contributions reduce to. */
void perf_pattern_input(
    struct perf_pattern *pattern, const struct perf_data *data, int rank);
void perf_pattern_result(
    struct perf_pattern *pattern, const struct perf_data *data);

/* A rank's factor where the operation is PREMUL_SUM. */
double perf_premul_factor(int rank);

/* Write count elements, from the first-th of the sequence on. */
void perf_pattern_fill(
    const struct perf_pattern *pattern, size_t first, void *out, size_t count);

/* The first of count elements that differs; count where none does. */
size_t perf_pattern_compare(const struct perf_pattern *pattern, size_t first,
    const void *found, size_t count);

/* The sequence's element of that index, for messages. */
const void *perf_pattern_at(const struct perf_pattern *pattern, size_t index);

/* An element as text, into a buffer of PERF_NAME_MAX. */
const char *perf_format_element(
    enum symmcoll_dtype dtype, const void *element, char *buffer);

/* ---- perf_rank.c ---- */

/* One rank at work. */
struct perf_rank {
    const struct perf_options *options;
    struct symmcoll_world *world;
    struct symmcoll_group *all;     /* the world's */
    struct symmcoll_group *group;   /* that operations are run in */
    struct symmcoll_group **groups; /* options->groups of them, or NULL */
    int ngroups;
    int turn; /* of those, the next */
    int rank;
    int size;
    bool threads;                  /* the ranks are threads of this process */
    symmcoll_op_t dynamic;         /* the number under which the op is passed */
    struct symmcoll_symm *signals; /* of all ranks; NULL: none needs it */
    unsigned char *in;             /* with a margin before and after, */
    unsigned char *out;            /* see perf_check.c */
    unsigned char *buckets[PERF_BUCKETS]; /* NULL until needed */
    struct symmcoll_symm *symm; /* the workspace of symm_group; or NULL */
    struct symmcoll_group *symm_group;
    size_t symm_nbytes;
    struct perf_pattern *own;         /* this rank's input, */
    struct perf_pattern *other;       /* and what is expected */
    double *samples;                  /* PERF_SAMPLES_MAX */
    struct symmcoll_group *first;     /* the host's of --thresholds, or NULL */
    bool idle;                        /* another rank is measured */
    const struct symmcoll_call *call; /* of operations; NULL: the defaults */
    struct perf_device *device;       /* NULL: buffers are the host's */
    struct symmcoll_call device_call;
    struct perf_mirror *mirror; /* what is on the device, on the host */
};

/* An operation at one size, ready to be run. */
struct perf_case {
    struct perf_rank *rank;
    const struct perf_choice *choice;
    enum symmcoll_dtype dtype;
    symmcoll_op_t op; /* as the call takes it */
    size_t count;     /* as the call takes it */
    size_t nbytes;    /* of a rank's larger buffer */
    void *in;
    void *out;
};

/*
 * Be one rank: join the others, check and time every choice, report on rank 0.
 * args is as symmcoll_init() takes it.  Returns an enum perf_exit.
 */
int perf_rank_run(const struct perf_options *options,
    const struct symmcoll_init_args *args, bool threads);

/* Have the next operation run in the next group. */
static inline void perf_next_group(struct perf_rank *rank)
{
    if (rank->groups == NULL)
        return;
    rank->group = rank->groups[rank->turn];
    rank->turn = rank->turn + 1 < rank->ngroups ? rank->turn + 1 : 0;
}

/* Report a failed call on standard error; returns PERF_FAILED. */
int perf_report(
    const struct perf_rank *rank, const char *what, symmcoll_status_t status);

/* Replace each of count values by the largest of all ranks. */
symmcoll_status_t perf_largest(
    const struct perf_rank *rank, double *values, size_t count);

/* ---- perf_groups.c ---- */

/* Make the groups of --groups, of all ranks or the first ones; enum perf_exit.
 * To be freed in any case. */
int perf_groups_make(struct perf_rank *rank);
void perf_groups_free(struct perf_rank *rank);

/* ---- perf_memory.c ---- */

/* Page-aligned and touched, as the method wants; NULL after a message. */
void *perf_allocate(const struct perf_rank *rank, size_t nbytes);

/* The same for a buffer of operations, in the manner that was asked for; the
 * same on all ranks.  To be freed before symmcoll_finalize(). */
void *perf_allocate_buffer(const struct perf_rank *rank, size_t nbytes);
void perf_free_buffer(const struct perf_rank *rank, void *memory);

/* ---- perf_fused.c ---- */

/* Check and time the operations of --fused; returns an enum perf_exit. */
int perf_fused(struct perf_rank *rank);

/* ---- perf_check.c ---- */

#define PERF_MARGIN 4096 /* bytes before and after each buffer */

/*
 * Lay out a case for blocks of count elements, `shift` elements off alignment,
 * and write what goes in.
 */
void perf_case_lay_out(struct perf_case *it, size_t count, size_t shift);

/* Elements of a buffer, and bytes of either that has any. */
size_t perf_case_elements(const struct perf_case *it, enum perf_extent extent);

/* Write this rank's input anew, as a producer of data would. */
void perf_case_rewrite(const struct perf_case *it);

/*
 * Run the case once and compare everything it should have written, and its
 * surroundings, with what is expected.  PERF_FAILED after a message; a status
 * other than OK is left to the caller.
 */
int perf_case_check(struct perf_case *it, symmcoll_status_t *status);

/* ---- perf_measure.c ---- */

#define PERF_SAMPLES_MAX 4000

struct perf_figures {
    long calls;
    double shortest; /* seconds, of one call */
    double median;
    double barrier; /* 0 where it is slow anyway */
    double host;    /* of a device: median by the host's clock; else 0 */
};

/* Seconds of the monotonic clock. */
double perf_now(void);

/* Have all ranks here. */
symmcoll_status_t perf_wait_for_all(const struct perf_rank *rank);

/* For qsort(). */
int perf_compare_times(const void *left, const void *right);

/* Whether inputs are to be written again before each sample. */
bool perf_rewrites(const struct perf_case *it);

/* Time a case.  Every rank gets the same figures. */
symmcoll_status_t perf_measure(
    const struct perf_case *it, struct perf_figures *figures);

/* Time of a barrier, the best of a few batches: tells near cores from far. */
symmcoll_status_t perf_probe(const struct perf_rank *rank, double *seconds);

/* ---- perf_print.c; called on rank 0 ---- */

/* These print, and end the process with a message where that is not possible:
 * what is measured from then on would be lost. */
void perf_print_head(const struct perf_rank *rank, double barrier);
void perf_print_figures(
    const struct perf_case *it, const struct perf_figures *figures);
void perf_print_checked(
    const struct perf_rank *rank, const struct perf_choice *choice, int cases);

/* With units, "4 KiB"; others as bytes. */
const char *perf_format_size(size_t nbytes, char *buffer, size_t size);

/* A row of --tsv. */
void perf_print_row(const struct perf_options *options, const char *name,
    int ranks, size_t nbytes, double bus_factor,
    const struct perf_figures *figures);

/* Whether all output was written; false after a message. */
bool perf_flush(void);

/* ---- perf_series.c ---- */

#define PERF_SERIES_MAX \
    18 /* that can be told apart: colours by kinds of line */
#define PERF_LABEL_MAX 160

struct perf_point {
    double nbytes;
    double us; /* median time of a call */
    double gbs;
};

/* One line of the picture. */
struct perf_series {
    char *peer;
    char *op;
    int ranks;
    int file;                  /* of the inputs */
    struct perf_point *points; /* in the order of sizes, each once */
    size_t npoints;
    size_t capacity;
    char label[PERF_LABEL_MAX];
};

struct perf_chart {
    struct perf_series series[PERF_SERIES_MAX];
    int nseries;
    char title[PERF_LABEL_MAX]; /* what all series share */
};

/* Read the inputs.  False after a message; to be freed in any case. */
bool perf_chart_read(
    struct perf_chart *chart, const struct perf_options *options);
void perf_chart_free(struct perf_chart *chart);

/* ---- perf_plot.c ---- */

/* Draw options->inputs into options->plot.  False after a message. */
bool perf_plot(const struct perf_options *options);

#endif
