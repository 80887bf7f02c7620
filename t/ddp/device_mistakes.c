/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Tests the gradient reducer with parameters or gradients in the wrong memory,
 * and without memory.
 */
#include "t/ddp/alone.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PARAMS 3

struct model {
    struct symmcoll_tensor params[PARAMS];
    float values[4];
    int device, next; /* of this rank, and of the next */
};

/* Creates a model on this rank's device. */
static void make_model(struct model *model, int rank)
{
    const struct symmcoll_tensor param = SYMMCOLL_TENSOR_FLAT(NULL, 4, F32);

    memset(model, 0, sizeof(*model));
    model->next = device_use(rank + 1);
    model->device = device_use(rank);
    for (int p = 0; p < PARAMS; p++) {
        model->params[p] = param;
        model->params[p].data = device_alloc(sizeof(model->values));
        model->params[p].device = SYMMCOLL_CUDA;
        model->params[p].device_index = model->device;
    }
}

static void free_model(struct model *model)
{
    for (int p = 0; p < PARAMS; p++)
        device_free(model->params[p].data);
}

static int is_refused(struct symmcoll_group *group,
    const struct symmcoll_tensor *params, symmcoll_status_t status,
    const char *why)
{
    static const char *const names[PARAMS] = {"first", "second", "third"};
    struct symmcoll_reducer_args args = SYMMCOLL_REDUCER_ARGS_INIT;
    struct symmcoll_reducer *reducer = NULL;
    symmcoll_status_t found;

    args.names = names;
    found = symmcoll_reducer_create(group, params, PARAMS, &args, &reducer);
    return ended(found, status, why) && reducer == NULL;
}

/* ---- parameters ---- */

static int two_devices(struct symmcoll_group *group, int rank)
{
    struct model model;
    void *kept;
    char why[160];
    int right;

    make_model(&model, rank);
    kept = model.params[2].data;
    model.params[2].device_index = device_use(rank + 1);
    model.params[2].data = device_alloc(sizeof(model.values));
    device_use(rank);
    snprintf(why, sizeof(why),
        "reducer: parameter 2 (third): expected device memory of device %d, as "
        "of parameter 0 (first), found device memory of device %d",
        model.device, model.next);
    right = is_refused(group, model.params, SYMMCOLL_ERR_INVALID, why);
    device_free(model.params[2].data);
    model.params[2].data = kept;
    free_model(&model);
    return right;
}

static int two_memories(struct symmcoll_group *group, int rank)
{
    struct model model;
    struct symmcoll_tensor kept;
    int right;

    make_model(&model, rank);
    kept = model.params[1];
    model.params[1].device = SYMMCOLL_HOST;
    model.params[1].device_index = 0;
    model.params[1].data = model.values;
    right = is_refused(group, model.params, SYMMCOLL_ERR_INVALID,
        "parameter 1 (second): expected device memory of device");
    model.params[1] = kept;
    free_model(&model);
    return right;
}

/* Passes tensors that are not in the memory that they claim. */
static int false_places(struct symmcoll_group *group, int rank)
{
    struct model model;
    void *kept;
    int right;

    make_model(&model, rank);
    kept = model.params[1].data;
    model.params[1].data = model.values;
    right =
        is_refused(group, model.params, SYMMCOLL_ERR_INVALID, "in host memory");
    model.params[1].data = kept;
    for (int p = 0; p < PARAMS; p++) {
        model.params[p].device = SYMMCOLL_HOST;
        model.params[p].device_index = 0;
    }
    right =
        right && is_refused(group, model.params, SYMMCOLL_ERR_INVALID,
                     "reducer: parameter 0 (first): expected a tensor in host "
                     "memory");
    model.params[0].device = SYMMCOLL_META;
    right = right && is_refused(group, model.params, SYMMCOLL_ERR_UNSUPPORTED,
                         "found a tensor of kind 2");
    model.params[0].device = SYMMCOLL_CUDA;
    model.params[0].device_index = -1;
    right = right &&
            is_refused(group, model.params, SYMMCOLL_ERR_INVALID, "found -1");
    free_model(&model);
    return right;
}

