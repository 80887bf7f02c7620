/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The training loop, which shows the use of the library.  Each gradient is
 * passed to the reducer as soon as it is computed, so that it is reduced while
 * the next one is computed; after finish every rank has the same average and
 * makes the same update.
 *
 * One step uses ranks * accumulate micro-batches of equal size.  The gradient
 * of each is computed separately, divided by their number, and added to the
 * others in the order of micro-batches: by the reducer within a rank, by the
 * collective over the ranks.  So R ranks with one micro-batch each, and one
 * rank with R, get bitwise the same result.
 *
 * With --shard a rank has the averages of its slices of the parameters only, and
 * the optimizer's memory for them.  After the update the slices are gathered,
 * while the next forward runs; it waits for each parameter before it uses it.
 */
#include "charlm.h"

#include <symmcoll.h>

#include <math.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#define POINTS 200      /* points of the curve, for up to 2000 steps */
#define INTERVAL_MAX 10 /* most steps per point */

/* The state of the loop.  Group, rank and size change if a rank dies. */
struct trainer {
    const struct charlm_options *options;
    const struct charlm_text *text;
    struct charlm_model *model;
    struct symmcoll_group *group;
    struct symmcoll_reducer *reducer;
    struct symmcoll_hook *hook; /* NULL: none */
    bool steps;                 /* the hook takes the steps of the optimizer */
    struct charlm_adam adam;
    int rank;
    int size;
    bool has_lost;      /* a rank has died */
    double *own_losses; /* per micro-batch since the last exchange */
    double *all_losses;
    symmcoll_status_t status; /* status of the latest library call */
    char *error;              /* detail of what ended the training */
};

static int library_fail(char *error)
{
    return charlm_fail(error, "%s", symmcoll_last_error());
}

/* Takes the optimizer's step with one average, for the hook "step". */
static symmcoll_status_t step_param(
    void *arg, int param, const struct symmcoll_tensor *grad)
{
    struct trainer *trainer = arg;

    trainer->adam.slices[param].grad = grad->data;
    charlm_step_adam(&trainer->adam, param);
    return SYMMCOLL_OK;
}

/* Sets the hook of a reducer that will be created. */
static int choose_hook(
    struct trainer *trainer, struct symmcoll_reducer_args *args, char *error)
{
    const struct charlm_options *options = trainer->options;
    struct symmcoll_hook_args hook = SYMMCOLL_HOOK_ARGS_INIT;
    struct symmcoll_powersgd_args powersgd = SYMMCOLL_POWERSGD_ARGS_INIT;

    if (options->hook == NULL)
        return 0;
    hook.name = options->hook;
    if (strcmp(hook.name, "powersgd") == 0)
        hook.powersgd = &powersgd;
    powersgd.rank = 4;
    powersgd.start = options->steps < 20 ? 2 : options->steps / 2;
    powersgd.seed = options->seed;
    trainer->steps = strcmp(hook.name, "step") == 0;
    if (trainer->steps) {
        hook.step = step_param;
        hook.step_arg = trainer;
    }
    if (symmcoll_hook_create(trainer->group, &hook, &trainer->hook) !=
        SYMMCOLL_OK)
        return library_fail(error);
    args->hook = symmcoll_hook_run;
    args->hook_end = symmcoll_hook_end;
    args->hook_arg = trainer->hook;
    return 0;
}

static int create_reducer(struct trainer *trainer, char *error)
{
    struct symmcoll_reducer_args args = SYMMCOLL_REDUCER_ARGS_INIT;
    struct symmcoll_tensor params[CHARLM_NPARAMS];
    const char *names[CHARLM_NPARAMS];

    for (int i = 0; i < CHARLM_NPARAMS; i++) {
        const struct charlm_param *param = &trainer->model->params[i];

        names[i] = param->name;
        params[i] = (struct symmcoll_tensor){
            .size = sizeof(struct symmcoll_tensor),
            .data = param->value,
            .dtype = SYMMCOLL_FLOAT32,
            .device = SYMMCOLL_HOST,
            .ndim = param->ndim,
            .shape = {param->shape[0], param->shape[1]},
            .strides = {param->ndim == 2 ? param->shape[1] : 1, 1},
        };
    }
    /* About one bucket per layer of this small model. */
    args.first_bucket_cap = 64 * 1024;
    args.bucket_cap = 256 * 1024;
    args.names = names;
    args.shard = trainer->options->shard;
    if (choose_hook(trainer, &args, error) != 0)
        return -1;
    if (symmcoll_reducer_create(trainer->group, params, CHARLM_NPARAMS, &args,
            &trainer->reducer) != SYMMCOLL_OK)
        return library_fail(error);
    return 0;
}

