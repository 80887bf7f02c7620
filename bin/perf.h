/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Shared parts of symmcoll-perf: options, the table of operations, the state of
 * a rank, one case (an operation at one size), and its figures.
 */
#ifndef SYMC_BIN_PERF_H
#define SYMC_BIN_PERF_H

#include <symmcoll.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define PERF_NAME_MAX 48
#define PERF_BUCKETS 8
#define PERF_BUFFERS 16 /* buffers of a coalesced operation */
#define PERF_BUCKET_NBYTES ((size_t)25 << 20)
#define PERF_STORE_MOST ((size_t)16 << 20) /* largest value of a store */
#define PERF_DIRTY_MIN 4096                /* below it no input is rewritten */

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

/* Blocks of `count` elements in a buffer. */
enum perf_extent {
    PERF_NO_BUFFER,
    PERF_ONE,
    PERF_ONE_PER_RANK
};

/* A collective and its properties. */
struct perf_op {
    const char *name;
    enum perf_extent in;
    enum perf_extent out;
    bool reduces;
    bool rooted;    /* rank 0 is the root */
    bool in_place;  /* can be done in place */
    bool dirty;     /* has an input to rewrite */
    bool buckets;   /* a fixed set of buffers at one size */
    bool rare;      /* only if named */
    bool device;    /* supports device memory */
    bool unordered; /* sums there in another order than on the host */
    bool store;     /* uses the world's store and returns this rank's data */
    bool pair;      /* only with two ranks, which receive each other's input */
    bool signals;   /* uses symmetric memory of all ranks */
    size_t most;    /* bytes; 0: unlimited */
    int parts;      /* consecutive parts of a call; times are per part; 0: 1 */
    symmcoll_status_t (*run)(const struct perf_case *it);
    /* bus bandwidth divided by plain bandwidth */
    double (*bus_factor)(int size);
};

/* An operation and its manner, as chosen on the command line. */
struct perf_choice {
    const struct perf_op *op;
    bool dirty;               /* rewrites inputs before each sample */
    bool in_place;            /* rewrites them too, from PERF_DIRTY_MIN on */
    bool async;               /* starts all calls, then waits for them */
    char name[PERF_NAME_MAX]; /* name in its rows: "all_reduce_dirty" */
};

/* Returns the table, which ends with a NULL name. */
const struct perf_op *perf_ops(void);

/* ---- perf_several.c: run functions of struct perf_op ---- */

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

/* Joins symmetric memory if a choice needs it.  Returns an enum perf_exit. */
int perf_signals_join(struct perf_rank *rank);

/* Run a signal there and back, and a barrier. */
symmcoll_status_t perf_run_signal(const struct perf_case *it);
symmcoll_status_t perf_run_symm_barrier(const struct perf_case *it);

/* ---- perf_choose.c ---- */

#define PERF_CHOICES_MAX 32

struct perf_options;

/* The manner of operations with names that do not specify it. */
struct perf_manner {
    bool dirty;
    bool in_place;
    bool async;
};

/*
 * Adds the operations of a comma-separated list, "all_reduce,all_reduce_dirty",
 * to the choices.  Returns false after a message, which suggests the nearest
 * name.
 */
bool perf_choose(struct perf_options *options, const char *list,
    const struct perf_manner *manner);

/* Adds all operations that can be done in this manner. */
void perf_choose_all(
    struct perf_options *options, const struct perf_manner *manner);

/*
 * Returns the name nearest to text among those that `at` returns for 0, 1, ...
 * until NULL. Returns NULL if none is similar.
 */
const char *perf_nearest(const char *text, const char *(*at)(int index));

/* ---- perf_options.c ---- */

#define PERF_SHAPES_MAX 16

/* A product of --fused: A is rows x depth, B is depth x columns. */
struct perf_shape {
    int64_t rows, depth, columns;
};

struct perf_options {
    struct perf_choice choices[PERF_CHOICES_MAX];
    int nchoices;
    bool named; /* the user has chosen the operations */
    enum symmcoll_dtype dtype;
    symmcoll_op_t reduce;
    size_t min_nbytes;
    size_t max_nbytes;
    size_t step;    /* ratio of consecutive sizes */
    int groups;     /* number of groups used in turn; 0: the world's */
    bool symmetric; /* buffers in symmetric memory */
    int threads;    /* 0: ranks are processes, or there is one rank */
    double seconds;
    bool tsv;
    bool check_only;
    const char *peer;       /* first column of --tsv */
    bool gathers, scatters; /* operations of --fused */
    struct perf_shape shapes[PERF_SHAPES_MAX];
    int nshapes;
    bool device;                /* buffers in device memory */
    bool share;                 /* one device for all ranks */
    int first_device;           /* device of rank 0 */
    struct perf_driver *driver; /* driver of the devices */
    bool thresholds;            /* measures thresholds instead */
    int members; /* operations use the first `members` ranks; 0: all */
    /* rank 0 stores its results here instead of printing; or NULL */
    struct perf_results *results;
    const char *plot;    /* picture to draw instead of measuring; or NULL */
    char *const *inputs; /* ninputs files with the data to draw */
    int ninputs;
};

