/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Trains a character-level language model on several ranks.  Started by
 * symmcoll-run (or torchrun, mpirun, srun) each process is a rank; with
 * --threads the ranks are threads of one process; otherwise there is one rank.
 * examples/README explains how to build it against an installed library.
 *
 * A rank joins the others, reads the texts, trains, compares and reports.
 * After each of these parts the ranks agree whether all continue, so that an
 * error of several ranks is printed once, by the lowest of them.
 */
#include "charlm.h"

#include <symmcoll.h>

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define EXIT_USAGE 2
#define NAME "train_charlm"

/* The sizes of the network, except for the vocabulary, which depends on the
 * text. */
static const struct charlm_shape default_shape = {
    .context = 16, .embed = 32, .hidden1 = 512, .hidden2 = 256};

/* A rank, as a process or as a thread. */
struct rank {
    const struct charlm_options *options;
    struct symmcoll_init_args init; /* arguments for joining the others */
    struct symmcoll_group *group;
    int number;
    int size;
    struct charlm_text text;
    struct charlm_model *model;
    struct charlm_blas blas;
    struct charlm_output plot; /* rank 0 only */
    struct charlm_output save;
    char error[CHARLM_ERROR_MAX];
    int status; /* exit status */
    pthread_t thread;
};

/* Returns the rank that a launcher set for this process, as text; NULL:
 * none. */
static const char *launched_rank(void)
{
    static const char *const variables[] = {
        "RANK", "OMPI_COMM_WORLD_RANK", "PMI_RANK", "SLURM_PROCID"};

    for (size_t i = 0; i < sizeof(variables) / sizeof(variables[0]); i++)
        if (getenv(variables[i]) != NULL)
            return getenv(variables[i]);
    return NULL;
}

/* ---- agreement on errors ---- */

/* Prints an error that only this rank has. */
static int fail_alone(const struct rank *rank, const char *text)
{
    fprintf(stderr, "%s: rank %d: %s\n", NAME, rank->number, text);
    return EXIT_FAILURE;
}

/*
 * Ends a part: returns 0 if no rank has failed in it, else the exit status.
 */
static int agree(struct rank *rank, int failed, int exit_status)
{
    unsigned char mine = failed != 0, *all = calloc((size_t)rank->size, 1);
    int first = 0;

    if (all == NULL)
        return fail_alone(rank, "no memory");
    if (symmcoll_all_gather(rank->group, all, &mine, 1, SYMMCOLL_UINT8, NULL,
            NULL) != SYMMCOLL_OK) {
        free(all);
        return fail_alone(rank, failed ? rank->error : symmcoll_last_error());
    }
    while (first < rank->size && all[first] == 0)
        first++;
    free(all);
    if (first == rank->number)
        fprintf(stderr, "%s: %s\n", NAME, rank->error);
    return first == rank->size ? 0 : exit_status;
}

/* ---- the parts ---- */

/* Reads the texts, makes the network and opens the output files. */
static int prepare(struct rank *rank)
{
    const struct charlm_options *options = rank->options;
    struct charlm_shape shape = default_shape;
    size_t wanted;

    if (charlm_read_text(options->texts, options->ntexts, shape.context,
            &rank->text, rank->error) != 0)
        return -1;
    wanted = (size_t)rank->size * (size_t)options->accumulate *
             (size_t)options->batch;
    if (rank->text.train.count < wanted)
        return charlm_fail(rank->error,
            "text: one step of %d ranks x %d micro-batches x %d characters "
            "wants %zu to learn from, found %zu",
            rank->size, options->accumulate, options->batch, wanted,
            rank->text.train.count);
    if (options->kill_rank > 0 && rank->size == 1)
        return charlm_fail(
            rank->error, "--kill-rank: expected at least 2 processes, found 1");
    if (options->kill_rank >= rank->size)
        return charlm_fail(rank->error,
            "--kill-rank: expected a rank from 1 to %d, found %d",
            rank->size - 1, options->kill_rank);
    shape.vocab = rank->text.vocab;
    shape.batch = options->batch;
    rank->model = charlm_create_model(&shape, options->seed);
    if (rank->model == NULL)
        return charlm_fail(rank->error, "no memory for the network");
    if (rank->number == 0 && options->plot != NULL &&
        charlm_open_output(options->plot, &rank->plot, rank->error) != 0)
        return -1;
    if (rank->number == 0 && options->save != NULL &&
        charlm_open_output(options->save, &rank->save, rank->error) != 0)
        return -1;
    return 0;
}

