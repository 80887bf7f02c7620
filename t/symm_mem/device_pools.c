/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Tests pools of device memory while freed memory is still used: which memory
 * is reused, and which is released.
 */
#include "t/symm_mem/device_freed.h"

/* Creates freed memory of a pool to which a copy of a handle still writes, and
 * older unused memory. */
static bool stall_freed(struct symmcoll_group *all, int rank, struct joined *it,
    struct symmcoll_symm_pool **pool)
{
    struct symmcoll_symm_args args = device_args(rank);
    struct symmcoll_symm *handle = NULL;
    void *data = NULL, *unused = NULL;
    bool right = begin(all, rank, it) &&
                 OK(symmcoll_symm_pool_create(it->world, &args, pool)) &&
                 OK(symmcoll_symm_pool_alloc(*pool, 64, &unused)) &&
                 OK(symmcoll_symm_pool_alloc(*pool, NBYTES, &data)) &&
                 OK(symmcoll_symm_rendezvous(it->group, data, NULL, &handle)) &&
                 OK(symmcoll_symm_free(it->world, data)) &&
                 OK(symmcoll_symm_free(it->world, unused));

    write_pattern(it->data, NBYTES, 1);
    right = right && stall(it) &&
            OK(symmcoll_symm_put_data(handle, rank, 0, it->data, NBYTES));
    symmcoll_symm_release(handle);
    return right;
}

static int awaits_before_pools_release(struct symmcoll_group *all, int rank)
{
    struct symmcoll_symm_pool_info info = SYMMCOLL_SYMM_POOL_INFO_INIT;
    struct symmcoll_symm_pool *pool = NULL;
    struct joined it = {0};
    bool right = stall_freed(all, rank, &it, &pool);

    right = right &&
            refused(symmcoll_symm_pool_trim(pool), SYMMCOLL_ERR_TIMEOUT,
                "symm_pool_trim: after", "symm_put_data on stream") &&
            OK(symmcoll_symm_pool_get_info(pool, &info)) &&
            HOLDS(info.freed == 1) && HOLDS(info.freed_nbytes == NBYTES) &&
            refused(symmcoll_symm_pool_free(pool), SYMMCOLL_ERR_TIMEOUT,
                "symm_pool_free: after", "symm_put_data on stream");
    fake_resume(it.stream);
    right = right && OK(symmcoll_symm_pool_trim(pool)) &&
            OK(symmcoll_symm_pool_get_info(pool, &info)) &&
            HOLDS(info.freed == 0) && OK(symmcoll_symm_pool_free(pool));
    return end(all, &it, false) && right;
}

/* Checks that memory to which a copy writes is not reused until the copy has
 * ended. */
static int uses_none_that_is_written(struct symmcoll_group *all, int rank)
{
    struct symmcoll_symm_pool_info info = SYMMCOLL_SYMM_POOL_INFO_INIT;
    struct symmcoll_symm_pool *pool = NULL;
    struct joined it = {0};
    void *fresh = NULL, *again = NULL;
    bool right = stall_freed(all, rank, &it, &pool) &&
                 OK(symmcoll_symm_pool_alloc(pool, NBYTES, &fresh)) &&
                 OK(symmcoll_symm_pool_get_info(pool, &info)) &&
                 HOLDS(info.used == 1) && HOLDS(info.freed == 2);

    if (right)
        write_pattern(fresh, NBYTES, 2);
    fake_resume(it.stream);
    device_wait(it.stream);
    right = right && is_pattern(fresh, NBYTES, 2) &&
            OK(symmcoll_symm_pool_alloc(pool, NBYTES, &again)) &&
            OK(symmcoll_symm_pool_get_info(pool, &info)) &&
            HOLDS(info.used == 2) && HOLDS(info.freed == 1) &&
            is_pattern(again, NBYTES, 1) &&
            OK(symmcoll_symm_free(it.world, fresh)) &&
            OK(symmcoll_symm_free(it.world, again)) &&
            OK(symmcoll_symm_pool_free(pool));
    return end(all, &it, false) && right;
}

/* Checks that memory which a device keeps for good is not reused, and does not
 * prevent the release of the rest, while the handle exists and afterwards. */
