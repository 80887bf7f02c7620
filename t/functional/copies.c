/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Tests which elements a call copies before its operation starts: elements
 * that are already where the operation needs them are not copied.
 */
#include "t/functional/made.h"

#include "functional/functional.h"

#include <stdlib.h>
#include <string.h>

#define MOST 64

/* A prepared call, with its own memory. */
struct call {
    struct symc_f_spec spec;
    struct symc_f_step step;
    int dim;
    float in[MOST], out[MOST];
};

/* Prepares a call up to the start of its operation. */
static int make_ready(struct call *call, struct symmcoll_group *group,
    const struct symc_f_spec *spec, const struct symmcoll_tensor *in, int dim)
{
    struct symc_f_step *step = &call->step;

    memset(call, 0, sizeof(*call));
    call->dim = dim;
    call->spec = *spec;
    call->spec.name = "call";
    call->spec.group = group;
    call->spec.dims = &call->dim;
    for (int i = 0; i < MOST; i++)
        call->in[i] = (float)i;
    step->in = *in;
    step->in.data = call->in;
    step->in_count = (size_t)count_of(in);
    step->elem = sizeof(call->in[0]);
    step->out = step->in;
    step->out.data = call->out;
    if (!OK(call->spec.shape(&call->spec, step)))
        return 0;
    symc_f_make_contiguous(&step->out);
    step->out_count = (size_t)count_of(&step->out);
    return OK(call->spec.ready(&call->spec, step));
}

/* Returns whether any part of the result has been written. */
static int is_written(const struct call *call)
{
    for (int i = 0; i < MOST; i++) {
        if (call->out[i] != 0)
            return 1;
    }
    return 0;
}

/* Checks that the operation reads the input and writes the result in place,
 * without work after it. */
static int is_direct(struct call *call, const char *name)
{
    int good = call->step.temp == NULL && call->step.from == call->in &&
               call->step.to == call->out && call->step.after.ndim == 0 &&
               !is_written(call);

    if (!good)
        diag("%s copies", name);
    free(call->step.temp);
    return good;
}

/* ---- calls ---- */

static const struct symmcoll_tensor matrix =
    SYMMCOLL_TENSOR_SHAPE(NULL, SYMMCOLL_FLOAT32, 4, 4);
static const struct symmcoll_tensor row =
    SYMMCOLL_TENSOR_SHAPE(NULL, SYMMCOLL_FLOAT32, 1, 4, 2);

static struct symmcoll_tensor turned(void)
{
    struct symmcoll_tensor made = matrix;

    made.strides[0] = 1;
    made.strides[1] = 4;
    return made;
}

static int direct_calls(struct symmcoll_group *group, int rank)
{
    struct symc_f_spec reduce = symc_f_all_reduce_spec();
    struct symc_f_spec scatter = symc_f_reduce_scatter_spec();
    struct symc_f_spec gather = symc_f_all_gather_spec();
    struct symc_f_spec exchange = symc_f_all_to_all_spec();
    struct call call;

    (void)rank;
    return make_ready(&call, group, &reduce, &matrix, 0) &&
           is_direct(&call, "all_reduce") &&
           make_ready(&call, group, &scatter, &matrix, 0) &&
           is_direct(&call, "reduce_scatter along 0") &&
           make_ready(&call, group, &scatter, &row, 1) &&
           is_direct(&call, "reduce_scatter with one element before") &&
           make_ready(&call, group, &gather, &matrix, 0) &&
           is_direct(&call, "all_gather along 0") &&
           make_ready(&call, group, &gather, &row, 1) &&
           is_direct(&call, "all_gather with one element before") &&
           make_ready(&call, group, &exchange, &matrix, 0) &&
           is_direct(&call, "all_to_all of equal parts");
}

/* Checks that the root sends its input, and that the others receive into the
 * result. */
