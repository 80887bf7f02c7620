/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The feed-forward block of a transformer, tensor-parallel: y = relu(x V) W.
 *
 * Each rank has some of the tokens (rows of x), some columns of V and the rows
 * of W that belong to them.  The first product gathers x while it multiplies;
 * the second adds up the ranks' results and leaves each rank its tokens:
 *
 *   x [tokens / ranks, width]
 *     all_gather and matmul, with V [width, hidden / ranks]
 *   h [tokens, hidden / ranks], of which relu is taken
 *     matmul, with W [hidden / ranks, width], and reduce_scatter
 *   y [tokens / ranks, width]
 *
 * Then every rank computes the whole block alone, compares its tokens, and rank
 * 0 prints both times; --plot draws them.  All numbers are small multiples of
 * powers of two: up to 2 million weights in each matrix no sum is rounded, and
 * both are equal bit by bit.
 *
 *   cc -O2 -o tensor_parallel tensor_parallel.c \
 *       $(pkg-config --cflags --libs symmcoll)
 *   symmcoll-run -n 2 ./tensor_parallel --plot times.svg
 *   ./tensor_parallel --threads 2
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <symmcoll.h>
#include <time.h>

#define STEPS_MAX 1000
#define EXACT_MAX 2097152 /* weights of a matrix: 24-bit sums */

struct options {
    int tokens, width, hidden, steps, threads;
    const char *plot;
};

/* The block, or this rank's part of it. */
struct block {
    struct symmcoll_group *group;
    struct symmcoll_tensor x, v, w, h, y;
    double times[STEPS_MAX]; /* seconds per step */
};

static double now(void)
{
    struct timespec at;

    clock_gettime(CLOCK_MONOTONIC, &at);
    return (double)at.tv_sec + (double)at.tv_nsec * 1e-9;
}

/* Returns a multiple of 1/4 from -1/2 to 1/2 that depends on both arguments. */
static float draw(int a, int b)
{
    return (float)((a * 31 + b * 17 + a % 7 * b) % 5 - 2) / 4;
}

/* ---- the block ---- */

static int make(struct symmcoll_tensor *tensor, int rows, int columns)
{
    struct symmcoll_tensor made =
        SYMMCOLL_TENSOR_SHAPE(NULL, SYMMCOLL_FLOAT32, rows, columns);

    *tensor = made;
    tensor->data = malloc((size_t)rows * (size_t)columns * sizeof(float));
    return tensor->data != NULL;
}

/* Fills a part that begins at a row and a column of the whole. */
static void fill(struct symmcoll_tensor *tensor, int seed, int row, int column)
{
    float *data = tensor->data;

    for (int i = 0; i < tensor->shape[0]; i++)
        for (int j = 0; j < tensor->shape[1]; j++)
            *data++ = draw(seed + row + i, column + j);
}

/* Makes part `rank` of `parts`. x is in symmetric memory, so that the other
 * ranks read it in place. */
static symmcoll_status_t make_block(
    struct block *block, const struct options *options, int rank, int parts)
{
    struct symmcoll_world *world = symmcoll_group_world(block->group);
    int tokens = options->tokens / parts, hidden = options->hidden / parts;
    struct symmcoll_tensor x =
        SYMMCOLL_TENSOR_SHAPE(NULL, SYMMCOLL_FLOAT32, tokens, options->width);
    struct symmcoll_symm *handle;
    symmcoll_status_t status;

    block->x = x;
    if (!make(&block->v, options->width, hidden) ||
        !make(&block->w, hidden, options->width) ||
        !make(&block->h, options->tokens, hidden) ||
        !make(&block->y, tokens, options->width))
        return SYMMCOLL_ERR_NO_MEMORY;
    status = symmcoll_symm_alloc_tensor(world, NULL, &block->x);
    if (status == SYMMCOLL_OK)
        status = symmcoll_symm_rendezvous(
            block->group, block->x.data, NULL, &handle);
    if (status != SYMMCOLL_OK)
        return status;
    symmcoll_symm_release(handle);
    fill(&block->x, 1, rank * tokens, 0);
    fill(&block->v, 2, 0, rank * hidden);
    fill(&block->w, 3, rank * hidden, 0);
    return SYMMCOLL_OK;
}

static void free_block(struct block *block)
{
    (void)symmcoll_symm_free(symmcoll_group_world(block->group), block->x.data);
    free(block->v.data);
    free(block->w.data);
    free(block->h.data);
    free(block->y.data);
}

