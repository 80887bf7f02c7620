/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Tests exchanges of parts of different sizes on devices by NCCL, with the
 * stand-ins for the driver and for NCCL.
 */
#include "t/cuda/kernels.h"
#include "t/cuda/members.h"
#include "t/nccl/named.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#define SIZE 3
#define LARGE 4   /* a round */
#define ROOM 6000 /* floats of a rank's buffers: several chunks */

/* ---- a rank ---- */

struct self {
    struct symmcoll_group *group;
    int rank;
    CUstream stream;
    float *in, *out; /* of the device */
    float host[ROOM], expected[ROOM];
    size_t sent[SIZE], received[SIZE];
};

/* Returns the number of elements from rank a to rank b; some are 0. */
static size_t count(int a, int b, int round)
{
    size_t few = (size_t)((a * 3 + b * 5 + round) % 7);

    return round == LARGE ? few * 300 : few;
}

static void begin(struct self *self, struct symmcoll_group *group, int rank)
{
    device_use(rank);
    *self = (struct self){.group = group,
        .rank = rank,
        .stream = device_stream(),
        .in = device_alloc(sizeof(self->host)),
        .out = device_alloc(sizeof(self->host))};
}

static int finish(struct self *self, int right)
{
    device_wait(self->stream);
    device_end_stream(self->stream);
    device_free(self->in);
    device_free(self->out);
    return right;
}

static void plan_round(struct self *self, int round)
{
    size_t at = 0;

    for (int r = 0; r < SIZE; r++) {
        self->sent[r] = count(self->rank, r, round);
        self->received[r] = count(r, self->rank, round);
        for (size_t i = 0; i < self->received[r]; i++) {
            size_t before = 0;

            for (int q = 0; q < self->rank; q++)
                before += count(r, q, round);
            self->expected[at++] = (float)(r * 10000 + (int)(before + i));
        }
    }
    while (at < ROOM)
        self->expected[at++] = -1;
    for (int i = 0; i < ROOM; i++)
        self->host[i] = -1;
    device_write(self->out, self->host, sizeof(self->host));
    for (int i = 0; i < ROOM; i++)
        self->host[i] = (float)(self->rank * 10000 + i);
    device_write(self->in, self->host, sizeof(self->host));
}

static size_t total(const size_t *counts)
{
    size_t n = 0;

    for (int r = 0; r < SIZE; r++)
        n += counts[r];
    return n;
}

static symmcoll_status_t exchange(
    struct self *self, struct symmcoll_work **work)
{
    struct symmcoll_call call = SYMMCOLL_CALL_INIT;

    call.stream = self->stream;
    return symmcoll_all_to_all_v(self->group, self->out, total(self->received),
        self->received, self->in, total(self->sent), self->sent, F32, &call,
        work);
}

static symmcoll_status_t exchange_lists(struct self *self)
{
    struct symmcoll_call call = SYMMCOLL_CALL_INIT;
    void *outs[SIZE];
    const void *ins[SIZE];
    float *out = self->out, *in = self->in;

    call.stream = self->stream;
    for (int r = 0; r < SIZE; r++) {
        outs[r] = out;
        ins[r] = in;
        out += self->received[r];
        in += self->sent[r];
    }
    return symmcoll_all_to_all_list(
        self->group, outs, self->received, ins, self->sent, F32, &call, NULL);
}

static int received(struct self *self)
{
    device_wait(self->stream);
    device_read(self->host, self->out, sizeof(self->host));
    return say(memcmp(self->host, self->expected, sizeof(self->host)) == 0,
        "the parts are not where they should be");
}

static int fine(symmcoll_status_t status)
{
    if (status != SYMMCOLL_OK)
        diag("%s", symmcoll_last_error());
    return status == SYMMCOLL_OK;
}

/* Checks that other operations of the group continue. */
static int sums(struct self *self)
{
    struct symmcoll_call call = SYMMCOLL_CALL_INIT;

    call.stream = self->stream;
    if (!fine(symmcoll_all_reduce(
            self->group, self->out, self->in, ROOM, F32, SUM, &call, NULL)))
        return 0;
    device_wait(self->stream);
    return 1;
}

/* ---- exchanged data ---- */

