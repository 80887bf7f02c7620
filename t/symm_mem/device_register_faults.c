/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Tests device memory of the program that cannot be registered or joined: all
 * ranks get the reason, and a peer that dies is named.
 */
#include "t/symm_mem/own.h"
#include "t/world/others.h"

#define SIZE 3
#define VICTIM 1

/* Checks that all ranks can join memory after a refusal. */
static bool can_be_joined(
    struct symmcoll_group *group, int rank, enum kind kind)
{
    struct joined it;
    struct own own = make_own(kind, rank);
    bool right = begin_own(&it, group, rank, &own) && passes_on(&it);

    return end_own(&it, &own, right);
}

/* ---- refused memory ---- */

static bool is_refused(struct symmcoll_group *group, void *data, size_t nbytes,
    const struct symmcoll_symm_args *args, symmcoll_status_t expected,
    const char *text)
{
    return refused(
        symmcoll_symm_register(symmcoll_group_world(group), data, nbytes, args),
        expected, "symm_register: ", text);
}

static int refuses_other_memory(struct symmcoll_group *group, int rank)
{
    struct symmcoll_symm_args args = device_args(rank), other = args;
    char *host = malloc(NBYTES), *freed, *own;
    bool right;

    device_use(rank);
    own = device_alloc(NBYTES);
    freed = device_alloc(NBYTES);
    device_free(freed);
    other.device_index = rank + 4;
    right = is_refused(group, host, NBYTES, NULL, SYMMCOLL_ERR_UNSUPPORTED,
                "which is of none: the host's is symmetric if symm_alloc") &&
            is_refused(group, host, NBYTES, &args, SYMMCOLL_ERR_UNSUPPORTED,
                "which is of no device") &&
            is_refused(group, NULL, NBYTES, NULL, SYMMCOLL_ERR_INVALID,
                "found NULL") &&
            is_refused(group, own, 0, NULL, SYMMCOLL_ERR_INVALID,
                "expected 1 byte or more") &&
            is_refused(group, own, SIZE_MAX, NULL, SYMMCOLL_ERR_INVALID,
                "expected 1 byte or more") &&
            is_refused(group, own, NBYTES, &other, SYMMCOLL_ERR_INVALID,
                "expected memory of device ") &&
            is_refused(group, own + 8, 16, NULL, SYMMCOLL_ERR_INVALID,
                "expected memory at a multiple of 16") &&
            is_refused(group, own + 16, NBYTES, NULL, SYMMCOLL_ERR_INVALID,
                "found 4988: the allocation there has 5004 bytes") &&
            is_refused(group, freed, NBYTES, NULL, SYMMCOLL_ERR_INVALID,
                "which no allocation has");
    other.device_index = 99;
    args.id = 3;
    right = right &&
            is_refused(group, own, NBYTES, &other, SYMMCOLL_ERR_INVALID,
                "expected a device of 0 to 7, found 99") &&
            is_refused(group, own, NBYTES, &args, SYMMCOLL_ERR_INVALID,
                "expected no id, found 3") &&
            HOLDS(symmcoll_symm_is_symmetric(
                      symmcoll_group_world(group), own) == 0);
    free(host);
    device_free(own);
    return right && can_be_joined(group, rank, ALLOCATED);
}

/* Checks that memory which overlaps other memory, of this rank or of a peer,
 * is refused. */
static bool refuses_overlaps(const struct joined *it, char *ours)
{
    struct symmcoll_symm_info info = SYMMCOLL_SYMM_INFO_INIT;

    return is_refused(it->group, it->data, NBYTES, NULL, SYMMCOLL_ERR_INVALID,
               "have been registered") &&
           is_refused(it->group, it->data - 16, 32, NULL, SYMMCOLL_ERR_INVALID,
               "have been registered") &&
           is_refused(it->group, it->data + 4992, 32, NULL,
               SYMMCOLL_ERR_INVALID, "have been registered") &&
           is_refused(it->group, it->data - 32, WHOLE - PAGE, NULL,
               SYMMCOLL_ERR_INVALID, "have been registered") &&
           is_refused(it->group, ours + 16, 16, NULL, SYMMCOLL_ERR_INVALID,
               "have been allocated by symm_alloc") &&
           OK(symmcoll_symm_get_info(it->handle, &info)) &&
           is_refused(it->group, (char *)info.buffers[it->next] + 16, 16, NULL,
               SYMMCOLL_ERR_INVALID, "as this rank has them mapped") &&
           OK(symmcoll_symm_register(it->world, it->data - 32, 32, NULL)) &&
           OK(symmcoll_symm_deregister(it->world, it->data - 32));
}