static int direct_broadcast(struct symmcoll_group *group, int rank)
{
    struct symc_f_spec spec = symc_f_broadcast_spec();
    struct call call;

    spec.root = 1;
    return make_ready(&call, group, &spec, &matrix, 0) &&
           call.step.temp == NULL && !is_written(&call) &&
           call.step.to == (rank == 1 ? call.in : call.out);
}

/* Checks that necessary copies are made in the result if possible. */
static int copied_calls(struct symmcoll_group *group, int rank)
{
    struct symc_f_spec reduce = symc_f_all_reduce_spec();
    struct symc_f_spec scatter = symc_f_reduce_scatter_spec();
    struct symc_f_spec gather = symc_f_all_gather_spec();
    struct symmcoll_tensor other = turned();
    struct call call;
    int good;

    (void)rank;
    good = make_ready(&call, group, &reduce, &other, 0) &&
           call.step.temp == NULL && call.step.from == call.out &&
           call.out[1] == 4;
    good = good && make_ready(&call, group, &scatter, &matrix, 1) &&
           call.step.from == call.step.temp && call.step.to == call.out &&
           ((float *)call.step.temp)[2] == 4;
    free(call.step.temp);
    good = good && make_ready(&call, group, &gather, &matrix, 1) &&
           call.step.from == call.in && call.step.to == call.step.temp &&
           call.step.after.ndim > 0;
    free(call.step.temp);
    return good;
}

/* ---- gradients ---- */

/* Returns the call that computes the gradient of one along dimension 0. */
static struct symc_f_spec back_of(struct symmcoll_group *group,
    enum symc_kind kind, symmcoll_op_t op, struct symmcoll_adjoint *adjoint)
{
    struct symc_f_spec spec;

    memset(adjoint, 0, sizeof(*adjoint));
    adjoint->name = "call";
    adjoint->kind = kind;
    adjoint->group = group;
    adjoint->op = op;
    if (!OK(symc_f_adjoint_spec(adjoint, &spec)))
        abort();
    return spec;
}

static int gradients(struct symmcoll_group *group, int rank)
{
    struct symmcoll_adjoint adjoint;
    struct symmcoll_tensor other = turned();
    struct symc_f_spec spec;
    struct call call;
    float *own = call.out + 16 * rank;
    int good;

    spec = back_of(group, SYMC_REDUCE_SCATTER, SYMMCOLL_SUM, &adjoint);
    good = make_ready(&call, group, &spec, &matrix, 0) &&
           is_direct(&call, "the gradient of a sum") &&
           make_ready(&call, group, &spec, &other, 0) &&
           call.step.temp == NULL && call.step.from == own && own[1] == 4;
    spec = back_of(group, SYMC_REDUCE_SCATTER, SYMMCOLL_AVG, &adjoint);
    good = good && make_ready(&call, group, &spec, &matrix, 0) &&
           call.step.temp == NULL && call.step.from == own && own[1] == 0.5 &&
           call.in[1] == 1;
    spec = back_of(group, SYMC_BROADCAST, SYMMCOLL_SUM, &adjoint);
    good = good && make_ready(&call, group, &spec, &matrix, 0) &&
           is_direct(&call, "the gradient of a broadcast") &&
           make_ready(&call, group, &spec, &other, 0) &&
           call.step.from == (rank == 0 ? call.out : call.step.temp) &&
           ((const float *)call.step.from)[1] == 4;
    free(call.step.temp);
    return good;
}

int main(void)
{
    plan(8);
    for (int i = 0; i < 2; i++) {
        int (*run)(int n, rank_fn body) = i == 0 ? ranks_run : threads_run;
        const char *kind = i == 0 ? "processes" : "threads";

        ok(run(2, direct_calls),
            "%s: elements in the order of the operation are not copied", kind);
        ok(run(2, direct_broadcast),
            "%s: a broadcast is made of the root's input", kind);
        ok(run(2, copied_calls),
            "%s: others go to the result, or to memory for the operation",
            kind);
        ok(run(2, gradients), "%s: gradients are copied as little", kind);
    }
    return done_testing();
}