/* The group's first operation was on another device. */
static int another_device(struct symmcoll_group *group, int rank)
{
    struct model model;
    float *at;
    int right;

    device_use(rank + 1);
    at = device_alloc(sizeof(*at));
    right = symmcoll_all_reduce(group, at, at, 1, F32, SUM, NULL, NULL) ==
            SYMMCOLL_OK;
    device_wait(NULL);
    make_model(&model, rank);
    right = right && is_refused(group, model.params, SYMMCOLL_ERR_INVALID,
                         "reducer: expected parameters on device");
    free_model(&model);
    device_use(rank + 1);
    device_free(at);
    return right;
}

/* Rank 1 has its model in host memory. */
static int ranks_differ(struct symmcoll_group *group, int rank)
{
    struct symmcoll_tensor kept[PARAMS];
    struct model model;
    float values[PARAMS][4] = {{0}};
    int right;

    make_model(&model, rank);
    memcpy(kept, model.params, sizeof(kept));
    for (int p = 0; rank == 1 && p < PARAMS; p++) {
        model.params[p].device = SYMMCOLL_HOST;
        model.params[p].device_index = 0;
        model.params[p].data = values[p];
    }
    right = is_refused(group, model.params, SYMMCOLL_ERR_MISMATCH,
        "reducer: memory of parameters: rank 1 has that of the host, rank 0 "
        "that of a device");
    memcpy(model.params, kept, sizeof(kept));
    free_model(&model);
    return right;
}

/* ---- gradients ---- */

static int readies(
    struct symmcoll_reducer *reducer, const void *grad, const char *why)
{
    return ended(symmcoll_reducer_ready(reducer, 0, grad), SYMMCOLL_ERR_INVALID,
               why) &&
           strstr(symmcoll_last_error(), "reducer_ready: parameter 0") != NULL;
}

/* Passes invalid gradients: each is refused, and the pass continues with a
 * valid one. */
static int false_gradients(struct symmcoll_group *group, int rank)
{
    struct alone alone;
    float on_host[ALONE_COUNT];
    void *other;
    int right = alone_begin(&alone, group, rank, NULL);

    device_use(rank + 1);
    other = device_alloc(sizeof(on_host));
    device_use(rank);
    right =
        right && symmcoll_reducer_begin(alone.reducer, 1) == SYMMCOLL_OK &&
        readies(alone.reducer, on_host, "in host memory") &&
        readies(alone.reducer, other, "its gradient: expected a tensor in") &&
        readies(alone.reducer, (char *)alone.grad + 2,
            "expected a gradient at a multiple of 4") &&
        symmcoll_reducer_ready(alone.reducer, 0, alone.grad) == SYMMCOLL_OK &&
        ended(symmcoll_reducer_finish(alone.reducer), SYMMCOLL_ERR_INVALID,
            "a gradient was refused: ");
    device_use(rank + 1);
    device_free(other);
    device_use(rank);
    return alone_end(&alone, right);
}

/* Checks that the reducer of host memory refuses a gradient on a device. */
static int gradient_on_device(struct symmcoll_group *group, int rank)
{
    float value[4] = {0};
    struct symmcoll_tensor param = SYMMCOLL_TENSOR_FLAT(value, 4, F32);
    struct symmcoll_reducer *reducer = NULL;
    void *grad;
    int right;

    device_use(rank);
    grad = device_alloc(sizeof(value));
    right = symmcoll_reducer_create(group, &param, 1, NULL, &reducer) ==
                SYMMCOLL_OK &&
            symmcoll_reducer_begin(reducer, 1) == SYMMCOLL_OK &&
            readies(reducer, grad, "expected a tensor in host memory") &&
            ended(symmcoll_reducer_finish(reducer), SYMMCOLL_ERR_INVALID,
                "a gradient was refused: ");
    symmcoll_reducer_free(reducer);
    device_free(grad);
    return right;
}