static int exchanges(struct symmcoll_group *group, int rank)
{
    struct symmcoll_work *work = NULL;
    struct self self;
    int right = 1;

    begin(&self, group, rank);
    for (int round = 0; round < 6 && right; round++) {
        plan_round(&self, round);
        if (round % 3 == 0)
            right = fine(exchange(&self, NULL));
        else if (round % 3 == 1)
            right = fine(exchange_lists(&self));
        else
            right = fine(exchange(&self, &work)) &&
                    fine(symmcoll_work_wait(work, -1));
        right = right && received(&self) && sums(&self);
        symmcoll_work_free(work);
        work = NULL;
    }
    atexit(check_nccl);
    return finish(&self, right);
}

static int exchanges_slowly(struct symmcoll_group *group, int rank)
{
    struct fake_nccl *fake = find_nccl();
    struct self self;
    int right;

    begin(&self, group, rank);
    if (fake == NULL)
        return finish(&self, 0);
    plan_round(&self, 0);
    right = fine(exchange(&self, NULL)) && received(&self);
    atomic_store(&fake->slow, 5);
    plan_round(&self, 1);
    right = fine(exchange(&self, NULL)) && received(&self) && right;
    return finish(&self, right);
}

/* Only rank 0 has elements, for rank 1. The other ranks pass their buffers, or
 * after a first operation none. */
static int some_have_none(struct symmcoll_group *group, int rank)
{
    struct symmcoll_call call = SYMMCOLL_CALL_INIT;
    struct self self;
    int right = 1;

    begin(&self, group, rank);
    for (int i = 0; i < 4 && right; i++) {
        bool any = i % 2 == 0 || rank < 2;
        size_t sent[SIZE] = {0, rank == 0 ? 5 : 0};
        size_t received[SIZE] = {rank == 1 ? 5 : 0};

        call.stream = self.stream;
        right = fine(symmcoll_all_to_all_v(group, any ? self.out : NULL,
                    received[0], received, any ? self.in : NULL, sent[1], sent,
                    F32, &call, NULL)) &&
                fine(symmcoll_group_error(group));
    }
    atexit(check_nccl);
    return finish(&self, right);
}

/* ---- operations without NCCL ---- */

/* Checks that an exchange uses a kernel of this rank, or of others in its
 * process. */
static int is_by_kernels(struct self *self)
{
    int before = enqueued(), launches = kernels_runs("symc_exchange");

    return fine(exchange(self, NULL)) && received(self) &&
           say(enqueued() == before, "no call of NCCL") &&
           say(kernels_runs("symc_exchange") > launches, "a kernel");
}

/* Checks exchanges without NCCL beside other operations, of few elements and
 * of many. */
static int goes_without(struct symmcoll_group *group, int rank)
{
    struct self self;
    int right = 1;

    begin(&self, group, rank);
    for (int i = 0; i < 6 && right; i++) {
        plan_round(&self, i);
        right = is_by_kernels(&self) && sums(&self);
    }
    return finish(&self, right);
}

/* Captures an exchange: kernels of the graph run it. */
static int capture(struct self *self)
{
    int before = enqueued(), right;
    CUgraphExec exec = NULL;
    CUgraph graph = NULL;

    right = cuStreamBeginCapture(
                self->stream, CU_STREAM_CAPTURE_MODE_RELAXED) == CUDA_SUCCESS &&
            fine(exchange(self, NULL)) &&
            cuStreamEndCapture(self->stream, &graph) == CUDA_SUCCESS &&
            cuGraphInstantiate(&exec, graph, 0) == CUDA_SUCCESS &&
            cuGraphLaunch(exec, self->stream) == CUDA_SUCCESS &&
            received(self) &&
            say(enqueued() == before, "no call of NCCL in a capture");
    return right && cuGraphExecDestroy(exec) == CUDA_SUCCESS &&
           cuGraphDestroy(graph) == CUDA_SUCCESS;
}