/* Returns the number of steps for which a rank has inputs. */
static int count_steps(const struct trainer *trainer, int rank)
{
    int steps = trainer->options->steps;

    return trainer->options->uneven ? steps - steps * rank / (2 * trainer->size)
                                    : steps;
}

/* Returns the number of characters that all ranks read in a step. */
static double count_characters(const struct trainer *trainer, int step)
{
    int active = 0;

    for (int r = 0; r < trainer->size; r++)
        active += step < count_steps(trainer, r);
    return (double)active * trainer->options->batch *
           trainer->options->accumulate;
}

/* Draws the rows of one micro-batch, the same on any rank. */
static void draw_rows(struct trainer *trainer, int step, int number)
{
    const struct charlm_set *train = &trainer->text->train;
    uint64_t key = charlm_mix(trainer->options->seed);

    key = charlm_mix(key ^ (uint64_t)step);
    key = charlm_mix(key ^ (uint64_t)number);
    for (int row = 0; row < trainer->options->batch; row++) {
        uint64_t draw = charlm_mix(key ^ (uint64_t)row) % train->count;

        charlm_set_row(trainer->model, row, trainer->text->symbols,
            train->positions[draw]);
    }
}

/* Passes a complete gradient to the reducer, which divides by the number of
 * ranks; so this divides by the number of a rank's micro-batches. */
static int pass_gradient(void *arg, int number)
{
    struct trainer *trainer = arg;
    struct charlm_param *param = &trainer->model->params[number];
    float share = (float)(1.0 / trainer->options->accumulate);

    if (trainer->options->accumulate > 1)
        for (size_t i = 0; i < param->count; i++)
            param->grad[i] *= share;
    trainer->status =
        symmcoll_reducer_ready(trainer->reducer, number, param->grad);
    return trainer->status == SYMMCOLL_OK ? 0 : -1;
}

/* Runs forward and backward of this rank's micro-batches; only the last
 * backward communicates. */
static int run_micro_batches(struct trainer *trainer, int step, double *losses)
{
    int accumulate = trainer->options->accumulate;

    for (int a = 0; a < accumulate; a++) {
        draw_rows(trainer, step, trainer->rank * accumulate + a);
        losses[a] = charlm_forward(trainer->model, trainer->options->batch) /
                    trainer->options->batch;
        if (trainer->status != SYMMCOLL_OK)
            return -1;
        trainer->status =
            symmcoll_reducer_begin(trainer->reducer, a == accumulate - 1);
        if (trainer->status != SYMMCOLL_OK ||
            charlm_backward(trainer->model, pass_gradient, trainer) != 0)
            return -1;
        trainer->status = symmcoll_reducer_finish(trainer->reducer);
        if (trainer->status != SYMMCOLL_OK)
            return -1;
    }
    return 0;
}

/* Returns the learning rate: linear warm-up over a tenth of the steps, at most
 * 100, then cosine decay. */
static double learning_rate(const struct charlm_options *options, int step)
{
    const double pi = 3.14159265358979323846, least = 0.02;
    int warm = options->steps / 10 < 100 ? options->steps / 10 : 100;
    double share;

    if (step < warm)
        return options->learning_rate * (step + 1) / warm;
    share = (double)(step - warm) / (options->steps - warm);
    return options->learning_rate *
           (least + (1.0 - least) * 0.5 * (1.0 + cos(pi * share)));
}

/* Finds the elements that this rank updates, and their gradients: all, or its
 * slices. */
static int find_slices(struct trainer *trainer)
{
    struct charlm_adam *adam = &trainer->adam;
    bool shard = trainer->options->shard;

    adam->nslices =
        shard ? symmcoll_reducer_shard_count(trainer->reducer) : CHARLM_NPARAMS;
    for (int i = 0; i < adam->nslices; i++) {
        struct charlm_slice *slice = &adam->slices[i];
        struct symmcoll_shard own = SYMMCOLL_SHARD_INIT;
        struct symmcoll_tensor grad = SYMMCOLL_TENSOR_INIT;

        trainer->status =
            shard ? symmcoll_reducer_shard(trainer->reducer, i, &own)
                  : symmcoll_reducer_grad(trainer->reducer, i, &grad);
        if (trainer->status != SYMMCOLL_OK)
            return -1;
        slice->value = shard ? own.data : trainer->model->params[i].value;
        slice->grad = shard ? own.grad : grad.data;
        slice->count = shard ? own.count : trainer->model->params[i].count;
    }
    return 0;
}

/* Waits until a parameter has been gathered, before forward uses it. */
static int await_param(void *arg, int number)
{
    struct trainer *trainer = arg;

    trainer->status = symmcoll_reducer_gather_wait(trainer->reducer, number);
    return trainer->status == SYMMCOLL_OK ? 0 : -1;
}