static int keeps_what_it_must(struct symmcoll_group *all, int rank)
{
    struct symmcoll_symm_args args = device_args(rank);
    struct symmcoll_symm_pool_info info = SYMMCOLL_SYMM_POOL_INFO_INIT;
    struct symmcoll_symm_pool *pool = NULL;
    struct symmcoll_symm *handle = NULL;
    struct joined it = {0};
    void *unused = NULL, *data = NULL, *fresh = NULL, *again = NULL;
    bool right;

    __lsan_disable(); /* it cannot be freed */
    right = begin(all, rank, &it) &&
            OK(symmcoll_symm_pool_create(it.world, &args, &pool)) &&
            OK(symmcoll_symm_pool_alloc(pool, 64, &unused)) &&
            OK(symmcoll_symm_pool_alloc(pool, NBYTES, &data)) &&
            OK(symmcoll_symm_rendezvous(it.group, data, NULL, &handle)) &&
            OK(symmcoll_symm_free(it.world, data)) &&
            OK(symmcoll_symm_free(it.world, unused)) && stall(&it) &&
            OK(symmcoll_symm_put_data(handle, rank, 0, it.data, NBYTES));
    __lsan_enable();
    right = OK(symmcoll_barrier(all, NULL, NULL)) && right;
    if (right)
        symmcoll_group_abort(it.group, "enough");
    right = right &&
            ended(symmcoll_group_free(it.group), SYMMCOLL_ERR_DEVICE,
                "still owns the buffers of symm_put_data on stream 0x") &&
            refused(symmcoll_symm_pool_trim(pool), SYMMCOLL_ERR_DEVICE,
                "symm_pool_trim: the group that had joined the memory",
                "remains until the process ends") &&
            OK(symmcoll_symm_pool_get_info(pool, &info)) &&
            HOLDS(info.freed == 1) && HOLDS(info.freed_nbytes == NBYTES) &&
            OK(symmcoll_symm_pool_alloc(pool, NBYTES, &fresh)) &&
            HOLDS(fresh != data);
    symmcoll_symm_release(handle);
    right = right && OK(symmcoll_symm_pool_alloc(pool, NBYTES, &again)) &&
            HOLDS(again != data);
    fake_resume(it.stream);
    device_wait(it.stream);
    symmcoll_symm_release(it.handle);
    right = OK(symmcoll_barrier(all, NULL, NULL)) && right;
    device_end_stream(it.stream);
    return right;
}

/* Allocates in another order, so that the next rendezvous retires the previous
 * one, while the group runs a copy elsewhere. */
static int retires_for_later(struct symmcoll_group *all, int rank)
{
    struct symmcoll_symm_args args = device_args(rank);
    struct symmcoll_symm_pool *pool = NULL;
    struct symmcoll_symm *handle = NULL;
    struct joined it = {0};
    void *data = NULL, *fresh = NULL;
    bool right = begin(all, rank, &it) &&
                 OK(symmcoll_symm_pool_create(it.world, &args, &pool)) &&
                 OK(symmcoll_symm_pool_alloc(pool, NBYTES, &fresh)) &&
                 OK(symmcoll_symm_rendezvous(it.group, fresh, NULL, &handle));

    symmcoll_symm_release(handle);
    right = right && OK(symmcoll_symm_free(it.world, fresh)) &&
            stall_copy(&it) && OK(symmcoll_group_set_timeout(it.group, -1));

    /* Rank 1 has new memory, and all ranks join again. */
    if (rank == 1)
        right = OK(symmcoll_symm_pool_alloc(pool, NBYTES, &data)) && right;
    right = right && OK(symmcoll_symm_pool_alloc(pool, NBYTES, &fresh)) &&
            OK(symmcoll_symm_rendezvous(it.group, fresh, NULL, &handle));
    fake_resume(it.stream);
    device_wait(it.stream);
    right = OK(symmcoll_barrier(all, NULL, NULL)) && right;
    symmcoll_symm_release(handle);
    right = right && OK(symmcoll_symm_free(it.world, fresh)) &&
            OK(symmcoll_symm_free(it.world, data)) &&
            OK(symmcoll_symm_pool_free(pool));
    return end(all, &it, false) && right;
}

int main(void)
{
    device_begin();
    faults_begin();
    on_both(2, awaits_before_pools_release,
        "pools release what no copy uses any more, or say what does");
    on_both(2, uses_none_that_is_written,
        "a pool passes over memory that a copy writes to, until that has ended");
    on_both(2, keeps_what_it_must,
        "memory of a pool that a device has for good remains, and nothing else");
    on_both(2, retires_for_later,
        "a rendezvous gives up memory while a copy runs, and that ends");
    faults_end();
    return done_testing();
}