/* Captures an exchange before and after there is a communicator. */
static int captures(struct symmcoll_group *group, int rank)
{
    struct self self;
    int right, before;

    begin(&self, group, rank);
    plan_round(&self, 0);
    right = sums(&self);
    for (int i = 0; i < 2 && right; i++) {
        plan_round(&self, i);
        right = capture(&self) && fine(symmcoll_barrier(group, NULL, NULL));
        before = enqueued();
        plan_round(&self, i + 2);
        right = right && fine(exchange(&self, NULL)) && received(&self) &&
                say(enqueued() > before, "one by NCCL") &&
                fine(symmcoll_barrier(group, NULL, NULL));
    }
    return finish(&self, right);
}

/* Calls with a work before the capture and starts in it; before that a call of
 * this rank alone has taken the token of the latest operation. */
static int is_called_before_a_capture(struct symmcoll_group *group, int rank)
{
    struct symmcoll_world *world = symmcoll_group_world(group);
    struct symmcoll_symm_args args = SYMMCOLL_SYMM_ARGS_INIT;
    struct symmcoll_group *beside = NULL;
    struct symmcoll_symm *handle = NULL;
    struct symmcoll_work *work = NULL;
    symmcoll_status_t status = SYMMCOLL_OK;
    struct self self;
    CUgraph graph;
    void *data = NULL;
    int right;

    begin(&self, group, rank);
    args.device = SYMMCOLL_CUDA;
    args.device_index = rank;
    plan_round(&self, 0);
    right = fine(symmcoll_group_create(world, NULL, &beside)) &&
            fine(symmcoll_symm_alloc(world, 64, &args, &data)) &&
            fine(symmcoll_symm_rendezvous(group, data, NULL, &handle)) &&
            fine(symmcoll_group_set_stream(group, self.stream)) &&
            fine(exchange(&self, NULL)) && received(&self) && sums(&self) &&
            fine(symmcoll_symm_put_data(handle, rank, 0, self.in, 64));
    device_wait(self.stream);
    plan_round(&self, 1);
    if (rank != 1)
        right = fine(exchange(&self, &work)) && right;
    if (rank != 1)
        right = say(cuStreamBeginCapture(self.stream,
                        CU_STREAM_CAPTURE_MODE_RELAXED) == CUDA_SUCCESS,
                    "a capture") &&
                right;
    right = fine(symmcoll_barrier(beside, NULL, NULL)) && right;
    if (rank == 1)
        right = fine(exchange(&self, &work)) && right;
    while (right && (status = symmcoll_work_test(work)) == SYMMCOLL_IN_PROGRESS)
        ;
    right = fine(status) && right;
    symmcoll_work_free(work);
    if (rank != 1)
        right = cuStreamEndCapture(self.stream, &graph) == CUDA_SUCCESS &&
                cuGraphDestroy(graph) == CUDA_SUCCESS && right;
    right = right && received(&self);
    symmcoll_symm_release(handle);
    right = fine(symmcoll_symm_free(world, data)) && right;
    right = fine(symmcoll_group_set_stream(group, NULL)) && right;
    right = fine(symmcoll_group_free(beside)) && right;
    return finish(&self, right);
}

/* The driver does not report, at the start, whether a stream is captured. */
static int nobody_knows(struct symmcoll_group *group, int rank)
{
    struct self self;
    int right;

    begin(&self, group, rank);
    plan_round(&self, 0);
    right = fine(exchange(&self, NULL)) && received(&self);
    fake_configure("fail=cuStreamIsCapturing:2:400");
    return finish(&self,
        ended(exchange(&self, NULL), SYMMCOLL_ERR_DEVICE,
            "cuStreamIsCapturing of stream 0x") &&
            say(symmcoll_group_error(group) < 0, "the group has failed") &&
            right);
}

/* Rank 1 expects one element more from rank 0 than rank 0 passes: the error is
 * the same as on the host. */
static int counts_differ(struct symmcoll_group *group, int rank)
{
    struct self self;
    int right;

    begin(&self, group, rank);
    plan_round(&self, 1);
    self.received[0] += rank == 1;
    right = ended(exchange(&self, NULL), SYMMCOLL_ERR_MISMATCH,
        "all_to_all_v: counts differ: rank 0 passed 6 elements for rank 1, "
        "which expected 7 (group ");
    plan_round(&self, 1);
    right = fine(exchange(&self, NULL)) && received(&self) && right;
    return finish(&self, right);
}

/* Uses the default stream of each process, whichever the device; NCCL then
 * gets NULL, too. */
