/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * One training step on a mesh of 2 x 2 ranks: data parallel by rows, tensor
 * parallel by columns.
 *
 *             column 0   column 1
 *    row 0     rank 0     rank 1     samples 0 to 7
 *    row 1     rank 2     rank 3     samples 8 to 15
 *
 * The network is y = V relu(W x). Each column has half of the hidden units: the
 * rows of W that compute them, and the columns of V that use them.  So the
 * ranks of a row compute parts of y that have to be added, by a reduce_scatter
 * that leaves each of them half of its row's samples; the gradient comes back
 * through its adjoint.  The gradients of the weights are added over the ranks
 * of a column, which have the same weights and other samples.
 *
 * Then every rank gathers the weights of its row and compares them with those
 * of a step that it computes alone.  All numbers are small multiples of powers
 * of two, so that no sum is rounded and both are equal bit by bit.
 *
 *   cc -O2 -o parallel_mesh parallel_mesh.c \
 *       $(pkg-config --cflags --libs symmcoll)
 *   symmcoll-run -n 4 ./parallel_mesh
 *   ./parallel_mesh --threads
 */
#include <stdio.h>
#include <string.h>
#include <symmcoll.h>

#define INPUTS 4
#define HIDDEN 8
#define OUTPUTS 2
#define SAMPLES 16
#define SIDE 2 /* ranks per side of the mesh */
#define RATE 0.25f

/* A step of a network with `hidden` units on `samples` samples. */
struct step {
    int hidden, samples;
    float w[HIDDEN][INPUTS], v[OUTPUTS][HIDDEN];
    float x[SAMPLES][INPUTS], target[SAMPLES][OUTPUTS];
    float h[SAMPLES][HIDDEN], y[SAMPLES][OUTPUTS];
    float dy[SAMPLES][OUTPUTS]; /* loss gradient */
    float dw[HIDDEN][INPUTS], dv[OUTPUTS][HIDDEN];
};

/* Returns a multiple of 1/4 between -1 and 1 that depends on both arguments. */
static float draw(int a, int b)
{
    return (float)((a * 31 + b * 17 + a * b * 7) % 9 - 4) / 4;
}

/* ---- the network, with the units and samples of a step ---- */

static void forward(struct step *step)
{
    memset(step->y, 0, sizeof(step->y));
    for (int s = 0; s < step->samples; s++) {
        for (int j = 0; j < step->hidden; j++) {
            float sum = 0;

            for (int i = 0; i < INPUTS; i++)
                sum += step->w[j][i] * step->x[s][i];
            step->h[s][j] = sum > 0 ? sum : 0;
            for (int o = 0; o < OUTPUTS; o++)
                step->y[s][o] += step->v[o][j] * step->h[s][j];
        }
    }
}

static void backward(struct step *step)
{
    memset(step->dw, 0, sizeof(step->dw));
    memset(step->dv, 0, sizeof(step->dv));
    for (int s = 0; s < step->samples; s++) {
        for (int j = 0; j < step->hidden; j++) {
            float dh = 0;

            for (int o = 0; o < OUTPUTS; o++) {
                step->dv[o][j] += step->dy[s][o] * step->h[s][j];
                dh += step->dy[s][o] * step->v[o][j];
            }
            for (int i = 0; i < INPUTS && step->h[s][j] > 0; i++)
                step->dw[j][i] += dh * step->x[s][i];
        }
    }
}

/* Returns the gradient of half the squared error, averaged over all samples. */
static float error_of(float y, float target)
{
    return (y - target) / SAMPLES;
}

static void update(struct step *step)
{
    for (int j = 0; j < step->hidden; j++) {
        for (int i = 0; i < INPUTS; i++)
            step->w[j][i] -= RATE * step->dw[j][i];
        for (int o = 0; o < OUTPUTS; o++)
            step->v[o][j] -= RATE * step->dv[o][j];
    }
}

/* Makes a step with hidden units from `unit` on and samples from `sample`
 * on. */
