/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Tests a thread that enters an operation after another thread has left it
 * early and released the group: the late thread reads no memory of the other
 * one. The linker makes the library look up the parts of an operation through
 * the wrapper here, which waits for that moment; AddressSanitizer detects the
 * reads.
 */
#include "group/group.h"
#include "host/host.h"
#include "t/symm_mem/symm.h"
#include "t/world/faults.h"

#include <stdatomic.h>

#define COUNT ((size_t)70001)

void __real_symc_host_find_parts(
    struct symc_host *host, const struct symc_op *op);
void __wrap_symc_host_find_parts(
    struct symc_host *host, const struct symc_op *op);

static _Atomic bool awaited; /* by rank 1 */
static _Atomic bool begun, released;

static void await(const _Atomic bool *flag)
{
    while (!atomic_load(flag))
        faults_rest();
}

void __wrap_symc_host_find_parts(
    struct symc_host *host, const struct symc_op *op)
{
    if (atomic_load(&awaited) && host->rank == 1) {
        atomic_store(&begun, true);
        await(&released);
    }
    __real_symc_host_find_parts(host, op);
}

static int other_has_released_it(struct symmcoll_group *group, int rank)
{
    static float out[2][2 * COUNT], in[2][2 * COUNT];
    const struct symmcoll_call call = faults_timeout(rank == 0 ? 0.2 : 60);
    struct symmcoll_group *both;
    bool right = OK(symmcoll_group_split(group, 0, rank, NULL, &both)) &&
                 OK(symmcoll_all_to_all(both, out[rank], in[rank], COUNT,
                     SYMMCOLL_FLOAT32, NULL, NULL));

    atomic_store(&awaited, true);
    if (rank == 0)
        await(&begun);
    right =
        right &&
        groups_said(rank,
            symmcoll_all_to_all(both, out[rank], in[rank], COUNT,
                SYMMCOLL_FLOAT32, &call, NULL),
            rank == 0 ? SYMMCOLL_ERR_TIMEOUT : SYMMCOLL_ERR_ABORTED, "rank 1");
    (void)symmcoll_group_free(both);
    if (rank == 0)
        atomic_store(&released, true);
    return right;
}

int main(void)
{
    plan(1);
    faults_begin();
    ok(threads_run(2, other_has_released_it),
        "a thread reads no table of one that has left and released the group");
    (void)faults_clear_dumps(2);
    faults_end();
    return done_testing();
}