static int refuses_what_is_symmetric(struct symmcoll_group *group, int rank)
{
    struct symmcoll_symm_args args = device_args(rank);
    struct joined it;
    struct own own;
    char *ours = NULL;
    bool right;

    device_use(rank);
    own = make_own(MAPPED, rank);
    right =
        begin_own(&it, group, rank, &own) &&
        OK(symmcoll_symm_alloc(it.world, 64, &args, (void **)&ours)) &&
        refuses_overlaps(&it, ours) &&
        refused(symmcoll_symm_free(it.world, own.data), SYMMCOLL_ERR_INVALID,
            "symm_free: expected an address",
            "the program's own memory: symm_deregister") &&
        refused(symmcoll_symm_deregister(it.world, ours), SYMMCOLL_ERR_INVALID,
            "symm_deregister: expected an address that has been registered",
            "which symm_free releases") &&
        refused(symmcoll_symm_deregister(it.world, own.data + 16),
            SYMMCOLL_ERR_INVALID, "symm_deregister: ", "inside of") &&
        refused(symmcoll_symm_deregister(it.world, own.begin),
            SYMMCOLL_ERR_INVALID, "symm_deregister: ", "which is none") &&
        OK(symmcoll_symm_deregister(it.world, NULL)) &&
        OK(symmcoll_symm_free(it.world, ours));
    /* The handle still keeps it. */
    right = right && OK(symmcoll_symm_deregister(it.world, own.data)) &&
            is_refused(group, own.data + 16, 16, NULL, SYMMCOLL_ERR_INVALID,
                "expected memory that is not in use") &&
            passes_on(&it);
    symmcoll_symm_release(it.handle);
    it.handle = NULL;
    right =
        right && OK(symmcoll_symm_register(it.world, own.data, NBYTES, NULL));
    return end_own(&it, &own, right);
}

/* Checks that pages which are mapped with the requested ones are refused: of
 * the rank's own allocation, also when only a handle keeps it, of a peer's
 * allocation, and of pads. */
static int refuses_what_is_mapped(struct symmcoll_group *group, int rank)
{
    struct symmcoll_symm_info info = SYMMCOLL_SYMM_INFO_INIT;
    struct joined it;
    char *rest;
    bool right = begin_joined(&it, group, rank, 64) &&
                 OK(symmcoll_symm_get_info(it.handle, &info));

    rest = it.data + PAGE - 16;
    right = right &&
            is_refused(group, it.data + 64, 16, NULL, SYMMCOLL_ERR_INVALID,
                "symm_alloc has mapped 4096 bytes at ") &&
            is_refused(group, rest, 16, NULL, SYMMCOLL_ERR_INVALID,
                "for an allocation of 64") &&
            is_refused(group, (char *)info.buffers[it.next] + 64, 16, NULL,
                SYMMCOLL_ERR_INVALID, "as this rank has them mapped") &&
            is_refused(group, (char *)info.pads[rank] + info.pad, 16, NULL,
                SYMMCOLL_ERR_INVALID, "have been mapped for signal pads") &&
            is_refused(group, (char *)info.pads[it.next], 16, NULL,
                SYMMCOLL_ERR_INVALID, "have been mapped for signal pads") &&
            OK(symmcoll_symm_free(it.world, it.data)) &&
            is_refused(group, rest, 16, NULL, SYMMCOLL_ERR_INVALID,
                "handles of 4096 bytes at ");
    device_wait(it.stream);
    symmcoll_symm_release(it.handle);
    right = OK(symmcoll_group_set_stream(group, NULL)) && right;
    device_end_stream(it.stream);
    return OK(symmcoll_barrier(group, NULL, NULL)) && right &&
           can_be_joined(group, rank, MAPPED);
}

/* Checks that memory which other processes cannot map is refused; threads can
 * share it. */
static int refuses_private_memory(struct symmcoll_group *group, int rank)
{
    struct mapped mapped;
    bool right;

    device_use(rank);
    mapped = map_pages(rank, 1, false);
    right = is_refused(group, (void *)(uintptr_t)mapped.at, PAGE, NULL,
        SYMMCOLL_ERR_UNSUPPORTED, "CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR");
    unmap_pages(&mapped);
    return right;
}

/* One rank has memory of cuMemAlloc(), the others mapped memory. */
static int names_kinds_that_differ(struct symmcoll_group *group, int rank)
{
    struct symmcoll_world *world = symmcoll_group_world(group);
    struct symmcoll_symm *handle = NULL;
    struct own own;
    bool right;

    device_use(rank);
    own = make_own(rank == VICTIM ? ALLOCATED : MAPPED, rank);
    right = OK(symmcoll_symm_register(world, own.data, NBYTES, NULL)) &&
            refused(symmcoll_symm_rendezvous(group, own.data, NULL, &handle),
                SYMMCOLL_ERR_UNSUPPORTED, "symm_rendezvous: ",
                "found that of cuMemCreate() on rank 0 and of cuMemAlloc() on "
                "rank 1") &&
            OK(symmcoll_symm_deregister(world, own.data));
    right = OK(symmcoll_barrier(group, NULL, NULL)) && right;
    free_own(&own);
    return right && can_be_joined(group, rank, MAPPED);
}