static void make_step(
    struct step *step, int hidden, int unit, int samples, int sample)
{
    memset(step, 0, sizeof(*step));
    step->hidden = hidden;
    step->samples = samples;
    for (int j = 0; j < hidden; j++) {
        for (int i = 0; i < INPUTS; i++)
            step->w[j][i] = draw(unit + j, i);
        for (int o = 0; o < OUTPUTS; o++)
            step->v[o][j] = draw(o + 5, unit + j);
    }
    for (int s = 0; s < samples; s++) {
        for (int i = 0; i < INPUTS; i++)
            step->x[s][i] = draw(sample + s + 3, i + 2);
        for (int o = 0; o < OUTPUTS; o++)
            step->target[s][o] = draw(sample + s, o + 7);
    }
}

/* Takes the whole step on one rank. */
static void step_alone(struct step *step)
{
    make_step(step, HIDDEN, 0, SAMPLES, 0);
    forward(step);
    for (int s = 0; s < SAMPLES; s++)
        for (int o = 0; o < OUTPUTS; o++)
            step->dy[s][o] = error_of(step->y[s][o], step->target[s][o]);
    backward(step);
    update(step);
}

/* ---- the step on the mesh ---- */

struct mesh {
    struct symmcoll_world *world;
    struct symmcoll_group *row, *column; /* this rank's */
    int at_row, at_column;
};

/* Creates the groups of all rows and columns: all ranks create all, in the same
 * order. */
static symmcoll_status_t make_mesh(struct mesh *mesh)
{
    int rank = symmcoll_world_rank(mesh->world);

    mesh->at_row = rank / SIDE;
    mesh->at_column = rank % SIDE;
    for (int i = 0; i < 2 * SIDE; i++) {
        struct symmcoll_group_args args = SYMMCOLL_GROUP_ARGS_INIT;
        struct symmcoll_group *made;
        int is_row = i < SIDE, at = i % SIDE, ranks[SIDE];
        symmcoll_status_t status;

        for (int k = 0; k < SIDE; k++)
            ranks[k] = is_row ? at * SIDE + k : k * SIDE + at;
        args.ranks = ranks;
        args.nranks = SIDE;
        status = symmcoll_group_create(mesh->world, &args, &made);
        if (status != SYMMCOLL_OK)
            return status;
        if (is_row && at == mesh->at_row)
            mesh->row = made;
        else if (!is_row && at == mesh->at_column)
            mesh->column = made;
    }
    return SYMMCOLL_OK;
}

/* Adds the parts of y, so that each rank of the row has half of the samples; it
 * computes their errors, which are gathered by both. */
static symmcoll_status_t exchange_errors(
    const struct mesh *mesh, struct step *step)
{
    struct symmcoll_tensor parts = SYMMCOLL_TENSOR_SHAPE(
        step->y, SYMMCOLL_FLOAT32, step->samples, OUTPUTS);
    struct symmcoll_tensor dy = SYMMCOLL_TENSOR_SHAPE(
        step->dy, SYMMCOLL_FLOAT32, step->samples, OUTPUTS);
    struct symmcoll_tensor half = SYMMCOLL_TENSOR_INIT;
    struct symmcoll_adjoint *adjoint = NULL;
    int own = step->samples / SIDE, first = mesh->at_column * own;
    symmcoll_status_t status = symmcoll_f_reduce_scatter(
        mesh->row, &parts, SYMMCOLL_SUM, 0, NULL, &half, &adjoint);

    if (status == SYMMCOLL_OK)
        status = symmcoll_f_wait(mesh->world, &half, -1);
    if (status == SYMMCOLL_OK) {
        float *y = half.data;

        for (int s = 0; s < own; s++)
            for (int o = 0; o < OUTPUTS; o++)
                y[s * OUTPUTS + o] =
                    error_of(y[s * OUTPUTS + o], step->target[first + s][o]);
        status = symmcoll_adjoint_run(adjoint, &half, NULL, &dy);
    }
    if (status == SYMMCOLL_OK)
        status = symmcoll_f_wait(mesh->world, &dy, -1);
    symmcoll_adjoint_free(adjoint);
    symmcoll_f_free(mesh->world, &half);
    return status;
}

/* Adds the gradients of all samples, in place. */
static symmcoll_status_t add_gradients(
    const struct mesh *mesh, struct step *step)
{
    struct symmcoll_tensor grads[2] = {
        SYMMCOLL_TENSOR_SHAPE(step->dw, SYMMCOLL_FLOAT32, HIDDEN, INPUTS),
        SYMMCOLL_TENSOR_SHAPE(step->dv, SYMMCOLL_FLOAT32, OUTPUTS, HIDDEN)};
    symmcoll_status_t status = symmcoll_f_all_reduce_coalesced(
        mesh->column, grads, 2, SYMMCOLL_SUM, NULL, grads, NULL);

    for (int i = 0; i < 2 && status == SYMMCOLL_OK; i++)
        status = symmcoll_f_wait(mesh->world, &grads[i], -1);
    return status;
}