/* Checks that all ranks have the same parameters; rank 0 prints the result. */
static int compare_params(struct rank *rank)
{
    unsigned char mine[CHARLM_DIGEST];
    unsigned char *all = calloc((size_t)rank->size, CHARLM_DIGEST);
    char hex[2 * CHARLM_DIGEST + 1];
    int odd = 0;

    if (all == NULL)
        return fail_alone(rank, "no memory");
    charlm_digest(rank->model, mine);
    if (symmcoll_all_gather(rank->group, all, mine, CHARLM_DIGEST,
            SYMMCOLL_UINT8, NULL, NULL) != SYMMCOLL_OK) {
        free(all);
        return fail_alone(rank, symmcoll_last_error());
    }
    for (int r = rank->size - 1; r > 0; r--)
        if (memcmp(all + r * CHARLM_DIGEST, all, CHARLM_DIGEST) != 0)
            odd = r;
    free(all);
    for (int i = 0; i < CHARLM_DIGEST; i++)
        snprintf(hex + 2 * i, 3, "%02x", mine[i]);
    if (rank->number == 0 && odd == 0)
        printf("\nparameters identical on all ranks: yes (sha256 %s)\n", hex);
    else if (rank->number == 0)
        printf("\nparameters identical on all ranks: no: rank %d has others "
               "than rank 0\n",
            odd);
    return odd == 0 ? 0 : EXIT_FAILURE;
}

/* Prints the summary and writes the files, on rank 0 after training. */
static int report(struct rank *rank, const struct charlm_curve *curve,
    const struct charlm_cost *cost)
{
    const struct charlm_options *options = rank->options;
    struct charlm_scores scores;

    if (charlm_score(rank->model, &rank->text, &scores, rank->error) != 0)
        return -1;
    charlm_print_summary(options, rank->size, &rank->text, rank->model,
        &rank->blas, cost, &scores);
    if (rank->plot.fd >= 0 &&
        charlm_plot(&rank->plot, curve, &scores, rank->error) != 0)
        return -1;
    if (rank->save.fd >= 0)
        return charlm_save(&rank->save, rank->model, rank->error);
    return 0;
}

/* Loads the BLAS that rank 0 chooses, because another one sums in another
 * order.  Ranks that are threads have loaded it already. */
static int load_blas(struct rank *rank)
{
    int32_t candidate;

    if (charlm_sgemm != NULL)
        return 0;
    rank->blas.wanted = rank->options->use_blas;
    if (rank->number == 0)
        charlm_choose_blas(&rank->blas, rank->options->use_blas);
    candidate = rank->blas.candidate;
    if (symmcoll_broadcast(rank->group, &candidate, 1, SYMMCOLL_INT32, 0, NULL,
            NULL) != SYMMCOLL_OK)
        return charlm_fail(rank->error, "%s", symmcoll_last_error());
    rank->blas.candidate = candidate;
    return charlm_load_blas(&rank->blas, rank->error);
}

static int run_parts(struct rank *rank)
{
    int status = agree(rank, prepare(rank), EXIT_USAGE);
    struct charlm_curve curve;
    struct charlm_cost cost;
    int failed;

    if (status != 0)
        return status;
    status = agree(rank, load_blas(rank), EXIT_FAILURE);
    if (status != 0)
        return status;
    if (rank->number == 0)
        charlm_warn_blas(&rank->blas);
    failed = charlm_train(&rank->group, rank->options, &rank->text, rank->model,
        &curve, &cost, rank->error);
    rank->number = symmcoll_group_rank(rank->group);
    rank->size = symmcoll_group_size(rank->group);
    /* The ranks of a failed group cannot agree any more. */
    if (failed != 0 && symmcoll_group_error(rank->group) != SYMMCOLL_OK)
        status = fail_alone(rank, rank->error);
    else
        status = agree(rank, failed, EXIT_FAILURE);
    if (status == 0)
        status = agree(rank,
            rank->number == 0 ? report(rank, &curve, &cost) : 0, EXIT_FAILURE);
    if (status == 0)
        status = compare_params(rank);
    free(curve.losses);
    return status;
}

static void run_rank(struct rank *rank)
{
    struct symmcoll_world *world;

    rank->plot.fd = rank->save.fd = -1;
    rank->number = rank->init.rank;
    if (symmcoll_init(&rank->init, &world) != SYMMCOLL_OK) {
        fprintf(stderr, "%s: %s\n", NAME, symmcoll_last_error());
        rank->status = EXIT_FAILURE;
        return;
    }
    rank->group = symmcoll_world_group(world);
    rank->number = symmcoll_world_rank(world);
    rank->size = symmcoll_world_size(world);
    rank->status = run_parts(rank);
    charlm_close_output(&rank->plot);
    charlm_close_output(&rank->save);
    charlm_free_model(rank->model);
    charlm_free_text(&rank->text);
    if (rank->group != symmcoll_world_group(world))
        symmcoll_group_free(rank->group);
    if (symmcoll_finalize(world) != SYMMCOLL_OK && rank->status == 0)
        rank->status = fail_alone(rank, symmcoll_last_error());
}

/* ---- processes and threads ---- */

static void *run_thread(void *arg)
{
    run_rank(arg);
    return NULL;
}

