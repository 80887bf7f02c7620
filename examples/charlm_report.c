/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the user sees: the progress line and the summary.
 */
#include "charlm.h"

#include <stdlib.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define BIGRAM 1 /* orders of the tables */
#define LONG_ORDER 6
#define SAMPLE 400 /* characters */

double charlm_now(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (double)ts.tv_sec + 1e-9 * (double)ts.tv_nsec;
}

/* ---- progress ---- */

/* Whether there is a terminal: ours, or at the end of the pipe to symmcoll-run.
 */
static bool find_terminal(void)
{
    struct stat st;

    if (isatty(STDOUT_FILENO) == 1)
        return true;
    return getenv("SYMMCOLL_RUN_TTY") != NULL &&
           fstat(STDOUT_FILENO, &st) == 0 && S_ISFIFO(st.st_mode);
}

void charlm_begin_progress(struct charlm_progress *progress)
{
    progress->terminal = find_terminal();
    progress->begun = charlm_now();
    progress->shown = progress->begun;
    progress->tenths = -1;
}

void charlm_show_progress(struct charlm_progress *progress, int step,
    const struct charlm_options *options, int ranks, double loss)
{
    double now = charlm_now(), seconds = now - progress->begun;
    double characters =
        (double)step * options->batch * options->accumulate * ranks;
    double left = seconds / step * (options->steps - step);
    int tenths = (int)(10LL * step / options->steps);
    bool due = progress->terminal ? now - progress->shown >= 0.1
                                  : tenths > progress->tenths;

    if (!due && step < options->steps)
        return;
    progress->shown = now;
    progress->tenths = tenths;
    /* The cursor waits at the beginning of the line, for the next one. */
    printf("step %d of %d   loss %.3f   %.0f characters/s   %.0f s left%s",
        step, options->steps, loss, characters / seconds, left,
        progress->terminal ? "\033[K\r" : "\n");
    fflush(stdout);
}

void charlm_end_progress(const struct charlm_progress *progress)
{
    if (progress->terminal) {
        putchar('\n');
        fflush(stdout);
    }
}

/* ---- summary ---- */

int charlm_score(struct charlm_model *model, const struct charlm_text *text,
    struct charlm_scores *scores, char *error)
{
    scores->blocks[0] = charlm_mean_loss(model, text, &text->blocks);
    scores->licence[0] = charlm_mean_loss(model, text, &text->licence);
    if (charlm_count_losses(
            text, BIGRAM, &scores->blocks[1], &scores->licence[1]) != 0 ||
        charlm_count_losses(
            text, LONG_ORDER, &scores->blocks[2], &scores->licence[2]) != 0)
        return charlm_fail(error, "no memory to count in");
    return 0;
}

static void print_scores(
    const char *name, const struct charlm_set *set, const double *losses)
{
    if (set->count > 0)
        printf("  %-22s %9zu %9.3f %9.3f %9.3f\n", name, set->count, losses[0],
            losses[1], losses[2]);
    else
        printf("  %-22s %9d %9s %9s %9s\n", name, 0, "-", "-", "-");
}

/* A text that the network writes, begun with one that it has not learned. */
static void print_sample(
    struct charlm_model *model, const struct charlm_text *text, uint64_t seed)
{
    const struct charlm_set *set =
        text->blocks.count > 0 ? &text->blocks : &text->train;
    char sample[SAMPLE];

    charlm_generate(model, text, set->positions[0], seed, sample, SAMPLE);
    printf("\nwhat it writes:\n  ");
    for (int i = 0; i < SAMPLE; i++) {
        unsigned char c = (unsigned char)sample[i];

        if (c == '\n')
            printf("\n  ");
        else
            putchar(c >= 32 && c < 127 ? c : '?');
    }
    putchar('\n');
}

void charlm_print_summary(const struct charlm_options *options, int ranks,
    const struct charlm_text *text, struct charlm_model *model,
    const struct charlm_blas *blas, const struct charlm_cost *cost,
    const struct charlm_scores *scores)
{
    /* Communication may begin in one step's backward only; what is not exposed
     * was hidden behind computation. */
    double hidden = cost->comm > cost->exposed ? cost->comm - cost->exposed : 0;
    double percent = 100.0 / cost->seconds;

    printf(
        "\ntext           %d files, %zu characters, %d different; %zu to learn "
        "from\n",
        text->nfiles, text->length, text->vocab, text->train.count);
    printf("network        %zu parameters, sees %d characters\n",
        charlm_count_params(model), model->shape.context);
    printf("training       %d steps of %d x %d x %d characters (ranks, "
           "micro-batches, batch)\n",
        options->steps, ranks, options->accumulate, options->batch);
    printf("               %.1f s, %.0f characters/s\n", cost->seconds,
        cost->characters / cost->seconds);
    printf("blas           %s\n", blas->name);
    printf("communication  %.1f%% of the time behind computation, %.1f%% "
           "exposed\n",
        percent * hidden, percent * cost->exposed);
    printf("\nheld out, nats a character:\n  %-22s %9s %9s %9s %9s\n", "",
        "count", "network", "bigram", "order 6");
    print_scores("every tenth kilobyte", &text->blocks, scores->blocks);
    print_scores("MPL-2.0, whole", &text->licence, scores->licence);
    print_sample(model, text, options->seed);
}