/* Gathers W by rows and V by columns from the ranks of a row, and compares
 * them. */
static symmcoll_status_t compare(
    const struct mesh *mesh, struct step *step, int *equal)
{
    static const int dims[2] = {0, 1};
    float v[OUTPUTS][HIDDEN / SIDE];
    struct symmcoll_tensor parts[2] = {
        SYMMCOLL_TENSOR_SHAPE(step->w, SYMMCOLL_FLOAT32, HIDDEN / SIDE, INPUTS),
        SYMMCOLL_TENSOR_SHAPE(v, SYMMCOLL_FLOAT32, OUTPUTS, HIDDEN / SIDE)};
    struct symmcoll_tensor whole[2] = {
        SYMMCOLL_TENSOR_INIT, SYMMCOLL_TENSOR_INIT};
    struct step alone;
    symmcoll_status_t status;

    for (int o = 0; o < OUTPUTS; o++)
        memcpy(v[o], step->v[o], sizeof(v[o]));
    status = symmcoll_f_all_gather_coalesced(
        mesh->row, parts, 2, dims, NULL, whole, NULL);
    for (int i = 0; i < 2 && status == SYMMCOLL_OK; i++)
        status = symmcoll_f_wait(mesh->world, &whole[i], -1);
    if (status == SYMMCOLL_OK) {
        step_alone(&alone);
        *equal = memcmp(whole[0].data, alone.w, sizeof(alone.w)) == 0 &&
                 memcmp(whole[1].data, alone.v, sizeof(alone.v)) == 0;
    }
    symmcoll_f_free(mesh->world, &whole[0]);
    symmcoll_f_free(mesh->world, &whole[1]);
    return status;
}

/* ---- a rank ---- */

static symmcoll_status_t train(struct symmcoll_world *world, void *arg)
{
    struct mesh mesh = {.world = world};
    struct step step;
    int equal = 0;
    symmcoll_status_t status;

    (void)arg;
    if (symmcoll_world_size(world) != SIDE * SIDE) {
        fprintf(stderr, "parallel_mesh: expected %d ranks, found %d\n",
            SIDE * SIDE, symmcoll_world_size(world));
        return 1;
    }
    status = make_mesh(&mesh);
    if (status == SYMMCOLL_OK) {
        make_step(&step, HIDDEN / SIDE, mesh.at_column * HIDDEN / SIDE,
            SAMPLES / SIDE, mesh.at_row * SAMPLES / SIDE);
        forward(&step);
        status = exchange_errors(&mesh, &step);
    }
    if (status == SYMMCOLL_OK) {
        backward(&step);
        status = add_gradients(&mesh, &step);
    }
    if (status == SYMMCOLL_OK) {
        update(&step);
        status = compare(&mesh, &step, &equal);
    }
    if (status != SYMMCOLL_OK) {
        fprintf(stderr, "%s\n", symmcoll_last_error());
        return status;
    }
    printf("row %d, column %d: the weights are %s those of a single rank\n",
        mesh.at_row, mesh.at_column, equal ? "equal to" : "NOT");
    return equal ? SYMMCOLL_OK : 1;
}

int main(int argc, char **argv)
{
    struct symmcoll_world *world;
    symmcoll_status_t status;

    if (argc == 2 && strcmp(argv[1], "--threads") == 0) {
        status = symmcoll_threads_run(SIDE * SIDE, train, NULL, NULL);
        if (status != SYMMCOLL_OK)
            fprintf(stderr, "%s\n", symmcoll_last_error());
        return status != SYMMCOLL_OK;
    }
    if (argc != 1) {
        fprintf(stderr, "usage: parallel_mesh [--threads]\n");
        return 2;
    }
    if (symmcoll_init(NULL, &world) != SYMMCOLL_OK) {
        fprintf(stderr, "%s\n", symmcoll_last_error());
        return 1;
    }
    status = train(world, NULL);
    return symmcoll_finalize(world) != SYMMCOLL_OK || status != SYMMCOLL_OK;
}
