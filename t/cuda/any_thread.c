/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Tests calls from threads without a current context, or with one of another
 * device: work runs in the context of the memory and the stream, and the
 * thread's own context is current again afterwards.
 */
#include "t/cuda/members.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#define SIZE 2
#define COUNT 64
#define NBYTES (COUNT * sizeof(float))

struct task {
    struct symmcoll_group *group;
    int rank;
    CUcontext home; /* of the memory and the stream */
    CUstream stream;
    float *at;
    int (*body)(struct task *task);
    int right;
};

static bool own;       /* the contexts were created by the program */
static bool elsewhere; /* a context of another device is current */

/* ---- in the calling thread ---- */

/* Fills this rank's memory with one value, or checks that it has that value. */
static void fill_with(const struct task *task, float *at, float value)
{
    float host[COUNT];
    CUcontext popped;

    for (int i = 0; i < COUNT; i++)
        host[i] = value;
    (void)cuCtxPushCurrent(task->home);
    device_write(at, host, sizeof(host));
    (void)cuCtxPopCurrent(&popped);
}

static int all_are(const struct task *task, const float *at, float value)
{
    float host[COUNT];
    CUcontext popped;
    int right = 1;

    (void)cuCtxPushCurrent(task->home);
    device_wait(task->stream);
    device_wait(NULL);
    device_read(host, at, sizeof(host));
    (void)cuCtxPopCurrent(&popped);
    for (int i = 0; i < COUNT && right; i++)
        right = host[i] == value;
    if (!right)
        diag("expected %g, found %g", (double)value, (double)host[0]);
    return right;
}

static int fine(symmcoll_status_t status, const char *what)
{
    return say(status == SYMMCOLL_OK, what);
}

static int sums_on(struct task *task, CUstream stream)
{
    struct symmcoll_call call = SYMMCOLL_CALL_INIT;
    struct symmcoll_work *work = NULL;
    float *at = task->at;
    int right;

    call.stream = stream;
    fill_with(task, at, 1);
    right = fine(symmcoll_all_reduce(
                     task->group, at, at, COUNT, F32, SUM, &call, NULL),
                "a sum") &&
            all_are(task, at, SIZE) &&
            fine(symmcoll_all_reduce(
                     task->group, at, at, COUNT, F32, SUM, &call, &work),
                "a sum with a work") &&
            fine(symmcoll_work_wait(work, 60), "the wait") &&
            all_are(task, at, SIZE * SIZE);
    symmcoll_work_free(work);
    return right;
}

static int sums(struct task *task)
{
    return sums_on(task, NULL) && sums_on(task, task->stream);
}

/* Reduces the first half of the memory into the second. */
static int functional_on(struct task *task, CUstream stream)
{
    struct symmcoll_world *world = symmcoll_group_world(task->group);
    struct symmcoll_call call = SYMMCOLL_CALL_INIT;
    struct symmcoll_tensor in =
        SYMMCOLL_TENSOR_SHAPE(task->at, F32, SIZE, COUNT);
    struct symmcoll_tensor out = SYMMCOLL_TENSOR_INIT, back = out;
    struct symmcoll_adjoint *adjoint = NULL;
    int right;

    in.device = SYMMCOLL_CUDA;
    in.device_index = task->rank;
    call.stream = stream;
    fill_with(task, task->at, 3);
    fill_with(task, task->at + COUNT, 3);
    right =
        fine(symmcoll_f_reduce_scatter(
                 task->group, &in, SYMMCOLL_AVG, 0, &call, &out, &adjoint),
            "a result") &&
        fine(symmcoll_adjoint_run(adjoint, &out, &call, &back), "a gradient") &&
        fine(symmcoll_f_wait(world, &back, 60), "the wait") &&
        all_are(task, out.data, 3) && all_are(task, back.data, 1.5F) &&
        all_are(task, (float *)back.data + COUNT, 1.5F);
    symmcoll_f_free(world, &back);
    symmcoll_f_free(world, &out);
    symmcoll_adjoint_free(adjoint);
    return right;
}

static int functional(struct task *task)
{
    return functional_on(task, NULL) && functional_on(task, task->stream);
}

static int hooks_on(struct task *task, CUstream stream)
{
    struct symmcoll_bucket bucket = SYMMCOLL_BUCKET_INIT;
    struct symmcoll_work *work = NULL;
    int right;

    bucket.buffer = task->at;
    bucket.count = COUNT;
    bucket.dtype = F32;
    bucket.device = SYMMCOLL_CUDA;
    bucket.device_index = task->rank;
    bucket.stream = stream;
    fill_with(task, task->at, 5);
    right = fine(symmcoll_hook_all_reduce(task->group, &bucket, NULL, &work),
                "a bucket") &&
            fine(symmcoll_work_wait(work, 60), "the wait") &&
            all_are(task, task->at, 5);
    symmcoll_work_free(work);
    return right;
}