static int take_step(struct trainer *trainer)
{
    if (find_slices(trainer) != 0)
        return -1;
    for (int i = 0; !trainer->steps && i < trainer->adam.nslices; i++)
        charlm_step_adam(&trainer->adam, i);
    if (trainer->options->shard)
        trainer->status = symmcoll_reducer_gather(trainer->reducer);
    else
        symmcoll_reducer_zero(trainer->reducer);
    return trainer->status == SYMMCOLL_OK ? 0 : -1;
}

static int add_times(struct trainer *trainer, struct charlm_cost *cost)
{
    struct symmcoll_reducer_times times = {.size = sizeof(times)};

    trainer->status = symmcoll_reducer_get_times(trainer->reducer, &times);
    if (trainer->status != SYMMCOLL_OK)
        return -1;
    cost->comm += times.comm;
    cost->exposed += times.exposed;
    return 0;
}

/* ---- death of a rank ---- */

/* Kills a rank before its step.  The others have ended the step before. */
static int lose_rank(struct trainer *trainer, int step)
{
    const struct charlm_options *options = trainer->options;

    if (options->kill_rank == 0 || trainer->has_lost ||
        options->at_step != step)
        return 0;
    trainer->status = symmcoll_barrier(trainer->group, NULL, NULL);
    if (trainer->status == SYMMCOLL_OK && trainer->rank == options->kill_rank)
        raise(SIGKILL);
    return trainer->status == SYMMCOLL_OK ? 0 : -1;
}

/*
 * Goes on after a death, in a group of the other ranks.  The reducer drops the
 * gradients of the step, which is repeated; all ranks must have stopped in the
 * same one, because a step of the optimizer cannot be taken back.
 */
static int recover(struct trainer *trainer, int step)
{
    int steps[2] = {step, -step};
    struct symmcoll_group *left;

    if (trainer->options->kill_rank == 0 || trainer->has_lost ||
        symmcoll_group_error(trainer->group) != SYMMCOLL_ERR_PEER)
        return -1;
    trainer->status = symmcoll_group_shrink(trainer->group, NULL, &left, NULL);
    if (trainer->status != SYMMCOLL_OK)
        return -1;
    trainer->has_lost = true;
    trainer->group = left;
    trainer->rank = symmcoll_group_rank(left);
    trainer->size = symmcoll_group_size(left);
    trainer->status = symmcoll_reducer_move(trainer->reducer, left, 0);
    if (trainer->status == SYMMCOLL_OK)
        trainer->status = symmcoll_all_reduce(
            left, steps, steps, 2, SYMMCOLL_INT32, SYMMCOLL_MAX, NULL, NULL);
    if (trainer->status == SYMMCOLL_OK && steps[0] != -steps[1])
        return charlm_fail(trainer->error,
            "a rank has died: expected the others in one step, found some in "
            "step %d and some in step %d",
            -steps[1], steps[0]);
    return trainer->status == SYMMCOLL_OK ? 0 : -1;
}

/* ---- the loop ---- */

/*
 * Computes the mean loss of the latest steps over all ranks; with uneven inputs
 * that of rank 0, on rank 0.  The losses are gathered by micro-batch and added in
 * a fixed order, so the mean is bitwise the same however the micro-batches are
 * divided among ranks.
 */
static int exchange_losses(struct trainer *trainer, int nsteps, double *mean)
{
    int accumulate = trainer->options->accumulate;
    size_t count = (size_t)nsteps * (size_t)accumulate;
    int size = trainer->options->uneven ? 1 : trainer->size;
    double sum = 0.0;

    if (trainer->options->uneven)
        memcpy(
            trainer->all_losses, trainer->own_losses, count * sizeof(double));
    else
        trainer->status =
            symmcoll_all_gather(trainer->group, trainer->all_losses,
                trainer->own_losses, count, SYMMCOLL_FLOAT64, NULL, NULL);
    if (trainer->status != SYMMCOLL_OK)
        return -1;
    for (int step = 0; step < nsteps; step++)
        for (int r = 0; r < size; r++)
            for (int a = 0; a < accumulate; a++)
                sum += trainer->all_losses[(size_t)r * count +
                                           (size_t)(step * accumulate + a)];
    *mean = sum / ((double)count * size);
    return 0;
}

static int run_steps(struct trainer *trainer, struct charlm_curve *curve,
    struct charlm_cost *cost)
{
    const struct charlm_options *options = trainer->options;
    struct charlm_progress progress;
    int status = 0, pending = 0, steps = count_steps(trainer, trainer->rank);