/*
 * Reads the command line.  Returns false if the program must exit with *status:
 * after --help, --version, or an error message.
 */
bool perf_parse(
    int argc, char **argv, struct perf_options *options, int *status);

/* Returns whether a launcher started this process, and its rank (out, else
 * 0). */
bool perf_launched(int *rank);

/* ---- perf_data.c ---- */

#define PERF_PERIOD 61 /* prime: not a divisor of any chunk size */
#define PERF_REPEATS 32
#define PERF_COMPONENT_MAX 8 /* bytes */

/* The parameters of test data. */
struct perf_data {
    enum symmcoll_dtype dtype;
    symmcoll_op_t op; /* SUM ... PREMUL_SUM */
    int size;         /* number of ranks */
};

/*
 * A periodic sequence of elements, repeated several times so that it can be
 * copied and compared in long pieces.
 */
struct perf_pattern {
    enum symmcoll_dtype dtype;
    size_t component; /* bytes; complex elements have two components */
    size_t components;
    unsigned char bytes[PERF_PERIOD * (PERF_REPEATS + 1) * PERF_COMPONENT_MAX];
};

/* Make a rank's input, and the reduction of all inputs. */
void perf_pattern_input(
    struct perf_pattern *pattern, const struct perf_data *data, int rank);
void perf_pattern_result(
    struct perf_pattern *pattern, const struct perf_data *data);

/* Returns a rank's factor for PREMUL_SUM. */
double perf_premul_factor(int rank);

/* Writes count elements, beginning with element `first` of the sequence. */
void perf_pattern_fill(
    const struct perf_pattern *pattern, size_t first, void *out, size_t count);

/* Returns the index of the first of count elements that differs, or count. */
size_t perf_pattern_compare(const struct perf_pattern *pattern, size_t first,
    const void *found, size_t count);

/* Returns element `index` of the sequence, for messages. */
const void *perf_pattern_at(const struct perf_pattern *pattern, size_t index);

/* Formats an element into a buffer of PERF_NAME_MAX bytes. */
const char *perf_format_element(
    enum symmcoll_dtype dtype, const void *element, char *buffer);

/* ---- perf_rank.c ---- */

/* The state of one rank. */
struct perf_rank {
    const struct perf_options *options;
    struct symmcoll_world *world;
    struct symmcoll_group *all;     /* the group of all ranks */
    struct symmcoll_group *group;   /* the group of the operations */
    struct symmcoll_group **groups; /* ngroups of them, or NULL */
    int ngroups;
    int turn; /* index of the next one */
    int rank;
    int size;
    bool threads;                  /* the ranks are threads of this process */
    symmcoll_op_t dynamic;         /* value of the op argument */
    struct symmcoll_symm *signals; /* memory of all ranks; NULL: not needed */
    unsigned char *in;             /* with a margin before and after; */
    unsigned char *out;            /* see perf_check.c */
    unsigned char *buckets[PERF_BUCKETS]; /* NULL until needed */
    struct symmcoll_symm *symm;           /* workspace of symm_group, or NULL */
    struct symmcoll_group *symm_group;
    size_t symm_nbytes;
    struct perf_pattern *own;     /* this rank's input */
    struct perf_pattern *other;   /* the expected result */
    double *samples;              /* PERF_SAMPLES_MAX */
    struct symmcoll_group *first; /* host group of --thresholds, or NULL */
    bool idle;                    /* other ranks are measured */
    /* options of operations; NULL: the defaults */
    const struct symmcoll_call *call;
    struct perf_device *device; /* NULL: buffers are in host memory */
    struct symmcoll_call device_call;
    struct perf_mirror *mirror; /* host copy of the device's buffers */
};

/* An operation at one size, ready to run. */
struct perf_case {
    struct perf_rank *rank;
    const struct perf_choice *choice;
    enum symmcoll_dtype dtype;
    symmcoll_op_t op; /* argument of the call */
    size_t count;     /* argument of the call */
    size_t nbytes;    /* size of a rank's larger buffer */
    void *in;
    void *out;
};

/*
 * Runs one rank: joins the others, checks and times every choice, and prints on
 * rank 0. args is as for symmcoll_init(). Returns an enum perf_exit.
 */
int perf_rank_run(const struct perf_options *options,
    const struct symmcoll_init_args *args, bool threads);

/* Selects the next group for the next operation. */
static inline void perf_next_group(struct perf_rank *rank)
{
    if (rank->groups == NULL)
        return;
    rank->group = rank->groups[rank->turn];
    rank->turn = rank->turn + 1 < rank->ngroups ? rank->turn + 1 : 0;
}

/* ---- perf_ranks.c ---- */

/* Reports a failed call on standard error.  Returns PERF_FAILED. */
int perf_report(
    const struct perf_rank *rank, const char *what, symmcoll_status_t status);

