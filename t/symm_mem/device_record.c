/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Tests the flight recorder's entries for one rank's operations on symmetric
 * device memory, and for captured calls.
 */
#include "group/group.h"
#include "t/symm_mem/device.h"
#include "t/world/faults.h"
#include "trace/view.h"

#define NBYTES 4096
#define QUARTER ((size_t)NBYTES / 4)

/* Opens this rank's record. */
static bool open_view(
    struct symmcoll_world *world, struct symc_trace_view *view)
{
    const struct symc_trace_writer *writer = &world->trace;

    return OK(symc_trace_view_open(
        view, writer->ring, symc_trace_capacity_nbytes(writer->capacity)));
}

/* Finds the latest entry of a kind. */
static bool find_entry(struct symmcoll_world *world, enum symc_kind kind,
    struct symc_trace_copy *latest)
{
    struct symc_trace_view view;
    struct symc_trace_copy copy;
    bool found = false;

    if (!open_view(world, &view))
        return false;
    for (uint32_t slot = 0; slot < view.capacity; slot++) {
        if (!symc_trace_view_entry(&view, slot, &copy) ||
            copy.kind != (unsigned int)kind ||
            (found && copy.record_id < latest->record_id))
            continue;
        *latest = copy;
        found = true;
    }
    return HOLDS(found);
}

/* Waits until an entry has the state, and checks the number of the collective
 * before it. */
static bool becomes(const struct joined *it, enum symc_kind kind,
    enum symc_trace_state state, const char *label)
{
    struct symc_trace_copy copy = {.seq = 0};
    bool right = find_entry(it->world, kind, &copy);

    for (double until = faults_now() + FAULTS_WAIT_MAX;
         right && copy.state != (unsigned int)state && faults_now() < until;
         faults_rest())
        right = find_entry(it->world, kind, &copy);
    if (right && strcmp(copy.label, label) != 0)
        diag("expected label '%s', found '%s'", label, copy.label);
    return right && HOLDS(copy.state == (unsigned int)state) &&
           HOLDS(strcmp(copy.label, label) == 0) &&
           HOLDS(copy.seq == symmcoll_group_sequence(it->group)) &&
           HOLDS(state != SYMC_TRACE_COMPLETED || copy.completed != 0);
}

static bool copy_within(const struct joined *it)
{
    return OK(symmcoll_symm_put_data(
        it->handle, it->rank, QUARTER, it->data, QUARTER));
}

/* ---- what runs ---- */

static int tells_of_what_runs(struct symmcoll_group *group, int rank)
{
    char to[32], from[32];
    struct joined it;
    bool right = begin_joined(&it, group, rank, NBYTES) &&
                 OK(symmcoll_barrier(group, NULL, NULL));

    snprintf(to, sizeof(to), "rank %d channel 3", it.next);
    snprintf(from, sizeof(from), "rank %d channel 3", it.before);
    fake_stall(it.stream);
    right =
        right && copy_within(&it) &&
        OK(symmcoll_symm_put_signal(it.handle, it.next, 3, -1)) &&
        OK(symmcoll_symm_wait_signal(it.handle, it.before, 3, -1)) &&
        OK(symmcoll_symm_memset32(it.handle, rank, 0, 1, 5)) &&
        becomes(&it, SYMC_SYMM_PUT_DATA, SYMC_TRACE_STARTED, "1024 bytes") &&
        becomes(&it, SYMC_SYMM_PUT_SIGNAL, SYMC_TRACE_STARTED, to) &&
        becomes(&it, SYMC_SYMM_WAIT_SIGNAL, SYMC_TRACE_STARTED, from) &&
        becomes(&it, SYMC_SYMM_MEMSET, SYMC_TRACE_STARTED, "5 words");
    fake_resume(it.stream);
    right =
        right &&
        becomes(&it, SYMC_SYMM_PUT_DATA, SYMC_TRACE_COMPLETED, "1024 bytes") &&
        becomes(&it, SYMC_SYMM_PUT_SIGNAL, SYMC_TRACE_COMPLETED, to) &&
        becomes(&it, SYMC_SYMM_WAIT_SIGNAL, SYMC_TRACE_COMPLETED, from) &&
        becomes(&it, SYMC_SYMM_MEMSET, SYMC_TRACE_COMPLETED, "5 words") &&
        HOLDS(atomic_load(&it.world->trace.beside) == 0);
    return end_joined(&it, right);
}

/* ---- captured calls ---- */

static bool is_in_dump(const struct joined *it)
{
    char path[64], *text = calloc(1, 1 << 20);
    FILE *file;
    bool right;

    snprintf(
        path, sizeof(path), "t/scratch/record.%d.%d", (int)getpid(), it->rank);
    right = OK(symmcoll_trace_dump(it->world, path, 0));
    file = right ? fopen(path, "r") : NULL;
    right = HOLDS(file != NULL);
    if (right) {
        (void)fread(text, 1, (1 << 20) - 1, file);
        fclose(file);
        right =
            HOLDS(strstr(text, "\"state\": \"captured\", \"retired\": true") !=
                  NULL) &&
            HOLDS(strstr(text, "\"symm_put_data 1024 bytes\"") != NULL);
    }
    (void)remove(path);
    free(text);
    return right;
}

static int tells_of_what_is_captured(struct symmcoll_group *group, int rank)
{
    struct symmcoll_call call = SYMMCOLL_CALL_INIT;
    struct symc_trace_copy sum = {.seq = 0};
    CUgraph graph = NULL;
    struct joined it;
    bool right = begin_joined(&it, group, rank, NBYTES);

    call.stream = it.stream;
    right = right &&
            HOLDS(cuStreamBeginCapture(it.stream,
                      CU_STREAM_CAPTURE_MODE_RELAXED) == CUDA_SUCCESS) &&
            copy_within(&it) &&
            OK(symmcoll_symm_two_shot_all_reduce(
                it.handle, 0, NULL, 64, F32, SUM, &call));
    right =
        HOLDS(cuStreamEndCapture(it.stream, &graph) == CUDA_SUCCESS) && right;
    if (graph != NULL)
        cuGraphDestroy(graph);
    right = right && find_entry(it.world, SYMC_SYMM_TWO_SHOT, &sum) &&
            HOLDS(sum.state == SYMC_TRACE_CAPTURED) &&
            HOLDS(sum.seq == symmcoll_group_sequence(group)) &&
            find_entry(it.world, SYMC_SYMM_PUT_DATA, &sum) &&
            HOLDS(sum.state == SYMC_TRACE_CAPTURED) && is_in_dump(&it) &&
            HOLDS(atomic_load(&it.world->trace.beside) == 0);
    return end_joined(&it, right);
}

int main(void)
{
    device_begin();
    on_both(2, tells_of_what_runs,
        "what is enqueued on a stream is recorded until it has ended");
    on_both(2, tells_of_what_is_captured,
        "what is captured in a graph is recorded so");
    return done_testing();
}
