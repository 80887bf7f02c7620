/* SPDX-License-Identifier: BSD-3-Clause */
#include "t/ddp/many.h"

#include <stdlib.h>
#include <string.h>

#define LARGE 5000 /* elements of every hundredth */

static void place(struct many *many)
{
    uint64_t state = 12345;

    for (size_t i = 0; i < MANY; i++) {
        state = state * 6364136223846793005u + 1442695040888963407u;
        many->count[i] = i % 100 == 50 ? LARGE : (state >> 33) % 41;
        many->at[i] = many->room;
        many->room += many->count[i] + (state >> 40) % 3;
    }
}

static void write_there(struct many *many, float *to)
{
    device_write(to, many->scratch, many->room * sizeof(float));
}

static int make_side(struct many *many, struct many_side *side, int device,
    symmcoll_bucket_fn hook)
{
    struct symmcoll_reducer_args args = SYMMCOLL_REDUCER_ARGS_INIT;

    args.write_back = 1;
    args.hook = hook;
    for (int i = 0; i < MANY; i++) {
        const struct symmcoll_tensor param =
            SYMMCOLL_TENSOR_FLAT(side->values + many->at[i],
                (int64_t)many->count[i], SYMMCOLL_FLOAT32);

        side->params[i] = param;
        if (device >= 0) {
            side->params[i].device = SYMMCOLL_CUDA;
            side->params[i].device_index = device;
        }
    }
    return say(symmcoll_reducer_create(many->group, side->params, MANY, &args,
                   &side->reducer) == SYMMCOLL_OK,
        symmcoll_last_error());
}

int many_begin(struct many *many, struct symmcoll_group *group, int rank,
    symmcoll_bucket_fn device_hook)
{
    const int device = device_use(rank);
    size_t nbytes;

    *many = (struct many){.group = group, .rank = rank};
    place(many);
    nbytes = many->room * sizeof(float);
    many->stream = device_stream();
    many->scratch = malloc(nbytes);
    many->host.values = malloc(nbytes);
    many->host.grads = calloc(1, nbytes);
    many->device.values = device_alloc(nbytes);
    many->device.grads = device_alloc(nbytes);
    fill(F32, many->scratch, many->room, (uint64_t)rank + 7);
    memcpy(many->host.values, many->scratch, nbytes);
    write_there(many, many->device.values);
    return say(symmcoll_group_set_stream(group, many->stream) == SYMMCOLL_OK,
               "a stream") &&
           make_side(many, &many->host, -1, NULL) &&
           make_side(many, &many->device, device, device_hook);
}

int many_end(struct many *many, int right)
{
    symmcoll_reducer_free(many->host.reducer);
    symmcoll_reducer_free(many->device.reducer);
    device_wait(many->stream);
    device_end_stream(many->stream);
    free(many->scratch);
    free(many->host.values);
    free(many->host.grads);
    device_free(many->device.values);
    device_free(many->device.grads);
    return right;
}

void many_write(struct many *many, int step)
{
    device_wait(many->stream);
    fill(F32, many->scratch, many->room,
        (uint64_t)many->rank * 1000 + (uint64_t)step);
    memcpy(many->host.grads, many->scratch, many->room * sizeof(float));
    write_there(many, many->device.grads);
}

int many_ready(struct many *many, struct many_side *side)
{
    int right =
        say(symmcoll_reducer_begin(side->reducer, 1) == SYMMCOLL_OK, "begin");

    for (int i = MANY - 1; right && i >= 0; i--)
        right = say(symmcoll_reducer_ready(side->reducer, i,
                        side->grads + many->at[i]) == SYMMCOLL_OK,
            symmcoll_last_error());
    return right;
}

int many_run(struct many *many, struct many_side *side)
{
    return many_ready(many, side) &&
           say(symmcoll_reducer_finish(side->reducer) == SYMMCOLL_OK,
               symmcoll_last_error());
}

static int same(
    struct many *many, const float *host, const float *device, const char *what)
{
    const size_t nbytes = many->room * sizeof(float);

    device_read(many->scratch, device, nbytes);
    return say(memcmp(many->scratch, host, nbytes) == 0, what);
}

int many_agree(struct many *many)
{
    device_wait(many->stream);
    return same(many, many->host.values, many->device.values, "values") &&
           same(many, many->host.grads, many->device.grads, "gradients");
}

int many_written_back(struct symmcoll_group *group, int rank)
{
    struct many many;
    int right = many_begin(&many, group, rank, NULL) && many_agree(&many);

    for (int step = 0; right && step < 4; step++) {
        many_write(&many, step);
        right = many_run(&many, &many.host) && many_run(&many, &many.device) &&
                many_agree(&many);
    }
    return many_end(&many, right);
}