/* Replaces each of count values by the largest over all ranks. */
symmcoll_status_t perf_largest(
    const struct perf_rank *rank, double *values, size_t count);

/* Returns the monotonic clock in seconds. */
double perf_now(void);

/* Waits for all ranks. */
symmcoll_status_t perf_wait_for_all(const struct perf_rank *rank);

/* Compares two times, for qsort(). */
int perf_compare_times(const void *left, const void *right);

/* ---- perf_groups.c ---- */

/* Makes the groups of --groups, of all ranks or of the first ones.  Returns an
 * enum perf_exit.  perf_groups_free() must be called in any case. */
int perf_groups_make(struct perf_rank *rank);
void perf_groups_free(struct perf_rank *rank);

/* ---- perf_memory.c ---- */

/* Allocates page-aligned memory and touches it.  Returns NULL after a
 * message. */
void *perf_allocate(const struct perf_rank *rank, size_t nbytes);

/* Allocates a buffer of operations in the requested kind of memory, the same on
 * all ranks.  Must be freed before symmcoll_finalize(). */
void *perf_allocate_buffer(const struct perf_rank *rank, size_t nbytes);
void perf_free_buffer(const struct perf_rank *rank, void *memory);

/* ---- perf_fused.c ---- */

/* Checks and times the operations of --fused.  Returns an enum perf_exit. */
int perf_fused(struct perf_rank *rank);

/* ---- perf_case.c ---- */

#define PERF_MARGIN 4096 /* bytes before and after each buffer */

/*
 * Sets the buffers and the number of bytes of a case with blocks of count
 * elements, `shift` elements off alignment.
 */
void perf_case_lay_out(struct perf_case *it, size_t count, size_t shift);

/* Returns the number of elements of a buffer. */
size_t perf_case_elements(const struct perf_case *it, enum perf_extent extent);

/* Rewrites this rank's input, as a producer of data would. */
void perf_case_rewrite(const struct perf_case *it);

/* Returns the offset in elements of this rank's block among all ranks' blocks. */
size_t perf_case_own_offset(const struct perf_case *it);

/* Returns whether inputs are rewritten before each sample. */
bool perf_rewrites(const struct perf_case *it);

/* ---- perf_check.c ---- */

/*
 * Runs the case once and compares everything it should have written, and the
 * bytes around it, with the expected values.  Returns PERF_FAILED after a
 * message; a status other than OK is left to the caller.
 */
int perf_case_check(struct perf_case *it, symmcoll_status_t *status);

/* ---- perf_measure.c ---- */

#define PERF_SAMPLES_MAX 4000

struct perf_figures {
    long calls;
    double shortest; /* seconds per call */
    double median;
    double barrier; /* 0 if it is not measured */
    double host;    /* median by the host's clock on a device; else 0 */
};

/* Times a case.  All ranks get the same figures. */
symmcoll_status_t perf_measure(
    const struct perf_case *it, struct perf_figures *figures);

/* Measures a barrier, the best of a few batches; it distinguishes near cores
 * from far ones. */
symmcoll_status_t perf_probe(const struct perf_rank *rank, double *seconds);

/* ---- perf_print.c: rank 0 only ---- */

/* These print, and exit with a message if that fails, since all later results
 * would be lost. */
void perf_print_head(const struct perf_rank *rank, double barrier);
void perf_print_figures(
    const struct perf_case *it, const struct perf_figures *figures);
void perf_print_checked(
    const struct perf_rank *rank, const struct perf_choice *choice, int cases);

/* Formats a size with a unit, "4 KiB", or in bytes. */
const char *perf_format_size(size_t nbytes, char *buffer, size_t size);

/* Prints a row of --tsv. */
void perf_print_row(const struct perf_options *options, const char *name,
    int ranks, size_t nbytes, double bus_factor,
    const struct perf_figures *figures);

/* Returns whether all output was written; false after a message. */
bool perf_flush(void);

/* ---- perf_series.c ---- */

#define PERF_SERIES_MAX 18 /* as many as colours and kinds of line */
#define PERF_LABEL_MAX 160

struct perf_point {
    double nbytes;
    double us; /* median time per call */
    double gbs;
};

/* One line of the picture. */
struct perf_series {
    char *peer;
    char *op;
    int ranks;
    int file;                  /* index of its input */
    struct perf_point *points; /* in ascending sizes, each once */
    size_t npoints;
    size_t capacity;
    char label[PERF_LABEL_MAX];
};

struct perf_chart {
    struct perf_series series[PERF_SERIES_MAX];
    int nseries;
    char title[PERF_LABEL_MAX]; /* common to all series */
};

/* Reads the inputs.  Returns false after a message.  perf_chart_free() must be
 * called in any case. */
bool perf_chart_read(
    struct perf_chart *chart, const struct perf_options *options);
void perf_chart_free(struct perf_chart *chart);

/* ---- perf_plot.c ---- */

/* Draws options->inputs into options->plot.  Returns false after a message. */
bool perf_plot(const struct perf_options *options);

#endif