    charlm_begin_progress(&progress);
    for (int step = 0; status == 0 && step < steps; step++) {
        double mean;

        status = lose_rank(trainer, step);
        charlm_begin_adam(&trainer->adam, step, learning_rate(options, step));
        if (status == 0)
            status = run_micro_batches(trainer, step,
                trainer->own_losses +
                    (size_t)pending * (size_t)options->accumulate);
        if (status != 0 && recover(trainer, step) == 0) {
            status = 0;
            step--;
            continue;
        }
        cost->characters += count_characters(trainer, step);
        if (status == 0)
            status = take_step(trainer);
        if (status == 0)
            status = add_times(trainer, cost);
        pending++;
        if (status != 0 || (pending < curve->interval && step + 1 < steps))
            continue;
        status = exchange_losses(trainer, pending, &mean);
        pending = 0;
        if (status == 0) {
            curve->losses[curve->count++] = (float)mean;
            if (trainer->rank == 0)
                charlm_show_progress(
                    &progress, step + 1, options, trainer->size, mean);
        }
    }
    if (trainer->rank == 0)
        charlm_end_progress(&progress);
    cost->seconds = charlm_now() - progress.begun;
    if (status != 0 && trainer->status != SYMMCOLL_OK)
        (void)library_fail(trainer->error);
    return status;
}

/* Trains with fewer inputs on later ranks: one that has no more takes part in the
 * passes of the others in symmcoll_join_end(). */
static int run_uneven_steps(struct trainer *trainer, struct charlm_curve *curve,
    struct charlm_cost *cost)
{
    struct symmcoll_join *join;
    int status;

    if (symmcoll_join_begin(&trainer->reducer, 1, NULL, &join) != SYMMCOLL_OK)
        return library_fail(trainer->error);
    status = run_steps(trainer, curve, cost);
    if (symmcoll_join_end(join) != SYMMCOLL_OK && status == 0)
        return library_fail(trainer->error);
    return status;
}

/* Allocates memory for the losses, of this rank and of all ranks. */
static int allocate(struct trainer *trainer, struct charlm_curve *curve)
{
    size_t points, count;

    curve->interval = (trainer->options->steps + POINTS - 1) / POINTS;
    if (curve->interval > INTERVAL_MAX)
        curve->interval = INTERVAL_MAX;
    points = (size_t)(trainer->options->steps / curve->interval) + 1;
    count = (size_t)curve->interval * (size_t)trainer->options->accumulate;
    curve->losses = calloc(points, sizeof(*curve->losses));
    trainer->own_losses = calloc(count, sizeof(double));
    trainer->all_losses = calloc(count * (size_t)trainer->size, sizeof(double));
    return curve->losses != NULL && trainer->own_losses != NULL &&
                   trainer->all_losses != NULL
               ? 0
               : -1;
}

/* Creates the reducer and the optimizer, for the slices of this rank. */
static int create(struct trainer *trainer, struct charlm_cost *cost)
{
    if (create_reducer(trainer, trainer->error) != 0)
        return -1;
    if (find_slices(trainer) != 0)
        return library_fail(trainer->error);
    if (charlm_create_adam(&trainer->adam) != 0)
        return charlm_fail(trainer->error, "no memory for the optimizer");
    cost->state = trainer->adam.nbytes;
    if (trainer->options->shard) {
        trainer->model->need = await_param;
        trainer->model->need_arg = trainer;
    }
    return 0;
}

/* Waits for the parameters of the last step. */
static int await_params(struct trainer *trainer)
{
    for (int i = 0; trainer->options->shard && i < CHARLM_NPARAMS; i++)
        if (await_param(trainer, i) != 0)
            return library_fail(trainer->error);
    return 0;
}

int charlm_train(struct symmcoll_group **group,
    const struct charlm_options *options, const struct charlm_text *text,
    struct charlm_model *model, struct charlm_curve *curve,
    struct charlm_cost *cost, char *error)
{
    struct trainer trainer = {.options = options,
        .text = text,
        .model = model,
        .group = *group,
        .error = error,
        .rank = symmcoll_group_rank(*group),
        .size = symmcoll_group_size(*group)};
    int status;

    *curve = (struct charlm_curve){0};
    *cost = (struct charlm_cost){0};
    if (allocate(&trainer, curve) != 0) {
        status = charlm_fail(error, "no memory to train in");
    } else {
        status = create(&trainer, cost);
        if (status == 0)
            status = options->uneven ? run_uneven_steps(&trainer, curve, cost)
                                     : run_steps(&trainer, curve, cost);
        if (status == 0)
            status = await_params(&trainer);
    }
    *group = trainer.group;
    model->need = NULL;
    symmcoll_reducer_free(trainer.reducer);
    symmcoll_hook_free(trainer.hook);
    charlm_free_adam(&trainer.adam);
    free(trainer.own_losses);
    free(trainer.all_losses);
    return status;
}