/* Returns whether the driver, which fails all queries of memory, is queried
 * about that of a gradient: the gradient is then refused. The pass has no
 * operations, which would query it, too. */
static int asks(struct symmcoll_reducer *reducer, const float *grad)
{
    symmcoll_status_t status = symmcoll_reducer_begin(reducer, 0);

    fake_configure("fail=cuPointerGetAttributes:0:2");
    if (status == SYMMCOLL_OK)
        status = symmcoll_reducer_ready(reducer, 0, grad);
    fake_configure("");
    return symmcoll_reducer_finish(reducer) != SYMMCOLL_OK ||
           status != SYMMCOLL_OK;
}

/* Checks that host memory which was passed before is not queried again. */
static int asked_once(struct symmcoll_group *group, int rank)
{
    float value[4] = {0}, grads[2][4] = {{0}};
    struct symmcoll_tensor param = SYMMCOLL_TENSOR_FLAT(value, 4, F32);
    struct symmcoll_reducer *reducer = NULL;
    void *other;
    int right;

    device_use(rank);
    other = device_alloc(sizeof(value)); /* device memory has been found */
    right = symmcoll_reducer_create(group, &param, 1, NULL, &reducer) ==
                SYMMCOLL_OK &&
            symmcoll_reducer_begin(reducer, 1) == SYMMCOLL_OK &&
            readies(reducer, other, "expected a tensor in host memory") &&
            symmcoll_reducer_ready(reducer, 0, grads[0]) == SYMMCOLL_OK &&
            ended(symmcoll_reducer_finish(reducer), SYMMCOLL_ERR_INVALID,
                "a gradient was refused: ") &&
            say(!asks(reducer, grads[0]), "not asked about what is known") &&
            say(asks(reducer, grads[1]), "asked about other memory");
    symmcoll_reducer_free(reducer);
    device_free(other);
    return right;
}

/* ---- failures of the driver ---- */

/* Makes each allocation of a reducer, and of its rebuilding, fail. */
static int no_memory_with(struct symmcoll_group *group, int rank,
    symmcoll_bucket_fn hook, const char *setting, const char *text)
{
    struct symmcoll_reducer_args args = SYMMCOLL_REDUCER_ARGS_INIT;
    struct symmcoll_reducer *reducer = NULL;
    struct model model;
    int right, live;

    make_model(&model, rank);
    args.no_init_sync = 1;
    args.hook = hook;
    live = fake_live(FAKE_ALLOCATED);
    fake_configure(setting);
    right = ended(
        symmcoll_reducer_create(group, model.params, PARAMS, &args, &reducer),
        SYMMCOLL_ERR_NO_MEMORY, text);
    device_wait(NULL);
    right = right &&
            say(fake_live(FAKE_ALLOCATED) == live, "nothing is left") &&
            symmcoll_reducer_create(
                group, model.params, PARAMS, &args, &reducer) == SYMMCOLL_OK &&
            symmcoll_reducer_begin(reducer, 1) == SYMMCOLL_OK &&
            symmcoll_reducer_finish(reducer) == SYMMCOLL_OK;
    fake_configure(setting);
    right = right &&
            ended(symmcoll_reducer_begin(reducer, 1), SYMMCOLL_ERR_NO_MEMORY,
                text) &&
            say(symmcoll_reducer_begin(reducer, 1) == SYMMCOLL_OK &&
                    symmcoll_reducer_finish(reducer) == SYMMCOLL_OK,
                "a second attempt");
    symmcoll_reducer_free(reducer);
    device_wait(NULL);
    right = right && say(fake_live(FAKE_ALLOCATED) == live, "all is freed");
    free_model(&model);
    return right;
}

static int no_memory(struct symmcoll_group *group, int rank)
{
    return no_memory_with(group, rank, NULL, "fail=cuMemAllocFromPoolAsync:1:2",
               "reducer: a bucket: cuMemAllocFromPoolAsync") &&
           no_memory_with(group, rank, symmcoll_hook_fp16_compress,
               "fail=cuMemAllocFromPoolAsync:2:2",
               "reducer: a bucket in 16 bits: cuMemAllocFromPoolAsync");
}