static symmcoll_status_t compute(struct block *block)
{
    float *h = block->h.data;
    size_t count = (size_t)(block->h.shape[0] * block->h.shape[1]);
    symmcoll_status_t status = symmcoll_fused_all_gather_matmul(
        block->group, &block->x, &block->v, 1, 0, NULL, NULL, &block->h);

    if (status != SYMMCOLL_OK)
        return status;
    for (size_t i = 0; i < count; i++)
        h[i] = h[i] > 0 ? h[i] : 0;
    return symmcoll_fused_matmul_reduce_scatter(
        block->group, &block->h, &block->w, SYMMCOLL_SUM, 0, NULL, &block->y);
}

static symmcoll_status_t run(struct block *block, int steps)
{
    symmcoll_status_t status = compute(block); /* the first one is slower */

    for (int i = 0; i < steps && status == SYMMCOLL_OK; i++) {
        double start = now();

        status = compute(block);
        block->times[i] = now() - start;
    }
    return status;
}

/* ---- times ---- */

static int compare_times(const void *left, const void *right)
{
    double a = *(const double *)left, b = *(const double *)right;

    return (a > b) - (a < b);
}

static double median(const struct block *block, int steps)
{
    double times[STEPS_MAX];

    memcpy(times, block->times, (size_t)steps * sizeof(*times));
    qsort(times, (size_t)steps, sizeof(*times), compare_times);
    return times[steps / 2];
}

static void plot_line(FILE *file, const struct block *block, int steps,
    double top, const char *colour, const char *name, int ranks)
{
    double last = block->times[steps - 1];

    fprintf(file, "<polyline fill='none' stroke='%s' points='", colour);
    for (int i = 0; i < steps; i++)
        fprintf(file, "%.1f,%.1f ", 60 + 600.0 * (i + 1) / steps,
            400 - 360 * block->times[i] / top);
    fprintf(file, "'/>\n<text x='668' y='%.1f' fill='%s'>%s%d</text>\n",
        400 - 360 * last / top, colour, name, ranks);
}

/* Draws the time of each step as SVG. */
static int plot(const char *path, const struct block *part,
    const struct block *whole, int steps, int ranks)
{
    FILE *file = fopen(path, "w");
    double top = 0;
    int good;

    if (file == NULL)
        return 0;
    for (int i = 0; i < steps; i++) {
        top = part->times[i] > top ? part->times[i] : top;
        top = whole->times[i] > top ? whole->times[i] : top;
    }
    fprintf(file,
        "<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 760 450' "
        "font-family='sans-serif' font-size='13'>\n"
        "<rect width='760' height='450' fill='white'/>\n"
        "<path d='M60 40V400H660' fill='none' stroke='#888'/>\n"
        "<text x='360' y='435' text-anchor='middle'>step</text>\n"
        "<text x='54' y='404' text-anchor='end'>0</text>\n"
        "<text x='54' y='44' text-anchor='end'>%.3g</text>\n"
        "<text x='60' y='25'>time of a step, ms</text>\n",
        top * 1e3);
    plot_line(file, whole, steps, top, "#666", "ranks: ", 1);
    plot_line(file, part, steps, top, "#06c", "ranks: ", ranks);
    fprintf(file, "</svg>\n");
    good = !ferror(file);
    return fclose(file) == 0 && good;
}

/* ---- a rank ---- */

/* Returns whether this rank's tokens are those of a single rank.  If sums are
 * rounded, in another order, they may differ by 1/10000 of the largest. */
static int is_equal(const struct options *options, const struct block *part,
    const struct block *whole, int rank)
{
    size_t count = (size_t)(part->y.shape[0] * part->y.shape[1]);
    const float *mine = part->y.data;
    const float *all = (const float *)whole->y.data + (size_t)rank * count;
    double largest = 0, apart = 0;

    if ((int64_t)options->width * options->hidden <= EXACT_MAX)
        return memcmp(mine, all, count * sizeof(*mine)) == 0;
    for (size_t i = 0; i < count; i++) {
        double value = (double)all[i], difference = (double)mine[i] - value;

        value = value < 0 ? -value : value;
        difference = difference < 0 ? -difference : difference;
        largest = value > largest ? value : largest;
        apart = difference > apart ? difference : apart;
    }
    return apart <= largest / 10000;
}

static int check_options(const struct options *options, int rank, int ranks)
{
    if (options->tokens % ranks == 0 && options->hidden % ranks == 0)
        return 1;
    if (rank == 0)
        fprintf(stderr,
            "tensor_parallel: expected --tokens and --hidden to be multiples of "
            "%d ranks, found %d and %d\n",
            ranks, options->tokens, options->hidden);
    return 0;
}