/* Registers memory of the same kind that has another size, or begins at
 * another place. */
static int names_sizes_that_differ(struct symmcoll_group *group, int rank)
{
    struct symmcoll_world *world = symmcoll_group_world(group);
    struct symmcoll_symm *handle = NULL;
    struct own own;
    bool right;

    device_use(rank);
    own = make_own(ALLOCATED, rank);
    right = OK(symmcoll_symm_register(
                world, own.data, rank == 1 ? 100 : 101, NULL)) &&
            refused(symmcoll_symm_rendezvous(group, own.data, NULL, &handle),
                SYMMCOLL_ERR_MISMATCH, "sizes differ", "rank 1 passed 100") &&
            refused(symmcoll_symm_rendezvous(
                        group, own.data + (rank == 1 ? 101 : 0), NULL, &handle),
                SYMMCOLL_ERR_NOT_SYMMETRIC, "rank 1: expected an address in",
                "symm_register") &&
            OK(symmcoll_symm_deregister(world, own.data));
    free_own(&own);
    return right && can_be_joined(group, rank, ALLOCATED);
}

/* ---- deaths ---- */

/* The driver call in which the rank dies, and the kind of memory. */
struct death {
    enum kind kind;
    const char *setting;
};

/* Kills a rank in the driver call that opens another rank's memory, or before
 * it sends its own descriptor. */
static int die_in_the_rendezvous(struct faults_rank *self)
{
    const struct death *death = self->arg;
    struct symmcoll_symm *handle = NULL;
    struct joined it;
    struct own own;
    bool right;

    if (!faults_init(self))
        return 1;
    device_use(self->rank);
    /* The backend is open, and so are pads of another allocation. */
    right = begin_joined(&it, self->group, self->rank, 64);
    own = make_own(death->kind, self->rank);
    right = right &&
            OK(symmcoll_symm_register(self->world, own.data, NBYTES, NULL));
    faults_reach(self, 1);
    if (self->rank == VICTIM)
        fake_configure(death->setting);
    faults_note(
        self, symmcoll_symm_rendezvous(self->group, own.data, NULL, &handle));
    right = HOLDS(handle == NULL) &&
            OK(symmcoll_symm_deregister(self->world, own.data)) && right;
    device_wait(it.stream);
    symmcoll_symm_release(it.handle);
    right = OK(symmcoll_symm_free(self->world, it.data)) && right;
    free_own(&own);
    faults_reach(self, 2);
    return faults_finalize(self) != 0 || !right;
}

/* Checks that the error names the call that the program made. */
static bool is_named(const struct faults_note *note)
{
    return faults_said(note, SYMMCOLL_ERR_PEER, "symm_rendezvous", NULL) &&
           HOLDS(strstr(note->detail, "open_backend") == NULL);
}

static void test_death(const struct death *death, const char *what)
{
    struct faults_job job;
    bool told;

    faults_start(&job, SIZE, die_in_the_rendezvous, (void *)(uintptr_t)death);
    told = others_await(&job, VICTIM, 2) && others_know_death(&job, VICTIM);
    for (int r = 0; r < SIZE; r++)
        told = (r == VICTIM || is_named(faults_told(&job, r, 0))) && told;
    ok(faults_finish(&job, 1u << VICTIM) && told, "%s", what);
}

int main(void)
{
    static const struct death opening = {
        ALLOCATED, "fail=cuIpcOpenMemHandle:1:-9"};
    static const struct death sending = {MAPPED, "fail=cuMemMap:2:-9"};

    device_begin();
    faults_begin();
    on_both(2, refuses_other_memory,
        "host memory, freed, another device's, too little: refused (S13)");
    on_both(2, refuses_what_is_symmetric,
        "memory that is symmetric, or still in use, is not registered (S13)");
    on_both(2, refuses_what_is_mapped,
        "the rest of what an allocation or a pad takes is not registered");
    ok(ranks_run(2, refuses_private_memory),
        "memory that other processes cannot map is not registered");
    on_both(3, names_kinds_that_differ,
        "mapped memory of one and memory of cuMemAlloc() of another rank");
    on_both(2, names_sizes_that_differ, "sizes that differ are named");
    test_death(&opening,
        "a peer that dies while it opens registered memory, and the call: named");
    test_death(&sending,
        "a peer that dies before it sends what others map, and the call: named");
    faults_end();
    return done_testing();
}