static int default_streams(struct symmcoll_group *group, int rank)
{
    struct self self;
    CUstream own;
    int right = 1;

    begin(&self, group, rank);
    own = self.stream;
    self.stream = NULL;
    for (int i = 0; i < 2; i++) {
        struct symmcoll_work *work = NULL;

        plan_round(&self, i);
        right = fine(exchange(&self, NULL)) && received(&self) && right;
        plan_round(&self, i + 1);
        right = fine(exchange(&self, &work)) &&
                fine(symmcoll_work_wait(work, -1)) && received(&self) && right;
        symmcoll_work_free(work);
    }
    device_end_stream(own);
    return finish(&self, right);
}

/* ---- operations beside NCCL ---- */

/* Sends to the next rank and receives from the previous one, while NCCL has a
 * communicator. */
static int passes_on(const struct self *self)
{
    const int next = (self->rank + 1) % SIZE;
    const int last = (self->rank + SIZE - 1) % SIZE;
    struct symmcoll_pair_op ops[2] = {
        SYMMCOLL_PAIR_OP_INIT, SYMMCOLL_PAIR_OP_INIT};
    const float mine[] = {(float)self->rank, 3, 5};
    float found[3] = {0};

    device_write(self->in, mine, sizeof(mine));
    ops[0].buf = self->in;
    ops[0].peer = next;
    ops[1].kind = SYMMCOLL_PAIR_RECV;
    ops[1].buf = self->out;
    ops[1].peer = last;
    ops[0].count = ops[1].count = 3;
    if (!fine(symmcoll_batch(self->group, ops, 2, NULL, NULL)))
        return 0;
    device_read(found, self->out, sizeof(found));
    return say(found[0] == (float)last && found[1] == 3 && found[2] == 5,
        "what the last rank has sent");
}

static int adds_several(const struct self *self)
{
    struct symmcoll_call call = SYMMCOLL_CALL_INIT;
    void *outs[] = {self->out, self->out + 8};
    const void *ins[] = {self->in, self->in + 8};
    const size_t counts[] = {3, 5};

    call.stream = self->stream;
    if (!fine(symmcoll_all_reduce_coalesced(
            self->group, outs, ins, counts, 2, F32, SUM, &call, NULL)))
        return 0;
    device_wait(self->stream);
    return 1;
}

/* Sends messages with a communicator; the group remains usable. */
static int is_beside_messages(struct symmcoll_group *group, int rank)
{
    struct self self;
    int right;

    begin(&self, group, rank);
    plan_round(&self, 1);
    right = fine(exchange(&self, NULL)) && received(&self) &&
            passes_on(&self) && adds_several(&self);
    plan_round(&self, 2);
    right = fine(exchange(&self, NULL)) && received(&self) && right;
    return finish(&self, right);
}

int main(void)
{
    device_begin();
    on_both(SIZE, goes_without, "without NCCL kernels exchange them");
    name_nccl();
    setenv("FAKE_NCCL_VERSION", "22105", 1);
    on_both(SIZE, goes_without, "with one that is too old, too");
    unsetenv("FAKE_NCCL_VERSION");
    on_both(SIZE, exchanges,
        "parts of any size are exchanged, of one buffer and of lists");
    on_both(SIZE, some_have_none, "ranks may have nothing to exchange");
    on_both(SIZE, exchanges_slowly,
        "NCCL that takes its time to enqueue is waited for");
    on_both(SIZE, counts_differ, "counts that differ are told with both");
    ok(ranks_run(SIZE, default_streams),
        "it runs on the default stream, with a work and without");
    on_both(SIZE, is_beside_messages,
        "messages and coalesced operations go beside it, and the group goes on");
    on_both(SIZE, captures, "what is captured kernels exchange");
    on_both(SIZE, is_called_before_a_capture,
        "what was called with a work before the capture is NCCL's");
    ok(ranks_run(SIZE, nobody_knows),
        "a driver that fails to say whether it is captured fails the group, with "
        "its error");
    setenv("SYMMCOLL_CUDA_SHARE_DEVICE", "on", 1);
    fake_configure("devices=2");
    on_both(SIZE, goes_without, "so do they where ranks share a device");
    return done_testing();
}