/* The world opens a device once for all groups. When a bucket has been summed,
 * the threads of all ranks have opened it. */
static int hooks(struct task *task)
{
    uint64_t found;
    int right = hooks_on(task, task->stream);

    found = fake_calls("cuLibraryGetKernel");
    right = right && hooks_on(task, NULL) && hooks_on(task, task->stream) &&
            say(fake_calls("cuLibraryGetKernel") == found,
                "nothing is opened once more");
    return fine(symmcoll_barrier(task->group, NULL, NULL), "the end") && right;
}

static int joins(struct task *task)
{
    struct symmcoll_world *world = symmcoll_group_world(task->group);
    struct symmcoll_symm *handle = NULL;
    float *at = task->at;
    int right;

    fill_with(task, at, 1);
    fill_with(task, at + COUNT, 0);
    right = fine(symmcoll_symm_register(world, at, NBYTES, NULL), "memory") &&
            fine(symmcoll_symm_rendezvous(task->group, at, NULL, &handle),
                "the rendezvous") &&
            fine(symmcoll_symm_one_shot_all_reduce(
                     handle, 0, at + COUNT, COUNT, F32, SUM, NULL),
                "one shot") &&
            all_are(task, at + COUNT, SIZE);
    symmcoll_symm_release(handle);
    return fine(symmcoll_symm_deregister(world, at), "its end") && right;
}

/* ---- a rank ---- */

static void *run(void *arg)
{
    struct task *task = arg;
    CUcontext before = NULL, after = NULL;
    int pushed;

    if (elsewhere)
        device_use(task->rank + SIZE);
    (void)cuCtxGetCurrent(&before);
    pushed = fake_pushed();
    task->right = task->body(task);
    (void)cuCtxGetCurrent(&after);
    task->right = say(after == before && fake_pushed() == pushed,
                      "the thread has its context") &&
                  task->right;
    return NULL;
}

static int in_thread(struct symmcoll_group *group, int rank,
    int (*body)(struct task *task), bool made)
{
    struct task task = {.group = group, .rank = rank, .body = body};
    pthread_t thread;

    if (cuInit(0) != CUDA_SUCCESS)
        return 0;
    if (!made)
        device_use(rank);
    else if (cuCtxCreate(&task.home, NULL, 0, rank) != CUDA_SUCCESS)
        return 0;
    (void)cuCtxGetCurrent(&task.home);
    task.stream = device_stream();
    task.at = device_alloc(SIZE * NBYTES);
    if (pthread_create(&thread, NULL, run, &task) != 0)
        return 0;
    pthread_join(thread, NULL);
    if (made)
        task.right = is_primary_unused(rank) && task.right;
    device_wait(task.stream);
    device_end_stream(task.stream);
    device_free(task.at);
    return task.right;
}

/* Runs hooks of one world on buckets in two contexts of its device. */
static int of_hooks_in_two(struct symmcoll_group *group, int rank)
{
    struct symmcoll_group *other = NULL;
    int right =
        fine(symmcoll_group_create(symmcoll_group_world(group), NULL, &other),
            "a group") &&
        in_thread(group, rank, hooks, true) &&
        in_thread(other, rank, hooks, false);

    return fine(symmcoll_group_free(other), "its end") && right;
}

static int of_sums(struct symmcoll_group *group, int rank)
{
    return in_thread(group, rank, sums, own);
}

static int of_functional(struct symmcoll_group *group, int rank)
{
    return in_thread(group, rank, functional, own);
}

static int of_hooks(struct symmcoll_group *group, int rank)
{
    return in_thread(group, rank, hooks, own);
}

static int of_joins(struct symmcoll_group *group, int rank)
{
    return in_thread(group, rank, joins, own);
}

static void test(const char *where)
{
    char what[160];

    snprintf(what, sizeof(what), "collectives: %s", where);
    on_both(SIZE, of_sums, what);
    snprintf(what, sizeof(what), "functional forms: %s", where);
    on_both(SIZE, of_functional, what);
    snprintf(what, sizeof(what), "hooks of reducers: %s", where);
    on_both(SIZE, of_hooks, what);
    snprintf(what, sizeof(what), "memory that is joined: %s", where);
    on_both(SIZE, of_joins, what);
}

int main(void)
{
    device_begin();
    /* The program's own contexts come first, while no primary one exists. */
    own = true;
    test("a thread without a context, and memory in the program's own");
    elsewhere = true;
    test("a thread in that of another device, and memory in the program's own");
    on_both(SIZE, of_hooks_in_two, "hooks of buckets in two contexts");
    own = false;
    test("a thread in that of another device");
    elsewhere = false;
    test("a thread without a context");
    return done_testing();
}