/* One rank has no memory: all get an error, none has a reducer or changed
 * buckets, and all may try again. */
static int no_memory_on_one(struct symmcoll_group *group, int rank)
{
    static const char fail_one[] = "fail=cuMemAllocFromPoolAsync:1:2",
                      why[] = "reducer: rank 1: reducer: a bucket: cuMemAlloc";
    struct symmcoll_reducer_args args = SYMMCOLL_REDUCER_ARGS_INIT;
    struct symmcoll_reducer *reducer = NULL;
    struct model model;
    int right;

    make_model(&model, rank);
    args.bucket_cap = sizeof(model.values);
    if (rank == 1)
        fake_configure(fail_one);
    right = ended(symmcoll_reducer_create(
                      group, model.params, PARAMS, &args, &reducer),
                SYMMCOLL_ERR_NO_MEMORY, why) &&
            reducer == NULL &&
            symmcoll_reducer_create(
                group, model.params, PARAMS, &args, &reducer) == SYMMCOLL_OK &&
            symmcoll_reducer_begin(reducer, 1) == SYMMCOLL_OK &&
            symmcoll_reducer_finish(reducer) == SYMMCOLL_OK;
    if (rank == 1)
        fake_configure(fail_one);
    right = right &&
            ended(symmcoll_reducer_begin(reducer, 1), SYMMCOLL_ERR_NO_MEMORY,
                why) &&
            say(symmcoll_reducer_bucket_count(reducer) == 1, "one bucket") &&
            say(symmcoll_reducer_begin(reducer, 1) == SYMMCOLL_OK &&
                    symmcoll_reducer_finish(reducer) == SYMMCOLL_OK &&
                    symmcoll_reducer_bucket_count(reducer) == PARAMS,
                "a second attempt");
    symmcoll_reducer_free(reducer);
    device_wait(NULL);
    free_model(&model);
    return right;
}

static int powersgd_is_refused(struct symmcoll_group *group, int rank)
{
    struct symmcoll_powersgd_args options = SYMMCOLL_POWERSGD_ARGS_INIT;
    struct symmcoll_reducer_args args = SYMMCOLL_REDUCER_ARGS_INIT;
    struct symmcoll_powersgd *state = NULL;
    struct alone alone = {0};
    char why[160];
    int right;

    if (symmcoll_powersgd_create(group, &options, &state) != SYMMCOLL_OK)
        return say(0, "a state");
    args.hook = symmcoll_hook_powersgd;
    args.hook_end = symmcoll_hook_powersgd_end;
    args.hook_arg = state;
    right = alone_begin(&alone, group, rank, &args);
    snprintf(why, sizeof(why),
        "hook_powersgd: expected gradients in host memory, found them on "
        "device %d",
        alone.param.device_index);
    right = right && symmcoll_reducer_begin(alone.reducer, 1) == SYMMCOLL_OK;
    if (right) {
        alone_enqueue(&alone, 1.0f);
        right = ended(symmcoll_reducer_ready(alone.reducer, 0, alone.grad),
            SYMMCOLL_ERR_UNSUPPORTED, why);
    }
    right = alone_end(&alone, right);
    symmcoll_powersgd_free(state);
    return right;
}