/* Runs ranks as threads, which join through a store of the process. */
static int run_threads(const struct charlm_options *options, int count)
{
    struct rank *ranks = calloc((size_t)count, sizeof(*ranks));
    struct symmcoll_store *store = NULL;
    struct charlm_blas blas;
    char error[CHARLM_ERROR_MAX];
    int status = 0, started = 0;

    charlm_choose_blas(&blas, options->use_blas);
    if (charlm_load_blas(&blas, error) != 0) {
        fprintf(stderr, "%s: %s\n", NAME, error);
        free(ranks);
        return EXIT_FAILURE;
    }
    if (ranks == NULL || symmcoll_store_create_hash(&store) != SYMMCOLL_OK) {
        fprintf(stderr, "%s: no memory for %d ranks\n", NAME, count);
        free(ranks);
        return EXIT_FAILURE;
    }
    for (; started < count; started++) {
        struct rank *rank = &ranks[started];

        rank->options = options;
        rank->blas = blas;
        rank->init = (struct symmcoll_init_args)SYMMCOLL_INIT_ARGS_INIT;
        rank->init.store = store;
        rank->init.rank = started;
        rank->init.world_size = count;
        if (pthread_create(&rank->thread, NULL, run_thread, rank) != 0) {
            /* The running ranks would wait for this one. */
            fprintf(stderr, "%s: cannot start thread %d of %d\n", NAME, started,
                count);
            exit(EXIT_FAILURE);
        }
    }
    for (int i = 0; i < count; i++) {
        pthread_join(ranks[i].thread, NULL);
        if (status == 0)
            status = ranks[i].status;
    }
    symmcoll_store_close(store);
    free(ranks);
    return status;
}

/*
 * Makes matrix products use one thread, whatever the launcher has set: ranks
 * are the parallelism here, and a product split over threads rounds
 * differently.  BLAS libraries read these variables when they are loaded, hence
 * the exec.
 */
static void use_one_thread(char **argv)
{
    static const char *const variables[] = {"OPENBLAS_NUM_THREADS",
        "OMP_NUM_THREADS", "BLIS_NUM_THREADS", "MKL_NUM_THREADS"};
    bool changed = false;

    for (size_t i = 0; i < sizeof(variables) / sizeof(variables[0]); i++) {
        const char *value = getenv(variables[i]);

        if (value == NULL || strcmp(value, "1") != 0)
            changed = setenv(variables[i], "1", 1) == 0 || changed;
    }
    if (changed)
        execv("/proc/self/exe", argv);
    /* If that fails, the program goes on: correct, but slower. */
}

/* Prints the chosen BLAS, the rejected ones, and a warning about a slow one. */
static int print_blas(const struct charlm_options *options)
{
    struct charlm_blas blas;
    struct symc_blas_candidate candidate;
    char error[CHARLM_ERROR_MAX];

    charlm_choose_blas(&blas, options->use_blas);
    if (charlm_load_blas(&blas, error) != 0) {
        fprintf(stderr, "%s: %s\n", NAME, error);
        return EXIT_FAILURE;
    }
    printf("%s", blas.name);
    if (blas.rate > 0)
        printf(", %.1f GF/s", blas.rate);
    printf(" (%s)\n", blas.path);
    if (blas.rejected[0] != '\0')
        printf("rejected: %s\n", blas.rejected);
    candidate = symc_blas_candidate(blas.candidate);
    if (blas.wanted == NULL && candidate.library != NULL)
        printf("again: --use-blas %s%s%s\n", candidate.library,
            candidate.core != NULL ? ":" : "",
            candidate.core != NULL ? candidate.core : "");
    charlm_warn_blas(&blas);
    return EXIT_SUCCESS;
}

/* Returns the exit status, or 1 if the output could not be written. */
static int close_output(int status)
{
    errno = 0;
    if (fflush(stdout) == 0 && !ferror(stdout))
        return status;
    fprintf(stderr, "%s: standard output: %s\n", NAME,
        errno != 0 ? strerror(errno) : "a part was lost");
    return status != 0 ? status : EXIT_FAILURE;
}

int main(int argc, char **argv)
{
    const char *launched = launched_rank();
    bool first = launched == NULL || strcmp(launched, "0") == 0;
    struct charlm_options options;
    char error[CHARLM_ERROR_MAX];
    struct rank rank = {.options = &options, .init = SYMMCOLL_INIT_ARGS_INIT};
    int parsed;

    use_one_thread(argv);
    parsed = charlm_parse_options(argc, argv, &options, error);
    if (parsed == 0 && options.threads > 0 && launched != NULL)
        parsed = charlm_fail(error,
            "--threads: expected to be started alone, found a launcher's "
            "variables (rank %s)",
            launched);
    if (parsed == 0 && options.kill_rank > 0 && launched == NULL)
        parsed = charlm_fail(error,
            "--kill-rank: expected ranks that are processes, found none");
    if (parsed < 0 && first)
        fprintf(stderr, "%s: %s\n", NAME, error);
    if (parsed > 0 && first)
        charlm_print_help();
    if (parsed == 0 && options.blas && first)
        return close_output(print_blas(&options));
    if (parsed > 0 || (parsed == 0 && options.blas))
        return close_output(EXIT_SUCCESS);
    if (parsed < 0)
        return EXIT_USAGE;
    if (launched == NULL)
        return close_output(
            run_threads(&options, options.threads > 0 ? options.threads : 1));
    run_rank(&rank);
    return close_output(rank.status);
}