/* Returns 0 if the picture could not be written. */
static int report(const struct options *options, const struct block *part,
    const struct block *whole, int ranks)
{
    double alone = median(whole, options->steps);
    double together = median(part, options->steps);

    printf("%d tokens, width %d, hidden %d: one rank %.2f ms, %d ranks %.2f "
           "ms, %.2f times as fast\n",
        options->tokens, options->width, options->hidden, alone * 1e3, ranks,
        together * 1e3, alone / together);
    if (options->plot == NULL ||
        plot(options->plot, part, whole, options->steps, ranks))
        return 1;
    fprintf(stderr, "tensor_parallel: cannot write %s\n", options->plot);
    return 0;
}

static symmcoll_status_t work(struct symmcoll_world *world, void *arg)
{
    const struct options *options = arg;
    int rank = symmcoll_world_rank(world), ranks = symmcoll_world_size(world);
    struct block *part = calloc(1, sizeof(*part));
    struct block *whole = calloc(1, sizeof(*whole));
    symmcoll_status_t status = SYMMCOLL_OK;
    int equal = 0;

    if (part == NULL || whole == NULL || !check_options(options, rank, ranks)) {
        free(part);
        free(whole);
        return SYMMCOLL_ERR_INVALID;
    }
    part->group = symmcoll_world_group(world);
    status = symmcoll_group_split(part->group, rank, 0, NULL, &whole->group);
    if (status == SYMMCOLL_OK)
        status = make_block(part, options, rank, ranks);
    if (status == SYMMCOLL_OK)
        status = make_block(whole, options, 0, 1);
    if (status == SYMMCOLL_OK)
        status = run(part, options->steps);
    /* One after the other, so that each has the machine to itself. */
    for (int r = 0; r < ranks && status == SYMMCOLL_OK; r++) {
        if (r == rank)
            status = run(whole, options->steps);
        if (status == SYMMCOLL_OK)
            status = symmcoll_barrier(part->group, NULL, NULL);
    }
    if (status == SYMMCOLL_OK) {
        equal = is_equal(options, part, whole, rank);
        printf("rank %d: the result is %s that of a single rank\n", rank,
            equal ? "equal to" : "NOT");
        if (rank == 0 && !report(options, part, whole, ranks))
            status = SYMMCOLL_ERR_SYSTEM;
    } else {
        fprintf(stderr, "%s\n", symmcoll_last_error());
    }
    if (whole->group != NULL) {
        free_block(part);
        free_block(whole);
        if (symmcoll_group_free(whole->group) != SYMMCOLL_OK)
            status = SYMMCOLL_ERR_INTERNAL;
    }
    free(part);
    free(whole);
    return status == SYMMCOLL_OK && !equal ? SYMMCOLL_ERR_INTERNAL : status;
}

/* ---- the command line ---- */

static int read_number(const char *text, int most, int *number)
{
    char *end;
    long value = strtol(text, &end, 10);

    *number = (int)value;
    return end != text && *end == '\0' && value >= 1 && value <= most;
}

static int parse(int argc, char **argv, struct options *options)
{
    for (int i = 1; i + 1 < argc; i += 2) {
        int good = 1;

        if (strcmp(argv[i], "--plot") == 0)
            options->plot = argv[i + 1];
        else if (strcmp(argv[i], "--tokens") == 0)
            good = read_number(argv[i + 1], 65536, &options->tokens);
        else if (strcmp(argv[i], "--width") == 0)
            good = read_number(argv[i + 1], 65536, &options->width);
        else if (strcmp(argv[i], "--hidden") == 0)
            good = read_number(argv[i + 1], 65536, &options->hidden);
        else if (strcmp(argv[i], "--steps") == 0)
            good = read_number(argv[i + 1], STEPS_MAX, &options->steps);
        else if (strcmp(argv[i], "--threads") == 0)
            good = read_number(argv[i + 1], 64, &options->threads);
        else
            good = 0;
        if (!good)
            return 0;
    }
    return argc % 2 == 1;
}

int main(int argc, char **argv)
{
    struct options options = {512, 512, 2048, 20, 0, NULL};
    struct symmcoll_world *world;
    symmcoll_status_t status;

    if (!parse(argc, argv, &options)) {
        fprintf(stderr,
            "usage: tensor_parallel [--threads N] [--tokens N] [--width N]\n"
            "           [--hidden N] [--steps N] [--plot FILE.svg]\n");
        return 2;
    }
    if (options.threads > 0) {
        status = symmcoll_threads_run(options.threads, work, &options, NULL);
        if (status != SYMMCOLL_OK)
            fprintf(stderr, "%s\n", symmcoll_last_error());
        return status != SYMMCOLL_OK;
    }
    if (symmcoll_init(NULL, &world) != SYMMCOLL_OK) {
        fprintf(stderr, "%s\n", symmcoll_last_error());
        return 1;
    }
    status = work(world, &options);
    return symmcoll_finalize(world) != SYMMCOLL_OK || status != SYMMCOLL_OK;
}