static int lossy_hooks_are_refused(struct symmcoll_group *group, int rank)
{
    static const char *const names[] = {
        "quantize_tensor", "quantize_channel", "top_k", "one_bit"};
    struct symmcoll_hook_args named = SYMMCOLL_HOOK_ARGS_INIT;
    struct symmcoll_reducer_args args = SYMMCOLL_REDUCER_ARGS_INIT;
    int right = 1;

    args.hook = symmcoll_hook_run;
    args.hook_end = symmcoll_hook_end;
    for (int i = 0; right && i < 4; i++) {
        /* The first pass of the last two averages. */
        int passes = i < 2 ? 0 : 1;
        struct symmcoll_hook *hook = NULL;
        struct alone alone = {0};

        named.name = names[i];
        right = symmcoll_hook_create(group, &named, &hook) == SYMMCOLL_OK;
        args.hook_arg = hook;
        right = right && alone_begin(&alone, group, rank, &args);
        for (int pass = 0; right && pass <= passes; pass++) {
            right = symmcoll_reducer_begin(alone.reducer, 1) == SYMMCOLL_OK;
            alone_enqueue(&alone, 1.0f);
            if (pass < passes)
                right = right &&
                        symmcoll_reducer_ready(alone.reducer, 0, alone.grad) ==
                            SYMMCOLL_OK &&
                        symmcoll_reducer_finish(alone.reducer) == SYMMCOLL_OK;
            else
                right = right && ended(symmcoll_reducer_ready(
                                           alone.reducer, 0, alone.grad),
                                     SYMMCOLL_ERR_UNSUPPORTED,
                                     "expected gradients in host memory, found "
                                     "them on device");
        }
        right = alone_end(&alone, right);
        symmcoll_hook_free(hook);
    }
    return right;
}

/* Rank 1 has no memory for a move, which all repeat: it still looks for unused
 * parameters, as the others do. */
static int no_memory_to_move(struct symmcoll_group *group, int rank)
{
    struct symmcoll_reducer_args args = SYMMCOLL_REDUCER_ARGS_INIT;
    struct symmcoll_reducer *reducer = NULL;
    struct model model;
    int right, used = 1;

    make_model(&model, rank);
    args.find_unused = 1;
    args.buffers = &model.params[PARAMS - 1];
    args.nbuffers = 1;
    right = say(symmcoll_reducer_create(group, model.params, PARAMS - 1, &args,
                    &reducer) == SYMMCOLL_OK,
        "a reducer");
    if (rank == 1)
        fake_configure("fail=cuMemAllocFromPoolAsync:1:2");
    right =
        right &&
        ended(symmcoll_reducer_move(reducer, group, 0), SYMMCOLL_ERR_NO_MEMORY,
            "reducer: rank 1: reducer: a copy of buffers: cuMemAlloc") &&
        say(symmcoll_reducer_move(reducer, group, 0) == SYMMCOLL_OK &&
                symmcoll_reducer_begin(reducer, 1) == SYMMCOLL_OK &&
                symmcoll_reducer_finish(reducer) == SYMMCOLL_OK,
            "a second attempt") &&
        say(symmcoll_reducer_was_used(reducer, 0, &used) == SYMMCOLL_OK &&
                used == 0,
            "the parameter is known to be unused");
    symmcoll_reducer_free(reducer);
    device_wait(NULL);
    free_model(&model);
    return right;
}

int main(void)
{
    device_begin();
    on_both(
        1, two_devices, "D1: parameters on two devices are refused, with both");
    on_both(
        1, two_memories, "D1: so are some on a device, some in host memory");
    on_both(
        2, another_device, "D1: so are those on another device than the group");
    on_both(1, false_places, "parameters are where they say");
    on_both(3, ranks_differ,
        "ranks with parameters in other memories are told of each other");
    on_both(2, false_gradients,
        "a gradient elsewhere, or at an odd address, is refused");
    on_both(2, gradient_on_device,
        "a gradient on a device is refused where parameters are on the host");
    on_both(2, powersgd_is_refused,
        "D69: gradients on a device are refused by the PowerSGD hook");
    on_both(2, lossy_hooks_are_refused,
        "D71 D72 D74: so are they by hooks that encode gradients");
    ok(ranks_run(2, asked_once),
        "the driver is asked once about each memory of gradients on the host");
    ok(ranks_run(2, no_memory),
        "without memory on the device a reducer is not made, or goes on");
    ok(ranks_run(3, no_memory_on_one),
        "one rank without memory is named on all, and all go on");
    ok(ranks_run(2, no_memory_to_move),
        "a move that one rank has no memory for is repeated with all options");
    return done_testing();
}
